"""From the latest rows of a series to the next ones, and where the model looked."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.attention.kernels.request import Request
from mirada.data.record import show
from mirada.errors import require
from mirada.looking.labels import Labels, TimeLabels, WrittenStep
from mirada.looking.record import Call, Seen
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.sources import NAMED
from mirada.tasks.forecast.errors import combined
from mirada.tasks.forecast.intervals import USUAL, band
from mirada.tasks.forecast.scale import SeriesScale, csv_text
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries, joined, series_in


@dataclass(frozen=True, eq=False)
class NextRows:
    """A forecast: the values of the targets at the times to come, and intervals that hold a share of the true values.

    `names` are the series that rows are of, where there are several, and `series` the column that has them. `shown` says
    whether the intervals are columns of the table.
    """

    time: str  # the name of the column of times; none where there is no such column
    times: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]  # (rows, targets)
    decimals: Sequence[Sequence[int]]  # of every row
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    percent: int = USUAL
    shown: bool = False
    series: str = ""
    names: tuple[str, ...] = ()

    def cells(self) -> list[list[str]]:
        """The values as they are written."""
        return self._written(self.values)

    def _written(self, values: NDArray[np.float64]) -> list[list[str]]:
        rows = zip(values.tolist(), self.decimals, strict=True)
        return [[f"{x:.{digits}f}" for x, digits in zip(row, each, strict=True)] for row, each in rows]

    def text(self) -> str:
        """The rows as a CSV file."""
        return csv_text(*self.table())

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Columns and rows, as the file of the latest rows has them."""
        columns, rows = list(self.columns), self.cells()
        if self.shown and self.low is not None and self.high is not None:
            columns = [name + end for name in columns for end in ("", "_low", "_high")]
            parts = zip(rows, self._written(self.low), self._written(self.high), strict=True)
            rows = [[cell for cells in zip(*part, strict=True) for cell in cells] for part in parts]
        for name, cells in ((self.time, self.times), (self.series, self.names)):
            if name:
                columns, rows = [name, *columns], [[cell, *row] for cell, row in zip(cells, rows, strict=True)]
        return columns, rows

    def more(self) -> dict[str, Any]:
        """What `--json` shows."""
        named = {"series": list(self.names)} if self.series else {}
        described = named | {"times": list(self.times), "columns": list(self.columns), "values": _rounded(self.values)}
        if self.low is not None and self.high is not None:
            described |= {"low": _rounded(self.low), "high": _rounded(self.high), "interval": self.percent}
        return described

    @classmethod
    def together(cls, several: Sequence[Self]) -> Self:
        """The rows of several series, one below the other."""
        low, high = (
            np.concatenate([getattr(one, end) for one in several]) if several[0].low is not None else None
            for end in ("low", "high")
        )
        return replace(
            several[0], times=tuple(time for one in several for time in one.times), low=low, high=high,
            values=np.concatenate([one.values for one in several]), decimals=[row for one in several for row in one.decimals],
            names=tuple(name for one in several for name in one.names),
        )  # fmt: skip


def _rounded(values: NDArray[np.float64]) -> list[list[float]]:
    return [[float(f"{x:.8g}") for x in row] for row in values.tolist()]


def answer_of(run: Run, given: Any, interval: int = 0) -> Answer:
    """The answer to the latest rows, of several series to those of each: a path, rows in memory, or what `latest_rows` read."""
    read = isinstance(given, tuple) and all(isinstance(one, TimeSeries) for one in given)
    several = given if read else latest_rows(run, given)
    name = str(given) if isinstance(given, str | Path) else several[0].place
    answers = [forecast_from(run, series, len(series), name, interval) for series in several]
    if len(answers) == 1:
        return answers[0]
    rows = NextRows.together([answer.value for answer in answers])
    return replace(answers[0], text=rows.text(), value=rows, more=rows.more())


def latest_rows(run: Run, given: Any) -> tuple[TimeSeries, ...]:
    """The series in a path or in memory, whose last rows must be good and enough."""
    known: SeriesScale = run.known
    place = str(given) if isinstance(given, str | Path) else given
    names = joined(known.inputs)
    options = run.reading
    assert isinstance(options, SeriesOptions)
    with run.explained(place):
        options = replace(
            options, target=names, inputs=names, series=known.series or "no", categories=known.context.columns
        )
        several = series_in(place, options, known.pattern, known.spacing)
    lookback = known.size.lookback
    if known.series:
        several = tuple(series for series in several if len(series) >= lookback) or several[:1]
    for series in several:
        named = f" of {series.name}" if series.name else ""
        require(
            len(series) >= lookback,
            f"{series.place}: a forecast reads the last {lookback:,} rows{named}, and there are {len(series):,}. "
            "Give more rows.",
        )
        before = set(series.where[:-lookback])
        bad = [problem for problem in series.problems if problem.where not in before]
        require(not bad or options.bad == "skip", f"{show(bad, NAMED)}\nFix these rows, or train with bad=skip.")
    return several


