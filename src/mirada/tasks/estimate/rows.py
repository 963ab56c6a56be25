"""Rows to estimate a number from: which column is the number, and what stands in the others."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from mirada.data.columns.contents import all_numbers, has_content, is_numeric, numbers
from mirada.data.columns.header import named_place, recognize_inputs
from mirada.data.columns.names import words_of
from mirada.data.files.forms import form_of
from mirada.data.files.json import text_of
from mirada.data.files.memory import plain
from mirada.data.files.records import SAMPLE, rows_of_table
from mirada.data.options import TableOptions
from mirada.data.record import Found, Problem, Record
from mirada.errors import require

NAMES = frozenset(  # what the number is usually called, in English and Spanish
    (
        "target", "price", "rating", "score", "value", "amount", "cost", "rent", "income", "salary", "y", "label", "stars",
        "points", "grade", "mpg", "sales", "total", "objetivo", "precio", "nota", "valor", "importe", "coste", "costo",
        "alquiler", "renta", "sueldo", "puntuacion", "ventas",
    )
)  # fmt: skip
CELL = re.compile(r"\s*[,;]\s*(?=[^,;=]+=)")  # between the cells of an input: size=70, rooms=3


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(TableOptions):
    """`target` is the column to estimate, by name or number; `inputs` are those to read: by default all others. Texts are cut
    into tokens as `classify` does it.
    """

    of_files: ClassVar[tuple[str, ...]] = (*TableOptions.of_files, "target", "inputs")
    fixed: ClassVar[tuple[str, ...]] = ("tokenizer", "vocab", "lowercase")

    tokenizer: str = "word"
    vocab: int = 10_000
    lowercase: bool = True
    target: str = ""
    inputs: str = ""

    def check(self) -> None:
        super().check()
        self.at_least(1, "vocab")
        self.one_of("tokenizer", "bpe", "unigram", "word", "char")
        require(
            not self.columns, "columns= is not used by estimate: target= is the number, inputs= are the columns to read"
        )


class MeasuredRow(NamedTuple):
    """The cells of a row by the names of their columns, and the number that was measured."""

    names: tuple[str, ...]
    cells: tuple[str, ...]
    target: float
    target_name: str


class _Table(NamedTuple):
    """The cells of a place: names, and for every row its place in the file, its cells, what is wrong with it."""

    names: tuple[str, ...]
    rows: list[tuple[str, tuple[str, ...], str]]


def read_measured(place: Any, options: EstimateOptions) -> Found[MeasuredRow]:
    """The rows of a place, a path or a value in memory, with the number of each.

    >>> found = read_measured({"size": [50, 70], "rent": [600, 810]}, EstimateOptions())
    >>> found.records[1].value
    MeasuredRow(names=('size',), cells=('70',), target=810.0, target_name='rent')
    """
    table = cells_of(place, options)
    where = place if isinstance(place, str) else "the data"
    good = [row for row in table.rows if not row[2]]
    require(bool(good), f"{where}: no row can be read")
    columns = list(zip(*(row[1] for row in good), strict=True))
    target = _target_of(where, table.names, columns, options.target)
    values, faults = numbers(columns[target])
    kept = _inputs_of(where, table.names, columns, target, options.inputs)
    names, name = tuple(table.names[n] for n in kept), table.names[target]
    problems = [Problem(where, fault) for where, _, fault in table.rows if fault]
    records = []
    for row, (where, cells, _) in enumerate(good):
        if row in faults:
            what = f"{faults[row]} in {name}, which is to be estimated. Correct it, or take the row out."
            problems.append(Problem(where, what))
        else:
            value = MeasuredRow(names, tuple(cells[n] for n in kept), float(values[row]), name)
            records.append(Record(where, value))
    note = f"{name} is estimated from {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
    path = f"{place}: " if isinstance(place, str) else ""
    return Found(records, problems, () if options.target else (f"{path}{note} (target= and inputs= say otherwise)",))


def _target_of(where: str, names: Sequence[str], columns: Sequence[Sequence[str]], asked: str) -> int:
    """The column to estimate: the one that is asked for, the only numeric one, one with a usual name, or the last numeric one."""
    if asked:
        inside = asked.isdecimal() and asked not in names and 0 < int(asked) <= len(names)
        return int(asked) - 1 if inside else named_place(where, names, asked)
    numeric = [n for n, cells in enumerate(columns) if is_numeric(cells, numbers(cells)[1]) and len(set(cells)) > 1]
    require(bool(numeric), f"{where}: no column has numbers to estimate. Columns: {', '.join(names)}")
    usual = [n for n in numeric if NAMES.intersection(words_of(names[n])[-1:])]
    return usual[-1] if usual else numeric[-1]


def _inputs_of(
    where: str, names: Sequence[str], columns: Sequence[Sequence[str]], target: int, asked: str
) -> list[int]:
    """The columns to read: those asked for, or all others but row numbers and columns with one value."""
    if asked:
        kept = [named_place(where, names, name.strip()) for name in asked.split(",")]
        require(target not in kept, f"{names[target]} is to be estimated: it cannot be read as well")
        return kept
    row_numbers = [str(n) for n in range(len(columns[0]) + 1)]
    counted = (row_numbers[1:], row_numbers[:-1])
    kept = [
        n for n, cells in enumerate(columns)
        if n != target and len(set(cells)) > 1 and not (n == 0 and list(cells) in counted)
    ]  # fmt: skip
    require(bool(kept), f"{where}: there is no column to estimate {names[target]} from")
    return kept


def cells_of(place: Any, options: EstimateOptions) -> _Table:
    """All cells of a file or of a value in memory."""
    if not isinstance(place, str):
        return _in_memory(place)
    if objects := form_of(place).objects:
        items = list(objects(place, options.encoding, ()))
        names = tuple(dict.fromkeys(str(key) for _, item, _ in items if isinstance(item, dict) for key in item))
        rows = [
            (f"{place}:{number}", _object_cells(item, names), fault or _not_an_object(item))
            for number, item, fault in items
            if fault or item is not None
        ]
        return _Table(names, rows)
    rows_left, delimiter = rows_of_table(place, ("", ""), options)
    sample = [row for row in islice(rows_left, SAMPLE) if row[2] or has_content(row)]
    readable = [[cell.strip() for cell in row[1]] for row in sample if has_content(row)]
    require(bool(readable), f"{place}: the file has no rows")
    head = recognize_inputs(readable, ("target",), options.header)
    headed = head.headed or (options.header != "no" and _names_columns(readable))
    width = len(readable[head.above])
    names = tuple(readable[head.above]) if headed else tuple(f"column_{n + 1}" for n in range(width))
    body = [number for number, row in enumerate(sample) if has_content(row)][: head.above + headed]
    rows = []
    for number, cells, fault in chain((row for n, row in enumerate(sample) if n not in body), rows_left):
        if not fault and not any(map(str.strip, cells)):
            continue
        if (
            not fault and len(cells) == width + 1 and headed
        ):  # row numbers that the header does not name, as R writes them
            cells = cells[1:]
        sign = "<TAB>" if delimiter == "\t" else delimiter
        if not fault and len(cells) != width:
            fault = f"expected {width} columns, found {len(cells)}. Cells are divided by {sign}."
        rows.append((f"{place}:{number}", tuple(cell.strip() for cell in cells), fault))
    return _Table(_all_different(names), rows)


def _names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has words only, and a column below is one of numbers."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    typed = any(all_numbers(cell for cell in column if cell) for column in zip(*rest, strict=True)) if rest else False
    return typed and not any(all_numbers([cell]) for cell in first)


def _all_different(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, those that are empty or come again with their number."""
    return tuple(n if n and n not in names[:place] else f"{n or 'column'}_{place + 1}" for place, n in enumerate(names))


