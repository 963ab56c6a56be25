"""Records from a user's file: TSV, CSV, JSON lines, Parquet, or aligned text files, and the bad ones named.

path -> format by its ending -> rows of cells, or objects -> the cells that were asked for -> records and problems
"""

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NoReturn

from mirada.data.header import recognize
from mirada.data.options import TableOptions
from mirada.data.record import Problem, Record
from mirada.data.separator import sniffed
from mirada.data.text import nfc, opened, scan
from mirada.errors import require, unknown

Fields = tuple[str, ...]  # of a record
TableRow = Record[Fields]
Rows = Iterator[tuple[int, list[str], str]]  # the number of the line, its cells, what is wrong with it
Objects = Iterator[tuple[int, Any, str]]  # the same with a value in the place of cells; None is an empty line
SEPARATORS = {".tsv": "<TAB>", ".txt": "<TAB>", ".csv": ","}
USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # separators by the ending of a path
SAMPLE = 500  # rows that tell the columns
AS_IT_COMES = TableOptions()
OBJECTS = (".jsonl", ".json-lines", ".ndjson", ".parquet")


@dataclass(frozen=True)
class Read:
    """What a file holds, in its order. The value of a record are its fields, stripped and never empty."""

    records: tuple[TableRow, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()  # what was recognized, for the person


class Sorter:
    """Good records to one side, problems to the other. Empty lines are problems, except at the end of the file."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.records: list[TableRow] = []
        self.problems: list[Problem] = []
        self.blank: list[str] = []  # where the empty lines are that nothing has followed yet

    def take(self, where: str, cells: Iterable[str]) -> None:
        fields = tuple([cell.strip() for cell in cells])  # a list is quicker than a generator
        if "" in fields:
            empty = " and ".join(name for name, field in zip(self.columns, fields, strict=True) if not field)
            self.refuse(where, f"no text for {empty}. Fill it in, or take the record out.")
            return
        if self.blank:
            self.flush()
        self.records.append(Record(where, fields))

    def refuse(self, where: str, what: str) -> None:
        self.flush()
        self.problems.append(Problem(where, what))

    def flush(self) -> None:
        self.problems += [Problem(where, "empty line. Take it out.") for where in self.blank]
        self.blank = []

    def read(self, note: str = "") -> Read:
        return Read(tuple(self.records), tuple(self.problems), (note,) if note else ())


def read_records(data: str | Path, columns: tuple[str, ...], options: TableOptions = AS_IT_COMES) -> Read:
    r"""Read what a user passed as `--data`: one file, or one text file per column, with commas between them.

    `columns` are our words for the fields. `options.columns` chooses cells by the names in the header, by the keys of the
    objects, or by numbers from 1. Without it, a header is recognized, and what was taken is noted.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "pairs.tsv")
    >>> _ = path.write_text("the house\tla casa\nthe red house\n")
    >>> read = read_records(path, ("source", "target"))
    >>> read.records[0].value
    ('the house', 'la casa')
    >>> read.problems[0].what
    'expected 2 columns, found 1. Each line is source<TAB>target.'
    """
    count, names = len(columns), options.names
    require(
        len(names) in (0, count),
        f"columns= must name {count} ({', '.join(columns)}): got {len(names)} ({','.join(names)})",
    )
    path = str(data)
    if "," in path and not os.path.exists(os.path.expanduser(path)):
        require(not names, f"columns= chooses columns of one file: got {','.join(names)} for {path}. Leave it out.")
        return read_aligned([part.strip() for part in path.split(",")], columns, options.encoding)
    ending = ending_of(path)
    if ending == ".parquet":
        return read_objects(path, parquet_objects(path, names or columns), columns, names)
    if ending in OBJECTS:
        return read_objects(path, json_objects(path, options.encoding), columns, names)
    delimiter = options.delimiter or sniffed(path, USUAL.get(ending, ""), count, options.encoding)
    if not delimiter:
        error = unknown("format", ending, [*SEPARATORS, *OBJECTS])
        raise ValueError(f"{path}: {error} Aligned text files are given as one.en,other.es.")
    plain = delimiter == "\t" and ending != ".csv"  # quotes are letters there
    rows = tab_rows(path, options.encoding) if plain else quoted_rows(path, delimiter, options.encoding)
    return read_table(path, rows, columns, options, "<TAB>" if delimiter == "\t" else delimiter)


def ending_of(path: str) -> str:
    """The ending that tells the format: `.tsv` of `pairs.tsv.gz`."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def read_aligned(paths: list[str], columns: tuple[str, ...], encoding: str = "") -> Read:
    """One text file per column: line i of each makes record i."""
    require(
        len(paths) == len(columns),
        f"aligned files are one per column ({', '.join(columns)}): got {len(paths)}: {', '.join(paths)}",
    )
    for path in paths:
        table = ending_of(path) in (".tsv", ".csv", *OBJECTS)
        require(not table, f"{path}: a table among aligned text files. Give one table: join several into one file.")
    sorter, files = Sorter(columns), [scan(path, encoding) for path in paths]
    for number, lines in enumerate(zip_longest(*files), 1):
        if None in lines:
            counts = [number - (line is None) + sum(1 for _ in rest) for line, rest in zip(lines, files, strict=True)]
            raise ValueError(
                "aligned files must have equally many lines: "
                + ", ".join(f"{path} has {count}" for path, count in zip(paths, counts, strict=True))
                + ". Line i of each belongs to line i of the others: find the line that is missing or too many."
            )
        faults = [(path, line[2]) for path, line in zip(paths, lines, strict=True) if line[2]]
        for path, fault in faults:
            sorter.refuse(f"{path}:{number}", fault)
        if not any(line[1].strip() for line in lines):
            sorter.blank.append(f"{paths[0]}:{number}")
        elif not faults:
            sorter.take(f"{paths[0]}:{number}", [line[1] for line in lines])
    return sorter.read()


