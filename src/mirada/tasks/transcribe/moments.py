"""When every word was said: the weights of heads that follow the sound, and the cheapest way through them.

weights over the sound of chosen heads, tokens x places -> normalized, smoothed, averaged -> one path -> words with seconds
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.tasks.transcribe.segments import TimedWord

WITHOUT_SPACES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})
OPENING = "\"'\u201c\u00bf([{-"  # belongs to the word after it
CLOSING = "\"'.\u3002,\uff0c!\uff01?\uff1f:\uff1a\u201d)]}\u3001"  # belongs to the word before it
BROKEN = "\ufffd"  # a character of which not all bytes are there

DIAGONAL, DOWN, RIGHT = range(3)


def token_places(weights: Float[Tensor, "heads tokens places"], smoothing: int) -> NDArray[np.int64]:
    """The place at which every token begins.

    Every place is normalized over the tokens, every row smoothed by a median of `smoothing` places; the mean of the heads is
    what the path collects.

    >>> token_places(torch.eye(3).unsqueeze(0), smoothing=1).tolist()
    [0, 1, 2]
    """
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    normal = torch.where(deviation > 0, (weights - mean) / deviation, 0.0)
    matrix = median_filter(normal, smoothing).mean(0)
    tokens, places = warped(-matrix.double().cpu().numpy())
    begins: NDArray[np.int64] = places[np.diff(tokens, prepend=-1) > 0]
    return begins


def median_filter(x: Float[Tensor, "*batch places"], width: int) -> Float[Tensor, "*batch places"]:
    """The median of every place and those around it; at the ends the sequence is mirrored.

    >>> median_filter(torch.tensor([[0.0, 9.0, 1.0, 2.0]]), 3)
    tensor([[9., 1., 2., 1.]])
    """
    around = width // 2
    if around == 0 or x.shape[-1] <= around:
        return x
    padded = F.pad(x.flatten(0, -2), (around, around), mode="reflect").view(*x.shape[:-1], -1)
    return padded.unfold(-1, width, 1).sort(-1).values[..., around]


def warped(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cheapest path from the first row and column to the last: in each step one down, one to the right, or both.

    total(i, j) = cost(i, j) + min(total(i - 1, j - 1), total(i - 1, j), total(i, j - 1))

    The rows and the columns on the way. Cells whose row and column have one sum depend on earlier sums only: they are
    computed at once.

    >>> rows, columns = warped(np.array([[0.0, 5.0, 5.0], [5.0, 0.0, 0.0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1, 1], [0, 1, 2])

    Sakoe and Chiba (1978), "Dynamic programming algorithm optimization for spoken word recognition".
    """
    height, width = cost.shape
    before, last = np.full((2, height + 1), np.inf)  # totals along a sum of row and column, by row
    before[0] = 0.0
    steps = np.full((height + 1, width + 1), RIGHT, dtype=np.int8)
    steps[:, 0] = DOWN
    for both in range(2, height + width + 1):
        rows = np.arange(max(1, both - width), min(height, both - 1) + 1)
        diagonal, down, right = before[rows - 1], last[rows - 1], last[rows]
        step = np.where(down < np.minimum(diagonal, right), DOWN, RIGHT)
        step = np.where(diagonal < np.minimum(down, right), DIAGONAL, step)
        steps[rows, both - rows] = step
        total = np.full(height + 1, np.inf)
        total[rows] = cost[rows - 1, both - rows - 1] + np.choose(step, [diagonal, down, right])
        before, last = last, total
    path, (row, column) = [], (height, width)
    while row > 0 and column > 0:
        path.append((row - 1, column - 1))
        step = steps[row, column]
        row, column = row - (step != RIGHT), column - (step != DOWN)
    rows, columns = np.array(path[::-1], dtype=np.int64).T
    return rows, columns


def word_groups(tokens: Sequence[int], decode: Callable[[list[int]], str], language: str) -> list[tuple[str, int]]:
    """The words of a text and how many tokens each has; signs go with the word they stand at.

    >>> pieces = {1: " Hel", 2: "lo", 3: ",", 4: " you"}
    >>> word_groups([1, 2, 3, 4], lambda ids: "".join(pieces[id] for id in ids), "en")
    [(' Hello,', 3), (' you', 1)]
    """
    characters: list[tuple[str, int]] = []  # texts of whole characters
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        text = decode(waiting)
        if BROKEN not in text:
            characters.append((text, len(waiting)))
            waiting = []
    if waiting:
        characters.append((decode(waiting), len(waiting)))
    words: list[tuple[str, int]] = []
    opening = ("", 0)  # signs before the next word
    for text, count in characters:
        bare = text.strip()
        begins = not words or text[:1].isspace() or language in WITHOUT_SPACES
        if bare and all(sign in CLOSING for sign in bare) and words and not text[:1].isspace():
            words[-1] = (words[-1][0] + text, words[-1][1] + count)
        elif bare and all(sign in OPENING for sign in bare) and begins:
            opening = (opening[0] + text, opening[1] + count)
        elif begins or opening[1]:
            words.append((opening[0] + text, opening[1] + count))
            opening = ("", 0)
        else:
            words[-1] = (words[-1][0] + text, words[-1][1] + count)
    return [*words, opening] if opening[1] else words


def timed(
    groups: Sequence[tuple[str, int]], places: Sequence[int], place: float, offset: float
) -> tuple[TimedWord, ...]:
    """Words with their seconds. `places` has those at which every token begins, and one more for the end.

    >>> timed([(" a", 1), (" b", 2)], [0, 5, 6, 9], place=0.02, offset=10.0)[1]
    TimedWord(text='b', start=10.1, end=10.18)
    """
    words, at = [], 0
    for text, count in groups:
        start, end = (round(offset + int(places[index]) * place, 3) for index in (at, at + count))
        words.append(TimedWord(text.strip(), start, end))
        at += count
    return tuple(words)
