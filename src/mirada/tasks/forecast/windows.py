"""Windows of a series: rows that are read, and the next ones, which are predicted; and which are learned from.

series -> parts in order of time -> windows in each part -> batches
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.data.batching import Microbatch
from mirada.data.record import Record
from mirada.errors import require
from mirada.runs.sources import Splits
from mirada.tasks.forecast.context import SeriesContext
from mirada.tasks.forecast.plain import season_of
from mirada.tasks.forecast.series import NAMED, SeriesOptions, TimeSeries, joined, read_series, series_in
from mirada.training.objectives import Objective
from mirada.words import plural

USUAL = ((336, 96), (192, 48), (96, 24), (48, 12), (24, 6), (12, 3), (8, 2), (4, 1))  # lookback and horizon
ENOUGH = 5  # windows that must fit into the rows to learn from, without overlap, for a usual size
SEASONS_READ = (2, 3)  # at least, where there is a season
LOOKED_AT = 20  # series whose seasons are looked for
SPLIT = (0.7, 0.1, 0.2)
PARTS = ("to learn from", "to validate on", "to be measured with")
SKIPPED = "what a bad row would say is carried on from the row before it, and no window has to predict it"


class SeriesWindow(NamedTuple):
    """A window of a series: the row of its first prediction; the rows before it are read."""

    series: TimeSeries
    first: int


WindowRecord = Record[SeriesWindow]


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


@dataclass(frozen=True, eq=False)
class DividedSeries:
    """What windows are parts of: the series to learn from, one or several, their rows for that, and the size of the windows."""

    series: tuple[TimeSeries, ...]
    parts: tuple[RowRange, ...]
    size: WindowSize

    @property
    def column(self) -> str:
        """The column that names the series, where there are several."""
        return self.series[0].column

    def context(self, options: SeriesOptions) -> SeriesContext:
        """What is known beside the numbers, in the rows to learn from."""
        lookback = self.size.lookback if options.calendar == "auto" else 0
        return SeriesContext.learn(self.series, [part.end for part in self.parts], options.calendar != "no", lookback)

    def season(self, options: SeriesOptions) -> int:
        """The rows of a season: as the options say; 0: the most frequent one of the series to learn from, 1: there is none."""
        return options.season or _season(self.series, self.parts)


def builtin_prices(options: SeriesOptions) -> TimeSeries:
    """The embedded prices."""
    from mirada.corpora.prices import COMPANIES, prices

    data = prices()
    columns = {"date": data.dates} | {name: data.prices[:, place] for place, name in enumerate(COMPANIES)}
    series = read_series(columns, options)
    return replace(series, place="builtin", where=[f"builtin {where}" for where in series.where], notes=())


def in_order_of_time(several: Sequence[TimeSeries], options: SeriesOptions) -> Splits[SeriesWindow]:
    """The windows of series: of each, the first rows are learned from, the last ones measured with."""
    place, column = several[0].place, several[0].column
    divided = [_divided(series, options) for series in several]
    several, parts = [series for series, _ in divided], [parts for _, parts in divided]
    learned = tuple(part[0] for part in parts)
    longest = max(parts, key=lambda part: part[-1].end)
    season = 1 if options.lookback else options.season or _season(several, learned)
    size = window_size(options, len(longest[0]), [len(part) for part in longest[1:]], season)
    notes = [*several[0].notes]
    if column:
        fits = [
            all(len(part) >= needed for part, needed in zip(some, _rows_needed(some, size), strict=True))
            for some in parts
        ]
        short = [series.name for series, good in zip(several, fits, strict=True) if not good]
        if any(fits) and short:
            notes.append(
                f"{place}: {plural(len(short), 'series')} with too few rows for {size} left out: {_some_of(short)}"
            )
            kept = [number for number, good in enumerate(fits) if good]
            several, parts = [several[n] for n in kept], [parts[n] for n in kept]
            learned = tuple(part[0] for part in parts)
    for series, some in zip(several, parts, strict=True):
        require_rows(series, some, size)
    sets: list[list[WindowRecord]] = [[], [], []]
    for series, some in zip(several, parts, strict=True):
        for number, part in enumerate(some):
            sets[number] += windows_in(series, part, size)
    rows = ", ".join(
        f"{sum(len(some[number]) for some in parts):,} rows {use}" for number, use in enumerate(PARTS[: len(parts[0])])
    )
    notes += [f"{place}: {rows}; {size}"] if place != "builtin" else []
    problems = [problem for series in several for problem in series.problems]
    if problems and options.bad == "skip":
        notes.append(SKIPPED)
    still = [
        name for name in several[0].targets
        if all(np.ptp(one.of([name])[part.begin : part.end]) == 0 for one, part in zip(several, learned, strict=True))
    ]  # fmt: skip
    if still:
        notes.append(
            f"{place}: {', '.join(still)} never {'changes' if len(still) == 1 else 'change'} in the rows to learn from: "
            "what is easy to predict makes the mean error small (target= names the columns to predict)"
        )
    whole = DividedSeries(tuple(several), learned, size)
    if beside := whole.context(options).text():
        notes.append(f"{place}: read beside the numbers: {beside}")
    return Splits(sets[0], sets[1], sets[2], problems=problems, notes=notes, whole=whole)


def _divided(series: TimeSeries, options: SeriesOptions) -> tuple[TimeSeries, list[RowRange]]:
    """A series without the rows that belong to no part and what is wrong there, and its parts."""
    parts = parts_of_series(len(series), options, series.place)
    return (series.up_to(parts[-1].end) if parts[-1].end < len(series) else series), parts


def _season(several: Sequence[TimeSeries], parts: Sequence[RowRange]) -> int:
    """The most frequent season of the targets in some rows; the longest series are looked at."""
    some = sorted(zip(several, parts, strict=True), key=lambda one: -len(one[1]))[:LOOKED_AT]
    counts = Counter(season_of(series.of(series.targets)[part.begin : part.end]) for series, part in some)
    return counts.most_common(1)[0][0]


def _some_of(names: Sequence[str]) -> str:
    """The first names of several."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def given_parts(places: Mapping[str, Any], options: SeriesOptions) -> Splits[SeriesWindow]:
    """The windows of parts that have a file each."""
    train = series_in(places["train"], options)
    first = train[0]
    fixed = replace(options, target=joined(first.targets), inputs=joined(first.inputs), series=first.column or "no")
    parts = {"train": train} | {name: series_in(at, fixed) for name, at in places.items() if name != "train"}
    require(
        "valid" in parts,
        f"{', '.join(map(str, places.values()))}: there is nothing to validate on. Add a file valid.csv.",
    )
    rows = {name: max(map(len, several)) for name, several in parts.items()}
    whole = tuple(RowRange(0, len(series)) for series in train)
    season = 1 if options.lookback else options.season or _season(train, whole)
    size = window_size(options, rows["train"], [count - options.lookback for count in rows.values()], season)
    windows = {name: all_windows(several, replace(options, lookback=size.lookback, horizon=size.horizon)).test
               for name, several in parts.items()}  # fmt: skip
    return Splits(
        windows["train"], windows["valid"], windows.get("test", ()),
        problems=[problem for several in parts.values() for series in several for problem in series.problems],
        notes=[*(note for several in parts.values() for note in several[0].notes), f"{first.place}: {size}"],
        whole=DividedSeries(tuple(train), whole, size),
    )  # fmt: skip


