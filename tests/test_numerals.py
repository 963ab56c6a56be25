"""Numbers as they are written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.words import number, weight
from tests.drawing.parsed import INF, NAN


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234, "1,234"), (0.012345, "0.0123"), (0, "0"), (-0.0, "0"), (100, "100"), (999.96, "1,000"), (12.5, "12.5"),
     (34.2678, "34.27"), (1.23456, "1.235"), (-2.5, "-2.5"), (0.00031, "0.00031"), (3e-5, "3e-5"), (1.25e20, "1.25e20"),
     (3421568, "3,421,568"), (1234.4, "1,234"), (None, "\u2013"), (NAN, "nan"), (INF, "inf"), (-INF, "-inf")],
)  # fmt: skip
def test_numbers_by_hand(value: float | None, text: str) -> None:
    assert number(value) == text


@given(value=st.floats(-1e14, 1e14))
def test_a_written_number_is_near(value: float) -> None:
    assert math.isclose(float(number(value).replace(",", "")), value, rel_tol=6e-3, abs_tol=1e-300)


@given(value=st.floats(-1, 1))
def test_a_weight_is_short_and_near(value: float) -> None:
    assert len(weight(value)) <= 4
    assert abs(float(weight(value)) - value) <= 0.0051


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [(0.00391, 4, ".0039"), (0.99996, 4, "1.000"), (-0.00001, 4, ".0000"), (-0.0625, 3, "-.062"), (12.5, 3, "12.50")],
)
def test_weights_with_more_decimals(value: float, decimals: int, text: str) -> None:
    assert weight(value, decimals) == text
