"""Records from a user's file: TSV, CSV, JSON, Parquet, fastText, folders, or aligned text files, and the bad ones named.

path -> form by its ending -> rows of cells, or objects -> the cells that were asked for -> records and problems
"""

import csv
import os
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise, zip_longest
from pathlib import Path

from mirada.data.columns.contents import CLASSES, EMPTY, TableLine, parse_number
from mirada.data.columns.header import TableHead, record_head
from mirada.data.columns.names import match_names
from mirada.data.files.folders import is_fasttext, is_folder, read_class_folders, read_fasttext
from mirada.data.files.forms import ROW_ENDINGS, ending_of, form_of
from mirada.data.files.json import read_objects
from mirada.data.files.opening import LONGEST_LINE, head, scan
from mirada.data.options import TableOptions
from mirada.data.record import Read, RecordCollector
from mirada.errors import require, unknown

AS_IT_COMES = TableOptions()
Rows = Iterator[TableLine]
ScannedLine = tuple[int, str, str]  # the number of a line, its text, what is wrong with it
KNOWN = (",", "\t", ";", "|")  # separators
LINES = 60  # that decide the separator
STATED = re.compile(r' *"?sep=(.)"? *', re.IGNORECASE)  # the separator, as a first line states it for Excel
FRACTION = re.compile(r"[+-]?\d+,(\d\d+)")
ALIKE = 0.8  # share of them with equally many cells, in a table of numbers
SURE = 4  # rows that are not divided alike by chance
SAMPLE = 500  # rows that decide the columns
SPELLED = {"\t": "tabs"}
DIVIDED = "If something else divides the cells, say it: separator=."
READ_AGAIN = 4 * LONGEST_LINE  # characters behind quotes without end that are read a second time
LONGEST_RECORD = 100_000  # lines: the field of a longer one has no end
csv.field_size_limit(LONGEST_LINE)  # a field may be as long as a line: its own limit is that of a long article


def read_records(
    data: str | Path, columns: tuple[str, ...], options: TableOptions = AS_IT_COMES, optional: bool = False
) -> Read:
    r"""Read what a user passed as `--data`: one file, or one text file per column, with commas between them.

    `columns` are our words for the fields. `options.columns` chooses cells by the names in the header, by the keys of the
    objects, or by numbers from 1. Without it, a header is recognized, and what was taken is noted. With `optional`, columns
    after the first may be empty, and hold lists in objects.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "pairs.tsv")
    >>> _ = path.write_text("the house\tla casa\nthe red house\n")
    >>> read = read_records(path, ("source", "target"))
    >>> read.records[0].value
    ('the house', 'la casa')
    >>> read.problems[0].what
    'expected 2 columns, found 1. Each line is source<TAB>target.'
    """
    count, names = len(columns), options.names
    if len(names) not in (0, count):
        raise ValueError(f"columns= must name {count} ({', '.join(columns)}): got {len(names)} ({','.join(names)})")
    path = str(data)
    if "," in path and not os.path.exists(os.path.expanduser(path)):
        require(not names, f"columns= chooses columns of one file: got {','.join(names)} for {path}. Leave it out.")
        return _read_aligned([part.strip() for part in path.split(",")], columns, options.encoding)
    if columns == CLASSES and is_folder(path):
        return read_class_folders(path, columns, options.encoding)
    if read := form_of(path).objects:
        return read_objects(read(path, options.encoding, names or columns), path, columns, names, optional)
    if columns == CLASSES and not options.describes_table and is_fasttext(path, options.encoding):
        return read_fasttext(path, columns, options.encoding)
    rows, delimiter = rows_of_table(path, columns, options)
    return read_table(path, rows, columns, options, delimiter, optional)


def _read_aligned(paths: list[str], columns: tuple[str, ...], encoding: str = "") -> Read:
    """One text file per column: record i is line i of each."""
    require(
        len(paths) == len(columns),
        f"aligned files are one per column ({', '.join(columns)}): got {len(paths)}: {', '.join(paths)}",
    )
    for path in paths:
        if form_of(path).is_table:
            raise ValueError(f"{path}: a table among aligned text files. Give one table: join several into one file.")
    collector, files = RecordCollector(columns), [scan(path, encoding) for path in paths]
    for number, lines in enumerate(zip_longest(*files), 1):
        if None in lines:
            counts = [number - (line is None) + sum(1 for _ in rest) for line, rest in zip(lines, files, strict=True)]
            raise ValueError(
                "aligned files must have equally many lines: "
                + ", ".join(f"{path} has {count}" for path, count in zip(paths, counts, strict=True))
                + ". Line i of each belongs to line i of the others: find the line that is missing or too many."
            )
        faults = [(path, line[2]) for path, line in zip(paths, lines, strict=True) if line[2]]
        for path, fault in faults:
            collector.refuse(f"{path}:{number}", fault)
        if not any(line[1].strip() for line in lines):
            collector.skip(f"{paths[0]}:{number}")
        elif not faults:
            collector.take(f"{paths[0]}:{number}", [line[1] for line in lines])
    return collector.read()


