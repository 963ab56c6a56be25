"""A record: one thing to learn from or to measure with, and where it was found."""

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
