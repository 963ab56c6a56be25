"""Packed weights, kept as long as they are what the model has.

That is asked once per decoding. A parameter that was replaced, moved or written by PyTorch is noticed for certain. Fused
optimizers and writes through `tensor.data` are not counted by PyTorch, so some numbers of every parameter are compared too: a
step of an optimizer shows there. Whoever changes single numbers through `tensor.data` calls `forget`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from mirada.layers.quick.library import loaded
from mirada.layers.quick.panels import Packed
from mirada.layers.quick.record import Record


@dataclass(frozen=True)
class Marks:
    """What tells whether parameters changed: where they are, how often PyTorch wrote to them, some of their numbers."""

    where: list[int]
    writes: list[int | None]
    some: int

    @classmethod
    def of(cls, parameters: list[Tensor]) -> "Marks":
        where = [parameter.data_ptr() for parameter in parameters]
        writes = [None if parameter.is_inference() else parameter._version for parameter in parameters]
        sizes = [parameter.numel() for parameter in parameters]
        places, counts = (ctypes.c_void_p * len(where))(*where), (ctypes.c_int64 * len(where))(*sizes)
        return cls(where, writes, loaded().sample(places, counts, len(where)))


@dataclass(frozen=True, eq=False)
class Kept:
    """Packed weights, and what they were made from."""

    packed: Packed
    record: Record
    marks: Marks
    numbers: list[Tensor]  # the parameters' memory: held, so that nothing else can come to stand there


_kept: "WeakKeyDictionary[nn.Module, Kept]" = WeakKeyDictionary()


def kept(owner: nn.Module, record: Record, make: Callable[[], Packed]) -> Packed:
    """What `make` makes of the weights on record; made anew only if one of them changed."""
    marks, before = Marks.of(record.parameters), _kept.get(owner)
    if before is not None and before.record is record and before.marks == marks:
        return before.packed
    packed = make()
    _kept[owner] = Kept(packed, record, marks, [parameter.detach() for parameter in record.parameters])
    return packed


def forget() -> None:
    """Pack all weights anew when they are next needed: after changing single numbers through `tensor.data`."""
    _kept.clear()
