"""What a forecast must know of the series it learned from: the columns, their scale, the times, and a plain forecast."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor

from mirada.data.columns.times import Spacing
from mirada.data.record import Record
from mirada.errors import require
from mirada.files import read_whole
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries
from mirada.training.objectives import Microbatch, Objective

# Windows of a series: some rows that are read, and the next ones, which are predicted; parts of a series in order
# of time.


USUAL = ((336, 96), (192, 48), (96, 24), (48, 12), (24, 6), (12, 3), (8, 2), (4, 1))  # lookback and horizon
ENOUGH = 5  # windows that must fit into the rows to learn from, one beside the other, for a usual size
SPLIT = (0.7, 0.1, 0.2)
PARTS = ("to learn from", "to validate on", "to be measured with")


class SeriesWindow(NamedTuple):
    """A window of a series: the row of its first prediction; the rows before it are read."""

    series: TimeSeries
    first: int


@dataclass(frozen=True)
class WindowSize:
    """How many rows are read, how many predicted."""

    lookback: int
    horizon: int

    def __str__(self) -> str:
        return f"lookback={self.lookback} and horizon={self.horizon}"


class RowRange(NamedTuple):
    """Rows of a series, from `begin` to before `end`."""

    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin


def parts_of_series(rows: int, options: SeriesOptions, place: str) -> list[RowRange]:
    """The rows to learn from, to validate on and to be measured with, one after the other.

    Shares: the last part has its share, the second what is left between them. Numbers of rows count from the start.

    >>> parts_of_series(1005, SeriesOptions(), "a.csv")
    [RowRange(begin=0, end=703), RowRange(begin=703, end=804), RowRange(begin=804, end=1005)]
    >>> parts_of_series(1005, SeriesOptions(split="800,100,100"), "a.csv")
    [RowRange(begin=0, end=800), RowRange(begin=800, end=900), RowRange(begin=900, end=1000)]
    """
    split = options.shares or SPLIT
    if split[0] >= 1:
        sizes = [int(size) for size in split]
        require(
            sum(sizes) <= rows,
            f"{place} has {rows:,} rows, and split={options.split} asks for {sum(sizes):,}. Ask for fewer, or for shares.",
        )
    else:
        first, *rest = split
        sizes = [_share_of(rows, first), *(_share_of(rows, share) for share in rest[1:])]
        sizes.insert(1, rows - sum(sizes))
    ends = np.cumsum([0, *sizes]).tolist()
    return [RowRange(begin, end) for begin, end in pairwise(ends)]


def _share_of(rows: int, share: float) -> int:
    return int(rows * share + 1e-9)


def window_size(options: SeriesOptions, learned: int, others: Sequence[int]) -> WindowSize:
    """How much is read and predicted: as said; otherwise the largest usual size of which enough windows fit.

    `learned` are the rows to learn from, `others` those of the other parts.

    >>> window_size(SeriesOptions(), 8640, [2880, 2880]), window_size(SeriesOptions(horizon=5), 880, [126, 252])
    (WindowSize(lookback=336, horizon=96), WindowSize(lookback=96, horizon=5))
    """
    size = WindowSize(*USUAL[-1])
    for lookback, horizon in USUAL:
        size = WindowSize(options.lookback or lookback, options.horizon or horizon)
        if learned >= ENOUGH * (size.lookback + size.horizon) and min(others, default=learned) >= 2 * size.horizon:
            break
    return size


def windows_in(series: TimeSeries, part: RowRange, size: WindowSize) -> list[Record[SeriesWindow]]:
    """Every window whose predicted rows lie in a part and are good; what it reads may lie before the part.

    n rows have n - horizon + 1 windows, where enough rows lie before them.
    """
    first = np.arange(max(part.begin, size.lookback), part.end - size.horizon + 1)
    if not len(first):
        return []
    bad = np.concatenate([[0], np.cumsum(~series.good)])
    whole = bad[first + size.horizon] == bad[first]
    return [Record(series.where[row], SeriesWindow(series, row)) for row in first[whole].tolist()]


def require_rows(series: TimeSeries, parts: Sequence[RowRange], size: WindowSize) -> None:
    """Require a window in every part: a part that follows another one looks back into that."""
    for part, use in zip(parts, PARTS, strict=False):
        needed = size.horizon + max(0, size.lookback - part.begin)
        require(
            len(part) >= needed,
            f"{series.place}: {len(part):,} rows {use} are too few: {size} need at least {needed:,}. "
            "Give more rows, another split=, or a smaller lookback= and horizon=.",
        )


def starts_of(records: Sequence[Record[SeriesWindow]], lookback: int) -> NDArray[np.int64]:
    """The first row that each window reads."""
    return np.fromiter((record.value.first for record in records), dtype=np.int64, count=len(records)) - lookback


def used(series: TimeSeries, parts: Sequence[RowRange]) -> TimeSeries:
    """The series without rows that belong to no part, and without what is wrong there."""
    short = series.first_rows(parts[-1].end)
    if short is series:
        return series
    late = set(series.where[parts[-1].end :])
    return replace(short, problems=[problem for problem in series.problems if problem.where not in late])


# A forecast as a table: the rows that come next, in the form of the rows that came before.


@dataclass(frozen=True, eq=False)
class NextRows:
    """A forecast: the values of the targets at the times to come."""

    time: str  # the name of the column of times; none where there is no such column
    times: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]  # (horizon, targets)
    decimals: Sequence[int]

    def cells(self) -> list[list[str]]:
        """The values as they are written."""
        return [
            [f"{x:.{digits}f}" for x, digits in zip(row, self.decimals, strict=True)] for row in self.values.tolist()
        ]

    def text(self) -> str:
        """The rows as a CSV file."""
        return _csv_text(*self.table())

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Columns and rows, as the file of the latest rows has them."""
        if not self.time:
            return self.columns, self.cells()
        return (self.time, *self.columns), [[time, *row] for time, row in zip(self.times, self.cells(), strict=True)]

    def more(self) -> dict[str, Any]:
        """What `--json` shows."""
        values = [[float(f"{x:.8g}") for x in row] for row in self.values.tolist()]
        return {"times": list(self.times), "columns": list(self.columns), "values": values}


