"""Tables: rows of cells, from tab separated or quoted lines to records."""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from mirada.data.columns.contents import TableLine, is_whole
from mirada.data.columns.header import TableHead, record_head
from mirada.data.columns.names import match_names
from mirada.data.columns.numbers import EMPTY, parse_number
from mirada.data.files.forms import form_of
from mirada.data.files.opening import LONGEST_LINE, head, scan
from mirada.data.options import TableOptions
from mirada.data.record import Read, RecordCollector
from mirada.errors import require

# What divides the lines of a table into cells.


KNOWN = (",", "\t", ";", "|")
LINES = 60  # that tell the separator
ALIKE = 0.8  # share of them with equally many cells, in a table of numbers
SURE = 4  # rows that are not divided alike by chance
WORDS = {"\t": "tab"}  # as `separator=` spells them
csv.field_size_limit(LONGEST_LINE)  # a field may be as long as a line: its own limit is that of a long article


@dataclass(frozen=True)
class Dialect:
    """How lines are divided: at which character, whether quotes hold a cell together, whether a blank follows."""

    delimiter: str
    quoted: bool = True
    spaced: bool = False


@dataclass(frozen=True)
class Division:
    """What comes of dividing the first lines at one character."""

    delimiter: str
    rows: Sequence[Sequence[str]]
    spaced: bool = False

    @property
    def size(self) -> tuple[int, float]:
        """How many cells most rows have, and the share of these rows."""
        counts = Counter(map(len, self.rows))
        size, times = max(counts.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        return size, times / max(1, len(self.rows))

    @property
    def is_even(self) -> bool:
        """Whether all rows have equally many cells, and more than one."""
        size, share = self.size
        return size > 1 and share == 1 and len(self.rows) > 1


def sniffed(path: str, usual: str, columns: tuple[str, ...], encoding: str = "", known: str = "") -> Dialect:
    """The character that divides most of the first lines into equally many cells, enough of them; else the usual one.

    The character by which a header names all columns is it. Where two serve equally well, the user is asked. `known` is
    what the user says it is.
    """
    lines = [text for text, _ in head(path, encoding, LINES)]
    said = known or (excel_separator(lines[0]) if lines else "")
    if said:
        return _dialect(said, lines, usual)
    count = len(columns)
    found = [divided(lines, delimiter) for delimiter in dict.fromkeys((usual or "\t", *KNOWN))]
    heads = [(each, row) for each in found for row in each.rows[:2] if all(columns) and len(row) > 1]
    named = list({each.delimiter: each for each, row in heads if match_names(row, columns).sure}.values())
    if len(named) == 1:
        return _dialect(named[0].delimiter, lines, usual)
    even = [each for each in found if each.is_even and each.size[0] >= count]
    if len(even) == 1 and len(even[0].rows) >= SURE:
        return _dialect(even[0].delimiter, lines, usual)
    if len(even) > 1:
        return _dialect(_decided(path, even, lines), lines, usual)
    best, share = usual, 0.0
    for each in found:
        (size, times), least = each.size, count if each.delimiter == usual else max(2, count)
        if size >= least and times > share + 0.1:  # clearly better than what came before
            best, share = each.delimiter, times
    return _dialect(best, lines, usual)


def _decided(path: str, even: Sequence[Division], lines: Sequence[str]) -> str:
    """One of the characters that divide all lines alike: one beside quotes; a comma only in numbers is decimal."""
    marks = [each.delimiter for each in even if each.delimiter != "," or not _decimal(each)]
    quoted = [mark for mark in marks if any(f'"{mark}' in line or f'{mark}"' in line for line in lines)]
    rest = ["\t"] if "\t" in marks else quoted if len(quoted) == 1 else marks
    if len(rest) == 1:
        return rest[0]
    ways = " or ".join(f"separator='{mark}'" for mark in rest)
    raise ValueError(f"{path}: its lines can be divided at {len(rest)} characters. Say which: {ways}")


def of_numbers(path: str, encoding: str = "") -> str:
    """The character other than a comma that divides all first lines of a table of numbers alike, if there is one: a comma
    there may be that of a decimal.
    """
    lines = [text for text, _ in head(path, encoding, LINES) if text.strip()]
    if lines and (said := excel_separator(lines[0])):
        return said
    for delimiter in (";", "\t", "|"):
        size, times = Division(delimiter, [_cells_of(line, delimiter) for line in lines]).size
        if size > 1 and times >= ALIKE:
            return delimiter
    return ""


def is_one_column(path: str, encoding: str = "") -> bool:
    """Whether a table of numbers has one column: one cell in its first line, and one number in every other line."""
    first, *rest = [text.strip() for text, _ in head(path, encoding, LINES) if text.strip()] or [""]
    alone = first != "" and (not any(mark in first for mark in KNOWN) or _are_fractions([first, *rest]))
    return alone and bool(rest) and all(parse_number(text) is not None or text.casefold() in EMPTY for text in rest)


def _are_fractions(lines: Sequence[str]) -> bool:
    """Whether all lines are numbers with a decimal comma: as many digits behind it in each, in some of them a 0 first.

    >>> _are_fractions(["100,00", "99,75"]), _are_fractions(["100,20", "99,75"])
    (True, False)
    """
    behind = [found[1] if (found := re.fullmatch(r"[+-]?\d+,(\d\d+)", line)) else "" for line in lines]
    return "" not in behind and len({len(digits) for digits in behind}) == 1 and any(d[0] == "0" for d in behind)


def _decimal(division: Division) -> bool:
    """Whether commas stand between digits only."""
    pairs = [(a, b) for row in division.rows for a, b in pairwise(row)]
    return all(a[-1:].isdecimal() and b[:1].isdecimal() for a, b in pairs)


def excel_separator(line: str) -> str:
    """The separator that a first line tells Excel.

    >>> excel_separator("sep=;"), excel_separator("text;label")
    (';', '')
    """
    found = re.fullmatch(r'"?sep=(.)"?', line.strip(" "), re.IGNORECASE)
    return found[1] if found else ""


def divided(lines: Sequence[str], delimiter: str) -> Division:
    """The lines divided at a character, in the way that makes their rows most alike: a blank may come before a quote."""
    plain, spaced = (Division(delimiter, _rows_of(lines, delimiter, blank), blank) for blank in (False, True))
    left = any(cell[:1] == " " and cell.strip()[:1] == '"' for row in plain.rows for cell in row)
    better = spaced.size[1] > plain.size[1] or (left and spaced.size == plain.size)
    return spaced if better else plain


def _rows_of(lines: Sequence[str], delimiter: str, spaced: bool = False) -> list[list[str]]:
    """The rows of some lines; where quotes are a mess, every line is a row."""
    rows = _strict_rows(lines, delimiter, spaced)
    if rows is None:
        rows = [_cells_of(line, delimiter) for line in lines]
    return [row for row in rows if any(map(str.strip, row))]


def _strict_rows(lines: Sequence[str], delimiter: str, spaced: bool = False) -> list[list[str]] | None:
    """The rows of lines whose quotes are in order; the last may go on after them, and is left out."""
    feed = (f"{line}\n" for line in lines)
    reader = csv.reader(feed, delimiter=delimiter, skipinitialspace=spaced, strict=True)
    rows: list[list[str]] = []
    try:
        rows.extend(reader)
    except csv.Error as error:
        return rows if rows and "unexpected end" in str(error) else None
    return rows


def _cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a line; one that is too long for that is one cell.

    >>> _cells_of('a,"b, c"', ",")
    ['a', 'b, c']
    """
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def _dialect(delimiter: str, lines: Sequence[str], usual: str) -> Dialect:
    """How lines are read that are divided at this character. Between tabs, a quote is mostly a letter."""
    if delimiter == "\t" and usual != ",":
        return Dialect(delimiter, quoted=_quotes_hold(lines))
    return Dialect(delimiter, spaced=bool(delimiter) and divided(lines, delimiter).spaced)


def _quotes_hold(lines: Sequence[str]) -> bool:
    r"""Whether quotes hold cells between tabs together, as programs write them: all cells are in quotes, or what is in
    quotes needs them.

    >>> _quotes_hold(['"a ""b"" c"\tpos']), _quotes_hold(['"a"\t"b"']), _quotes_hold(['"Yes."\tsi', 'no\tno'])
    (True, True, False)
    """
    cells = [cell for line in lines if line.strip() for cell in line.split("\t")]
    rows = _strict_rows(lines, "\t") if any(cell.startswith('"') for cell in cells) else None
    if rows is None or len({len(row) for row in rows if row}) > 1:
        return False
    everywhere = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    return everywhere or any('""' in cell for cell in cells) or any("\t" in c or "\n" in c for row in rows for c in row)


ScannedLine = tuple[int, str, str]  # the number of a line, its text, what is wrong with it
Rows = Iterator[TableLine]
SPELLED = {"\t": "tabs"}
SAMPLE = 500  # rows that tell the columns
DIVIDED = "If something else divides the cells, say it: separator=."
READ_AGAIN = 4 * LONGEST_LINE  # characters behind quotes without end that are read a second time
LONGEST_RECORD = 100_000  # lines: the field of a longer one has no end


def tab_rows(path: str, encoding: str = "") -> Rows:
    """The cells between tabs of every line; a quote is a letter there."""
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
        """Give back the lines that a quote without end took, if every line has `width` cells. The last may be the one with
        the next quote.
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
                _broken_quotes(what, first, last, "rest" if endless else "first" if given_back else "record"),
            )
            if endless:
                return
            if given_back:
                reader = csv.reader(feed.texts(), strict=True, delimiter=delimiter, skipinitialspace=spaced)
        else:
            width = len(cells) or width
            yield (record[0][0], cells, "") if feed.bad is None else (feed.bad[0], [], feed.bad[2])


