"""Small tables."""

import pytest

from mirada.drawing import DataTable
from tests.drawing.parsed import page_of, rows_of


def test_a_table_has_every_cell() -> None:
    root = page_of(DataTable("By length", ("tokens", "BLEU"), (("1 to 10", 41.204), (20, None), ("all", "n/a"))))
    assert rows_of(root.all("table")[0]) == [["tokens", "BLEU"], ["1 to 10", "41.2"], ["20", "\u2013"], ["all", "n/a"]]


def test_a_cell_per_column() -> None:
    with pytest.raises(ValueError, match="a cell per column: row 0 has 1 for 2 columns"):
        DataTable("t", ("a", "b"), (("x",),))
