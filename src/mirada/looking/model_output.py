"""Running any model, and finding the logits in what it gives: a tensor, several of them, or an output with names."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn


def call_model(model: nn.Module, inputs: Any) -> Any:
    """What a model gives for its arguments: a tensor, a tuple of several, or a dict by name."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*(inputs if isinstance(inputs, tuple) else (inputs,)))


def logits_in(output: Any) -> Tensor | None:
    """The logits of an output: itself, what it calls `logits`, or the first of several tensors; None where there are none.

    >>> import torch
    >>> logits_in((torch.zeros(2), torch.zeros(3))).shape, logits_in("text")
    (torch.Size([2]), None)
    """
    if isinstance(output, Tensor):
        return output
    named = getattr(output, "logits", None)
    if isinstance(named, Tensor):
        return named
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ()
    return next((part for part in parts if isinstance(part, Tensor) and part.ndim), None)
