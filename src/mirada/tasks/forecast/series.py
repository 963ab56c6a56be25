"""A series: a table with a row per time step, from a file or from memory, and the bad rows named.

path or value -> rows of cells (series_table.py) -> the column of times -> the columns of numbers -> a TimeSeries
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mirada.data.columns.contents import is_numeric, mark_of, numbers
from mirada.data.columns.header import series_head, titles_above
from mirada.data.columns.names import TIME_NAMES, words_of
from mirada.data.columns.times import (
    NUMBERS,
    Moment,
    Spacing,
    TimeAxis,
    numbered_axis,
    pattern_of,
    readable,
    text_of_time,
    time_axis,
)
from mirada.data.files.forms import form_of
from mirada.data.files.records import is_one_column, line_rows, of_numbers, table_rows
from mirada.data.options import TableOptions
from mirada.data.record import Problem
from mirada.errors import require, unknown
from mirada.words import plural

# The cells of a series, from a file or from memory: named columns, the place of every row, and the rows that do
# not fit.


CLOCK = re.compile(r"([01]?\d|2[0-3])(:[0-5]\d(:[0-5]\d)?|\.[0-5]\d\.[0-5]\d)")  # 17:24, 17.24.00; 17.24 is a price
HEAD = 50  # rows that tell whether the first one names the columns
MEMORY = "the data"  # the place of what is in memory


@dataclass(frozen=True, eq=False)
class SeriesTable:
    """Columns by name. A row that is not `whole` has no cells: it could not be read."""

    place: str
    columns: dict[str, list[Any]]
    where: list[str]
    whole: list[bool]
    problems: list[Problem]
    separator: str = ","
    above: int = 0  # titles that were skipped

    def form(self) -> str:
        """The way out for a table that is not a series."""
        way = "" if self.place == MEMORY else " If its cells are divided by something else, say separator=."
        return f"A series has a row per time step: a time, then numbers.{way}"

    def missing(self, name: str, known: Iterable[str]) -> ValueError:
        """That there is no such column. One that was named where the file names none is a forgotten header."""
        text = f"{self.place}: {unknown('column', name, known)}"
        if not name.isdecimal() and all(other.isdecimal() for other in self.columns):
            text += " The first line names no columns: add a header, as in the data that was learned from."
        return ValueError(text)


def _table_in_file(path: str, options: TableOptions) -> SeriesTable:
    """The rows of a CSV or TSV file. Empty lines at its end are ignored."""
    require(
        form_of(path).objects is None, f"{path}: a series is a CSV or TSV file, or columns in memory. Save it as CSV."
    )
    delimiter = options.delimiter or of_numbers(path, options.encoding)
    if not delimiter and is_one_column(path, options.encoding):
        rows, shown = line_rows(path, options.encoding), "\n"  # no comma divides cells there
    else:
        rows, shown = table_rows(path, 2, replace(options, separator=delimiter))
    rows_read = list(rows)
    while rows_read and not rows_read[-1][2] and not any(map(str.strip, rows_read[-1][1])):
        rows_read.pop()
    require(bool(rows_read), f"{path}: the file has no rows. A series has a row per time step: a time, then numbers.")
    above = titles_above(rows_read[:HEAD])
    places = [(f"{path}:{number}", cells, fault) for number, cells, fault in rows_read[above:]]
    titles = sum(any(map(str.strip, cells)) for _, cells, _ in rows_read[:above])
    return replace(_fitted(path, places, options.header, shown), above=titles)


def _with_clock(table: SeriesTable, at: str | None) -> SeriesTable:
    """The table with one column of times, where it has dates in one and clocks in another: 16/12/2006, 17:24:00."""
    days = [] if at is None else [text_of_time(cell) for cell in table.columns[at]]
    whole = [row for row, fits in enumerate(table.whole) if fits]
    if at is None or ":" in "".join(days[:HEAD]) or len({days[row] for row in whole}) == len(whole):
        return table
    for name, cells in table.columns.items():
        if name != at and all(CLOCK.fullmatch(str(cells[row]).strip()) for row in whole):
            clocks = [str(cell).strip().replace(".", ":") for cell in cells]
            times = [
                f"{day} {clock.zfill(len(clock) + (clock[1:2] == ':'))}"
                for day, clock in zip(days, clocks, strict=True)
            ]
            others = {key: values for key, values in table.columns.items() if key not in (at, name)}
            return replace(table, columns={at: times, **others})
    return table


def _table_in_memory(data: Any) -> SeriesTable:
    """Columns by name (a dict, or a data frame, whose index may hold the times), or rows (an array, a list of rows)."""
    frame = hasattr(data, "columns") and hasattr(data, "__getitem__")
    if frame or isinstance(data, Mapping):
        columns = {str(name): list(data[name]) for name in (data.columns if frame else data)}
        index = getattr(data, "index", None) if frame else None
        if getattr(getattr(index, "dtype", None), "kind", "") == "M":  # dates
            columns = {str(getattr(index, "name", None) or "time"): list(index), **columns}  # type: ignore[arg-type]
        sizes = {len(cells) for cells in columns.values()}
        require(bool(columns), "the data has no columns. Give numbers by the names of their columns.")
        require(
            len(sizes) == 1, f"columns must be equally long: got {', '.join(str(len(c)) for c in columns.values())}"
        )
        count = sizes.pop()
        return SeriesTable(MEMORY, columns, [f"row {n}" for n in range(1, count + 1)], [True] * count, [])
    require(
        isinstance(data, Iterable) and not isinstance(data, bytes),
        f"a series in memory is a dict of columns, a data frame, rows or an array: got {type(data).__name__}",
    )
    rows = [list(row) if isinstance(row, Iterable) and not isinstance(row, str) else [row] for row in data]
    require(bool(rows), "the data has no rows. A series has a row per time step: a time, then numbers.")
    return _fitted(MEMORY, [(f"row {n}", row, "") for n, row in enumerate(rows, 1)], "", ",")


def _fitted(place: str, rows: Sequence[tuple[str, list[Any], str]], header: str, separator: str) -> SeriesTable:
    """Rows as columns; what does not fit is named."""
    first = next((row for row in rows if not row[2] and not _blank(row[1])), None)
    if first is None:
        raise ValueError(f"{place}: no row can be read: {rows[0][2] or 'all are empty'}")
    width, start = len(first[1]), rows.index(first)
    for where, _, fault in rows[:start]:
        require(not fault, f"{where}: {fault}")  # perhaps it is the header
    alike = [row[1] for row in rows[start : start + HEAD] if not row[2] and len(row[1]) == width]
    heads = series_head(alike, header, separator).headed
    names = _column_names(place, first[1]) if heads else [str(number + 1) for number in range(width)]
    places, whole, cells, problems = [], [], [], []
    for place_of_row, row, fault in rows[start + 1 if heads else start :]:
        if not fault and _blank(row):
            fault = "empty line. Take it out."
        elif not fault and len(row) != width:
            fault = f"expected {plural(width, 'column')}, found {len(row)}. Fix the row."
        problems += [Problem(place_of_row, fault)] if fault else []
        places.append(place_of_row)
        whole.append(not fault)
        cells.append(row if not fault else [""] * width)
    others = [len(row) for _, row, fault in rows[start + 1 :] if not fault and not _blank(row)]
    require(
        not others or min(others) <= width,
        f"{''.join(map(str, problems[:1]))} All rows are longer than the first: is a comma decimal, or in a text? Put such "
        "cells in quotes, or divide cells by another character.",
    )
    columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True)) if cells else {}
    return SeriesTable(place, columns, places, whole, problems, separator)


def _blank(row: Sequence[Any]) -> bool:
    return all(cell is None or str(cell).strip() == "" for cell in row)


def _column_names(place: str, cells: Sequence[Any]) -> list[str]:
    """The names in a header; a column without one is called by its number."""
    names = [str(cell).strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
    for name, count in Counter(names).items():
        require(count == 1, f"{place}: several columns are named {name!r}. Rename all but one.")
    return names


REPEATED = 0.7  # share of different times below which rows may be of several series
LEAST_ROWS = 2  # of a series, on the average
SEVERAL = 0.2  # share of rows out of order above which there may be several series
SOME = 8  # columns of which pairs may name series
FEW_KINDS = 5  # rows, at least, for a kind of a column of words that is read
IDS = {  # last words of names
    "id", "ids", "series", "store", "item", "sensor", "station", "unit", "uid", "unique", "shop", "product", "sku", "dept",
    "department", "customer", "meter", "device", "machine", "zone", "region", "symbol", "code",
}  # fmt: skip
ROUNDED = 0.01  # of a step between times that are numbers
CALENDAR = {
    "year": "year año ano jahr",
    "month": "month mes monat",
    "quarter": "quarter trimestre",
    "day": "day dia día tag",
}
HUGE = 1e30  # nothing that is measured is larger
NO_DATA = (999.0, 9999.0, 99999.0, 999999.0, 32768.0, 32767.0, 1e20)  # with either sign, they often stand for no data
FAR, ABSURD = 10.0, 1e5  # times as far from the middle as the others are: such a code, any number
RARE, MANY = 0.05, 0.3  # shares of a column
REGULAR = 0.9  # share of equal steps that makes a column of whole numbers one of times
NEWEST_FIRST = "the newest row comes first: the rows are read from the last to the first"
NAMED = 3  # things that a note names


@dataclass(frozen=True, kw_only=True)
class SeriesOptions(TableOptions):
    """Columns over time. `time` names the column of times (no: there is none), `target` those to predict, `inputs` those to
    read; without them, all columns of numbers are both.

    `lookback` rows are read and the `horizon` next ones predicted (0: 336 and 96, or fewer where rows are few). `split` are
    shares or numbers of rows to learn from, to validate on and to be measured with, in the order of time.

    `series` names the column that says which of several series a row is of (auto: it is noticed where times are repeated, no:
    there is one series; `store,item`: both name it). `season` are the rows of a season (0: found in the data, 1: there is none).

    `calendar` says whether the hour, weekday, month, ... of a row are read (auto: where its time is a date, and what its
    numbers do not show anyway). `categories` names columns of words, or of numbers that never change in a series, that are
    read as kinds (auto: those with few of them).
    """

    of_files: ClassVar[tuple[str, ...]] = (*TableOptions.of_files, "time", "series")
    fixed: ClassVar[tuple[str, ...]] = ("target", "inputs", "lookback", "horizon")
    split_by_rows: ClassVar[bool] = True

    time: str = ""
    target: str = ""
    inputs: str = ""
    lookback: int = 0
    horizon: int = 0
    series: str = "no"
    season: int = 1
    calendar: str = "no"
    categories: str = "no"

    def check(self) -> None:
        super().check()
        self.one_of("calendar", "auto", "yes", "no")
        self.at_least(0, "lookback", "horizon", "season")


def named_in(text: str) -> tuple[str, ...]:
    """Names with commas between them; one that has a comma stands in quotes.

    >>> named_in('A, B'), named_in('"price, EUR",B')
    (('A', 'B'), ('price, EUR', 'B'))
    """
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip())


def joined(names: Sequence[str]) -> str:
    """Names as `named_in` reads them."""
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(names)
    return file.getvalue()


def all_columns(inputs: Sequence[str], targets: Sequence[str]) -> tuple[str, ...]:
    """The columns that are read, then the targets that are not."""
    return (*inputs, *(name for name in targets if name not in inputs))


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Columns of numbers over time. Columns that are read come first, and among these the targets.

    A row that is not `good` repeats the values of the row before it: it may be read, but is never predicted.
    """

    place: str
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    values: NDArray[np.float64]  # (rows, columns)
    good: NDArray[np.bool_]
    where: Sequence[str]  # the place of every row
    times: TimeAxis
    time: str = ""  # the name of the column of times
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = field(default=())
    name: str = ""  # of one of several series
    column: str = ""  # which has these names
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)  # columns of kinds, by name

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns: those that are read, then the targets that are not."""
        return all_columns(self.inputs, self.targets)

    def of(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Some columns."""
        return self.values[:, [self.columns.index(name) for name in names]]

    @cached_property
    def digest(self) -> bytes:
        """A short name for exactly these numbers."""
        digest = blake2b(np.ascontiguousarray(self.values).tobytes(), digest_size=8)
        digest.update(self.good.tobytes() + "\x1f".join((*self.inputs, "", *self.targets)).encode())
        digest.update(self.name.encode())
        digest.update("\x1f".join(cell for cells in self.words.values() for cell in cells).encode())
        return digest.digest()

    def up_to(self, end: int) -> "TimeSeries":
        """The first rows, and what is wrong with these."""
        late = set(self.where[end:])
        return replace(
            self, values=self.values[:end], good=self.good[:end], where=self.where[:end], times=self.times.take(range(end)),
            problems=[bad for bad in self.problems if bad.where not in late],
            words={name: cells[:end] for name, cells in self.words.items()},
        )  # fmt: skip


