"""The one place that decides what is a header and which column is which, for every table: of records, of inputs, of objects, of
nodes, of a series. `TableHead` says what was decided; `names.py` has the words, `contents.py` what cells look like.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from mirada.data.columns.contents import (
    ASKING,
    CLASSES,
    FEW,
    SHORT,
    Cells,
    TableLine,
    all_numbers,
    guess_columns,
    has_content,
    has_labels_first,
    has_short_names,
    has_unnamed_row_numbers,
    has_words_over_numbers,
    is_number,
    is_numeric,
    is_odd_label,
    is_remark,
    is_title,
    is_word,
    may_be_names,
    mean_words,
    numbers,
    usual_width,
)
from mirada.data.columns.names import (
    ALIASES,
    LANGUAGES,
    LINKS,
    OTHER,
    QUALIFIERS,
    STRONG,
    WEAK_ALIASES,
    ColumnMatch,
    NameMatch,
    is_graph_alias,
    is_name,
    is_one_of,
    match_name,
    match_names,
    words_of,
)
from mirada.data.columns.times import NUMBERS, pattern_of, text_of_time
from mirada.data.options import TableOptions
from mirada.errors import require, unknown
from mirada.words import plural, shortened

TITLES = 4  # lines that may stand above a header
PHRASE = 1.5  # words: the entries of a dictionary have fewer
MANY = 20  # numbers that are different, and no labels any more
ALONE = 0.2  # share of the lines that are one cell in a file of one column
SAMPLE = 100  # nodes that decide whether they are numbers
NOTED = 3  # features that a note names
ENOUGH = 4  # rows that are not divided alike by chance
KEY = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class TableHead:
    """What was decided about a table from its first rows.

    Args:
        picked: where the columns that are wanted stand in a row, in the order in which they are wanted.
        width: how many cells a row has.
        above: how many lines at the top are not part of the table: titles and remarks.
        headed: whether the next line is a header.
        at_least: rows may have more cells than `width`.
        names: what the columns are called, where all of them are kept.
        note: what was recognized, as a note for the user.

    >>> print(recognize([["review", "mood"], ["a fine film", "pos"], ["so so", "neg"]], ("text", "label")))
    line 1 is the header; columns 1, 2 of 2 (header: text is review, label is mood)
    """

    picked: tuple[int, ...]
    width: int
    above: int = 0
    headed: bool = False
    at_least: bool = False
    names: tuple[str, ...] = ()
    note: str = ""

    def below(self, sample: Sequence[TableLine]) -> list[TableLine]:
        """The rows without the header and what stands above it; empty rows and bad ones stay where they are."""
        head = [number for number, row in enumerate(sample) if has_content(row)][: self.above + self.headed]
        return [row for number, row in enumerate(sample) if number not in head]

    def fits(self, cells: list[str]) -> bool:
        """Whether a row has its cells; extra empty ones at the end are ignored."""
        if len(cells) <= max(self.picked, default=-1):
            return False
        extra = len(cells) - self.width
        return extra == 0 or (extra > 0 and (self.at_least or not any(map(str.strip, cells[self.width :]))))

    def __str__(self) -> str:
        header = f"line {self.above + 1} is the header" if self.headed else "there is no header"
        places = ", ".join(str(place + 1) for place in self.picked) or "not known"
        why = f" ({self.note})" if self.note else ""
        return f"{header}; columns {places} of {'at least ' * self.at_least}{self.width}{why}"


# Tables of records: the columns are given by options, or recognized.


def record_head(path: str, sample: Sequence[TableLine], columns: tuple[str, ...], options: TableOptions) -> TableHead:
    """Where the fields of records stand: as the user chose, by number or by name, or as recognized from the first rows."""
    names, readable = options.names, [row for row in sample if has_content(row)]
    rows = [cells for _, cells, _ in readable]
    if names and all(name.isascii() and name.isdecimal() for name in names):
        return _chosen_by_number(rows, columns, options)
    if names:
        return _chosen_by_name(path, readable or sample, names, options)
    plain = TableHead(tuple(range(len(columns))), len(columns))
    if not rows:
        return plain
    try:
        return recognize(rows, columns, options.header) or plain
    except ValueError as error:
        require(not sample[0][2], f"{path}:{sample[0][0]}: {sample[0][2]}")  # perhaps it was the header
        raise ValueError(f"{path}: {error}") from None


def _chosen_by_number(rows: Sequence[list[str]], columns: tuple[str, ...], options: TableOptions) -> TableHead:
    """Columns that were chosen by number. A header over them is no record."""
    names = options.names
    picked = tuple(int(name) - 1 for name in names)
    require(min(picked) >= 0, f"columns= counts from 1: got {','.join(names)}")
    chosen = [[cells[place].strip() for place in picked] for cells in rows if len(cells) > max(picked)]
    headed = bool(chosen) and options.header == "yes"
    if chosen and not options.header:
        matched = match_names(chosen[0], columns)
        named = matched.is_complete and (matched.is_certain or _like_names(chosen[0], matched, chosen[1:], columns))
        headed = named or looks_like_header(chosen, columns)
    note = f"header: {', '.join(chosen[0])}" if headed and options.header != "yes" else ""
    return TableHead(picked, max(picked) + 1, headed=headed, at_least=True, note=note)


def _chosen_by_name(path: str, rows: Sequence[TableLine], names: tuple[str, ...], options: TableOptions) -> TableHead:
    """Columns that were chosen by the names in the first line, apart from titles; case and accents do not matter."""
    require(bool(rows), f"{path}: there is no header that names {', '.join(names)}: the file is empty.")
    headers = [[cell.strip() for cell in cells] for _, cells, _ in rows[: TITLES + 1]]
    above = next((n for n, header in enumerate(headers) if all(name in header for name in names)), 0)
    header, (number, _, fault) = headers[above], rows[above]
    where = f"{path}:{number}"
    require(not fault, f"{where}: the header cannot be read: {fault}")
    by_number = f"columns={','.join(str(count) for count in range(1, len(names) + 1))}"
    if options.header == "no":
        raise ValueError(f"{where}: columns= names a header, and header=no says there is none. Say {by_number}.")
    picked = []
    for name in names:
        places = [n for n, cell in enumerate(header) if cell == name]
        places = places or [n for n, cell in enumerate(header) if words_of(cell) == words_of(name) != ()]
        if not places:
            raise ValueError(f"{where}: {unknown('column', name, header)} Without header, say {by_number}.")
        require(
            len(places) == 1,
            f"{where}: several columns are named {name!r}. Rename all but one, or choose by number, such as {by_number}.",
        )
        picked.append(places[0])
    return TableHead(tuple(picked), len(header), above, headed=True)


# by names


def _like_names(row: Cells, matched: ColumnMatch, rest: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether cells that contain usual names are names: short, no sentence, and nothing that is repeated below."""
    cells = [row[place] for place in matched.places]
    if any(cell.endswith((".", "!", "?")) for cell in cells) or not may_be_names(row, rest):
        return False
    if any(match_names([other[place] for place in matched.places], columns).is_complete for other in rest[:SHORT]):
        return False  # text 1, text 2, text 3
    if columns == CLASSES:
        return True
    allowed = (QUALIFIERS | LINKS | LANGUAGES.keys()).union(
        *(ALIASES[each] | WEAK_ALIASES.get(each, set()) for each in columns)
    )
    return all(is_one_of(word, allowed) for cell in cells for word in words_of(cell))


