"""Products of parameters of which the default suite tries a part, and `-m slow` the rest."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def pairs_first(*axes: Sequence[Any]) -> list[Any]:
    """A product of axes: quick is what has every value of each axis beside every value of the others; the rest is slow.

    The last axis is the shortest. Its value follows from the others': their places are added up.

    >>> [mark.values for mark in pairs_first("abc", "xy", "12") if not mark.marks]
    [('a', 'x', '1'), ('a', 'y', '2'), ('b', 'x', '2'), ('b', 'y', '1'), ('c', 'x', '1'), ('c', 'y', '2')]
    """
    *longer, last = axes
    assert all(len(axis) >= len(last) for axis in longer)
    found = []
    for *places, end in product(*map(range, map(len, axes))):
        values = [axis[place] for axis, place in zip(axes, [*places, end], strict=True)]
        marks = [] if end == sum(places) % len(last) else [pytest.mark.slow]
        found.append(pytest.param(*values, marks=marks, id="-".join(map(str, [*places, end]))))
    return found


def slow(parameters: Iterable[Any], but: Iterable[int]) -> list[Any]:
    """Parameters of which only those at some places are quick.

    >>> [bool(mark.marks) for mark in slow(["a", "b", "c"], but=[0, 2])]
    [False, True, False]
    """
    quick, found = set(but), []
    for place, value in enumerate(parameters):
        values = value if isinstance(value, tuple) else (value,)
        found.append(pytest.param(*values, marks=[] if place in quick else [pytest.mark.slow]))
    return found
