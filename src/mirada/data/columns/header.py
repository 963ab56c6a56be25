"""Which columns of a table are which, as people have tables: with a header or without, in any order, with others beside."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mirada.data.columns.names import (
    BESIDE,
    LANGUAGES,
    LINKS,
    OTHER,
    STRONG,
    ColumnMatch,
    NameMatch,
    aliases_of,
    is_name,
    is_one_of,
    match_name,
    match_names,
    weak_aliases_of,
    words_of,
)
from mirada.data.columns.numbers import EMPTY, parse_number
from mirada.data.columns.times import pattern_of
from mirada.words import plural, shortened

# Whether the first row of a table names its columns: by usual names, or by what the cells below hold; and titles
# above it.


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


def is_number(text: str) -> bool:
    """Whether a cell is a number, with a point or a comma.

    >>> is_number("3,5"), is_number("-2e3"), is_number("five")
    (True, True, False)
    """
    return parse_number(text) is not None


def all_numbers(cells: Iterable[str]) -> bool:
    return all(is_number(cell) for cell in cells)


def counts_from_zero(row: Cells) -> bool:
    """Whether cells count from 0."""
    return list(row) == [str(number) for number in range(len(row))]


def _is_word(cell: str) -> bool:
    """Whether a cell has letters, and does not say that there is nothing.

    >>> _is_word("rating"), _is_word("7"), _is_word("N/A")
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


def _is_remark(row: Cells, rows: Sequence[Cells], width: int) -> bool:
    """Whether a line at the top is a remark, not a text that begins with a hash: it has other cells than the others."""
    if not row[0].startswith("#"):
        return False
    again = any(row[-1] == other[-1] for other in rows if other is not row)
    return len(row) != width or (row[0].startswith("# ") and not again)


# by names


