"""Runs of sentences that fill a passage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.tasks.fill.passages import pack_sentences


@given(sizes=st.lists(st.integers(0, 12), max_size=30), most=st.integers(1, 20))
def test_ranges_are_full_and_cover_the_document(sizes: list[int], most: int) -> None:
    ranges = pack_sentences([[0] * size for size in sizes], most)
    assert [i for first, end in ranges for i in range(first, end)] == list(range(len(sizes)))
    for first, end in ranges:
        assert sum(sizes[first:end]) <= most or end - first == 1
        assert end == len(sizes) or sum(sizes[first : end + 1]) > most


def test_ranges_by_hand() -> None:
    assert pack_sentences([[1, 1], [1, 1], [1], [1] * 9, [1]], most=4) == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert pack_sentences([], most=4) == []


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(ValueError, match="most must be at least 1: got 0"):
        pack_sentences([[1]], 0)
