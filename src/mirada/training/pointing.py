"""Pointing: whether the place that was looked at most, while a word was written, is where the thing is."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from math import isqrt
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from mirada.errors import require

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels


class Pointed(NamedTuple):
    """A written word that names something in the picture: whether it was looked at, and how likely that is by chance."""

    word: str
    hit: bool
    chance: float


def pointed(
    words: Sequence[str], weights: Float[Tensor, "words cells"], boxes: Mapping[str, Sequence[Box]], size: int
) -> list[Pointed]:
    """Where the model looked for every written word that has a box.

    The cells are a square grid over a picture of `size` pixels, row by row. A word hits if the cell of its largest weight
    shares some area with one of its boxes; chance is the share of cells that do.

    >>> import torch
    >>> weights = torch.tensor([[0.1, 0.7, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1]])
    >>> pointed(["a", "dog"], weights, {"dog": [(5, 0, 8, 3)]}, size=8)
    [Pointed(word='dog', hit=False, chance=0.25)]
    """
    side = isqrt(weights.shape[1])
    require(side * side == weights.shape[1], f"cells must be a square grid: got {weights.shape[1]}")
    found = []
    for word, row in zip(words, weights, strict=True):
        if word in boxes:
            cells = touched(boxes[word], side, size / side)
            found.append(Pointed(word, int(row.argmax()) in cells, len(cells) / side**2))
    return found


def touched(boxes: Sequence[Box], side: int, cell: float) -> set[int]:
    """The cells of a grid that share some area with a box.

    >>> sorted(touched([(7, 0, 9, 8)], side=2, cell=8))
    [0, 1]
    """
    return {
        row * side + column
        for left, top, right, bottom in boxes
        for row in range(side)
        for column in range(side)
        if column * cell < right and left < (column + 1) * cell and row * cell < bottom and top < (row + 1) * cell
    }


def pointing(found: Sequence[Pointed]) -> dict[str, float]:
    """The share of words that hit, and that of chance, in percent; nothing where no word has a box."""
    if not found:
        return {}
    hits, chance = sum(item.hit for item in found), sum(item.chance for item in found)
    return {"pointing": 100 * hits / len(found), "pointing_chance": 100 * chance / len(found)}


class Misnamed(NamedTuple):
    """A word that was written in the place of another; `looked`: whether the model looked at what should have been named.

    None where nobody knows where that is.
    """

    written: str
    wanted: str
    looked: bool | None

    def __str__(self) -> str:
        where = {True: ", looking at it", False: ", looking elsewhere", None: ""}[self.looked]
        return f"{self.written} for {self.wanted}{where}"


def misnamed(
    words: Sequence[str],
    wanted: Sequence[str],
    weights: Float[Tensor, "words cells"],
    boxes: Mapping[str, Sequence[Box]],
    size: int,
) -> list[Misnamed]:
    """The words that stand where others were wanted, and whether the model looked at the thing all the same.

    >>> import torch
    >>> print(*misnamed(["a", "dog"], ["a", "cat"], torch.eye(4)[:2], {"cat": [(5, 0, 8, 3)]}, size=8))
    dog for cat, looking at it
    """
    found = []
    side = isqrt(weights.shape[1])
    for kind, first, last, start, end in SequenceMatcher(None, words, wanted, autojunk=False).get_opcodes():
        if kind != "replace" or last - first != end - start:
            continue
        for place, word in zip(range(first, last), wanted[start:end], strict=True):
            known = word in boxes
            looked = int(weights[place].argmax()) in touched(boxes[word], side, size / side) if known else None
            found.append(Misnamed(words[place], word, looked))
    return found
