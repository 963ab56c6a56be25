"""What was seen stays as it was: copies of the parts that weighed, and whether a recorded tensor was changed since."""

from collections.abc import Iterator
from copy import copy

import torch
from torch import Tensor, nn

from mirada.attention.kernels.request import Request

SETTINGS = (int, float, str, type(None))  # what a part is told beside its tensors; a tuple is asked faster than a union


def versions(request: Request) -> tuple[int, ...]:
    """How often each recorded tensor was changed in place. Tensors of inference mode keep no count and cannot be checked."""
    given = (request.places.positions, request.places.key_positions)
    tensors = (request.q, request.k, request.v, *request.where.tensors(), *(x for x in given if x is not None))
    return tuple(-1 if x.is_inference() else x._version for x in tensors)


def fingerprint(part: nn.Module) -> Iterator[object]:
    """Everything a part's numbers depend on beside its tensors: which part it is, and its settings."""
    yield part
    for value in vars(part).values():
        if isinstance(value, SETTINGS):
            yield value


def numbers_of(part: nn.Module) -> list[Tensor]:
    """The parameters and buffers of a part, in an order of their own: quicker than asking PyTorch for both."""
    found = [x for store in (part._parameters, part._buffers) for x in store.values() if x is not None]
    for inner in part._modules.values():
        found += [] if inner is None else numbers_of(inner)
    return found


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