def read_table(
    path: str, rows: Rows, columns: tuple[str, ...], options: TableOptions, delimiter: str, optional: bool = False
) -> Read:
    """The records of a table, whose columns are given by options or recognized from its first rows."""
    sample = list(islice(rows, SAMPLE))
    table_head = record_head(path, sample, columns, options)
    sample = table_head.below(sample)
    undivided = len(columns) > 1 and all(len(cells) < 2 for _, cells, fault in sample if not fault)
    collector, picked = RecordCollector(columns, optional), table_head.picked
    as_they_are = picked == tuple(range(table_head.width)) and not table_head.at_least
    for number, cells, fault in chain(sample, rows):
        where = f"{path}:{number}"
        if fault:
            collector.refuse(where, fault)
        elif not any(map(str.strip, cells)):
            collector.skip(where)
        elif as_they_are and len(cells) == table_head.width:
            collector.take(where, cells)
        elif table_head.fits(cells):
            collector.take(where, [cells[place] for place in picked])
        else:
            message = _misfit(table_head, cells, columns if not options.names else (), delimiter)
            collector.refuse(where, f"{message} {DIVIDED}" if undivided else message)
    usual = options.delimiter or form_of(path).separator
    divided = f"cells are divided by {SPELLED.get(delimiter, delimiter)}" if delimiter != usual else ""
    read = collector.read("; ".join(filter(None, (table_head.note, divided))), path)
    if (table_head.above or table_head.headed) and not read.records and not read.problems:
        raise ValueError(f"{path}: a header and no record below it. Was the file written to its end?")
    return read


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


