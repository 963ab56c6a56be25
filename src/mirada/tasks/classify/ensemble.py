"""A classifier of two components, a network and a linear model of n-grams: what each run stores, and how both are combined."""

import math
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
from mirada.tasks.classify.linear import LinearTexts, learning

STEPS = 60  # of the fit of the scales
LINEAR = "linear.safetensors"
STRENGTH = 5.0  # of the data against the prior


@dataclass(frozen=True)
class TextClasses(Vocabulary):
    """A tokenizer, labels and, optionally, a linear model of the texts that is combined with the network.

    scores = scales[0] x network + scales[1] x linear

    The two are trained separately: a network trained together with a fitted linear model learns only noise. The scales
    are fitted to the validation set after training; until then only the network is used.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER, LINEAR)

    linear: LinearTexts | None = None
    scales: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count more

    def with_linear(self, texts: Sequence[str], labels: Sequence[str], kind: str) -> Self:
        """A copy with a linear model fitted to these texts, over n-grams of this kind."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        classes = [numbers[label] for label in labels]
        return replace(self, linear=LinearTexts.fit(texts, classes, len(self.labels), kind, STRENGTH, self.weights))

    def component_scores(
        self, network: Float[Tensor, "texts classes"], texts: Sequence[str]
    ) -> dict[str, Float[Tensor, "texts classes"]]:
        """The scores of each component, by its name."""
        scores = {"attention": network.float().cpu()}
        return scores if self.linear is None else scores | {"words": self.linear.scores(texts)}

    def joined_scores(self, scores: Mapping[str, Float[Tensor, "texts classes"]]) -> Float[Tensor, "texts classes"]:
        """The combined scores of the components; those of the network before the scales are fitted."""
        if not self.scales:
            return scores["attention"]
        return torch.einsum("m,mrc->rc", torch.tensor(self.scales), torch.stack(list(scores.values())))

    def facts(self) -> dict[str, Any]:
        kind = {} if self.linear is None else {"beside": self.linear.kind}
        return super().facts() | kind | {"scales": list(self.scales), "weights": list(self.weights)}

    def contents(self) -> dict[str, bytes]:
        return super().contents() | {LINEAR: b"" if self.linear is None else self.linear.content()}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        known, path, wanted = super().restore(facts, paths), paths[LINEAR], "beside" in facts
        numbers = {name: facts.get(name, []) for name in ("scales", "weights")}
        for name, values in numbers.items():
            good = isinstance(values, list) and all(isinstance(x, float) for x in values)
            require(good, f"the {name} in config.json must be a list of numbers")
        require(not wanted or path.exists(), f"{path} is missing: this run answers with it. Restore the file.")
        linear = LinearTexts.read(path) if wanted else None
        return replace(known, linear=linear, scales=tuple(numbers["scales"]), weights=tuple(numbers["weights"]))


def fitted_scales(
    scores: Sequence[Float[Tensor, "records classes"]],
    wanted: Int[Tensor, " records"],
    weights: Float[Tensor, " records"] | None = None,
) -> tuple[float, ...]:
    """A positive scale for the scores of each model, so that the softmax of the scaled sum fits the wanted classes best.

    minimize  sum over records of cross-entropy(sum over models of scale x scores) + sum over models of log(scale x models)^2 / 2

    For one model it is 1 / temperature, which changes no prediction; for several, how much each contributes. The second
    term weighs as little as one record; it keeps the scales finite where few records are all predicted correctly.

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
            each = F.cross_entropy(torch.einsum("m,mrc->rc", logs.exp(), parts), wanted, reduction="none")
            total = (each * counts).sum() + (logs - start).square().sum() / 2
            (total / len(wanted)).backward()
            return total / len(wanted)

        optimizer.step(loss)
        return tuple(logs.detach().exp().tolist())


def component_accuracies(by_component: Sequence[Mapping[str, str]], wanted: Sequence[str]) -> dict[str, float]:
    """The accuracy of each component alone, from the labels that the components predict for every text."""
    from mirada.training.metrics import accuracy  # an answer needs no metrics

    return {name: accuracy([labels[name] for labels in by_component], wanted) for name in by_component[0]}


def calibration_error(probabilities: Sequence[float], right: Sequence[bool], bins: int = 15) -> float:
    """The expected calibration error in percent: the gap between the probability of answers and the share that is right.

    ece = sum over bins of probability: (answers in it / all answers) |mean probability - share of right answers|

    >>> round(calibration_error([0.9, 0.9, 0.9, 0.9, 0.6], [True, True, True, False, True]), 6)  # (4 x 0.15 + 0.4) / 5
    20.0

    Naeini, Cooper and Hauskrecht (2015); Guo et al. (2017), arXiv:1706.04599.
    """
    gaps = [0.0] * bins
    for probability, hit in zip(probabilities, right, strict=True):
        gaps[min(bins - 1, int(probability * bins))] += probability - hit
    return 100 * sum(map(abs, gaps)) / len(right) if right else math.nan
