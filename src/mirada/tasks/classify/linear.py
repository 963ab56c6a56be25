"""A linear model of texts over their n-grams: a component of the classifier, and the baseline it is compared with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mirada.data.text.ngrams import NgramTable, occurrences, words_of
from mirada.training.baselines import MOST_ROWS, STRENGTH, logistic_regression
from mirada.training.state import packed, read_checkpoint

MOST_WEIGHTS = 2**22  # n-grams x classes
MOST_SCORES = 2**25  # texts x classes
MOST_CHARACTERS = {"letters": 3_000_000, "words": 40_000_000}  # of the texts to learn from: a matter of seconds


@contextmanager
def learning() -> Iterator[None]:
    """Enable gradients, also in inference mode, and use one thread: the work is too small to share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, eq=False)
class LinearTexts:
    """Logistic regression over the n-grams of texts, weighted by tf-idf: a sum of independent contributions of words.

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
        """Fit to texts and their classes, numbers below `count`. Large data is read without letter n-grams, or in part."""
        letters = sum(map(len, texts))
        kind = "words" if letters > MOST_CHARACTERS["letters"] else kind
        every = max(1, -(-letters // MOST_CHARACTERS[kind]), -(-len(texts) * count // MOST_SCORES))
        ngrams = occurrences(texts[::every], kind)
        table = NgramTable.learn(ngrams, most=MOST_WEIGHTS // count)
        with learning():
            wanted = torch.tensor(classes[::every])
            row_weights = torch.tensor(class_weights)[wanted] if class_weights else None
            bags, size = table.bags(ngrams), len(table)
            learned = logistic_regression(bags, wanted, size, count, strength=strength, row_weights=row_weights)
        return cls(kind, table, *learned)

    def scores(self, texts: Sequence[str]) -> Float[Tensor, "texts classes"]:
        """The scores of the classes, before the softmax."""
        return self.table.bags(occurrences(texts, self.kind)).product(self.weights) + self.bias

    def knows(self, text: str) -> bool:
        """Whether it has learned any word of a text, or any part of one; signs do not count."""
        words = " ".join(word for word in words_of(text) if any(map(str.isalnum, word)))
        return bool((self.table.rows(occurrences([words], self.kind).keys) >= 0).any())

    def contributions(self, text: str) -> list[tuple[str, Float[Tensor, " classes"]]]:
        """How much each word of a text adds to the scores, including its letter n-grams and half of its word pairs. The sum
        of all plus the bias is the scores.
        """
        words, ngrams = words_of(text), occurrences([text], self.kind)
        bags, rows = self.table.bags(ngrams), torch.from_numpy(self.table.rows(ngrams.keys))
        known = rows >= 0
        columns = torch.searchsorted(bags.columns, rows[known])  # the columns of one text are sorted and unique
        share = bags.values / columns.bincount(minlength=len(bags.columns))
        each = torch.zeros(len(rows), self.weights.shape[1])
        each[known] = share[columns].unsqueeze(1) * self.weights[rows[known]]
        places, pairs = torch.from_numpy(ngrams.places), len(rows) - ngrams.pairs
        each[pairs:] /= 2
        sums = torch.zeros(len(words), self.weights.shape[1])
        sums.index_add_(0, places, each)
        sums.index_add_(0, places[pairs:] + 1, each[pairs:])
        return list(zip(words, sums, strict=True))

    def content(self) -> bytes:
        """The content of its file."""
        keys, rarity = torch.from_numpy(self.table.keys.view(np.int64)), torch.from_numpy(self.table.rarity)
        tensors = {"keys": keys, "rarity": rarity, "weights": self.weights, "bias": self.bias}
        return packed(tensors, {"kind": self.kind})

    @classmethod
    def read(cls, path: Path) -> "LinearTexts":
        """Read a file with `content`."""
        tensors, facts = read_checkpoint(path)
        table = NgramTable(tensors["keys"].numpy().view(np.uint64), tensors["rarity"].numpy())
        return cls(facts["kind"], table, tensors["weights"], tensors["bias"])


def linear_predictions(texts: Sequence[str], labels: Sequence[str], questions: Sequence[str]) -> list[str]:
    """Predictions of the plain reader, fitted to labeled texts: words, their pairs and their parts, linear.

    >>> texts, labels = ["good film", "bad film", "a good book", "a bad book"], ["yes", "no", "yes", "no"]
    >>> linear_predictions(texts, labels, ["good trip", "the bad one"])
    ['yes', 'no']
    """
    every = max(1, -(-len(texts) // MOST_ROWS))
    names = sorted(set(labels))
    numbers = {name: number for number, name in enumerate(names)}
    model = LinearTexts.fit(texts[::every], [numbers[label] for label in labels[::every]], len(names))
    return [names[number] for number in model.scores(questions).argmax(1).tolist()]
