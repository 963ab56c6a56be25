"""What is wanted of a text: one of several labels, or any number of them, each with a probability of its own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.training.objectives import ClassLoss

BETWEEN = re.compile(r"\s*[,;|]\s*")  # what divides labels in one cell
LIKELY = 0.5  # the probability from which one of several labels is answered
Ranked = Sequence[tuple[str, float]]


class Target(Protocol):
    """How labels are read, learned and answered: `ONE` or `MANY`."""

    def labels_in(self, cell: str) -> tuple[str, ...]:
        """The labels of a cell."""
        ...

    def wanted(self, cell: str, numbers: Mapping[str, int]) -> Any:
        """What a model learns of a cell, given the numbers of the labels."""
        ...

    def losses(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        """The cross-entropy of each record."""
        ...

    def wrong(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        """The share of each record that is answered wrongly."""
        ...

    def shares(self, scores: Float[Tensor, "*records classes"]) -> Float[Tensor, "*records classes"]:
        """The probabilities of the labels."""
        ...

    def answer(self, ranked: Ranked) -> tuple[str, float]:
        """The answer and its probability, from the labels with theirs, best first."""
        ...

    def metrics(self, given: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
        """How good answers are, the metric that people compare first."""
        ...


class _OneLabel:
    """A text has one of the labels."""

    def labels_in(self, cell: str) -> tuple[str, ...]:
        return (cell,)

    def wanted(self, cell: str, numbers: Mapping[str, int]) -> int:
        return numbers.get(cell, -1)

    def losses(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        return F.cross_entropy(scores, wanted, reduction="none")

    def wrong(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        return (scores.argmax(1) != wanted).double()

    def shares(self, scores: Float[Tensor, "*records classes"]) -> Float[Tensor, "*records classes"]:
        return scores.softmax(-1)

    def answer(self, ranked: Ranked) -> tuple[str, float]:
        return ranked[0]

    def metrics(self, given: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
        from mirada.runs.classes import class_metrics

        return class_metrics(given, wanted)


class _ManyLabels:
    """A text has any number of the labels, at least one: each is decided independently."""

    least = 1  # labels of an answer

    def labels_in(self, cell: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(label for label in BETWEEN.split(cell.strip()) if label))

    def wanted(self, cell: str, numbers: Mapping[str, int]) -> list[float]:
        here = self.labels_in(cell)
        return [float(label in here) for label in numbers]

    def losses(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        return F.binary_cross_entropy_with_logits(scores, wanted.to(scores.dtype), reduction="none").sum(1)

    def wrong(self, scores: Float[Tensor, "records classes"], wanted: Tensor) -> Float[Tensor, " records"]:
        return ((scores > 0) != (wanted > 0)).double().mean(1)

    def shares(self, scores: Float[Tensor, "*records classes"]) -> Float[Tensor, "*records classes"]:
        return scores.sigmoid()

    def answer(self, ranked: Ranked) -> tuple[str, float]:
        likely = [pair for pair in ranked if pair[1] > LIKELY] or list(ranked[: self.least])
        return ", ".join(sorted(label for label, _ in likely)), likely[-1][1] if likely else 1 - ranked[0][1]

    def metrics(self, given: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
        """F1 over all decisions, the mean F1 of the labels, and the share of texts whose labels are all right."""
        pairs = [(set(self.labels_in(a)), set(self.labels_in(b))) for a, b in zip(given, wanted, strict=True)]
        per_label = label_scores(pairs)
        right, counted = (sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs))
        return {
            "micro_f1": 200 * right / max(1, counted),
            "macro_f1": sum(scores["f1"] for scores in per_label.values()) / max(1, len(per_label)),
            "accuracy": 100 * sum(a == b for a, b in pairs) / max(1, len(pairs)),
        }


class _AnyLabels(_ManyLabels):
    """A text may also have none of them, as some in the training data."""

    least = 0


ONE, MANY = _OneLabel(), _ManyLabels()
TARGETS: Mapping[str, Target] = {"one": ONE, "many": MANY, "any": _AnyLabels()}
KINDS_OF_LABELS = ("one", "many")  # that a person chooses; whether a text may have none, the data say


class TextLoss(ClassLoss):
    """The cross-entropy of the right class; of independent labels, the sum of the cross-entropies of all decisions.

    The best weights are those with the fewest wrong answers, or wrong decisions.
    """

    def both(
        self, classes: Tensor, weights: Float[Tensor, " batch"] | None = None, **inputs: Any
    ) -> tuple[Float[Tensor, " terms"], Float[Tensor, " metrics"]]:
        """The loss and the share of what is wrong."""
        if not classes.is_floating_point():
            return super().both(classes, weights, **inputs)
        scores = self.model(**inputs)
        wrong = MANY.wrong(scores, classes).to(scores.dtype)
        return MANY.losses(scores, classes).mean(0, keepdim=True), wrong.mean(0, keepdim=True)


def label_scores(pairs: Sequence[tuple[set[str], set[str]]]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of every label, from the given and the wanted labels of each record.

    >>> label_scores([({"a"}, {"a", "b"}), ({"b"}, {"b"})])["b"]
    {'precision': 100.0, 'recall': 50.0, 'f1': 66.66666666666667, 'records': 2}
    """
    scores = {}
    for label in sorted({label for pair in pairs for labels in pair for label in labels}):
        right = sum(label in given and label in wanted for given, wanted in pairs)
        answered, there = (sum(label in pair[side] for pair in pairs) for side in (0, 1))
        scores[label] = {
            "precision": 100 * right / answered if answered else 0.0,
            "recall": 100 * right / there if there else 0.0,
            "f1": 200 * right / (answered + there),
            "records": there,
        }
    return scores
