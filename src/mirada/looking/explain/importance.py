"""How much each head matters: the change of a model's output when the head is dropped, for all heads in one call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.errors import require
from mirada.looking.change.changes import DropHead
from mirada.looking.change.intervene import heads_of, intervene
from mirada.looking.explain.measures import call_model, logits_in
from mirada.looking.record import look

Measure = Callable[[Tensor, Tensor], Tensor]


def divergence(before: Float[Tensor, "*places classes"], after: Float[Tensor, "*places classes"]) -> Tensor:
    """KL(softmax(before) || softmax(after)) in nats, the mean over all places: for logits.

    A class that is ruled out (-inf) in both counts nothing.

    Args:
        before: The logits of the model as it is.
        after: The logits with a head dropped.

    >>> divergence(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 0.0]])).item()
    0.0
    """
    p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
    shares = p.exp()
    return torch.where(shares == 0, 0.0, shares * (p - q)).sum(-1).mean()


def difference(before: Float[Tensor, "..."], after: Float[Tensor, "..."]) -> Tensor:
    """|before - after|, the mean over all numbers: for outputs that are no logits.

    Args:
        before: The output of the model as it is.
        after: The output with a head dropped.

    >>> difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])).item()
    1.0
    """
    return (before.double() - after.double()).abs().mean()


@dataclass(frozen=True)
class Importance:
    """The change of the output by layer: a number per head. It prints as a table, layers below each other."""

    by_layer: Mapping[str, Float[Tensor, " heads"]]
    measure: str

    def __getitem__(self, layer: str) -> Float[Tensor, " heads"]:
        return self.by_layer[layer]

    @property
    def ranked(self) -> list[tuple[str, int, float]]:
        """Layer, head and change, the largest change first."""
        heads = [(layer, head, x) for layer, row in self.by_layer.items() for head, x in enumerate(row.tolist())]
        return sorted(heads, key=lambda item: -item[2])

    def __str__(self) -> str:
        heads = max(len(row) for row in self.by_layer.values())
        rows = [(f"{self.measure} without", *(f"head {head}" for head in range(heads)))]
        for layer, row in self.by_layer.items():
            rows.append((layer or "(the layer)", *(f"{x:.4g}" for x in row.tolist()), *[""] * (heads - len(row))))
        widths = [max(len(row[column]) for row in rows) for column in range(heads + 1)]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


@torch.no_grad()
def importance(
    model: nn.Module,
    inputs: "Tensor | tuple[Any, ...] | Mapping[str, Any] | Callable[[], Any]",
    measure: Measure = divergence,
) -> Importance:
    """Run a model once as it is and once without each head of each layer, and measure how far its output moves.

    Args:
        model: A model of mirada or of Hugging Face transformers.
        inputs: Its arguments (a tensor, a tuple, a dict by name), or a function that runs the model.
        measure: Compares two outputs: `divergence` of logits, `difference`, or your own.

    Compared are the output's `logits`, or its first tensor; a function may pick another. All runs draw the same
    random numbers. Dropping one head at a time does not see heads that stand in for each other.

    >>> from mirada import Attention, MultiHead
    >>> attention = Attention(MultiHead(width=4, heads=2))
    >>> importance(attention, torch.randn(1, 3, 4), difference)[""].shape
    torch.Size([2])

    Michel, Levy and Neubig (2019), arXiv:1905.10650.
    """
    names, counts = heads_of(model, "importance")
    heads = {name: counts[layer] for layer, name in names.items()}
    with look(model) as seen:
        before = _output_of(model, inputs)
    require(len(seen.names) > 0, f"the inputs reached no attention layer of {type(model).__name__}")
    by_layer = {name: torch.zeros(heads[name], dtype=torch.float64) for name in seen.names}
    for name, changes in by_layer.items():
        for head in range(heads[name]):
            with intervene(model, {name: DropHead(head)}):
                changes[head] = float(measure(before, _output_of(model, inputs)))
    return Importance(by_layer, getattr(measure, "__name__", "measure"))


def _output_of(model: nn.Module, inputs: Any) -> Tensor:
    """The model's output, with random numbers that are the same in every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        runs = callable(inputs) and not isinstance(inputs, Tensor | Mapping)
        output = inputs() if runs else call_model(model, inputs)
    logits = logits_in(output)
    if logits is None:
        got = type(output).__name__
        raise ValueError(f"importance compares tensors: got {got}. Give a function that runs the model and picks one.")
    return logits
