"""Batches of similar lengths are a function of (seed, step)."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.data.batching import Bucketed, EncodedRecords, Lengths, Microbatch, drawn, in_order, pad

sides = st.integers(1, 3)
length_lists = sides.flatmap(
    lambda n: st.lists(st.tuples(*[st.integers(1, 30)] * n), min_size=1, max_size=60)
)  # fmt: skip


def sentence_pairs(count: int) -> list[tuple[int, int]]:
    """Lengths as translations have them: mostly short, the two sides alike."""
    generator = np.random.default_rng(11)
    first = 3 + generator.gamma(3, 3, count).astype(int)
    second = np.maximum(2, first + generator.normal(0, 2, count).round().astype(int))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def collate(rows: list[int]) -> Microbatch:
    return Microbatch({"rows": rows}, (len(rows),), len(rows))


def buckets_of(lengths: Lengths, tokens: int, seed: int) -> Bucketed:
    return Bucketed(EncodedRecords(range(len(lengths)), lengths, collate), tokens, seed)  # type: ignore[arg-type]


def assert_partition(batches: list[list[int]], lengths: list[tuple[int, ...]], tokens: int) -> None:
    assert sorted(item for batch in batches for item in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) > 0
        assert len(batch) == 1 or len(batch) * max(max(lengths[item]) for item in batch) <= tokens


# --- buckets


@given(lengths=length_lists, tokens=st.integers(1, 120), seed=st.integers(0, 2**40))
def test_every_item_is_visited_once_an_epoch(lengths: list[tuple[int, ...]], tokens: int, seed: int) -> None:
    buckets = buckets_of(lengths, tokens, seed)
    for epoch in range(3):
        batches = [buckets.batch(epoch * len(buckets) + place) for place in range(len(buckets))]
        assert_partition(batches, lengths, tokens)


@settings(max_examples=30)
@given(lengths=length_lists, seed=st.integers(0, 100), shuffler=st.randoms(use_true_random=False))
def test_a_batch_depends_on_nothing_that_was_asked_before(lengths, seed: int, shuffler: random.Random) -> None:
    buckets = buckets_of(lengths, 50, seed)
    steps = list(range(4 * len(buckets)))
    expected = [buckets.batch(step) for step in steps]
    shuffler.shuffle(steps)
    again = buckets_of(lengths, 50, seed)
    assert [again.batch(step) for step in steps] == [expected[step] for step in steps]


def test_epochs_and_seeds_differ() -> None:
    lengths = sentence_pairs(500)
    buckets, other = buckets_of(lengths, 200, seed=1), buckets_of(lengths, 200, seed=2)
    first = [buckets.batch(step) for step in range(len(buckets))]
    second = [buckets.batch(step + len(buckets)) for step in range(len(buckets))]
    assert first != second
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))  # not only in another order: with other neighbors
    assert first != [other.batch(step) for step in range(len(other))]


def test_an_epoch_by_hand() -> None:
    lengths = [(2, 2), (5, 4), (2, 2), (5, 5), (2, 2), (30, 1)]
    buckets = buckets_of(lengths, tokens=10, seed=3)
    assert len(buckets) == 3
    assert sorted(sorted(buckets.batch(step)) for step in range(3)) == [[0, 2, 4], [1, 3], [5]]
    # padded: 3 x (2 + 2), 2 x (5 + 5), 1 x (30 + 1); real: one less
    assert buckets.padding == pytest.approx(1 / 63)


def test_the_order_is_kept_over_versions() -> None:
    buckets = buckets_of([(3, 4)] * 7 + [(9, 9)] * 2, tokens=18, seed=5)
    assert [buckets.batch(step) for step in range(3)] == [[7, 8], [2, 0, 1], [4, 3, 5, 6]]


def test_little_padding() -> None:
    lengths = sentence_pairs(20_000)
    buckets = buckets_of(lengths, tokens=2048, seed=0)
    assert_partition([buckets.batch(step) for step in range(len(buckets))], lengths, 2048)
    filled = real = 0
    for step in range(len(buckets)):
        rows = np.array([lengths[item] for item in buckets.batch(step)])
        filled += len(rows) * rows.max(axis=0).sum()
        real += rows.sum()
    assert buckets.padding == pytest.approx(1 - real / filled)
    assert buckets.padding < 0.05


def test_an_array_of_lengths_is_as_good_as_a_list() -> None:
    lengths = sentence_pairs(100)
    assert buckets_of(np.array(lengths), 64, 1).batch(5) == buckets_of(lengths, 64, 1).batch(5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: buckets_of([], 10, 0), "batches need at least one item: got none"),
        (lambda: buckets_of([(1,)], 0, 0), "tokens must be at least 1: got 0"),
        (lambda: buckets_of([(1,)], 10, -1), r"a seed, an epoch and an item must be at least 0: got \(-1, 0\)"),
        (lambda: buckets_of([(1, 2), (3,)], 10, 0), "same number of sides"),
        (lambda: buckets_of([1, 2], 10, 0), r"got shape \(2,\). Write \(n,\) for an item of one side"),
        (lambda: buckets_of([(1, 2), (3, 0)], 10, 0), r"lengths must be at least 1: got \[\[3, 0\]\] for item \[1\]"),
        (lambda: buckets_of([(1,)], 10, 0).batch(-1), "step must be at least 0: got -1"),
        (lambda: buckets_of([(1,)], 10, 0).part(0, 0, 0), "at least 1: got 0"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# --- in order


@given(lengths=length_lists, tokens=st.integers(1, 120))
def test_in_order_has_every_item_once_from_long_to_short(lengths: list[tuple[int, ...]], tokens: int) -> None:
    batches = in_order(lengths, tokens)
    assert_partition(batches, lengths, tokens)
    longest = [max(lengths[item]) for batch in batches for item in batch]
    assert longest == sorted(longest, reverse=True)


def test_nothing_in_order() -> None:
    assert in_order([], 10) == []


# --- pad, parts of a batch, drawn


def test_pad_by_hand() -> None:
    matrix, lengths = pad([[1, 2], [], [3, 4, 5]], value=9)
    torch.testing.assert_close(matrix, torch.tensor([[1, 2, 9], [9, 9, 9], [3, 4, 5]]))
    torch.testing.assert_close(lengths, torch.tensor([2, 0, 3]))
    matrix, lengths = pad([])
    assert (matrix.shape, lengths.shape, matrix.dtype) == ((0, 0), (0,), torch.int64)


@given(rows=st.lists(st.lists(st.integers(-5, 10**9), max_size=7), max_size=7))
def test_pad_keeps_every_row(rows: list[list[int]]) -> None:
    matrix, lengths = pad(rows, value=-100)
    assert [row[:length].tolist() for row, length in zip(matrix, lengths.tolist(), strict=True)] == rows
    assert int((matrix == -100).sum()) == matrix.numel() - int(lengths.sum())


@given(items=st.integers(1, 12), count=st.integers(1, 9))
def test_parts_deal_out_everything(items: int, count: int) -> None:
    batches = buckets_of([(1,)] * items, tokens=items, seed=0)
    dealt = [batches.part(0, index, count) for index in range(count)]
    assert sum(part.tokens for part in dealt) == items
    assert sorted(row for part in dealt if part.tokens for row in part.inputs["rows"]) == list(range(items))
    assert max(part.tokens for part in dealt) - min(part.tokens for part in dealt) <= 1
    assert all(len(part.inputs["rows"]) == max(1, part.tokens) for part in dealt)


def test_draws_are_a_function_of_the_key() -> None:
    np.testing.assert_array_equal(drawn(5, 1, 2), drawn(9, 1, 2)[:5])
    assert drawn(1, 1, 2) != drawn(1, 2, 1)
    assert int(drawn(1, 0, 0)[0]) == 11749869230777074271  # numpy's PCG64 of seed 0, in every version
