"""Where a run's records come from, and which of them cannot be used."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mirada.data.check import held_out, shared, show, too_long
from mirada.data.records import Record, read_records
from mirada.data.text import Problem
from mirada.tasks.task import DataConfig, Place, Splits

if TYPE_CHECKING:
    from mirada.tasks.run import Run

SETS = ("train", "valid", "test")
NAMED = 5  # bad records that an error names; `mirada check` names all


def from_files(place: Place, columns: tuple[str, ...], options: DataConfig) -> Splits:
    """The user's records; without a validation file, some are held out."""
    found = read_records(place.data, columns, options.names)
    if not place.valid:
        return divided(found.records, found.problems)
    if place.valid == place.data:  # a file to be measured on is no training data
        return Splits((), found.records, problems=found.problems)
    measured = read_records(place.valid, columns, options.names)
    return Splits(found.records, measured.records, problems=[*found.problems, *measured.problems])


def divided(records: Sequence[Record], found: Sequence[Problem]) -> Splits:
    """Records to learn from and some to validate on; where bad ones leave too few, `require_both` will tell."""
    if found and len({record.fields[0] for record in records}) < 2:
        return Splits(records, (), problems=found)
    train, valid = held_out(records)
    return Splits(train, valid, problems=found)


def numbered(name: str, rows: Iterable[tuple[str, ...]]) -> list[Record]:
    """Builtin records, each with its place.

    >>> numbered("test", [("a house", "una casa")])
    [Record(where='builtin test:1', fields=('a house', 'una casa'))]
    """
    return [Record(f"builtin {name}:{number}", row) for number, row in enumerate(rows, 1)]


def problems(splits: Splits, run: "Run") -> list[Problem]:
    """Every record that cannot be used: those that could not be read, those too long for the model, those in both splits."""
    found = list(splits.problems)
    for records in (splits.train, splits.valid):
        found += too_long(records, run.task.lengths(records, run), run.length, run.task.columns)
    return found + shared(splits.train, splits.valid)


def usable(
    splits: Splits,
    found: Sequence[Problem],
    options: DataConfig,
    way_out: str = "Mend these records, or leave them out with bad=skip.",
) -> Splits:
    """The splits without bad records, if they may be skipped; otherwise an error that names the first ones."""
    if not found:
        return splits
    if options.bad == "stop":
        raise ValueError(f"{show(found, NAMED)}\n{way_out}")
    bad = {problem.where for problem in found}
    train, valid = ([record for record in part if record.where not in bad] for part in (splits.train, splits.valid))
    return Splits(train, valid, splits.test, splits.probes, found)


def require_both(splits: Splits) -> Splits:
    """The splits, if there is something to learn from and something to validate on."""
    for records, use in ((splits.train, "learn from"), (splits.valid, "validate on")):
        if not records:
            bad = f"{show(splits.problems, NAMED)}\n" if splits.problems else ""
            raise ValueError(f"{bad}no record is left to {use}. Give more data, or mend what is bad.")
    return splits


def fingerprint(splits: Splits) -> str:
    """A short name for exactly these records, so that a run is not resumed with others."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (splits.train, splits.valid):
        for record in part:
            digest.update("\x1f".join(record.fields).encode() + b"\x1e")
        digest.update(b"\x1d")
    return digest.hexdigest()
