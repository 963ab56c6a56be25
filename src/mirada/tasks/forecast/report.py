"""The report of forecasts: errors next to those of plain ones, and charts of the past, the forecast and the truth."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mirada.drawing import charts
from mirada.drawing.attention.weights import ColorScale
from mirada.drawing.page import Item, Markup, Section, element, scroll
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.tasks.forecast.errors import (
    FORECASTS,
    WindowErrors,
    coverage,
    metrics_of,
    mixture,
    verdict,
    what_attention_adds,
)
from mirada.tasks.forecast.next_rows import NextRows, forecast_from, patch_spans
from mirada.tasks.forecast.scale import SeriesScale
from mirada.tasks.forecast.windows import SeriesWindow, WindowRecord
from mirada.words import number, plain, shortened

Series: TypeAlias = tuple[float | None, ...]
HEIGHT, FLOOR = 300, 216
STRIP, ABOVE = 40, 16  # height of the strip of weights, and the room above it
# names with the numbers of their looks: the truth has a color of its own and no dashes, the forecast is dashed above it
KNOWN, TRUTH, FORECAST = ("known", 0), ("truth", 8), ("forecast", 1)
MIDNIGHT = re.compile(r"[ T]00:00(:00)?(\.0+)?$")
SECONDS = re.compile(r"(?<=\d\d:\d\d):00(\.0+)?$")
SHOWN_ROWS, SHOWN_SERIES, SHOWN_TARGETS = 12, 4, 4  # of the next values
PAST_SHOWN = 4  # times the horizon
SHOWN = 2  # windows of a kind in the report
MOST_STRIPS = 4  # other columns whose weights a chart shows
UNITS = "Errors are in standard deviations of the training rows, over all windows and targets."
SEEN = "The bars below a curve show where the last attention layer looked."


def sections(run: Run, records: Sequence[WindowRecord], answers: Sequence[Answer]) -> list[Section]:
    """The errors next to those of plain forecasts, then typical windows, good ones and the worst."""
    measured = WindowErrors.together([answer.value for answer in answers])
    errors = measured.errors
    order = np.argsort(errors[:, 0, 0].mean(-1), kind="stable")
    places = np.array([record.value.first for record in records])
    distance = run.known.size.horizon

    def windows(around: float, count: int) -> tuple[ForecastChart, ...]:
        """Windows whose errors stand at that share of their order."""
        near = sorted(range(len(order)), key=lambda rank: abs(rank - around * (len(order) - 1)))
        rows = apart([int(order[rank]) for rank in near], places, distance, count)
        return tuple(_chart(run, records[row].value, errors[row]) for row in rows)

    known: SeriesScale = run.known
    metrics = metrics_of(measured, known)
    names = [name for name in FORECASTS if f"mse_{name}".rstrip("_") in metrics]
    rows = tuple(
        (FORECASTS[name], metrics[f"mse_{name}".rstrip("_")], metrics[f"mae_{name}".rstrip("_")]) for name in names
    )
    tables = [DataTable("", ("forecast", "MSE", "MAE"), rows)]
    if len(known.targets) > 1:
        each = tuple(
            (name, *errors[:, : len(names), 0, place].mean(0).tolist()) for place, name in enumerate(known.targets)
        )
        heads = ("column", *(name or "the answer" for name in names))
        tables.append(DataTable("MSE of every column", heads, each))
    sentences = verdict(metrics), what_attention_adds(metrics, known.shares), mixture(known.shares, known.plain.names)
    summary = " ".join(filter(None, (*sentences, coverage(metrics), UNITS)))
    typical = f"Typical windows, in the middle by their errors, then good ones. {SEEN}"
    return [
        *_next_values(run, records),
        Section("Beside plain forecasts", summary, tuple(tables)),
        Section("Forecasts", typical, windows(0.5, SHOWN) + windows(0.1, SHOWN)),
        Section("Worst errors", "Windows that do not overlap, the worst first.", windows(1.0, SHOWN)),
    ]


def _next_values(run: Run, records: Sequence[WindowRecord]) -> list[Section]:
    """The rows after the last ones of the series that was measured with: what a forecast is made for."""
    known: SeriesScale = run.known
    several = list({id(record.value.series): record.value.series for record in records}.values())[:SHOWN_SERIES]
    items, rows = [], []
    for series in several:
        answer = forecast_from(run, series, len(series), series.name or series.place)
        forecast: NextRows = answer.value
        past = range(
            max(len(series) - PAST_SHOWN * known.size.horizon, len(series) - known.size.lookback, 0), len(series)
        )
        for place, target in enumerate(known.targets[:SHOWN_TARGETS]):
            ends = tuple(
                () if end is None else tuple(end[:, place].tolist()) for end in (forecast.low, forecast.high)
            )  # fmt: skip
            values = tuple(series.of([target])[past.start :, 0].tolist())
            times = tuple(series.times.texts[row] for row in past) + forecast.times
            items.append(
                ForecastChart(
                    " ".join(filter(None, (series.name, target))), times, values, tuple(forecast.values[:, place].tolist()),
                    low=ends[0], high=ends[1], interval=f"{forecast.percent} % interval",
                )
            )  # fmt: skip
        columns, cells = replace(forecast, shown=True).table()
        rows += [tuple(row) for row in cells[:SHOWN_ROWS]]
    every = len({id(record.value.series) for record in records})
    shown = [f"the first {len(several)} of {every:,} series"] if every > len(several) else []
    shown += [f"the first {SHOWN_ROWS} rows"] if len(cells) > SHOWN_ROWS else []
    limits = f" Here are {' and '.join(shown)}; mirada run writes all of them." if shown else ""
    text = f"What comes after the last rows of the data.{limits}"
    return [Section("Next values", text, (*items, DataTable("", tuple(columns), tuple(rows))))]


def in_a_sentence(run: Run, metrics: Mapping[str, float], records: Sequence[WindowRecord]) -> str:
    """The result for somebody who knows none of the metrics, and the next values."""
    known: SeriesScale = run.known
    series = records[-1].value.series
    forecast: NextRows = forecast_from(run, series, len(series), series.place).value
    last = len(forecast.times) - 1
    place, target = 0, known.targets[0]
    off = metrics["mae"]
    if len(known.targets) == 1 and not known.series:
        size = f"off by {number(off * float(known.scale(series)[1][known.places([target])[0]]))} on average"
    else:
        size = f"off by {number(off)} standard deviations on average"
    less = 1 - off / metrics["mae_repeat"] if metrics["mae_repeat"] > 0 else 0.0
    beside = f"{100 * abs(less):.0f} % {'less' if less >= 0 else 'more'} than repeating the last value"

    def value(row: int) -> str:
        cell = forecast.cells()[row][place]
        if forecast.low is None or forecast.high is None:
            return f"{cell} at {forecast.times[row]}"
        digits = forecast.decimals[row][place]
        low, high = (f"{end[row, place]:.{digits}f}" for end in (forecast.low, forecast.high))
        return f"{cell} ({low} to {high}) at {forecast.times[row]}"

    named = " ".join(filter(None, (series.name, target)))
    steps = value(0) if last == 0 else f"{value(0)}, {value(last)}"
    return f"Forecasts are {size}, {beside}; next for {named}: {steps}."


def apart(order: Sequence[int], places: NDArray[np.int64], distance: int, count: int) -> list[int]:
    """The first windows of an order that do not overlap with those before them.

    >>> apart([3, 2, 0, 1], np.array([10, 11, 12, 13]), distance=2, count=2)
    [3, 0]
    """
    chosen: list[int] = []
    for window in order:
        if all(abs(places[window] - places[other]) >= distance for other in chosen):
            chosen.append(int(window))
        if len(chosen) == count:
            break
    return chosen


def _chart(run: Run, window: SeriesWindow, errors: NDArray[np.float64]) -> "ForecastChart":
    """The forecast of one window for its target with the largest error, with the truth and where the model looked."""
    known: SeriesScale = run.known
    series, first = window
    answer = forecast_from(run, series, first, series.where[first])
    rows: NextRows = answer.value
    place = int(errors[0, 0].argmax())
    target, past = known.targets[place], range(first - known.size.lookback, first)
    values = series.of([target])[past.start : first + known.size.horizon, 0].tolist()
    looked = _by_step(run, answer, place)
    own = looked.pop(target, ()) if target in looked else looked.pop("", ())
    others = sorted(looked.items(), key=lambda item: -sum(item[1]))[:MOST_STRIPS]
    low, high = (() if end is None else tuple(end[:, place].tolist()) for end in (rows.low, rows.high))
    name = " ".join(filter(None, (series.name, target)))
    return ForecastChart(
        name, tuple(series.times.texts[row] for row in past) + rows.times, tuple(values[: len(past)]),
        tuple(rows.values[:, place].tolist()), tuple(values[len(past) :]), own, others=tuple(others),
        note=f"MSE {errors[0, 0, place]:.3f}; repeated {errors[1, 0, place]:.3f}, linear {errors[2, 0, place]:.3f}",
        low=low, high=high, interval=f"{rows.percent} % interval",
    )  # fmt: skip


def _by_step(run: Run, answer: Answer, place: int) -> dict[str, tuple[float, ...]]:
    """How much a target looked at every step of every column; without names where a step is read as a whole."""
    config, lookback = run.model.config, run.known.size.lookback
    assert answer.weights is not None
    if config.kind != "patches":
        return {"": tuple(answer.weights.mean(0).tolist())}
    row = answer.weights[min(place, len(answer.weights) - 1)]
    spans = patch_spans(lookback, config.patch)
    names = run.known.columns if config.across else [run.known.targets[place] if config.channels != "mixed" else ""]
    return {
        name: tuple(
            share / (end - begin) for share, (begin, end) in zip(shares, spans, strict=True) for _ in range(begin, end)
        )
        for name, shares in zip(names, row.reshape(-1, len(spans)).tolist(), strict=True)
    }


@dataclass(frozen=True)
class ForecastChart(Item):
    """Values over time: the `past` that the model read, then `forecast` next to the `truth`, with the times of both parts.

    `weights`, one per step of the past, is how much the model looked at it; `others` are the same for other columns that it
    read, by name. `low` and `high` are the ends of the intervals around the forecast, and `interval` what they are called.
    A value that is None leaves a gap.

    >>> ForecastChart("price", ("Mon", "Tue", "Wed"), (1.0, 2.0), (2.5,), truth=(2.25,), weights=(0.1, 0.9)).empty
    False
    """

    title: str
    times: tuple[str, ...]
    past: Series
    forecast: Series
    truth: Series = ()
    weights: tuple[float, ...] = ()
    y: str = ""
    note: str = ""
    others: tuple[tuple[str, tuple[float, ...]], ...] = ()
    low: Series = ()
    high: Series = ()
    interval: str = ""

    def __post_init__(self) -> None:
        steps = len(self.past) + len(self.forecast)
        require(len(self.times) == steps, f"there must be a time per step: got {len(self.times)} for {steps} steps")
        require(
            len(self.truth) in (0, len(self.forecast)),
            f"the truth must have a value per predicted step, or none: got {len(self.truth)} for {len(self.forecast)}",
        )
        for end in (self.low, self.high):
            require(len(end) in (0, len(self.forecast)), f"an interval has two ends per predicted step: got {len(end)}")
        for weights in (self.weights, *(weights for _, weights in self.others)):
            require(
                len(weights) in (0, len(self.past)),
                f"there must be a weight per known step, or none: got {len(weights)} for {len(self.past)} steps",
            )

    @property
    def empty(self) -> bool:
        return not self.forecast

    @property
    def shows_attention(self) -> bool:
        return bool(self.strips)

    @property
    def strips(self) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """The weights of every column, by the name that is shown next to them."""
        named = ((self.title if self.others else "weight", self.weights), *self.others)
        return tuple((name, weights) for name, weights in named if weights)

    @property
    def scale(self) -> ColorScale:
        """One scale for all strips: they are to be compared."""
        return ColorScale.of(tuple(weights for _, weights in self.strips))

    def strokes(self) -> list[charts.Stroke]:
        """The lines, in the order of the legend and of the columns of the table."""
        now = len(self.past)
        parts = ((KNOWN, 0, self.past), (TRUTH, now, self.truth), (FORECAST, now, self.forecast))
        curves = [(charts.Curve(look[0], tuple(enumerate(values, start))), look[1]) for look, start, values in parts]
        return [charts.stroke_of(curve, index) for curve, index in curves if not curve.empty]

    def draw(self) -> Markup:
        """The chart, its legend, and all values in a folded table."""
        lines = self.strokes()
        drawn = any(line.drawn for line in lines)
        interval_entry = None
        if self.band():
            area = element("i", class_="bar-sign interval", aria_hidden="true")
            interval_entry = element("li", area, element("span", self.interval))
        weight_entry = None  # where the script writes the weight under the pointer
        if self.strips:
            sign = element("i", class_="bar-sign", aria_hidden="true")
            top = number(max((w for _, weights in self.strips for w in weights if isfinite(w)), default=None))
            largest = element("small", "largest"), element("b", top, class_="now")
            weight_entry = element("li", sign, element("span", "weight"), *largest)
        return element(
            "figure",
            element(
                "figcaption",
                element("h3", self.title, dir="auto"),
                element("span", self.note, class_="remark", dir="auto") if self.note else None,
            ),
            charts.legend(lines, interval_entry, weight_entry),
            self.svg(lines) if drawn else element("p", "There is no finite value to draw.", class_="caution"),
            charts.warnings(lines),
            element("p", self.looked(), class_="remark") if self.strips else None,
            self.table(lines, self.axes(lines)[0] if drawn else None),
            class_="chart forecast-chart card",
        )

    def axes(self, lines: list[charts.Stroke]) -> tuple[charts.Axis, charts.Axis]:
        """Steps from left to right with their times, values from bottom to top."""
        values = [value for line in lines for _, value in line.drawn]
        values += [value for points in self.band() for _, value in points]
        low, high, ticks = charts.linear(min(values), max(values), 4, whole=True)
        y = charts.Axis(low, high, FLOOR, charts.TOP, ticks)
        labels = [label for _, label in ticks]
        if self.strips:
            labels += [number(self.scale.top), *(shortened(name, 9, "\u2026") for name, _ in self.strips)]
        left = 14 + charts.LETTER * max(map(len, labels))
        last = max(len(self.times) - 1, 1)
        return charts.Axis(
            0, last, left, charts.WIDTH - charts.RIGHT, self.ticks(charts.WIDTH - charts.RIGHT - left)
        ), y

    def band(self) -> list[list[tuple[int, float]]]:
        """The upper and the lower ends of the intervals, by step, where both can be drawn."""
        steps = [
            (step, high, low) for step, (high, low) in enumerate(zip(self.high, self.low, strict=False), len(self.past))
            if high is not None and low is not None and isfinite(high) and isfinite(low)
        ]  # fmt: skip
        return [[(step, high) for step, high, _ in steps], [(step, low) for step, _, low in steps]] if steps else []

    def interval_area(self, x: charts.Axis, y: charts.Axis) -> Markup | None:
        """The intervals as an area; a single one as a line."""
        if not self.band():
            return None
        high, low = self.band()
        around = [f"{plain(x(step))},{plain(y(value))}" for step, value in (*high, *reversed(low))]
        return element("polygon", element("title", self.interval), points=" ".join(around), class_="interval")

    def ticks(self, room: float) -> tuple[tuple[float, str], ...]:
        """As many times as there is room for, the first and the last among them."""
        names = _short_times(self.times)
        fitting = int(room // (charts.LETTER * max(map(len, names)) + 16))
        count = min(max(fitting, 1), 5, len(names))
        places = {round(index * (len(names) - 1) / max(count - 1, 1)) for index in range(count)}
        return tuple((float(place), names[place]) for place in sorted(places))

    def svg(self, lines: list[charts.Stroke]) -> Markup:
        """The curves above the strips of weights, on one axis of times."""
        x, y = self.axes(lines)
        now = plain(x(len(self.past) - 0.5)) if self.past else None
        named = now and float(now) + 4 + charts.LETTER * len("forecast") < charts.WIDTH
        foot = FLOOR + (STRIP + ABOVE) * len(self.strips)
        return element(
            "svg",
            charts.grid(x, y), charts.feet(x, foot),
            element("text", self.y, x=4, y=12, class_="name") if self.y else None,
            element("line", x1=now, x2=now, y1=charts.TOP, y2=plain(foot), class_="present") if now else None,
            element("text", "forecast", x=plain(float(now) + 4), y=charts.TOP - 3, class_="name") if now and named else None,
            *(self.strip(x, place) for place in range(len(self.strips))),
            self.interval_area(x, y),
            *(charts.polylines(line, x, y, lambda step: self.times[int(step)]) for line in lines),
            charts.cross(x, y),
            viewBox=f"0 0 {charts.WIDTH} {foot + 26}",
            role="img",
            aria_label=f"{self.title}. {self.description(lines)}",
        )  # fmt: skip

    def description(self, lines: list[charts.Stroke]) -> str:
        """The picture in words."""
        spans = []
        for line in lines:
            ends = (f"{number(line.drawn[end][1])} at {self.times[int(line.drawn[end][0])]}" for end in (0, -1))
            spans += [f"{line.name}: {' to '.join(ends)}."] if line.drawn else []
        return " ".join([*spans, *([self.looked()] if self.strips else [])])

    def looked(self) -> str:
        """The strongest steps in words."""
        steps = [(value, name, index) for name, weights in self.strips for index, value in enumerate(weights)]
        order = sorted((step for step in steps if isfinite(step[0])), key=lambda step: -abs(step[0]))[:3]
        named = ", ".join(
            f"{f'{name} ' if self.others else ''}{self.times[index]} ({number(value)})" for value, name, index in order
        )
        even = 1 / sum(len(weights) for _, weights in self.strips)
        totals = [(sum(filter(isfinite, weights)), name) for name, weights in self.strips]
        whole, shares = sum(total for total, _ in totals), ""  # of every column
        if len(totals) > 1 and whole > 0:
            shares = " In all: " + ", ".join(f"{name} {100 * total / whole:.0f} %" for total, name in totals) + "."
        return f"Looked most at {named}; even would be {number(even)}.{shares}"

    def strip(self, x: charts.Axis, place: int) -> Markup:
        """A bar per known step: its height is the weight. Steps too narrow to be seen share a bar, the highest wins."""
        name, weights = self.strips[place]
        base, scale = FLOOR + (STRIP + ABOVE) * (place + 1), self.scale
        together = max(1, round(len(weights) / (x(len(weights)) - x(0))))
        points = [(x.start, float(base))]
        for start in range(0, len(weights), together):
            end = min(start + together, len(weights))
            height = max(scale.share(value) for value in weights[start:end]) * STRIP
            left, right = max(x(start - 0.5), x.start), min(x(end - 0.5), x.end)
            points += [(left, base - height), (right, base - height)]
        points.append((points[-1][0], base))
        path = " ".join(f"{plain(across)},{plain(up)}" for across, up in points)
        title = f"{name}: weights of the known steps, up to {number(scale.top)}"
        return element(
            "g",
            element("polygon", element("title", title), points=path, class_="looked-at"),
            element("text", number(scale.top), x=plain(x.start - 6), y=plain(base - STRIP + 9), class_="end")
            if place == 0
            else None,
            element("line", x1=plain(x.start), x2=plain(points[-1][0]), y1=plain(base), y2=plain(base), class_="floor"),
            element("text", shortened(name, 9, "\u2026"), x=plain(x.start - 6), y=plain(base - 3), class_="end name"),
        )

    def table(self, lines: list[charts.Stroke], x: charts.Axis | None) -> Markup:
        """All values, folded away; the script reads the places of the times from here."""
        now = len(self.past)
        columns = {"known": (0, self.past), "forecast": (now, self.forecast), "truth": (now, self.truth)}
        ends = [(now, self.low), (now, self.high)] if self.band() else []
        shown = [columns[line.name] for line in lines] + ends + [(0, weights) for _, weights in self.strips]
        rows = []
        for step, time in enumerate(self.times):
            inside = (values[step - start : step - start + 1] if step >= start else () for start, values in shown)
            cells = [element("td", *map(number, value)) if value else element("td", None) for value in inside]
            place = plain(x(step)) if x is not None else None
            rows.append(element("tr", element("th", time, scope="row"), *cells, data_x=place))
        seen = [f"weight of {name}" if self.others else name for name, _ in self.strips]
        names = ["time", *(line.name for line in lines), *(("low", "high") if ends else ()), *seen]
        head = element("tr", *(element("th", name, scope="col") for name in names))
        whole = element("table", element("thead", head), element("tbody", *rows), class_="numbers")
        return element("details", element("summary", "Values"), scroll(whole, f"Values of {self.title}"))


def _short_times(times: tuple[str, ...]) -> tuple[str, ...]:
    """Times without what all of them share and nobody needs: midnights, whole minutes.

    >>> _short_times(("2016-07-01 00:00:00", "2016-07-02 00:00:00")), _short_times(("2016-07-01 05:15:00", "07:30"))
    (('2016-07-01', '2016-07-02'), ('2016-07-01 05:15:00', '07:30'))
    """
    for ending in (MIDNIGHT, SECONDS):
        if all(ending.search(time) for time in times):
            times = tuple(ending.sub("", time) for time in times)
    return tuple(shortened(time, 19, "\u2026") for time in times)
