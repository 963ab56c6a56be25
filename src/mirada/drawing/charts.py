"""Charts as inline SVG: lines with gaps where nothing was measured, a legend with values, and all values in a table."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from math import ceil, floor, isfinite, log10
from typing import TypeAlias

from mirada.drawing.page import Item, Markup, card, element, join, scroll
from mirada.errors import unknown
from mirada.words import number, plain, scientific

# Axes of charts: round ticks, their labels, and from values to places.


Ticks: TypeAlias = tuple[tuple[float, str], ...]
Ticked: TypeAlias = tuple[float, float, Ticks]

ROUND = (1, 2, 2.5, 5, 10)
TINY = 1e-100  # below it, powers of ten leave the range of floats
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Axis:
    """Values from low to high lie between two places. Ticks are pairs of a value and its label."""

    low: float
    high: float
    start: float
    end: float
    ticks: Ticks
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value.

        >>> Axis(0, 10, 100, 0, ())(2.5)
        75.0
        """
        low, high, value = (log10(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def linear(low: float, high: float, about: int, whole: bool, least: float = 0.0) -> Ticked:
    """The range and its ticks, at least `least` apart; `whole` widens the range so that it starts and ends at a tick.

    >>> linear(130, 970, about=4, whole=True)
    (0.0, 1000.0, ((0.0, '0'), (250.0, '250'), (500.0, '500'), (750.0, '750'), (1000.0, '1,000')))
    """
    size = max(abs(low), abs(high))
    if not high - low > max(1e-6 * size, TINY):  # too narrow to draw
        room = 0.1 * size if size > TINY else 1.0
        low, high = low - room, high + room
    rough = (high - low) / about
    power = 10.0 ** floor(log10(rough))
    step = max(next(factor * power for factor in ROUND if factor * power >= rough * (1 - 1e-9)), least)
    first, last = low / step, high / step
    # a hair of tolerance: 0.3 / 0.1 is a little less than 3
    begin, end = (floor(first + 1e-9), ceil(last - 1e-9)) if whole else (ceil(first - 1e-9), floor(last + 1e-9))
    values = [index * step for index in range(begin, end + 1)]
    if whole:
        low, high = values[0], values[-1]
    return low, high, tuple(zip(values, _labels(values, step), strict=True))


def _labels(values: list[float], step: float) -> list[str]:
    """Labels of evenly spaced ticks, all in one unit.

    >>> _labels([0, 25000, 50000], 25000), _labels([0, 2e-5], 2e-5)
    (['0', '25k', '50k'], ['0', '2e-5'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    if largest < 1e-3 or largest >= 1e13:
        digits = max(2, ceil(log10(max(largest, step) / step)))  # so that neighbors differ
        return [scientific(value, digits) if value else "0" for value in values]
    unit, name = next(((unit, name) for unit, name in UNITS if largest >= 10 * unit), (1.0, ""))
    return [f"{_short(value / unit, step / unit)}{name}" if value else "0" for value in values]


def _short(value: float, step: float) -> str:
    """A tick with the decimals that its step needs."""
    decimals = max(0, ceil(-log10(step) - 1e-9))
    if round(step * 10**decimals, 6) % 1:  # 2.5 needs one more than its size says
        decimals += 1
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def logarithmic(low: float, high: float) -> Ticked:
    """The range of positive values and ticks at 1, 2 and 5 times the powers of ten, or at the powers alone.

    >>> [label for _, label in logarithmic(3, 400)[2]]
    ['2', '5', '10', '20', '50', '100', '200', '500']
    """
    first, last = floor(log10(low)), ceil(log10(high))
    factors = (1, 2, 5) if last - first <= 4 else (1,)
    # one power more on each side: a logarithm may be a hair off
    values = [factor * 10.0**power for power in range(first - 1, last + 2) for factor in factors]
    below = max(value for value in values if value <= low)
    above = min(value for value in values if value >= high and value > below)
    inside = [value for value in values if below <= value <= above]
    return below, above, tuple((value, _labels([value], value)[0]) for value in inside)


# Curves of a chart, and how they become strokes: sorted, without what has no place, thinned with every peak kept.


MOST = 240  # points of a curve that can still be told apart
COLORS, DASHES = 6, ("", "6 3", "2 3", "8 3 2 3")

ENDS = ("lowest", "highest")

Point: TypeAlias = tuple[float, float | None]


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Args:
        name: Its name in the legend.
        points: Pairs of a step and a value; a value that is None or not finite leaves a gap.
        best: Which end is good, "lowest" or "highest": that point is marked and its value written out.

    >>> Curve("valid", ((1, 2.5), (2, None), (3, 1.5)), best="lowest").empty
    False
    """

    name: str
    points: tuple[Point, ...]
    best: str = ""

    def __post_init__(self) -> None:
        if self.best and self.best not in ENDS:
            raise unknown("best of a curve", self.best, ENDS)

    @property
    def empty(self) -> bool:
        """Whether it has no points."""
        return not self.points


def _drawable(value: float | None) -> bool:
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
        """The CSS class of its color."""
        return f"c{self.number % COLORS + 1}"

    @property
    def dashes(self) -> str | None:
        """Its dashes in SVG; None for a full line."""
        return DASHES[self.number % len(DASHES)] or None

    @property
    def drawn(self) -> list[tuple[float, float]]:
        """The points that have a place on the axes."""
        return [(step, value) for step, value in self.points if value is not None and _drawable(value)]


def stroke_of(curve: Curve, index: int) -> Stroke:
    """What is drawn of a curve; a step that is not a number has no place at all."""
    points = dict(curve.points)  # the last value of a step counts: a resumed run measures again
    placed = sorted(((step, points[step]) for step in points if _drawable(step)), key=lambda point: point[0])
    good = [(step, value) for step, value in placed if value is not None and _drawable(value)]
    extreme = min if curve.best == "lowest" else max
    best = extreme(good, key=lambda point: point[1]) if good and curve.best else None
    last, skipped = good[-1] if good else None, len(points) - len(good)
    return Stroke(curve.name, thinned(tuple(placed), MOST), len(placed), skipped, best, curve.best, last, index)


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
        good = [(value, index) for index in stretch if (value := points[index][1]) is not None and _drawable(value)]
        gaps = [index for index in stretch if not _drawable(points[index][1])]
        kept |= {min(good)[1], max(good, key=lambda pair: pair[0])[1]} if good else set()
        kept |= set(gaps[:1])
    return tuple(points[index] for index in sorted(kept))


WIDTH, HEIGHT = 440, 250
TOP, RIGHT, BOTTOM = 24, 16, 38
LETTER = 6.6  # about the width of a digit in the labels' size
FEW = 40  # points that each get a dot
SCALES = ("linear", "from zero", "log")


@dataclass(frozen=True)
class Chart(Item):
    """Curves over one axis of steps.

    Args:
        title: The heading.
        curves: The lines.
        x: The name of the steps.
        y: The name of the values.
        scale: Of the values: "linear", "from zero" (amounts, such as speeds) or "log", which needs positive values; a
            chart with others is drawn linear.

    >>> Chart("Loss", (Curve("valid", ((1, 2.5), (2, 1.5)), best="lowest"),)).empty
    False
    """

    title: str
    curves: tuple[Curve, ...]
    x: str = "step"
    y: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise unknown("scale of a chart", self.scale, SCALES)

    @property
    def empty(self) -> bool:
        return all(curve.empty for curve in self.curves)

    def draw(self) -> Markup:
        lines = [stroke_of(curve, index) for index, curve in enumerate(self.curves) if not curve.empty]
        drawn = [point for line in lines for point in line.drawn]
        picture = _svg(self, lines) if drawn else element("p", "There is no finite value to draw.", class_="caution")
        return card(self.title, legend(lines), picture, warnings(lines), _table(self, lines), class_="chart card")


def _axes_of(value: Chart, lines: list[Stroke]) -> tuple[Axis, Axis]:
    """The axis of steps and the axis of values."""
    steps = [step for line in lines for step, _ in line.drawn]
    values = [y for line in lines for _, y in line.drawn]
    low, high = min(values), max(values)
    log = value.scale == "log" and low > TINY
    if value.scale == "from zero":
        low, high = min(low, 0.0), max(high, 0.0)
    low, high, ticks = logarithmic(low, high) if log else linear(low, high, 4, whole=True)
    left = 14 + LETTER * max(len(label) for _, label in ticks)
    y = Axis(low, high, HEIGHT - BOTTOM, TOP, ticks, log)
    apart = 1.0 if all(float(step).is_integer() for step in steps) else 0.0  # there is no half a step
    low, high, ticks = linear(min(steps), max(steps), 5, whole=False, least=apart)
    return Axis(low, high, left, WIDTH - RIGHT, ticks), y


def _svg(value: Chart, lines: list[Stroke]) -> Markup:
    """Grid, labels, lines, dots and the marks of the best points."""
    x, y = _axes_of(value, lines)
    names = [
        element("text", value.x, x=plain(x.end), y=plain(HEIGHT - 5), class_="end name"),
        element("text", value.y, x=4, y=12, class_="name") if value.y else None,
    ]
    curves = [*(polylines(line, x, y) for line in lines), *(_mark(line, x, y) for line in lines)]
    alternative = f"{value.title}. " + " ".join(_in_words(value, line) for line in lines)
    parts = [grid(x, y), feet(x, y.start), *names, *curves, cross(x, y)]
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=alternative)


def grid(x: Axis, y: Axis) -> Markup:
    """A line and a label for every tick of the values."""
    parts = []
    for tick, label in y.ticks:
        height = plain(y(tick))
        parts.append(element("line", x1=plain(x.start), x2=plain(x.end), y1=height, y2=height, class_="grid"))
        parts.append(element("text", label, x=plain(x.start - 6), y=plain(y(tick) + 4), class_="end"))
    return join(parts)


def feet(x: Axis, floor: float) -> Markup:
    """The line at the foot of a picture, with its ticks and their labels."""
    parts = [element("line", x1=plain(x.start), x2=plain(x.end), y1=plain(floor), y2=plain(floor), class_="axis")]
    for tick, label in x.ticks:
        place = plain(x(tick))
        parts.append(element("line", x1=place, x2=place, y1=plain(floor), y2=plain(floor + 4), class_="axis"))
        parts.append(element("text", label, x=place, y=plain(floor + 17), class_=_anchor(x(tick), label)))
    return join(parts)


def _anchor(place: float, label: str) -> str | None:
    """Labels are centered at their tick unless they would leave the picture."""
    half = LETTER * len(label) / 2
    if place + half > WIDTH - 2:
        return "end"
    return "middle" if place >= half else None


def cross(x: Axis, y: Axis) -> Markup:
    """The line that follows the pointer."""
    left = plain(x.start)
    return element("line", x1=left, x2=left, y1=plain(y.end), y2=plain(y.start), class_="cross")


def polylines(line: Stroke, x: Axis, y: Axis, name_of: Callable[[float], str] = number) -> Markup:
    """A curve: a polyline per stretch without gaps, dots for isolated points and where points are few."""
    parts = []
    for good, run in groupby(line.points, key=lambda point: _drawable(point[1])):
        if not good:
            continue
        places = [(x(step), y(height), step, height) for step, height in run if height is not None]
        if len(places) > 1:
            path = " ".join(f"{plain(across)},{plain(up)}" for across, up, _, _ in places)
            parts.append(element("polyline", points=path, stroke_dasharray=line.dashes))
        if len(places) == 1 or len(line.points) <= FEW:
            for across, up, step, height in places:
                title = element("title", f"{line.name}: {number(height)} at {name_of(step)}")
                parts.append(element("circle", title, cx=plain(across), cy=plain(up), r=2.5))
    return element("g", *parts, class_=f"curve {line.color}")


def _mark(line: Stroke, x: Axis, y: Axis) -> Markup | None:
    """A ring around the best point."""
    if line.best is None:
        return None
    step, value = line.best
    title = element("title", f"{line.name}, {line.which}: {number(value)} at {number(step)}")
    return element("circle", title, cx=plain(x(step)), cy=plain(y(value)), r=5, class_=f"best {line.color}")


def legend(lines: list[Stroke], *more: Markup | None) -> Markup:
    """Names with their last and best values; the script writes the values under the pointer here."""
    entries = []
    for line in lines:
        kind = f"swatch {line.color}"
        stroke = element("line", x1=0, x2=22, y1=5, y2=5, stroke_dasharray=line.dashes, class_=kind)
        swatch = element("svg", stroke, viewBox="0 0 22 10", width=22, height=10, aria_hidden="true")
        last = element("b", number(line.last[1]) if line.last else number(None), class_="now")
        text = f"{line.which} {number(line.best[1])} at {number(line.best[0])}" if line.best is not None else ""
        best = element("small", text) if text else None
        name = element("span", line.name, dir="auto")
        entries.append(element("li", swatch, name, element("small", "last"), last, best))
    return element("ul", *entries, *more, class_="legend")


def _in_words(value: Chart, line: Stroke) -> str:
    """A curve in words."""
    if line.last is None:
        return f"{line.name}: no finite value."
    first = line.drawn[0]
    best = f", {line.which} {number(line.best[1])} at {number(line.best[0])}" if line.best else ""
    last = f"{number(line.last[1])} at {number(line.last[0])}"
    return f"{line.name}: {number(first[1])} at {value.x} {number(first[0])}, {last}{best}."


def warnings(lines: list[Stroke]) -> Markup:
    """What the picture does not show."""
    texts = []
    for line in lines:
        if line.skipped:
            plural = "value is" if line.skipped == 1 else "values are"
            text = f"{line.name}: {number(line.skipped)} {plural} missing or not finite."
            texts.append(element("p", text, class_="caution"))
        if len(line.points) < line.given:
            text = f"{line.name}: {number(len(line.points))} of {number(line.given)} points; every peak is kept."
            texts.append(element("p", text, class_="remark"))
    return join(texts)


def _table(value: Chart, lines: list[Stroke]) -> Markup:
    """All values, folded away; the script reads the places of the steps from here."""
    columns = [dict(line.points) for line in lines]
    steps = sorted({step for column in columns for step in column})
    x = _axes_of(value, lines)[0] if any(line.drawn for line in lines) else None
    rows = []
    for step in steps:
        cells = [element("td", number(column[step]) if step in column else None) for column in columns]
        place = plain(x(step)) if x is not None and x.low <= step <= x.high else None
        rows.append(element("tr", element("th", number(step), scope="row"), *cells, data_x=place))
    names = [value.x, *(line.name for line in lines)]
    head = element("tr", *(element("th", name, scope="col", dir="auto") for name in names))
    whole = element("table", element("thead", head), element("tbody", *rows), class_="numbers")
    return element("details", element("summary", "Values"), scroll(whole, f"Values of {value.title}"))
