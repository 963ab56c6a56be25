"""Which columns of a table are which, as people have tables: with a header or without, in any order, with others beside."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mirada.data.first_row import (
    ASKING,
    CLASSES,
    FEW,
    SHORT,
    TITLES,
    Cells,
    all_names,
    all_numbers,
    is_remark,
    is_title,
    label_first,
    leaves_row_names_out,
    like_names,
    looks_like_header,
    mean_words,
    number,
    usual_width,
)
from mirada.data.names import OTHER, WEAK, Matched, fit, match, words_of

__all__ = ["CLASSES", "Columns", "likely", "recognize", "rivalry"]

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
    above = header_place(rows, used, columns, header, width, remarks)
    start = remarks if above is None else above
    fields = [[row[place] for place in used] for row in rows[start:] if len(row) == width]
    found = by_content(fields, used, columns, above is not None, width, start)
    left = [str(place + 1) for place in range(width) if any(row[place] for row in whole) and place not in used]
    aside = f"column {', '.join(left)} is a license and left out" if left else ""
    return replace(found, note="; ".join(filter(None, (found.note, aside))))


def licenses(rows: Sequence[Cells], place: int) -> bool:
    """Whether a column only says under which license its row is, as in the sentences of Tatoeba."""
    return all(row[place].startswith(("CC-BY", "CC BY")) for row in rows)


# by names


def by_name(rows: Sequence[Cells], columns: tuple[str, ...], width: int) -> Columns | None:
    """The columns by a line that names them all: the first, but for titles and remarks."""
    for above, row in enumerate(rows[: TITLES + 1]):
        rest = [other for other in rows[above + 1 :] if len(other) == width]
        matched = match(without_no_texts(row, rest) if columns == CLASSES else row, columns)
        if matched.whole and (matched.sure or like_names(row, matched, rest, columns)):
            named_rows = leaves_row_names_out(row, rest)
            picked = tuple(place + named_rows for place in matched.places)
            cells = min(width, len(row) + named_rows)  # a text with a separator in it makes a row wider, not the table
            return Columns(picked, cells, above + 1, taken(row, matched.places, columns, above), True)
        if matched.rivals and matched.partly_sure and all_names(row, rest):
            raise ValueError(rivalry(row, matched, columns))
        if not is_title(row, width):
            break
    return None


def without_no_texts(names: Cells, rest: Sequence[Cells]) -> list[str]:
    """Names of columns, but for those of texts over cells that are none: numbers, or where the name is a faint one, a word or
    two beside longer texts.

    >>> without_no_texts(["rating", "verified_reviews", "feedback"], [["5", "love it", "1"], ["1", "broken", "0"]])
    ['rating', 'verified_reviews', '']
    >>> without_no_texts(["name", "what did you like?"], [["Ana", "the food and the wine"], ["Eva", "that it was quiet"]])
    ['', 'what did you like?']
    """
    rest = [row for row in rest if len(row) == len(names)]
    below = [[row[place] for row in rest if row[place]] for place in range(len(names))]
    words = [mean_words(cells) for cells in below]

    def is_none(name: str, cells: Sequence[str]) -> bool:
        fits = fit(name, "text")
        if fits is None or fit(name, "label") is not None or not cells:
            return False
        own = mean_words(cells)
        return all_numbers(cells) or (fits == WEAK and own < SHORT < max(words) and 2 * own < max(words))

    return ["" if is_none(name, cells) else name for name, cells in zip(names, below, strict=True)]


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


def header_place(
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


def by_content(
    rows: Sequence[Cells], used: Sequence[int], columns: tuple[str, ...], headed: bool, width: int, above: int
) -> Columns:
    """As many columns as are wanted: with a header that has other names, or none, and the label before the text or after."""
    first, body, count = rows[0], rows[headed:], len(columns)
    order = list(range(count))
    named = match(first, columns) if headed else None
    if named is not None and count == 2 and len(named.places) == 1:
        (place,), column = named.places, columns[0 if named.picked[0] is not None else 1]
        if column == "text":
            check_other(first, body, 1 - place)
        order = [place, 1 - place] if column == columns[0] else [1 - place, place]
    elif columns == CLASSES and label_first(body):
        order = [1, 0]
    if columns == CLASSES:
        require_labels(body, order)
    note = taken(first, order, columns, above) if headed else ""
    if not headed and order == [1, 0]:
        note = "the label is in the first column, the text in the second"
    if above and not headed:
        note = "; ".join(filter(None, (note, f"{lines(above)} at the top left out")))
    return Columns(tuple(used[place] for place in order), width, above + headed, note, headed)


def check_other(first: Cells, rows: Sequence[Cells], place: int) -> None:
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
    matched = match(first, columns)
    named = matched.picked[-1] if headed and matched.picked[-1] in used else None
    label = None if named is None else used.index(named)
    picked = likely([[row[place] for place in used] for row in body], columns, label)
    plain = headed and len(set(first)) == len(first) and not any("," in cell for cell in first)
    names = ",".join(first[used[place]] if plain else str(used[place] + 1) for place in picked)
    way = f": columns={','.join(columns).upper()}, by {'name' if plain else 'number from 1'}"
    way = f", for example columns={names}" if names else way
    missing = [column for column, place in zip(columns, matched.picked, strict=True) if place is None]
    if headed and missing:
        wanted = " and ".join(missing)
        return f"the header ({', '.join(first)}) names no {wanted}. Say which columns to take{way}"
    shown = ", ".join(repr(first[place] if len(first[place]) <= 20 else first[place][:17] + "...") for place in used)
    return f"{len(used)} columns ({shown}) and no header that names {wanted}. Say which columns to take{way}"


def headed_by_types(rows: Sequence[Cells]) -> bool:
    """Whether the first row of a wide table is a header: short words or questions, over cells that do not repeat them."""
    first, rest = rows[0], rows[1:]
    if any(number(cell) or (len(cell.split()) > SHORT + 1 and not cell.endswith(ASKING)) for cell in first):
        return False
    return len(rest) > 0 and all_names(first, rest)


def likely(rows: Sequence[Cells], columns: tuple[str, ...], label: int | None = None) -> list[int]:
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
