"""What the first thing that one would try reaches: plain models to be measured beside ours, learned in seconds."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

WORD = re.compile(r"\w+")
MOST_TEXTS = 50_000  # more are not needed for a baseline
MOST_FEATURES = 200_000
STRENGTH = 10.0  # of the data against the prior: the inverse of scikit-learn's penalty, its C


def majority(labels: Sequence[str]) -> str:
    """The most frequent label.

    >>> majority(["yes", "no", "yes"])
    'yes'
    """
    return Counter(labels).most_common(1)[0][0]


def linear_bag_of_words(texts: Sequence[str], labels: Sequence[str], questions: Sequence[str]) -> list[str]:
    """The answers of logistic regression over words and pairs of words, weighted by tf-idf, learned from labelled texts.

    >>> texts, labels = ["good film", "bad film", "a good book", "a bad book"], ["yes", "no", "yes", "no"]
    >>> linear_bag_of_words(texts, labels, ["good trip", "the bad one"])
    ['yes', 'no']

    Sparck Jones (1972); Wang and Manning (2012), P12-2018.
    """
    every = max(1, -(-len(texts) // MOST_TEXTS))
    texts, labels = texts[::every], labels[::every]
    names = sorted(set(labels))
    features = FeatureTable(texts)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # there is too little to share
    try:
        return predicted(features, texts, labels, questions, names)
    finally:
        torch.set_num_threads(threads)


def predicted(
    features: "FeatureTable", texts: Sequence[str], labels: Sequence[str], questions: Sequence[str], names: list[str]
) -> list[str]:
    """The likeliest name for every question, by a linear model of the texts."""
    with torch.inference_mode(False), torch.enable_grad():
        wanted = torch.tensor([names.index(label) for label in labels])
        weights, bias = logistic_regression(features.bags(texts), wanted, len(features.places), len(names))
        scores = features.bags(questions).scores(weights) + bias
    return [names[number] for number in scores.argmax(1).tolist()]


def words_of(text: str) -> list[str]:
    """Words and pairs of neighbors."""
    words = WORD.findall(text.lower())
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))]


class FeatureTable:
    """The words of some texts with the logarithms of how rare they are."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = Counter(word for text in texts for word in set(words_of(text)))
        common = [(word, count) for word, count in counts.most_common(MOST_FEATURES) if count > 1] or list(
            counts.items()
        )
        self.places = {word: place for place, (word, _) in enumerate(common)}
        self.rarity = [math.log((1 + len(texts)) / (1 + count)) + 1 for _, count in common]

    def bags(self, texts: Sequence[str]) -> "Bags":
        """The words of every text, weighted by (1 + log of their count) x rarity, so that a text has length 1."""
        columns: list[int] = []
        values: list[float] = []
        starts: list[int] = []
        for text in texts:
            counts = Counter(place for word in words_of(text) if (place := self.places.get(word)) is not None)
            found = [(1 + math.log(count)) * self.rarity[place] for place, count in counts.items()]
            norm = math.sqrt(sum(value * value for value in found)) or 1.0
            starts.append(len(columns))
            columns += counts
            values += [value / norm for value in found]
        return Bags(torch.tensor(columns, dtype=torch.int64), torch.tensor(values), torch.tensor(starts))


class Bags(NamedTuple):
    """Weighted words of several texts, one after the other, and where each text begins."""

    columns: Int[Tensor, " words"]
    values: Float[Tensor, " words"]
    starts: Int[Tensor, " texts"]

    def scores(self, weights: Float[Tensor, "features classes"]) -> Float[Tensor, "texts classes"]:
        """The weighted sums of the words' rows."""
        return F.embedding_bag(self.columns, weights, self.starts, mode="sum", per_sample_weights=self.values)


def logistic_regression(
    x: Bags, wanted: Int[Tensor, " texts"], features: int, classes: int, steps: int = 60
) -> tuple[Float[Tensor, "features classes"], Float[Tensor, " classes"]]:
    """Weights and bias with the smallest cross-entropy plus |weights|^2 / (2 strength n), by L-BFGS."""
    weights, bias = (torch.zeros(shape, requires_grad=True) for shape in ((features, classes), (classes,)))
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        prior = weights.square().sum() / (2 * STRENGTH * len(wanted))
        found = F.cross_entropy(x.scores(weights) + bias, wanted) + prior
        found.backward()
        return found

    optimizer.step(loss)
    return weights.detach(), bias.detach()
