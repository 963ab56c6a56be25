"""What a run knows of the series it learned from: columns, scale, times, plain forecasts, and how far off answers are."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mirada.data.columns.times import Spacing
from mirada.errors import require
from mirada.files import read_whole
from mirada.tasks.forecast.context import Codes, SeriesContext
from mirada.tasks.forecast.intervals import PROBABILITIES
from mirada.tasks.forecast.plain import ALL, OLD, PlainForecasts, Starts, Values
from mirada.tasks.forecast.series import TimeSeries, all_columns
from mirada.tasks.forecast.windows import DividedSeries, WindowRecord, WindowSize

BASELINE, LATEST = "baseline.safetensors", "latest.csv"
LARGEST = 1 << 30  # bytes of either
MOST_ROWS = 2**31  # of a window
CONSTANT = 1e-12  # a deviation this small, relative to the mean, counts as none
MOST_SHOWN = 50  # series whose last rows are kept to try with
DIGITS = 4  # of the deviation of a column that are written


class LinedUp(NamedTuple):
    """Windows of one or several series, which stand one after the other."""

    values: Values  # standardized, (rows, columns)
    zeros: Values  # what has to be added for positive values where the series is positive
    starts: Starts


@dataclass(frozen=True, eq=False)
class SeriesScale:
    """`mean` and `std` are those of the training rows, for every column: those that are read, then targets that are not.

    `plain` are the plain forecasts of every target, and `latest` the last rows as a file, to try with. `shares` say how much
    the model and each plain forecast count in an answer, `mixed` how much each counts among the plain ones: validation decides.
    `spread` are quantiles of the errors of answers, (probabilities, horizon, targets), for intervals, and `before` those of the
    plain forecasts at the end of the rows to learn from, where few rows validate.

    Of several series, which the column `series` names, each has a `mean` and `std` of its own in `scales`.
    """

    files: ClassVar[tuple[str, ...]] = (BASELINE, LATEST)

    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    size: WindowSize
    time: str
    pattern: str
    spacing: Spacing
    plain: PlainForecasts
    latest: bytes
    shares: tuple[float, ...] = (1.0, 0.0, 0.0)
    mixed: tuple[float, ...] = ()
    spread: NDArray[np.float32] | None = None
    before: NDArray[np.float32] | None = None
    series: str = ""
    scales: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)
    context: SeriesContext = field(default_factory=SeriesContext)

    @classmethod
    def learn(cls, whole: DividedSeries, context: SeriesContext | None = None) -> Self:
        """The scale of the good rows to learn from, and the last rows of all. There are no plain forecasts yet."""
        first, size = whole.series[0], whole.size
        each = {
            one.name: _scale_of(one, part.begin, part.end) for one, part in zip(whole.series, whole.parts, strict=True)
        }
        mean, std = (np.mean([scale[place] for scale in each.values()], axis=0) for place in (0, 1))
        linear = np.zeros((len(first.targets), size.lookback + 1, size.horizon), np.float32)
        return cls(
            first.inputs, first.targets, mean, std, size, first.time, first.times.pattern, first.times.spacing,
            PlainForecasts(linear), _latest_rows(whole.series[:MOST_SHOWN], size.lookback), series=whole.column,
            scales=each if whole.column else {},
            context=context or SeriesContext(),
        )  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of the scale."""
        return all_columns(self.inputs, self.targets)

    @property
    def own(self) -> int:
        """How many targets are read, too: the first ones."""
        return sum(name in self.inputs for name in self.targets)

    def places(self, names: Sequence[str]) -> list[int]:
        """Where columns stand in the scale."""
        return [self.columns.index(name) for name in names]

    def scale(self, series: TimeSeries) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and deviation of every column; of a series that was not learned from, those of its own rows."""
        if not self.series:
            return self.mean, self.std
        return self.scales.get(series.name) or _scale_of(series, 0, len(series))

    def standardized(self, series: TimeSeries, names: Sequence[str]) -> NDArray[np.float64]:
        """Some columns of a series in units of their deviations, 0 at their means."""
        places, (mean, std) = self.places(names), self.scale(series)
        return (series.of(names) - mean[places]) / std[places]

    def zeros(self, series: TimeSeries, names: Sequence[str]) -> NDArray[np.float64]:
        """What has to be added to standardized values of some columns so that 0 is where it was."""
        places, (mean, std) = self.places(names), self.scale(series)
        return mean[places] / std[places]

    def lined_up(self, records: Sequence[WindowRecord], names: Sequence[str]) -> LinedUp:
        """Some columns of all series that windows are of, one series after the other, and where each window begins."""
        series = list({id(record.value.series): record.value.series for record in records}.values())
        begins = np.cumsum([0, *map(len, series)])
        place = {id(one): int(begin) for one, begin in zip(series, begins[:-1], strict=True)}
        starts = [place[id(record.value.series)] + record.value.first - self.size.lookback for record in records]
        zeros = [np.broadcast_to(self.zeros(one, names), (len(one), len(names))) for one in series]
        values = np.concatenate([self.standardized(one, names) for one in series])
        return LinedUp(values, zeros[0] if len(series) == 1 else np.concatenate(zeros), np.array(starts, np.int64))

    def codes(self, records: Sequence[WindowRecord]) -> Codes | None:
        """What is known beside the numbers of all series that windows are of, lined up as these; None where nothing is."""
        series = list({id(record.value.series): record.value.series for record in records}.values())
        return np.concatenate([self.context.codes(one) for one in series]) if self.context.kinds else None

    def codes_around(self, series: TimeSeries, first: int) -> Codes:
        """The same for one window, (lookback + horizon, kinds): the rows before `first` and those from there on."""
        end = first + self.size.horizon
        codes = self.context.codes(series, max(0, end - len(series)))[first - self.size.lookback : end]
        codes[self.size.lookback :, ~self.context.ahead] = 0
        return codes

    def in_units(self, values: NDArray[np.float64], names: Sequence[str], series: TimeSeries) -> NDArray[np.float64]:
        """Standardized values of some columns in their own units again."""
        places, (mean, std) = self.places(names), self.scale(series)
        return values * std[places] + mean[places]

    def decimals(self, names: Sequence[str], series: TimeSeries) -> list[int]:
        """Digits after the point that say something about a column.

        A deviation of 20 has two before the point, so two after it are enough.
        """
        _, std = self.scale(series)
        return [max(0, DIGITS - 1 - math.floor(math.log10(std[place]))) for place in self.places(names)]

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {
            "inputs": list(self.inputs), "targets": list(self.targets), "mean": self.mean.tolist(), "std": self.std.tolist(),
            "lookback": self.size.lookback, "horizon": self.size.horizon, "time": self.time, "pattern": self.pattern,
            "spacing": asdict(self.spacing), "shares": list(self.shares),
            **({"plain": self.plain.facts() | {"mixed": list(self.mixed)}} if self.plain.period else {}),
            **({"series": self.series, "scales": {name: [m.tolist(), s.tolist()] for name, (m, s) in self.scales.items()}}
               if self.series else {}),
            **({"context": self.context.facts()} if self.context.kinds else {}),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        named = {"spread": self.spread, "before": self.before}
        spreads = {name: np.ascontiguousarray(one) for name, one in named.items() if one is not None}
        return {BASELINE: save(self.plain.arrays() | spreads), LATEST: self.latest}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the places of its files."""
        try:
            _check_facts(facts)
            size, spacing = WindowSize(facts["lookback"], facts["horizon"]), _spacing(facts["spacing"])
            inputs, targets = tuple(facts["inputs"]), tuple(facts["targets"])
            mean, std = np.array(facts["mean"], float), np.array(facts["std"], float)
            shares = tuple(float(share) for share in facts.get("shares", (1.0, 0.0, 0.0)))
            learned = dict(facts.get("plain", {}))
            mixed = tuple(float(share) for share in learned.pop("mixed", ()))
            require(
                len(shares) == 1 + len(ALL if learned else OLD), f"{len(shares)} shares are not those of its forecasts"
            )
            require(not learned or len(mixed) == len(ALL), f"{len(mixed)} shares are not those of its plain forecasts")
            scales = {
                name: (np.array(each[0], float), np.array(each[1], float))
                for name, each in facts.get("scales", {}).items()
            }
            context = SeriesContext.restore(facts.get("context", {}))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"config.json does not hold the scale of the series: {error}") from None
        try:
            arrays = load(read_whole(paths[BASELINE], LARGEST))
            latest = read_whole(paths[LATEST], LARGEST) if paths[LATEST].exists() else b""
            linear = arrays["linear"]
        except (KeyError, OSError, ValueError, SafetensorError) as error:
            raise ValueError(f"{paths[BASELINE]} or {LATEST} cannot be read: {error}. Copy the run again.") from None
        shape = (len(targets), size.lookback + 1, size.horizon)
        require(
            linear.shape == shape and linear.dtype.kind == "f",
            f"{paths[BASELINE]} has weights of {linear.shape}, and the run needs {shape}",
        )
        wanted = (len(PROBABILITIES), size.horizon, len(targets))
        spread, before = (arrays.get(name) for name in ("spread", "before"))
        good = all(one is None or one.shape == wanted for one in (spread, before))
        require(good, f"{paths[BASELINE]} has intervals of another shape than {wanted}. Copy the run again.")
        try:
            plain = PlainForecasts.restore(learned, arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"config.json or {paths[BASELINE]} does not hold its plain forecasts: {error}") from None
        return cls(
            inputs, targets, mean, std, size, facts["time"], facts["pattern"], spacing, plain, latest, shares, mixed, spread,
            before, facts.get("series", ""), scales, context,
        )  # fmt: skip


