"""What the cells of a table look like, whatever its columns are called: numbers, words, titles, labels. `header.py` decides."""

from collections import Counter
from collections.abc import Iterable, Sequence

from mirada.data.columns.names import OTHER, words_of
from mirada.data.columns.numbers import EMPTY, parse_number
from mirada.data.columns.times import pattern_of

FEW = 10  # rows that a guess needs
SHORT = 3  # words of a cell that may be a name
RARE = 40  # rows for each label that may occur only once
FEW_OF = 0.2  # share of the texts that may be as short as a name
ASKING = ("?", ":")  # how the columns of a survey end
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


def counts_from_zero(row: Cells) -> bool:
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


def usual_width(rows: Sequence[Cells], least: int) -> int:
    """How many cells most rows have, without empty ones at the end of all; as many as are wanted, where that is open."""
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


def may_be_names(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether no cell is a number, or comes again below."""
    again = any(cell and cell == other[place] for other in rest for place, cell in enumerate(row[: len(other)]))
    return not again and not any(is_number(cell) for cell in row)


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


def has_labels_first(rows: Sequence[Cells]) -> bool:
    """Whether the first of two columns holds labels: few short values that come again, beside longer texts that do not."""
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


def is_license(rows: Sequence[Cells], place: int) -> bool:
    """Whether a column only says under which license its row is, as in the sentences of Tatoeba."""
    return all(row[place].startswith(("CC-BY", "CC BY")) for row in rows)


def guess_columns(rows: Sequence[Cells], columns: tuple[str, ...], label: int | None = None) -> list[int]:
    """The columns that look like what is wanted; none if nothing does. `label` is that of the labels, if a name tells."""
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
    telling = any(all_numbers(cells) or pattern_of(cells) for cells in columns)
    return len(rest) > 1 and telling and all(map(is_word, row)) and may_be_names(row, rest)


def has_short_names(rows: Sequence[Cells]) -> bool:
    """Whether the first row of a wide table is a header: short words or questions, over cells that do not repeat them."""
    first, rest = rows[0], rows[1:]
    if any(is_number(cell) or (len(cell.split()) > SHORT + 1 and not cell.endswith(ASKING)) for cell in first):
        return False
    return len(rest) > 0 and may_be_names(first, rest)


def is_whole(row: TableLine) -> bool:
    """Whether a row can be read and has something in it."""
    return not row[2] and any(map(str.strip, row[1]))