def forecast_from(run: Run, series: TimeSeries, first: int, name: str, interval: int = 0) -> Answer:
    """The answer for the rows before `first`, and where the model looked."""
    known: SeriesScale = run.known
    rows = range(first - known.size.lookback, first)
    read = torch.from_numpy(known.standardized(series, known.inputs)[rows.start : rows.stop]).float().unsqueeze(0)
    last_values = torch.zeros(1, len(known.targets))
    last_values[:, : known.own] = read[:, -1, : known.own]
    inputs: tuple[Tensor, ...] = (read, last_values)
    if known.context.kinds:
        inputs += (torch.from_numpy(known.codes_around(series, first)).unsqueeze(0),)
    seen = run.look(*inputs)
    with torch.inference_mode():
        values = run.model(*(x.to(run.device) for x in inputs))[0].double().cpu().numpy()
    if known.own == len(known.targets):
        past_values = read[0, :, : known.own].double().numpy()
        zeros = np.broadcast_to(known.zeros(series, known.targets), past_values.shape)
        plain = known.plain.forecast(past_values, zeros, np.zeros(1, np.int64))
        values = combined(known.shares, [values, *(forecast[0] for forecast in plain)])
    past = [series.times.texts[row] for row in rows]
    times = tuple(series.times.texts[first : first + known.size.horizon])
    if first == len(series):
        times = series.times.take(rows).after(known.size.horizon)
    forecast = _next_rows(known, series, values, times, interval)
    labels = partial(_labels_of, known, run.model.config, read, past, forecast, series, name)
    from_axis, to_axis, weights = _looked_at(run, seen, past, times)
    return Answer(
        name, forecast.text(), math.nan, forecast, read=to_axis, written=from_axis, weights=weights,
        more=forecast.more(), replay=partial(_look, run, inputs, labels),
    )  # fmt: skip


def _next_rows(
    known: SeriesScale, series: TimeSeries, values: NDArray[np.float64], times: tuple[str, ...], interval: int
) -> NextRows:
    """Standardized values as rows of a table, with intervals of that share of the true values, or of the usual one."""
    percent, ends = interval or USUAL, (None, None)
    if known.spread is not None:
        low, high = band(known.spread, percent)
        ends = tuple(known.in_units(values + end, known.targets, series) for end in (low, high))  # type: ignore[assignment]
    require(known.spread is not None or not interval, "this run knows no intervals: train it again")
    return NextRows(
        series.time, times, known.targets, known.in_units(values, known.targets, series),
        [known.decimals(known.targets, series)] * len(times), *ends, percent, interval > 0, known.series,
        (series.name,) * len(times) if known.series else (),
    )  # fmt: skip


def _looked_at(
    run: Run, seen: Seen, past: Sequence[str], times: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...], Tensor]:
    """What was written, what was read, and how much the last attention layer looked from one at the other.

    Recurrent nets and decoders look from every time to come at every time that was. Patches of a column look at each other:
    a row is a target, a column a patch; across all columns, their patches stand one column after the other.
    """
    config, known = run.model.config, run.known
    if config.kind != "patches":
        name = [name for name in seen.names if "decoder" in name][-1]
        weights = torch.cat([call.weights() for call in seen[name].calls], dim=2)[0].mean(0)
        return tuple(times), tuple(past), weights.float().cpu()
    weights = seen[seen.names[-1]].weights().mean(1).float().cpu()  # over the heads
    patches = _patch_names(past, config.patch)
    if not config.across:
        return ("all",) if config.channels == "mixed" else known.targets, patches, weights.mean(1)
    rows = torch.stack([row.mean(0) for row in weights[0].split(len(patches))])
    kept = [*range(known.own), *range(len(known.inputs), len(rows))]
    return known.targets, tuple(f"{name} {patch}" for name in known.columns for patch in patches), rows[kept]