# by what the cells hold


def looks_like_header(rows: Sequence[Cells], columns: tuple[str, ...]) -> bool:
    """Whether the first row names columns: by a usual name, by types, or by a label that occurs nowhere else."""
    first, rest = rows[0], rows[1:]
    counting = [list(row) == [str(number) for number in range(len(row))] for row in rows]  # 0, 1, 2
    if counting[0] and not all(counting) and not any(row[0].isdecimal() for row in rest):
        return True  # as pandas writes columns without names
    if any(not cell or is_number(cell) for cell in first):
        return False
    if columns == CLASSES:
        return _names_classes(first, rest)
    if any(len(cell.split()) > SHORT for cell in first):
        return False
    below = [Counter(row[place] for row in rest) for place in range(len(first))]
    again = any(cell in counts for cell, counts in zip(first, below, strict=True))
    if match_names(first, columns).is_partly_certain and len(rest) >= FEW and not again:
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
    if list(named) == ["text"]:  # a label, if it is the only name and over cells that are shorter than the others
        own, other = (mean_words(row[place] for row in rest) for place in (named["text"], 1 - named["text"]))
        short = short and not (own < SHORT and 2 * own < other)
    if named and short:
        again = any(cell in counts for cell, counts in zip(first, below, strict=True))
        strong = [first[place] for place in named.values() if words_of(first[place])[-1] in STRONG]
        return not again or (bool(strong) and not any(cell in counts for cell in strong for counts in below))
    place = named.get("label", 0 if has_labels_first(rest) else 1)
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


