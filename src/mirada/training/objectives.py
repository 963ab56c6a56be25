"""What is made small, and what it is made small on: the two things a task hands to the loop."""

import inspect
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.data.batching import Microbatch
from mirada.layers.output import IGNORED, ROWS_AT_ONCE
from mirada.training.distributed import ProcessGroup, to_device


class Objective(nn.Module):
    """A loss made of terms. `forward` gives their means over one part; the loop weighs them by what they count.

    So the gradient is that of the mean over the whole batch, however it was divided:
    loss = sum over terms of (sum over parts of count x mean) / (sum over parts of count).

    What an objective must remember from step to step (a moving average) is a buffer: it is saved with the run, and changed
    only in `end_step`, so that the parts of a batch, in whatever number, are all judged alike.

    `selection_metrics` names further means of a validation, over as many things as the first term counts. The first of them is
    what the best weights have smallest; where there is none, that is the loss.
    """

    terms: tuple[str, ...] = ("loss",)
    selection_metrics: tuple[str, ...] = ()
    model: nn.Module

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smooth = smoothing

    @property
    def smoothing(self) -> float:
        """Label smoothing is for training; a validation measures the plain cross-entropy."""
        return self.smooth if self.training else 0.0

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The means of the terms over one part of a batch."""
        raise NotImplementedError

    def end_step(self, group: ProcessGroup) -> None:
        """All parts of a step of training have been seen, by this process and by the others of the group."""

    def validate(self, **inputs: Any) -> Float[Tensor, " terms_and_metrics"]:
        """The means of the terms over one part, then those of `selection_metrics`."""
        return self(**inputs)

    def rank(self, means: Mapping[str, float]) -> tuple[float, float]:
        """What the best validation has smallest: the first of `selection_metrics`, then the loss."""
        loss = means["loss"] if math.isfinite(means["loss"]) else math.inf
        return (means[self.selection_metrics[0]] if self.selection_metrics and loss < math.inf else loss), loss

    def quality(self, rank: tuple[float, float]) -> str:
        """A rank in words that people know."""
        return f"valid loss {rank[1]:.4f}"


class ModelLoss(Objective):
    """The loss that the model itself has: a mean over its targets, with label smoothing where there are labels."""

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__(model, smoothing)
        self.smooths = "smoothing" in inspect.signature(model.loss).parameters  # type: ignore[arg-type]

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The model's own loss."""
        options = {"smoothing": self.smoothing} if self.smooths else {}
        return self.model.loss(**inputs, **options).unsqueeze(0)  # type: ignore[operator]


class TokenLoss(ModelLoss):
    """The loss of a model that writes tokens; the best weights are those with the fewest wrong tokens, each after right ones.

    Who grows surer of nearly all tokens loses more on the few wrong ones: the loss rises again while the texts get better.
    The model has `hidden(**inputs)`, a vector for every place, and an `output` from there to the vocabulary.
    """

    selection_metrics = ("error",)

    def validate(self, **inputs: Any) -> Float[Tensor, " terms_and_judged"]:
        wanted = inputs.pop("wanted")
        real = wanted != IGNORED
        vectors, right = self.model.hidden(**inputs)[real], wanted[real]  # type: ignore[operator]
        sums = vectors.new_zeros(2)
        for some, tokens in zip(vectors.split(ROWS_AT_ONCE), right.split(ROWS_AT_ONCE), strict=True):
            logits = self.model.output(some)  # type: ignore[operator]
            sums[0] += F.cross_entropy(logits, tokens, reduction="sum")
            sums[1] += (logits.argmax(-1) != tokens).sum()
        return sums / max(1, len(right))

    def quality(self, rank: tuple[float, float]) -> str:
        return f"{100 * (1 - rank[0]):.1f} % of the valid tokens right"


class ClassLoss(Objective):
    """The cross-entropy of the right one of several classes; the best weights are those with the fewest wrong answers.

    loss = mean over records of weight x cross-entropy(model(inputs), class)

    A part's inputs are those of the model, the `classes`, and, where classes are balanced, the `weights` of the records
    (`class_weights`), which count in the error as well.
    """

    selection_metrics = ("error",)

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The cross-entropy."""
        return self.both(**inputs)[0]

    def validate(self, **inputs: Any) -> Float[Tensor, " terms_and_judged"]:
        return torch.cat(self.both(**inputs))

    def both(
        self, classes: Int[Tensor, " batch"], weights: Float[Tensor, " batch"] | None = None, **inputs: Any
    ) -> tuple[Float[Tensor, " terms"], Float[Tensor, " metrics"]]:
        """The loss and the share of wrong answers."""
        scores = self.model(**inputs)
        each = F.cross_entropy(scores, classes, label_smoothing=self.smoothing, reduction="none")
        wrong = (scores.argmax(-1) != classes).to(each.dtype)
        if weights is not None:
            each, wrong = weights * each, weights * wrong
        return each.mean(0, keepdim=True), wrong.mean(0, keepdim=True)

    def quality(self, rank: tuple[float, float]) -> str:
        return f"valid accuracy {100 * (1 - rank[0]):.1f}"


def class_weights(labels: Sequence[str], names: Sequence[str]) -> tuple[float, ...]:
    """A weight for every name, inverse to how often it is among the labels; over all labels their mean is 1.

    >>> class_weights(["no", "no", "no", "yes"], ["no", "yes"])
    (0.6666666666666666, 2.0)
    """
    counts = Counter(labels)
    return tuple(len(labels) / (len(names) * counts[name]) if counts[name] else 0.0 for name in names)


@torch.no_grad()
def evaluate(objective: Objective, parts: Sequence[Microbatch], group: ProcessGroup) -> dict[str, float]:
    """The means over all parts, divided among the processes: of the terms, of their sum as "loss", of what is judged."""
    was_training = objective.training
    objective.eval()
    names = (*objective.terms, *objective.selection_metrics)
    sums = [0.0] * (2 * len(names))
    for part in parts[group.rank :: group.world]:
        means = objective.validate(**to_device(part.inputs, group.device)).tolist()
        counts = (*part.counts, *[part.counts[0]] * len(objective.selection_metrics))
        for number, (mean, count) in enumerate(zip(means, counts, strict=True)):
            if count:
                sums[2 * number] += mean * count
                sums[2 * number + 1] += count
    objective.train(was_training)
    sums = group.total(sums)
    totals = {name: sums[2 * i] / max(1.0, sums[2 * i + 1]) for i, name in enumerate(names)}
    return totals | {"loss": sum(totals[name] for name in objective.terms)}