def read_series(place: Any, options: SeriesOptions, pattern: str = "", spacing: Spacing | None = None) -> TimeSeries:
    r"""What a path or a value in memory holds: a dict of columns, a data frame, rows, or an array.

    `pattern` and `spacing` describe its times, where they are known from training.

    >>> series = read_series({"day": ["2024-01-30", "2024-01-31"], "A": [1.0, 2.0], "B": [5.0, 4.0]}, SeriesOptions())
    >>> series.targets, series.times.after(1), series.values.tolist()
    (('A', 'B'), ('2024-02-01',), [[1.0, 5.0], [2.0, 4.0]])
    >>> read_series([["1", "2"], ["x", "3"], ["4", "5"]], SeriesOptions(time="no")).problems[0]
    Problem(where='row 2', what="text 'x' in a column of numbers: 1. Fix it, or ...
    """
    table, at = _timed_table(place, options)
    return _series_of(table, at, options, pattern, spacing)


def series_in(
    place: Any, options: SeriesOptions, pattern: str = "", spacing: Spacing | None = None
) -> tuple[TimeSeries, ...]:
    """The same, where there may be several series, one below the other, and a column that names them.

    >>> data = {"day": [1, 2, 1, 2], "shop": ["x", "x", "y", "y"], "sold": [5, 6, 7, 8]}
    >>> [(one.name, one.values.ravel().tolist()) for one in series_in(data, SeriesOptions(series="auto"))]
    [('x', [5.0, 6.0]), ('y', [7.0, 8.0])]
    """
    table, at = _timed_table(place, options)
    table, column = _series_column(table, at, options)
    if column is None:
        return (_series_of(table, at, options, pattern, spacing),)
    names = [str(cell).strip() for cell in table.columns[column]]
    whole = {name: cells for name, cells in table.columns.items() if name != column}
    measured = {name: cells for name, cells in whole.items() if name != at}
    usual = mark_of(list(measured.values()))
    parsed = {name: numbers(cells, table.separator, usual) for name, cells in measured.items()}
    kinds = _categories(table, parsed, options, names)
    inputs, targets = _roles(table, parsed, options, kinds)
    options = replace(
        options, columns="", inputs=joined(inputs), target=joined(targets), categories=joined(kinds) or "no"
    )
    if at is not None and not pattern:
        pattern = pattern_of([text_of_time(cell) for cell in table.columns[at]])
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    unnamed = rows.pop("", [])
    require(bool(rows), f"{table.place}: the column {column} is empty. Name another one with series=.")
    series = []
    for name, some in rows.items():
        part = replace(
            table, columns={key: [cells[row] for row in some] for key, cells in whole.items()},
            where=[table.where[row] for row in some], whole=[table.whole[row] for row in some], problems=[], above=0,
        )  # fmt: skip
        one = _series_of(part, at, options, pattern, spacing, usual)
        series.append(replace(one, name=name, column=column))
    lost = [Problem(table.where[row], f"no name in the column of series: {column}. Fill it in.")
            for row in unnamed if table.whole[row]]  # fmt: skip
    first = series[0]
    note = f"{table.place}: {len(series):,} series, named by {column}: {_named_briefly(list(rows))} (series=no: one series)"
    others = [*table.problems, *lost, *first.problems]
    series[0] = replace(first, problems=others, notes=[note, *first.notes])
    return tuple(series)


