"""A forecast as a table: the rows that come next, in the form of the rows that came before."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class NextRows:
    """A forecast: the values of the targets at the times to come."""

    time: str  # the name of the column of times; none where there is no such column
    times: tuple[str, ...]
    columns: tuple[str, ...]
    values: NDArray[np.float64]  # (horizon, targets)
    decimals: Sequence[int]

    def cells(self) -> list[list[str]]:
        """The values as they are written."""
        return [
            [f"{x:.{digits}f}" for x, digits in zip(row, self.decimals, strict=True)] for row in self.values.tolist()
        ]

    def text(self) -> str:
        """The rows as a CSV file."""
        return csv_text(*self.table())

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Columns and rows, as the file of the latest rows has them."""
        if not self.time:
            return self.columns, self.cells()
        return (self.time, *self.columns), [[time, *row] for time, row in zip(self.times, self.cells(), strict=True)]

    def more(self) -> dict[str, Any]:
        """What `--json` shows."""
        values = [[float(f"{x:.8g}") for x in row] for row in self.values.tolist()]
        return {"times": list(self.times), "columns": list(self.columns), "values": values}


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    return file.getvalue()
