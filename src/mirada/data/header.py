"""Which columns of a table are which, as people have tables: with a header or without, in any order, with others beside."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mirada.data.names import BESIDE, OTHER, STRONG, SURE, Matched, belongs, match, usual, words_of
from mirada.data.numbers import parse_number

FEW = 10  # rows that a guess needs
SHORT = 3  # words of a cell that may be a name
PHRASE = 1.5  # words: the entries of a dictionary have fewer
TITLES = 4  # lines that may stand above a header
CLASSES = ("text", "label")
Cells = Sequence[str]


@dataclass(frozen=True)
class Columns:
    """Where the fields of a record stand in a row; how wide rows are; how many rows come first that are no records."""

    picked: tuple[int, ...]
    width: int
    skipped: int = 0  # the header, and what stands above it
    note: str = ""  # what was recognized, for the person

    @property
    def header(self) -> bool:
        return self.skipped > 0


def recognize(rows: Sequence[Cells], columns: tuple[str, ...], header: str = "") -> Columns | None:
    """The columns of a table, from its first rows; None if the rows are too short. What cannot be told is an error.

    >>> rows = [["review", "sentiment"], ["a fine film", "pos"], ["a dull film", "neg"]]
    >>> recognize(rows, ("text", "label"))
    Columns(picked=(0, 1), width=2, skipped=1, note='header: text is review, label is sentiment')
    >>> recognize(rows[1:], ("text", "label"))
    Columns(picked=(0, 1), width=2, skipped=0, note='')
    >>> recognize([["7", "a fine film", "pos"], ["8", "a dull film", "neg"], ["9", "so so", "neg"]], ("text", "label"))
    Traceback (most recent call last):
    ValueError: 3 columns ('7', 'a fine film', 'pos') and no header that names text and label. ... columns=2,3
    """
    rows = [[cell.strip() for cell in row] for row in rows]
    width = usual_width(rows, len(columns))
    rows = [row[:width] if not any(row[width:]) else row for row in rows]  # separators at the end of lines
    if header != "no":
        found = by_name(rows, columns, width)
        if found is not None:
            return found
    remarks = next((n for n, row in enumerate(rows) if not is_remark(row, rows, width)), 0)
    whole = [row for row in rows[remarks:] if len(row) == width]
    used = [place for place in range(width) if any(row[place] for row in whole) and not licenses(whole, place)]
    if len(used) < len(columns) or not whole:
        return None
    if len(used) > len(columns):
        raise ValueError(too_many(whole, used, columns, header))
    found = by_content([[row[place] for place in used] for row in whole], used, columns, header, width, remarks)
    left = [str(place + 1) for place in range(width) if any(row[place] for row in whole) and place not in used]
    aside = f"column {', '.join(left)} is a license and left out" if left else ""
    return replace(found, note="; ".join(filter(None, (found.note, aside))))


def usual_width(rows: Sequence[Cells], least: int) -> int:
    """How many cells most rows have, without empty ones at the end of all; as many as are wanted, where that is open."""
    filled = [max((n for n, cell in enumerate(row, 1) if cell), default=0) for row in rows]
    counts = Counter(len(row) for row in rows)
    often = max(counts.values())
    widths = sorted((size for size, count in counts.items() if count == often), reverse=True)
    width = least if least in widths else widths[0]
    reach = max((filled[n] for n, row in enumerate(rows) if len(row) == width), default=width)
    return max(reach, min(width, least))


def is_remark(row: Cells, rows: Sequence[Cells], width: int) -> bool:
    """Whether a line at the top is a remark, not a text that begins with a hash: it has other cells than the others."""
    if not row[0].startswith("#"):
        return False
    again = any(row[-1] == other[-1] for other in rows if other is not row)
    return len(row) != width or (row[0].startswith("# ") and not again)


def licenses(rows: Sequence[Cells], place: int) -> bool:
    """Whether a column only says under which license its row is, as in the sentences of Tatoeba."""
    return all(row[place].startswith(("CC-BY", "CC BY")) for row in rows)


# by names


def by_name(rows: Sequence[Cells], columns: tuple[str, ...], width: int) -> Columns | None:
    """The columns by a line that names them all: the first, but for titles and remarks."""
    for number, row in enumerate(rows[: TITLES + 1]):
        matched = match(row, columns)
        rest = [other for other in rows[number + 1 :] if len(other) == width]
        if matched.whole and (matched.sure or like_names(row, matched, rest, columns)):
            named_rows = len(row) == width - 1 and width > len(columns) and len(rest) > 0  # as R writes tables
            picked = tuple(place + named_rows for place in matched.places)
            return Columns(picked, width, number + 1, taken(row, matched.places, columns, number))
        if matched.rivals and matched.partly_sure and all_names(row, rest):
            raise ValueError(rivalry(row, matched, columns))
        if not is_title(row, width):
            break
    return None


def is_title(row: Cells, width: int) -> bool:
    """Whether a line above a header is none of the table: a remark, or a title in one cell."""
    return bool(row) and (row[0].startswith("#") or (width > 1 and sum(map(bool, row)) <= 1))


def like_names(row: Cells, matched: Matched, rest: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether cells that contain usual names are names: short, no sentence, and nothing that comes again below."""
    cells = [row[place] for place in matched.places]
    if any(cell.endswith((".", "!", "?")) for cell in cells) or not all_names(row, rest):
        return False
    if any(match(other, columns).whole for other in rest[:SHORT]):  # text 1, text 2, text 3
        return False
    if columns == CLASSES:
        return True
    beside = BESIDE.union(*map(usual, columns))
    return all(belongs(word, beside) for cell in cells for word in words_of(cell))


