"""What can be wrong with records although each of them can be read, and how problems are shown."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import Any

from mirada.data.record import Problem, Record, V
from mirada.errors import require
from mirada.words import plural

QUOTED = re.compile(
    r"""^(no '[^']*')|'[^']*'|"[^"]*\""""
)  # a word of the file; one that is missing is part of the kind


def _itself(value: Any) -> Any:
    """A value that can be compared as it is."""
    return value


def first_field(value: Any) -> str:
    """What rows of a table are grouped by."""
    return value[0]


def shared(
    train: Sequence[Record[V]], valid: Sequence[Record[V]], identity: Callable[[V], Hashable] = _itself
) -> list[Problem]:
    """The records of `valid` that are in `train` as well, to the last letter of their identities: they measure memory.

    >>> shared([Record("a.tsv:7", ("one", "uno"))], [Record("b.tsv:1", ("one", "uno")), Record("b.tsv:2", ("one", "una"))])
    [Problem(where='b.tsv:1', what='also in the training data: a.tsv:7. Take it out of one of them.')]
    """
    places: dict[Hashable, str] = {}
    for record in train:
        places.setdefault(identity(record.value), record.where)
    found = [(record.where, places.get(identity(record.value))) for record in valid]
    return [
        Problem(where, f"also in the training data: {there}. Take it out of one of them.")
        for where, there in found
        if there is not None
    ]


def too_long(
    records: Sequence[Record[V]], lengths: Sequence[Sequence[int]], most: int, columns: tuple[str, ...]
) -> list[Problem]:
    """The records that have a field of more than `most` tokens; `lengths[i][c]` are the tokens of field c of record i.

    >>> too_long([Record("a.tsv:7", ("one", "uno"))], [(3, 9)], most=8, columns=("source", "target"))[0].what
    'too long: target has 9 tokens, at most 8 fit. Split the record, or take a longer length.'
    """
    require(
        len(records) == len(lengths),
        f"there must be lengths for each record: got {len(records)} records, {len(lengths)} lengths",
    )
    problems = []
    for record, row in zip(records, lengths, strict=True):
        long = [f"{column} has {tokens} tokens" for column, tokens in zip(columns, row, strict=True) if tokens > most]
        if long:
            what = f"too long: {', '.join(long)}, at most {most} fit. Split the record, or take a longer length."
            problems.append(Problem(record.where, what))
    return problems


def held_out(
    records: Sequence[Record[V]],
    share: float = 0.05,
    most: int = 2000,
    group: Callable[[V], str] = first_field,
) -> tuple[list[Record[V]], list[Record[V]]]:
    """Split into (train, valid), always in the same way, so that the records of a group stay together: those of rows with
    equal first fields.

    valid has at most min(share * records, most) of them, and at least one

    The groups are taken in the order of their hashes, which has nothing to do with the order of the file: the split of a
    file that grows changes little. A group with too many records for what is left of valid is passed over.

    >>> records = [Record(f"a.tsv:{i}", (f"text {i // 2}", "yes")) for i in range(100)]
    >>> train, valid = held_out(records, share=0.1)
    >>> len(train), len(valid)
    (90, 10)
    """
    require(0 < share < 1, f"the share held out must lie between 0 and 1: got {share}")
    require(most >= 1, f"at least one record must be held out: got most={most}")
    require(bool(records), "there are no records: the data is empty. Give some.")
    sizes = Counter(group(record.value) for record in records)
    require(
        len(sizes) >= 2,
        f"holding out needs at least 2 different records: got {plural(len(records), 'record')}, {len(sizes)} of them different. "
        "Give more data, or a file for validation.",
    )
    room = min(share * len(records), most)
    chosen: set[str] = set()
    for text in sorted(sizes, key=in_hash_order):
        if sizes[text] <= room:
            chosen.add(text)
            room -= sizes[text]
        if room < 1:
            break
    chosen = chosen or {min(sizes, key=lambda text: (sizes[text], in_hash_order(text)))}
    train = [record for record in records if group(record.value) not in chosen]
    return train, [record for record in records if group(record.value) in chosen]


def shared_out(
    records: Sequence[Record[V]], shares: Sequence[float], group: Callable[[V], str] = first_field
) -> list[list[Record[V]]]:
    """Records divided into parts of these shares (train, valid and perhaps test), groups together, as in `held_out`.

    >>> records = [Record(f"a.tsv:{i}", (f"text {i}", "yes")) for i in range(100)]
    >>> [len(part) for part in shared_out(records, (0.8, 0.15, 0.05))]
    [80, 15, 5]
    """
    rest, parts, left = list(records), [], 1.0
    for share in reversed(shares[1:]):
        rest, part = held_out(rest, min(share / left + 1e-9, 1 - 1e-9), max(1, len(records)), group)
        parts.append(part)
        left -= share
    return [rest, *reversed(parts)]


def in_hash_order(text: str) -> bytes:
    """The place of a text in an order that is the same in every process, on every machine."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