# Tables: rows of cells


def tab_rows(path: str, encoding: str = "") -> Rows:
    for number, text, fault in scan(path, encoding):
        yield number, text.split("\t"), fault


class Feed:
    """Lines for the CSV reader, which says nothing about where a record began or that a line of it was bad."""

    def __init__(self, path: str, encoding: str = "") -> None:
        self.lines = scan(path, encoding)
        self.number = 0
        self.bad: tuple[int, str] | None = None  # the first bad line of the record

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> str:
        self.number, text, fault = next(self.lines)
        if fault and self.bad is None:
            self.bad = self.number, fault
        return text + "\n"


def quoted_rows(path: str, delimiter: str = ",", encoding: str = "") -> Rows:
    """The records of a CSV file. A bad line is parsed with the others, so that its quotes count, and refused then.

    RFC 4180.
    """
    feed = Feed(path, encoding)
    reader = csv.reader(feed, strict=True, delimiter=delimiter)
    while True:
        first, feed.bad = feed.number + 1, None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # in a field without end, what follows may be inside or outside of it: it would be guessed
            endless = "limit" in str(error)
            lost = "The rest of the file is" if endless else f"Line {first} to line {feed.number} is"
            way_out = 'Put the field in quotes and write a quote in it as "".'
            yield first, [], f"broken quotes: {error} in line {feed.number}. {lost} left out. {way_out}"
            if endless:
                return
        else:
            yield (first, cells, "") if feed.bad is None else (feed.bad[0], [], feed.bad[1])


@dataclass(frozen=True)
class Layout:
    """Which cells of a row make a record; rows have `cells` of them, or at least so many if the others may vary."""

    picked: tuple[int, ...]
    cells: int
    at_least: bool

    def fits(self, cells: int) -> bool:
        return cells == self.cells or (self.at_least and cells > self.cells)


def read_table(path: str, rows: Rows, columns: tuple[str, ...], options: TableOptions, separator: str) -> Read:
    """The records of a table: where its fields stand is said, or recognized from its first rows."""
    form, names = f"Each line is {separator.join(columns)}.", options.names
    layout, note = Layout(tuple(range(len(columns))), len(columns), at_least=False), ""
    if names and all(name.isascii() and name.isdecimal() for name in names):
        picked = tuple(int(name) - 1 for name in names)
        require(min(picked) >= 0, f"columns= counts from 1: got {','.join(names)}")
        layout = Layout(picked, max(picked) + 1, at_least=True)
        rows = islice(rows, 1, None) if options.header == "yes" else rows
    elif names:
        number, cells, fault = next(rows)
        layout = by_header(f"{path}:{number}", [cell.strip() for cell in cells], names, fault)
    else:
        sample = list(islice(rows, SAMPLE))
        whole = [cells for _, cells, fault in sample if not fault and any(map(str.strip, cells))]
        found = recognize(whole, columns, options.header) if whole and not sample[0][2] else None
        if found is not None:
            layout, note = Layout(found.picked, len(whole[0]), at_least=False), found.note and f"{path}: {found.note}"
            if found.header:  # blank lines may stand before it
                del sample[next(place for place, row in enumerate(sample) if any(map(str.strip, row[1])))]
        rows = chain(sample, rows)
    sorter, picked = Sorter(columns), layout.picked
    as_they_are = picked == tuple(range(layout.cells)) and not layout.at_least
    for number, cells, fault in rows:
        where = f"{path}:{number}"
        if fault:
            sorter.refuse(where, fault)
        elif not any(map(str.strip, cells)):
            sorter.blank.append(where)
        elif layout.fits(len(cells)):
            sorter.take(where, cells if as_they_are else [cells[place] for place in picked])
        else:
            sorter.refuse(where, f"{misfit(layout, cells, separator)} {form if not names else ''}".rstrip())
    return sorter.read(note)