def _named_briefly(names: Sequence[str]) -> str:
    """The first of several names."""
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _timed_table(place: Any, options: SeriesOptions) -> tuple[SeriesTable, str | None]:
    """The columns to take, and the name of that of the times."""
    table = _table_in_file(place, options) if isinstance(place, str) else _table_in_memory(place)
    require(len(table.where) > 0, f"{table.place} has no rows. {table.form()}")
    for name in options.names:
        if name not in table.columns:
            raise table.missing(name, table.columns)
    table = replace(table, columns={name: table.columns[name] for name in options.names or table.columns})
    if not options.time:
        table = _with_date(table)
    at = _time_column(table, options)
    return _with_clock(table, at), at


def _with_date(table: SeriesTable) -> SeriesTable:
    """The table with one column of dates, where it has years in one and months or quarters in another, and perhaps days.

    >>> data = {"year": [1959, 1959], "quarter": [1, 2], "gdp": [2710.3, 2778.8]}
    >>> _with_date(_table_in_memory(data)).columns
    {'year': ['1959-01', '1959-04'], 'gdp': [2710.3, 2778.8]}
    """
    named = {key: name for name in table.columns for key, words in CALENDAR.items() if name.casefold() in words.split()}
    part = named.get("month") or named.get("quarter")
    if "year" not in named or part is None:
        return table
    taken = [named["year"], part, *([named["day"]] if "day" in named and "month" in named else [])]
    dates = []
    for row, cells in enumerate(zip(*(table.columns[name] for name in taken), strict=True)):
        try:
            year, month, *day = (int(float(cell)) for cell in cells)
        except (ValueError, TypeError, OverflowError):
            if table.whole[row]:
                return table
            year, month, day = 0, 1, [1] * (len(taken) - 2)
        months = 3 * month - 2 if part == named.get("quarter") else month
        if not (table.whole[row] <= (1000 <= year <= 9999 and 1 <= months <= 12)):
            return table
        dates.append("-".join([f"{year:04}", f"{months:02}", *(f"{number:02}" for number in day)]) if year else "")
    return replace(
        table,
        columns={named["year"]: dates} | {name: cells for name, cells in table.columns.items() if name not in taken},
    )


