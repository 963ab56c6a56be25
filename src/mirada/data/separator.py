"""What divides the lines of a table into cells."""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mirada.data.decimals import EMPTY
from mirada.data.names import match
from mirada.data.numbers import parse_number
from mirada.data.text import LONGEST_LINE, head

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
        return dialect(said, lines, usual)
    count = len(columns)
    found = [divided(lines, delimiter) for delimiter in dict.fromkeys((usual or "\t", *KNOWN))]
    heads = [(each, row) for each in found for row in each.rows[:2] if all(columns) and len(row) > 1]
    named = list({each.delimiter: each for each, row in heads if match(row, columns).sure}.values())
    if len(named) == 1:
        return dialect(named[0].delimiter, lines, usual)
    even = [each for each in found if each.is_even and each.size[0] >= count]
    if len(even) == 1 and len(even[0].rows) >= SURE:
        return dialect(even[0].delimiter, lines, usual)
    if len(even) > 1:
        return dialect(decided(path, even, lines), lines, usual)
    best, share = usual, 0.0
    for each in found:
        (size, times), least = each.size, count if each.delimiter == usual else max(2, count)
        if size >= least and times > share + 0.1:  # clearly better than what came before
            best, share = each.delimiter, times
    return dialect(best, lines, usual)


def decided(path: str, even: Sequence[Division], lines: Sequence[str]) -> str:
    """One of the characters that divide all lines alike: one beside quotes; a comma only in numbers is decimal."""
    marks = [each.delimiter for each in even if each.delimiter != "," or not decimal(each)]
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
        size, times = Division(delimiter, [cells_of(line, delimiter) for line in lines]).size
        if size > 1 and times >= ALIKE:
            return delimiter
    return ""


def is_one_column(path: str, encoding: str = "") -> bool:
    """Whether a table of numbers has one column: one cell in its first line, and one number in every other line."""
    first, *rest = [text.strip() for text, _ in head(path, encoding, LINES) if text.strip()] or [""]
    alone = first != "" and (not any(mark in first for mark in KNOWN) or are_fractions([first, *rest]))
    return alone and bool(rest) and all(parse_number(text) is not None or text.casefold() in EMPTY for text in rest)


def are_fractions(lines: Sequence[str]) -> bool:
    """Whether all lines are numbers with a decimal comma: as many digits behind it in each, in some of them a 0 first.

    >>> are_fractions(["100,00", "99,75"]), are_fractions(["100,20", "99,75"])
    (True, False)
    """
    behind = [found[1] if (found := re.fullmatch(r"[+-]?\d+,(\d\d+)", line)) else "" for line in lines]
    return "" not in behind and len({len(digits) for digits in behind}) == 1 and any(d[0] == "0" for d in behind)


def decimal(division: Division) -> bool:
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
    plain, spaced = (Division(delimiter, rows_of(lines, delimiter, blank), blank) for blank in (False, True))
    left = any(cell[:1] == " " and cell.strip()[:1] == '"' for row in plain.rows for cell in row)
    better = spaced.size[1] > plain.size[1] or (left and spaced.size == plain.size)
    return spaced if better else plain


def rows_of(lines: Sequence[str], delimiter: str, spaced: bool = False) -> list[list[str]]:
    """The rows of some lines; where quotes are a mess, every line is a row."""
    rows = strict_rows(lines, delimiter, spaced)
    if rows is None:
        rows = [cells_of(line, delimiter) for line in lines]
    return [row for row in rows if any(map(str.strip, row))]


def strict_rows(lines: Sequence[str], delimiter: str, spaced: bool = False) -> list[list[str]] | None:
    """The rows of lines whose quotes are in order; the last may go on after them, and is left out."""
    feed = (f"{line}\n" for line in lines)
    reader = csv.reader(feed, delimiter=delimiter, skipinitialspace=spaced, strict=True)
    rows: list[list[str]] = []
    try:
        rows.extend(reader)
    except csv.Error as error:
        return rows if rows and "unexpected end" in str(error) else None
    return rows


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a line; one that is too long for that is one cell.

    >>> cells_of('a,"b, c"', ",")
    ['a', 'b, c']
    """
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return [line]


def dialect(delimiter: str, lines: Sequence[str], usual: str) -> Dialect:
    """How lines are read that are divided at this character. Between tabs, a quote is mostly a letter."""
    if delimiter == "\t" and usual != ",":
        return Dialect(delimiter, quoted=quotes_hold(lines))
    return Dialect(delimiter, spaced=bool(delimiter) and divided(lines, delimiter).spaced)


def quotes_hold(lines: Sequence[str]) -> bool:
    r"""Whether quotes hold cells between tabs together, as programs write them: all cells are in quotes, or what is in
    quotes needs them.

    >>> quotes_hold(['"a ""b"" c"\tpos']), quotes_hold(['"a"\t"b"']), quotes_hold(['"Yes."\tsi', 'no\tno'])
    (True, True, False)
    """
    cells = [cell for line in lines if line.strip() for cell in line.split("\t")]
    rows = strict_rows(lines, "\t") if any(cell.startswith('"') for cell in cells) else None
    if rows is None or len({len(row) for row in rows if row}) > 1:
        return False
    everywhere = all(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    return everywhere or any('""' in cell for cell in cells) or any("\t" in c or "\n" in c for row in rows for c in row)
