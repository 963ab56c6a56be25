"""How well hidden words and the order of sentences are predicted: by the model, and by words guessed from their neighbors."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import torch

from mirada.data.batching import IGNORED, Microbatch
from mirada.data.text.tokenize import END, START
from mirada.runs.run import Run
from mirada.tasks.fill.masking import Sentences

MOST_TOKENS = 2_000_000  # that neighbors are counted in, in some seconds


@torch.no_grad()
def model_accuracy(run: Run, parts: Sequence[Microbatch]) -> dict[str, float]:
    """The percentage of hidden words and of orders that the model predicts right."""
    right, asked = [0, 0], [0, 0]
    for part in parts:
        inputs = {name: x.to(run.device) for name, x in part.inputs.items()}
        predicted = run.model(inputs["tokens"], inputs["lengths"], inputs["segments"])
        both = ((predicted.words, inputs["wanted"]), (predicted.follows, inputs["follows"]))
        for number, (scores, wanted) in enumerate(both):
            counts = wanted != IGNORED
            right[number] += int((scores.argmax(-1) == wanted)[counts].sum())
            asked[number] += int(counts.sum())
    names = ("word_accuracy", "order_accuracy")
    return {name: 100 * r / max(1, a) for name, r, a in zip(names, right, asked, strict=True)}


def plain_accuracy(learned: Sequence[Sentences], parts: Sequence[Microbatch]) -> dict[str, float]:
    """The same for the word that stands most often between the same two, and for the more frequent order."""
    words = NeighborWords([START, *sentence, END] for pair in learned for sentence in pair if sentence)
    right, orders = list[bool](), list[int]()
    for part in parts:
        tokens, wanted, follows = (part.inputs[name].tolist() for name in ("tokens", "wanted", "follows"))
        for row, hidden in zip(tokens, wanted, strict=True):
            places = [place for place, token in enumerate(hidden) if token != IGNORED]
            right += [words.guess(row[place - 1], row[place + 1]) == hidden[place] for place in places]
        orders += [answer for answer in follows if answer != IGNORED]
    often = max(orders.count(0), orders.count(1))
    return {
        "word_accuracy_neighbors": 100 * sum(right) / max(1, len(right)),
        "order_accuracy_majority": 100 * often / max(1, len(orders)),
    }


class NeighborWords:
    """The token that stood most often between two others; else after the left one, else before the right one, else at all.

    >>> words = NeighborWords([[1, 5, 2], [1, 5, 3], [1, 6, 2], [1, 5, 2]])
    >>> words.guess(1, 2), words.guess(1, 9), words.guess(9, 9), words.guess(9, 3)
    (5, 5, 1, 5)
    """

    def __init__(self, texts: Iterable[Sequence[int]]) -> None:
        counts: dict[Hashable, Counter[int]] = {}
        left = MOST_TOKENS
        for text in texts:
            left -= len(text)
            if left < 0:
                break
            for place, token in enumerate(text):
                before, after = text[place - 1] if place else None, text[place + 1] if place + 1 < len(text) else None
                for key in _keys(before, after):
                    counts.setdefault(key, Counter())[token] += 1
        self.best = {key: tokens.most_common(1)[0][0] for key, tokens in counts.items()}

    def guess(self, before: int, after: int) -> int:
        """The token for the place between two."""
        return next(self.best[key] for key in _keys(before, after) if key in self.best)


def _keys(before: int | None, after: int | None) -> tuple[Hashable, ...]:
    """What is known about a place, the most telling first."""
    return (before, after), ("after", before), ("before", after), ()