def _series_of(
    table: SeriesTable, at: str | None, options: SeriesOptions, pattern: str, spacing: Spacing | None, usual: str = ""
) -> TimeSeries:
    """The series in a table, and what is wrong with its rows. `usual` is the decimal mark, where it is known."""
    times = _axis_of(table, at, pattern, spacing)
    newest_first = _newest_first(times.moments)
    if newest_first:
        backwards = {name: cells[::-1] for name, cells in table.columns.items()}
        table = replace(table, columns=backwards, where=table.where[::-1], whole=table.whole[::-1])
        times = _axis_of(table, at, pattern, spacing)
    measured = {name: cells for name, cells in table.columns.items() if name != at}
    usual = usual or mark_of(list(measured.values()))
    parsed = {name: _without_absurd(*numbers(cells, table.separator, usual)) for name, cells in measured.items()}
    kinds = _categories(table, parsed, options)
    inputs, targets = _roles(table, parsed, options, kinds)
    columns = all_columns(inputs, targets)
    backward = _out_of_order(times.moments)
    problems = [*table.problems, *_bad_cells(table, columns, parsed), *_bad_times(table, times, backward)]
    values = np.stack([parsed[name][0] for name in columns], axis=1)
    timed = np.array([moment is not None for moment in times.moments])
    good = np.isfinite(values).all(1) & timed & np.array(table.whole)
    kept = [row for row in range(int(good.argmax()) if good.any() else 0, len(good)) if row not in backward]
    order = {where: row for row, where in enumerate(table.where)}
    return TimeSeries(
        table.place, inputs, targets, _carried(values[kept], good[kept]), good[kept], [table.where[row] for row in kept],
        times.take(kept), at or "", sorted(problems, key=lambda problem: order.get(problem.where, -1)),
        [*_notes(table, at, times, {k: v for k, v in parsed.items() if k not in kinds}, backward),
         *([f"{table.place}: {NEWEST_FIRST}"] if newest_first else [])],
        words={name: [str(table.columns[name][row]).strip() for row in kept] for name in kinds},
    )  # fmt: skip


