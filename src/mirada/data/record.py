"""A record: one thing to learn from or to measure with, and its place; what a file holds of them; how they are checked and split;
and how problems are shown.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Generic, TypeVar

from mirada.errors import require
from mirada.words import plural

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Record(Generic[V_co]):
    """A value with its place: `pairs.tsv:418`, `pictures/cat/7.png`, `prices.csv:12`, `node 5`.

    What a value is, the task says: the fields of a row, a picture with its label, the number of a node.

    >>> Record("pairs.tsv:418", ("the house", "la casa"))
    Record(where='pairs.tsv:418', value=('the house', 'la casa'))
    """

    where: str
    value: V_co


@dataclass(frozen=True, slots=True)
class Problem:
    """A bad record: where it is, and what is wrong. `what` begins with its kind, up to the first colon or full stop.

    >>> print(Problem("pairs.tsv:418", "expected 2 columns, found 1. Each line is source<TAB>target."))
    pairs.tsv:418: expected 2 columns, found 1. Each line is source<TAB>target.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Found(Generic[V_co]):
    """What a source holds, in its order: good records, what is wrong with the others, and what was recognized."""

    records: Sequence[Record[V_co]]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()  # shown to the user


Fields = tuple[str, ...]  # of a row
TableRow = Record[Fields]
Read = Found[Fields]  # the fields are stripped and never empty


EMPTY = "empty line. Take it out."
MOST_PROBLEMS = 1_000_000  # bad records that are kept: more would fill the memory, and show nothing new


def check_count(problems: int, where: str, what: str) -> None:
    """Stop at a file that has more bad records than anybody will read."""
    if problems >= MOST_PROBLEMS:
        raise ValueError(
            f"{where}: {what}\nThis is the bad record {problems + 1:,}. Is it the right file, and in the right format?"
        )


class RecordCollector:
    """Collect good records and problems. Empty lines are problems, except at the end of the file.

    With `optional`, only the first column must not be empty.
    """

    def __init__(self, columns: tuple[str, ...], optional: bool = False) -> None:
        self.columns, self.optional = columns, optional
        self.records: list[TableRow] = []
        self.problems: list[Problem] = []
        self.blank: list[str] = []  # places of empty lines that nothing has followed yet

    def skip(self, where: str) -> None:
        """An empty line."""
        check_count(len(self.problems) + len(self.blank), where, EMPTY)
        self.blank.append(where)

    def take(self, where: str, cells: Iterable[str]) -> None:
        """A record of these cells, stripped; a problem if one of them is empty."""
        fields = tuple([cell.strip() for cell in cells])  # a list is quicker than a generator
        if "" in fields and not (self.optional and fields[0]):
            empty = " and ".join(name for name, field in zip(self.columns, fields, strict=True) if not field)
            self.refuse(where, f"no text for {empty}. Fill it in, or take the record out.")
            return
        if self.blank:
            self.flush()
        self.records.append(Record(where, fields))

    def refuse(self, where: str, what: str) -> None:
        """A bad record."""
        check_count(len(self.problems) + len(self.blank), where, what)
        self.flush()
        self.problems.append(Problem(where, what))

    def flush(self) -> None:
        """Empty lines that are followed by something are problems."""
        self.problems += [Problem(where, EMPTY) for where in self.blank]
        self.blank = []

    def read(self, note: str = "", path: str = "") -> Read:
        """The records and the problems so far, with a note if there is one, which may be about a file."""
        notes = (f"{path}: {note}" if path else note,) if note else ()
        return Read(tuple(self.records), tuple(self.problems), notes)


# What can be wrong with records although each of them can be read, how they are split, and how problems are shown.


# a word of the file; one that is missing is part of the kind
QUOTED = re.compile(r"""^(no '[^']*')|'[^']*'|"[^"]*\"""")
first_field: Callable[[Any], str] = itemgetter(0)  # what rows of a table are grouped by


def shared(
    train: Sequence[Record[V]], valid: Sequence[Record[V]], identity: Callable[[V], Hashable] | None = None
) -> list[Problem]:
    """The records of `valid` that are in `train` as well, with equal identities: on them, validation measures memory.

    >>> shared([Record("a.tsv:7", ("one", "uno"))], [Record("b.tsv:1", ("one", "uno")), Record("b.tsv:2", ("one", "una"))])
    [Problem(where='b.tsv:1', what='also in the training data: a.tsv:7. Take it out of one of them.')]
    """
    of = identity or (lambda value: value)
    places = {of(record.value): record.where for record in reversed(train)}  # of equal ones, the first
    return [
        Problem(record.where, f"also in the training data: {places[own]}. Take it out of one of them.")
        for record in valid
        if (own := of(record.value)) in places
    ]


def too_long(
    records: Sequence[Record[V]],
    lengths: Sequence[Sequence[int]],
    most: int,
    columns: tuple[str, ...],
    way_out: str = "Split the record, or take a longer length.",
) -> list[Problem]:
    """The records that have a field of more than `most` tokens; `lengths[i][c]` are the tokens of field c of record i.

    >>> too_long([Record("a.tsv:7", ("one", "uno"))], [(3, 9)], most=8, columns=("source", "target"))[0].what
    'too long: target has 9 tokens, at most 8 fit. Split the record, or take a longer length.'
    """
    if len(records) != len(lengths):
        raise ValueError(f"there must be lengths for each record: got {len(records)} records, {len(lengths)} lengths")
    problems = []
    for record, row in zip(records, lengths, strict=True):
        long = [f"{column} has {tokens} tokens" for column, tokens in zip(columns, row, strict=True) if tokens > most]
        if long:
            what = f"too long: {', '.join(long)}, at most {most} fit. {way_out}"
            problems.append(Problem(record.where, what))
    return problems


def held_out(
    records: Sequence[Record[V]], share: float = 0.05, most: int = 2000, group: Callable[[V], str] = first_field
) -> tuple[list[Record[V]], list[Record[V]]]:
    """Split into (train, valid), always in the same way, so that the records of a group stay together: those of rows with
    equal first fields.

    valid has at most min(share * records, most) of them, and at least one

    The groups are taken in the order of their hashes, which has nothing to do with the order of the file: the split of a
    file that grows changes little. A group with more records than valid has room for is skipped.

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
    rest, parts, remaining = list(records), [], 1.0
    for share in reversed(shares[1:]):
        rest, part = held_out(rest, min(share / remaining + 1e-9, 1 - 1e-9), max(1, len(records)), group)
        parts.append(part)
        remaining -= share
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
    """What equal problems have in common: their kind and the way out, whatever the numbers and the quoted words in them.

    >>> texts = ("approx. 5", "it's")
    >>> one, other = (Problem("a.csv:7", f"text {text!r} in a column of numbers: A. Fix it.") for text in texts)
    >>> _group_of(one) == _group_of(other)
    True
    """
    what = re.sub(r"\d+|\([^)]*\)", "#", QUOTED.sub(lambda quoted: quoted[1] or "'", problem.what))
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
    for same in list(kinds.values())[: most or None]:
        lines.append(str(same[0]))
        if len(same) > 1:
            lines.append(f"  and {len(same) - 1:,} more of this kind ({hint})")
    others = sum(map(len, list(kinds.values())[most:])) if most else 0
    return "\n".join([*lines, *([f"... and {others:,} more of other kinds"] if others else [])])


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
