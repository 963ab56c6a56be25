"""The alignment error rate by hand, and words from pieces."""

import pytest
import torch
from torch.testing import assert_close

from mirada.looking.explain.alignment import (
    LinkCounts,
    alignment_error,
    between_words,
    diagonal,
    largest,
    mutual,
    words_of,
)


def test_by_hand() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 2)}
    assert alignment_error(sure, sure) == 0
    assert alignment_error({(0, 0), (2, 2)}, sure, possible) == pytest.approx(100 * (1 - (1 + 2) / (2 + 2)))
    assert alignment_error({(5, 5)}, sure) == 100
    assert alignment_error([], sure) == 100
    with pytest.raises(ValueError, match="no links"):
        alignment_error([], [])


def test_a_corpus_counts_links_not_sentences() -> None:
    counts = LinkCounts().plus({(0, 0)}, {(0, 0)}).plus({(0, 0), (1, 1), (2, 2)}, {(0, 1), (1, 0), (2, 3)})
    assert counts.error() == pytest.approx(100 * (1 - 2 / 8))


def test_largest_mutual_and_diagonal() -> None:
    weights = torch.tensor([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.0, 0.0, 0.0]])
    assert largest(weights) == {(0, 0), (0, 1)}
    assert mutual(weights) == {(0, 0)}
    assert largest(torch.zeros(0, 3)) == set()
    assert diagonal(1, 3) == {(0, 0), (0, 1), (0, 2)}
    assert diagonal(4, 4) == {(n, n) for n in range(4)}
    assert diagonal(0, 2) == set()


def test_pieces_are_averaged_and_summed() -> None:
    weights = torch.rand(4, 5)
    found = between_words(weights, [0, 1, 1, None], [None, 0, 2, 2, 1], (2, 3))
    assert_close(found[0], torch.stack([weights[0, 1], weights[0, 4], weights[0, 2] + weights[0, 3]]))
    assert_close(found[1, 0], weights[1:3, 1].mean())
    with pytest.raises(ValueError, match="each of their 4 pieces"):
        between_words(weights, [0], [0] * 5, (1, 1))


def test_the_word_of_a_piece() -> None:
    assert words_of([(0, 3), (3, 5), (5, 6), (7, 9)], [(0, 5), (6, 9)]) == [0, 0, None, 1]
