"""Which column of a table holds the inputs, by the names in its header, and which row is the header."""

from collections.abc import Sequence
from dataclasses import dataclass

from mirada.data.first_row import (
    CLASSES,
    SHORT,
    TITLES,
    Cells,
    all_names,
    all_numbers,
    is_remark,
    is_title,
    is_word,
    mean_words,
    usual_width,
)
from mirada.data.header import recognize, without_no_texts
from mirada.data.names import BESIDE, LANGUAGES, LINKS, SURE, belongs, fit, is_name, match, usual, words_of
from mirada.data.times import pattern_of

PAIR = ("source", "target")
PAIRS = {"source": PAIR, "target": PAIR}  # columns that tell each other apart
LEARNED = {**PAIRS, "text": CLASSES, "name": ("name", "caption"), "question": ("question", "context")}


@dataclass(frozen=True)
class Top:
    """How a table begins: so many lines that are none of it, then perhaps a header; where its inputs are, if that is told."""

    above: int = 0
    headed: bool = False
    place: int | None = None


def top_of(rows: Sequence[Cells], asks: tuple[str, ...], header: str) -> Top:
    """How a table begins. A header names the inputs, or is one for those who learn from such a table.

    >>> top_of([["Export of May"], ["id", "review"], ["7", "a fine film"], ["8", "so so"]], ("text",), "")
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
    found = alone or learned_from(rows, asks[0], header)
    if found is not None:
        return found
    if header == "yes" or words_over_numbers(rows[0], rows[1:]):
        return Top(0, True, place_of(texts_only(rows[0], rows[1:], asks), asks))
    return Top(next((n for n, row in enumerate(rows) if not is_remark(row, rows, width)), 0) if width > 1 else 0)


def words_over_numbers(row: Cells, rest: Sequence[Cells]) -> bool:
    """Whether a row has only words, and rows that are as long have numbers or dates under some of them."""
    rest = [other for other in rest if len(other) == len(row)]
    columns = [[other[place] for other in rest] for place in range(len(row))]
    telling = any(all_numbers(cells) or pattern_of(cells) for cells in columns)
    return len(rest) > 1 and telling and all(map(is_word, row)) and all_names(row, rest)


def learned_from(rows: Sequence[Cells], ask: str, header: str) -> Top | None:
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
    place = place_of(texts_only(row, rest, asks), asks)
    if place is None or not all_names(row, rest):
        return None
    others = [n for n, cell in enumerate(row) if n != place and cell]
    if any(is_name(row[n]) for n in others):
        return place
    if is_sure(row[place], asks):
        own, *more = ([other[n] for other in rest if n < len(other)] for n in (place, *others))
        label = mean_words(own) < SHORT and any(2 * mean_words(own) < mean_words(cells) for cells in more)
        return None if label else place
    if any(place_of(other, asks) is not None for other in rest[:SHORT]):  # text 1, text 2, text 3
        return None
    names = (BESIDE | LINKS | LANGUAGES.keys()).union(*map(usual, asks))
    words = words_of(row[place])
    joined = " " not in row[place] and (len(words) > 1 or not others)  # customer_review
    return place if joined or all(belongs(word, names) or word.isdecimal() for word in words) else None


def texts_only(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> Cells:
    """The names of a header, where texts are asked for without those over something else."""
    return without_no_texts(row, rest) if asks[0] == "text" else row


def is_sure(cell: str, asks: tuple[str, ...]) -> bool:
    """Whether nothing but a name of the inputs is written so."""
    fits = [fit(cell, ask) for ask in asks]
    return any(each is not None and each <= SURE for each in fits) or LANGUAGES.keys() >= set(words_of(cell))


def is_sure_header(row: Cells, rest: Sequence[Cells], asks: tuple[str, ...]) -> bool:
    """Whether a row is a header and nothing else: it has a sure name of the inputs, or names in one word for all columns."""
    place = named_input(row, rest, asks)
    if place is not None and is_sure(row[place], asks):
        return True
    matched = match(row, LEARNED.get(asks[0], asks))
    return matched.whole and all_names(row, rest) and all(len(words_of(row[place])) == 1 for place in matched.places)


def place_of(header: Sequence[str], asks: Sequence[str], exact: bool = False) -> int | None:
    """The column that has one of these names, or a usual one for them if it need not be exact."""
    if exact:
        return next((n for ask in asks for n, cell in enumerate(header) if words_of(cell) == words_of(ask)), None)
    for ask in asks:
        together = PAIRS.get(ask, (ask,))
        for columns in (together, (ask,)):
            place = match(header, columns).picked[columns.index(ask)]
            if place is not None:
                return place
    spoken = [place for place, cell in enumerate(header) if cell and LANGUAGES.keys() >= set(words_of(cell))]
    return spoken[0] if len(spoken) == 1 and asks[0] in PAIRS else None
