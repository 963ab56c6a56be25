"""Tables: rows of cells, from tab separated or quoted lines to records."""

import csv
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from mirada.data.first_row import TITLES, has_header
from mirada.data.header import recognize
from mirada.data.names import words_of
from mirada.data.options import TableOptions
from mirada.data.record import Read, Sorter
from mirada.data.separator import excel_separator
from mirada.data.text import LONGEST_LINE, ending_of, scan
from mirada.errors import require, unknown

ScannedLine = tuple[int, str, str]  # the number of a line, its text, what is wrong with it
TableLine = tuple[int, list[str], str]  # the number of the line, its cells, what is wrong with it
Rows = Iterator[TableLine]
USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # separators by the ending of a path
SPELLED = {"\t": "tabs"}
SAMPLE = 500  # rows that tell the columns
DIVIDED = "If something else divides the cells, say it: separator=."
READ_AGAIN = 4 * LONGEST_LINE  # characters behind quotes without end that are read a second time
LONGEST_RECORD = 100_000  # lines: the field of a longer one has no end


def tab_rows(path: str, encoding: str = "") -> Rows:
    for number, text, fault in scan(path, encoding):
        yield number, text.split("\t"), fault


def line_rows(path: str, encoding: str = "") -> Rows:
    """One cell a line."""
    for number, text, fault in scan(path, encoding):
        yield number, [text], fault


def without_separator_line(rows: Rows, delimiter: str) -> Rows:
    """The rows without a first line that only tells Excel the separator."""
    for first in islice(rows, 1):
        if not excel_separator(delimiter.join(first[1])):
            yield first
    yield from rows


class Feed:
    """Lines for the CSV reader, which says nothing about where a record began or that a line of it was bad.

    `record` are the lines of the record that is being read, `bad` is the first of them that cannot be. The lines behind the
    first may be given back, to be read again.
    """

    def __init__(self, path: str, encoding: str = "") -> None:
        self.lines = scan(path, encoding)
        self.returned: deque[ScannedLine] = deque()
        self.record: list[ScannedLine] = []
        self.bad: ScannedLine | None = None
        self.room = READ_AGAIN

    def texts(self) -> Iterator[str]:
        """The lines for the reader: those that were given back, then the others."""
        record, returned = self.record, self.returned
        given_back = (returned.popleft() for _ in range(len(returned)))
        for line in chain(given_back, self.lines):
            record.append(line)
            if line[2] and self.bad is None:
                self.bad = line
            yield line[1] + "\n"
            if len(record) >= LONGEST_RECORD:
                return

    @property
    def is_full(self) -> bool:
        """Whether a record has more lines than any record of anybody."""
        return len(self.record) >= LONGEST_RECORD

    def give_back(self, delimiter: str, width: int) -> bool:
        """Give the lines back that a quote without end took, if all look like rows of so many cells. The last may be the
        one with the next quote.
        """
        rows = len(self.record) > 2 and all(text.count(delimiter) == width - 1 for _, text, _ in self.record[:-1])
        self.room -= sum(len(text) for _, text, _ in self.record)
        if rows and width > 1 and self.room > 0:
            self.returned.extendleft(reversed(self.record[1:]))
            return True
        return False


def quoted_rows(path: str, delimiter: str = ",", encoding: str = "", spaced: bool = False) -> Rows:
    """The records of a CSV file. A bad line is parsed with the others, so that its quotes count, and refused then.

    RFC 4180.
    """
    feed, width = Feed(path, encoding), 0
    record = feed.record
    reader = csv.reader(feed.texts(), strict=True, delimiter=delimiter, skipinitialspace=spaced)
    while True:
        record.clear()
        feed.bad = None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = f"more than {LONGEST_RECORD:,} lines" if feed.is_full else str(error)
            given_back = feed.give_back(delimiter, width)
            # in a field without end, what follows may be inside or outside of it: it would be guessed
            endless = not given_back and (feed.is_full or "limit" in what)
            first, last = record[0][0], record[-1][0]
            yield (
                first,
                [],
                broken_quotes(what, first, last, "rest" if endless else "first" if given_back else "record"),
            )
            if endless:
                return
            if given_back:
                reader = csv.reader(feed.texts(), strict=True, delimiter=delimiter, skipinitialspace=spaced)
        else:
            width = len(cells) or width
            yield (record[0][0], cells, "") if feed.bad is None else (feed.bad[0], [], feed.bad[2])


def broken_quotes(error: str, first: int, last: int, lost: str) -> str:
    """What is wrong with a record from its first line to its last, and what is lost of the file: that, its first line, or
    the rest.
    """
    lines = f"Line {first} is" if lost == "first" or first == last else f"Lines {first} to {last} are"
    opened = f", behind a quote that opens in line {first}" if last > first else ""
    way_out = 'Put the field in quotes and write a quote in it as "".'
    gone = "The rest of the file is" if lost == "rest" else lines
    return f"broken quotes: {error} in line {last}{opened}. {gone} left out. {way_out}"


@dataclass(frozen=True)
class Layout:
    """Which cells of a row make a record; rows have `cells` of them, or at least so many if the others may vary."""

    picked: tuple[int, ...]
    cells: int
    at_least: bool = False
    skipped: int = 0  # rows that come first and are no records: a header, and what stands above it
    note: str = ""

    def fits(self, cells: list[str]) -> bool:
        """Whether a row has its cells; empty ones after the last do no harm."""
        if len(cells) <= max(self.picked, default=-1):
            return False
        extra = len(cells) - self.cells
        return extra == 0 or (extra > 0 and (self.at_least or not any(map(str.strip, cells[self.cells :]))))