def _look(run: Run, inputs: tuple[Tensor, ...], labels: Callable[[Tensor], Labels], methods: bool = False) -> Seen:
    """All attention of a forecast. Where every target is forecast from its own column only, a sample each: of the first."""
    from mirada.looking.explain.compare import Explained

    config = run.model.config
    alone = config.kind == "patches" and config.channels != "mixed" and not config.across

    def explained_rows(values: Float[Tensor, "1 horizon targets"]) -> Float[Tensor, "rows parts"]:
        """The numbers of every time to come; patches see all of them at once."""
        shown = values[0, :, :1] if alone else values[0]
        return shown.reshape(1, -1) if config.kind == "patches" else shown

    explained = Explained(score=explained_rows, sample=0 if alone else None)
    seen = run.look(*inputs, labels=labels, methods=methods, explained=explained)
    if seen[seen.names[0]].batch == 1:
        return seen
    first = one_sample(seen)
    first.methods = seen.methods
    return first


def one_sample(seen: Seen, sample: int = 0) -> Seen:
    """The same calls for one of their samples, where all samples may see the same.

    >>> import torch
    >>> from mirada import Attention, MultiHead, look
    >>> layer = Attention(MultiHead(width=4, heads=2))
    >>> with look(layer) as seen:
    ...     _ = layer(torch.zeros(3, 5, 4))
    >>> one_sample(seen, 1)[""].weights().shape
    torch.Size([1, 2, 5, 5])
    """

    def one(call: Call) -> Request:
        shared = not list(call.where.tensors()) and call.draw is None and not call.cached
        require(shared, f"the samples of {call.name or 'the layer'} differ in what they may see: look at one at a time")
        q, k, v = (x[sample : sample + 1] for x in (call.request.q, call.request.k, call.request.v))
        return replace(call.request, q=q, k=k, v=v)

    return seen.with_requests(one)


def _labels_of(
    known: SeriesScale,
    config: Any,
    past_rows: Tensor,
    past: Sequence[str],
    forecast: NextRows,
    series: TimeSeries,
    name: str,
    output: Tensor,
) -> Labels:
    """What the rows and columns of a forecast are: times that were, and times to come or patches of time.

    A step's text is the forecast of the model alone; the answer may be a mixture with plain forecasts.
    """
    read = known.in_units(past_rows[0].double().numpy(), known.inputs, series)
    predicted = known.in_units(output[0].double().cpu().numpy(), known.targets, series)
    facts, answer = {"input": name}, (forecast.text(), None)
    if config.kind == "patches":
        axes = {"patches": _patch_axis(known, config, read, past)}
        return Labels(axes, {"*": ("patches", "patches")}, facts, answer)
    cells = replace(forecast, values=predicted).cells()
    steps = (
        WrittenStep(row, ", ".join(f"{column} {cell}" for column, cell in zip(known.targets, each, strict=True)))
        for row, each in enumerate(cells)
    )
    return Labels(
        {
            "past": TimeLabels(tuple(past), tuple(read[:, 0].tolist())),
            "next": TimeLabels(tuple(forecast.times), tuple(predicted[:, 0].tolist())),
        },
        {"*encoder*": ("past", "past"), "*decoder*self": ("next", "next"), "*decoder*": ("next", "past")},
        facts, answer, tuple(steps),
    )  # fmt: skip


def _patch_axis(known: SeriesScale, config: Any, read: NDArray[np.float64], past: Sequence[str]) -> TimeLabels:
    """Patches of time: of all columns together, of the first target, or of every column, one after the other."""
    spans, patches = patch_spans(len(past), config.patch), _patch_names(past, config.patch)
    if not config.across:
        return TimeLabels(patches, tuple(float(read[begin:end, 0].mean()) for begin, end in spans))
    names = tuple(f"{name} {label}" for name in known.columns for label in patches)
    means = [float(read[begin:end, column].mean()) for column in range(read.shape[1]) for begin, end in spans]
    unread = [0.0] * (len(names) - len(means))  # a target that is not among the columns has no past
    return TimeLabels(names, (*means, *unread))


def patch_spans(steps: int, patch: int) -> list[tuple[int, int]]:
    """The steps of every patch: the first one may have fewer.

    >>> patch_spans(10, 4)
    [(0, 2), (2, 6), (6, 10)]
    """
    return [(max(0, end - patch), end) for end in range(steps % patch or patch, steps + 1, patch)]


def _patch_names(times: Sequence[str], patch: int) -> tuple[str, ...]:
    """The time of every patch, or its first and last.

    >>> _patch_names(("Mon", "Tue", "Wed"), 2)
    ('Mon', 'Tue to Wed')
    """
    spans = patch_spans(len(times), patch)
    return tuple(times[begin] if end - begin == 1 else f"{times[begin]} to {times[end - 1]}" for begin, end in spans)
