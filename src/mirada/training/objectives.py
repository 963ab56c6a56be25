"""What is made small, and what it is made small on: the two things a task hands to the loop."""

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.training.distributed import ProcessGroup


@dataclass(frozen=True)
class Microbatch:
    """A share of a batch: what the model is given, how many things each term of the loss is a mean of, and its true tokens.

    A part that counts nothing (there were more shares than rows) holds a row all the same, so that every process has a step
    to make.
    """

    inputs: dict[str, Any]
    counts: tuple[int, ...]
    tokens: int


class BatchSource(Protocol):
    """Batches as a function of the step, so that a resumed run needs no history to know what comes next."""

    def __len__(self) -> int:
        """How many batches an epoch has."""

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of the batch of a step."""


class Objective(nn.Module):
    """A loss made of terms. `forward` gives their means over one part; the loop weighs them by what they count.

    So the gradient is that of the mean over the whole batch, however it was divided:
    loss = sum over terms of (sum over parts of count x mean) / (sum over parts of count).
    """

    terms: tuple[str, ...] = ("loss",)

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.smooth = smoothing

    @property
    def smoothing(self) -> float:
        """Label smoothing is for training; a validation tells the plain cross-entropy."""
        return self.smooth if self.training else 0.0

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        raise NotImplementedError


class ModelLoss(Objective):
    """The loss that the model itself has: a mean over its targets, with label smoothing where there are labels."""

    def __init__(self, model: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__(model, smoothing)
        self.smooths = "smoothing" in inspect.signature(model.loss).parameters  # type: ignore[arg-type]

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        options = {"smoothing": self.smoothing} if self.smooths else {}
        return self.model.loss(**inputs, **options).unsqueeze(0)  # type: ignore[operator]


def moved(inputs: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The inputs with their tensors on a device."""
    if device.type == "cpu":
        return inputs
    return {name: x.to(device, non_blocking=True) if isinstance(x, Tensor) else x for name, x in inputs.items()}


def seed_for(*numbers: int) -> int:
    """One seed from several numbers, the same on every machine.

    >>> seed_for(0, 1) == seed_for(0, 1) != seed_for(1, 0)
    True
    """
    text = "/".join(map(str, numbers)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


@torch.no_grad()
def evaluate(objective: Objective, parts: Sequence[Microbatch], group: ProcessGroup) -> dict[str, float]:
    """The means of the terms over all parts, divided among the processes, and their sum as "loss"."""
    was_training = objective.training
    objective.eval()
    sums = [0.0] * (2 * len(objective.terms))
    for part in parts[group.rank :: group.world]:
        means = objective(**moved(part.inputs, group.device)).tolist()
        for number, (mean, count) in enumerate(zip(means, part.counts, strict=True)):
            if count:
                sums[2 * number] += mean * count
                sums[2 * number + 1] += count
    objective.train(was_training)
    sums = group.total(sums)
    found = {name: sums[2 * i] / max(1.0, sums[2 * i + 1]) for i, name in enumerate(objective.terms)}
    return found | {"loss": sum(found.values())}
