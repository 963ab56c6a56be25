"""The one registry of the forms that files come in. Whoever must know what a file is asks `form_of(path)`.

A new form is a constant here and its name in `FORMS`. A table with another separator, or another ending, is one line; objects
in another packing come with a reader, a function from (path, encoding, keys) to (number, object, what is wrong), which is
imported when it is called. Training, `mirada run --data`, `eval` and `check` read it from then on, and errors name it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Objects = Iterator[tuple[int, Any, str]]  # its line or its place in a list, from 1; the value, or None; what is wrong


def _json_objects(path: str, encoding: str, _: Sequence[str]) -> Objects:
    from mirada.data.files.json import json_objects

    return json_objects(path, encoding)


def _parquet_objects(path: str, _: str, keys: Sequence[str]) -> Objects:
    from mirada.data.files.parquet import parquet_objects

    return parquet_objects(path, tuple(keys))


@dataclass(frozen=True)
class FileForm:
    """A form that files come in.

    Args:
        name: what people call it.
        endings: of the names of such files, in small letters and without `.gz`.
        holds: what a file has: a table of cells, objects with keys, a text in every line, one text, media or arrays.
        separator: what divides the cells of a line by default; lines of text may be a table, too.
        objects: the reader of objects; it may skip values under other keys than the given ones.
        signature: how such files begin, where a wrong ending must not mislead.
        task: the task that learns from folders of such files.
    """

    name: str
    endings: tuple[str, ...]
    holds: Literal["table", "objects", "lines", "text", "pictures", "recordings", "arrays", ""]
    separator: str = ""
    objects: Callable[[str, str, Sequence[str]], Objects] | None = None
    signature: bytes = b""
    task: str = ""

    @property
    def is_table(self) -> bool:
        """Whether files of this form have columns, and nothing else."""
        return self.holds in ("table", "objects")

    @property
    def has_rows(self) -> bool:
        """Whether such a file can be read row by row: a table, or lines that may be one."""
        return self.is_table or bool(self.separator)


CSV = FileForm("CSV", (".csv",), "table", separator=",")
TSV = FileForm("TSV", (".tsv",), "table", separator="\t")
TEXT = FileForm("text", (".txt",), "lines", separator="\t")
BARE = FileForm("text without an ending", ("",), "lines")
PROSE = FileForm("text", (".text", ".md"), "text")
JSON = FileForm("JSON", (".json",), "objects", objects=_json_objects)
JSONL = FileForm("JSON lines", (".jsonl", ".json-lines", ".ndjson"), "objects", objects=_json_objects)
PARQUET = FileForm("Parquet", (".parquet",), "objects", objects=_parquet_objects, signature=b"PAR1")
PICTURES = FileForm(
    "pictures", holds="pictures", task="recognize",
    endings=(".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".tga"),
)  # fmt: skip
RECORDINGS = FileForm("recordings", (".wav",), "recordings", task="transcribe")
CONLL = FileForm("CoNLL", (".conll", ".conllu", ".bio", ".iob", ".iob2"), "lines", task="tag")
NPZ = FileForm("NumPy arrays", (".npz",), "arrays")
FORMS = (CSV, TSV, TEXT, BARE, PROSE, JSON, JSONL, PARQUET, PICTURES, RECORDINGS, CONLL, NPZ)
UNKNOWN = FileForm("unknown", (), "")
ROW_ENDINGS = tuple(ending for form in FORMS if form.has_rows for ending in form.endings)
TABLE_TEXT_ENDINGS = tuple(ending for form in FORMS if form.separator for ending in form.endings)
ANSWER_ENDINGS = tuple(form.endings[0] for form in (CSV, TSV, JSONL))  # tables that are written


def ending_of(path: str) -> str:
    """The ending that decides the form: `.tsv` of `pairs.tsv.gz`."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


def form_of(path: str) -> FileForm:
    """The form of a file, by the ending of its name.

    >>> form_of("pairs.tsv.gz").name, form_of("qa.ndjson") is JSONL, form_of("a.tex") is UNKNOWN
    ('TSV', True, True)
    """
    ending = ending_of(path)
    return next((form for form in FORMS if ending in form.endings), UNKNOWN)
