"""Linear models that are learned in seconds: logistic regression, and what the words of a text say each by itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.data.ngrams import NgramTable, occurrences, words_of
from mirada.training.checkpoint import packed, read_checkpoint

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
