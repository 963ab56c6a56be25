"""The separator is recognized by the columns that it yields."""

from pathlib import Path

import pytest

from mirada.data.files.records import Rows, of_numbers, rows_of_table, table_rows
from mirada.data.options import TableOptions

CLASSES = ("text", "label")


def read(tmp_path: Path, text: str, name: str = "a.csv") -> tuple[Rows, str]:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return rows_of_table(str(path), CLASSES, TableOptions())


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("text;label\nwell, yes;pos\nwell, no;neg\n", ";"),  # the header decides
        ("a film;3,5\nb film;4,0\nc film;2,5\nd film;1,0\n", ";"),  # a comma between digits is decimal
        ("a, b;3,5\nb film;4,0\nc film;2,5\nd film;1,0\n", ";"),  # only ; divides all lines alike
        ('1,"a; b",x\n2,"c; d",y\n', ","),  # quotes stand beside a separator
        ("a\tb, c; d\ne\tf, g; h\n", "\t"),
        ("sep=|\na|b\n", "|"),
        ("a film\n", ","),
    ],
)
def test_the_separator(tmp_path: Path, text: str, delimiter: str) -> None:
    assert read(tmp_path, text)[1] == delimiter


def test_two_equally_good_columns_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"a.csv: its lines can be divided at 2 characters. Say which: separator=',' or sep"
    ):
        read(tmp_path, "well, yes;pos\nwell, no;neg\n")


def test_the_line_that_states_the_separator_is_no_row(tmp_path: Path) -> None:
    assert [cells for _, cells, _ in read(tmp_path, "sep=|\na|b\nc|d\n")[0]] == [["a", "b"], ["c", "d"]]


def test_blanks_before_quotes(tmp_path: Path) -> None:
    for text, first in [
        ('"a, b", "pos"\n"c", "neg"\n', ["a, b", "pos"]),
        ('"a, b","pos"\n"c","neg"\n', ["a, b", "pos"]),
        ("a, pos\nb, neg\n", ["a", " pos"]),
    ]:
        rows, delimiter = read(tmp_path, text)
        assert (delimiter, next(rows)[1]) == (",", first)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('"He said ""no"""\tpos\nyes\tneg\n', True),
        ('"text"\t"label"\n"a"\t"b"\n', True),
        ('"two\nlines"\tpos\nyes\tneg\n', True),
        ('"No." she said\tpos\n', False),
        ('"No."\tpos\nyes\tneg\n', False),
        ('a " quote\tpos\n', False),
    ],
)
def test_quotes_between_tabs(tmp_path: Path, text: str, quoted: bool) -> None:
    rows, delimiter = read(tmp_path, text, "a.tsv")
    assert delimiter == "\t"
    assert any('"' in cell for _, cells, _ in rows for cell in cells) == (not quoted or '""' in text)


def test_a_table_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time;x\n1;3,5\n2;4,5\n")
    assert of_numbers(str(path)) == ";"
    assert table_rows(str(path), 2, TableOptions())[1] == ";"
    path.write_text("time,x\n1,3.5\n2,4.5\n")
    assert of_numbers(str(path)) == ""
    assert table_rows(str(path), 2, TableOptions())[1] == ","
