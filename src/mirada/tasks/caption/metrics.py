"""How good captions are, and pointing: whether the model looked most at an object while it wrote the word for it."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from math import isqrt
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from mirada.data.image import Box
from mirada.errors import require
from mirada.runs.run import Run
from mirada.tasks.caption.captions import CaptionRecord

# CIDEr-D: how much a caption has in common with what people said about the picture, rare words counting most.


N = 4  # n-grams of 1 to N words
SIGMA = 6.0  # words by which the length may differ before it costs much
WORD = re.compile(r"\w+(?:'\w+)?")

NGram = tuple[str, ...]
Weighted = dict[NGram, float]


def cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean CIDEr-D of some captions; 100 is what papers call 1.0 (or 100, as they like), and 1,000 is the most.

    For n = 1 ... 4, g counts the n-grams of a text and weighs each by log(pictures / pictures whose references have it):

    CIDEr-D_n(c, S) = 10 / |S| sum over s in S of exp(-(|c| - |s|)^2 / (2 sigma^2)) min(g(c), g(s)) . g(s) / (|g(c)| |g(s)|)

    and CIDEr-D is their mean. The frequencies are those of the references given here. Words are compared in lower case,
    without punctuation. What all pictures have in common counts nothing: a single picture has 0.

    >>> texts = ["a red circle above a blue square", "two dogs sleep on the old sofa"]
    >>> round(cider(texts, [[text] for text in texts]))
    1000

    Vedantam, Zitnick and Parikh (2015), arXiv:1411.5726.
    """
    if not answers:
        return math.nan
    return 1000 * sum(each_cider(answers, references)) / len(answers)


def each_cider(answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """The CIDEr-D of every caption, from 0 to 1: how alike it is to its references, without the factor 10 of the papers."""
    counted = [[_ngrams(text) for text in texts] for texts in references]
    seen = Counter(gram for texts in counted for gram in set().union(*texts))
    pictures = math.log(max(1, len(counted)))

    def weighted(counts: Counter[NGram]) -> list[Weighted]:
        parts: list[Weighted] = [{} for _ in range(N)]
        for gram, count in counts.items():
            parts[len(gram) - 1][gram] = count * (pictures - math.log(max(1, seen[gram])))
        return parts

    scores = []
    for answer, texts in zip(answers, counted, strict=True):
        counts = _ngrams(answer)
        here = weighted(counts)
        total = 0.0
        for text in texts:
            apart = _words_in(counts) - _words_in(text)
            near = math.exp(-(apart**2) / (2 * SIGMA**2))
            total += near * sum(map(_clipped_cosine, here, weighted(text))) / N
        scores.append(total / max(1, len(texts)))
    return scores


def _ngrams(text: str) -> Counter[NGram]:
    """How often a text has each of its n-grams.

    >>> _ngrams("A dog, a dog.")[("a", "dog")]
    2
    """
    words = words_of(text)
    return Counter(tuple(words[i : i + n]) for n in range(1, N + 1) for i in range(len(words) - n + 1))


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case and without punctuation.

    >>> words_of("A dog's bone.")
    ['a', "dog's", 'bone']
    """
    return WORD.findall(text.lower())


def _words_in(counts: Counter[NGram]) -> int:
    """How many words the text has that these n-grams are of."""
    return sum(count for gram, count in counts.items() if len(gram) == 1)


def _clipped_cosine(answer: Weighted, reference: Weighted) -> float:
    """The cosine of two texts, where an n-gram counts no more often than the reference has it."""
    one, other = (math.sqrt(sum(value * value for value in text.values())) for text in (answer, reference))
    pairs = ((value, reference.get(gram, 0.0)) for gram, value in answer.items())
    return sum(min(pair) * pair[1] for pair in pairs) / (one * other) if one * other else 0.0


WordBoxes = Mapping[str, Sequence[Box]]  # where words are in a picture: left, top, right, bottom in pixels


class Pointed(NamedTuple):
    """A written word that names something in the picture: whether it was looked at, and how likely that is by chance."""

    word: str
    hit: bool
    chance: float


def pointed(words: Sequence[str], weights: Float[Tensor, "words cells"], boxes: WordBoxes, size: int) -> list[Pointed]:
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
    looks = []
    for word, row in zip(words, weights, strict=True):
        if word in boxes:
            cells = touched(boxes[word], side, size / side)
            looks.append(Pointed(word, int(row.argmax()) in cells, len(cells) / side**2))
    return looks


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


def pointing(looks: Sequence[Pointed]) -> dict[str, float]:
    """The share of words that hit, and that of chance, in percent; nothing where no word has a box."""
    if not looks:
        return {}
    hits, chance = sum(item.hit for item in looks), sum(item.chance for item in looks)
    return {"pointing": 100 * hits / len(looks), "pointing_chance": 100 * chance / len(looks)}


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
    words: Sequence[str], wanted: Sequence[str], weights: Float[Tensor, "words cells"], boxes: WordBoxes, size: int
) -> list[Misnamed]:
    """The words that stand where others were wanted, and whether the model looked at the thing all the same.

    >>> import torch
    >>> print(*misnamed(["a", "dog"], ["a", "cat"], torch.eye(4)[:2], {"cat": [(5, 0, 8, 3)]}, size=8))
    dog for cat, looking at it
    """
    mistakes = []
    side = isqrt(weights.shape[1])
    for kind, first, last, start, end in SequenceMatcher(None, words, wanted, autojunk=False).get_opcodes():
        if kind == "replace" and last - first == end - start:
            for place, word in zip(range(first, last), wanted[start:end], strict=True):
                cells = touched(boxes[word], side, size / side) if word in boxes else None
                looked = None if cells is None else int(weights[place].argmax()) in cells
                mistakes.append(Misnamed(words[place], word, looked))
    return mistakes


def wanted_captions(run: Run, records: Sequence[CaptionRecord]) -> list[list[str]]:
    """The captions of every picture, in lower case where the model writes so."""
    lower = getattr(run.options, "lowercase", False)
    return [[text.lower() if lower else text for text in record.value.captions] for record in records]


def is_right(text: str, references: Sequence[str]) -> bool:
    """Whether a caption is one of those that were wanted, word for word.

    >>> is_right("a dog .", ["the dog", "A dog"])
    True
    """
    return words_of(text) in map(words_of, references)
