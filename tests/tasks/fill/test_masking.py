"""Hidden words and second sentences: how many, which, and what they depend on."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.text.tokenize import MASK, SPECIAL
from mirada.tasks.fill.masking import mask_tokens, second_of

VOCAB = 97


def some_tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(len(SPECIAL), VOCAB, (batch, length))


# --- masks


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=7),
    rate=st.floats(0.01, 1),
    seed=st.integers(0, 99),
    epoch=st.integers(0, 99),
)
def test_each_row_has_its_share(sizes: list[int], rate: float, seed: int, epoch: int) -> None:
    tokens = some_tokens(len(sizes), 41)
    candidates = torch.arange(41) < torch.tensor(sizes).unsqueeze(1)
    corrupted, wanted = mask_tokens(tokens, candidates, range(len(sizes)), VOCAB, seed, epoch, rate)
    chosen = wanted != -100
    assert not bool((chosen & ~candidates).any())
    torch.testing.assert_close(wanted[chosen], tokens[chosen])
    torch.testing.assert_close(corrupted[~chosen], tokens[~chosen])
    for size, count in zip(sizes, chosen.sum(dim=1).tolist(), strict=True):
        assert count == 0 if size == 0 else count >= 1
        assert size == 0 or abs(count - max(1, rate * size)) <= 0.5 + 1e-4


def test_by_hand() -> None:
    tokens = some_tokens(3, 20)
    candidates = torch.ones_like(tokens, dtype=torch.bool)
    candidates[1, 3:] = False
    candidates[2] = False
    _, wanted = mask_tokens(tokens, candidates, [0, 1, 2], VOCAB, seed=0, epoch=0)
    assert (wanted != -100).sum(dim=1).tolist() == [3, 1, 0]  # 15 % of 20, of 3 (at least one), of none


def test_four_fifths_are_masks_and_a_tenth_is_random() -> None:
    tokens = some_tokens(400, 100)
    everything = torch.ones_like(tokens, dtype=torch.bool)
    corrupted, wanted = mask_tokens(tokens, everything, range(400), VOCAB, seed=1, epoch=2, rate=0.5)
    chosen = wanted != -100
    assert int(chosen.sum()) == 400 * 50
    now, before = corrupted[chosen], tokens[chosen]
    masks, same = now == MASK, now == before
    other = ~masks & ~same
    deviation = (20_000 * 0.1 * 0.9) ** 0.5
    assert abs(int(masks.sum()) - 16_000) < 5 * deviation
    assert (
        abs(int(other.sum()) - 2_000 * (1 - 1 / 92)) < 5 * deviation
    )  # one in 92 random tokens is the one that was there
    assert set(now[other].tolist()) == set(range(len(SPECIAL), VOCAB))  # never a special one
    places = chosen.sum(dim=0)
    assert 120 < int(places.min()) <= int(places.max()) < 280  # everywhere alike


def test_a_row_depends_on_its_number_alone() -> None:
    tokens = some_tokens(6, 23)
    candidates = torch.rand(6, 23) < 0.7
    items = [40, 3, 17, 8, 2, 11]
    whole = mask_tokens(tokens, candidates, items, VOCAB, seed=1, epoch=2)
    for i, item in enumerate(items):
        alone = mask_tokens(tokens[i : i + 1], candidates[i : i + 1], [item], VOCAB, seed=1, epoch=2)
        torch.testing.assert_close(alone, (whole[0][i : i + 1], whole[1][i : i + 1]))
    wider = torch.nn.functional.pad(tokens, (0, 9)), torch.nn.functional.pad(candidates, (0, 9))
    padded = mask_tokens(*wider, items, VOCAB, seed=1, epoch=2)
    torch.testing.assert_close((padded[0][:, :23], padded[1][:, :23]), whole)


def test_other_seeds_epochs_and_items_hide_other_words() -> None:
    tokens = torch.arange(5, 55).repeat(2, 1)
    everything = torch.ones_like(tokens, dtype=torch.bool)
    first = mask_tokens(tokens, everything, [0, 1], VOCAB, seed=1, epoch=2)[1]
    assert not torch.equal(first[0], first[1])
    for seed, epoch in ((2, 1), (1, 3), (2, 2)):
        assert not torch.equal(mask_tokens(tokens, everything, [0, 1], VOCAB, seed=seed, epoch=epoch)[1], first)


def test_small_integers_come_back_as_token_numbers() -> None:
    tokens = some_tokens(2, 7)
    everything = torch.ones_like(tokens, dtype=torch.bool)
    expected = mask_tokens(tokens, everything, [0, 1], VOCAB, 0, 0)
    torch.testing.assert_close(mask_tokens(tokens.to(torch.int16), everything, [0, 1], VOCAB, 0, 0), expected)
    assert mask_tokens(tokens[:0], everything[:0], [], VOCAB, 0, 0)[0].shape == (0, 7)


# --- second sentences


def test_half_follow_and_the_others_are_uniform() -> None:
    count, item, epochs = 7, 2, 7000
    found = Counter(second_of(item, count, seed=5, epoch=epoch) for epoch in range(epochs))
    assert abs(found[item, True] - epochs / 2) < 5 * (epochs / 4) ** 0.5
    assert set(found) == {(item, True), *((other, False) for other in range(count) if other != item)}
    for other in set(range(count)) - {item}:
        assert abs(found[other, False] - epochs / 12) < 5 * (epochs / 12) ** 0.5


@given(count=st.integers(2, 50), seed=st.integers(0, 99), epoch=st.integers(0, 99))
def test_never_its_own_if_it_does_not_follow(count: int, seed: int, epoch: int) -> None:
    for item in range(count):
        second, follows = second_of(item, count, seed, epoch)
        assert 0 <= second < count
        assert (second == item) == follows


# --- refusals

TOKENS, YES = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mask_tokens(TOKENS[0], YES[0], [0], 9, 0, 0), r"tokens must have the axes \(batch length\)"),
        (lambda: mask_tokens(TOKENS.float(), YES, [0, 1], 9, 0, 0), "tokens must hold integers"),
        (lambda: mask_tokens(TOKENS, YES[:1], [0, 1], 9, 0, 0), r"a candidate or not for every token: got \(1, 3\)"),
        (lambda: mask_tokens(TOKENS, YES.long(), [0, 1], 9, 0, 0), "candidates must be yes or no: got torch.int64"),
        (lambda: mask_tokens(TOKENS, YES, [0], 9, 0, 0), "items must number the rows: got 1 for batch=2"),
        (lambda: mask_tokens(TOKENS, YES, [0, 1], 5, 0, 0), "vocab must hold more than the 5 special tokens: got 5"),
        (lambda: mask_tokens(TOKENS, YES, [0, 1], 9, 0, 0, rate=0), r"rate must lie in \(0, 1\]: got 0"),
        (lambda: mask_tokens(TOKENS, YES, [0, -1], 9, 0, 0), "must be at least 0"),
        (lambda: second_of(3, 3, 0, 0), r"item must lie in 0\.\.2: got 3"),
        (lambda: second_of(0, 1, 0, 0), "needs a second item: got count=1"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
