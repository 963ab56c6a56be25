"""What the first thing that one would try reaches: plain models to be measured beside ours, learned in seconds."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.ngrams import NgramTable, occurrences
from mirada.training.linear import LinearTexts, logistic_regression

MOST_TEXTS = 50_000  # more are not needed for a baseline
MOST_NGRAMS = 2**17  # that texts are compared by


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
    names = sorted(set(labels))
    numbers = {name: number for number, name in enumerate(names)}
    model = LinearTexts.fit(texts[::every], [numbers[label] for label in labels[::every]], len(names), "words")
    return [names[number] for number in model.scores(questions).argmax(1).tolist()]


def linear_on_features(
    train: Float[Tensor, "rows features"], labels: Sequence[str], questions: Float[Tensor, "questions features"]
) -> list[str]:
    """The answers of logistic regression over rows of numbers: the features of a node, the pixels of a picture.

    >>> train = torch.tensor([[0.0, 9.0], [1.0, 8.0], [9.0, 0.0], [8.0, 2.0]])
    >>> linear_on_features(train, ["low", "low", "high", "high"], torch.tensor([[7.0, 1.0]]))
    ['high']
    """
    every = max(1, -(-len(train) // MOST_TEXTS))
    train, labels = train[::every].float(), labels[::every]
    names = sorted(set(labels))
    with torch.inference_mode(False), torch.enable_grad():
        wanted = torch.tensor([names.index(label) for label in labels])
        train = train.cpu().clone()  # what inference made cannot be learned from
        mean = train.mean(0)
        scale = (train - mean).square().sum(1).mean().sqrt().clamp_min(1e-9)  # rows have length 1 then, on the average
        x, asked = (DenseRows((some.float().cpu() - mean) / scale) for some in (train, questions))
        weights, bias = logistic_regression(x, wanted, train.shape[1], len(names))
        scores = asked.scores(weights) + bias
    return [names[number] for number in scores.argmax(1).tolist()]


class DenseRows(NamedTuple):
    """Rows of numbers, each with a number for every feature."""

    rows: Float[Tensor, "rows features"]

    def scores(self, weights: Float[Tensor, "features classes"]) -> Float[Tensor, "rows classes"]:
        """The weighted sums of every row."""
        return self.rows @ weights


def nearest(
    known: Float[Tensor, "known features"], asked: Float[Tensor, "asked features"], at_once: int = 256
) -> list[int]:
    """For everything asked, the number of the nearest that is known, by the Euclidean distance.

    >>> nearest(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
    [1, 0]

    Cover and Hart (1967).
    """
    lengths, found = known.square().sum(1), []
    for part in asked.split(at_once):
        found += (lengths - 2 * part @ known.T).argmin(1).tolist()
    return found


def nearest_texts(known: Sequence[str], asked: Sequence[str], at_once: int = 64) -> list[int]:
    """For every text asked, the number of the known one with the most alike words, by the cosine of their tf-idf.

    >>> nearest_texts(["the red house", "a green tree", "my house"], ["the green house", "one tree"])
    [0, 1]

    Salton, Wong and Yang (1975), doi:10.1145/361219.361220.
    """
    every = max(1, -(-len(known) // MOST_TEXTS))
    read = occurrences(known[::every], "words")
    table = NgramTable.learn(read, MOST_NGRAMS)
    texts, found = table.bags(read), list[int]()
    for first in range(0, len(asked), at_once):
        some = asked[first : first + at_once]
        bags = table.bags(occurrences(some, "words"))
        sizes = torch.diff(bags.starts, append=torch.tensor([len(bags.columns)]))
        rows = torch.zeros(len(table), len(some))
        rows[bags.columns, torch.arange(len(some)).repeat_interleave(sizes)] = bags.values
        found += (texts.product(rows).argmax(0) * every).tolist()
    return found