def all_windows(several: Sequence[TimeSeries], options: SeriesOptions) -> Splits[SeriesWindow]:
    """Every window of series, to measure with."""
    size, windows = WindowSize(options.lookback, options.horizon), []
    for series in several:
        part = RowRange(0, len(series))
        if len(several) == 1:
            require_rows(series, [part], size)
        windows += windows_in(series, part, size)
    problems = [problem for series in several for problem in series.problems]
    return Splits((), (), windows, problems=problems, notes=several[0].notes)


def parts_of_series(rows: int, options: SeriesOptions, place: str) -> list[RowRange]:
    """The rows to learn from, to validate on and to be measured with, one after the other.

    Shares: the last part has its share, the second the rows between the others. Numbers of rows count from the start.

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
        sizes = [int(rows * share + 1e-9) for share in (first, *rest[1:])]
        sizes.insert(1, rows - sum(sizes))
    ends = np.cumsum([0, *sizes]).tolist()
    return [RowRange(begin, end) for begin, end in pairwise(ends)]


def window_size(options: SeriesOptions, learned: int, others: Sequence[int], season: int = 1) -> WindowSize:
    """How much is read and predicted: as the options say; otherwise the largest usual size of which enough windows fit.

    `learned` are the rows to learn from, `others` those of the other parts. Where there is a season, at least three of them are
    read, if that leaves half the rows to learn from for windows.

    >>> window_size(SeriesOptions(), 8640, [2880, 2880]), window_size(SeriesOptions(horizon=5), 880, [126, 252])
    (WindowSize(lookback=336, horizon=96), WindowSize(lookback=96, horizon=5))
    >>> window_size(SeriesOptions(), 100, [14, 28], season=12)
    WindowSize(lookback=36, horizon=3)
    """
    size = WindowSize(*USUAL[-1])
    for lookback, horizon in USUAL:
        size = WindowSize(options.lookback or lookback, options.horizon or horizon)
        if learned >= ENOUGH * (size.lookback + size.horizon) and min(others, default=learned) >= 2 * size.horizon:
            break
    if options.lookback or season < 2:
        return size
    read = max((count * season for count in SEASONS_READ if 2 * (count * season + size.horizon) <= learned), default=0)
    return replace(size, lookback=max(size.lookback, read))


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


def _rows_needed(parts: Sequence[RowRange], size: WindowSize) -> list[int]:
    """The rows that every part needs for one window: one that follows another looks back into that."""
    return [size.horizon + max(0, size.lookback - part.begin) for part in parts]


def require_rows(series: TimeSeries, parts: Sequence[RowRange], size: WindowSize) -> None:
    """Require a window in every part."""
    for part, use, needed in zip(parts, PARTS, _rows_needed(parts, size), strict=False):
        require(
            len(part) >= needed,
            f"{series.place}: {len(part):,} rows {use} are too few: {size} need at least {needed:,}. "
            "Give more rows, another split=, or a smaller lookback= and horizon=.",
        )


@dataclass(frozen=True, eq=False)
class WindowExamples:
    """Windows by their first rows: `lookback` rows of some columns are read, the next `horizon` of the targets wanted.

    The first `own` targets are read, too: a forecast of these begins at their last values. One of the others begins at 0.
    `codes` are what is known beside the numbers, of rows to come only those that are `ahead`.

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
    codes: Int[Tensor, "rows kinds"] | None = None
    ahead: Bool[Tensor, " kinds"] | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """What some windows read, the values that forecasts begin at, and what is wanted."""
        starts = self.starts[torch.as_tensor(rows, dtype=torch.int64)].unsqueeze(1)
        last = self.wanted[starts[:, 0] + self.lookback - 1]
        inputs = {
            "series": self.read[starts + torch.arange(self.lookback)],
            "first": torch.where(torch.arange(last.shape[1]) < self.own, last, 0.0),
            "wanted": self.wanted[starts + self.lookback + torch.arange(self.horizon)],
        }
        if self.codes is not None and self.ahead is not None:
            around = self.codes[starts + torch.arange(self.lookback + self.horizon)]
            around[:, self.lookback :] *= self.ahead
            inputs["codes"] = around
        return Microbatch(inputs, (inputs["wanted"].numel(),), len(rows) * self.lookback)

    def take(self, rows: Sequence[int]) -> "WindowExamples":
        """Some of the windows, as a set of their own."""
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


def read_by_model(inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """What a forecaster reads of a batch."""
    return [inputs[name] for name in ("series", "first", "codes") if name in inputs]


class ForecastLoss(Objective):
    """The mean squared error of the forecast itself: a model that goes step by step learns from its own predictions."""

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The error of one batch: mean over windows, rows and targets of (forecast - wanted)^2."""
        return F.mse_loss(self.model(*read_by_model(inputs)), inputs["wanted"]).unsqueeze(0)
