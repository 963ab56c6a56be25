"""Pointing: which cells touch a box, which words count, and what is said about wrong words."""

import pytest
import torch

from mirada.tasks.caption.metrics import misnamed, pointed, pointing, touched

SIDE, SIZE = 3, 12  # cells of 4 x 4 pixels


def looks(*cells: int) -> torch.Tensor:
    """Weights that are largest at one cell for every word."""
    weights = torch.full((len(cells), SIDE**2), 0.05)
    for row, cell in enumerate(cells):
        weights[row, cell] = 0.6
    return weights


@pytest.mark.parametrize(
    ("box", "cells"),
    [
        ((0, 0, 4, 4), {0}),  # a border that is only shared is not touched
        ((0, 0, 4.1, 4), {0, 1}),
        ((3.9, 3.9, 4.1, 4.1), {0, 1, 3, 4}),
        ((4, 8, 12, 12), {7, 8}),
        ((0, 0, 12, 12), set(range(9))),
        ((8.5, 0.5, 9, 1), {2}),
    ],
)
def test_touched_cells_by_hand(box: tuple[float, ...], cells: set[int]) -> None:
    assert touched([box], SIDE, SIZE / SIDE) == cells


def test_several_boxes_are_joined() -> None:
    assert touched([(0, 0, 1, 1), (11, 11, 12, 12)], SIDE, 4) == {0, 8}


def test_only_words_with_boxes_count_and_any_of_their_boxes_is_right() -> None:
    boxes = {"dog": [(0, 0, 4, 4), (8, 8, 12, 12)], "cat": [(4, 4, 8, 8)]}
    found = pointed(["a", "dog", "sees", "a", "cat", "dog"], looks(4, 8, 0, 0, 3, 1), boxes, SIZE)
    assert [(item.word, item.hit) for item in found] == [("dog", True), ("cat", False), ("dog", False)]
    assert [item.chance for item in found] == pytest.approx([2 / 9, 1 / 9, 2 / 9])
    assert pointing(found) == pytest.approx({"pointing": 100 / 3, "pointing_chance": 100 * 5 / 27})
    assert pointing([]) == {}
    assert pointed([], looks(), boxes, SIZE) == []


def test_cells_must_be_a_square() -> None:
    with pytest.raises(ValueError, match="cells must be a square grid: got 8"):
        pointed(["dog"], torch.ones(1, 8), {}, SIZE)


def test_wrong_words_and_where_the_model_looked() -> None:
    boxes = {"red": [(0, 0, 4, 4)], "ring": [(0, 0, 4, 4)]}
    found = misnamed(["a", "blue", "disk", "above"], ["a", "red", "ring", "below"], looks(1, 0, 5, 5), boxes, SIZE)
    assert list(map(str, found)) == [
        "blue for red, looking at it",
        "disk for ring, looking elsewhere",
        "above for below",
    ]
    assert misnamed(["a", "red"], ["a", "red"], looks(0, 0), boxes, SIZE) == []
    # a word too many is not a wrong name
    assert misnamed(["a", "red", "red", "ring"], ["a", "red", "ring"], looks(0, 0, 0, 0), boxes, SIZE) == []
