"""Numbers with points, commas and thousands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.columns.contents import decimal_mark, parse_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0.0), (" 12 ", 12.0), ("+3.5", 3.5), ("-3,5", -3.5), ("\u22123", -3.0), (".5", 0.5), (",5", 0.5), ("5.", 5.0),
        ("1e3", 1000.0), ("1,5e-2", 0.015), ("1.234", 1.234), ("1,234", 1.234), ("0,123", 0.123),
        ("1.234,56", 1234.56), ("1,234.56", 1234.56), ("1.234.567", 1234567.0), ("1,234,567", 1234567.0),
        ("1,234,567.8", 1234567.8), ("1.234.567,8", 1234567.8), ("1'234.5", 1234.5), ("1'234'567", 1234567.0),
        ("1 234,5", 1234.5), ("1\u00a0234\u00a0567", 1234567.0), ("12\u202f345", 12345.0),
    ],
)  # fmt: skip
def test_a_number_is_read_as_it_is_meant(text: str, number: float) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["", " ", "-", ".", ",", "five", "1_000", "0x10", "nan", "inf", "-Infinity", "1e999", "1,2,3", "1.23.456", "12,34.5",
     "1,234.567,8", "1 2", "12 34", "2024-01-31", "12:30", "3 km", "1..5", "1,,5", "\u0663", "1e", "--1", "1'23", "1,234e5.5"],
)  # fmt: skip
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("1,234", ".", 1234.0), ("1,234", ",", 1.234), ("1.234", ",", 1234.0), ("1.234", ".", 1.234),
        ("1,23", ".", None), ("1.23", ",", None), ("1.234,5", ".", None), ("1,234.5", ",", None), ("950", ",", 950.0),
    ],
)  # fmt: skip
def test_a_mark_that_is_known_decides(text: str, decimal: str, number: float | None) -> None:
    assert parse_number(text, decimal) == number


@pytest.mark.parametrize(
    ("texts", "separator", "mark"),
    [
        (["1,234", "950"], ",", "."), (["1,234", "950"], ";", ","), (["1,234", "0,950"], ",", ","), (["1.5", "2"], ";", "."),
        (["1.234", "12,5"], ";", ","), (["1.234", "12.5"], ";", "."), (["", "text", "2024-01-31"], ";", "."), ([], "", "."),
        (["1.234"], ";", "."),
    ],
)  # fmt: skip
def test_the_numbers_of_a_file_tell_its_mark(texts: list[str], separator: str, mark: str) -> None:
    assert decimal_mark(texts, separator) == mark


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_whatever_python_writes_is_read(number: float) -> None:
    assert parse_number(repr(number)) == number
    assert parse_number(repr(number).replace(".", ",")) == number


@given(st.floats(-1e9, 1e9), st.sampled_from([(",", "."), (".", ","), ("'", "."), (" ", ","), ("\u202f", ",")]))
def test_thousands_and_fractions_of_every_country(number: float, marks: tuple[str, str]) -> None:
    text = f"{number:,.2f}".translate({ord(","): marks[0], ord("."): marks[1]})
    assert parse_number(text) == parse_number(text, marks[1]) == float(f"{number:.2f}")


@given(st.text(max_size=12))
def test_nothing_is_raised(text: str) -> None:
    parse_number(text)
    assert decimal_mark([text]) in (".", ",")