def all_names(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether no cell is a number, or comes again below."""
    again = any(cell and cell == other[place] for other in rest for place, cell in enumerate(row[: len(other)]))
    return not again and not any(number(cell) for cell in row)


def taken(row: Cells, places: Sequence[int], columns: tuple[str, ...], above: int = 0) -> str:
    """What was recognized, for the person; nothing where a header has our own words in our order."""
    if [cell.casefold() for cell in row] == list(columns) and not above:
        return ""
    pairs = ", ".join(f"{column} is {row[place]}" for column, place in zip(columns, places, strict=True))
    return f"header: {pairs}{f' ({lines(above)} above it left out)' if above else ''}"


def lines(count: int) -> str:
    """How many lines, in words."""
    return f"{count} line{'s' * (count > 1)}"


# by what the cells hold


def by_content(
    rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], header: str, width: int, remarks: int
) -> Columns:
    """As many columns as are wanted: with a header that has other names, or none, and the label before the text or after."""
    first, rest, count = rows[0], rows[1:], len(columns)
    headed = header == "yes" or (header != "no" and looks_like_header(rows, columns))
    body = rest if headed else rows
    order = list(range(count))
    named = match(first, columns) if headed else None
    if named is not None and count == 2 and len(named.places) == 1:
        (place,), column = named.places, columns[0 if named.picked[0] is not None else 1]
        if column == "text" and words_of(first[1 - place])[-1:] and words_of(first[1 - place])[-1] in OTHER:
            raise ValueError(
                f"the header ({', '.join(first)}) names no label. Add a column with the label of each text."
            )
        order = [place, 1 - place] if column == columns[0] else [1 - place, place]
    elif columns == CLASSES and label_first(body):
        order = [1, 0]
    if columns == CLASSES:
        require_labels(body, order)
    note = taken(first, order, columns, remarks) if headed else ""
    if not headed and order == [1, 0]:
        note = "the label is in the first column, the text in the second"
    if remarks and not headed:
        note = "; ".join(filter(None, (note, f"{lines(remarks)} at the top left out")))
    return Columns(tuple(used[place] for place in order), width, remarks + headed, note)


def looks_like_header(rows: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether the first row names columns: by a usual name, by types, or by a label that occurs nowhere else."""
    first, rest = rows[0], rows[1:]
    if numbered(first) and rest and not all(map(numbered, rest)) and not any(row[0].isdecimal() for row in rest):
        return True  # as pandas writes columns without names
    if any(len(cell.split()) > SHORT or not cell or number(cell) for cell in first):
        return False
    below = [Counter(row[place] for row in rest) for place in range(len(first))]
    again = any(cell in counts for cell, counts in zip(first, below, strict=True))
    matched = match(first, columns)
    names = [
        first[place]
        for place, fit in zip(matched.picked, matched.fits, strict=True)
        if place is not None and fit <= SURE
    ]
    if names and columns == CLASSES:
        strong = [cell for cell in names if words_of(cell)[-1] in STRONG]
        return not again or (bool(strong) and not any(cell in counts for cell in strong for counts in below))
    if names and len(rest) >= FEW and not again:
        return all(mean_words(row[place] for row in rest) > PHRASE for place in range(len(first)))
    if len(rest) > SHORT and any(map(all_numbers, below)):
        return True
    if columns != CLASSES or len(rest) < FEW:
        return False
    place = 0 if label_first(rest) else 1
    return len(below[place]) <= len(rest) / 4 and min(below[place].values()) > 1 and first[place] not in below[place]


def has_header(rows: Sequence[Cells], columns: tuple[str, ...], header: str) -> bool:
    """Whether the first row of columns that were chosen only names them."""
    if header:
        return header == "yes"
    matched = match(rows[0], columns)
    named = matched.whole and (matched.sure or like_names(rows[0], matched, rows[1:], columns))
    return named or looks_like_header(rows, columns)


def number(text: str) -> bool:
    """Whether a cell is a number, with a point or a comma.

    >>> number("3,5"), number("-2e3"), number("five")
    (True, True, False)
    """
    return parse_number(text) is not None


def numbered(row: Cells) -> bool:
    """Whether cells count from 0."""
    return list(row) == [str(number) for number in range(len(row))]


def mean_words(cells: Iterable[str]) -> float:
    """How many words cells have, on the average."""
    counts = [len(cell.split()) for cell in cells]
    return sum(counts) / max(1, len(counts))


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


def require_labels(rows: Sequence[Cells], order: Sequence[int]) -> None:
    """Refuse what cannot be texts with their labels: numbers as texts, or another number or sentence for each text."""
    if len(rows) < FEW:
        return
    texts, labels = ([row[place] for row in rows] for place in order)
    text, label = order[0] + 1, order[1] + 1
    if all_numbers(texts):
        fault = f"column {text} should be the text and holds numbers ({texts[0]}, {texts[1]}, ...)"
    elif len(set(labels)) == len(labels) and (mean_words(labels) > SHORT or all_numbers(labels)):
        fault = f"column {label} should be the label and is another one in every row ({labels[0]}, {labels[1]}, ...)"
    else:
        return
    if len(set(texts)) > len(texts) / 2:
        raise ValueError(f"{fault}. No column holds labels: add one with the label of each text.")
    raise ValueError(f"{fault}. Say which columns are text and label: columns={label},{text}")


def all_numbers(cells: Iterable[str]) -> bool:
    return all(number(cell) for cell in cells)


# what cannot be told


def rivalry(row: Cells, matched: Matched, columns: tuple[str, ...]) -> str:
    """The error for a header that names a column twice."""
    column, places = next(iter(matched.rivals.items()))
    several = " or ".join(row[place] for place in places)
    found = [matched.rivals.get(name, (place,))[0] for name, place in zip(columns, matched.picked, strict=True)]
    picked = [place for place in found if place is not None]
    if len(picked) < len(columns):
        return f"{column} may be {several}. Say which columns to take: columns={','.join(columns).upper()}"
    twice = len({row[place] for place in places}) < len(places) or any("," in row[place] for place in picked)
    names = [str(place + 1) if twice else row[place] for place in picked]
    return f"{column} may be {several}. Say which columns to take, for example columns={','.join(names)}"


def too_many(rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], header: str) -> str:
    """The error for a table with more columns than are wanted, which no name tells apart."""
    first, wanted = rows[0], " and ".join(columns)
    headed = header == "yes" or (header != "no" and all(map(bool, first)) and headed_by_types(rows))
    body = rows[1:] if headed else rows
    picked = likely([[row[place] for place in used] for row in body], columns)
    plain = headed and len(set(first)) == len(first) and not any("," in cell for cell in first)
    names = ",".join(first[used[place]] if plain else str(used[place] + 1) for place in picked)
    way = f": columns={','.join(columns).upper()}, by {'name' if plain else 'number from 1'}"
    way = f", for example columns={names}" if names else way
    matched = match(first, columns)
    missing = [column for column, place in zip(columns, matched.picked, strict=True) if place is None]
    if headed and missing:
        wanted = " and ".join(missing)
        return f"the header ({', '.join(first)}) names no {wanted}. Say which columns to take{way}"
    shown = ", ".join(repr(first[place] if len(first[place]) <= 20 else first[place][:17] + "...") for place in used)
    return f"{len(used)} columns ({shown}) and no header that names {wanted}. Say which columns to take{way}"


def headed_by_types(rows: Sequence[Cells]) -> bool:
    """Whether the first row of a wide table is a header: short words, over numbers or over cells that do not repeat them."""
    first, rest = rows[0], rows[1:]
    if any(len(cell.split()) > SHORT + 1 or number(cell) for cell in first):
        return False
    return len(rest) > 0 and all_names(first, rest)


def likely(rows: Sequence[Cells], columns: tuple[str, ...]) -> list[int]:
    """The columns that look like what is wanted; none if nothing does."""
    if not rows:
        return []
    cells = [[row[place] for row in rows] for place in range(len(rows[0]))]
    worded = [n for n, column in enumerate(cells) if not all_numbers(column)]
    by_words = sorted(worded, key=lambda place: -mean_words(cells[place]))
    if columns != CLASSES:
        return sorted(by_words[: len(columns)]) if len(by_words) >= len(columns) else []
    others = [n for n, column in enumerate(cells) if min(2, len(rows)) <= len(set(column)) < max(3, len(rows) / 2)]
    labels = [place for place in others if place not in by_words[:1]]
    return [by_words[0], labels[0]] if by_words and len(labels) == 1 else []
