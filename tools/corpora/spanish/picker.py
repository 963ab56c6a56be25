"""Chance that depends on nothing but its seed."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Picker:
    """Picks from sequences.

    >>> Picker(0).pick("abc") == Picker(0).pick("abc")
    True
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random  # uniform in [0, 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def chance(self, share: float) -> bool:
        return self.random() < share