def _object_cells(item: Any, names: Sequence[str]) -> tuple[str, ...]:
    """The values of an object as texts; nothing where there is none."""
    return tuple(_cell(item.get(name)) for name in names) if isinstance(item, dict) else ("",) * len(names)


def _cell(value: Any) -> str:
    """A value as the text of a cell."""
    value = plain(value)
    text, fault = text_of(value)
    return "" if value is None else (str(value) if fault else text).strip()


def _not_an_object(item: Any) -> str:
    return "" if isinstance(item, dict) else "expected an object with names and values"


def _in_memory(data: Any) -> _Table:
    """The cells of rows, of objects, of columns by name, or of a data frame; the number is the last column of plain rows."""
    if hasattr(data, "columns") or isinstance(data, Mapping):
        known = list(data.columns if hasattr(data, "columns") else data)
        columns = [list(data[name]) for name in known]
        require(len({len(column) for column in columns}) == 1, "columns must be equally long")
        return _numbered(tuple(map(str, known)), list(zip(*columns, strict=True)))
    require(
        isinstance(data, Iterable) and not isinstance(data, bytes),
        f"data in memory must be rows, a dict or a data frame: got {type(data).__name__}",
    )
    rows = [row.tolist() if hasattr(row, "tolist") else row for row in data]
    require(bool(rows), "there are no rows: the data is empty. Give some.")
    if all(isinstance(row, Mapping) for row in rows):
        names = tuple(dict.fromkeys(str(key) for row in rows for key in row))
        return _Table(names, [(f"row {n}", _object_cells(row, names), "") for n, row in enumerate(rows, 1)])
    width = len(rows[0]) if isinstance(rows[0], list | tuple) else 1
    names = ("text", "target") if width == 2 else tuple(f"column_{n + 1}" for n in range(width))
    return _numbered(names, rows)


