"""Words placed in time: against all paths, and against transformers."""

from functools import cache

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mirada.tasks.transcribe.moments import median_filter, timed, token_places, warped, word_groups


def cheapest(cost: np.ndarray) -> float:
    """The cost of the cheapest of all paths, each of which is tried."""

    @cache
    def to(row: int, column: int) -> float:
        if (row, column) == (0, 0):
            return cost[0, 0]
        ways = [(row - 1, column - 1), (row - 1, column), (row, column - 1)]
        return cost[row, column] + min(to(*way) for way in ways if min(way) >= 0)

    return to(cost.shape[0] - 1, cost.shape[1] - 1)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 11), (11, 5), (13, 13)])
def test_the_path_is_the_cheapest_of_all(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(sum(shape)).normal(size=shape)
    rows, columns = warped(cost)
    assert (rows[0], columns[0]) == (0, 0)
    assert (rows[-1], columns[-1]) == (shape[0] - 1, shape[1] - 1)
    steps = set(zip(np.diff(rows), np.diff(columns), strict=True))
    assert steps <= {(0, 1), (1, 0), (1, 1)}
    assert cost[rows, columns].sum() == pytest.approx(cheapest(cost))


@pytest.mark.parametrize("shape", [(5, 11), (17, 40)])
def test_the_path_is_that_of_transformers(shape: tuple[int, int]) -> None:
    theirs = pytest.importorskip("transformers.models.whisper.generation_whisper")
    cost = np.random.default_rng(3).normal(size=shape)
    for ours, wanted in zip(warped(cost), theirs._dynamic_time_warping(cost), strict=True):
        assert ours.tolist() == wanted.tolist()


@pytest.mark.parametrize("width", [1, 3, 7])
def test_the_filter_is_that_of_transformers(width: int) -> None:
    theirs = pytest.importorskip("transformers.models.whisper.generation_whisper")
    weights = torch.randn(3, 5, 11)
    assert_close(median_filter(weights, width), theirs._median_filter(weights, width), rtol=0, atol=0)


def test_one_token_and_silent_heads_have_a_place_too() -> None:
    assert token_places(torch.full((2, 1, 9), 1 / 9), smoothing=7).tolist() == [0]
    assert token_places(torch.zeros(1, 3, 2), smoothing=7)[0] == 0


PIECES = {1: " «", 2: "the", 3: " red", 4: " hou", 5: "se", 6: ".", 7: " (", 8: "a", 9: ")", 10: "\ufffd", 11: "é"}


def decode(ids: list[int]) -> str:
    return "é" if ids == [10, 11] else "".join(PIECES[id] for id in ids)


@pytest.mark.parametrize(
    ("tokens", "language", "words"),
    [
        ([3, 4, 5, 6], "en", [(" red", 1), (" house.", 3)]),
        ([3, 7, 8, 9, 6], "en", [(" red", 1), (" (a).", 4)]),
        ([2, 10, 11, 3], "en", [("theé", 3), (" red", 1)]),
        ([2, 8, 6], "zh", [("the", 1), ("a.", 2)]),
        ([3, 10], "en", [(" red\ufffd", 2)]),
        ([3, 7], "en", [(" red", 1), (" (", 1)]),
        ([], "en", []),
    ],
)
def test_words_are_groups_of_tokens(tokens: list[int], language: str, words: list[tuple[str, int]]) -> None:
    assert word_groups(tokens, decode, language) == words
    assert sum(count for _, count in words) == len(tokens)


def test_a_word_ends_where_the_next_begins() -> None:
    first, second = timed([(" red", 1), (" house", 2)], [2, 4, 5, 9], place=0.02, offset=30.0)
    assert (first.end, second.start, second.end) == (30.08, 30.08, 30.18)
