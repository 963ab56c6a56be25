"""Curves ready to be drawn: sorted, without what has no place, and thinned so that no peak is lost."""

from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from mirada.drawing.contents import Curve

MOST = 240  # points of a curve that can still be told apart
COLORS, DASHES = 6, ("", "6 3", "2 3", "8 3 2 3")

Point: TypeAlias = tuple[float, float | None]


def drawable(value: float | None) -> bool:
    """Whether a value has a place on an axis; the bound keeps differences finite."""
    return value is not None and isfinite(value) and abs(value) < 1e100


@dataclass(frozen=True)
class Line:
    """A curve ready to be drawn: sorted by step, thinned, with its best and last points."""

    name: str
    points: tuple[Point, ...]
    given: int
    skipped: int
    best: tuple[float, float] | None
    which: str
    last: tuple[float, float] | None
    number: int

    @property
    def color(self) -> str:
        return f"c{self.number % COLORS + 1}"

    @property
    def dashes(self) -> str | None:
        return DASHES[self.number % len(DASHES)] or None

    @property
    def drawn(self) -> list[tuple[float, float]]:
        return [(step, value) for step, value in self.points if value is not None and drawable(value)]


def line_of(curve: Curve, index: int) -> Line:
    """What is drawn of a curve; a step that is not a number has no place at all."""
    points = dict(curve.points)  # the last value of a step counts: a resumed run measures again
    placed = sorted(((step, points[step]) for step in points if drawable(step)), key=lambda point: point[0])
    good = [(step, value) for step, value in placed if value is not None and drawable(value)]
    best = None
    if good and curve.best:
        best = (min if curve.best == "lowest" else max)(good, key=lambda point: point[1])
    return Line(
        name=curve.name,
        points=thinned(tuple(placed), MOST),
        given=len(placed),
        skipped=len(points) - len(good),
        best=best,
        which=curve.best,
        last=good[-1] if good else None,
        number=index,
    )


def thinned(points: tuple[Point, ...], most: int) -> tuple[Point, ...]:
    """At most about `most` points: the ends, and the extremes and one gap of each stretch: no spike is lost.

    >>> thinned(tuple((i, 9.0 if i == 500 else 1.0) for i in range(1000)), most=8)
    ((0, 1.0), (250, 1.0), (500, 9.0), (501, 1.0), (750, 1.0), (999, 1.0))
    """
    if len(points) <= most:
        return points
    size = -(-len(points) // (most // 2))
    kept = {0, len(points) - 1}
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        good = [(value, index) for index in stretch if (value := points[index][1]) is not None and drawable(value)]
        gaps = [index for index in stretch if not drawable(points[index][1])]
        kept |= {min(good)[1], max(good, key=lambda pair: pair[0])[1]} if good else set()
        kept |= set(gaps[:1])
    return tuple(points[index] for index in sorted(kept))
