"""Linear models that are learned in seconds: logistic regression, and what the words of a text say each by itself."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.data.text.ngrams import NgramTable, occurrences, words_of
from mirada.training.state import packed, read_checkpoint

STRENGTH = 10.0  # of the data against the prior: the inverse of scikit-learn's penalty, its C
HISTORY = 10  # steps that L-BFGS remembers: each is as large as the weights
MOST_WEIGHTS = 2**22  # n-grams x classes
MOST_SCORES = 2**25  # texts x classes
MOST_CHARACTERS = {"letters": 3_000_000, "words": 40_000_000}  # that n-grams are learned from, in some seconds


class Table(Protocol):
    """Rows of numbers, sparse or not."""

    def scores(self, weights: Float[Tensor, "features classes"]) -> Float[Tensor, "rows classes"]:
        """The weighted sums of every row."""


def logistic_regression(
    x: Table,
    wanted: Int[Tensor, " rows"],
    features: int,
    classes: int,
    steps: int = 60,
    strength: float = STRENGTH,
    row_weights: Float[Tensor, " rows"] | None = None,
) -> tuple[Float[Tensor, "features classes"], Float[Tensor, " classes"]]:
    """Weights and bias with the smallest cross-entropy plus |weights|^2 / (2 strength n), by L-BFGS."""
    weights, bias = (torch.zeros(shape, requires_grad=True) for shape in ((features, classes), (classes,)))
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps, history_size=HISTORY, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        prior = weights.square().sum() / (2 * strength * len(wanted))
        each = F.cross_entropy(x.scores(weights) + bias, wanted, reduction="none")
        found = (each if row_weights is None else each * row_weights).mean() + prior
        found.backward()
        return found

    optimizer.step(loss)
    return weights.detach(), bias.detach()


@contextmanager
def learning() -> Iterator[None]:
    """Gradients, also for who asks while answers are measured, and one thread: there is too little to share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, eq=False)
class LinearTexts:
    """Logistic regression over the n-grams of texts, weighted by tf-idf: every word has its say, and none knows of another.

    >>> model = LinearTexts.fit(["good film", "bad film", "a good book", "a bad book"], [1, 0, 1, 0], 2)
    >>> model.scores(["goodness", "so bad"]).argmax(1).tolist()
    [1, 0]

    Sparck Jones (1972); Wang and Manning (2012), P12-2018; Bojanowski et al. (2017), arXiv:1607.04606 (pieces of words).
    """

    kind: str  # of n-grams: words, or letters as well
    table: NgramTable
    weights: Float[Tensor, "ngrams classes"]
    bias: Float[Tensor, " classes"]

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        classes: Sequence[int],
        count: int,
        kind: str = "letters",
        strength: float = STRENGTH,
        class_weights: Sequence[float] = (),
    ) -> "LinearTexts":
        """Learn from texts with their classes, numbers below `count`; many texts without letters, too many in part."""
        size = sum(map(len, texts))
        kind = "words" if size > MOST_CHARACTERS["letters"] else kind
        every = max(1, -(-size // MOST_CHARACTERS[kind]), -(-len(texts) * count // MOST_SCORES))
        found = occurrences(texts[::every], kind)
        table = NgramTable.learn(found, most=MOST_WEIGHTS // count)
        with learning():
            wanted = torch.tensor(classes[::every])
            row_weights = torch.tensor(class_weights)[wanted] if class_weights else None
            weights, bias = logistic_regression(
                table.bags(found), wanted, len(table), count, strength=strength, row_weights=row_weights
            )
        return cls(kind, table, weights, bias)

    def scores(self, texts: Sequence[str]) -> Float[Tensor, "texts classes"]:
        """The scores of the classes, before the softmax."""
        return self.table.bags(occurrences(texts, self.kind)).product(self.weights) + self.bias

    def says(self, text: str) -> list[tuple[str, Float[Tensor, " classes"]]]:
        """What every word of a text adds to the scores, its pieces and half of its pairs included; their sum and the bias
        are the scores.
        """
        words, found = words_of(text), occurrences([text], self.kind)
        bags, rows = self.table.bags(found), torch.from_numpy(self.table.rows(found.keys))
        known = rows >= 0
        mine = torch.searchsorted(bags.columns, rows[known])  # the columns of one text are in order, each once
        share = bags.values / mine.bincount(minlength=len(bags.columns))
        each = torch.zeros(len(rows), self.weights.shape[1])
        each[known] = share[mine].unsqueeze(1) * self.weights[rows[known]]
        places, pairs = torch.from_numpy(found.places), len(rows) - found.pairs
        each[pairs:] /= 2
        whole = torch.zeros(len(words), self.weights.shape[1])
        whole.index_add_(0, places, each)
        whole.index_add_(0, places[pairs:] + 1, each[pairs:])
        return list(zip(words, whole, strict=True))

    def content(self) -> bytes:
        """What its file holds."""
        tensors = {
            "keys": torch.from_numpy(self.table.keys.view(np.int64)),
            "rarity": torch.from_numpy(self.table.rarity),
        }
        return packed(tensors | {"weights": self.weights, "bias": self.bias}, {"kind": self.kind})

    @classmethod
    def read(cls, path: Path) -> "LinearTexts":
        """What `content` wrote."""
        tensors, facts = read_checkpoint(path)
        table = NgramTable(tensors["keys"].numpy().view(np.uint64), tensors["rarity"].numpy())
        return cls(facts["kind"], table, tensors["weights"], tensors["bias"])


# What the first thing that one would try reaches: plain models to be measured beside ours, learned in seconds.


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