def _all_names(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether no cell is a number, or comes again below."""
    again = any(cell and cell == other[place] for other in rest for place, cell in enumerate(row[: len(other)]))
    return not again and not any(is_number(cell) for cell in row)


def _like_names(row: Cells, matched: ColumnMatch, rest: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether cells that contain usual names are names: short, no sentence, and nothing that comes again below."""
    cells = [row[place] for place in matched.places]
    if any(cell.endswith((".", "!", "?")) for cell in cells) or not _all_names(row, rest):
        return False
    if any(match_names([other[place] for place in matched.places], columns).whole for other in rest[:SHORT]):
        return False  # text 1, text 2, text 3
    if columns == CLASSES:
        return True
    beside = (BESIDE | LINKS | LANGUAGES.keys()).union(*map(aliases_of, columns), *map(weak_aliases_of, columns))
    return all(is_one_of(word, beside) for cell in cells for word in words_of(cell))


def has_header(rows: Sequence[Cells], columns: tuple[str, ...], header: str) -> bool:
    """Whether the first row of columns that were chosen only names them."""
    if header:
        return header == "yes"
    matched = match_names(rows[0], columns)
    named = matched.whole and (matched.sure or _like_names(rows[0], matched, rows[1:], columns))
    return named or looks_like_header(rows, columns)


# by what the cells hold


def looks_like_header(rows: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether the first row names columns: by a usual name, by types, or by a label that occurs nowhere else."""
    first, rest = rows[0], rows[1:]
    if (
        counts_from_zero(first)
        and rest
        and not all(map(counts_from_zero, rest))
        and not any(row[0].isdecimal() for row in rest)
    ):
        return True  # as pandas writes columns without names
    if any(not cell or is_number(cell) for cell in first):
        return False
    if columns == CLASSES:
        return _names_classes(first, rest)
    if any(len(cell.split()) > SHORT for cell in first):
        return False
    below = [Counter(row[place] for row in rest) for place in range(len(first))]
    again = any(cell in counts for cell, counts in zip(first, below, strict=True))
    if match_names(first, columns).partly_sure and len(rest) >= FEW and not again:
        return all(mean_words(row[place] for row in rest) > PHRASE for place in range(len(first)))
    if len(rest) >= FEW and all(KEY.fullmatch(cell) for cell in first):
        return all(" " in cell for row in rest for cell in row)  # a word over phrases, written as programs write names
    return len(rest) > SHORT and any(map(all_numbers, below))


def _names_classes(first: Cells, rest: Sequence[Cells]) -> bool:
    """Whether two cells name a column of texts and one of labels. Those of a survey may be whole questions."""
    below = [Counter(row[place] for row in rest) for place in (0, 1)]
    matched = match_names(first, CLASSES)
    named = {
        column: place
        for column, place, fit in zip(CLASSES, matched.picked, matched.fits, strict=True)
        if place is not None and fit <= NameMatch.ALIAS
    }
    short = all(len(cell.split()) <= SHORT for cell in first)
    if named and short and not _names_short_cells(named, rest):
        again = any(cell in counts for cell, counts in zip(first, below, strict=True))
        strong = [first[place] for place in named.values() if words_of(first[place])[-1] in STRONG]
        return not again or (bool(strong) and not any(cell in counts for cell in strong for counts in below))
    place = named.get("label", 0 if has_labels_first(rest) else 1)
    label, labels = first[place], below[place]
    if not labels or label in labels or not all(map(_is_word, first)):
        return False
    if any(map(all_numbers, below)):
        return len(rest) > 1
    if "label" in named and len(label) > 1:  # y and n may be labels
        return True
    if label.endswith(ASKING) and not any(other.endswith(ASKING) for other in labels):
        return True
    return is_odd_label(first, rest, place)


def _names_short_cells(named: dict[str, int], rest: Sequence[Cells]) -> bool:
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


MANY = 20  # numbers that are different, and no labels any more


@dataclass(frozen=True)
class Columns:
    """Where the fields of a record stand in a row; how wide rows are; how many rows come first that are no records."""

    picked: tuple[int, ...]
    width: int
    skipped: int = 0  # the header, and what stands above it
    note: str = ""  # what was recognized, for the person
    header: bool = field(default=False, repr=False)  # whether the last of the skipped rows is one


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
        found = _by_name(rows, columns, width)
        if found is not None:
            return found
    remarks = next((n for n, row in enumerate(rows) if not _is_remark(row, rows, width)), 0)
    whole = [row for row in rows[remarks:] if len(row) == width]
    used = [place for place in range(width) if any(row[place] for row in whole) and not _licenses(whole, place)]
    if len(used) < len(columns) or not whole:
        return None
    if len(used) > len(columns):
        raise ValueError(_too_many(whole, used, columns, header))
    above = _header_place(rows, used, columns, header, width, remarks)
    start = remarks if above is None else above
    fields = [[row[place] for place in used] for row in rows[start:] if len(row) == width]
    found = _by_content(fields, used, columns, above is not None, width, start)
    left = [str(place + 1) for place in range(width) if any(row[place] for row in whole) and place not in used]
    aside = f"column {', '.join(left)} is a license and left out" if left else ""
    return replace(found, note="; ".join(filter(None, (found.note, aside))))


def _licenses(rows: Sequence[Cells], place: int) -> bool:
    """Whether a column only says under which license its row is, as in the sentences of Tatoeba."""
    return all(row[place].startswith(("CC-BY", "CC BY")) for row in rows)


# by names


def _by_name(rows: Sequence[Cells], columns: tuple[str, ...], width: int) -> Columns | None:
    """The columns by a line that names them all: the first, but for titles and remarks."""
    for above, row in enumerate(rows[: TITLES + 1]):
        rest = [other for other in rows[above + 1 :] if len(other) == width]
        matched = match_names(drop_nontext_columns(row, rest) if columns == CLASSES else row, columns)
        if matched.whole and (matched.sure or _like_names(row, matched, rest, columns)):
            named_rows = has_unnamed_row_numbers(row, rest)
            picked = tuple(place + named_rows for place in matched.places)
            cells = min(width, len(row) + named_rows)  # a text with a separator in it makes a row wider, not the table
            return Columns(picked, cells, above + 1, header_note(row, matched.places, columns, above), True)
        if matched.rivals and matched.partly_sure and _all_names(row, rest):
            raise ValueError(ambiguity(row, matched, columns))
        if not is_title(row, width):
            break
    return None


def drop_nontext_columns(names: Cells, rest: Sequence[Cells]) -> list[str]:
    """Names of columns, but for those of texts over cells that are none: numbers, or where the name is a faint one, a word or
    two beside longer texts.

    >>> drop_nontext_columns(["rating", "verified_reviews", "feedback"], [["5", "love it", "1"], ["1", "broken", "0"]])
    ['rating', 'verified_reviews', '']
    >>> drop_nontext_columns(["name", "what did you like?"], [["Ana", "the food and the wine"], ["Eva", "that it was quiet"]])
    ['', 'what did you like?']
    """
    rest = [row for row in rest if len(row) == len(names)]
    below = [[row[place] for row in rest if row[place]] for place in range(len(names))]
    words = [mean_words(cells) for cells in below]

    def is_none(name: str, cells: Sequence[str]) -> bool:
        fits = match_name(name, "text")
        if fits is None or match_name(name, "label") is not None or not cells:
            return False
        own = mean_words(cells)
        return all_numbers(cells) or (fits == NameMatch.WEAK and own < SHORT < max(words) and 2 * own < max(words))

    return ["" if is_none(name, cells) else name for name, cells in zip(names, below, strict=True)]


def header_note(row: Cells, places: Sequence[int], columns: tuple[str, ...], above: int = 0) -> str:
    """What was recognized, for the person; nothing where a header has our own words in our order."""
    if [cell.casefold() for cell in row] == list(columns) and not above:
        return ""
    pairs = ", ".join(f"{column} is {row[place]}" for column, place in zip(columns, places, strict=True))
    return f"header: {pairs}{f' ({count_lines(above)} above it left out)' if above else ''}"


def count_lines(count: int) -> str:
    """How many lines, in words."""
    return plural(count, "line")


# by what the cells hold


def _header_place(
    rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], header: str, width: int, remarks: int
) -> int | None:
    """Which row is a header with other names, behind remarks and perhaps titles; None: there is none."""
    whole = [n for n in range(remarks, len(rows)) if len(rows[n]) == width]
    if header == "yes":
        return whole[0]
    above = next((n for n in whole if not is_title(rows[n], width)), whole[0])
    titles = rows[remarks:above]
    if header == "no" or len(titles) > TITLES or not all(is_title(row, width) for row in titles):
        return None
    fields = [[row[place] for place in used] for row in rows[above:] if len(row) == width]
    return above if looks_like_header(fields, columns) else None


def _by_content(
    rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], headed: bool, width: int, above: int
) -> Columns:
    """As many columns as are wanted: with a header that has other names, or none, and the label before the text or after."""
    first, body, count = rows[0], rows[headed:], len(columns)
    order = list(range(count))
    named = match_names(first, columns) if headed else None
    if named is not None and count == 2 and len(named.places) == 1:
        (place,), column = named.places, columns[0 if named.picked[0] is not None else 1]
        if column == "text":
            _check_other(first, body, 1 - place)
        order = [place, 1 - place] if column == columns[0] else [1 - place, place]
    elif columns == CLASSES and has_labels_first(body):
        order = [1, 0]
    if columns == CLASSES:
        _require_labels(body, order)
    note = header_note(first, order, columns, above) if headed else ""
    if not headed and order == [1, 0]:
        note = "the label is in the first column, the text in the second"
    if above and not headed:
        note = "; ".join(filter(None, (note, f"{count_lines(above)} at the top left out")))
    return Columns(tuple(used[place] for place in order), width, above + headed, note, headed)


def _check_other(first: Cells, rows: Sequence[Cells], place: int) -> None:
    """Refuse a column with the name of something else, such as an id or a date, unless its cells come again, as labels do."""
    name, cells = first[place], [row[place] for row in rows]
    kinds = len(set(cells))
    labels = kinds <= len(cells) / 2 and (kinds <= MANY or not all_numbers(cells))
    if labels or not OTHER.intersection(words_of(name)[-1:]):
        return
    told = f"the header ({', '.join(first)}) names no label. Add a column with the label of each text."
    if kinds == len(cells) >= FEW:
        raise ValueError(told)
    names = (str(2 - place), str(place + 1)) if "," in "".join(first) else (first[1 - place], name)
    raise ValueError(f"{told} If it is {name}, say so: columns={','.join(names)}")


def _require_labels(rows: Sequence[Cells], order: Sequence[int]) -> None:
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


# what cannot be told


def ambiguity(row: Cells, matched: ColumnMatch, columns: tuple[str, ...]) -> str:
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


def _too_many(rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], header: str) -> str:
    """The error for a table with more columns than are wanted, which no name tells apart."""
    first, wanted = rows[0], " and ".join(columns)
    headed = header == "yes" or (header != "no" and all(map(bool, first)) and _headed_by_types(rows))
    body = rows[1:] if headed else rows
    matched = match_names(first, columns)
    named = matched.picked[-1] if headed and matched.picked[-1] in used else None
    label = None if named is None else used.index(named)
    picked = guess_columns([[row[place] for place in used] for row in body], columns, label)
    plain = headed and len(set(first)) == len(first) and not any("," in cell for cell in first)
    names = ",".join(first[used[place]] if plain else str(used[place] + 1) for place in picked)
    way = f": columns={','.join(columns).upper()}, by {'name' if plain else 'number from 1'}"
    way = f", for example columns={names}" if names else way
    missing = [column for column, place in zip(columns, matched.picked, strict=True) if place is None]
    if headed and missing:
        wanted = " and ".join(missing)
        return f"the header ({', '.join(first)}) names no {wanted}. Say which columns to take{way}"
    shown = ", ".join(repr(shortened(first[place], 20)) for place in used)
    return f"{len(used)} columns ({shown}) and no header that names {wanted}. Say which columns to take{way}"


def _headed_by_types(rows: Sequence[Cells]) -> bool:
    """Whether the first row of a wide table is a header: short words or questions, over cells that do not repeat them."""
    first, rest = rows[0], rows[1:]
    if any(is_number(cell) or (len(cell.split()) > SHORT + 1 and not cell.endswith(ASKING)) for cell in first):
        return False
    return len(rest) > 0 and _all_names(first, rest)


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


# Which column of a table holds the inputs, by the names in its header, and which row is the header.


PAIR = ("source", "target")
PAIRS = {"source": PAIR, "target": PAIR}  # columns that tell each other apart
LEARNED = {**PAIRS, "text": CLASSES, "name": ("name", "caption"), "question": ("question", "context")}


@dataclass(frozen=True)
class Top:
    """How a table begins: so many lines that are none of it, then perhaps a header; where its inputs are, if that is told."""

    above: int = 0
    headed: bool = False
    place: int | None = None


def recognize_inputs(rows: Sequence[Cells], asks: tuple[str, ...], header: str) -> Top:
    """How a table begins. A header names the inputs, or is one for those who learn from such a table.

    >>> recognize_inputs([["Export of May"], ["id", "review"], ["7", "a fine film"], ["8", "so so"]], ("text",), "")
    Top(above=1, headed=True, place=1)
    """
    if header == "no":
        return Top()
    width = usual_width(rows, 1)
    alone = None
    for number, row in enumerate(rows[: TITLES + 1]):
        place = named_input(row, rows[number + 1 :], asks)
        if place is not None and sum(map(bool, row)) > 1:
            return Top(number, True, place)
        if place is not None and alone is None:  # a title, if a header follows
            alone = Top(number, True, place)
        if not is_title(row, width):
            break
    found = alone or _learned_from(rows, asks[0], header)
    if found is not None:
        return found
    if header == "yes" or _words_over_numbers(rows[0], rows[1:]):
        return Top(0, True, place_of(_texts_only(rows[0], rows[1:], asks), asks))
    return Top(next((n for n, row in enumerate(rows) if not _is_remark(row, rows, width)), 0) if width > 1 else 0)


def _words_over_numbers(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether a row has only words, and rows that are as long have numbers or dates under some of them."""
    rest = [other for other in rest if len(other) == len(row)]
    columns = [[other[place] for other in rest] for place in range(len(row))]
    telling = any(all_numbers(cells) or pattern_of(cells) for cells in columns)
    return len(rest) > 1 and telling and all(map(_is_word, row)) and _all_names(row, rest)


def _learned_from(rows: Sequence[Cells], ask: str, header: str) -> Top | None:
    """How the table begins if it is one to learn from and has a header, which may have any names."""
    columns = LEARNED.get(ask, ())
    try:
        found = recognize(rows, columns, header) if columns else None
    except ValueError:
        return None
    if found is None or not found.header:
        return None
    above = found.skipped - 1
    return Top(above, True, found.picked[columns.index(ask)] - (found.width > len(rows[above])))


def named_input(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> int | None:
    """The column that a row names as that of the inputs, if the row is a header.

    A name is sure, or has only words of names in it, or has another name beside it: `Great review` is none by itself.

    >>> named_input(["id", "customer review"], [], ("text",)), named_input(["Great review", "thanks"], [], ("text",))
    (1, None)
    """
    place = place_of(_texts_only(row, rest, asks), asks)
    if place is None or not _all_names(row, rest):
        return None
    others = [n for n, cell in enumerate(row) if n != place and cell]
    if any(is_name(row[n]) for n in others):
        return place
    if _is_sure(row[place], asks):
        own, *more = ([other[n] for other in rest if n < len(other)] for n in (place, *others))
        label = mean_words(own) < SHORT and any(2 * mean_words(own) < mean_words(cells) for cells in more)
        return None if label else place
    if any(place_of(other, asks) is not None for other in rest[:SHORT]):  # text 1, text 2, text 3
        return None
    names = (BESIDE | LINKS | LANGUAGES.keys()).union(*map(aliases_of, asks))
    words = words_of(row[place])
    joined = " " not in row[place] and (len(words) > 1 or not others)  # customer_review
    return place if joined or all(is_one_of(word, names) or word.isdecimal() for word in words) else None


def _texts_only(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> Cells:
    """The names of a header, where texts are asked for without those over something else."""
    return drop_nontext_columns(row, rest) if asks[0] == "text" else row


def _is_sure(cell: str, asks: tuple[str, ...]) -> bool:
    """Whether nothing but a name of the inputs is written so."""
    fits = [match_name(cell, ask) for ask in asks]
    return any(each is not None and each <= NameMatch.ALIAS for each in fits) or LANGUAGES.keys() >= set(words_of(cell))


def is_sure_header(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> bool:
    """Whether a row is a header and nothing else: it has a sure name of the inputs, or names in one word for all columns."""
    place = named_input(row, rest, asks)
    if place is not None and _is_sure(row[place], asks):
        return True
    matched = match_names(row, LEARNED.get(asks[0], asks))
    return matched.whole and _all_names(row, rest) and all(len(words_of(row[place])) == 1 for place in matched.places)


def place_of(header: Sequence[str], asks: Sequence[str], exact: bool = False) -> int | None:
    """The column that has one of these names, or a usual one for them if it need not be exact."""
    if exact:
        return next((n for ask in asks for n, cell in enumerate(header) if words_of(cell) == words_of(ask)), None)
    for ask in asks:
        together = PAIRS.get(ask, (ask,))
        for columns in (together, (ask,)):
            place = match_names(header, columns).picked[columns.index(ask)]
            if place is not None:
                return place
    spoken = [place for place, cell in enumerate(header) if cell and LANGUAGES.keys() >= set(words_of(cell))]
    return spoken[0] if len(spoken) == 1 and asks[0] in PAIRS else None
