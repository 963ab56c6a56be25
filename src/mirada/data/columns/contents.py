"""What the cells of a table look like, whatever its columns are called: numbers as people write them (with a decimal point or
a decimal comma, with or without thousands separators), words, titles, labels. `header.py` decides.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirada.data.columns.names import OTHER, words_of
from mirada.data.columns.times import pattern_of
from mirada.errors import require

FEW = 10  # rows that a guess needs
SHORT = 3  # words of a cell that may be a name
RARE = 40  # rows for each label that may occur only once
FEW_OF = 0.2  # share of the texts that may be as short as a name
ASKING = ("?", ":")  # how the questions of a survey end
CLASSES = ("text", "label")
Cells = Sequence[str]
TableLine = tuple[int, list[str], str]  # the number of the line, its cells, what is wrong with it


def is_number(text: str) -> bool:
    """Whether a cell is a number, with a point or a comma.

    >>> is_number("3,5"), is_number("-2e3"), is_number("five")
    (True, True, False)
    """
    return parse_number(text) is not None


def all_numbers(cells: Iterable[str]) -> bool:
    """Whether every cell is a number."""
    return all(is_number(cell) for cell in cells)


def is_word(cell: str) -> bool:
    """Whether a cell has letters and is no word for a missing value.

    >>> is_word("rating"), is_word("7"), is_word("N/A")
    (True, False, False)
    """
    return any(map(str.isalpha, cell)) and cell.casefold() not in EMPTY


def mean_words(cells: Iterable[str]) -> float:
    """How many words cells have, on the average."""
    counts = [len(cell.split()) for cell in cells]
    return sum(counts) / max(1, len(counts))


def usual_width(rows: Sequence[Cells], least: int) -> int:
    """How many cells most rows have, without empty ones at the end of all; `least` among equally frequent numbers."""
    filled = [max((n for n, cell in enumerate(row, 1) if cell), default=0) for row in rows]
    counts = Counter(len(row) for row in rows)
    often = max(counts.values())
    widths = sorted((size for size, count in counts.items() if count == often), reverse=True)
    width = least if least in widths else widths[0]
    reach = max((filled[n] for n, row in enumerate(rows) if len(row) == width), default=width)
    return max(reach, min(width, least))


def has_unnamed_row_numbers(header: Cells, rest: Sequence[Cells]) -> bool:
    """Whether rows begin with their own numbers, which the header does not name, as R writes tables.

    >>> has_unnamed_row_numbers(["text", "label"], [["1", "so so", "neg"], ["2", "fine", "pos"]])
    True
    >>> has_unnamed_row_numbers(["text", "label"], [["I came", "I saw", "pos"], ["Yes", "fine", "pos"]])
    False
    """
    names = [row[0] for row in rest]
    numbers = all(len(name.split()) == 1 and name[-1].isdecimal() for name in names) and len(set(names)) == len(names)
    named = OTHER.intersection(words_of(header[0])[-1:])  # an id, next to texts that have the separator in them
    return bool(names) and numbers and not named and all(len(row) == len(header) + 1 for row in rest)


def is_title(row: Cells, width: int) -> bool:
    """Whether a line above a header does not belong to the table: a remark, or a title in one cell."""
    return bool(row) and (row[0].startswith("#") or (width > 1 and sum(map(bool, row)) <= 1))


def is_remark(row: Cells, rows: Sequence[Cells], width: int) -> bool:
    """Whether a line at the top is a remark, not a text that begins with a hash: its cells are unlike those of the others."""
    if not row[0].startswith("#"):
        return False
    again = any(row[-1] == other[-1] for other in rows if other is not row)
    return len(row) != width or (row[0].startswith("# ") and not again)


def may_be_names(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether no cell is a number, or is repeated below."""
    again = any(cell and cell == other[place] for other in rest for place, cell in enumerate(row[: len(other)]))
    return not again and not any(is_number(cell) for cell in row)


