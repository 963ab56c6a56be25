"""Curves of a chart, and how they become strokes: sorted, without what has no place, thinned with every peak kept."""

from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from mirada.errors import unknown

MOST = 240  # points of a curve that can still be told apart
COLORS, DASHES = 6, ("", "6 3", "2 3", "8 3 2 3")

ENDS = ("lowest", "highest")

Point: TypeAlias = tuple[float, float | None]


@dataclass(frozen=True)
class Curve:
    """A line of a chart: (step, value) pairs; a value that is None or not finite leaves a gap.

    `best` says which end is good, "lowest" or "highest": that point is marked and its value written out.
    """

    name: str
    points: tuple[Point, ...]
    best: str = ""

    def __post_init__(self) -> None:
        if self.best and self.best not in ENDS:
            raise unknown("best of a curve", self.best, ENDS)

    @property
    def empty(self) -> bool:
        return not self.points


def drawable(value: float | None) -> bool:
    """Whether a value has a place on an axis; the bound keeps differences finite."""
    return value is not None and isfinite(value) and abs(value) < 1e100


@dataclass(frozen=True)
class Stroke:
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


def stroke_of(curve: Curve, index: int) -> Stroke:
    """What is drawn of a curve; a step that is not a number has no place at all."""
    points = dict(curve.points)  # the last value of a step counts: a resumed run measures again
    placed = sorted(((step, points[step]) for step in points if drawable(step)), key=lambda point: point[0])
    good = [(step, value) for step, value in placed if value is not None and drawable(value)]
    best = None
    if good and curve.best:
        best = (min if curve.best == "lowest" else max)(good, key=lambda point: point[1])
    return Stroke(
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
