"""Parquet: the rows of a table as objects, some at a time.

A column of texts may have a dictionary: one long text, and a million rows that are it. So the longest text of a dictionary is
looked at before rows are made, and few of them are made at a time where it is long.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from mirada.data.files.opening import ENDLESS, opened
from mirada.errors import require

ROWS = 256  # in memory at a time
BATCH = 64 << 20  # bytes of these, about
TEXTS = ("STRING", "JSON", "ENUM", "NONE")  # what bytes may mean that are texts to us


def parquet_objects(path: str, wanted: tuple[str, ...]) -> Iterator[tuple[int, Any, str]]:
    """The rows of a file by number from 1, and what is wrong with each; only the columns of the keys that are wanted."""
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
            known = bool(outer) and outer <= set(table.schema_arrow.names)  # else all, for the error that names them
            columns = sorted(outer) if known else None
            counts = Counter(table.schema_arrow.names)
            twice = next((name for name in columns or counts if counts[name] > 1), None)
            require(twice is None, f"{path}: several columns are named {twice!r}. Rename all but one.")
            texts = text_columns(table.schema, columns)
            words = parquet.ParquetFile(file, metadata=table.metadata, read_dictionary=texts)
            for group in range(table.num_row_groups):
                longest = _longest_text(words, group, texts)
                rows = rows_at_a_time(table.metadata.row_group(group), columns, longest, path)
                for batch in table.iter_batches(rows, row_groups=[group], columns=columns):
                    for value, fault in batch_values(batch):
                        number += 1
                        yield number, value, fault
        except (pyarrow.ArrowException, OSError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise ValueError(f"{path}: not a Parquet file, or a damaged one: {reason} Copy it again.") from None


def text_columns(schema: Any, columns: Sequence[str] | None) -> list[str]:
    """The columns of texts among some, but for those in lists."""
    fields = [schema.column(place) for place in range(len(schema))]
    return [
        column.path
        for column in fields
        if column.physical_type == "BYTE_ARRAY"
        and column.max_repetition_level == 0
        and column.logical_type.type in TEXTS
        and (columns is None or column.path.split(".")[0] in columns)
    ]


def _longest_text(words: Any, group: int, texts: Sequence[str]) -> int:
    """The bytes of the longest text in a dictionary of a group of rows."""
    import pyarrow
    from pyarrow import compute

    about = words.metadata.row_group(group)
    parts = {part.path_in_schema: part for part in map(about.column, range(about.num_columns))}
    unknown = sorted(set(texts) - set(parts))
    if unknown:
        raise pyarrow.ArrowInvalid(f"its rows have no column {unknown[0]!r}.")
    longest = 0
    for name in texts:
        size = parts[name].total_uncompressed_size
        if not parts[name].has_dictionary_page or size * ROWS <= BATCH:
            continue
        # the first row comes with the dictionary of all
        first = next(words.iter_batches(1, row_groups=[group], columns=[name]), None)
        for dictionary in _dictionaries(first.column(0)) if first is not None else ():
            most = compute.max(compute.binary_length(dictionary)).as_py() or 0
            # one text may be of a page without a dictionary
            longest = max(longest, most if len(dictionary) > 1 else size)
    return longest


def _dictionaries(column: Any) -> Iterator[Any]:
    """The dictionaries of a column of texts, which may be in objects."""
    from pyarrow import types

    if types.is_dictionary(column.type):
        yield column.dictionary
    elif types.is_struct(column.type):
        for part in column.flatten():
            yield from _dictionaries(part)


def rows_at_a_time(group: Any, columns: Sequence[str] | None, longest: int, path: str) -> int:
    """How many rows of a group are read at once: by the size that the file states, and by its longest text."""
    parts = [group.column(place) for place in range(group.num_columns)]
    sizes = [
        part.total_uncompressed_size
        for part in parts
        if columns is None or part.path_in_schema.split(".")[0] in columns
    ]
    row = max(longest, sum(sizes) // max(1, group.num_rows))
    require(
        row <= ENDLESS,
        f"{path}: a row has {row >> 20:,} MB, and at most {ENDLESS >> 20} MB are read. Is it a table of texts?",
    )
    return max(1, min(ROWS, BATCH // max(1, row)))


def batch_values(batch: Any) -> list[tuple[Any, str]]:
    """The rows of a batch, or the values of an array, and what is wrong with them: a time out of range or in an unknown zone,
    or a text that is not UTF-8, is one row's.
    """
    try:
        return [(value, "") for value in batch.to_pylist()]
    except (ValueError, OverflowError, KeyError) as error:
        if len(batch) == 1:
            reason = " ".join(str(error).split())[:200]
            return [(None, f"a value cannot be read: {reason}. Take the row out, or store the value as text.")]
    return [row for place in range(len(batch)) for row in batch_values(batch.slice(place, 1))]
