"""All cells of a table whose rows are questions: one column holds the inputs, the others come along."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from mirada.data.fasttext import is_fasttext, parted
from mirada.data.folders import file_text, is_folder, texts_at
from mirada.data.header import FEW, all_names, label_first, likely, mean_words
from mirada.data.names import LANGUAGES, match, words_of
from mirada.data.objects import json_objects, parquet_objects, text_of
from mirada.data.options import TableOptions
from mirada.data.records import KEYED, rows_of_table
from mirada.data.separator import KNOWN, cells_of
from mirada.data.table import SAMPLE, Rows, TableLine, is_whole
from mirada.data.text import ending_of, head, scan
from mirada.errors import require, unknown

CellRow = tuple[str, tuple[str, ...], str]  # where it is, its cells, what is wrong with it
LINES = (".txt", "")  # a text file: every line is an input
BESIDE = "label"  # a column that may stand beside the inputs
PAIRS = {"source": ("source", "target"), "target": ("source", "target")}  # columns that tell each other apart


@dataclass(frozen=True)
class Cells:
    """The columns of a file by name, which of them holds the inputs, and the rows."""

    columns: tuple[str, ...]
    input: int
    rows: Sequence[CellRow]
    notes: tuple[str, ...] = ()


def read_cells(path: str, asks: tuple[str, ...], options: TableOptions) -> Cells:
    r"""Every row of a file, with all its cells. `asks` are our words for the column of the inputs, the best first.

    `options.columns` may name it. A text file has one column: its lines; a folder has a row for each text file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "new.csv")
    >>> _ = path.write_text("id,review\n7,a fine film\n")
    >>> found = read_cells(str(path), ("text",), TableOptions())
    >>> found.columns, found.input, found.rows[0][1]
    (('id', 'review'), 1, ('7', 'a fine film'))
    """
    if is_folder(path):
        files = texts_at(path)
        return Cells(("name", asks[0]), 1, [file_row(file, path, options.encoding) for file in files])
    ending = ending_of(path)
    if ending in KEYED:
        return object_cells(path, asks, options)
    told = options.tells_a_table
    if asks[0] == "text" and not told and is_fasttext(path, options.encoding):
        return fasttext_cells(path, options.encoding)
    if ending in LINES and not told and not is_table(path, asks, options.encoding):
        lines = [(f"{path}:{number}", (text,), fault) for number, text, fault in scan(path, options.encoding)]
        return Cells((asks[0],), 0, lines)
    rows, _ = rows_of_table(path, PAIRS.get(asks[0], (asks[0], BESIDE)), options)
    return table_cells(path, rows, asks, options)


def file_row(file: str, folder: str, encoding: str) -> CellRow:
    """A text file as a row: its name in the folder, and its text."""
    text, fault = file_text(file, encoding)
    return file, (os.path.relpath(os.path.expanduser(file), os.path.expanduser(folder)), text), fault


def fasttext_cells(path: str, encoding: str) -> Cells:
    """The texts of fastText lines, beside their labels."""
    lines = [(f"{path}:{number}", *parted(text), fault) for number, text, fault in scan(path, encoding) if text.strip()]
    return Cells(("text", "label"), 0, [(where, (text, " ".join(names)), fault) for where, text, names, fault in lines])


def is_table(path: str, asks: tuple[str, ...], encoding: str) -> bool:
    """Whether a text file is a table after all: it has tabs, or its first line is a header."""
    lines = [text for text, _ in head(path, encoding, SAMPLE)]
    tops = [[cells_of(line, mark) for line in lines[:2]] for mark in KNOWN]
    headed = [top for top in tops if len(top) == 2 and len(top[0]) == len(top[1]) > 1]
    return any("\t" in text for text in lines) or any(place_of(top[0], asks) is not None for top in headed)


def table_cells(path: str, rows: Rows, asks: tuple[str, ...], options: TableOptions) -> Cells:
    """The rows of a table. Its first row names the columns if one of them has the name of the inputs, or if it is said."""
    sample = [row for row in islice(rows, SAMPLE) if row[2] or is_whole(row)]
    require(bool(sample), f"{path}: the file has no rows")
    first, body = [cell.strip() for cell in sample[0][1]], [row[1] for row in sample[1:] if is_whole(row)]
    place = place_of(first, asks) if options.header == "yes" or all_names(first, body) else None
    headed = options.header == "yes" or (options.header != "no" and place is not None)
    note = ""
    if options.names:
        name = options.names[0]
        counted = name.isdecimal() and name not in first
        headed = headed or not counted
        place = int(name) - 1 if counted else named_place(path, first, name)
    elif headed and place is not None:
        note = "" if first[place].casefold() == asks[0] else f"{path}: the inputs are in the column {first[place]}"
    else:
        place = place_by_content(path, [row for row in (first, *body)[headed:] if len(row) == len(first)], asks[0])
        note = f"{path}: the inputs are in column {place + 1} (columns= says otherwise)" if len(first) > 1 else ""
    require(0 <= place < len(first), f"{path}: there is no column {place + 1}: the first row has {len(first)}")
    columns = first if headed else numbered_columns(len(first), place, asks[0])
    found = [
        cell_row(path, row, len(first)) for row in chain(sample[headed:], rows) if row[2] or any(map(str.strip, row[1]))
    ]
    return Cells(tuple(columns), place, found, (note,) if note else ())


def numbered_columns(count: int, place: int, name: str) -> list[str]:
    """Names for columns that have none."""
    return [name if number == place else f"column_{number + 1}" for number in range(count)]


def named_place(path: str, header: Sequence[str], name: str) -> int:
    """The column that a person named."""
    for same in (str, words_of):
        places = [place for place, cell in enumerate(header) if same(cell) == same(name)]
        if len(places) == 1:
            return places[0]
    raise ValueError(f"{path}: {unknown('column', name, header)}")


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


def place_by_content(path: str, rows: Sequence[Sequence[str]], ask: str) -> int:
    """The column that holds inputs where no name tells: the only one, or the one that clearly has the longest texts."""
    count = len(rows[0]) if rows else 1
    if count == 1:
        return 0
    if count == 2 and ask in PAIRS:
        return PAIRS[ask].index(ask)
    if count == 2 and (len(rows) < FEW or label_first(rows)):
        return int(label_first(rows))
    cells = [[row[place] for row in rows] for place in range(count)]
    words = sorted(map(mean_words, cells), reverse=True)
    place = likely(rows, (ask,))[:1]
    if count == 2 or (place and words[0] > 2 * words[1]):
        return place[0] if place else 0
    shown = ", ".join(repr(column[0][:20]) for column in cells)
    raise ValueError(f"{path}: {count} columns ({shown}) and no header that names {ask}. Say which: columns=2")


def cell_row(path: str, row: TableLine, count: int) -> CellRow:
    number, cells, fault = row
    if not fault and (len(cells) < count or any(map(str.strip, cells[count:]))):
        fault = f"expected {count} columns, found {len(cells)}"
    return f"{path}:{number}", tuple(cells), fault


def object_cells(path: str, asks: tuple[str, ...], options: TableOptions) -> Cells:
    """JSON or Parquet: the keys of the first object are the columns."""
    objects = parquet_objects(path, ()) if ending_of(path) == ".parquet" else json_objects(path, options.encoding)
    rows = [row for row in objects if row[2] or row[1] is not None]
    first: dict[str, Any] = next((item for _, item, fault in rows if not fault and isinstance(item, dict)), {})
    require(bool(first), f"{path}: no line is an object such as {{{asks[0]!r}: ...}}")
    columns = tuple(map(str, first))
    place = named_place(path, columns, options.names[0]) if options.names else place_of(columns, asks)
    if place is None:
        raise ValueError(f"{path}: {unknown('column', asks[0], columns)} columns= names it.")
    note = f"{path}: the inputs are in {columns[place]}" if columns[place] != asks[0] and not options.names else ""
    cells = [object_row(path, row, columns, columns[place]) for row in rows]
    return Cells(columns, place, cells, (note,) if note else ())


def object_row(path: str, row: tuple[int, Any, str], columns: tuple[str, ...], asked: str) -> CellRow:
    number, item, fault = row
    where = f"{path}:{number}"
    if not fault and not isinstance(item, dict):
        fault = "expected an object with names and values"
    if fault:
        return where, (), fault
    text, fault = text_of(item.get(asked))
    cells = tuple(text if name == asked else item.get(name, "") for name in columns)
    return where, cells, fault and f"{asked} is {fault}"
