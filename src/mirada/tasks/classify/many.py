"""Texts with several labels each: in one cell, in a list, or in columns of their own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from mirada.data.columns.names import match_names
from mirada.data.files.forms import form_of
from mirada.data.files.memory import rows_in_memory
from mirada.data.files.records import read_records, rows_of_table
from mirada.data.options import TableOptions
from mirada.data.record import Read, Record
from mirada.runs.sources import Source, parts_of

if TYPE_CHECKING:
    from mirada.tasks.classify.task import ClassifyOptions

COLUMNS = ("text", "label")
SAMPLE = 200  # rows that show what columns hold
TRUE, FALSE = {"1", "1.0", "true", "yes", "x"}, {"0", "0.0", "false", "no", ""}


def read_many_labels(place: Any, options: TableOptions) -> Read:
    """The texts of a file or a value in memory, each with its labels in one cell, divided by commas.

    >>> rows = {"text": ["goal in the last minute", "rates rise"], "sport": [1, 0], "money": [0, 1], "art": [0, 0]}
    >>> [record.value for record in read_many_labels(rows, TableOptions()).records]
    [('goal in the last minute', 'sport'), ('rates rise', 'money')]
    """
    names = options.names or label_columns(place, options)
    if len(names) < 3:
        return _read(place, COLUMNS, options)
    read = _read(place, ("text", *names[1:]), replace(options, columns=",".join(names)))
    cells = [[record.value[column] for record in read.records] for column in range(1, len(names))]
    flags = {n for n, column in enumerate(cells) if {cell.casefold() for cell in column} <= TRUE | FALSE}
    records = tuple(
        Record(record.where, (record.value[0], ",".join(_labels_of(names[1:], record.value[1:], flags))))
        for record in read.records
    )
    return replace(read, records=records, notes=(*read.notes, f"the labels are in columns: {', '.join(names[1:])}"))


def _labels_of(names: Sequence[str], cells: Sequence[str], flags: set[int]) -> Iterator[str]:
    """The labels in the columns of a row: the names of those that say yes, or what they hold."""
    for place, (name, cell) in enumerate(zip(names, cells, strict=True)):
        if place in flags:
            yield from [name.replace(",", " ")] if cell.casefold() in TRUE else []
        elif cell:
            yield cell


def _read(place: Any, columns: tuple[str, ...], options: TableOptions) -> Read:
    """The records of a place, of which only the text must not be empty."""
    if isinstance(place, str):
        return read_records(place, columns, options, optional=True)
    return rows_in_memory(place, columns, options.names, optional=True)


def label_columns(place: Any, options: TableOptions) -> tuple[str, ...]:
    """The column of texts and those of labels, where at least two columns hold nothing but yes and no; else none."""
    columns = _columns_of(place, options)
    text = match_names(list(columns), ("text",)).picked[0]
    if text is None:
        return ()
    flags = [
        name for number, (name, cells) in enumerate(columns.items())
        if number != text and {cell.casefold() for cell in cells} <= TRUE | FALSE and TRUE & {cell.casefold() for cell in cells}
    ]  # fmt: skip
    return (list(columns)[text], *flags) if len(flags) > 1 else ()


def _columns_of(place: Any, options: TableOptions) -> Mapping[str, Sequence[str]]:
    """The first cells of every column that has a name; none where none has."""
    if not isinstance(place, str):
        names = list(getattr(place, "columns", place if isinstance(place, Mapping) else ()))
        return {str(name): [str(cell) for cell in islice(place[name], SAMPLE)] for name in names}
    form = form_of(place)
    if not form.objects and not form.separator:
        return {}
    if form.objects:
        objects = [value for _, value, _ in islice(form.objects(place, options.encoding, COLUMNS), SAMPLE) if value]
        keys = list(dict.fromkeys(key for value in objects for key in value))
        return {key: [str(value.get(key, "")) for value in objects] for key in keys}
    rows, _ = rows_of_table(place, ("text",), options)
    cells = [row for _, row, fault in islice(rows, SAMPLE) if not fault and any(row)]
    body = [row for row in cells[1:] if len(row) == len(cells[0])]
    if not body or options.header == "no":
        return {}
    return {name.strip(): [row[place].strip() for row in body] for place, name in enumerate(cells[0]) if name.strip()}


@contextmanager
def offered(source: Source, options: "ClassifyOptions") -> Iterator[None]:
    """An error of reading one label says where there are several columns of labels, which nobody merges unasked."""
    try:
        yield
    except ValueError as error:
        place = parts_of(source.data).get("train", source.data)
        try:
            names = () if options.names else label_columns(place, options)
        except (ValueError, OSError):
            names = ()
        if not names:
            raise
        few = ", ".join(names[1:4]) + (", ..." if len(names) > 4 else "")
        raise ValueError(f"{error}; or, if {few} are labels that a text has or has not: labels=many") from None