def _newest_first(moments: Sequence[Moment | None]) -> bool:
    """Whether every time is before the one above it.

    >>> _newest_first([3.0, 2.0, None, 1.0]), _newest_first([3.0, 2.0, 4.0]), _newest_first([2.0, 1.0])
    (True, False, False)
    """
    known = [moment for moment in moments if moment is not None]
    return len(known) > 2 and all(b < a for a, b in pairwise(known))  # type: ignore[operator]


# columns


def _time_column(table: SeriesTable, options: SeriesOptions) -> str | None:
    """The name of the column of times, or None: the one named in the options, or a first column that holds times."""
    names = list(table.columns)
    if options.time.casefold() == "no":
        return None
    if options.time:
        if options.time not in names:
            raise ValueError(f"{table.place}: {unknown('column', options.time, names)} time=no: there is none.")
        return options.time
    likely = [name for name in names[1:] if name.casefold() in TIME_NAMES]
    for name in (*names[:1], *likely):
        cells = [text_of_time(cell) for cell in table.columns[name]]
        pattern = pattern_of(cells)
        counts = pattern == NUMBERS and (name.casefold() in TIME_NAMES or _counted(cells)) and len(names) > 1
        if counts or pattern not in ("", NUMBERS):
            return name
    return None


def _series_column(table: SeriesTable, at: str | None, options: SeriesOptions) -> tuple[SeriesTable, str | None]:
    """The column that names the series: the one given, or that in which no time comes twice. Several become one."""
    if options.series == "no" or (options.series == "auto" and at is None):
        return table, None
    if options.series == "auto":
        found = _names_of_series(table, at)
    else:
        found = (options.series,) if options.series in table.columns else named_in(options.series)
        others = [name for name in table.columns if name != at]
        for name in found:
            if name not in others:
                raise table.missing(name, others)
    if len(found) < 2:
        return table, found[0] if found else None
    cells = [[str(cell).strip() for cell in table.columns[name]] for name in found]
    both = [joined(row) if all(row) else "" for row in zip(*cells, strict=True)]
    rest = {name: cells for name, cells in table.columns.items() if name not in found}
    return replace(table, columns={joined(found): both, **rest}), joined(found)


