"""What a run knows of the series it learned from: the columns, their scale, the times, and a plain linear forecast."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from mirada.data.columns.times import Spacing
from mirada.errors import require
from mirada.files import read_whole
from mirada.tasks.forecast.series import TimeSeries, all_columns
from mirada.tasks.forecast.windows import RowRange, WindowSize

BASELINE, LATEST = "baseline.safetensors", "latest.csv"
LARGEST = 1 << 30  # bytes of either
MOST_ROWS = 2**31  # of a window
CONSTANT = 1e-12  # a deviation this small, relative to the mean, counts as none
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
        good = series.values[part.begin : part.end][series.good[part.begin : part.end]]
        mean, std = good.mean(0), good.std(0)
        std = np.where(std > CONSTANT * np.maximum(1.0, np.abs(mean)), std, 1.0)  # a constant column becomes 0
        times = series.times
        last = zip(times.texts[-size.lookback :], series.values[-size.lookback :].tolist(), strict=True)
        rows = [[*([text] if series.time else []), *(f"{value:.10g}" for value in values)] for text, values in last]
        latest = csv_text((*([series.time] if series.time else []), *series.columns), rows).encode()
        return cls(
            series.inputs, series.targets, mean, std, size, series.time, times.pattern, times.spacing,
            np.zeros((len(series.targets), size.lookback + 1, size.horizon), np.float32), latest,
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
        """What config.json holds of it."""
        return {
            "inputs": list(self.inputs), "targets": list(self.targets), "mean": self.mean.tolist(), "std": self.std.tolist(),
            "lookback": self.size.lookback, "horizon": self.size.horizon, "time": self.time, "pattern": self.pattern,
            "spacing": asdict(self.spacing), "shares": list(self.shares),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        return {BASELINE: save({"linear": np.ascontiguousarray(self.linear)}), LATEST: self.latest}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the places of its files."""
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
        good = isinstance(facts[name], list) and all(_is_number(value) and value > least for value in facts[name])
        require(good and len(facts[name]) == columns, f"{name} must have a number for each of {columns} columns")
    spacing = facts["spacing"]
    good = isinstance(spacing, dict) and isinstance(spacing.get("kind"), str) and _is_number(spacing.get("step"))
    require(good, "spacing must have a kind and a step")


def _is_number(value: object) -> bool:
    """Whether a value can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()