def table_rows(path: str, count: int, options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table of at least `count` columns, whatever they are called, and its separator as it is shown."""
    rows, delimiter = rows_of_table(path, ("",) * count, options)
    return rows, "<TAB>" if delimiter == "\t" else delimiter


def rows_of_table(path: str, columns: tuple[str, ...], options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table in which these columns are looked for, and the character that divides them: the one that the user
    or the first line states, or the one that is recognized. Between tabs, a quote is mostly a letter.
    """
    usual = form_of(path).separator
    lines = [text for text, _ in head(path, options.encoding, LINES)]
    stated = STATED.fullmatch(lines[0]) if lines else None
    delimiter = options.delimiter or (stated and stated[1]) or _recognized_separator(path, lines, usual, columns)
    if not delimiter:
        error = unknown("format", ending_of(path), ROW_ENDINGS)
        raise ValueError(f"{path}: {error} Aligned text files are given as one.en,other.es.")
    quoted, spaced = True, False
    if (
        delimiter == "\t" and usual != ","
    ):  # quotes hold cells together if all are in quotes, or what is in quotes needs them
        cells = [cell for line in lines if line.strip() for cell in line.split("\t")]
        strict = Division(lines, "\t").strict if any(cell.startswith('"') for cell in cells) else None
        even = strict is not None and len({len(row) for row in strict if row}) < 2
        everywhere = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
        needed = any('""' in cell for cell in cells) or any("\t" in c or "\n" in c for row in strict or () for c in row)
        quoted = even and (everywhere or needed)
    else:
        spaced = Division(lines, delimiter).spaced
    rows: Rows = ((number, text.split("\t"), fault) for number, text, fault in scan(path, options.encoding))
    if quoted:
        rows = quoted_rows(path, delimiter, options.encoding, spaced)
    return islice(rows, 1, None) if stated else rows, delimiter  # the line that states it is no row


# What divides the lines of a table into cells.


class Division:
    """Lines divided at one character.

    Args:
        lines: the first lines of a file.
        delimiter: the character.

    `rows` are the cells of the lines; a blank may come before a quote where the rows are most alike so: then they are
    `spaced`. `strict` are the rows if quotes are in order without that (the last may continue after them, and is left out),
    and None where quotes are a mess: then every line is a row. `size` is how many cells most rows have, `share` the share of
    these rows; `is_even`: all rows have equally many, and more than one.
    """

    def __init__(self, lines: Sequence[str], delimiter: str) -> None:
        self.delimiter = delimiter
        self.rows: list[list[str]] = []
        self.size, self.share, self.spaced = 0, 0.0, False
        for spaced in (False, True):
            feed = (f"{line}\n" for line in lines)
            read: list[list[str]] = []
            strict: list[list[str]] | None = read
            try:
                read.extend(csv.reader(feed, delimiter=delimiter, skipinitialspace=spaced, strict=True))
            except csv.Error as error:
                if not read or "unexpected end" not in str(error):
                    strict = None
            rows = [_cells_of(line, delimiter) for line in lines] if strict is None else strict
            rows = [row for row in rows if any(map(str.strip, row))]
            counts = Counter(map(len, rows))
            size, times = max(counts.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
            share = times / max(1, len(rows))
            if spaced:
                blank = any(cell[:1] == " " and cell.strip()[:1] == '"' for row in self.rows for cell in row)
                if share < self.share or (share == self.share and not (blank and size == self.size)):
                    break
            else:
                self.strict = strict
            self.rows, self.size, self.share, self.spaced = rows, size, share, spaced
        self.is_even = self.size > 1 and self.share == 1 and len(self.rows) > 1


def _recognized_separator(path: str, lines: Sequence[str], usual: str, columns: tuple[str, ...]) -> str:
    """The character that divides most of the first lines into equally many cells, enough of them; else the usual one.

    The character by which a header names all columns is it. Where two divide equally well, the user is asked.
    """
    count = len(columns)
    divisions = [Division(lines, delimiter) for delimiter in dict.fromkeys((usual or "\t", *KNOWN))]
    heads = [(each, row) for each in divisions for row in each.rows[:2] if all(columns) and len(row) > 1]
    named = {each.delimiter for each, row in heads if match_names(row, columns).is_certain}
    if len(named) == 1:
        return named.pop()
    even = [each for each in divisions if each.is_even and each.size >= count]
    if len(even) == 1 and len(even[0].rows) >= SURE:
        return even[0].delimiter
    if len(even) > 1:
        pairs = [(a, b) for each in even if each.delimiter == "," for row in each.rows for a, b in pairwise(row)]
        decimal = all(a[-1:].isdecimal() and b[:1].isdecimal() for a, b in pairs)  # commas in numbers only
        marks = [each.delimiter for each in even if each.delimiter != "," or not decimal]
        quoted = [mark for mark in marks if any(f'"{mark}' in line or f'{mark}"' in line for line in lines)]
        rest = ["\t"] if "\t" in marks else quoted if len(quoted) == 1 else marks
        if len(rest) == 1:
            return rest[0]
        ways = " or ".join(f"separator='{mark}'" for mark in rest)
        raise ValueError(f"{path}: its lines can be divided at {len(rest)} characters. Say which: {ways}")
    best, share = usual, 0.0
    for each in divisions:
        least = count if each.delimiter == usual else max(2, count)
        if each.size >= least and each.share > share + 0.1:  # clearly better than what came before
            best, share = each.delimiter, each.share
    return best


def _cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a line; one that is too long for that is one cell.

    >>> _cells_of('a,"b, c"', ",")
    ['a', 'b, c']
    """
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


# Tables of numbers.


def of_numbers(path: str, encoding: str = "") -> str:
    """The character other than a comma that divides all first lines of a table of numbers alike, if there is one: a comma
    there may be that of a decimal.
    """
    lines = [text for text, _ in head(path, encoding, LINES) if text.strip()]
    if lines and (stated := STATED.fullmatch(lines[0])):
        return stated[1]
    for delimiter in (";", "\t", "|"):
        counts = Counter(len(_cells_of(line, delimiter)) for line in lines)
        size, times = max(counts.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        if size > 1 and times / len(lines) >= ALIKE:
            return delimiter
    return ""


def is_one_column(path: str, encoding: str = "") -> bool:
    """Whether a table of numbers has one column: one cell in its first line, and one number in every other line."""
    first, *rest = [text.strip() for text, _ in head(path, encoding, LINES) if text.strip()] or [""]
    decimals = [fraction[1] if (fraction := FRACTION.fullmatch(line)) else "" for line in (first, *rest)]
    # 100,00 and 99,75 are fractions: as many digits in each, in some of them a 0 first; 100,20 and 99,75 may be two columns
    fractions = "" not in decimals and len(set(map(len, decimals))) == 1 and any(d[0] == "0" for d in decimals)
    alone = first != "" and (fractions or not any(mark in first for mark in KNOWN))
    return alone and bool(rest) and all(parse_number(text) is not None or text.casefold() in EMPTY for text in rest)


def line_rows(path: str, encoding: str = "") -> Rows:
    """One cell a line."""
    for number, text, fault in scan(path, encoding):
        yield number, [text], fault


# Quoted cells.


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
            is_full = len(record) >= LONGEST_RECORD
            what = f"more than {LONGEST_RECORD:,} lines" if is_full else str(error)
            given_back = feed.give_back(delimiter, width)
            # in a field without end, what follows may be inside or outside of it: it would be guessed
            endless = not given_back and (is_full or "limit" in what)
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
