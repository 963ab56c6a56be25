"""What is known beside the numbers of a series, as codes for embeddings: its calendar, its name, and columns of kinds.

times -> hour, weekday, day, month, after a holiday     words, or numbers that never change in a series -> kinds
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirada.data.columns.times import Moment, Spacing
from mirada.errors import require
from mirada.tasks.forecast.series import TimeSeries, joined

Codes = NDArray[np.int64]
SIZES = {"hour": 24, "weekday": 7, "day": 31, "month": 12, "after a holiday": 2}
CYCLES = {"hour": 1, "weekday": 7, "day": 31, "month": 365, "after a holiday": 365}  # days
REGULAR = ("hour", "weekday")  # parts whose cycles have always as many rows
SEEN = 2  # cycles that must be in the rows to learn from: what was seen once is not known to come again
NEARLY = 0.95  # of these cycles: from the first to the last of 24 months there are 23
DAY, MONTH = 86_400.0, 28 * 86_400.0  # seconds
MOST_KINDS = 200  # of a column; rarer ones are unknown
BINS = 16  # of numbers that never change in a series, where more of them differ


@dataclass(frozen=True)
class Category:
    """A column of kinds: `kinds` are its cells; or `edges` divide its numbers. `fixed`: it never changes in a series.

    >>> Category("city", ("Oslo", "Rome")).codes(["Rome", "Paris"]).tolist()
    [2, 0]
    >>> Category("size", edges=(5.0,)).codes(["7", ""]).tolist()
    [2, 0]
    """

    name: str
    kinds: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()
    fixed: bool = True

    @property
    def size(self) -> int:
        """How many kinds there are."""
        return len(self.kinds) or len(self.edges) + 1

    def codes(self, cells: Sequence[str]) -> Codes:
        """The number of the kind of every cell, from 1; 0: unknown."""
        if self.kinds:
            places = {kind: place for place, kind in enumerate(self.kinds, 1)}
            return np.array([places.get(cell, 0) for cell in cells], np.int64)
        found = np.array([_number(cell) for cell in cells])
        return np.where(np.isnan(found), 0, 1 + np.searchsorted(self.edges, found, "right")).astype(np.int64)

    @classmethod
    def learn(cls, name: str, several: Sequence[Sequence[str]]) -> Self:
        """The kinds in the rows to learn from of several series."""
        fixed = all(len(set(cells)) < 2 for cells in several)
        counts = Counter(cell for cells in several for cell in cells if cell)
        if len(counts) > BINS and all(not np.isnan(_number(cell)) for cell in counts):
            values = np.array([_number(cell) for cell in counts])
            edges = np.unique(np.quantile(values, np.arange(1, BINS) / BINS)).tolist()
            return cls(name, edges=tuple(edges), fixed=fixed)
        return cls(name, tuple(sorted(kind for kind, _ in counts.most_common(MOST_KINDS))), fixed=fixed)


@dataclass(frozen=True)
class SeriesContext:
    """Which parts of a calendar and which columns of kinds are read; `series` are the names of the series learned from.

    Codes count through one table: its first row stands for whatever is not known.
    """

    calendar: tuple[str, ...] = ()
    categories: tuple[Category, ...] = ()
    series: tuple[str, ...] = ()

    @classmethod
    def learn(cls, several: Sequence[TimeSeries], rows: Sequence[int], calendar: bool, lookback: int = 0) -> Self:
        """What the first rows of series have, of which `lookback` are read at once."""
        first = several[0]
        learned = [
            Category.learn(name, [one.words[name][:count] for one, count in zip(several, rows, strict=True)])
            for name in first.words
        ]
        return cls(
            calendar_of(first.times.spacing, first.times.moments[: rows[0]], lookback) if calendar else (),
            tuple(one for one in learned if one.size > 1), tuple(one.name for one in several) if first.column else (),
        )  # fmt: skip

    @property
    def kinds(self) -> int:
        """The codes of a row."""
        return len(self.calendar) + len(self.categories) + bool(self.series)

    @property
    def columns(self) -> str:
        """The columns of kinds, as the option names them."""
        return joined([one.name for one in self.categories]) or "no"

    @property
    def size(self) -> int:
        """The rows of the table of vectors; 0 where nothing is read."""
        return 1 + sum(self._sizes) if self.kinds else 0

    @property
    def _sizes(self) -> tuple[int, ...]:
        named = (len(self.series),) if self.series else ()
        return (*(SIZES[name] for name in self.calendar), *(one.size for one in self.categories), *named)

    @property
    def ahead(self) -> NDArray[np.bool_]:
        """Which codes are known of rows to come: those of the calendar, and what never changes."""
        return np.array(
            [True] * len(self.calendar) + [one.fixed for one in self.categories] + [True] * bool(self.series)
        )

    def codes(self, series: TimeSeries, more: int = 0) -> Codes:
        """The codes of all rows of a series and of some after it, (rows, kinds)."""
        spacing, moments = series.times.spacing, list(series.times.moments)
        if more and self.calendar:
            last = next(moment for moment in reversed(moments) if moment is not None)
            moments += spacing.after(last, more)
        rows = len(series) + more
        columns = [*calendar_codes(self.calendar, moments, spacing).T] if self.calendar else []
        for one in self.categories:
            found = one.codes(series.words[one.name])
            columns.append(np.concatenate([found, np.repeat(found[-1:] * one.fixed, more)]))
        if self.series:
            place = self.series.index(series.name) + 1 if series.name in self.series else 0
            columns.append(np.full(rows, place))
        codes = np.stack(columns, axis=1) if columns else np.zeros((rows, 0), np.int64)
        begins = np.cumsum([0, *self._sizes[:-1]]) if self.kinds else np.zeros(0, np.int64)
        return np.where(codes > 0, codes + begins, 0)

    def text(self) -> str:
        """What is read beside the numbers, for a person; nothing where nothing is."""
        named = [f"{one.name} ({one.size} kinds)" for one in self.categories]
        return ", ".join([*self.calendar, *named, *(["which series it is"] if self.series else [])])

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {
            "calendar": list(self.calendar), "series": list(self.series),
            "categories": [
                {"name": one.name, "kinds": list(one.kinds), "edges": list(one.edges), "fixed": one.fixed}
                for one in self.categories
            ],
        }  # fmt: skip

    @classmethod
    def restore(cls, facts: Mapping[str, Any]) -> Self:
        """What `facts` kept."""
        calendar, series = tuple(facts.get("calendar", ())), tuple(map(str, facts.get("series", ())))
        require(all(name in SIZES for name in calendar), f"calendar has parts that are not known: {calendar}")
        categories = tuple(
            Category(
                str(one["name"]), tuple(map(str, one["kinds"])), tuple(map(float, one["edges"])), bool(one["fixed"])
            )
            for one in facts.get("categories", ())
        )
        return cls(calendar, categories, series)


def calendar_of(spacing: Spacing, moments: Sequence[Moment | None], lookback: int = 0) -> tuple[str, ...]:
    """The parts of a calendar that differ between rows so far apart, where the rows have seen them come again.

    Cycles of always as many rows are left out where a window of `lookback` rows shows them twice: numbers say the same.

    >>> calendar_of(Spacing("seconds", 3600), [datetime(2024, 1, 1, 5), datetime(2026, 2, 3, 6)])
    ('hour', 'weekday', 'month')
    >>> calendar_of(Spacing("seconds", 3600), [datetime(2024, 1, 1, 5), datetime(2024, 12, 29, 6)])
    ('hour', 'weekday')
    >>> calendar_of(Spacing("seconds", 3600), [datetime(2024, 1, 1, 5), datetime(2024, 12, 29, 6)], lookback=96)
    ('weekday',)
    >>> calendar_of(Spacing("rows", 1), [1.0])
    ()
    """
    if spacing.kind == "business days":
        parts: tuple[str, ...] = ("weekday", "day", "month", "after a holiday")
    elif spacing.kind == "months":
        parts = ("month",)
    elif spacing.kind == "seconds":
        step = spacing.step
        parts = ("hour", "weekday", "month") if step < DAY else ("weekday", "day", "month") if step == DAY else ()
        parts = ("month",) if DAY < step <= MONTH else parts
    else:
        parts = ()
    known = [moment for moment in moments if isinstance(moment, datetime)]
    days = (known[-1] - known[0]).days if known else 0
    parts = tuple(part for part in parts if days >= NEARLY * SEEN * CYCLES[part])
    if spacing.kind == "seconds" and lookback:
        shown = lookback * spacing.step / DAY
        parts = tuple(part for part in parts if part not in REGULAR or shown < SEEN * CYCLES[part])
    codes = calendar_codes(parts, moments, spacing)
    return tuple(part for part, column in zip(parts, codes.T, strict=True) if len({*column.tolist()} - {0}) > 1)


def calendar_codes(parts: Sequence[str], moments: Sequence[Moment | None], spacing: Spacing) -> Codes:
    """Parts of a calendar at some times, from 1, (rows, parts); 0 where there is no time.

    >>> calendar_codes(("weekday", "month"), [datetime(2024, 1, 7), None], Spacing("seconds", 86400.0)).tolist()
    [[7, 1], [0, 0]]
    """
    codes = np.zeros((len(moments), len(parts)), np.int64)
    for place, part in enumerate(parts):
        if part == "after a holiday":
            codes[:, place] = _after_a_gap(moments)
            continue
        for row, moment in enumerate(moments):
            if isinstance(moment, datetime):
                codes[row, place] = {
                    "hour": moment.hour + 1, "weekday": moment.weekday() + 1, "day": moment.day, "month": moment.month
                }[part]  # fmt: skip
    return codes


def _after_a_gap(moments: Sequence[Moment | None]) -> list[int]:
    """2 for the first business day after weekdays that are missing, 1 for others."""
    found = [1 if isinstance(moment, datetime) else 0 for moment in moments[:1]]
    for before, moment in pairwise(moments):
        if not isinstance(before, datetime) or not isinstance(moment, datetime):
            found.append(0)
            continue
        days = (moment.date() - before.date()).days
        between = (before.date() + timedelta(days=n) for n in range(1, min(days, 8)))
        found.append(2 if days > 7 or any(day.weekday() < 5 for day in between) else 1)
    return found


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
