"""A linear model of texts over their n-grams: a component of the classifier, and the baseline it is compared with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.text.ngrams import Bags, NgramTable, occurrences, words_of
from mirada.training.baselines import learning, logistic_regression
from mirada.training.state import packed, read_checkpoint

COUNTS = "counts."  # before the names of the second model's tensors
STRENGTHS = (5.0, 20.0, 100.0)  # of the data against the prior
TRIED_CHARACTERS = 150_000  # of the texts with which a strength is chosen
FEWEST_TRIED = 20  # texts
MOST_WEIGHTS = 2**22  # n-grams x classes
MOST_SCORES = 2**25  # texts x classes
MOST_CHARACTERS = {"letters": 3_000_000, "words": 40_000_000}  # of the texts to learn from: a matter of seconds


@dataclass(frozen=True, eq=False)
class LinearTexts:
    """Logistic regression over the n-grams of texts, weighted by tf-idf: a sum of independent contributions of words.

    A model with letters has a second one over words alone (`counts`), whose n-grams are weighted by how much more often they
    occur in a class than in the others; the scores are the mean of both. Their errors differ: on held-out texts the mean is
    better than either.

    >>> model = LinearTexts.fit(["good film", "bad film", "a good book", "a bad book"], [1, 0, 1, 0], 2)
    >>> model.scores(["goodness", "so bad"]).argmax(1).tolist()
    [1, 0]

    Sparck Jones (1972); Wang and Manning (2012), P12-2018; Bojanowski et al. (2017), arXiv:1607.04606 (pieces of words).
    """

    kind: str  # of n-grams: words, or letters as well
    table: NgramTable
    weights: Float[Tensor, "ngrams classes"]
    bias: Float[Tensor, " classes"]
    counts: "LinearTexts | None" = None

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        classes: Sequence[int] | Sequence[Sequence[float]],
        count: int,
        kind: str = "letters",
        strength: float = 0.0,
        class_weights: Sequence[float] = (),
    ) -> "LinearTexts":
        """Fit to texts and their classes: numbers below `count`, or for each text a 1 for every class it has. Large data is
        read without letter n-grams, or in part. A strength of 0 is chosen by holding out some texts.
        """
        letters = sum(map(len, texts))
        kind = "words" if letters > MOST_CHARACTERS["letters"] else kind
        every = max(1, -(-letters // MOST_CHARACTERS[kind]), -(-len(texts) * count // MOST_SCORES))
        wanted = torch.tensor(classes[::every])
        row_weights = torch.tensor(class_weights)[wanted] if class_weights else None
        strength = strength or cls._best_strength(texts[::every], wanted, count, kind)
        own = cls._fitted(texts[::every], wanted, count, kind, strength, row_weights)
        if kind == "words":
            return own
        counts = cls._fitted(texts[::every], wanted, count, "words", strength, row_weights, by_class=True)
        mean = replace(counts, weights=counts.weights / 2, bias=torch.zeros(count))
        return replace(own, weights=own.weights / 2, bias=(own.bias + counts.bias) / 2, counts=mean)

    @classmethod
    def _best_strength(cls, texts: Sequence[str], wanted: Tensor, count: int, kind: str) -> float:
        """The strength with the smallest cross-entropy on every fifth of some texts; the first one where they are few."""
        every = -(-sum(map(len, texts)) // TRIED_CHARACTERS)
        some, wanted = texts[::every] if every else texts, wanted[:: max(1, every)]
        held = torch.arange(len(some)) % 5 == 0
        learned, asked = (
            [t for t, out in zip(some, held.tolist(), strict=True) if out == part] for part in (False, True)
        )
        if len(asked) < FEWEST_TRIED:
            return STRENGTHS[0]
        losses = []
        for strength in STRENGTHS:
            scores = cls._fitted(learned, wanted[~held], count, kind, strength, None).scores(asked)
            right = wanted[held]
            many = right.is_floating_point()
            losses.append(float((F.binary_cross_entropy_with_logits if many else F.cross_entropy)(scores, right)))
        return STRENGTHS[losses.index(min(losses))]

    @classmethod
    def _fitted(
        cls,
        texts: Sequence[str],
        wanted: Tensor,
        count: int,
        kind: str,
        strength: float,
        row_weights: Tensor | None,
        by_class: bool = False,
    ) -> "LinearTexts":
        """One model over n-grams of a kind; `by_class` weighs them by the classes that they occur in."""
        ngrams = occurrences(texts, kind)
        table = NgramTable.learn(ngrams, most=MOST_WEIGHTS // count)
        with learning():
            wanted, row_weights = wanted.clone(), None if row_weights is None else row_weights.clone()
            bags, size = table.bags(ngrams), len(table)
            ratios = log_count_ratios(bags, wanted, count) if by_class else None
            x = bags if ratios is None else RatioBags(bags, ratios)
            weights, bias = logistic_regression(x, wanted, size, count, strength=strength, row_weights=row_weights)
        return cls(kind, table, weights if ratios is None else weights * ratios, bias)

    def scores(self, texts: Sequence[str]) -> Float[Tensor, "texts classes"]:
        """The scores of the classes, before the softmax."""
        own = self.table.bags(occurrences(texts, self.kind)).product(self.weights) + self.bias
        return own if self.counts is None else own + self.counts.scores(texts)

    def knows(self, text: str) -> bool:
        """Whether it has learned any word of a text, or any part of one; signs do not count."""
        words = " ".join(word for word in words_of(text) if any(map(str.isalnum, word)))
        return bool((self.table.rows(occurrences([words], self.kind).keys) >= 0).any())

    def contributions(self, text: str) -> list[tuple[str, Float[Tensor, " classes"]]]:
        """How much each word of a text adds to the scores, including its letter n-grams and half of its word pairs. The sum
        of all plus the biases is the scores.
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
        if self.counts is not None and words:
            sums += torch.stack([added for _, added in self.counts.contributions(text)])
        return list(zip(words, sums, strict=True))

    def content(self) -> bytes:
        """The content of its file."""
        both = {"": self} if self.counts is None else {"": self, COUNTS: self.counts}
        tensors = {f"{mark}{name}": each for mark, model in both.items() for name, each in model._tensors().items()}
        return packed(tensors, {"kind": self.kind})

    def _tensors(self) -> dict[str, Tensor]:
        keys, rarity = torch.from_numpy(self.table.keys.view(np.int64)), torch.from_numpy(self.table.rarity)
        return {"keys": keys, "rarity": rarity, "weights": self.weights, "bias": self.bias}

    @classmethod
    def read(cls, path: Path) -> "LinearTexts":
        """Read a file with `content`."""
        tensors, facts = read_checkpoint(path)

        def model(kind: str, mark: str) -> LinearTexts:
            table = NgramTable(tensors[f"{mark}keys"].numpy().view(np.uint64), tensors[f"{mark}rarity"].numpy())
            return cls(kind, table, tensors[f"{mark}weights"], tensors[f"{mark}bias"])

        own = model(facts["kind"], "")
        return replace(own, counts=model("words", COUNTS)) if f"{COUNTS}keys" in tensors else own


class RatioBags(NamedTuple):
    """Bags whose n-grams count for each class as much as their ratio of it."""

    bags: Bags
    ratios: Float[Tensor, "ngrams classes"]

    def scores(self, weights: Float[Tensor, "ngrams classes"]) -> Float[Tensor, "texts classes"]:
        """The weighted sums of every text."""
        return self.bags.scores(weights * self.ratios)


def log_count_ratios(bags: Bags, wanted: Tensor, count: int) -> Float[Tensor, "ngrams classes"]:
    """How much more often n-grams occur in the texts of a class than in the others, as a logarithm.

    ratio = log(p / |p|) - log(q / |q|),  p = 1 + texts of the class that have it,  q = 1 + other texts that have it

    Wang and Manning (2012), P12-2018.
    """
    here = wanted.float() if wanted.is_floating_point() else F.one_hot(wanted, count).float()
    once = Bags(bags.columns, torch.ones_like(bags.values), bags.starts, bags.ngrams).transposed
    inside = once.product(here)
    p, q = inside + 1, once.product(torch.ones(len(here), 1)) - inside + 1
    return (p / p.sum(0)).log() - (q / q.sum(0)).log()
