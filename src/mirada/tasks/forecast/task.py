"""forecast: the latest rows of a series in, the next rows out, with the times that the model looked at."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirada.corpora.prices import COMPANIES
from mirada.data.check import show
from mirada.data.record import Record
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.layers.model import Model
from mirada.looking.explain.compare import Explained
from mirada.looking.labels import Labels
from mirada.looking.record import Seen
from mirada.models.forecaster import Forecaster
from mirada.runs.answers import Answer, AskOptions
from mirada.runs.inputs import Question, Questions, Table, answered_table
from mirada.runs.run import Run
from mirada.runs.sources import NAMED, Source, Splits, parts_of
from mirada.runs.task import Preset, Task
from mirada.tasks.forecast.errors import (
    FORECASTS,
    Errors,
    Forecasts,
    apart,
    best_shares,
    by_column,
    combined,
    errors_beside_plain,
    fit_ridge,
    forecasts_and_truth,
    metrics_of,
    plain_forecasts,
    products_of,
    verdict,
)
from mirada.tasks.forecast.labels import forecast_rows, one_sample, patch_spans, read_alone, series_labels
from mirada.tasks.forecast.report import ForecastChart
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries, joined, read_series
from mirada.tasks.forecast.splits import DividedSeries, all_windows, builtin_prices, given_parts, in_order_of_time
from mirada.tasks.forecast.windows import (
    LATEST,
    ForecastLoss,
    NextRows,
    SeriesBatches,
    SeriesScale,
    SeriesWindow,
    WindowExamples,
    starts_of,
)
from mirada.training.recipe import Recipe
from mirada.words import plural

READ_AT_ONCE = 256  # windows
SHOWN = 2  # windows of a kind in the report
MOST_STRIPS = 4  # other columns whose weights a chart shows
UNITS = "Errors are in standard deviations of the training rows, over all windows and targets."
SEEN = "The bars below a curve show where the last attention layer looked."
WindowRecord = Record[SeriesWindow]


class Forecast(Task[Any, SeriesWindow, SeriesScale]):
    name, input_kind = "forecast", "table"
    Data = SeriesOptions
    Known = SeriesScale
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(
            Forecaster, {"kind": "patches", "channels": "auto", "relative": True, "position": "learned", "patch": 16}
        ),
        "lstm-attention": Preset(Forecaster, {"kind": "lstm", "relative": True, "depth": 1}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 64, "hidden": 128, "dropout": 0.2}
        recipe = {"batch_size": 64, "lr": 1e-3, "warmup": 200, "schedule": "noam", "epochs": 10, "patience": 3.0}
        if source.builtin:
            data = {"target": COMPANIES[0], "lookback": 64, "horizon": 16}
            own = {"patch": 8} if model == "transformer" else {}
            return {"data": data, "model": sizes | own | {"dropout": 0.1}, "recipe": recipe | {"epochs": 40}}
        return {"model": sizes, "recipe": recipe}

    # from a series to windows

    def read(self, source: Source, options: SeriesOptions) -> Splits[SeriesWindow]:
        if source.builtin:
            return in_order_of_time(builtin_prices(options), options)
        parts = parts_of(source.data)
        if source.measured:
            return all_windows(read_series(parts.get("test", source.data), options), options)
        if source.has_valid:
            parts = {"train": parts.get("train", source.data), "valid": source.valid}
        if not parts:
            return in_order_of_time(read_series(source.data, options), options)
        require(not options.split, "split= divides one file, and here the parts are given. Leave it out.")
        return given_parts(parts, options)

    def identity(self, value: SeriesWindow) -> bytes:
        return value.series.digest + value.first.to_bytes(8, "big")

    def learn(self, splits: Splits[SeriesWindow], options: SeriesOptions, start: SeriesScale | None) -> SeriesScale:
        whole: DividedSeries = splits.whole
        known = SeriesScale.learn(whole.series, whole.part, whole.size)
        if start is not None:
            same = (start.inputs, start.targets, start.size) == (known.inputs, known.targets, known.size)
            require(
                same,
                f"a run that starts from another reads the same columns: {', '.join(start.inputs)} with {start.size}, not "
                f"{', '.join(known.inputs)} with {known.size}",
            )
        learned, tried = (starts_of(part, whole.size.lookback) for part in (splits.train, splits.valid))
        values = known.standardized(whole.series, known.targets)
        other = splits.valid[0].value.series
        if other is not whole.series:
            tried, values = tried + len(values), np.concatenate([values, known.standardized(other, known.targets)])
        ridge = fit_ridge(values, learned, tried, whole.size.lookback, whole.size.horizon)
        return replace(known, linear=ridge.weights.astype(np.float32))

    def options_for_new_data(self, options: SeriesOptions, known: SeriesScale) -> SeriesOptions:
        return replace(
            options, target=joined(known.targets), inputs=joined(known.inputs), lookback=known.size.lookback,
            horizon=known.size.horizon,
        )  # fmt: skip

    def sizes(self, known: SeriesScale) -> dict[str, Any]:
        return {
            "length": known.size.lookback, "horizon": known.size.horizon, "features": len(known.inputs),
            "targets": len(known.targets), "own": known.own,
        }  # fmt: skip

    def examples(self, records: Sequence[WindowRecord], known: SeriesScale, config: Any) -> WindowExamples:
        starts = torch.from_numpy(starts_of(records, known.size.lookback))
        read, wanted = (
            torch.from_numpy(known.standardized(records[0].value.series, names)).float()
            for names in (known.inputs, known.targets)
        )
        return WindowExamples(read, wanted, starts, known.size.lookback, known.size.horizon, known.own)

    def objective(self, model: Model, recipe: Recipe) -> ForecastLoss:
        return ForecastLoss(model)

    def in_order(self, examples: WindowExamples, recipe: Recipe) -> SeriesBatches:
        return SeriesBatches(examples, READ_AT_ONCE)

    def amount(self, records: Sequence[WindowRecord]) -> str:
        return plural(len(records), "window")

    # from the latest rows to the next ones

    def answer(self, run: Run, inputs: Sequence[Any], ask: AskOptions) -> list[Answer]:
        return [_next_rows(run, given) for given in inputs]

    def questions(self, run: Run, place: str) -> Questions:
        return Questions((), [Question(place, place)])

    def table(self, questions: Questions, answers: Sequence[Answer]) -> Table:
        found = [answer.value for answer in answers if isinstance(answer.value, NextRows)]
        return found[0].table() if found else answered_table(questions, answers)

    def in_brief(self, answer: Answer) -> str:
        rows: NextRows = answer.value
        return f"{rows.columns[0]} {rows.cells()[-1][0]} at {rows.times[-1]}"

    def samples(self, run: Run, splits: Splits[SeriesWindow]) -> list[str]:
        path = run.folder / LATEST
        return [str(path)] if path.exists() else []

    # from windows to a report

    def calibrate(self, run: Run, records: Sequence[WindowRecord]) -> SeriesScale:
        """How much the model and plain forecasts count, as the windows to validate on have it; where all targets are read."""
        known: SeriesScale = run.known
        if known.own < len(known.targets):
            return known
        return replace(known, shares=best_shares(products_of(_window_forecasts(run, records))))

    def measure(self, run: Run, records: Sequence[WindowRecord]) -> tuple[dict[str, float], list[Answer]]:
        """The errors of all windows; the value of an answer are those of its window."""
        errors = errors_beside_plain(_window_forecasts(run, records), run.known.shares)
        scores = errors[:, 0, 0].mean(-1).tolist()
        answers = [
            Answer(*fields)
            for fields in zip((r.where for r in records), [""] * len(records), scores, errors, strict=True)
        ]
        return metrics_of(errors), answers

    def headline_metrics(self, found: Mapping[str, float]) -> dict[str, float]:
        return {"mse": found["loss"]}

    def details(self, run: Run, records: Sequence[WindowRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        errors = np.stack([answer.value for answer in answers])
        columns = by_column(errors, run.known.targets)
        told = f"{verdict(metrics_of(errors))} {_mixture(run.known.shares)}"
        return {"windows": len(answers), "verdict": told, "per_column": columns, "shares": list(run.known.shares)}

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return ["", details["verdict"]]

    def sections(self, run: Run, records: Sequence[WindowRecord], answers: Sequence[Answer]) -> list[Section]:
        errors = np.stack([answer.value for answer in answers])
        order = np.argsort(errors[:, 0, 0].mean(-1), kind="stable")
        places = np.array([record.value.first for record in records])
        distance = run.known.size.horizon

        def charts(around: float, count: int) -> tuple[ForecastChart, ...]:
            """Windows whose errors stand at that share of their order."""
            near = sorted(range(len(order)), key=lambda rank: abs(rank - around * (len(order) - 1)))
            rows = apart([int(order[rank]) for rank in near], places, distance, count)
            return tuple(_chart(run, records[row].value, errors[row]) for row in rows)

        return [
            Section(
                "Beside plain forecasts",
                f"{verdict(metrics_of(errors))} {_mixture(run.known.shares)} {UNITS}",
                _comparison(errors, run.known.targets),
            ),
            Section(
                "Forecasts",
                f"Typical windows, in the middle by their errors, then good ones. {SEEN}",
                charts(0.5, SHOWN) + charts(0.1, SHOWN),
            ),
            Section("Worst errors", "Windows that do not overlap, the worst first.", charts(1.0, SHOWN)),
        ]


# from the latest rows to the next ones


def _next_rows(run: Run, given: Any) -> Answer:
    """The answer to the latest rows: a path, or rows in memory."""
    known: SeriesScale = run.known
    place = str(given) if isinstance(given, str | Path) else given
    names = joined(known.inputs)
    options = run.reading
    assert isinstance(options, SeriesOptions)
    with run.explained(place):
        series = read_series(place, replace(options, target=names, inputs=names), known.pattern, known.spacing)
    lookback = known.size.lookback
    require(
        len(series) >= lookback,
        f"{series.place}: a forecast reads the last {lookback:,} rows, and there are {len(series):,}. Give more rows.",
    )
    before = set(series.where[:-lookback])
    bad = [problem for problem in series.problems if problem.where not in before]
    require(not bad or options.bad == "skip", f"{show(bad, NAMED)}\nFix these rows, or train with bad=skip.")
    return _forecast(run, series, len(series), place if isinstance(place, str) else series.place)


def _forecast(run: Run, series: TimeSeries, first: int, name: str) -> Answer:
    """The answer for the rows before `first`, and where the model looked."""
    known: SeriesScale = run.known
    rows = range(first - known.size.lookback, first)
    inputs = _standardized_inputs(known, series, rows)
    seen = run.look(*inputs)
    with torch.inference_mode():
        values = run.model(*(x.to(run.device) for x in inputs))[0].double().cpu().numpy()
    if known.own == len(known.targets):
        past_values = inputs[0][0, :, : known.own].double().numpy()
        plain = plain_forecasts(past_values, np.zeros(1, np.int64), known.linear)
        values = combined(known.shares, [values, *(forecast[0] for forecast in plain)])
    past = [series.times.texts[row] for row in rows]
    times = (
        series.times.take(rows).after(known.size.horizon)
        if first == len(series)
        else tuple(series.times.texts[row] for row in range(first, first + known.size.horizon))
    )
    found = NextRows(
        series.time, times, known.targets, known.in_units(values, known.targets), known.decimals(known.targets)
    )
    labels = partial(series_labels, known, run.model.config, inputs[0], past, found, name)
    written, read, weights = _looked_at(run, seen, past, times)
    return Answer(
        name, found.text(), math.nan, found, read=read, written=written, weights=weights,
        more=found.more(), replay=partial(_looked, run, inputs, labels),
    )  # fmt: skip


def _looked(run: Run, inputs: tuple[Tensor, Tensor], labels: Callable[[Tensor], Labels], methods: bool = False) -> Seen:
    """All attention of a forecast; where every target is read by itself, that of the first."""
    alone = read_alone(run.model.config)
    explained = Explained(score=partial(forecast_rows, run.model.config), sample=0 if alone else None)
    seen = run.look(*inputs, labels=labels, methods=methods, explained=explained)
    if seen[seen.names[0]].batch == 1:
        return seen
    found = one_sample(seen)
    found.methods = seen.methods
    return found


def _standardized_inputs(known: SeriesScale, series: TimeSeries, rows: range) -> tuple[Tensor, Tensor]:
    """What the model is given for some rows: the columns it reads, and the last values of the targets."""
    read = torch.from_numpy(known.standardized(series, known.inputs)[rows.start : rows.stop]).float().unsqueeze(0)
    first = torch.zeros(1, len(known.targets))
    first[:, : known.own] = read[:, -1, : known.own]
    return read, first


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
    spans = patch_spans(len(past), config.patch)
    labels = [past[begin] if end - begin == 1 else f"{past[begin]} to {past[end - 1]}" for begin, end in spans]
    if config.channels == "mixed":
        return ("all",), tuple(labels), weights.mean(1)
    if not config.across:
        return known.targets, tuple(labels), weights.mean(1)
    rows = torch.stack([row.mean(0) for row in weights[0].split(len(spans))])
    kept = [*range(known.own), *range(len(known.inputs), len(rows))]
    return known.targets, tuple(f"{name} {label}" for name in known.columns for label in labels), rows[kept]


# from windows to a report


def _window_forecasts(run: Run, records: Sequence[WindowRecord]) -> Forecasts:
    """The forecasts of the model, of repeating the last value and of a linear model, and the truth, for all windows."""
    known: SeriesScale = run.known
    examples = run.examples(records)

    def ours(rows: range) -> NDArray[np.float64]:
        inputs = examples.part(rows, 0).inputs
        return (
            run.model(inputs["series"].to(run.device), inputs["first"].to(run.device)).detach().double().cpu().numpy()
        )

    values = known.standardized(records[0].value.series, known.targets)
    return forecasts_and_truth(ours, values, starts_of(records, known.size.lookback), known.linear)


def _mixture(shares: Sequence[float]) -> str:
    """What an answer is made of, in a sentence.

    >>> _mixture((0.65, 0.0, 0.35))
    'Its forecast is 65 % attention and 35 % linear, as validation chose.'
    """
    parts = zip(shares, ("attention", "the last value", "linear"), strict=True)
    told = [f"{100 * share:.0f} % {name}" for share, name in parts if share]
    return f"Its forecast is {' and '.join([', '.join(told[:-1]), told[-1]]) if told[1:] else told[0]}, as validation chose."


def _comparison(errors: Errors, targets: Sequence[str]) -> tuple[DataTable, ...]:
    """The errors beside those of plain forecasts, and the same for every target where there are several."""
    means = errors.mean((0, 3))
    rows = tuple((told, *means[place].tolist()) for place, told in enumerate(FORECASTS.values()))
    tables = [DataTable("", ("forecast", "MSE", "MAE"), rows)]
    if len(targets) > 1:
        columns = tuple((name, *errors[:, :, 0, place].mean(0).tolist()) for place, name in enumerate(targets))
        tables.append(DataTable("MSE of every column", ("column", "this model", "repeat", "linear"), columns))
    return tuple(tables)


def _chart(run: Run, window: SeriesWindow, errors: NDArray[np.float64]) -> ForecastChart:
    """The forecast of one window for its target with the largest error, with the truth and where the model looked."""
    known: SeriesScale = run.known
    series, first = window
    answer = _forecast(run, series, first, series.where[first])
    rows: NextRows = answer.value
    place = int(errors[0, 0].argmax())
    target, past = known.targets[place], range(first - known.size.lookback, first)
    values = series.of([target])[past.start : first + known.size.horizon, 0].tolist()
    looked = _by_step(run, answer, place)
    own = looked.pop(target, ()) if target in looked else looked.pop("", ())
    others = sorted(looked.items(), key=lambda item: -sum(item[1]))[:MOST_STRIPS]
    return ForecastChart(
        target, tuple(series.times.texts[row] for row in past) + rows.times, tuple(values[: len(past)]),
        tuple(rows.values[:, place].tolist()), tuple(values[len(past) :]), own, others=tuple(others),
        note=f"MSE {errors[0, 0, place]:.3f}; repeated {errors[1, 0, place]:.3f}, linear {errors[2, 0, place]:.3f}",
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