def _numbered(names: tuple[str, ...], rows: Sequence[Any]) -> _Table:
    """Rows of values with their numbers."""
    described = []
    for number, row in enumerate(rows, 1):
        good = isinstance(row, list | tuple) and len(row) == len(names)
        cells = tuple(map(_cell, row)) if good else ()
        described.append((f"row {number}", cells, "" if good else f"expected {len(names)} values"))
    return _Table(names, described)


def asked_cells(given: Any, names: Sequence[str], text: str) -> dict[str, str]:
    """The cells of an input: an object, `size=70, rooms=3`, a row of values, or a text where the only column is one of texts,
    called `text`.

    >>> asked_cells("size=70, district=north", ("size", "district"), "")
    {'size': '70', 'district': 'north'}
    >>> asked_cells("colour=red", ("size",), "")
    Traceback (most recent call last):
    ValueError: the input: unknown column 'colour'; known: size...
    >>> asked_cells((70, "north"), ("size", "district"), ""), asked_cells([3, 4, 5], ("column_1", "column_3"), "")
    ({'size': '70', 'district': 'north'}, {'column_1': '3', 'column_3': '5'})
    """
    if isinstance(given, list | tuple) or (getattr(given, "ndim", 0) == 1 and hasattr(given, "tolist")):
        values = {
            f"column_{number}": value for number, value in enumerate(given, 1)
        }  # as rows without names are learned
        numbered = set(names) <= values.keys()
        require(
            numbered or len(values) == len(names),
            f"a row of values has one for each of {', '.join(names)}: got {len(values)}",
        )
        given = {name: values[name] for name in names} if numbered else dict(zip(names, values.values(), strict=True))
    if isinstance(given, str) and text:
        return {text: given}
    if isinstance(given, str) and given.strip().startswith("{"):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise ValueError(f"the input is no JSON object: {error}") from None
    if isinstance(given, str):
        parts = [part.partition("=") for part in CELL.split(given.strip())]
        way_out = f"give the cells of a row by name, such as {names[0]}=..., or as a JSON object: got {given[:60]!r}"
        require(all(equals for _, equals, _ in parts), way_out)
        given = {name.strip(): cell for name, _, cell in parts}
    require(
        isinstance(given, Mapping), f"an input is a text or an object with names and values: got {type(given).__name__}"
    )
    cells = {}
    for name, value in given.items():
        place = named_place("the input", names, str(name)) if str(name) not in names else names.index(str(name))
        cells[names[place]] = _cell(value)
    return cells