def _csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()


BASELINE, LATEST = "baseline.safetensors", "latest.csv"
LARGEST = 1 << 30  # bytes of either
MOST_ROWS = 2**31  # of a window
CONSTANT = 1e-12  # a deviation that is so small beside the mean is none
DIGITS = 4  # of the deviation of a column that are written


@dataclass(frozen=True, eq=False)
class SeriesScale:
    """`mean` and `std` are those of the training rows, for every column: those that are read, then targets that are not.

    `linear` are the weights of the plain linear forecast of every target, and `latest` the last rows as a file, to try with.
    `shares` say how much the model, the last value and the linear forecast count in an answer: validation decides.
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
    linear: NDArray[np.float32]
    latest: bytes
    shares: tuple[float, ...] = (1.0, 0.0, 0.0)

    @classmethod
    def learn(cls, series: TimeSeries, part: RowRange, size: WindowSize) -> Self:
        """The scale of the good rows of a part of a series, and its last rows. There is no linear forecast yet."""
        mean, std = _scale_of(series.values[part.begin : part.end][series.good[part.begin : part.end]])
        times = series.times
        return cls(
            series.inputs, series.targets, mean, std, size, series.time, times.pattern, times.spacing,
            np.zeros((len(series.targets), size.lookback + 1, size.horizon), np.float32), _last_rows(series, size.lookback),
        )  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of the scale."""
        return (*self.inputs, *(name for name in self.targets if name not in self.inputs))

    @property
    def own(self) -> int:
        """How many targets are read, too: the first ones."""
        return sum(name in self.inputs for name in self.targets)

    def places(self, names: Sequence[str]) -> list[int]:
        """Where columns stand in the scale."""
        return [self.columns.index(name) for name in names]

    def standardized(self, series: TimeSeries, names: Sequence[str]) -> NDArray[np.float64]:
        """Some columns of a series in units of their deviations, 0 at their means."""
        places = self.places(names)
        return (series.of(names) - self.mean[places]) / self.std[places]

    def in_units(self, values: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
        """Standardized values of some columns in their own units again."""
        places = self.places(names)
        return values * self.std[places] + self.mean[places]

    def decimals(self, names: Sequence[str]) -> list[int]:
        """Digits after the point that say something about a column.

        A deviation of 20 has two before the point, so two after it are enough.
        """
        return [max(0, DIGITS - 1 - math.floor(math.log10(self.std[place]))) for place in self.places(names)]

    def facts(self) -> dict[str, Any]:
        return {
            "inputs": list(self.inputs), "targets": list(self.targets), "mean": self.mean.tolist(), "std": self.std.tolist(),
            "lookback": self.size.lookback, "horizon": self.size.horizon, "time": self.time, "pattern": self.pattern,
            "spacing": asdict(self.spacing), "shares": list(self.shares),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        return {BASELINE: save({"linear": np.ascontiguousarray(self.linear)}), LATEST: self.latest}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        try:
            _check_facts(facts)
            size, spacing = WindowSize(facts["lookback"], facts["horizon"]), Spacing(**facts["spacing"])
            inputs, targets = tuple(facts["inputs"]), tuple(facts["targets"])
            mean, std = np.array(facts["mean"], float), np.array(facts["std"], float)
            model, last, line = (float(share) for share in facts.get("shares", (1.0, 0.0, 0.0)))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"config.json does not hold the scale of the series: {error}") from None
        try:
            linear = load(read_whole(paths[BASELINE], LARGEST))["linear"]
            latest = read_whole(paths[LATEST], LARGEST) if paths[LATEST].exists() else b""
        except (KeyError, OSError, ValueError, SafetensorError) as error:
            raise ValueError(f"{paths[BASELINE]} or {LATEST} cannot be read: {error}. Copy the run again.") from None
        shape = (len(targets), size.lookback + 1, size.horizon)
        require(
            linear.shape == shape and linear.dtype.kind == "f",
            f"{paths[BASELINE]} has weights of {linear.shape}, and the run needs {shape}",
        )
        return cls(
            inputs, targets, mean, std, size, facts["time"], facts["pattern"], spacing, linear, latest, (model, last, line)
        )  # fmt: skip


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
        values = facts[name]
        good = isinstance(values, list) and all(_is_number(value) and value > least for value in values)
        require(good and len(values) == columns, f"{name} must have a number for each of {columns} columns")
    spacing = facts["spacing"]
    good = isinstance(spacing, dict) and isinstance(spacing.get("kind"), str) and _is_number(spacing.get("step"))
    require(good, "spacing must have a kind and a step")


def _is_number(value: object) -> bool:
    """Whether a value can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _scale_of(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of columns; one that is constant has the deviation 1, so that it becomes 0.

    >>> _scale_of(np.array([[1.0, 7.0], [3.0, 7.0]]))
    (array([2., 7.]), array([1., 1.]))
    """
    mean, std = values.mean(0), values.std(0)
    return mean, np.where(std > CONSTANT * np.maximum(1.0, np.abs(mean)), std, 1.0)


def _last_rows(series: TimeSeries, count: int) -> bytes:
    """The last rows of a series as a CSV file."""
    names = [series.time] if series.time else []
    rows = [
        ([text] if series.time else []) + [f"{value:.10g}" for value in values]
        for text, values in zip(series.times.texts[-count:], series.values[-count:].tolist(), strict=True)
    ]
    return _csv_text((*names, *series.columns), rows).encode()


# Windows of one series as a model reads them, cut out when they are asked for, and the error of a forecast.


@dataclass(frozen=True, eq=False)
class WindowExamples:
    """Windows by their first rows: `lookback` rows of some columns are read, the next `horizon` of the targets wanted.

    The first `own` targets are read, too: a forecast of these begins at their last values. One of the others begins at 0.

    >>> values = torch.arange(5.0).unsqueeze(1)
    >>> windows = WindowExamples(values, values, torch.arange(3), lookback=2, horizon=1, own=1)
    >>> inputs = windows.part([2], epoch=0).inputs
    >>> inputs["series"].tolist(), inputs["first"].tolist(), inputs["wanted"].tolist()
    ([[[2.0], [3.0]]], [[3.0]], [[[4.0]]])
    """

    read: Float[Tensor, "rows features"]
    wanted: Float[Tensor, "rows targets"]
    starts: Int[Tensor, " windows"]
    lookback: int
    horizon: int
    own: int

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        starts = self.starts[torch.as_tensor(rows, dtype=torch.int64)].unsqueeze(1)
        last = self.wanted[starts[:, 0] + self.lookback - 1]
        inputs = {
            "series": self.read[starts + torch.arange(self.lookback)],
            "first": torch.where(torch.arange(last.shape[1]) < self.own, last, 0.0),
            "wanted": self.wanted[starts + self.lookback + torch.arange(self.horizon)],
        }
        return Microbatch(inputs, (inputs["wanted"].numel(),), len(rows) * self.lookback)

    def take(self, rows: Sequence[int]) -> "WindowExamples":
        return replace(self, starts=self.starts[torch.as_tensor(rows, dtype=torch.int64)])


class SeriesBatches(Sequence[Microbatch]):
    """All windows once, in order. A batch is made when it is asked for: all together would be many times the series."""

    def __init__(self, examples: WindowExamples, size: int, rows: Sequence[range] | None = None) -> None:
        self.examples, self.size, count = examples, size, len(examples)
        self.rows = [range(at, min(at + size, count)) for at in range(0, count, size)] if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return SeriesBatches(self.examples, self.size, self.rows[place])
        return self.examples.part(self.rows[place], 0)


class ForecastLoss(Objective):
    """The mean squared error of the forecast itself: a model that goes step by step learns from its own predictions."""

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        return F.mse_loss(self.model(inputs["series"], inputs["first"]), inputs["wanted"]).unsqueeze(0)