def is_odd_label(first: Cells, rest: Sequence[Cells], place: int) -> bool:
    """Whether a label that occurs once stands over two or more that are repeated: over many rows, or next to a text that is
    shorter than nearly all below.
    """
    labels, count = Counter(row[place] for row in rest), len(rest)
    kinds, once = len(labels), sum(times == 1 for times in labels.values())
    if kinds < 2 or first[1 - place].endswith((".", "!")):
        return False
    words, own = [len(row[1 - place].split()) for row in rest], len(first[1 - place].split())
    if count >= FEW and kinds <= count / 4 and once <= count // RARE:
        return own <= max(SHORT, sum(words) / count)  # a longer one is a text with a rare label
    as_short = sum(other <= own for other in words)
    shorter = own <= SHORT and as_short <= FEW_OF * count and 2 * own <= sum(words) / count
    return shorter and count > SHORT and kinds <= count / 2 and 2 * once < kinds


def has_labels_first(rows: Sequence[Cells]) -> bool:
    """Whether the first of two columns holds labels: few short values that are repeated, next to longer texts that are not."""
    if len(rows) < 2 or any(len(row) != 2 for row in rows):
        return False
    labels, texts = ([row[place] for row in rows] for place in (0, 1))
    if any(len(label.split()) > SHORT for label in labels):
        return False
    kinds, different = len(set(labels)), len(set(texts))
    few = len(rows) >= FEW and kinds <= len(rows) / 4
    if all_numbers(labels) and not any(is_number(text) for text in texts):
        return kinds <= len(rows) / 2 or len(rows) < FEW
    longer = mean_words(texts) > 2 * mean_words(labels)
    if longer and different > 0.9 * len(rows) and (kinds < len(rows) or len(rows) < FEW):
        return True
    return few and different > len(rows) / 2 and different > 2 * kinds


def guess_columns(rows: Sequence[Cells], columns: tuple[str, ...], label: int | None = None) -> list[int]:
    """The columns that look like what is wanted; none if nothing does. `label` is that of the labels, if it is known by name."""
    if not rows:
        return []
    cells = [[row[place] for row in rows] for place in range(len(rows[0]))]
    worded = [n for n, column in enumerate(cells) if not all_numbers(column)]
    by_words = sorted(worded, key=lambda place: -mean_words(cells[place]))
    if columns != CLASSES:
        return sorted(by_words[: len(columns)]) if len(by_words) >= len(columns) else []
    others = [n for n, column in enumerate(cells) if min(2, len(rows)) <= len(set(column)) < max(3, len(rows) / 2)]
    by_words = [place for place in by_words if place != label]
    labels = [place for place in others if place not in by_words[:1]] if label is None else [label]
    return [by_words[0], labels[0]] if by_words and len(labels) == 1 else []


