"""Rows that are in memory already: a list of rows, columns by name, columns side by side, or a data frame; and inputs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from mirada.data.columns.header import key_columns
from mirada.data.files.json import SAMPLE, text_of
from mirada.data.record import Read, RecordCollector
from mirada.errors import require, unknown


def rows_in_memory(data: Any, columns: tuple[str, ...], names: tuple[str, ...] = (), optional: bool = False) -> Read:
    """The records of a value that a program has: rows in the order of `columns`, a dict or a data frame with such columns.

    `names` says what the columns are called there. A row of one column may be the value itself. With `optional`, columns after
    the first may be empty, and hold lists.

    >>> rows_in_memory([("good film", "pos"), ("bad film",)], ("text", "label")).problems[0]
    Problem(where='row 2', what='expected 2 values (text, label), found 1.')
    >>> rows_in_memory({"text": ["good film"], "label": ["pos"]}, ("text", "label")).records[0].value
    ('good film', 'pos')
    """
    collector = RecordCollector(columns, optional)
    rows, note = _rows_and_note(data, columns, names)
    for number, row in enumerate(rows, 1):
        where = f"row {number}"
        if len(row) != len(columns):
            what = f"expected {len(columns)} values ({', '.join(columns)}), found {len(row)}."
            collector.refuse(where, what)
            continue
        cells = [text_of(_listed(plain(value)) if optional else plain(value)) for value in row]
        faults = [f"{name} is {fault}." for name, (_, fault) in zip(columns, cells, strict=True) if fault]
        if faults:
            collector.refuse(where, " ".join(faults))
        else:
            collector.take(where, [text for text, _ in cells])
    return collector.read(note)


def _listed(value: Any) -> Any:
    """A list of texts as one text with commas, nothing as an empty text; another value as it is."""
    texts = isinstance(value, list | tuple | set) and all(isinstance(one, str) for one in value)
    return ",".join(sorted(value) if isinstance(value, set) else value) if texts else "" if value is None else value


def _rows_and_note(data: Any, columns: tuple[str, ...], names: tuple[str, ...]) -> tuple[Sequence[Sequence[Any]], str]:
    """The rows of a value, and what was recognized: usual names are accepted where ours are missing."""
    if _is_frame(data) or isinstance(data, Mapping):
        given = list(data.columns if _is_frame(data) else data)
        known = {str(name): name for name in given}
        counts = Counter(map(str, given))
        twice = next((name for name, count in counts.items() if count > 1), None)
        require(twice is None, f"several columns of the data are named {twice!r}. Rename all but one.")
        some = [list(islice(data[name], SAMPLE)) for name in known.values()]
        wanted, note = _wanted_keys(list(known), columns, names, list(zip(*some, strict=False)))
        return rows_of(data, columns, wanted), note
    rows = rows_of(data, columns, names or columns)
    objects = [row[0] for row in rows if len(row) == 1 and isinstance(row[0], Mapping)]
    if not rows or len(objects) < len(rows):
        return rows, ""
    keys = list(dict.fromkeys(str(key) for row in objects for key in row))
    some = [[row.get(key, "") for key in keys] for row in objects[:SAMPLE]]
    wanted, note = _wanted_keys(keys, columns, names, some)
    return [tuple(row.get(name) for name in wanted) for row in objects], note


def _is_frame(data: Any) -> bool:
    """Whether a value is a data frame: it has `columns`, which it returns by name."""
    return hasattr(data, "columns") and hasattr(data, "__getitem__")


def _is_column(data: Any) -> bool:
    """Whether a value is a column: a series of a data frame, or an array with one axis."""
    return hasattr(data, "to_list") or (hasattr(data, "tolist") and getattr(data, "ndim", 0) == 1)


def side_by_side(data: Any) -> Any:
    """The rows of columns that are given apart, as a pair of texts and labels; another value as it is.

    A tuple is meant so if a column, a data frame or an array is in it, and all have as many rows.

    >>> import numpy as np
    >>> side_by_side((["good film", "bad film", "a film"], np.array(["pos", "neg", "pos"])))
    [('good film', 'pos'), ('bad film', 'neg'), ('a film', 'pos')]
    >>> side_by_side((("good film", "pos"), ("bad film", "neg")))
    (('good film', 'pos'), ('bad film', 'neg'))
    """
    if not isinstance(data, tuple) or len(data) < 2 or not any(_is_rows(part) for part in data):
        return data
    if not all(_is_rows(part) or isinstance(part, list) for part in data):
        return data
    counts = [part.shape[0] if hasattr(part, "shape") else len(part) for part in data]
    require(len(set(counts)) == 1, f"columns must be equally long: got {', '.join(map(str, counts))}")
    parts = [[part[name] for name in part.columns] if _is_frame(part) else [part] for part in data]
    return list(zip(*(_values(column) for columns in parts for column in columns), strict=True))


def _values(column: Any) -> list[Any]:
    """The values of a column as Python has them; the rows of an array of more axes."""
    if _is_column(column):
        return column.to_list() if hasattr(column, "to_list") else column.tolist()
    return list(column)


def _is_rows(part: Any) -> bool:
    """Whether a value has a row for each record: a column, a data frame, an array of any number of axes."""
    return _is_column(part) or _is_frame(part) or (hasattr(part, "tolist") and getattr(part, "ndim", 0) > 1)


def inputs_in_memory(given: Any, names: tuple[str, ...]) -> Any:
    """The inputs of a column or of a data frame as a list of texts; another value as it is.

    Args:
        given: What a program asks; of a data frame, the column with the first of `names` that it has, or its only one.
        names: What the column of inputs may be called.

    >>> import numpy as np
    >>> inputs_in_memory(np.array(["good film", "bad film"]), ("text",)), inputs_in_memory("good film", ("text",))
    (['good film', 'bad film'], 'good film')
    """
    if _is_frame(given):
        known = {str(name): name for name in given.columns}
        name = next((name for name in names if name in known), "")
        if not name and len(known) > 1:
            raise ValueError(
                f"{unknown('column', names[0] if names else 'text', known)} Give one column: frame['...']."
            )
        given = given[known[name] if name else next(iter(known.values()))]
    elif not _is_column(given):
        return given
    found = [text_of(plain(value)) for value in _values(given)]
    wrong = [(number, fault) for number, (_, fault) in enumerate(found, 1) if fault]
    if wrong:
        raise ValueError(f"input {wrong[0][0]} of {len(found):,} is {wrong[0][1]}. Leave such rows out.")
    return [text for text, _ in found]


def rows_of(data: Any, columns: tuple[str, ...], names: tuple[str, ...]) -> Sequence[Sequence[Any]]:
    """The rows of a value, whatever it is, by the names of its columns."""
    if _is_frame(data) or isinstance(data, Mapping):
        known = {str(name): name for name in (data.columns if _is_frame(data) else data)}  # a name may be a number
        for name in names:
            if name not in known:
                raise unknown("column", name, known)
        taken = [list(data[known[name]]) for name in names]
        counts = {len(column) for column in taken}
        if len(counts) != 1:
            raise ValueError(f"columns must be equally long: got {', '.join(str(len(column)) for column in taken)}")
        return list(zip(*taken, strict=True))
    require(
        isinstance(data, Iterable) and not isinstance(data, str | bytes),
        f"data in memory must be rows of ({', '.join(columns)}), a dict or a data frame: got {type(data).__name__}",
    )
    rows = (row.tolist() if getattr(row, "ndim", 0) == 1 and hasattr(row, "tolist") else row for row in data)
    return [row if isinstance(row, list | tuple) else (row,) for row in rows]


def _wanted_keys(
    known: Sequence[str], columns: tuple[str, ...], names: tuple[str, ...], some: Sequence[Sequence[Any]]
) -> tuple[tuple[str, ...], str]:
    """The names of the columns among those that are known, and a note about them; `some` are the first rows."""
    cells = [[text_of(plain(value))[0] for value in row] for row in some]
    wanted, note = key_columns(known, columns, names, cells)
    for name in wanted:
        if name not in known:
            raise ValueError(f"{unknown('column', name, known)} Say which to take: columns={','.join(columns).upper()}")
    return wanted, note


def plain(value: Any) -> Any:
    """A number of an array library as the number it is; None where it is NaN."""
    number = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    return None if isinstance(number, float) and math.isnan(number) else number
