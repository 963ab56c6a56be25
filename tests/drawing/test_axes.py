"""Ticks: round, even, and around all values."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.drawing.charts import linear, logarithmic


@given(
    low=st.floats(-1e6, 1e6) | st.floats(-1, 1), span=st.floats(0, 1e6) | st.floats(0, 1e-4), about=st.integers(2, 7)
)
@settings(max_examples=400)
def test_ticks_are_even_and_cover_the_values(low: float, span: float, about: int) -> None:
    start, end, ticks = linear(low, low + span, about, whole=True)
    assert start <= low + 1e-6 * (end - start)
    assert end >= low + span - 1e-6 * (end - start)
    assert 2 <= len(ticks) <= about + 3
    assert len({label for _, label in ticks}) == len(ticks)
    steps = [b[0] - a[0] for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@given(low=st.floats(1e-9, 1e9) | st.integers(-9, 9).map(lambda power: 10.0**power), ratio=st.floats(1, 1e9))
@settings(max_examples=400)
def test_log_ticks_cover_the_values(low: float, ratio: float) -> None:
    start, end, ticks = logarithmic(low, low * ratio)
    assert 0 < start <= low <= low * ratio <= end
    assert start < end
    assert (ticks[0][0], ticks[-1][0]) == (start, end)
