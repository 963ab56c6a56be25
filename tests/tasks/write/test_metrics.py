"""N-grams: probabilities that sum to one, and numbers by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mirada.tasks.write.metrics import _longest, mixed, ngram_loss, numbered


def test_by_hand() -> None:
    train = np.array([0, 1, 0, 2])
    # one token: c = 2, 1, 1 of 4, three kinds: (c + 3 / 4) / 7; after 0: 1 and 2 once each: (1 + 2 p) / 4
    one = np.array([2.75, 1.75, 1.75, 0.75]) / 7
    two = (1 + 2 * one[1]) / 4
    assert_allclose(ngram_loss(train, np.array([0, 1]), 4), -np.log(two))
    # nothing was ever seen after 3: the shorter one counts
    assert_allclose(ngram_loss(train, np.array([3, 1]), 4), -np.log(one[1]))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_probabilities_sum_to_one(size: int) -> None:
    draws = np.random.default_rng(5)
    train, vocab = draws.integers(0, 7, 300), 7
    shorter = draws.dirichlet(np.ones(vocab))
    context = draws.integers(0, 7, size - 1)
    asked = np.array([numbered(np.array([*context, token]), size, vocab)[0] for token in range(vocab)])
    assert_allclose(mixed(numbered(train, size, vocab), asked, vocab, shorter).sum(), 1.0)


def test_longer_ones_help_where_the_past_decides() -> None:
    text = np.tile(np.array([0, 1, 0, 2, 0, 3]), 50)
    assert ngram_loss(text, text, 4) < 0.05
    noise = np.random.default_rng(3).integers(0, 4, 2000)
    assert ngram_loss(noise[:1000], noise[1000:], 4) > 0.98 * np.log(4)


def test_the_shortest_texts() -> None:
    assert_allclose(ngram_loss(np.array([1]), np.array([0, 1]), 2), -np.log((1 + 0.5) / 2))


@pytest.mark.parametrize("vocab", [2, 100, 8000, 60_000, 10**6])
def test_numbers_of_ngrams_fit_into_64_bits(vocab: int) -> None:
    assert vocab ** _longest(vocab) < 2**63