def _scale_of(series: TimeSeries, begin: int, end: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of the good rows of a part of a series; a constant column becomes 0."""
    good = series.values[begin:end][series.good[begin:end]]
    mean, std = good.mean(0), good.std(0)
    return mean, np.where(std > CONSTANT * np.maximum(1.0, np.abs(mean)), std, 1.0)


def _latest_rows(several: Sequence[TimeSeries], lookback: int) -> bytes:
    """The last rows of every series as a file."""
    first, rows = several[0], []
    names = [name for name in (first.column, first.time, *first.words) if name]
    for series in several:
        last = zip(series.times.texts[-lookback:], series.values[-lookback:].tolist(), strict=True)
        kinds = list(zip(*(cells[-lookback:] for cells in series.words.values()), strict=True))
        for row, (text, values) in enumerate(last):
            given = ([series.name] if series.column else []) + ([text] if series.time else [])
            given += kinds[row] if kinds else ()
            rows.append([*given, *(f"{value:.10g}" for value in values)])
    return csv_text((*names, *first.columns), rows).encode()


def _check_facts(facts: Mapping[str, Any]) -> None:
    """Require the facts of a series that a run can have learned from."""
    for name in ("inputs", "targets"):
        good = isinstance(facts[name], list) and all(isinstance(column, str) for column in facts[name])
        require(good and len({*facts[name]}) == len(facts[name]) > 0, f"{name} must be the names of columns")
    for name in ("lookback", "horizon"):
        good = type(facts[name]) is int and 1 <= facts[name] <= MOST_ROWS
        require(good, f"{name} must be a number of rows: got {str(facts[name])[:40]}")
    for name in ("time", "pattern"):
        require(isinstance(facts[name], str), f"{name} must be a text")
    columns = len({*facts["inputs"], *facts["targets"]})
    for name, least in (("mean", -math.inf), ("std", 0.0)):
        good = isinstance(facts[name], list) and all(_is_number(value) and value > least for value in facts[name])
        require(good and len(facts[name]) == columns, f"{name} must have a number for each of {columns} columns")
    require(isinstance(facts.get("series", ""), str), "series must be a text")
    for name, scale in facts.get("scales", {}).items():
        good = all(len(part) == columns and all(map(_is_number, part)) for part in scale) and min(scale[1]) > 0
        require(
            good and len(scale) == 2,
            f"the scale of {name} must have a mean and a deviation for each of {columns} columns",
        )
    spacing = facts["spacing"]
    good = isinstance(spacing, dict) and isinstance(spacing.get("kind"), str) and _is_number(spacing.get("step"))
    require(good, "spacing must have a kind and a step")


def _spacing(facts: Mapping[str, Any]) -> Spacing:
    """How far apart times are, as `asdict` wrote it."""
    return Spacing(**{**facts, "holidays": tuple(map(str, facts.get("holidays", ())))})


def _is_number(value: object) -> bool:
    """Whether a value can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()
