"""All cells of a table whose rows are questions: one column holds the inputs, the others are kept as they are."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from mirada.data.columns.contents import has_content
from mirada.data.columns.header import PAIRS, input_head, is_sure_header, named_place, place_of
from mirada.data.files.folders import file_text, is_fasttext, is_folder, split_labels, texts_at
from mirada.data.files.forms import form_of
from mirada.data.files.json import text_of
from mirada.data.files.opening import head, scan
from mirada.data.files.records import ALIKE, KNOWN, SAMPLE, STATED, Division, Rows, rows_of_table
from mirada.data.options import TableOptions
from mirada.errors import require, unknown

CellRow = tuple[str, tuple[str, ...], str]  # where it is, its cells, what is wrong with it
LABEL = "label"  # a column that may stand next to the inputs


@dataclass(frozen=True)
class Cells:
    """The columns of a file by name, which of them holds the inputs, and the rows."""

    columns: tuple[str, ...]
    input: int
    rows: Sequence[CellRow]
    notes: tuple[str, ...] = ()


def read_cells(path: str, asks: tuple[str, ...], options: TableOptions) -> Cells:
    r"""Every row of a file, with all its cells. `asks` are our names for the column of the inputs, the best first.

    `options.columns` may name it. A text file has one column: its lines; a folder has a row for each text file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "new.csv")
    >>> _ = path.write_text("id,review\n7,a fine film\n")
    >>> cells = read_cells(str(path), ("text",), TableOptions())
    >>> cells.columns, cells.input, cells.rows[0][1]
    (('id', 'review'), 1, ('7', 'a fine film'))
    """
    if is_folder(path):
        folder, rows = os.path.expanduser(path), []
        for file in texts_at(path):  # its name in the folder, and its text
            text, fault = file_text(file, options.encoding)
            rows.append((file, (os.path.relpath(os.path.expanduser(file), folder), text), fault))
        return Cells(("name", asks[0]), 1, rows)
    form = form_of(path)
    if form.objects:
        return _object_cells(path, asks, options)
    described = options.describes_table
    if asks[0] == "text" and not described and is_fasttext(path, options.encoding):
        marked = (line for line in scan(path, options.encoding) if line[1].strip())
        split = [(f"{path}:{number}", *split_labels(text), fault) for number, text, fault in marked]
        return Cells(("text", "label"), 0, [(where, (text, " ".join(of)), fault) for where, text, of, fault in split])
    if form.holds == "lines" and not described and not _is_table(path, asks, options.encoding):
        lines = [(f"{path}:{number}", (text,), fault) for number, text, fault in scan(path, options.encoding)]
        return Cells((asks[0],), 0, lines)
    table, delimiter = rows_of_table(path, PAIRS.get(asks[0], (asks[0], LABEL)), options)
    return _table_cells(path, table, asks, options, delimiter)


def _is_table(path: str, asks: tuple[str, ...], encoding: str) -> bool:
    """Whether a text file is a table after all: most of its lines have tabs, or all are divided alike, under a certain header."""
    texts = [text for text, _ in head(path, encoding, SAMPLE) if text.strip()]
    if texts and STATED.fullmatch(texts[0]):
        return True
    by_tabs = Division(texts, "\t")
    if by_tabs.size > 1 and by_tabs.share >= ALIKE:
        return True
    even = [each for each in (Division(texts, mark) for mark in KNOWN) if each.is_even]
    tables = ([[cell.strip() for cell in row] for row in each.rows] for each in even)
    return any(is_sure_header(rows[0], rows[1:], asks) for rows in tables)


def _table_cells(path: str, rows: Rows, asks: tuple[str, ...], options: TableOptions, delimiter: str) -> Cells:
    """The rows of a table, without its header and the titles above it."""
    sample = [row for row in islice(rows, SAMPLE) if row[2] or has_content(row)]
    require(bool(sample), f"{path}: the file has no rows")
    filled = [[cell.strip() for cell in row[1]] for row in sample if has_content(row)] or [[""]]
    table_head = input_head(path, filled, asks, options)
    kept, count = [], table_head.width
    for number, cells, fault in chain(table_head.below(sample), rows):
        if not fault and not any(map(str.strip, cells)):
            continue
        if not fault and count == 1:  # one column is the complete line
            cells = [delimiter.join(cells)]
        if not fault and (len(cells) < count or any(map(str.strip, cells[count:]))):
            fault = f"expected {count} columns, found {len(cells)}"
        kept.append((f"{path}:{number}", tuple(cells), fault))
    notes = (f"{path}: {table_head.note}",) if table_head.note else ()
    return Cells(table_head.names, table_head.picked[0], kept, notes)


def _object_cells(path: str, asks: tuple[str, ...], options: TableOptions) -> Cells:
    """JSON or Parquet: the keys of the objects are the columns."""
    read = form_of(path).objects
    objects = read(path, options.encoding, ()) if read else ()
    rows = [row for row in objects if row[2] or row[1] is not None]
    items = (item for _, item, fault in rows if not fault and isinstance(item, dict))
    columns = tuple(dict.fromkeys(str(key) for item in items for key in item))
    require(bool(columns), f"{path}: no line is an object such as {{{asks[0]!r}: ...}}")
    place = named_place(path, columns, options.names[0]) if options.names else place_of(columns, asks)
    if place is None:
        raise ValueError(f"{path}: {unknown('column', asks[0], columns)} columns= names it.")
    note = f"{path}: the inputs are in {columns[place]}" if columns[place] != asks[0] and not options.names else ""
    cells: list[CellRow] = []
    asked = columns[place]
    for number, item, fault in rows:
        if not fault and not isinstance(item, dict):
            fault = "expected an object with names and values"
        if fault:
            cells.append((f"{path}:{number}", (), fault))
            continue
        text, fault = text_of(item.get(asked))
        fault = fault and (f"{asked} is {fault}" if asked in item else f"no {asked!r} in the object.")
        row = tuple(text if name == asked else item.get(name, "") for name in columns)
        cells.append((f"{path}:{number}", row, fault))
    return Cells(columns, place, cells, (note,) if note else ())