def recognize(rows: Sequence[Cells], columns: tuple[str, ...], header: str = "") -> TableHead | None:
    """The columns of a table, from its first rows; None if the rows are too short. A table that is ambiguous is an error.

    >>> rows = [["review", "sentiment"], ["a fine film", "pos"], ["a dull film", "neg"]]
    >>> print(recognize(rows, ("text", "label")))
    line 1 is the header; columns 1, 2 of 2 (header: text is review, label is sentiment)
    >>> print(recognize(rows[1:], ("text", "label")))
    there is no header; columns 1, 2 of 2
    >>> recognize([["7", "a fine film", "pos"], ["8", "a dull film", "neg"], ["9", "so so", "neg"]], ("text", "label"))
    Traceback (most recent call last):
    ValueError: 3 columns ('7', 'a fine film', 'pos') and no header that names text and label. ... columns=2,3
    """
    rows = [[cell.strip() for cell in row] for row in rows]
    width = usual_width(rows, len(columns))
    rows = [row[:width] if not any(row[width:]) else row for row in rows]  # separators at the end of lines
    if header != "no":
        head = _by_name(rows, columns, width)
        if head is not None:
            return head
    remarks = next((n for n, row in enumerate(rows) if not is_remark(row, rows, width)), 0)
    complete = [row for row in rows[remarks:] if len(row) == width]
    filled = [place for place in range(width) if any(row[place] for row in complete)]
    licenses = [
        place for place in filled if all(row[place].startswith(("CC-BY", "CC BY")) for row in complete)
    ]  # Tatoeba
    used = [place for place in filled if place not in licenses]
    if len(used) < len(columns) or not complete:
        return None
    if len(used) > len(columns):
        raise ValueError(_too_many(complete, used, columns, header))
    places = [n for n in range(remarks, len(rows)) if len(rows[n]) == width]
    start = next((n for n in places if header == "yes" or not is_title(rows[n], width)), places[0])
    fields = [[row[place] for place in used] for row in rows[start:] if len(row) == width]
    headed = header == "yes"
    if not header and start - remarks <= TITLES and all(is_title(row, width) for row in rows[remarks:start]):
        headed = looks_like_header(fields, columns)
    if not headed:  # what looked like titles are records
        start, fields = remarks, [[row[place] for place in used] for row in complete]
    head = _by_content(fields, used, columns, headed, width, start)
    aside = f"column {', '.join(str(n + 1) for n in licenses)} is a license and left out" if licenses else ""
    return replace(head, note="; ".join(filter(None, (head.note, aside))))


# by names


