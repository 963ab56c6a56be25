"""The cells of a series, from a file or from memory: named columns, the place of every row, and the rows that do not fit."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirada.data.decimals import is_numeric, numbers
from mirada.data.first_row import TITLES, is_title, number, usual_width
from mirada.data.options import TableOptions
from mirada.data.record import Problem
from mirada.data.records import OBJECTS, ending_of, table_rows
from mirada.data.separator import is_one_column, of_numbers
from mirada.data.table import TableLine, line_rows
from mirada.data.times import NUMBERS, pattern_of, text_of_time
from mirada.errors import require, unknown

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
    above: int = 0  # titles that were left out

    def form(self) -> str:
        """The way out for a table that is not a series."""
        way = "" if self.place == MEMORY else " If its cells are divided by something else, say separator=."
        return f"A series has a row per time step: a time, then numbers.{way}"

    def turned(self) -> "SeriesTable":
        """The rows from the last to the first."""
        columns = {name: cells[::-1] for name, cells in self.columns.items()}
        return replace(self, columns=columns, where=self.where[::-1], whole=self.whole[::-1])

    def missing(self, name: str, known: Iterable[str]) -> ValueError:
        """That there is no such column. One that was named where the file names none is a forgotten header."""
        numbered = not name.isdecimal() and all(other.isdecimal() for other in self.columns)
        header = (
            " The first line names no columns: add a header, as in the data that was learned from." if numbered else ""
        )
        return ValueError(f"{self.place}: {unknown('column', name, known)}{header}")


def table_of(place: Any, options: TableOptions) -> SeriesTable:
    """The table in a file, or in memory."""
    table = table_in_file(place, options) if isinstance(place, str) else table_in_memory(place)
    require(len(table.where) > 0, f"{table.place} has no rows. {table.form()}")
    if not options.names:
        return table
    for name in options.names:
        if name not in table.columns:
            raise table.missing(name, table.columns)
    return replace(table, columns={name: table.columns[name] for name in options.names})


def table_in_file(path: str, options: TableOptions) -> SeriesTable:
    """The rows of a CSV or TSV file. Empty lines at its end are nothing."""
    require(
        ending_of(path) not in OBJECTS, f"{path}: a series is a CSV or TSV file, or columns in memory. Save it as CSV."
    )
    delimiter = options.delimiter or of_numbers(path, options.encoding)
    if not delimiter and is_one_column(path, options.encoding):
        rows, shown = line_rows(path, options.encoding), "\n"  # no comma divides cells there
    else:
        rows, shown = table_rows(path, 2, replace(options, separator=delimiter))
    found = list(rows)
    while found and not found[-1][2] and not any(map(str.strip, found[-1][1])):
        found.pop()
    require(bool(found), f"{path}: the file has no rows. A series has a row per time step: a time, then numbers.")
    above = titles(found)
    places = [(f"{path}:{number}", cells, fault) for number, cells, fault in found[above:]]
    told = sum(any(map(str.strip, cells)) for _, cells, _ in found[:above])
    return replace(fitted(path, places, options.header, shown), above=told)


def with_clock(table: SeriesTable, at: str | None) -> SeriesTable:
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


def titles(rows: Sequence[TableLine]) -> int:
    """How many lines stand above a table: remarks, and titles in one cell that is neither a number nor a time."""
    stripped = [[cell.strip() for cell in cells] for _, cells, fault in rows[:HEAD] if not fault]
    width = usual_width(stripped, 1) if stripped else 1
    for count, (_, cells, fault) in enumerate(rows[: TITLES + 1]):
        filled = [cell.strip() for cell in cells if cell.strip()]
        title = bool(filled) and is_title([cell.strip() for cell in cells], width)
        title = title and not number(filled[0]) and not pattern_of(filled[:1])
        title = title and not (len(cells) == width == 2 and cells[1:] == filled)  # an index without a name
        if fault or width == 1 or (filled and not title):
            return count
    return 0


def table_in_memory(data: Any) -> SeriesTable:
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
    return fitted(MEMORY, [(f"row {n}", row, "") for n, row in enumerate(rows, 1)], "", ",")


def fitted(place: str, rows: Sequence[tuple[str, list[Any], str]], header: str, separator: str) -> SeriesTable:
    """Rows as columns; what does not fit is named."""
    first = next((row for row in rows if not row[2] and not blank(row[1])), None)
    if first is None:
        raise ValueError(f"{place}: no row can be read: {rows[0][2] or 'all are empty'}")
    width, start = len(first[1]), rows.index(first)
    for where, _, fault in rows[:start]:
        require(not fault, f"{where}: {fault}")  # perhaps it is the header
    heads = has_header(
        [row[1] for row in rows[start : start + HEAD] if not row[2] and len(row[1]) == width], header, separator
    )
    names = column_names(place, first[1]) if heads else [str(number + 1) for number in range(width)]
    places, whole, cells, problems = [], [], [], []
    for place_of_row, row, fault in rows[start + 1 if heads else start :]:
        fault = fault or misfit(row, width)
        problems += [Problem(place_of_row, fault)] if fault else []
        places.append(place_of_row)
        whole.append(not fault)
        cells.append(row if not fault else [""] * width)
    others = [len(row) for _, row, fault in rows[start + 1 :] if not fault and not blank(row)]
    require(
        not others or min(others) <= width,
        f"{''.join(map(str, problems[:1]))} All rows are longer than the first: is a comma decimal, or in a text? Put such "
        "cells in quotes, or divide cells by another character.",
    )
    columns = (
        {name: list(column) for name, column in zip(names, zip(*cells, strict=True), strict=True)} if cells else {}
    )
    return SeriesTable(place, columns, places, whole, problems, separator)


def misfit(row: Sequence[Any], width: int) -> str:
    """What is wrong with the length of a row."""
    if blank(row):
        return "empty line. Take it out."
    return "" if len(row) == width else f"expected {width} column{'s' * (width > 1)}, found {len(row)}. Fix the row."


def blank(row: Sequence[Any]) -> bool:
    return all(cell is None or str(cell).strip() == "" for cell in row)


def has_header(rows: Sequence[Sequence[Any]], said: str, separator: str) -> bool:
    """Whether the first row names the columns: it has words where the others have times or numbers."""
    if said:
        return said == "yes"
    if len(rows) < 2:
        return False
    named = numeric = 0
    for place, (cell, *rest) in enumerate(zip(*rows, strict=True)):
        texts = [text_of_time(value) for value in rest]
        pattern = pattern_of(texts)
        timed = pattern not in ("", NUMBERS)
        if timed or is_numeric(rest, numbers(rest, separator)[1]):
            word = not blank([cell]) and not (
                pattern_of([text_of_time(cell)]) if timed else not numbers([cell], separator)[1]
            )
            if place == 0 and timed and blank([cell]):
                continue  # pandas writes an index without a name
            if place == 0 and timed:
                return word
            named, numeric = named + word, numeric + (not word)
    return named > numeric


def column_names(place: str, cells: Sequence[Any]) -> list[str]:
    """The names in a header; a column without one is called by its number."""
    names = [str(cell).strip() or f"column {number}" for number, cell in enumerate(cells, 1)]
    for name in names:
        require(names.count(name) == 1, f"{place}: several columns are named {name!r}. Rename all but one.")
    return names


def stem(path: str) -> str:
    """The name of a file without its folder and endings.

    >>> stem("stocks/AAPL.csv.gz")
    'AAPL'
    """
    return os.path.basename(path).split(".")[0]
