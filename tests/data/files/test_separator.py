"""The separator is recognized by the columns that it yields."""

from pathlib import Path

import pytest

from mirada.data.files.csv import Dialect, of_numbers, sniffed

CLASSES = ("text", "label")


def found(tmp_path: Path, text: str, usual: str = ",") -> Dialect:
    path = tmp_path / "a"
    path.write_text(text, encoding="utf-8")
    return sniffed(str(path), usual, CLASSES)


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
    assert found(tmp_path, text).delimiter == delimiter


def test_two_equally_good_columns_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"a: its lines can be divided at 2 characters. Say which: separator=',' or sep"
    ):
        found(tmp_path, "well, yes;pos\nwell, no;neg\n")


def test_blanks_before_quotes(tmp_path: Path) -> None:
    assert found(tmp_path, '"a, b", "pos"\n"c", "neg"\n') == Dialect(",", spaced=True)
    assert found(tmp_path, '"a, b","pos"\n"c","neg"\n') == Dialect(",")
    assert found(tmp_path, "a, pos\nb, neg\n") == Dialect(",")


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
    assert found(tmp_path, text, "\t") == Dialect("\t", quoted)


def test_a_table_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time;x\n1;3,5\n2;4,5\n")
    assert of_numbers(str(path)) == ";"
    assert sniffed(str(path), ",", ("", "")).delimiter == ";"
    path.write_text("time,x\n1,3.5\n2,4.5\n")
    assert of_numbers(str(path)) == ""
    assert sniffed(str(path), ",", ("", "")).delimiter == ","
