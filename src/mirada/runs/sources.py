"""Where a run's records come from, how they are divided, and which of them cannot be used."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from mirada.data.options import DataOptions, TableOptions
from mirada.data.record import Fields, Found, Problem, Record, first_field, held_out, shared_out, summarized
from mirada.errors import require
from mirada.files import expanded

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
SETS = ("train", "valid", "test")
PARTS = {"train": ("train", "training"), "valid": ("valid", "validation", "val", "dev"), "test": ("test",)}
BUILTIN = "builtin "  # how the places of records begin that come with mirada
NAMED = 5  # bad records, or kinds of them, that an error names; `mirada check --all` names all


@dataclass(eq=False)
class Source:
    """Where data is, as the user gave it: paths, values in memory, or nothing, which means the builtin data.

    With `measured` it is not to learn from: all of it is a test set.
    """

    data: Any = ""
    valid: Any = ""
    measured: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.data, tuple) or isinstance(self.valid, tuple):
            from mirada.data.files.memory import side_by_side  # most data is in files

            self.data, self.valid = side_by_side(self.data), side_by_side(self.valid)
        paths = [isinstance(place, str) for place in (self.data, self.valid)]
        self.in_memory = not all(paths)  # some of it, where no other process finds it
        self.builtin = paths[0] and not self.data  # the data that comes with mirada
        self.has_valid = not paths[1] or bool(self.valid)

    @property
    def imported(self) -> bool:
        """Whether the run is a checkpoint from elsewhere, whose data nobody has."""
        return self.data is IMPORTED

    @property
    def described(self) -> str:
        """Where it is, in a word for a person."""
        return "imported" if self.imported else "in memory" if self.in_memory else self.data or "builtin"

    def require_here(self) -> None:
        """Require data that can be read: what was in memory once has to be given again."""
        message = "this run was imported, and its data is not here: give some (data=..., or --data FILE)"
        require(not self.imported, message)
        require(
            self.data is not LOST,
            "this run was trained on data in memory, which is gone: give the data again (data=..., or --data FILE)",
        )


class _Lost:
    """The place of data that is not here: it was in the memory of another program, or where a checkpoint was trained."""


LOST: Any = _Lost()
IMPORTED: Any = _Lost()


@dataclass(frozen=True)
class Splits(Generic[V_co]):
    """Records to learn from, to validate on and to be measured with, and those that cannot be used.

    `probes` are further test sets with a name (the context test of the translations, ...). `whole` is what the records are
    parts of, where there is such a thing: the graph of the nodes, the series of the windows.
    """

    train: Sequence[Record[V_co]]
    valid: Sequence[Record[V_co]]
    test: Sequence[Record[V_co]] = ()
    probes: Mapping[str, Sequence[Record[V_co]]] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()  # what was recognized in the files
    whole: Any = None

    @property
    def builtin(self) -> bool:
        """Whether these are the records that come with mirada, whose settings are known."""
        return any(record.where.startswith(BUILTIN) for record in self.train[:1])


def splits_of(
    source: Source,
    read: Callable[[Any], Found[V]],
    options: DataOptions,
    group: Callable[[V], str] = first_field,
    divide: Callable[[Found[V]], Splits[V]] | None = None,
) -> Splits[V]:
    """The records of a source, divided: as its folder is, by `--valid`, by `split=`, or some are held out.

    `read` reads one place: a path, or a value in memory. Records of one `group` stay together; `divide` is another way to
    divide what one place holds.
    """
    parts, notes = parts_of(source.data), []
    if source.measured:
        content = read(parts.get("test", source.data))
        return Splits((), (), content.records, problems=content.problems, notes=content.notes)
    if source.has_valid:
        parts = {"train": parts.get("train", source.data), "valid": source.valid}
    elif parts:
        notes.append(f"{source.data}: " + ", ".join(f"{name} is {Path(at).name}" for name, at in parts.items()))
    require(not (parts and options.split), "split= divides one file, and here the parts are given. Leave it out.")
    sets = {name: read(place) for name, place in (parts or {"train": source.data}).items()}
    notes += [note for content in sets.values() for note in content.notes]
    problems = [problem for content in sets.values() for problem in content.problems]
    train, valid, test = (sets[name].records if name in sets else () for name in SETS)
    if "valid" in sets:
        return Splits(train, valid, test, problems=problems, notes=notes)
    if divide is not None:
        divided = divide(sets["train"])
        return replace(divided, test=test if parts else divided.test, problems=problems, notes=notes)
    alone = sets["train"].problems and len({group(record.value) for record in train}) < 2
    if not alone:  # else `build` says what is bad
        train, valid, *rest = (
            shared_out(train, options.shares, group) if options.shares else held_out(train, group=group)
        )
        test = rest[0] if rest else test
    return Splits(train, valid, test, problems=problems, notes=notes)


def from_tables(
    source: Source, columns: tuple[str, ...], options: TableOptions, read: Callable[[Any], Found[Fields]] | None = None
) -> Splits[Fields]:
    """The user's rows of fields, from files or from memory. `read` is another reader of one path."""
    from mirada.data.files.memory import rows_in_memory
    from mirada.data.files.records import read_records  # a trained run that answers has no data to read

    from_path = read or partial(read_records, columns=columns, options=options)
    from_memory = partial(rows_in_memory, columns=columns, names=options.names)
    return splits_of(source, lambda place: (from_path if isinstance(place, str) else from_memory)(place), options)