def _by_name(rows: Sequence[Cells], columns: tuple[str, ...], width: int) -> TableHead | None:
    """The columns by a line that names them all: the first, apart from titles and remarks."""
    for above, row in enumerate(rows[: TITLES + 1]):
        rest = [other for other in rows[above + 1 :] if len(other) == width]
        matched = match_names(drop_nontext_columns(row, rest) if columns == CLASSES else row, columns)
        if matched.is_complete and (matched.is_certain or _like_names(row, matched, rest, columns)):
            named_rows = has_unnamed_row_numbers(row, rest)
            picked = tuple(place + named_rows for place in matched.places)
            cells = min(width, len(row) + named_rows)  # a text with a separator in it makes a row wider, not the table
            return TableHead(picked, cells, above, True, note=header_note(row, matched.places, columns, above))
        if matched.rivals and matched.is_partly_certain and may_be_names(row, rest):
            raise ValueError(_ambiguity(row, matched, columns))
        if not is_title(row, width):
            break
    return None


def drop_nontext_columns(names: Cells, rest: Sequence[Cells]) -> list[str]:
    """Names of columns, without those that name a text over cells that are none: numbers, or where the name is a weak one,
    a word or two next to longer texts. The word text itself is believed.

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
        if fits is None or match_name(name, "label") is not None or not cells or name.strip().casefold() == "text":
            return False  # our own word is believed: people do classify numbers
        own = mean_words(cells)
        return all_numbers(cells) or (fits == NameMatch.WEAK and own < SHORT < max(words) and 2 * own < max(words))

    return ["" if is_none(name, cells) else name for name, cells in zip(names, below, strict=True)]


def header_note(row: Cells, places: Sequence[int], columns: tuple[str, ...], above: int = 0) -> str:
    """What was recognized, as a note for the user; nothing where a header has our own words in our order."""
    if [cell.casefold() for cell in row] == list(columns) and not above:
        return ""
    pairs = ", ".join(f"{column} is {row[place]}" for column, place in zip(columns, places, strict=True))
    left_out = f" ({plural(above, 'line')} above it left out)" if above else ""
    return f"header: {pairs}{left_out}"


# by what the cells hold


def _by_content(
    rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], headed: bool, width: int, above: int
) -> TableHead:
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
        note = "; ".join(filter(None, (note, f"{plural(above, 'line')} at the top left out")))
    return TableHead(tuple(used[place] for place in order), width, above, headed, note=note)


def _check_other(first: Cells, rows: Sequence[Cells], place: int) -> None:
    """Refuse a column with the name of something else, such as an id or a date, unless its cells are repeated, as labels are."""
    name, cells = first[place], [row[place] for row in rows]
    kinds = len(set(cells))
    labels = kinds <= len(cells) / 2 and (kinds <= MANY or not all_numbers(cells))
    if labels or not OTHER.intersection(words_of(name)[-1:]):
        return
    message = f"the header ({', '.join(first)}) names no label. Add a column with the label of each text."
    if kinds == len(cells) >= FEW:
        raise ValueError(message)
    names = (str(2 - place), str(place + 1)) if "," in "".join(first) else (first[1 - place], name)
    raise ValueError(f"{message} If it is {name}, say so: columns={','.join(names)}")


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
        number = ", or estimate the number: `mirada train estimate`" if all_numbers(labels) else ""
        raise ValueError(f"{fault}. No column holds labels: add one with the label of each text{number}.")
    raise ValueError(f"{fault}. Say which columns are text and label: columns={label},{text}")


# errors for tables that are ambiguous


def _ambiguity(row: Cells, matched: ColumnMatch, columns: tuple[str, ...]) -> str:
    """The error for a header that names a column twice."""
    column, places = next(iter(matched.rivals.items()))
    several = " or ".join(row[place] for place in places)
    firsts = [matched.rivals.get(name, (place,))[0] for name, place in zip(columns, matched.picked, strict=True)]
    picked = [place for place in firsts if place is not None]
    if len(picked) < len(columns):
        return f"{column} may be {several}. Say which columns to take: columns={','.join(columns).upper()}"
    twice = len({row[place] for place in places}) < len(places) or any("," in row[place] for place in picked)
    names = [str(place + 1) if twice else row[place] for place in picked]
    return f"{column} may be {several}. Say which columns to take, for example columns={','.join(names)}"


def _too_many(rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], header: str) -> str:
    """The error for a table with more columns than are wanted, which no name distinguishes."""
    first, wanted = rows[0], " and ".join(columns)
    headed = header == "yes" or (header != "no" and all(map(bool, first)) and has_short_names(rows))
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


# Tables of inputs: one column holds them, by its name or by what its cells hold.


PAIR = ("source", "target")
PAIRS = {"source": PAIR, "target": PAIR}  # columns of which one shows where the other is
LEARNED = {**PAIRS, "text": CLASSES, "name": ("name", "caption"), "question": ("question", "context")}


def input_head(path: str, rows: Sequence[Cells], asks: tuple[str, ...], options: TableOptions) -> TableHead:
    """What the columns of a table are called, and which of them holds the inputs; `asks` are our names for it, best first.

    A header is recognized as in training data. Without one, columns have numbers.
    """
    head = recognize_inputs(rows, asks, options.header)
    name = options.names[0] if options.names else ""
    if name.isdecimal() and not (head.headed and name in rows[head.above]):
        head = replace(head, picked=(int(name) - 1,))
    elif name:  # of a header
        above = next((number for number, row in enumerate(rows[: TITLES + 1]) if name in row), head.above)
        head = TableHead((named_place(path, rows[above], name),), len(rows[above]), above, True)
    first, body, note = rows[head.above], rows[head.above + head.headed :], ""
    place = head.picked[0] if head.picked else None
    if head.headed and len(first) > 1 and has_unnamed_row_numbers(first, body):
        first, place = ["", *first], None if place is None else place + 1
    count = len(first) if head.headed else _width_of(body)
    if place is None:
        alike = [row for row in body if len(row) == count]
        place = _input_by_content(path, alike, asks[0], first if head.headed else ())
        note = f"the inputs are in column {place + 1} (columns= says otherwise)" if count > 1 else ""
    elif not options.names and (first[place].casefold() != asks[0] or head.above):
        note = f"the inputs are in the column {first[place]}"
    require(0 <= place < count, f"{path}: there is no column {place + 1}: the first row has {count}")
    note += f"{'; ' if note else ''}{plural(head.above, 'line')} at the top left out" if head.above else ""
    numbered = (asks[0] if number == place else f"column_{number + 1}" for number in range(count))
    return replace(head, picked=(place,), width=count, names=tuple(first if head.headed else numbered), note=note)


def recognize_inputs(rows: Sequence[Cells], asks: tuple[str, ...], header: str) -> TableHead:
    """Whether a table begins with a header: it names the inputs, or would be a header in training data.

    >>> print(recognize_inputs([["Export of May"], ["id", "review"], ["7", "a fine film"], ["8", "so so"]], ("text",), ""))
    line 2 is the header; columns 2 of 2
    """

    def headed(above: int, place: int | None) -> TableHead:
        return TableHead(() if place is None else (place,), len(rows[above]), above, True)

    if header == "no":
        return TableHead((), len(rows[0]))
    width = usual_width(rows, 1)
    alone = None
    for number, row in enumerate(rows[: TITLES + 1]):
        place = named_input(row, rows[number + 1 :], asks)
        if place is not None and sum(map(bool, row)) > 1:
            return headed(number, place)
        if place is not None and alone is None:  # a title, if a header follows
            alone = headed(number, place)
        if not is_title(row, width):
            break
    if alone is None and (columns := LEARNED.get(asks[0], ())):
        with suppress(ValueError):  # the header of a table to learn from may have any names
            head = recognize(rows, columns, header)
            if head is not None and head.headed:
                count = len(rows[head.above])
                alone = headed(head.above, head.picked[columns.index(asks[0])] - (head.width > count))
    if alone is not None:
        return alone
    if header == "yes" or has_words_over_numbers(rows[0], rows[1:]):
        return headed(0, place_of(_texts_only(rows[0], rows[1:], asks), asks))
    above = next((n for n, row in enumerate(rows) if not is_remark(row, rows, width)), 0) if width > 1 else 0
    return TableHead((), len(rows[above]), above)


def named_place(path: str, header: Sequence[str], name: str) -> int:
    """The column that the user named."""
    for same in (str, words_of):
        places = [place for place, cell in enumerate(header) if same(cell) == same(name)]
        if len(places) == 1:
            return places[0]
    raise ValueError(f"{path}: {unknown('column', name, header)}")


def _width_of(rows: Sequence[Cells]) -> int:
    """How many columns rows without a header have: as many as the first, unless all the others have one other width.

    One cell in the first line, or in many, and more in some others, is one column of texts that have the separator in them.
    """
    first, others = len(rows[0]), {len(row) for row in rows[1:]}
    if first > 1 and sum(len(row) == 1 for row in rows) > max(1, ALONE * len(rows)):
        return 1
    return max(others) if first == 1 and len(others) == 1 and len(rows) > ENOUGH else first


def _input_by_content(path: str, rows: Sequence[Cells], ask: str, header: Cells) -> int:
    """The column that holds inputs where no name decides: the only one, or the one that clearly has the longest texts."""
    count = len(rows[0]) if rows else 1
    if count == 1:
        return 0
    if count == 2 and ask in PAIRS:
        numeric = [all_numbers(row[place] for row in rows) for place in (0, 1)]
        return PAIRS[ask].index(ask) if numeric[0] == numeric[1] else numeric.index(False)
    if count == 2 and (len(rows) < FEW or has_labels_first(rows)):
        return int(has_labels_first(rows))
    cells = [[row[place] for row in rows] for place in range(count)]
    words = sorted(map(mean_words, cells), reverse=True)
    place = guess_columns(rows, (ask,))[:1]
    if count == 2 or (place and words[0] > 2 * words[1]):
        return place[0] if place else 0
    if header:
        raise ValueError(
            f"{path}: the header ({', '.join(header)}) names no {ask}. Say which column: columns={header[1]}"
        )
    shown = ", ".join(repr(column[0][:20]) for column in cells)
    raise ValueError(f"{path}: {count} columns ({shown}) and no header that names {ask}. Say which: columns=2")


def named_input(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> int | None:
    """The column that a header names as that of the inputs; None if the row is no header.

    A name is unmistakable, or has only words of names in it, or stands next to another name: `Great review` alone is none.

    >>> named_input(["id", "customer review"], [], ("text",)), named_input(["Great review", "thanks"], [], ("text",))
    (1, None)
    """
    place = place_of(_texts_only(row, rest, asks), asks)
    if place is None or not may_be_names(row, rest):
        return None
    others = [n for n, cell in enumerate(row) if n != place and cell]
    if any(is_name(row[n]) for n in others):
        return place
    if _is_unmistakable(row[place], asks):
        own, *more = ([other[n] for other in rest if n < len(other)] for n in (place, *others))
        label = mean_words(own) < SHORT and any(2 * mean_words(own) < mean_words(cells) for cells in more)
        return None if label else place
    if any(place_of(other, asks) is not None for other in rest[:SHORT]):  # text 1, text 2, text 3
        return None
    names = (QUALIFIERS | LINKS | LANGUAGES.keys()).union(*(ALIASES[ask] for ask in asks))
    words = words_of(row[place])
    joined = " " not in row[place] and (len(words) > 1 or not others)  # customer_review
    return place if joined or all(is_one_of(word, names) or word.isdecimal() for word in words) else None


def _texts_only(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> Cells:
    """The names of a header, where texts are asked for without those over something else."""
    return drop_nontext_columns(row, rest) if asks[0] == "text" else row


def _is_unmistakable(cell: str, asks: tuple[str, ...]) -> bool:
    """Whether nothing but a name of the inputs is written so."""
    fits = [match_name(cell, ask) for ask in asks]
    return any(each is not None and each <= NameMatch.ALIAS for each in fits) or LANGUAGES.keys() >= set(words_of(cell))


def is_sure_header(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> bool:
    """Whether a row is a header beyond doubt: it has an unmistakable name of the inputs, or one-word names for all columns."""
    place = named_input(row, rest, asks)
    if place is not None and _is_unmistakable(row[place], asks):
        return True
    matched = match_names(row, LEARNED.get(asks[0], asks))
    return (
        matched.is_complete
        and may_be_names(row, rest)
        and all(len(words_of(row[place])) == 1 for place in matched.places)
    )


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


# Objects and columns in memory: keys are the names.


def key_columns(
    keys: Sequence[str],
    columns: tuple[str, ...],
    names: tuple[str, ...],
    rows: Sequence[Cells] = (),
    contents: bool = False,
) -> tuple[tuple[str, ...], str]:
    """The keys of the columns, and a note about them: usual names are accepted where our own are missing.

    `rows` are the first cells under the keys. With `contents`, they may show which are texts and labels under other names.

    >>> key_columns(["id", "Review", "stars"], ("text", "label"), ())
    (('Review', 'stars'), 'text is Review, label is stars')
    >>> key_columns(["said", "ok"], ("text", "label"), (), [[f"it is {n} o'clock", "no"] for n in (1, 2, 3)], contents=True)
    (('said', 'ok'), 'text is said, label is ok')
    """
    known = drop_nontext_columns(keys, rows) if columns == CLASSES and not names else keys
    if names or all(column in known for column in columns):
        return names or columns, ""
    matched = match_names(known, columns)
    if matched.rivals and matched.is_partly_certain:
        raise ValueError(_ambiguity(known, matched, columns))
    places = matched.places if matched.is_complete else ()
    if not places and contents and rows and columns == CLASSES and not all(column in keys for column in columns):
        try:
            head = recognize([keys, *rows], columns, "yes")
        except ValueError as error:
            message = str(error).replace("the header (", "the keys (").replace(") names no", ") name no")
            raise ValueError(message) from None
        places = head.picked if head else ()
    if not places:
        return columns, ""
    wanted = tuple(keys[place] for place in places)
    return wanted, ", ".join(f"{column} is {key}" for column, key in zip(columns, wanted, strict=True))


# Files, nodes and series: a header is recognized by the cells below it.


def is_file_header(cells: Sequence[str], is_file: Callable[[str], object]) -> bool:
    """Whether the first cell of a column of files names it: it is no file, and all below have an ending, and it has none.

    >>> is_file_header(["Datei", "dog.jpg", "cat.jpg"], {"dog.jpg", "cat.jpg"}.__contains__)
    True
    >>> is_file_header(["bird.jpg", "dog.jpg"], bool), is_file_header(["dog", "cat"], bool)
    (False, False)
    """
    first, *rest = (os.path.splitext(cell)[1] for cell in cells or [""])
    return not first and bool(rest) and all(rest) and not is_file(cells[0])


def node_head(first: Cells, columns: tuple[str, ...], nodes: Collection[str], header: str, above: int = 0) -> TableHead:
    """Whether the first row of a table about nodes is a header: it is by `header=yes`, or if it has no node in it, but names
    of columns, or no number where nodes are numbers.

    >>> print(node_head(["Label", "id"], ("node", "label", "split"), ["a", "b"], ""))
    line 1 is the header; columns 2, 1 of 2 (header: node is id, label is Label)
    """
    places = [next((n for n, cell in enumerate(first) if is_graph_alias(cell, column)), -1) for column in columns]
    known = min(places[:2]) >= 0
    headed = header == "yes"
    if not header and not any(cell in nodes for cell in first):
        some = islice(nodes, SAMPLE)
        headed = known or (all(map(is_number, some)) and not any(map(is_number, first)))
    if not headed:
        return TableHead((), len(first), above, note=f"{plural(above, 'line')} at the top left out" if above else "")
    order = [place for place in places if place >= 0] if known else list(range(len(first)))[: len(columns)]
    ours = [column for column, place in zip(columns, places, strict=True) if place >= 0] if known else columns
    note = header_note(first, order, tuple(ours[: len(order)]), above)
    return TableHead(tuple(order) if known else (), len(first), above, True, note=note)


def feature_head(first: Cells, header: str, above: int = 0) -> TableHead:
    """Whether the first row of a table of features names them: it does by `header=yes`, if it begins as a header does, or if
    it has no number.
    """
    headed = header == "yes" or (
        not header and (not first[0] or is_graph_alias(first[0], "node") or not any(map(is_number, first[1:])))
    )
    if not headed:
        return TableHead((), len(first), above, note=f"{plural(above, 'line')} at the top left out" if above else "")
    note = ""
    if first[0].casefold() != "node" or above:
        features = ", ".join(first[1 : NOTED + 1]) + (", ..." if len(first) > NOTED + 1 else "")
        left = f" ({plural(above, 'line')} above it left out)" if above else ""
        note = f"header: node is {first[0] or 'the first column'}, the features are {features}{left}"
    return TableHead((), len(first), above, True, names=tuple(first[1:]), note=note)


def series_head(rows: Sequence[Sequence[Any]], header: str, separator: str) -> TableHead:
    """Whether the first row of a series names its columns: it has words where the others have times, or in most columns where
    they have numbers.

    >>> print(series_head([["day", "A"], ["2024-01-30", "1"], ["2024-01-31", "2"]], "", ","))
    line 1 is the header; columns 1, 2 of 2
    """
    width, headed = len(rows[0]), header == "yes"
    if header or len(rows) < 2:
        return TableHead(tuple(range(width)), width, headed=headed)
    named = numeric = 0
    for place, (cell, *rest) in enumerate(zip(*rows, strict=True)):
        pattern = pattern_of([text_of_time(value) for value in rest])
        timed = pattern not in ("", NUMBERS)
        if timed or is_numeric(rest, numbers(rest, separator)[1]):
            empty = cell is None or str(cell).strip() == ""
            if place == 0 and timed and empty:
                continue  # pandas writes an index without a name
            word = not empty and not (pattern_of([text_of_time(cell)]) if timed else not numbers([cell], separator)[1])
            if place == 0 and timed:
                return TableHead(tuple(range(width)), width, headed=word)
            named, numeric = named + word, numeric + (not word)
    return TableHead(tuple(range(width)), width, headed=named > numeric)


def titles_above(rows: Sequence[TableLine]) -> int:
    """How many lines stand above a series: remarks, and titles in one cell that is neither a number nor a time."""
    stripped = [[cell.strip() for cell in cells] for _, cells, fault in rows if not fault]
    width = usual_width(stripped, 1) if stripped else 1
    for count, (_, cells, fault) in enumerate(rows[: TITLES + 1]):
        filled = [cell.strip() for cell in cells if cell.strip()]
        title = bool(filled) and is_title([cell.strip() for cell in cells], width)
        title = title and not is_number(filled[0]) and not pattern_of(filled[:1])
        title = title and not (len(cells) == width == 2 and cells[1:] == filled)  # an index without a name
        if fault or width == 1 or (filled and not title):
            return count
    return 0
