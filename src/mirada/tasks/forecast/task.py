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
from mirada.runs.ask import ForecastAsk
from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.runs.inputs import Question, Questions, Table, answered_table
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, parts_of
from mirada.runs.task import Preset, Task
from mirada.tasks.forecast import windows
from mirada.tasks.forecast.errors import (
    Forecasts,
    WindowErrors,
    best_shares,
    combined,
    coverage,
    errors_beside_plain,
    forecasts_and_truth,
    learn_plain,
    metrics_of,
    mixture,
    products_of,
    share_of_attention,
    verdict,
    what_attention_adds,
)
from mirada.tasks.forecast.intervals import spread_of, thinned_errors
from mirada.tasks.forecast.next_rows import NextRows, answer_of, latest_rows
from mirada.tasks.forecast.plain import OLD
from mirada.tasks.forecast.scale import LATEST, SeriesScale
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries, joined, series_in
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section

READ_AT_ONCE = 256  # windows
COSTS = (  # seconds for a million places of patches, on one core (docs/decisions/0025)
    ModelCost({"width": 32, "hidden": 64, "depth": 1}, 4.0, 0),
    ModelCost({"width": 64, "hidden": 128, "depth": 2}, 9.0, 3),
)
FEW_WINDOWS = 1_000  # windows of columns to learn from, below which the smallest model is enough
MINUTES = 5.0  # at most, where nobody says how long
STEPS, PATIENT = 1_500, 200  # about so many where nobody says how long; so many without a better validation end a run
PATCHES = (16, 8, 4, 2, 1)  # rows
LEAST_PATCHES = 8  # of a window


