"""The tables of a graph's folder: found by their names, and their columns by those of a header."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from mirada.data.first_row import TITLES, number, usual_width
from mirada.data.header import lines, taken
from mirada.data.options import TableOptions
from mirada.data.records import Rows, table_rows
from mirada.data.separator import KNOWN
from mirada.data.table import TableLine
from mirada.data.text import head, scan
from mirada.errors import require

ENDINGS = (".csv", ".tsv", ".txt")
FORM = "A graph is edges.csv (source, target), features.csv (node, ...) and labels.csv (node, label, split)."
WORDS = {  # how people call the columns, in English and Spanish
    "node": "node nodo id name nombre",
    "source": "source src from origen desde node1 citing",
    "target": "target tgt dst to destino hasta node2 cited",
    "label": "label etiqueta class clase category categoría categoria y",
    "split": "split set part subset partición particion conjunto mask",
}
SAMPLE = 100  # rows that tell how many cells there are, how numbers are written, and whether nodes are numbers


def find(folder: str, name: str) -> str:
    """The table of a folder with this name, whatever its ending; "" if there is none."""
    for ending in ENDINGS:
        for path in (os.path.join(folder, name + ending), os.path.join(folder, f"{name}{ending}.gz")):
            if os.path.exists(path):
                return path
    return ""


def required(folder: str, name: str) -> str:
    path = find(folder, name)
    require(bool(path), f"{folder}: there is no {name}.csv. {FORM}")
    return path


@dataclass(frozen=True)
class NodeTable:
    """The rows of a table about nodes (the number of the line, its cells, what is wrong with it) without empty lines; what
    divides cells; and how many lines above were left out.
    """

    rows: Rows
    separator: str
    above: int


def table(path: str, options: TableOptions) -> NodeTable:
    """The rows of a table, without a title above it: a line of one cell where others have several."""
    rows, separator = table_rows(path, 2, options)
    if not options.separator and are_divided_by_blanks(path, options.encoding):
        lines_of = scan(path, options.encoding)
        rows = ((line, [text] if text.startswith("#") else text.split(), fault) for line, text, fault in lines_of)
    stripped = ((line, [cell.strip() for cell in cells], fault) for line, cells, fault in rows)
    kept = (row for row in stripped if row[2] or any(row[1]))
    sample = list(islice(kept, SAMPLE))
    width = usual_width([cells for _, cells, fault in sample if not fault] or [[""]], 1)
    inside = (n for n, (_, cells, fault) in enumerate(sample[: TITLES + 1]) if fault or len(cells) > 1)
    above = next(inside, 0) if width > 1 else 0
    return NodeTable(chain(sample[above:], kept), separator, above)


def are_divided_by_blanks(path: str, encoding: str) -> bool:
    """Whether nothing but blanks divides the lines, and all of them alike, as in lists of edges; remarks aside."""
    lines = [text for text, _ in head(path, encoding, SAMPLE) if text.strip() and not text.startswith("#")]
    divided = any(mark in line for line in lines for mark in KNOWN)
    counts = {len(line.split()) for line in lines}
    return not divided and len(counts) == 1 and max(counts) > 1


def body(path: str, columns: tuple[str, ...], nodes: Mapping[str, int], options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table about nodes, without its header, and what was recognized; the columns that a header names stand
    in our order.
    """
    found = table(path, options)
    first = next(found.rows, None)
    if first is None:
        return iter(()), ""
    places = [next((p for p, cell in enumerate(first[1]) if names(cell, column)), -1) for column in columns]
    known = min(places[:2]) >= 0
    if first[2] or not has_header(first[1], known, nodes, options.header):
        above = f"{path}: {lines(found.above)} at the top left out" if found.above else ""
        return chain([first], found.rows), above
    order = [place for place in places if place >= 0] if known else list(range(len(first[1])))[: len(columns)]
    ours = [column for column, place in zip(columns, places, strict=True) if place >= 0] if known else columns
    note = taken(first[1], order, tuple(ours[: len(order)]), found.above)
    rows = (in_order(row, order) for row in found.rows) if known else found.rows
    return rows, f"{path}: {note}" if note else ""


def in_order(row: TableLine, order: Sequence[int]) -> TableLine:
    """A row with some of its cells; one that is not there is empty."""
    line, cells, fault = row
    return line, cells if fault else [cells[place] if place < len(cells) else "" for place in order], fault


def names(cell: str, column: str) -> bool:
    """Whether a cell is a usual name of a column.

    >>> names("From", "source"), names("p17", "node")
    (True, False)
    """
    return cell.casefold() in WORDS[column].split()


def has_header(first: Sequence[str], known: bool, nodes: Mapping[str, int], header: str) -> bool:
    """Whether a first row is a header: it is told; or it has no node in it, but names of columns, or no number where nodes
    are numbers.
    """
    if header:
        return header == "yes"
    numeric = all(map(number, islice(nodes, SAMPLE)))
    return not any(cell in nodes for cell in first) and (known or (numeric and not any(map(number, first))))