def parts_of(place: Any) -> dict[str, str]:
    """The parts of a folder that is divided already, by their names: train, with valid or test; none where it is not divided."""
    if not isinstance(place, str) or not os.path.isdir(os.path.expanduser(place)):
        return {}
    folder = expanded(place)
    parts: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        name = path.name.split(".")[0].lower()
        part = next((part for part, names in PARTS.items() if name in names), "")
        if part:
            require(part not in parts, f"{folder}: {Path(parts.get(part, '')).name} and {path.name} are both {part}")
            parts[part] = str(path)
    return {part: parts[part] for part in SETS if part in parts} if "train" in parts and len(parts) > 1 else {}


def parts_held_out(source: Source) -> tuple[str, ...]:
    """The parts of a source that we hold out ourselves, where nobody has divided it."""
    if source.measured or source.builtin or source.has_valid:
        return ()
    return tuple(part for part in SETS[1:] if part not in parts_of(source.data))


def numbered(name: str, rows: Iterable[V]) -> list[Record[V]]:
    """Builtin records, each with its place.

    >>> numbered("test", [("a house", "una casa")])
    [Record(where='builtin test:1', value=('a house', 'una casa'))]
    """
    return [Record(f"{BUILTIN}{name}:{number}", row) for number, row in enumerate(rows, 1)]


def embedded(corpus: str) -> Splits[Fields]:
    """A corpus of embedded texts; its sets other than train, valid and test are probes."""
    from mirada.corpora.texts import embedded_texts

    sets = {name: numbered(name, rows) for name, rows in embedded_texts(corpus).items()}
    train, valid, test = (sets.pop(name) for name in SETS)
    return Splits(train, valid, test, sets)


def require_good(problems: Sequence[Problem], options: DataOptions, way_out: str) -> None:
    """Raise an error that names the first bad records, unless they may be skipped."""
    if problems and options.bad == "stop":
        raise ValueError(f"{summarized(problems, NAMED)}\n{way_out}")


def too_few(splits: Splits[V]) -> ValueError:
    """The error for splits without a record to learn from, or without one to validate on."""
    bad = f"{summarized(splits.problems, NAMED)}\n" if splits.problems else ""
    use = "validate on" if splits.train else "learn from"
    way_out = "Give more data, or fix what is bad." if bad else "Give more data."
    return ValueError(f"{bad}no record is left to {use}. {way_out}")


def without(splits: Splits[V], problems: Sequence[Problem]) -> tuple[Splits[V], dict[str, list[int]]]:
    """Splits without the records that have problems, and the rows of those that are kept, by part."""
    bad = {problem.where for problem in problems}
    sets = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    rows = {name: [row for row, record in enumerate(some) if record.where not in bad] for name, some in sets.items()}
    train, valid, test = ([sets[name][row] for row in kept] for name, kept in rows.items())
    return replace(splits, train=train, valid=valid, test=test, problems=problems), rows


def fingerprint(splits: Splits[V], identity: Callable[[V], bytes]) -> str:
    """A short name for exactly these records, so that a run is not resumed with others."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (splits.train, splits.valid):
        for record in part:
            digest.update(identity(record.value) + b"\x1e")
        digest.update(b"\x1d")
    return digest.hexdigest()


def absolute(path: str) -> str:
    """Paths as they can be found again from any folder; a pair of files has a comma.

    >>> absolute("/data/train.en, /data/train.es")
    '/data/train.en,/data/train.es'
    """
    whole = os.path.expanduser(path)
    if "://" in path:  # an address, which the reader refuses by its own name
        return path
    if not path or os.path.exists(whole):
        return os.path.abspath(whole) if path else ""
    return ",".join(os.path.abspath(os.path.expanduser(part.strip())) for part in path.split(","))


TrainingRecords = Callable[[], Sequence[Record]]  # read when somebody asks for them: most of a measuring needs none