def by_header(where: str, header: list[str], names: tuple[str, ...], fault: str) -> Layout:
    """The layout of a table whose first line names its columns."""
    require(not fault, f"{where}: the header cannot be read: {fault}")
    numbers = f"columns={','.join(str(number) for number in range(1, len(names) + 1))}"
    for name in names:
        if name not in header:
            raise ValueError(f"{where}: {unknown('column', name, header)} Without header, say {numbers}.")
        require(header.count(name) == 1, f"{where}: several columns are named {name!r}. Rename all but one.")
    return Layout(tuple(header.index(name) for name in names), len(header), at_least=False)


def misfit(layout: Layout, cells: list[str], separator: str) -> str:
    """What is wrong with a row that has too few cells, or too many."""
    least = "at least " if layout.at_least else ""
    fault = f"expected {least}{layout.cells} column{'s' * (layout.cells > 1)}, found {len(cells)}."
    if len(cells) > layout.cells:
        some = ",".join(str(place + 1) for place in layout.picked)
        return f"{fault} Choose columns by number, columns={some}, or by the names in the first line."
    return fault


# Objects: values by key


class Number(str):
    """A number as it is written in the file: 1e3 stays 1e3."""


def refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a value")


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=refuse_constant)


def json_objects(path: str, encoding: str = "") -> Objects:
    for number, text, fault in scan(path, encoding):
        value = None
        if not fault and text.strip():
            try:
                value = DECODER.decode(text)
                if not isinstance(value, dict):
                    fault = f"expected an object, found {kind_of(value)}. Each line is an object."
            except json.JSONDecodeError as error:
                fault = f"not JSON: {error.msg} at character {error.colno}. Each line is an object."
            except (ValueError, RecursionError) as error:
                fault = f"not JSON: {error}. Each line is an object."
        yield number, value, fault


def parquet_objects(path: str, wanted: tuple[str, ...]) -> Objects:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet files are read by pyarrow. Install it: pip install pyarrow") from None
    number = 0
    with opened(path) as file:
        try:
            table = parquet.ParquetFile(file)
            outer = {name.split(".")[0] for name in wanted}
            known = outer <= set(table.schema_arrow.names)  # else all columns, for the error that names them
            for batch in table.iter_batches(columns=sorted(outer) if known else None):
                for value in batch.to_pylist():
                    number += 1
                    yield number, value, ""
        except pyarrow.ArrowException as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{path}: not a Parquet file, or a damaged one: {reason} Copy it again.") from None


def read_objects(path: str, objects: Objects, columns: tuple[str, ...], names: tuple[str, ...]) -> Read:
    sorter, wanted = Sorter(columns), names or columns
    keys: dict[str, bool] = {}  # every key of the file, and whether it held text where it came first
    for number, value, fault in objects:
        where = f"{path}:{number}"
        if fault or value is None:
            sorter.refuse(where, fault) if fault else sorter.blank.append(where)
            continue
        found = flat(value)
        keys |= {key: type(value) is str for key, value in found.items() if key not in keys}
        faults, cells = [], []
        for column, name in zip(columns, wanted, strict=True):
            cell, fault = text_of(found[name]) if name in found else ("", f"no {name!r} in the object.")
            faults += [f"{column} is {fault}." if name in found else fault] if fault else []
            cells.append(cell)
        if faults:
            sorter.refuse(where, " ".join(faults))
        else:
            sorter.take(where, cells)
    absent = [name for name in wanted if name not in keys]
    if absent and keys:
        raise ValueError(f"{path}: {absence(absent, keys, columns, names)}")
    return sorter.read()


def absence(absent: list[str], keys: dict[str, bool], columns: tuple[str, ...], names: tuple[str, ...]) -> str:
    """The error for keys that no object of the file has."""
    texts = [key for key, is_text in keys.items() if is_text]
    if not names and len(absent) == len(columns) == len(texts):
        return f"no object has the keys {', '.join(absent)}. Name those of your file: columns={','.join(texts)}"
    return f"{unknown('key', absent[0], keys)} Name the {len(columns)} to read: columns=KEY,..."


def flat(value: dict[str, Any], before: str = "") -> dict[str, Any]:
    """The values of an object by key, those of an object in it by `outer.inner`.

    >>> flat({"translation": {"en": "a house"}})["translation.en"]
    'a house'
    """
    found: dict[str, Any] = {}
    for key, item in value.items():
        found[before + key] = item
        if isinstance(item, dict):
            found |= flat(item, f"{before}{key}.")
    return found


def text_of(value: object) -> tuple[str, str]:
    """The text of a value, and what is wrong with it, or nothing."""
    if isinstance(value, str):
        if "\0" in value:
            return "", "not text: it has a NUL character"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "", "not text: it has half a character (a lone surrogate)"
        return nfc(value), ""
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value), ""
    return "", f"{kind_of(value)}, not text"


def kind_of(value: object) -> str:
    """A value in words: `a list`."""
    words = {
        type(None): "null",
        list: "a list",
        dict: "an object",
        str: "a text",
        Number: "a number",
        float: "a number",
    }
    return words.get(type(value), f"of type {type(value).__name__}")
