"""What was seen stays as it was: copies of the parts that weighed, and whether a recorded tensor was changed since."""

from collections.abc import Iterator
from copy import copy

import torch
from torch import Tensor, nn

from mirada.attention.kernels.request import Request


def versions(request: Request) -> tuple[int, ...]:
    """How often each recorded tensor was changed in place. Tensors of inference mode keep no count and cannot be checked."""
    given = (request.places.positions, request.places.key_positions)
    tensors = (request.q, request.k, request.v, *request.where.tensors(), *(x for x in given if x is not None))
    return tuple(-1 if x.is_inference() else x._version for x in tensors)


def fingerprint(part: nn.Module) -> Iterator[object]:
    """Everything a part's numbers depend on beside its tensors: which part it is, and its settings."""
    yield part
    yield from (value for value in vars(part).values() if isinstance(value, int | float | str | None))


def same(tensor: Tensor, before: Tensor) -> bool:
    """Whether a tensor still has the numbers of its copy. They are read: not every optimizer counts what it changes."""
    return tensor.shape == before.shape and tensor.dtype == before.dtype and torch.equal(tensor, before)


def freeze(part: nn.Module) -> nn.Module:
    """A part with copies of its tensors, which nobody else can change."""
    twin = copy(part)
    for store in ("_parameters", "_buffers"):
        kept = {name: None if x is None else x.detach().clone() for name, x in getattr(part, store).items()}
        object.__setattr__(twin, store, kept)
    object.__setattr__(twin, "_modules", {name: None if m is None else freeze(m) for name, m in part._modules.items()})
    return twin
