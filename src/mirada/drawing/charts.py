"""Charts as inline SVG: lines with gaps where nothing was measured, a legend with values, and all values in a table."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from mirada.drawing.axes import TINY, Axis, linear, logarithmic
from mirada.drawing.curves import Curve, Stroke, drawable, stroke_of
from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, join, scroll
from mirada.drawing.numerals import number, plain
from mirada.errors import unknown

WIDTH, HEIGHT = 440, 250
TOP, RIGHT, BOTTOM = 24, 16, 38
LETTER = 6.6  # about the width of a digit in the labels' size
FEW = 40  # points that each get a dot
SCALES = ("linear", "from zero", "log")


@dataclass(frozen=True)
class Chart(Item):
    """Curves over one axis. The scale of values is "linear", "from zero" (amounts, such as speeds) or "log".

    A log scale needs positive values; a chart with others is drawn linear.

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
        picture = svg(self, lines) if drawn else element("p", "There is no finite value to draw.", class_="caution")
        return element(
            "figure",
            element("figcaption", element("h3", self.title, dir="auto")),
            legend(lines),
            picture,
            warnings(lines),
            table(self, lines),
            class_="chart card",
        )


def axes_of(value: Chart, lines: list[Stroke]) -> tuple[Axis, Axis]:
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


def svg(value: Chart, lines: list[Stroke]) -> Markup:
    """Grid, labels, lines, dots and the marks of the best points."""
    x, y = axes_of(value, lines)
    names = [
        element("text", value.x, x=plain(x.end), y=plain(HEIGHT - 5), class_="end name"),
        element("text", value.y, x=4, y=12, class_="name") if value.y else None,
    ]
    return element(
        "svg",
        grid(x, y), feet(x, y.start), *names,
        *(polylines(line, x, y) for line in lines),
        *(mark(line, x, y) for line in lines),
        cross(x, y),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{value.title}. " + " ".join(told(value, line) for line in lines),
    )  # fmt: skip


def grid(x: Axis, y: Axis) -> Markup:
    """A line and a label for every tick of the values."""
    left, right = plain(x.start), plain(x.end)
    return join(
        part
        for tick, label in y.ticks
        for part in (
            element("line", x1=left, x2=right, y1=plain(y(tick)), y2=plain(y(tick)), class_="grid"),
            element("text", label, x=plain(x.start - 6), y=plain(y(tick) + 4), class_="end"),
        )
    )


def feet(x: Axis, floor: float) -> Markup:
    """The line at the foot of a picture, with its ticks and their labels."""
    parts = [element("line", x1=plain(x.start), x2=plain(x.end), y1=plain(floor), y2=plain(floor), class_="axis")]
    for tick, label in x.ticks:
        place = plain(x(tick))
        parts.append(element("line", x1=place, x2=place, y1=plain(floor), y2=plain(floor + 4), class_="axis"))
        parts.append(element("text", label, x=place, y=plain(floor + 17), class_=anchor(x(tick), label)))
    return join(parts)


def anchor(place: float, label: str) -> str | None:
    """Labels stand in the middle of their tick unless they would leave the picture."""
    half = LETTER * len(label) / 2
    if place + half > WIDTH - 2:
        return "end"
    return "middle" if place >= half else None


def cross(x: Axis, y: Axis) -> Markup:
    """The line that follows the pointer."""
    left = plain(x.start)
    return element("line", x1=left, x2=left, y1=plain(y.end), y2=plain(y.start), class_="cross")


def polylines(line: Stroke, x: Axis, y: Axis, name_of: Callable[[float], str] = number) -> Markup:
    """A curve: a polyline per stretch without gaps, a dot where a point stands alone or where points are few."""
    parts = []
    for good, run in groupby(line.points, key=lambda point: drawable(point[1])):
        if not good:
            continue
        places = [(x(step), y(height), step, height) for step, height in run if height is not None]
        if len(places) > 1:
            path = " ".join(f"{plain(across)},{plain(up)}" for across, up, _, _ in places)
            parts.append(element("polyline", points=path, stroke_dasharray=line.dashes))
        if len(places) == 1 or len(line.points) <= FEW:
            parts += [
                element(
                    "circle",
                    element("title", f"{line.name}: {number(height)} at {name_of(step)}"),
                    cx=plain(across), cy=plain(up), r=2.5,
                )
                for across, up, step, height in places
            ]  # fmt: skip
    return element("g", *parts, class_=f"curve {line.color}")


def mark(line: Stroke, x: Axis, y: Axis) -> Markup | None:
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
        swatch = element(
            "svg",
            element("line", x1=0, x2=22, y1=5, y2=5, stroke_dasharray=line.dashes, class_=f"swatch {line.color}"),
            viewBox="0 0 22 10", width=22, height=10, aria_hidden="true",
        )  # fmt: skip
        last = element("b", number(line.last[1]) if line.last else number(None), class_="now")
        best = None
        if line.best is not None:
            best = element("small", f"{line.which} {number(line.best[1])} at {number(line.best[0])}")
        name = element("span", line.name, dir="auto")
        entries.append(element("li", swatch, name, element("small", "last"), last, best))
    return element("ul", *entries, *more, class_="legend")


def told(value: Chart, line: Stroke) -> str:
    """A curve in words."""
    if line.last is None:
        return f"{line.name}: no finite value."
    first = line.drawn[0]
    best = f", {line.which} {number(line.best[1])} at {number(line.best[0])}" if line.best else ""
    return (
        f"{line.name}: {number(first[1])} at {value.x} {number(first[0])}, "
        f"{number(line.last[1])} at {number(line.last[0])}{best}."
    )


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


def table(value: Chart, lines: list[Stroke]) -> Markup:
    """All values, folded away; the script reads the places of the steps from here."""
    columns = [dict(line.points) for line in lines]
    steps = sorted({step for column in columns for step in column})
    x = axes_of(value, lines)[0] if any(line.drawn for line in lines) else None
    rows = []
    for step in steps:
        cells = [element("td", number(column[step]) if step in column else None) for column in columns]
        place = plain(x(step)) if x is not None and x.low <= step <= x.high else None
        rows.append(element("tr", element("th", number(step), scope="row"), *cells, data_x=place))
    names = [value.x, *(line.name for line in lines)]
    head = element("tr", *(element("th", name, scope="col", dir="auto") for name in names))
    whole = element("table", element("thead", head), element("tbody", *rows), class_="numbers")
    return element("details", element("summary", "Values"), scroll(whole, f"Values of {value.title}"))