def _broken_quotes(error: str, first: int, last: int, lost: str) -> str:
    """What is wrong with a record from its first line to its last, and what is lost of the file: that, its first line, or
    the rest.
    """
    lines = f"Line {first} is" if lost == "first" or first == last else f"Lines {first} to {last} are"
    opened = f", behind a quote that opens in line {first}" if last > first else ""
    way_out = 'Put the field in quotes and write a quote in it as "".'
    gone = "The rest of the file is" if lost == "rest" else lines
    return f"broken quotes: {error} in line {last}{opened}. {gone} left out. {way_out}"


def read_table(path: str, rows: Rows, columns: tuple[str, ...], options: TableOptions, delimiter: str) -> Read:
    """The records of a table: where its fields stand is said, or recognized from its first rows."""
    sample = list(islice(rows, SAMPLE))
    table_head = record_head(path, sample, columns, options)
    for _ in range(table_head.skipped):  # blank lines may stand before a header
        del sample[next(place for place, row in enumerate(sample) if is_whole(row))]
    undivided = len(columns) > 1 and all(len(cells) < 2 for _, cells, fault in sample if not fault)
    sorter, picked = RecordCollector(columns), table_head.picked
    as_they_are = picked == tuple(range(table_head.width)) and not table_head.at_least
    for number, cells, fault in chain(sample, rows):
        where = f"{path}:{number}"
        if fault:
            sorter.refuse(where, fault)
        elif not any(map(str.strip, cells)):
            sorter.skip(where)
        elif as_they_are and len(cells) == table_head.width:
            sorter.take(where, cells)
        elif table_head.fits(cells):
            sorter.take(where, [cells[place] for place in picked])
        else:
            told = _misfit(table_head, cells, columns if not options.names else (), delimiter)
            sorter.refuse(where, f"{told} {DIVIDED}" if undivided else told)
    usual = options.delimiter or form_of(path).separator
    divided = f"cells are divided by {SPELLED.get(delimiter, delimiter)}" if delimiter != usual else ""
    found = sorter.read("; ".join(filter(None, (table_head.note, divided))), path)
    empty = not found.records and not found.problems
    require(
        not (table_head.skipped and empty), f"{path}: a header and no record below it. Was the file written to its end?"
    )
    return found


def _misfit(table_head: TableHead, cells: list[str], columns: tuple[str, ...], delimiter: str) -> str:
    """What is wrong with a row that has too few cells, or too many."""
    least, sign = "at least " if table_head.at_least else "", "<TAB>" if delimiter == "\t" else delimiter
    fault = f"expected {least}{table_head.width} column{'s' * (table_head.width > 1)}, found {len(cells)}."
    way_out = ""
    if len(cells) > table_head.width:
        some = ",".join(str(place + 1) for place in table_head.picked)
        inside = "Take the tab out of the text" if delimiter == "\t" else f"Put a text with a {sign} in it in quotes"
        way_out = f" {inside}, or choose columns by number: columns={some}."
    return fault + (f" Each line is {sign.join(columns)}." if len(columns) == table_head.width else "") + way_out