class Forecast(Task[Any, windows.SeriesWindow, SeriesScale]):
    """Forecast the next rows of a series of numbers from its latest rows."""

    name, input_kind = "forecast", "table"
    Data, Ask = SeriesOptions, ForecastAsk
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
        data: dict[str, Any] = {"series": "auto", "season": 0, "calendar": "auto", "categories": "auto"}
        if source.builtin:
            from mirada.corpora.prices import COMPANIES

            data = {"series": "auto", "season": 0, "target": COMPANIES[0], "lookback": 64, "horizon": 16}
            own = {"patch": 8} if model == "transformer" else {}
            return {"data": data, "model": sizes | own | {"dropout": 0.1}, "recipe": recipe | {"epochs": 40}}
        return {"data": data, "model": sizes, "recipe": recipe}

    # from a series to windows

    def read(self, source: Source, options: SeriesOptions) -> Splits[windows.SeriesWindow]:
        if source.builtin:
            return windows.in_order_of_time([windows.builtin_prices(options)], options)
        parts = parts_of(source.data)
        if source.measured:
            return windows.all_windows(series_in(parts.get("test", source.data), options), options)
        if source.has_valid:
            parts = {"train": parts.get("train", source.data), "valid": source.valid}
        if not parts:
            return windows.in_order_of_time(series_in(source.data, options), options)
        require(not options.split, "split= divides one file, and here the parts are given. Leave it out.")
        return windows.given_parts(parts, options)

    def choose(self, model: str, splits: Splits[windows.SeriesWindow], options: Any, minutes: float) -> BudgetChoice:
        whole: windows.DividedSeries = splits.whole
        size, columns = whole.size, len(whole.series[0].inputs)
        count, patch = len(splits.train), patch_for(size.lookback)
        places = count * columns * -(-size.lookback // patch)
        batch = max(8, min(64, 1 << (count // 16).bit_length()))
        an_epoch = -(-count // batch)
        few = count * columns < FEW_WINDOWS
        one, possible = largest_affordable(COSTS[:1] if few else COSTS, places / 1000, minutes or MINUTES)
        epochs = max(10, min(200, -(-STEPS // an_epoch)))
        steps = an_epoch * min(possible, epochs)
        recipe: dict[str, Any] = {
            "batch_size": batch, "warmup": int(max(10, min(200, steps / 5))), "patience": float(max(3, -(-PATIENT // an_epoch))),
        }  # fmt: skip
        patches = model == "transformer"
        if not minutes:
            recipe |= {"epochs": epochs} if possible >= epochs or not patches else {"minutes": MINUTES}
        chosen = {**one.settings, "patch": patch} if patches else {}
        why = f"{plural(count, 'window')} of {plural(columns, 'column')}" + (
            f" and {minutes:g} minutes" if minutes else ""
        )
        return BudgetChoice(chosen, recipe, why=why)

    def identity(self, value: windows.SeriesWindow) -> bytes:
        return value.series.digest + value.first.to_bytes(8, "big")

    def learn(
        self, splits: Splits[windows.SeriesWindow], options: SeriesOptions, start: SeriesScale | None
    ) -> SeriesScale:
        whole: windows.DividedSeries = splits.whole
        for series in whole.series:
            series.times.after(
                whole.size.horizon
            )  # where there are no such dates, an error now, not after the training
        known = SeriesScale.learn(whole, whole.context(options))
        require(
            options.calendar != "yes" or bool(known.context.calendar),
            "calendar=yes reads hours, weekdays and months, and here are no dates of which they differ. Leave it out.",
        )
        if start is not None:
            require(
                (start.inputs, start.targets, start.size) == (known.inputs, known.targets, known.size),
                f"a run that starts from another reads the same columns: {', '.join(start.inputs)} with {start.size}, not "
                f"{', '.join(known.inputs)} with {known.size}",
            )
        lined, count = known.lined_up([*splits.train, *splits.valid], known.targets), len(splits.train)
        plain, mixed, before = learn_plain(
            lined.values, lined.zeros, lined.starts[:count], lined.starts[count:], (known.size.lookback, known.size.horizon),
            whole.season(options),
        )  # fmt: skip
        return replace(known, plain=plain, mixed=mixed, before=before, shares=(1.0, *(0.0 for _ in plain.names)))

    def options_for_new_data(self, options: SeriesOptions, known: SeriesScale) -> SeriesOptions:
        return replace(
            options, target=joined(known.targets), inputs=joined(known.inputs), lookback=known.size.lookback,
            horizon=known.size.horizon, series=known.series or "no", categories=known.context.columns,
        )  # fmt: skip

    def sizes(self, known: SeriesScale) -> dict[str, Any]:
        return {
            "length": known.size.lookback, "horizon": known.size.horizon, "features": len(known.inputs),
            "targets": len(known.targets), "own": known.own, "codes": known.context.size,
        }  # fmt: skip

    def examples(
        self, records: Sequence[windows.WindowRecord], known: SeriesScale, config: Any
    ) -> windows.WindowExamples:
        lined = known.lined_up(records, known.inputs)
        read, wanted = (
            torch.from_numpy(values).float() for values in (lined.values, known.lined_up(records, known.targets).values)
        )
        starts = torch.from_numpy(lined.starts)
        codes = known.codes(records)
        beside = () if codes is None else (torch.from_numpy(codes), torch.from_numpy(known.context.ahead))
        return windows.WindowExamples(read, wanted, starts, known.size.lookback, known.size.horizon, known.own, *beside)

    def objective(self, model: Model, recipe: Recipe) -> windows.ForecastLoss:
        return windows.ForecastLoss(model)

    def in_order(self, examples: windows.WindowExamples, recipe: Recipe) -> windows.SeriesBatches:
        return windows.SeriesBatches(examples, READ_AT_ONCE)

    def amount(self, records: Sequence[windows.WindowRecord]) -> str:
        return plural(len(records), "window")

    # from the latest rows to the next ones

    def opened(self, run: Run, given: Any) -> tuple[TimeSeries, ...]:
        return latest_rows(run, given)

    def answer(self, run: Run, inputs: Sequence[Any], ask: ForecastAsk) -> list[Answer]:
        return [answer_of(run, given, ask.interval) for given in inputs]

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
        """How much the model and the plain forecasts count, as the windows to validate on have it, and how far off answers are.

        Attention is mixed with the mixture of the plain ones, which was found before. A target that is not read is forecast by
        the model alone.
        """
        known: SeriesScale = run.known
        plain = known.plain
        if known.own == len(known.targets) and plain.names == OLD:
            return replace(known, shares=best_shares(products_of(_window_forecasts(run, records))))
        evidence = len(records) / known.size.horizon * len(known.targets) ** 0.5
        if known.own == len(known.targets):
            both = (
                ([ours, combined(known.mixed, others)], wanted)
                for (ours, *others), wanted in _window_forecasts(run, records)
            )
            attention = share_of_attention(both, evidence)
            known = replace(known, shares=(attention, *((1 - attention) * share for share in known.mixed)))
        answers = ((combined(known.shares, some), wanted) for some, wanted in _window_forecasts(run, records))
        size = known.size.horizon * len(known.targets)
        spread = spread_of(thinned_errors(answers, len(records), size), known.size.horizon)
        return replace(known, spread=spread if known.before is None else np.mean([spread, known.before], axis=0))

    def measure(self, run: Run, records: Sequence[windows.WindowRecord]) -> tuple[dict[str, float], list[Answer]]:
        """The errors of all windows; the value of an answer are those of its window."""
        errors = errors_beside_plain(_window_forecasts(run, records), run.known)
        scores = errors.errors[:, 0, 0].mean(-1).tolist()
        fields = zip(records, scores, zip(*errors, strict=True), strict=True)
        return metrics_of(errors, run.known), [
            Answer(record.where, "", score, window) for record, score, window in fields
        ]

    def headline_metrics(self, metrics: Mapping[str, float]) -> dict[str, float]:
        return {"mse": metrics["loss"]}

    def details(self, run: Run, records: Sequence[windows.WindowRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        known, errors = run.known, WindowErrors.together([answer.value for answer in answers])
        metrics = metrics_of(errors, known)
        columns = {name: metrics_of(errors.target(n), known) for n, name in enumerate(known.targets)}
        sentences = (
            verdict(metrics),
            what_attention_adds(metrics, known.shares),
            mixture(known.shares, known.plain.names),
        )
        text = " ".join(filter(None, (*sentences, coverage(metrics))))
        described = {"windows": len(answers), "verdict": text, "per_column": columns, "shares": list(known.shares)}
        if known.plain.names == OLD:
            return described
        from mirada.tasks.forecast.report import in_a_sentence

        return {**described, "sentence": in_a_sentence(run, metrics, records)}

    def in_a_sentence(self, metrics: Mapping[str, float], details: Mapping[str, Any]) -> str:
        return str(details.get("sentence", ""))

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return ["", details["verdict"]]

    def sections(self, run: Run, records: Sequence[windows.WindowRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.forecast.report import sections

        return sections(run, records, answers)


def patch_for(lookback: int) -> int:
    """The rows of a patch: the longest of the usual ones of which enough fit into a window.

    >>> patch_for(336), patch_for(96), patch_for(33), patch_for(4)
    (16, 8, 4, 1)
    """
    return next((patch for patch in PATCHES if lookback >= LEAST_PATCHES * patch), 1)


def _window_forecasts(run: Run, records: Sequence[windows.WindowRecord]) -> Forecasts:
    """The forecasts of the model, the plain ones, and the truth, for all windows."""
    known: SeriesScale = run.known
    examples = run.examples(records)

    def ours(rows: range) -> NDArray[np.float64]:
        inputs = windows.read_by_model(examples.part(rows, 0).inputs)
        forecast = run.model(*(part.to(run.device) for part in inputs))
        return forecast.detach().double().cpu().numpy()

    lined = known.lined_up(records, known.targets)
    return forecasts_and_truth(ours, known.plain, lined.values, lined.zeros, lined.starts)