def read_table(path: str, rows: Rows, columns: tuple[str, ...], options: TableOptions, delimiter: str) -> Read:
    """The records of a table: where its fields stand is said, or recognized from its first rows."""
    sample = list(islice(rows, SAMPLE))
    layout = layout_of(path, sample, columns, options)
    for _ in range(layout.skipped):  # blank lines may stand before a header
        del sample[next(place for place, row in enumerate(sample) if is_whole(row))]
    undivided = len(columns) > 1 and all(len(cells) < 2 for _, cells, fault in sample if not fault)
    sorter, picked = Sorter(columns), layout.picked
    as_they_are = picked == tuple(range(layout.cells)) and not layout.at_least
    for number, cells, fault in chain(sample, rows):
        where = f"{path}:{number}"
        if fault:
            sorter.refuse(where, fault)
        elif not any(map(str.strip, cells)):
            sorter.skip(where)
        elif as_they_are and len(cells) == layout.cells:
            sorter.take(where, cells)
        elif layout.fits(cells):
            sorter.take(where, [cells[place] for place in picked])
        else:
            told = misfit(layout, cells, columns if not options.names else (), delimiter)
            sorter.refuse(where, f"{told} {DIVIDED}" if undivided else told)
    usual = options.delimiter or USUAL.get(ending_of(path), "")
    divided = f"cells are divided by {SPELLED.get(delimiter, delimiter)}" if delimiter != usual else ""
    found = sorter.read("; ".join(filter(None, (layout.note, divided))), path)
    empty = not found.records and not found.problems
    require(
        not (layout.skipped and empty), f"{path}: a header and no record below it. Was the file written to its end?"
    )
    return found


def is_whole(row: TableLine) -> bool:
    """Whether a row can be read and has something in it."""
    return not row[2] and any(map(str.strip, row[1]))


def layout_of(path: str, sample: Sequence[TableLine], columns: tuple[str, ...], options: TableOptions) -> Layout:
    """Where the fields of a record stand: as the user says, by number or by name, or as it is recognized."""
    names, whole = options.names, [row for row in sample if is_whole(row)]
    rows = [cells for _, cells, _ in whole]
    if names and all(name.isascii() and name.isdecimal() for name in names):
        return by_number(rows, columns, options)
    if names:
        return by_header(path, whole or sample, names, options)
    plain = Layout(tuple(range(len(columns))), len(columns))
    if not rows:
        return plain
    try:
        found = recognize(rows, columns, options.header)
    except ValueError as error:
        require(not sample[0][2], f"{path}:{sample[0][0]}: {sample[0][2]}")  # perhaps it was the header
        raise ValueError(f"{path}: {error}") from None
    return plain if found is None else Layout(found.picked, found.width, skipped=found.skipped, note=found.note)


def by_number(rows: Sequence[list[str]], columns: tuple[str, ...], options: TableOptions) -> Layout:
    """The layout of columns that were chosen by number. A header over them is still none of the records."""
    names = options.names
    picked = tuple(int(name) - 1 for name in names)
    require(min(picked) >= 0, f"columns= counts from 1: got {','.join(names)}")
    chosen = [[cells[place].strip() for place in picked] for cells in rows if len(cells) > max(picked)]
    headed = bool(chosen) and has_header(chosen, columns, options.header)
    note = f"header: {', '.join(chosen[0])}" if headed and options.header != "yes" else ""
    return Layout(picked, max(picked) + 1, at_least=True, skipped=int(headed), note=note)


def by_header(path: str, rows: Sequence[TableLine], names: tuple[str, ...], options: TableOptions) -> Layout:
    """The layout of a table whose first line, but for titles, names its columns; case and accents do not matter."""
    require(bool(rows), f"{path}: there is no header that names {', '.join(names)}: the file is empty.")
    headers = [[cell.strip() for cell in cells] for _, cells, _ in rows[: TITLES + 1]]
    place = next((n for n, header in enumerate(headers) if all(name in header for name in names)), 0)
    header, (number, _, fault) = headers[place], rows[place]
    where = f"{path}:{number}"
    require(not fault, f"{where}: the header cannot be read: {fault}")
    numbers = f"columns={','.join(str(count) for count in range(1, len(names) + 1))}"
    require(
        options.header != "no", f"{where}: columns= names a header, and header=no says there is none. Say {numbers}."
    )
    picked = []
    for name in names:
        found = [n for n, cell in enumerate(header) if cell == name]
        found = found or [n for n, cell in enumerate(header) if words_of(cell) == words_of(name) != ()]
        if not found:
            raise ValueError(f"{where}: {unknown('column', name, header)} Without header, say {numbers}.")
        require(
            len(found) == 1,
            f"{where}: several columns are named {name!r}. Rename all but one, or choose by number, such as {numbers}.",
        )
        picked.append(found[0])
    return Layout(tuple(picked), len(header), skipped=place + 1)


def misfit(layout: Layout, cells: list[str], columns: tuple[str, ...], delimiter: str) -> str:
    """What is wrong with a row that has too few cells, or too many."""
    least, sign = "at least " if layout.at_least else "", "<TAB>" if delimiter == "\t" else delimiter
    fault = f"expected {least}{layout.cells} column{'s' * (layout.cells > 1)}, found {len(cells)}."
    way_out = ""
    if len(cells) > layout.cells:
        some = ",".join(str(place + 1) for place in layout.picked)
        inside = "Take the tab out of the text" if delimiter == "\t" else f"Put a text with a {sign} in it in quotes"
        way_out = f" {inside}, or choose columns by number: columns={some}."
    return fault + (f" Each line is {sign.join(columns)}." if len(columns) == layout.cells else "") + way_out
