"""Windows of a series: some rows that are read, and the next ones, which are predicted; parts of a series in order of time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirada.data.record import Record
from mirada.data.series import SeriesOptions, TimeSeries
from mirada.errors import require

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
        sizes = [share_of(rows, first), *(share_of(rows, share) for share in rest[1:])]
        sizes.insert(1, rows - sum(sizes))
    ends = np.cumsum([0, *sizes]).tolist()
    return [RowRange(begin, end) for begin, end in pairwise(ends)]


def share_of(rows: int, share: float) -> int:
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
