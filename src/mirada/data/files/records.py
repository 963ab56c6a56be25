"""Records from a user's file: TSV, CSV, JSON, Parquet, fastText, folders, or aligned text files, and the bad ones named.

path -> format by its ending -> rows of cells, or objects -> the cells that were asked for -> records and problems
"""

import os
from itertools import zip_longest
from pathlib import Path

from mirada.data.columns.contents import CLASSES
from mirada.data.files.csv import Rows, quoted_rows, read_table, sniffed, tab_rows, without_separator_line
from mirada.data.files.folders import is_fasttext, is_folder, read_class_folders, read_fasttext
from mirada.data.files.forms import ROW_ENDINGS, ending_of, form_of
from mirada.data.files.json import read_objects
from mirada.data.files.opening import scan
from mirada.data.options import TableOptions
from mirada.data.record import Read, RecordCollector
from mirada.errors import require, unknown

AS_IT_COMES = TableOptions()


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
        return _read_aligned([part.strip() for part in path.split(",")], columns, options.encoding)
    if columns == CLASSES and is_folder(path):
        return read_class_folders(path, columns, options.encoding)
    if read := form_of(path).objects:
        return read_objects(read(path, options.encoding, names or columns), path, columns, names)
    if columns == CLASSES and not options.tells_a_table and is_fasttext(path, options.encoding):
        return read_fasttext(path, columns, options.encoding)
    rows, delimiter = rows_of_table(path, columns, options)
    return read_table(path, rows, columns, options, delimiter)


def table_rows(path: str, count: int, options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table of at least `count` columns, whatever they are called, and its separator as it is shown."""
    rows, delimiter = rows_of_table(path, ("",) * count, options)
    return rows, "<TAB>" if delimiter == "\t" else delimiter


def rows_of_table(path: str, columns: tuple[str, ...], options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table in which these columns are looked for, and the character that divides them."""
    dialect = sniffed(path, form_of(path).separator, columns, options.encoding, options.delimiter)
    if not dialect.delimiter:
        error = unknown("format", ending_of(path), ROW_ENDINGS)
        raise ValueError(f"{path}: {error} Aligned text files are given as one.en,other.es.")
    rows = tab_rows(path, options.encoding)
    if dialect.quoted:
        rows = quoted_rows(path, dialect.delimiter, options.encoding, dialect.spaced)
    return without_separator_line(rows, dialect.delimiter), dialect.delimiter


def _read_aligned(paths: list[str], columns: tuple[str, ...], encoding: str = "") -> Read:
    """One text file per column: line i of each makes record i."""
    require(
        len(paths) == len(columns),
        f"aligned files are one per column ({', '.join(columns)}): got {len(paths)}: {', '.join(paths)}",
    )
    for path in paths:
        require(
            not form_of(path).is_table,
            f"{path}: a table among aligned text files. Give one table: join several into one file.",
        )
    sorter, files = RecordCollector(columns), [scan(path, encoding) for path in paths]
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
            sorter.skip(f"{paths[0]}:{number}")
        elif not faults:
            sorter.take(f"{paths[0]}:{number}", [line[1] for line in lines])
    return sorter.read()
