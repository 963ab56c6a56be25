"""forecast: the latest rows of a series in, the next rows out, with the times that the model looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from mirada.errors import require
from mirada.layers.model import Model
from mirada.models.forecaster import Forecaster
from mirada.runs.answers import Answer
from mirada.runs.ask import AskOptions
from mirada.runs.inputs import Question, Questions, Table, answered_table
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, parts_of
from mirada.runs.task import Preset, Task
from mirada.tasks.forecast import windows
from mirada.tasks.forecast.errors import (
    Forecasts,
    best_shares,
    errors_beside_plain,
    fit_ridge,
    forecasts_and_truth,
    metrics_of,
    mixture,
    products_of,
    verdict,
)
from mirada.tasks.forecast.next_rows import NextRows, answer_of, latest_rows
from mirada.tasks.forecast.scale import LATEST, SeriesScale
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries, joined, read_series
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section

READ_AT_ONCE = 256  # windows


class Forecast(Task[Any, windows.SeriesWindow, SeriesScale]):
    """Forecast the next rows of a series of numbers from its latest rows."""

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
            from mirada.corpora.prices import COMPANIES

            data = {"target": COMPANIES[0], "lookback": 64, "horizon": 16}
            own = {"patch": 8} if model == "transformer" else {}
            return {"data": data, "model": sizes | own | {"dropout": 0.1}, "recipe": recipe | {"epochs": 40}}
        return {"model": sizes, "recipe": recipe}

    # from a series to windows

    def read(self, source: Source, options: SeriesOptions) -> Splits[windows.SeriesWindow]:
        if source.builtin:
            return windows.in_order_of_time(windows.builtin_prices(options), options)
        parts = parts_of(source.data)
        if source.measured:
            return windows.all_windows(read_series(parts.get("test", source.data), options), options)
        if source.has_valid:
            parts = {"train": parts.get("train", source.data), "valid": source.valid}
        if not parts:
            return windows.in_order_of_time(read_series(source.data, options), options)
        require(not options.split, "split= divides one file, and here the parts are given. Leave it out.")
        return windows.given_parts(parts, options)

    def identity(self, value: windows.SeriesWindow) -> bytes:
        return value.series.digest + value.first.to_bytes(8, "big")

    def learn(
        self, splits: Splits[windows.SeriesWindow], options: SeriesOptions, start: SeriesScale | None
    ) -> SeriesScale:
        whole: windows.DividedSeries = splits.whole
        whole.series.times.after(
            whole.size.horizon
        )  # where there are no such dates, an error now, not after the training
        known = SeriesScale.learn(whole.series, whole.part, whole.size)
        if start is not None:
            require(
                (start.inputs, start.targets, start.size) == (known.inputs, known.targets, known.size),
                f"a run that starts from another reads the same columns: {', '.join(start.inputs)} with {start.size}, not "
                f"{', '.join(known.inputs)} with {known.size}",
            )
        learned, tried = (windows.starts_of(part, whole.size.lookback) for part in (splits.train, splits.valid))
        values = known.standardized(whole.series, known.targets)
        other = splits.valid[0].value.series
        if other is not whole.series:
            tried, values = tried + len(values), np.concatenate([values, known.standardized(other, known.targets)])
        weights = fit_ridge(values, learned, tried, whole.size.lookback, whole.size.horizon)
        return replace(known, linear=weights.astype(np.float32))

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

    def examples(
        self, records: Sequence[windows.WindowRecord], known: SeriesScale, config: Any
    ) -> windows.WindowExamples:
        starts = torch.from_numpy(windows.starts_of(records, known.size.lookback))
        read, wanted = (
            torch.from_numpy(known.standardized(records[0].value.series, names)).float()
            for names in (known.inputs, known.targets)
        )
        return windows.WindowExamples(read, wanted, starts, known.size.lookback, known.size.horizon, known.own)

    def objective(self, model: Model, recipe: Recipe) -> windows.ForecastLoss:
        return windows.ForecastLoss(model)

    def in_order(self, examples: windows.WindowExamples, recipe: Recipe) -> windows.SeriesBatches:
        return windows.SeriesBatches(examples, READ_AT_ONCE)

    def amount(self, records: Sequence[windows.WindowRecord]) -> str:
        return plural(len(records), "window")

    # from the latest rows to the next ones

    def opened(self, run: Run, given: Any) -> TimeSeries:
        return latest_rows(run, given)

    def answer(self, run: Run, inputs: Sequence[Any], ask: AskOptions) -> list[Answer]:
        return [answer_of(run, given) for given in inputs]

    def questions(self, run: Run, place: str) -> Questions:
        return Questions((), [Question(place, place)])

    def table(self, questions: Questions, answers: Sequence[Answer]) -> Table:
        forecasts = [answer.value for answer in answers if isinstance(answer.value, NextRows)]
        return forecasts[0].table() if forecasts else answered_table(questions, answers)

    def in_brief(self, answer: Answer) -> str:
        rows: NextRows = answer.value
        return f"{rows.columns[0]} {rows.cells()[-1][0]} at {rows.times[-1]}"

    def samples(self, run: Run, splits: Splits[windows.SeriesWindow]) -> list[str]:
        path = run.folder / LATEST
        return [str(path)] if path.exists() else []

    # from windows to a report

    def calibrate(self, run: Run, records: Sequence[windows.WindowRecord]) -> SeriesScale:
        """How much the model and plain forecasts count, as the windows to validate on have it; where all targets are read."""
        known: SeriesScale = run.known
        if known.own < len(known.targets):
            return known
        return replace(known, shares=best_shares(products_of(_window_forecasts(run, records))))

    def measure(self, run: Run, records: Sequence[windows.WindowRecord]) -> tuple[dict[str, float], list[Answer]]:
        """The errors of all windows; the value of an answer are those of its window."""
        errors = errors_beside_plain(_window_forecasts(run, records), run.known.shares)
        scores = errors[:, 0, 0].mean(-1).tolist()
        fields = zip(records, scores, errors, strict=True)
        return metrics_of(errors), [Answer(record.where, "", score, window) for record, score, window in fields]

    def headline_metrics(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {"mse": metrics["loss"]}

    def details(self, run: Run, records: Sequence[windows.WindowRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        errors = np.stack([answer.value for answer in answers])
        columns = {name: metrics_of(errors[..., n : n + 1]) for n, name in enumerate(run.known.targets)}
        text = f"{verdict(metrics_of(errors))} {mixture(run.known.shares)}"
        return {"windows": len(answers), "verdict": text, "per_column": columns, "shares": list(run.known.shares)}

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return ["", details["verdict"]]

    def sections(self, run: Run, records: Sequence[windows.WindowRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.forecast.report import sections

        return sections(run, records, answers)


def _window_forecasts(run: Run, records: Sequence[windows.WindowRecord]) -> Forecasts:
    """The forecasts of the model, of repeating the last value and of a linear model, and the truth, for all windows."""
    known: SeriesScale = run.known
    examples = run.examples(records)

    def ours(rows: range) -> NDArray[np.float64]:
        inputs = examples.part(rows, 0).inputs
        forecast = run.model(inputs["series"].to(run.device), inputs["first"].to(run.device))
        return forecast.detach().double().cpu().numpy()

    values = known.standardized(records[0].value.series, known.targets)
    return forecasts_and_truth(ours, values, windows.starts_of(records, known.size.lookback), known.linear)
