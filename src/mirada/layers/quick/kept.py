"""What was made of a model's parameters, kept as long as they are what they were.

Whether they are is asked once per decoding. A parameter that was replaced, moved or written by PyTorch is noticed for certain.
Fused optimizers and writes through `tensor.data` are not counted by PyTorch, so a few numbers of every parameter are compared
too: any step of an optimizer shows there. Whoever changes single numbers through `tensor.data` calls `forget`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from mirada.layers.quick.library import addresses, loaded


@dataclass(frozen=True, eq=False)
class Kept:
    """Something made from parameters, and what they were then."""

    made: Any
    parameters: list[Tensor]
    numbers: list[Tensor]  # held, so that nothing else can come to stand where they do
    marks: tuple[object, ...]


_kept: "WeakKeyDictionary[nn.Module, Kept]" = WeakKeyDictionary()


def kept(owner: nn.Module, parameters: list[Tensor], beside: tuple[object, ...], make: Callable[[], Any]) -> Any:
    """What `make` makes of the parameters and of the values `beside` them; made anew only if one of them changed."""
    marks, before = (beside, *marks_of(parameters)), _kept.get(owner)
    if before is not None and before.marks == marks and all(map(same, before.parameters, parameters)):
        return before.made
    made = make()
    _kept[owner] = Kept(made, parameters, [parameter.detach() for parameter in parameters], marks)
    return made


def same(one: Tensor, other: Tensor) -> bool:
    return one is other


def marks_of(parameters: list[Tensor]) -> tuple[object, ...]:
    """What tells whether parameters changed: where they are, how often PyTorch wrote to them, some of their numbers."""
    where = addresses(parameters)
    sizes = (ctypes.c_int64 * len(parameters))(*(parameter.numel() for parameter in parameters))
    writes = tuple(None if parameter.is_inference() else parameter._version for parameter in parameters)
    return tuple(where), writes, loaded().sample(where, sizes, len(parameters))


def forget() -> None:
    """Make everything anew when it is next needed: after changing single numbers through `tensor.data`."""
    _kept.clear()
