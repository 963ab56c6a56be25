"""Accuracy on masked words and on the order of sentences: of the model, and of words guessed from their neighbors."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence

import torch

from mirada.data.batching import IGNORED, Microbatch
from mirada.models.bert import BERT
from mirada.runs.run import Run
from mirada.tasks.fill.gaps import word_scores
from mirada.tasks.fill.masking import SentencePairs
from mirada.training.objectives import to_device

MOST_TOKENS = 2_000_000  # of the texts in which neighbors are counted: a matter of seconds


@torch.no_grad()
def model_accuracy(run: Run, parts: Sequence[Microbatch]) -> dict[str, float]:
    """The percentage of masked words and of orders that the model predicts correctly."""
    right, total = [0, 0], [0, 0]
    for part in parts:
        inputs = to_device(part.inputs, run.device)
        predicted = run.model(inputs["tokens"], inputs["lengths"], inputs.get("segments"))
        both = [(word_scores(predicted), inputs["wanted"])]
        both += [(predicted.follows, inputs["follows"])] if "follows" in inputs else []
        for number, (scores, wanted) in enumerate(both):
            counts = wanted != IGNORED
            right[number] += int((scores.argmax(-1) == wanted)[counts].sum())
            total[number] += int(counts.sum())
    names = ("word_accuracy", "order_accuracy")[: 2 if isinstance(run.model, BERT) else 1]
    return {name: 100 * r / max(1, a) for name, r, a in zip(names, right, total, strict=False)}


def plain_accuracy(learned: SentencePairs, parts: Sequence[Microbatch]) -> dict[str, float]:
    """The same for two baselines: the most frequent word between the same two neighbors, and the more frequent order."""
    guess = neighbor_words(
        learned.tokenizer.framed(sentence)[0] for pair in learned.items for sentence in pair if sentence
    )
    right, orders = list[bool](), list[int]()
    for part in parts:
        tokens, wanted = (part.inputs[name].tolist() for name in ("tokens", "wanted"))
        for row, hidden in zip(tokens, wanted, strict=True):
            places = [place for place, token in enumerate(hidden) if token != IGNORED]
            right += [guess(row[place - 1], row[place + 1]) == hidden[place] for place in places]
        orders += [answer for answer in part.inputs.get("follows", torch.empty(0)).tolist() if answer != IGNORED]
    words = {"word_accuracy_neighbors": 100 * sum(right) / max(1, len(right))}
    if not learned.ordered:
        return words
    return words | {"order_accuracy_majority": 100 * max(orders.count(0), orders.count(1)) / max(1, len(orders))}


def neighbor_words(texts: Iterable[list[int]]) -> Callable[[int, int], int]:
    """A function of two tokens: the most frequent token between them in these texts; else after the first, else before the
    second, else of all.

    >>> guess = neighbor_words([[1, 5, 2], [1, 5, 3], [1, 6, 2], [1, 5, 2]])
    >>> guess(1, 2), guess(1, 9), guess(9, 9), guess(9, 3)
    (5, 5, 1, 5)
    """
    counts: dict[Hashable, Counter[int]] = defaultdict(Counter)
    remaining = MOST_TOKENS
    for text in texts:
        remaining -= len(text)
        if remaining < 0:
            break
        for before, token, after in zip([None, *text[:-1]], text, [*text[1:], None], strict=True):
            for key in _keys(before, after):
                counts[key][token] += 1
    best = {key: tokens.most_common(1)[0][0] for key, tokens in counts.items()}
    return lambda before, after: next(best[key] for key in _keys(before, after) if key in best)


def _keys(before: int | None, after: int | None) -> tuple[Hashable, ...]:
    """The contexts of a position, most specific first."""
    return (before, after), ("after", before), ("before", after), ()