def show(problems: Sequence[Problem], most: int = 20) -> str:
    """The first problems, one a line; where there are more, how many, and how many of each kind.

    >>> print(show([Problem(f"a.tsv:{line}", "not UTF-8: byte 3 of the line is 0xe9.") for line in range(1, 6)], most=2))
    a.tsv:1: not UTF-8: byte 3 of the line is 0xe9.
    a.tsv:2: not UTF-8: byte 3 of the line is 0xe9.
    ... and 3 more
    5 x not UTF-8
    """
    lines = [str(problem) for problem in problems[:most]]
    if len(problems) > most:
        kinds = Counter(map(_kind_of, problems))
        lines.append(f"... and {len(problems) - most} more")
        lines += [f"{count} x {kind}" for kind, count in kinds.most_common(most)]
    return "\n".join(lines)


def _kind_of(problem: Problem) -> str:
    """What a problem has in common with others: the beginning of its text."""
    return re.split(r"[:.] |[:.]$", problem.what, maxsplit=1)[0]


def _group_of(problem: Problem) -> tuple[str, str]:
    """What makes problems equal: their kind and the way out, whatever the numbers and the quoted words in them.

    >>> texts = ("approx. 5", "it's")
    >>> one, other = (Problem("a.csv:7", f"text {text!r} in a column of numbers: A. Fix it.") for text in texts)
    >>> _group_of(one) == _group_of(other)
    True
    """
    what = re.sub(r"\d+|\([^)]*\)", "#", QUOTED.sub(lambda found: found[1] or "'", problem.what))
    return _kind_of(Problem(problem.where, what)), what.rstrip(".").rsplit(". ", 1)[-1]


def grouped(problems: Sequence[Problem], most: int = 0, hint: str = "--all lists each") -> str:
    """The first problem of every kind, of `most` kinds if that is given, with how many more there are of it.

    >>> print(grouped([Problem(f"a.tsv:{line}", "empty line. Take it out.") for line in (3, 7, 9)]))
    a.tsv:3: empty line. Take it out.
      and 2 more of this kind (--all lists each)
    """
    kinds: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        kinds.setdefault(_group_of(problem), []).append(problem)
    lines = []
    for found in list(kinds.values())[: most or None]:
        lines.append(str(found[0]))
        if len(found) > 1:
            lines.append(f"  and {len(found) - 1:,} more of this kind ({hint})")
    left = sum(map(len, list(kinds.values())[most:])) if most else 0
    return "\n".join([*lines, *([f"... and {left:,} more of other kinds"] if left else [])])


def summarized(problems: Sequence[Problem], most: int) -> str:
    """All problems where they are few; else the first of every kind."""
    each = len(problems) <= most
    return "\n".join(map(str, problems)) if each else grouped(problems, most, "`mirada check --all` lists each")


def left_out(count: int) -> str:
    """How many records are not used.

    >>> left_out(1), left_out(1200)
    ('1 bad record is left out', '1,200 bad records are left out')
    """
    return f"{count:,} bad record{' is' if count == 1 else 's are'} left out"
