"""Which head follows which relation between words, always beside the best fixed offset."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HeadRelation:
    """How often the word that a head looks at most is the one that a relation names.

    `baseline` is the same share for the best fixed offset: "always the word `offset` places on".
    """

    relation: str
    stream: str
    head: int
    accuracy: float
    baseline: float
    offset: int
    count: int
