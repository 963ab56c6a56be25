"""Whether the first row of a table names its columns: by usual names, or by what the cells below hold; and titles above it."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from mirada.data.decimals import EMPTY
from mirada.data.names import (
    BESIDE,
    LANGUAGES,
    LINKS,
    OTHER,
    STRONG,
    SURE,
    Matched,
    belongs,
    faint,
    match,
    usual,
    words_of,
)
from mirada.data.numbers import parse_number

FEW = 10  # rows that a guess needs
SHORT = 3  # words of a cell that may be a name
PHRASE = 1.5  # words: the entries of a dictionary have fewer
TITLES = 4  # lines that may stand above a header
RARE = 40  # rows for each label that may occur only once
FEW_OF = 0.2  # share of the texts that may be as short as a name
KEY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
ASKING = ("?", ":")  # how the columns of a survey end
CLASSES = ("text", "label")
Cells = Sequence[str]


def number(text: str) -> bool:
    """Whether a cell is a number, with a point or a comma.

    >>> number("3,5"), number("-2e3"), number("five")
    (True, True, False)
    """
    return parse_number(text) is not None


def all_numbers(cells: Iterable[str]) -> bool:
    return all(number(cell) for cell in cells)


def numbered(row: Cells) -> bool:
    """Whether cells count from 0."""
    return list(row) == [str(number) for number in range(len(row))]


def is_word(cell: str) -> bool:
    """Whether a cell has letters, and does not say that there is nothing.

    >>> is_word("rating"), is_word("7"), is_word("N/A")
    (True, False, False)
    """
    return any(map(str.isalpha, cell)) and cell.casefold() not in EMPTY


def mean_words(cells: Iterable[str]) -> float:
    """How many words cells have, on the average."""
    counts = [len(cell.split()) for cell in cells]
    return sum(counts) / max(1, len(counts))


# what stands above


def usual_width(rows: Sequence[Cells], least: int) -> int:
    """How many cells most rows have, without empty ones at the end of all; as many as are wanted, where that is open."""
    filled = [max((n for n, cell in enumerate(row, 1) if cell), default=0) for row in rows]
    counts = Counter(len(row) for row in rows)
    often = max(counts.values())
    widths = sorted((size for size, count in counts.items() if count == often), reverse=True)
    width = least if least in widths else widths[0]
    reach = max((filled[n] for n, row in enumerate(rows) if len(row) == width), default=width)
    return max(reach, min(width, least))


def leaves_row_names_out(header: Cells, rest: Sequence[Cells]) -> bool:
    """Whether rows begin with their own numbers, which the header does not name, as R writes tables.

    >>> leaves_row_names_out(["text", "label"], [["1", "so so", "neg"], ["2", "fine", "pos"]])
    True
    >>> leaves_row_names_out(["text", "label"], [["I came", "I saw", "pos"], ["Yes", "fine", "pos"]])
    False
    """
    names = [row[0] for row in rest]
    numbers = all(len(name.split()) == 1 and name[-1].isdecimal() for name in names) and len(set(names)) == len(names)
    named = OTHER.intersection(words_of(header[0])[-1:])  # an id, beside texts that have the separator in them
    return bool(names) and numbers and not named and all(len(row) == len(header) + 1 for row in rest)


def is_title(row: Cells, width: int) -> bool:
    """Whether a line above a header is none of the table: a remark, or a title in one cell."""
    return bool(row) and (row[0].startswith("#") or (width > 1 and sum(map(bool, row)) <= 1))


def is_remark(row: Cells, rows: Sequence[Cells], width: int) -> bool:
    """Whether a line at the top is a remark, not a text that begins with a hash: it has other cells than the others."""
    if not row[0].startswith("#"):
        return False
    again = any(row[-1] == other[-1] for other in rows if other is not row)
    return len(row) != width or (row[0].startswith("# ") and not again)


# by names


def all_names(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether no cell is a number, or comes again below."""
    again = any(cell and cell == other[place] for other in rest for place, cell in enumerate(row[: len(other)]))
    return not again and not any(number(cell) for cell in row)