def has_words_over_numbers(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether a row has only words, and rows that are as long have numbers or dates under some of them."""
    rest = [other for other in rest if len(other) == len(row)]
    columns = [[other[place] for other in rest] for place in range(len(row))]
    typed = any(all_numbers(cells) or pattern_of(cells) for cells in columns)
    return len(rest) > 1 and typed and all(map(is_word, row)) and may_be_names(row, rest)


def has_short_names(rows: Sequence[Cells]) -> bool:
    """Whether the first row of a wide table is a header: short words or questions that are not repeated below."""
    first, rest = rows[0], rows[1:]
    if any(is_number(cell) or (len(cell.split()) > SHORT + 1 and not cell.endswith(ASKING)) for cell in first):
        return False
    return len(rest) > 0 and may_be_names(first, rest)


def has_content(row: TableLine) -> bool:
    """Whether a row could be read and has a cell that is not empty."""
    return not row[2] and any(map(str.strip, row[1]))


# Numbers.


NOT_IN_NUMBERS = re.compile(r"[^0-9.,'eE+-]")
PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
GROUPED = re.compile(r"[+-]?\d{1,3}(?:([,.'])\d{3})(?:\1\d{3})*(?:[,.]\d*)?", re.ASCII)  # 1,234.5 or 1.234,5
SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f](?=\d{3}(\D|$))")  # thousands in Spanish, French, SI
OPEN = re.compile(r"[+-]?[1-9]\d{0,2}([,.])\d{3}", re.ASCII)  # 1,234: a thousand or one and a bit
TELLING = 2000  # numbers that decide the decimal mark


def parse_number(text: str, decimal: str = "") -> float | None:
    """The number that a text spells, or None if it spells none (or none that is finite).

    `decimal` is the mark before the fraction where that is known, `.` or `,` (see `decimal_mark`). Without it, the last of
    two different marks is it, a mark that comes twice divides thousands, and a single mark is decimal.

    >>> [parse_number(text) for text in ("3.5", "3,5", "1.234,5", "1,234,567", "12 345,6", "-2e3", "five", "", "nan")]
    [3.5, 3.5, 1234.5, 1234567.0, 12345.6, -2000.0, None, None, None]
    >>> parse_number("1,234"), parse_number("1,234", decimal=".")
    (1.234, 1234.0)
    """
    text = SPACES.sub("", text.strip().replace("\u2212", "-"))  # the minus sign of typesetters
    if NOT_IN_NUMBERS.search(text):
        return None
    mark = decimal or _last_mark(text)
    other = "." if mark == "," else ","
    if other in text or "'" in text:
        thousands = next(letter for letter in text if letter in ",.'")  # the first mark divides them
        if not (GROUPED.fullmatch(text) and (mark not in text or text.rindex(mark) > text.rindex(thousands))):
            return None
        text = text.replace(other, "").replace("'", "")
    text = text.replace(mark, ".")
    number = float(text) if PLAIN.fullmatch(text) else float("inf")
    return number if abs(number) < float("inf") else None


def number_first(label: str) -> tuple[bool, float, str]:
    """Numbers in their order, before words in theirs.

    >>> sorted(["b", "10", "-1", "9", "a", "9,5"], key=number_first)
    ['-1', '9', '9,5', '10', 'a', 'b']
    """
    number = parse_number(label)
    return number is None, number or 0.0, label


def _last_mark(text: str) -> str:
    """The decimal mark of a text that stands alone.

    >>> _last_mark("1.234,5"), _last_mark("1.234.567"), _last_mark("1.234")
    (',', ',', '.')
    """
    point, comma = text.rfind("."), text.rfind(",")
    mark = "," if comma > point else "."
    return mark if text.count(mark) < 2 else "." if mark == "," else ","


def decimal_mark(texts: Iterable[str], separator: str = "", usual: str = "") -> str:
    """The decimal mark of all numbers of a file or column, `.` or `,`.

    A number alone may be ambiguous: 1,234 is a thousand in one file and less than two in another. Those that are not
    ambiguous decide for all. If none is, the mark of other columns does (`usual`); without it, a comma is decimal in a
    file whose cells are divided by something else (`separator`), and divides thousands otherwise.

    >>> decimal_mark(["1,234", "0,5"]), decimal_mark(["1,234", "1,234.5"]), decimal_mark(["1,234"], ";")
    (',', '.', ',')
    >>> decimal_mark(["1.234"]), decimal_mark(["1.234"], usual=",")
    ('.', ',')
    """
    certain, likely = _decimal_marks(texts)
    if certain:
        return certain
    return usual or ("," if likely == "," and separator not in ("", ",") else ".")


def _decimal_marks(texts: Iterable[str]) -> tuple[str, str]:
    """The mark that the numbers show beyond doubt, and the only one in those that may mean either; "" where there is none."""
    votes = {".": 0, ",": 0}
    open_commas = open_points = 0
    for text in islice((text.strip() for text in texts), TELLING):
        if not ("," in text or "." in text) or parse_number(text) is None:
            continue
        if either := OPEN.fullmatch(SPACES.sub("", text)):
            open_commas += either[1] == ","
            open_points += either[1] == "."
        else:
            votes[_last_mark(text)] += 1
    certain = max(votes, key=lambda mark: votes[mark]) if votes["."] != votes[","] else ""
    return certain, "," if open_commas and not open_points else "." if open_points and not open_commas else ""


# Columns of cells as numbers, and what is wrong with a cell that is none.


EMPTY = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?")  # ways to write that there is no number
SIGNS = re.compile(r"^[$€£¥]\s*|(?<=^[+-])[$€£¥]\s*|\s*[$€£¥%]$")
NUMERIC = 0.5  # share of the cells of a column that must be numbers for the column to be one of numbers

Column = NDArray[np.float64]


def numbers(cells: Sequence[Any], separator: str = ",", usual: str = "") -> tuple[Column, dict[int, str]]:
    """The numbers of a column, and for each cell that is not a number, what is wrong with it; its number is NaN.

    In a table that commas do not divide, 1,234 is a bit more than one; where they do, it is a quoted number of thousands.
    `usual` is the decimal mark of other columns. A currency sign or % next to a number is ignored.

    >>> numbers(["3,5", "1.234,5", ""], ";")
    (array([   3.5, 1234.5,    nan]), {2: 'no number'})
    >>> numbers(["1,234", "7", "many", "inf"])[1]
    {2: "text 'many'", 3: "an infinite number 'inf'"}
    >>> numbers(["$1,234.50", "-$7", "8 %"])[0]
    array([1234.5,   -7. ,    8. ])
    """
    try:
        require(usual != ",", "a point may divide thousands")
        values = np.asarray(cells, dtype=np.float64)
    except (ValueError, TypeError):
        mark = decimal_mark(_texts_in(cells), separator, usual)
        values = np.array([one_number(_bare(cell), mark) for cell in cells])
    return np.where(np.isfinite(values), values, np.nan), {
        row: _fault(cells[row], float(values[row])) for row in np.flatnonzero(~np.isfinite(values)).tolist()
    }


def mark_of(columns: Sequence[Sequence[Any]]) -> str:
    """The decimal mark of a table, as far as its columns agree on one; nothing where no number has a comma.

    >>> mark_of([["1.234"], ["3,5"]]), mark_of([["2.5"], ["3,5"]])
    (',', '')
    """
    some = (cell for cells in columns for cell in islice(cells, TELLING))
    if not any(isinstance(cell, str) and "," in cell for cell in some):
        return ""
    marks = {mark for mark, _ in map(_decimal_marks, map(_texts_in, columns)) if mark}
    return marks.pop() if len(marks) == 1 else ""


def _texts_in(cells: Sequence[Any]) -> Iterator[str]:
    """The texts in the cells of a column."""
    return (_bare(cell) for cell in cells if isinstance(cell, str))


def _bare(cell: Any) -> Any:
    """A number without a currency sign or %; anything else as it is.

    >>> _bare("$1,234.50"), _bare("-€7"), _bare("8 %"), _bare(3.5)
    ('1,234.50', '-7', '8', 3.5)
    """
    return SIGNS.sub("", cell.strip()) if isinstance(cell, str) else cell


def one_number(cell: Any, mark: str) -> float:
    """The number that a cell spells; infinite or NaN where it is not a finite number."""
    number = parse_number(cell, mark) if isinstance(cell, str) else None
    try:
        return float(cell) if number is None else number
    except (ValueError, TypeError):
        return math.nan


def _fault(cell: Any, value: float) -> str:
    """The fault of a cell that has no finite number."""
    text = "" if cell is None else str(cell).strip()
    if text.casefold() in EMPTY:
        return "no number"
    return f"an infinite number {text!r}" if math.isinf(value) else f"text {text[:40]!r}"


def is_numeric(cells: Sequence[Any], faults: dict[int, str]) -> bool:
    """Whether a column is one of numbers, although some of its cells may be none."""
    filled = len(cells) - sum(what == "no number" for what in faults.values())
    wrong = sum(what.startswith("text") for what in faults.values())
    return filled > 0 and filled - wrong >= NUMERIC * filled
