"""A record: one thing to learn from or to measure with, and where it was found; and what a file holds of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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
    """What a place holds, in its order: good records, what is wrong with the others, and what was recognized."""

    records: Sequence[Record[V_co]]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()  # for the person


Fields = tuple[str, ...]  # of a row
TableRow = Record[Fields]
Read = Found[Fields]  # the fields are stripped and never empty


EMPTY = "empty line. Take it out."
MOST_PROBLEMS = 1_000_000  # bad records that are kept: more would fill the memory, and tell nothing new


def check_count(problems: int, where: str, what: str) -> None:
    """Stop at a file that has more bad records than anybody will look at."""
    if problems >= MOST_PROBLEMS:
        raise ValueError(
            f"{where}: {what}\nThis is the bad record {problems + 1:,}. Is it the right file, and in the right format?"
        )


class RecordCollector:
    """Good records to one side, problems to the other. Empty lines are problems, except at the end of the file."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.records: list[TableRow] = []
        self.problems: list[Problem] = []
        self.blank: list[str] = []  # where the empty lines are that nothing has followed yet

    def skip(self, where: str) -> None:
        """An empty line."""
        check_count(len(self.problems) + len(self.blank), where, EMPTY)
        self.blank.append(where)

    def take(self, where: str, cells: Iterable[str]) -> None:
        """A record of these cells, stripped; a problem if one of them is empty."""
        fields = tuple([cell.strip() for cell in cells])  # a list is quicker than a generator
        if "" in fields:
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
        """Empty lines that something has followed are problems."""
        self.problems += [Problem(where, EMPTY) for where in self.blank]
        self.blank = []

    def read(self, note: str = "", path: str = "") -> Read:
        """What was found; a note may be about a file."""
        notes = (f"{path}: {note}" if path else note,) if note else ()
        return Read(tuple(self.records), tuple(self.problems), notes)
