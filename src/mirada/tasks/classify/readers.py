"""What is known of labelled texts beside a network: tokens, labels, what single words say, and how much that counts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.data.text.tokenize import TOKENIZER, Vocabulary
from mirada.errors import require
from mirada.training.baselines import LinearTexts, learning

# Probabilities that mean what they say: scores are scaled so that held-out records are predicted best.


STEPS = 60


def fitted_scales(
    scores: Sequence[Float[Tensor, "records classes"]],
    wanted: Int[Tensor, " records"],
    weights: Float[Tensor, " records"] | None = None,
) -> tuple[float, ...]:
    """A positive scale for the scores of every model, so that the softmax of their scaled sum predicts the wanted classes best.

    minimize  sum over records of cross-entropy(sum over models of scale x scores) + sum over models of log(scale x models)^2 / 2

    One model: its temperature, as 1 / temperature, which changes no answer. Several: how much each has to say. The second
    term weighs as little as one record; it keeps scales finite where few records are all right.

    Guo et al. (2017), arXiv:1706.04599; Wolpert (1992) for several models.
    """
    with learning():
        parts, wanted = torch.stack([score.double() for score in scores]).detach(), wanted.clone()
        counts = torch.ones(len(wanted)) if weights is None else weights.clone()
        start = -math.log(len(parts))
        logs = torch.full((len(parts),), start, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([logs], max_iter=STEPS, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            each = F.cross_entropy(mixed(parts, logs.exp()), wanted, reduction="none")
            whole = (each * counts).sum() + (logs - start).square().sum() / 2
            (whole / len(wanted)).backward()
            return whole / len(wanted)

        optimizer.step(loss)
        return tuple(logs.detach().exp().tolist())


def mixed(
    scores: Float[Tensor, "models records classes"], scales: Float[Tensor, " models"]
) -> Float[Tensor, "records classes"]:
    """The sum of the scores of several models, each with its scale."""
    return torch.einsum("m,mrc->rc", scales, scores)


LOUDEST = 8  # words of a label that are shown
LINEAR = "linear.safetensors"
STRENGTH = 5.0  # of the data against the prior


@dataclass(frozen=True)
class TextClasses(Vocabulary):
    """A tokenizer, labels and, where one is wanted, a linear model of the texts that stands beside the network.

    scores = scales[0] x network + scales[1] x linear

    The two learn apart: a network that learns beside a linear model which knows the texts already is left with their noise.
    The scales are fitted to the validation when the network has learned; before, the network speaks alone.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER, LINEAR)

    linear: LinearTexts | None = None
    scales: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()  # of the labels, where rare ones count more

    def with_linear(self, texts: Sequence[str], labels: Sequence[str], kind: str) -> Self:
        """Beside a linear model of these texts, over n-grams of this kind."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        classes = [numbers[label] for label in labels]
        linear = LinearTexts.fit(texts, classes, len(self.labels), kind, STRENGTH, self.weights)
        return replace(self, linear=linear)

    def readers(
        self, network: Float[Tensor, "texts classes"], texts: Sequence[str]
    ) -> dict[str, Float[Tensor, "texts classes"]]:
        """The scores of everybody who reads the texts, each for itself, by name."""
        both = {"attention": network.float().cpu()}
        return both if self.linear is None else both | {"words": self.linear.scores(texts)}

    def scores(self, readers: Mapping[str, Float[Tensor, "texts classes"]]) -> Float[Tensor, "texts classes"]:
        """Their scores together; those of the network alone while the scales are not known."""
        if not self.scales:
            return readers["attention"]
        return mixed(torch.stack(list(readers.values())), torch.tensor(self.scales))

    def calibrated(self, readers: Mapping[str, Float[Tensor, "texts classes"]], wanted: Int[Tensor, " texts"]) -> Self:
        """With the scales that predict these texts best."""
        weights = torch.tensor(self.weights)[wanted] if self.weights else None
        return replace(self, scales=fitted_scales(list(readers.values()), wanted, weights))

    def facts(self) -> dict[str, Any]:
        beside = {} if self.linear is None else {"beside": self.linear.kind}
        return super().facts() | beside | {"scales": list(self.scales), "weights": list(self.weights)}

    def contents(self) -> dict[str, bytes]:
        return super().contents() | {LINEAR: b"" if self.linear is None else self.linear.content()}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        known, path = super().restore(facts, paths), paths[LINEAR]
        numbers = {name: facts.get(name, []) for name in ("scales", "weights")}
        for name, found in numbers.items():
            good = isinstance(found, list) and all(isinstance(x, float) for x in found)
            require(good, f"the {name} in config.json must be a list of numbers")
        wanted = "beside" in facts
        require(not wanted or path.exists(), f"{path} is missing: this run answers with it. Restore the file.")
        linear = LinearTexts.read(path) if wanted else None
        return replace(known, linear=linear, scales=tuple(numbers["scales"]), weights=tuple(numbers["weights"]))


def loudest_words(linear: LinearTexts, texts: Sequence[str]) -> list[list[str]]:
    """For every class, the words that add most to its score beside the others', as a mean over where they stand."""
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        for word, said in linear.says(text):
            sums[word] = sums.get(word, 0) + said - said.mean()
            counts[word] += 1
    words = sorted(word for word, count in counts.items() if count > 1) or sorted(sums)
    if not words:
        return [[] for _ in linear.bias]
    means = torch.stack([sums[word] / counts[word] for word in words])
    order = means.argsort(dim=0, descending=True, stable=True)[:LOUDEST]
    return [[words[row] for row in column] for column in order.T.tolist()]