def like_names(row: Cells, matched: Matched, rest: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether cells that contain usual names are names: short, no sentence, and nothing that comes again below."""
    cells = [row[place] for place in matched.places]
    if any(cell.endswith((".", "!", "?")) for cell in cells) or not all_names(row, rest):
        return False
    if any(match([other[place] for place in matched.places], columns).whole for other in rest[:SHORT]):
        return False  # text 1, text 2, text 3
    if columns == CLASSES:
        return True
    beside = (BESIDE | LINKS | LANGUAGES.keys()).union(*map(usual, columns), *map(faint, columns))
    return all(belongs(word, beside) for cell in cells for word in words_of(cell))


def has_header(rows: Sequence[Cells], columns: tuple[str, ...], header: str) -> bool:
    """Whether the first row of columns that were chosen only names them."""
    if header:
        return header == "yes"
    matched = match(rows[0], columns)
    named = matched.whole and (matched.sure or like_names(rows[0], matched, rows[1:], columns))
    return named or looks_like_header(rows, columns)


# by what the cells hold


def looks_like_header(rows: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether the first row names columns: by a usual name, by types, or by a label that occurs nowhere else."""
    first, rest = rows[0], rows[1:]
    if numbered(first) and rest and not all(map(numbered, rest)) and not any(row[0].isdecimal() for row in rest):
        return True  # as pandas writes columns without names
    if any(not cell or number(cell) for cell in first):
        return False
    if columns == CLASSES:
        return names_classes(first, rest)
    if any(len(cell.split()) > SHORT for cell in first):
        return False
    below = [Counter(row[place] for row in rest) for place in range(len(first))]
    again = any(cell in counts for cell, counts in zip(first, below, strict=True))
    if match(first, columns).partly_sure and len(rest) >= FEW and not again:
        return all(mean_words(row[place] for row in rest) > PHRASE for place in range(len(first)))
    if len(rest) >= FEW and all(KEY.fullmatch(cell) for cell in first):
        return all(" " in cell for row in rest for cell in row)  # a word over phrases, written as programs write names
    return len(rest) > SHORT and any(map(all_numbers, below))


def names_classes(first: Cells, rest: Sequence[Cells]) -> bool:
    """Whether two cells name a column of texts and one of labels. Those of a survey may be whole questions."""
    below = [Counter(row[place] for row in rest) for place in (0, 1)]
    matched = match(first, CLASSES)
    named = {
        column: place
        for column, place, fit in zip(CLASSES, matched.picked, matched.fits, strict=True)
        if place is not None and fit <= SURE
    }
    short = all(len(cell.split()) <= SHORT for cell in first)
    if named and short and not names_short_cells(named, rest):
        again = any(cell in counts for cell, counts in zip(first, below, strict=True))
        strong = [first[place] for place in named.values() if words_of(first[place])[-1] in STRONG]
        return not again or (bool(strong) and not any(cell in counts for cell in strong for counts in below))
    place = named.get("label", 0 if label_first(rest) else 1)
    label, labels = first[place], below[place]
    if not labels or label in labels or not all(map(is_word, first)):
        return False
    if any(map(all_numbers, below)):
        return len(rest) > 1
    if "label" in named and len(label) > 1:  # y and n may be labels
        return True
    if label.endswith(ASKING) and not any(other.endswith(ASKING) for other in labels):
        return True
    return is_odd_label(first, rest, place)


def names_short_cells(named: dict[str, int], rest: Sequence[Cells]) -> bool:
    """Whether the only name is one for texts, over cells that are short beside those of the other column: a label."""
    if "label" in named:
        return False
    own, other = (mean_words(row[place] for row in rest) for place in (named["text"], 1 - named["text"]))
    return own < SHORT and 2 * own < other


def is_odd_label(first: Cells, rest: Sequence[Cells], place: int) -> bool:
    """Whether a label that occurs once stands over two or more that come again: over many rows, or beside a text that is
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


def label_first(rows: Sequence[Cells]) -> bool:
    """Whether the first of two columns holds labels: few short values that come again, beside longer texts that do not."""
    if len(rows) < 2 or any(len(row) != 2 for row in rows):
        return False
    labels, texts = ([row[place] for row in rows] for place in (0, 1))
    if any(len(label.split()) > SHORT for label in labels):
        return False
    kinds, different = len(set(labels)), len(set(texts))
    few = len(rows) >= FEW and kinds <= len(rows) / 4
    if all_numbers(labels) and not any(number(text) for text in texts):
        return kinds <= len(rows) / 2 or len(rows) < FEW
    longer = mean_words(texts) > 2 * mean_words(labels)
    if longer and different > 0.9 * len(rows) and (kinds < len(rows) or len(rows) < FEW):
        return True
    return few and different > len(rows) / 2 and different > 2 * kinds
