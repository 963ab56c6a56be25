"""Rows that are in memory already: a list of rows, columns by name, or a data frame."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirada.data.records import Read, Sorter, text_of
from mirada.errors import require, unknown


def rows_in_memory(data: Any, columns: tuple[str, ...], names: tuple[str, ...] = ()) -> Read:
    """The records of a value that a program has: rows in the order of `columns`, a dict or a data frame with such columns.

    `names` says what the columns are called there. A row of one column may be the value itself.

    >>> rows_in_memory([("good film", "pos"), ("bad film",)], ("text", "label")).problems[0]
    Problem(where='row 2', what='expected 2 values (text, label), found 1.')
    >>> rows_in_memory({"text": ["good film"], "label": ["pos"]}, ("text", "label")).records[0].value
    ('good film', 'pos')
    """
    sorter = Sorter(columns)
    for number, row in enumerate(rows_of(data, columns, names or columns), 1):
        where = f"row {number}"
        if len(row) != len(columns):
            found = f"expected {len(columns)} values ({', '.join(columns)}), found {len(row)}."
            sorter.refuse(where, found)
            continue
        cells = [text_of(plain(value)) for value in row]
        faults = [f"{name} is {fault}." for name, (_, fault) in zip(columns, cells, strict=True) if fault]
        if faults:
            sorter.refuse(where, " ".join(faults))
        else:
            sorter.take(where, [text for text, _ in cells])
    return sorter.read()


def rows_of(data: Any, columns: tuple[str, ...], names: tuple[str, ...]) -> Iterable[Sequence[Any]]:
    """The rows of a value, whatever it is; a data frame is known by its `columns` and by giving one for a name."""
    frame = hasattr(data, "columns") and hasattr(data, "__getitem__")
    if frame or isinstance(data, Mapping):
        known = [str(name) for name in (data.columns if frame else data)]
        for name in names:
            if name not in known:
                raise unknown("column", name, known)
        taken = [list(data[name]) for name in names]
        counts = {len(column) for column in taken}
        require(
            len(counts) == 1, f"columns must be equally long: got {', '.join(str(len(column)) for column in taken)}"
        )
        return list(zip(*taken, strict=True))
    require(
        isinstance(data, Iterable) and not isinstance(data, str | bytes),
        f"data in memory must be rows of ({', '.join(columns)}), a dict or a data frame: got {type(data).__name__}",
    )
    return [row if isinstance(row, list | tuple) else (row,) for row in data]


def plain(value: Any) -> Any:
    """A number of an array library as the number it is."""
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value
