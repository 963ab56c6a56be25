"""From a series to windows to learn from, to validate on and to be measured with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mirada.corpora.prices import COMPANIES, prices
from mirada.errors import require
from mirada.runs.sources import Splits
from mirada.tasks.forecast.series import SeriesOptions, TimeSeries, joined, read_series
from mirada.tasks.forecast.windows import (
    PARTS,
    RowRange,
    SeriesWindow,
    WindowSize,
    parts_of_series,
    require_rows,
    used,
    window_size,
    windows_in,
)

SKIPPED = "what a bad row would say is carried on from the row before it, and no window has to predict it"


@dataclass(frozen=True, eq=False)
class DividedSeries:
    """What windows are parts of: the series to learn from and its rows, and the size of the windows."""

    series: TimeSeries
    part: RowRange
    size: WindowSize


def builtin_prices(options: SeriesOptions) -> TimeSeries:
    """The embedded prices."""
    data = prices()
    columns = {"date": data.dates} | {name: data.prices[:, place] for place, name in enumerate(COMPANIES)}
    series = read_series(columns, options)
    return replace(series, place="builtin", where=[f"builtin {where}" for where in series.where], notes=())


def in_order_of_time(series: TimeSeries, options: SeriesOptions) -> Splits[SeriesWindow]:
    """The windows of one series: the first rows are learned from, the last ones measured with."""
    parts = parts_of_series(len(series), options, series.place)
    series = used(series, parts)
    size = window_size(options, len(parts[0]), [len(part) for part in parts[1:]])
    require_rows(series, parts, size)
    train, valid, *test = (windows_in(series, part, size) for part in parts)
    rows = ", ".join(f"{len(part):,} rows {use}" for part, use in zip(parts, PARTS, strict=False))
    notes = [*series.notes, f"{series.place}: {rows}; {size}"] if series.place != "builtin" else []
    if series.problems and options.bad == "skip":
        notes.append(SKIPPED)
    still = _constant_targets(series, parts[0])
    if still:
        notes.append(
            f"{series.place}: {', '.join(still)} never {'changes' if len(still) == 1 else 'change'} in the rows to learn from: "
            "what is easy to predict makes the mean error small (target= names the columns to predict)"
        )
    return Splits(
        train, valid, test[0] if test else (), problems=series.problems, notes=notes,
        whole=DividedSeries(series, parts[0], size),
    )  # fmt: skip


def _constant_targets(series: TimeSeries, part: RowRange) -> list[str]:
    """The targets that have one value in all rows to learn from."""
    rows = slice(part.begin, part.end)
    return [name for name in series.targets if np.ptp(series.of([name])[rows]) == 0]


def given_parts(places: Mapping[str, Any], options: SeriesOptions) -> Splits[SeriesWindow]:
    """The windows of parts that have a file each."""
    train = read_series(places["train"], options)
    fixed = replace(options, target=joined(train.targets), inputs=joined(train.inputs))
    found = {"train": train} | {name: read_series(at, fixed) for name, at in places.items() if name != "train"}
    require(
        "valid" in found,
        f"{', '.join(map(str, places.values()))}: there is nothing to validate on. Add a file valid.csv.",
    )
    size = window_size(options, len(train), [len(series) - options.lookback for series in found.values()])
    windows = {}
    for name, series in found.items():
        require_rows(series, [RowRange(0, len(series))], size)
        windows[name] = windows_in(series, RowRange(0, len(series)), size)
    return Splits(
        windows["train"], windows["valid"], windows.get("test", ()),
        problems=[problem for series in found.values() for problem in series.problems],
        notes=[*(note for series in found.values() for note in series.notes), f"{train.place}: {size}"],
        whole=DividedSeries(train, RowRange(0, len(train)), size),
    )  # fmt: skip


def all_windows(series: TimeSeries, options: SeriesOptions) -> Splits[SeriesWindow]:
    """Every window of a series, to measure with."""
    part, size = RowRange(0, len(series)), WindowSize(options.lookback, options.horizon)
    require_rows(series, [part], size)
    return Splits((), (), windows_in(series, part, size), problems=series.problems, notes=series.notes)