def _names_of_series(table: SeriesTable, at: str | None) -> tuple[str, ...]:
    """The column that names series, or two that do together: texts, or ids, that are repeated, and no time comes twice with
    one of them. Of several, that in which the fewest times do, then the one of the fewest kinds.

    >>> data = {"day": [1, 2] * 4, "shop": list("aabbaabb"), "item": list("xxxxyyyy"), "sold": range(8)}
    >>> _names_of_series(_table_in_memory(data), "day")
    ('shop', 'item')
    """
    times = [] if at is None else [text_of_time(cell) for cell in table.columns[at]]
    rows = [row for row, whole in enumerate(table.whole) if whole and times and times[row]]
    if at is None or len({times[row] for row in rows}) > REPEATED * len(rows):
        return ()
    texts = {}
    for name, cells in table.columns.items():
        some = [str(cells[row]).strip() for row in rows]
        numeric = is_numeric(some, numbers(some, table.separator)[1])
        named = not numeric or (words_of(name)[-1:] or [""])[0] in IDS
        if name != at and named and 2 <= len(set(some)) <= len(rows) / LEAST_ROWS:
            texts[name] = some

    def found(several: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        ranked: list[tuple[int, int, int, tuple[str, ...]]] = []
        for names in several:
            both = list(zip(*(texts[name] for name in names), strict=True))
            once = len({(cells, times[row]) for cells, row in zip(both, rows, strict=True)})
            if once >= REGULAR * len(rows) and len(set(both)) <= len(rows) / LEAST_ROWS:
                ranked.append((-once, len(set(both)), len(ranked), names))
        return min(ranked)[-1] if ranked else ()

    return found((name,) for name in texts) or found(combinations(list(texts)[:SOME], 2))


def _counted(cells: Sequence[str]) -> bool:
    """Whether cells count on by whole numbers, by nearly always the same step."""
    try:
        values = np.array([int(cell) for cell in cells if cell])
    except ValueError:
        return False
    steps = np.diff(values)
    return len(steps) > 1 and bool(np.median(steps) > 0) and bool((steps == np.median(steps)).mean() >= REGULAR)


def _axis_of(table: SeriesTable, name: str | None, pattern: str, spacing: Spacing | None) -> TimeAxis:
    """The times of the rows."""
    if name is None:
        return numbered_axis(len(table.where))
    cells = [text_of_time(cell) for cell in table.columns[name]]
    axis = time_axis(cells, pattern, spacing if pattern else None)
    if not any(moment is not None for moment in axis.moments):
        raise ValueError(
            f"{table.place}: the times in {name} cannot be read: {cells[0]!r}. Write them as YYYY-MM-DD hh:mm, or say time=no."
        )
    return axis if axis.pattern == pattern else time_axis(cells, axis.pattern)


def _categories(
    table: SeriesTable, parsed: dict[str, Any], options: SeriesOptions, names: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns that are read as kinds: those given, or words of which there are few, and numbers that never change in any of
    several series, whose `names` the rows have, but do between them.
    """
    if options.categories == "no":
        return ()
    read = {*named_in(options.inputs), *named_in(options.target)}
    if options.categories != "auto":
        for name in named_in(options.categories):
            if name not in parsed:
                raise table.missing(name, parsed)
        return named_in(options.categories)
    found = []
    for name, (_, faults) in parsed.items():
        cells = [str(cell).strip() for cell in table.columns[name]]
        kinds = len({cell for cell in cells if cell})
        if is_numeric(table.columns[name], faults):
            still = len(names) > 0 and len({*zip(names, cells, strict=True)}) == len(set(names)) < len(cells)
            found += [name] if still and kinds > 1 and name not in read else []
        elif 2 <= kinds <= len(cells) / FEW_KINDS and not options.inputs:
            found.append(name)
    numeric = [name for name, (_, faults) in parsed.items() if is_numeric(table.columns[name], faults)]
    return tuple(found) if {*numeric} - {*found} else ()


def _roles(
    table: SeriesTable, parsed: dict[str, Any], options: SeriesOptions, kinds: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns to read and those to predict. Targets that are read come first in both."""
    numeric = [
        name for name, (_, faults) in parsed.items()
        if name not in kinds and is_numeric(table.columns[name], faults)
    ]  # fmt: skip
    some = ", ".join(f"{name} has {table.columns[name][0]!r}" for name in list(parsed)[:NAMED] if table.columns[name])
    require(bool(numeric), f"{table.place}: no column holds numbers{f' ({some})' * bool(some)}. {table.form()}")
    read, targets = named_in(options.inputs), named_in(options.target)
    for name in (*targets, *read):
        if name not in parsed:
            raise table.missing(name, parsed)
        faults = parsed[name][1]
        some = next((what for what in faults.values() if what.startswith("text")), "no number")
        require(name in numeric, f"{table.place}: the column {name} holds no numbers but {some}. Choose another one.")
    twice = [name for names in (targets, read) for name in names if names.count(name) > 1]
    require(not twice, f"{table.place}: the column {''.join(twice[:1])} is named twice")
    read, targets = read or tuple(numeric), targets or tuple(numeric)
    own = tuple(name for name in targets if name in read)
    return (*own, *(name for name in read if name not in own)), (*own, *(name for name in targets if name not in own))


# what is wrong


def _bad_cells(table: SeriesTable, columns: Sequence[str], parsed: dict[str, Any]) -> Iterator[Problem]:
    """The cells of columns of numbers that hold none."""
    for name in columns:
        for row, what in parsed[name][1].items():
            fix = "Fill it in" if what == "no number" else "Fix it"
            text = f"{what} in a column of numbers: {name}. {fix}, or carry the row before on with bad=skip."
            if table.whole[row]:
                yield Problem(table.where[row], text)


def _out_of_order(moments: Sequence[Moment | None]) -> dict[int, int]:
    """The rows whose times do not come after all before them, each with the row of the latest time before it."""
    rows: dict[int, int] = {}
    latest = -1
    for row, moment in enumerate(moments):
        if moment is None:
            continue
        if latest >= 0 and moment <= moments[latest]:  # type: ignore[operator]
            rows[row] = latest
        else:
            latest = row
    return rows


def _bad_times(table: SeriesTable, times: TimeAxis, backward: dict[int, int]) -> Iterator[Problem]:
    """The times that are out of order, then those that cannot be read."""
    way = "Sort the rows, or leave this one out with bad=skip."
    if len(backward) > SEVERAL * len(times.moments):
        texts = [name for name in table.columns if _names_several(table, name)]
        way = f"Where a column names several series, say series={texts[0] if texts else 'NAME'}; else sort the rows."
    for row, before in backward.items():
        kind = "the same time twice" if times.moments[row] == times.moments[before] else "time goes back"
        there = f"{times.texts[row]} after {times.texts[before]} in {table.where[before]}"
        yield Problem(table.where[row], f"{kind}: {there}. {way}")
    form = "a number" if times.pattern == NUMBERS else readable(times.pattern)
    for where, text, moment, whole in zip(table.where, times.texts, times.moments, table.whole, strict=True):
        if moment is None and whole:
            yield Problem(where, f"no time: {text!r} is not written as {form}. Fix it.")


def _names_several(table: SeriesTable, name: str) -> bool:
    """Whether a column of texts has some that are repeated."""
    texts = [str(cell) for cell in table.columns[name]]
    numeric = is_numeric(texts, numbers(texts, table.separator)[1])
    return not numeric and 2 <= len(set(texts)) <= len(texts) / 2 and not pattern_of(texts)


def _without_absurd(values: NDArray[np.float64], faults: dict[int, str]) -> tuple[NDArray[np.float64], dict[int, str]]:
    """A column and its faults, with numbers that cannot have been measured as faults: no number has a place for them in the
    units of the others. These are a few numbers far beyond all others, and codes that are known to stand for no data.

    >>> _without_absurd(np.array([1.0, 3.0, -3.4028e38, 2.0]), {})[1]
    {2: "'-3.4028e+38', far from all others (1 to 3),"}
    >>> _without_absurd(np.array([20.0, 21.0, -9999.0, 22.0, 21.5]), {})[1], _without_absurd(np.array([1.0, 500.0, 2.0]), {})[1]
    ({2: "'-9999', far from all others (20 to 22),"}, {})
    """
    known = values[np.isfinite(values)]
    if len(known) < 3:
        return values, faults
    middle = float(np.median(np.clip(known, -HUGE, HUGE)))
    with np.errstate(over="ignore"):
        apart = np.abs(values - middle)
    usual = float(np.quantile(apart[np.isfinite(apart)], 1 - RARE))
    coded = np.isin(np.abs(values), NO_DATA)
    others = ~coded & np.isfinite(values)
    widest = float(apart[others].max()) if others.any() else np.inf
    absurd = ((usual > 0) & (apart > ABSURD * usual)) | (coded & (apart > FAR * widest))
    absurd = (absurd & (absurd.sum() <= MANY * len(values))) | (np.abs(values) > HUGE)
    if not absurd.any():
        return values, faults
    rest = values[np.isfinite(values) & ~absurd]
    span = f"{rest.min():g} to {rest.max():g}" if len(rest) else "none"
    more = {row: f"{f'{values[row]:g}'!r}, far from all others ({span})," for row in np.flatnonzero(absurd).tolist()}
    return np.where(absurd, np.nan, values), {**faults, **more}


def _carried(values: NDArray[np.float64], good: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The values, in a bad row those of the last good one.

    >>> _carried(np.array([[1.0], [np.nan], [3.0]]), np.array([True, False, True])).tolist()
    [[1.0], [1.0], [3.0]]
    """
    rows = np.maximum.accumulate(np.where(good, np.arange(len(good)), 0))
    return np.nan_to_num(values[rows])


# what was recognized


def _is_later(moment: Moment, before: Moment, spacing: Spacing) -> bool:
    """Whether a time is later than the one that was to come after another; numbers may be rounded."""
    try:
        (expected,) = spacing.after(before, 1)
    except ValueError:  # the calendar ends there
        return False
    if isinstance(expected, float):
        expected += ROUNDED * abs(spacing.step)
    return expected < moment  # type: ignore[operator]


def _notes(
    table: SeriesTable, at: str | None, times: TimeAxis, parsed: dict[str, Any], backward: dict[int, int]
) -> list[str]:  # fmt: skip
    """What a person should know about how a file was read."""
    texts = [name for name, (_, faults) in parsed.items() if not is_numeric(table.columns[name], faults)]
    if at is None:
        notes = ["no column of times: the rows are numbered (time=NAME names one)"]
    else:
        form = "numbers" if times.pattern == NUMBERS else readable(times.pattern)
        notes = [f"the times are in {at}: {form}, {times.spacing.text()} apart"]
        if times.spacing.holidays:
            notes.append(f"{len(times.spacing.holidays)} holidays a year have no row, and no forecast")
        rows = [row for row, moment in enumerate(times.moments) if moment is not None and row not in backward]
        jumps = [
            b for a, b in pairwise(rows)
            if _is_later(times.moments[b], times.moments[a], times.spacing)  # type: ignore[arg-type]
        ]  # fmt: skip
        if jumps and times.spacing.kind != "business days":  # else these are holidays
            notes.append(
                f"{len(jumps):,} {'row is' if len(jumps) == 1 else 'rows are'} farther apart, the first at "
                f"{table.where[jumps[0]]}; all are taken as one step each"
            )
    if table.above:
        notes.append(f"{plural(table.above, 'line')} at the top left out")
    if texts:
        named = ", ".join(texts[:NAMED]) + (", ..." if len(texts) > NAMED else "")
        notes.append(
            f"{named} {'has' if len(texts) == 1 else 'have'} no numbers and {'is' if len(texts) == 1 else 'are'} not read"
        )
    return [f"{table.place}: {text}" for text in notes]
