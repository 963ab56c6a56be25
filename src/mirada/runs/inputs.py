"""Inputs from a file, without the answers to them, and the file that the answers are written to."""

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from mirada.data.options import TableOptions
from mirada.errors import require
from mirada.files import ending_to_write
from mirada.runs.answers import Answer
from mirada.words import ESCAPED, json_text

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]  # the names of the columns, and the rows
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also in full width
CONTROLS = {code: sign for code, sign in ESCAPED.items() if chr(code) != "\r"}  # as a terminal would show them
ADDED = ("answer", "score", "error")


@dataclass(frozen=True, eq=False)
class Question:
    """An input, its place, and the other cells of its row. One that cannot be read has an error."""

    where: str
    input: Any
    cells: tuple[Any, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Questions:
    """The inputs of a file, and what its columns are called."""

    columns: tuple[str, ...]
    rows: Sequence[Question]
    notes: Sequence[str] = ()  # what was recognized, for the person


def table_questions(
    place: str, asks: tuple[str, ...], options: TableOptions, parse: Callable[[str], Any]
) -> Questions:  # fmt: skip
    """The inputs in one column of a table, or the lines of a text file."""
    from mirada.data.files.cells import read_cells  # answers to a command line read no file

    table = read_cells(place, asks, options)

    def question(where: str, cells: tuple[str, ...], fault: str) -> Question:
        given = cells[table.input] if not fault else ""
        try:
            require(not fault, fault)
            return Question(where, parse(given), cells)
        except ValueError as error:
            return Question(where, given, cells, str(error))

    return Questions(table.columns, [question(*row) for row in table.rows], table.notes)


def answered_table(questions: Questions, answers: Sequence[Answer]) -> Table:
    """What was in the file, then answer, score and error; a column of the file that is called so keeps its name, with a mark."""
    columns = _unlike([f"{name}_given" if name in ADDED else name for name in questions.columns])
    width = len(columns)
    rows = (
        (
            *_fitted(question.cells, width),
            answer.text,
            "" if answer.error or math.isnan(answer.score) else answer.score,
            answer.error,
        )
        for question, answer in zip(questions.rows, answers, strict=True)
    )
    return (*columns, *ADDED), rows


def _unlike(names: Sequence[str]) -> list[str]:
    """Names of columns, those that come again with a number: a row of JSON has each once.

    >>> _unlike(["text", "label", "label"])
    ['text', 'label', 'label_2']
    """
    unique: list[str] = []
    for name in names:
        others = (f"{name}_{number}" for number in count(2))
        unique.append(name if name not in unique else next(other for other in others if other not in (*unique, *names)))
    return unique


def _fitted(cells: Sequence[Any], width: int) -> tuple[Any, ...]:
    """The cells of a row, as many as there are columns."""
    return (*cells[:width], *[""] * (width - len(cells)))


def check_out(out: str, source: str) -> None:
    """Refuse a file for answers before anything is computed: of a form that is unknown, or the file of the inputs itself."""
    from mirada.data.files.forms import ANSWER_ENDINGS

    ending_to_write(out, ANSWER_ENDINGS)
    same = os.path.exists(source) and os.path.exists(out) and os.path.samefile(source, out)
    require(not same, f"{out} is the file of the inputs: answers go to another file")


def table_text(out: str, table: Table) -> str:
    r"""A table as a file of the form that its name says.

    >>> table_text("a.tsv", (("text", "score"), [("a\tb", 0.5)]))
    'text\tscore\na b\t0.5\n'
    >>> table_text("a.jsonl", (("text", "score"), [("a", 0.5)]))
    '{"text": "a", "score": 0.5}\n'
    """
    from mirada.data.files.forms import JSONL, TSV, form_of

    columns, rows = table
    form = form_of(out)
    if form is JSONL:
        objects = ({name: _number_or(value) for name, value in zip(columns, row, strict=True)} for row in rows)
        return "".join(json_text(item) + "\n" for item in objects)
    lines = ([_harmless(_cell_text(cell)) for cell in row] for row in (columns, *rows))
    if form is TSV:  # quotes are letters there: a cell has neither tabs nor line ends
        return "".join("\t".join(" ".join(cell.split()) for cell in line) + "\n" for line in lines)
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def _harmless(text: str) -> str:
    r"""A cell of a table as text: a spreadsheet would execute what begins with = + - @, and a terminal a control character.

    A number stays a number.

    >>> [_harmless(text) for text in ("=cmd|' /C calc'!A0", "-2.5", "@SUM(A1)", "a\x1b[31mb", " =1+1", "fine")]
    ["'=cmd|' /C calc'!A0", '-2.5', "'@SUM(A1)", 'a\\x1b[31mb', "' =1+1", 'fine']
    """
    start = text.lstrip("\t\r\n \u00a0\ufeff\u200b")
    if start.startswith(FORMULA) and len(start) > 1 and not _is_number(text):
        text = f"'{text}"
    return text if text.isprintable() else text.translate(CONTROLS)


def _is_number(text: str) -> bool:
    """Whether a cell is a number, also of a language with a decimal comma."""
    from mirada.data.columns.contents import is_number

    try:
        return is_number(text.strip()) or math.isinf(float(text))
    except ValueError:
        return False


def _number_or(value: Any) -> Any:
    """A value of a JSON file, with numbers as numbers, which are read as they are written.

    >>> from mirada.data.files.json import Number
    >>> _number_or({"a": [Number("5"), Number("2.50"), Number("1e999")], "b": "7"})
    {'a': [5, 2.5, '1e999'], 'b': '7'}
    """
    from mirada.data.files.json import Number

    if isinstance(value, dict):
        return {key: _number_or(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number_or(item) for item in value]
    if not isinstance(value, Number):
        return value
    try:
        parsed = json.loads(value)
    except ValueError:  # more digits than Python reads
        return str(value)
    return parsed if isinstance(parsed, int) or math.isfinite(parsed) else str(value)


def _cell_text(value: Any) -> str:
    """A value in a cell of a table: nothing where there is none, and what is no text as JSON writes it.

    >>> from mirada.data.files.json import Number
    >>> [_cell_text(value) for value in ("a", 0.5, None, True, {"a": [Number("5")]})]
    ['a', '0.5', '', 'true', '{"a": [5]}']
    """
    if isinstance(value, bool | dict | list):
        return json_text(_number_or(value))
    return "" if value is None else str(value)
