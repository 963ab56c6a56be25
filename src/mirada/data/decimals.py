"""Columns of cells as numbers, and what is wrong with a cell that is none."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirada.data.numbers import TELLING, decimal_mark, parse_number, usual_mark
from mirada.errors import require

EMPTY = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", "?")  # ways to write that there is no number
SIGNS = re.compile(r"^[$€£¥]\s*|(?<=^[+-])[$€£¥]\s*|\s*[$€£¥%]$")
NUMERIC = 0.5  # share of the cells of a column that must be numbers for the column to be one of numbers

Column = NDArray[np.float64]


def numbers(cells: Sequence[Any], separator: str = ",", usual: str = "") -> tuple[Column, dict[int, str]]:
    """The numbers of a column, and for each cell that is none, what is wrong with it; NaN stands there.

    In a table that commas do not divide, 1,234 is a bit more than one; where they do, it is a quoted number of thousands.
    `usual` is the decimal mark of other columns. A sign of money or % beside a number says nothing about it.

    >>> numbers(["3,5", "1.234,5", ""], ";")
    (array([   3.5, 1234.5,    nan]), {2: 'no number'})
    >>> numbers(["1,234", "7", "many", "inf"])[1]
    {2: "text 'many'", 3: "an infinite number 'inf'"}
    >>> numbers(["$1,234.50", "-$7", "8 %"])[0]
    array([1234.5,   -7. ,    8. ])
    """
    try:
        require(usual != ",", "a point may divide thousands")
        found = np.asarray(cells, dtype=np.float64)
    except (ValueError, TypeError):
        mark = decimal_mark(texts_in(cells), separator, usual)
        found = np.array([one_number(bare(cell), mark) for cell in cells])
    return np.where(np.isfinite(found), found, np.nan), {
        row: fault(cells[row], float(found[row])) for row in np.flatnonzero(~np.isfinite(found)).tolist()
    }


def mark_of(columns: Sequence[Sequence[Any]]) -> str:
    """The decimal mark of a table, as far as its columns agree on one; nothing where no number has a comma."""
    some = (cell for cells in columns for cell in islice(cells, TELLING))
    return usual_mark(map(texts_in, columns)) if any(isinstance(cell, str) and "," in cell for cell in some) else ""


def texts_in(cells: Sequence[Any]) -> Iterator[str]:
    """What is written in the cells of a column."""
    return (bare(cell) for cell in cells if isinstance(cell, str))


def bare(cell: Any) -> Any:
    """A number without a sign of money or %; anything else as it is.

    >>> bare("$1,234.50"), bare("-€7"), bare("8 %"), bare(3.5)
    ('1,234.50', '-7', '8', 3.5)
    """
    return SIGNS.sub("", cell.strip()) if isinstance(cell, str) else cell


def one_number(cell: Any, mark: str) -> float:
    """The number that a cell spells; infinite or NaN where it spells none that is finite."""
    found = parse_number(cell, mark) if isinstance(cell, str) else None
    try:
        return float(cell) if found is None else found
    except (ValueError, TypeError):
        return math.nan


def fault(cell: Any, value: float) -> str:
    """What is wrong with a cell that has no finite number."""
    text = "" if cell is None else str(cell).strip()
    if text.casefold() in EMPTY:
        return "no number"
    return f"an infinite number {text!r}" if math.isinf(value) else f"text {text[:40]!r}"


def is_numeric(cells: Sequence[Any], faults: dict[int, str]) -> bool:
    """Whether a column is one of numbers, although some of its cells may be none."""
    filled = len(cells) - sum(what == "no number" for what in faults.values())
    wrong = sum(what.startswith("text") for what in faults.values())
    return filled > 0 and filled - wrong >= NUMERIC * filled
