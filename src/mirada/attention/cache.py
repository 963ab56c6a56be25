"""Keys and values of earlier steps, kept so that each is computed once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.shapes import check_axes, check_integers, show

Keys = Float[Tensor, "batch kheads length kdim"]
Values = Float[Tensor, "batch vheads length value_dim"]
KeysSoFar = Float[Tensor, "batch kheads filled kdim"]
ValuesSoFar = Float[Tensor, "batch vheads filled value_dim"]


_FORGOTTEN = "a rolling cache has forgotten earlier places and cannot go back: copy() it before, or use attention.cache"


class Cache:
    """Room for the keys and values of `length` positions; `filled` is how many are stored.

    Keys are kept as the score sees them (rotary keys already rotated), so a step costs only its own projection.

    Args:
        keys: room for the keys, (batch, heads, length, dim).
        values: room for the values, (batch, heads, length, value_dim).

    >>> cache = Cache(torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2))
    >>> keys, values = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
    >>> keys.shape, cache.filled
    (torch.Size([1, 1, 3, 2]), 3)
    """

    def __init__(self, keys: Keys, values: Values) -> None:
        self.keys, self.values = keys, values
        self.filled = 0
        self.tracked = False
        self.reorders: list[Int[Tensor, " entries"]] = []

    @property
    def length(self) -> int:
        """How many positions there is room for."""
        return self.keys.shape[2]

    def append(self, keys: Keys, values: Values, tracked: bool = True) -> tuple[KeysSoFar, ValuesSoFar]:
        """Store the keys and values of the next positions; return all of them so far.

        `tracked` means that this step may need a gradient (for its queries, say): later steps then leave untouched what it
        read, as they do for earlier tracked steps.
        """
        self.check(keys, values)
        first, last = self.filled, self.filled + keys.shape[2]
        self.tracked = self.tracked or (tracked and torch.is_grad_enabled())
        if self.tracked:
            self.keys = torch.slice_scatter(self.keys, keys, dim=2, start=first, end=last)
            self.values = torch.slice_scatter(self.values, values, dim=2, start=first, end=last)
        else:
            self.keys[:, :, first:last] = keys
            self.values[:, :, first:last] = values
        self.filled = last
        return self.keys[:, :, :last], self.values[:, :, :last]

    def reorder(self, index: Int[Tensor, " entries"]) -> None:
        """Let entry b continue from entry index[b], as a beam search does. The number of entries may change."""
        self.move(entries(index, self.keys))

    def move(self, index: Int[Tensor, " entries"]) -> None:
        """The same with an index that `entries` has checked. Only what is filled is copied, unless a gradient goes through it."""
        with writable():
            self.keys, self.values = (self.moved(room, index) for room in (self.keys, self.values))
        self.reorders.append(index)

    def moved(
        self, room: Float[Tensor, "batch heads length dim"], index: Int[Tensor, " entries"]
    ) -> Float[Tensor, "entries heads length dim"]:
        """Keys or values in another order."""
        if self.tracked or not self.filled:
            return room.index_select(0, index)
        filled = room[:, :, : self.filled].index_select(0, index)
        if index.shape[0] != room.shape[0]:
            room = room.new_empty(index.shape[0], *room.shape[1:])
        room[:, :, : self.filled] = filled
        return room

    def undo(self, places: int) -> None:
        """Forget the last step, of so many places: it failed."""
        self.filled -= places

    def reserve(self, length: int) -> None:
        """Make room for at least `length` positions: at least twice what there was, so that most steps copy nothing."""
        if length <= self.length:
            return
        more = max(length, 2 * self.length) - self.length
        with writable():
            self.keys, self.values = (F.pad(x, (0, 0, 0, more)) for x in (self.keys, self.values))

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Leave the cache as it is now, whatever is appended inside: for inspecting a step without taking it."""
        kept = self.keys, self.values, self.filled, self.tracked
        try:
            yield
        finally:
            self.keys, self.values, self.filled, self.tracked = kept

    def rewound(self, steps: int) -> "Cache":
        """The cache as it was `steps` positions earlier, for computing its last step again: it has what that step stored.

        Nothing is written to it.
        """
        twin = Rewound(self.keys, self.values)
        twin.filled, twin.tracked, twin.reorders = self.filled - steps, self.tracked, self.reorders
        return twin

    def rewind(self, length: int) -> None:
        """Forget all places from `length` on: the next step stands there."""
        require(0 <= length <= self.filled, f"a cache rewinds to at most filled={self.filled} places: got {length}")
        self.filled = length

    def reset(self) -> None:
        """Forget everything and start a new sequence in the same room."""
        self.keys, self.values = self.keys.detach(), self.values.detach()
        if self.tracked:
            self.keys, self.values = self.keys.clone(), self.values.clone()
        self.filled, self.tracked = 0, False

    def copy(self) -> "Cache":
        """Another cache with the same content and room of its own."""
        twin = Cache(self.keys.clone(), self.values.clone())
        twin.filled, twin.tracked, twin.reorders = self.filled, self.tracked, list(self.reorders)
        return twin

    def check(self, keys: Keys, values: Values) -> None:
        """Require new keys and values that fit."""
        last = self.filled + keys.shape[2]
        if last > self.length:
            message = f"the cache has room for length={self.length}: got positions up to {last}. Make it longer."
            raise ValueError(message)
        if keys.shape[0] != self.keys.shape[0]:
            raise ValueError(f"the cache was made for batch={self.keys.shape[0]}: got batch={keys.shape[0]}")
        for name, new, kept in (("keys", keys, self.keys), ("values", values, self.values)):
            if new.dtype != kept.dtype:
                message = f"the cache was made for {kept.dtype}: got {new.dtype}. Pass dtype= to attention.cache."
                raise ValueError(message)
            if (new.shape[1], new.shape[3]) != (kept.shape[1], kept.shape[3]):
                raise ValueError(
                    f"the cache was made for {name} of {kept.shape[1]} heads of {kept.shape[3]}: got {show(new)}. "
                    "Make it with the layer that uses it."
                )


class Rewound(Cache):
    """A cache whose next positions are stored already: `append` returns them and stores nothing."""

    def append(self, keys: Keys, values: Values, tracked: bool = True) -> tuple[KeysSoFar, ValuesSoFar]:
        self.check(keys, values)
        self.filled += keys.shape[2]
        return self.keys[:, :, : self.filled], self.values[:, :, : self.filled]


class Growing(Cache):
    """A cache that is full, and grows by what is appended: for programs, where no room can be written to.

    >>> cache = Growing(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2))
    >>> keys, values = cache.append(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2))
    >>> keys.shape, cache.filled
    (torch.Size([1, 1, 5, 2]), 5)
    """

    def __init__(self, keys: Keys, values: Values) -> None:
        super().__init__(keys, values)
        self.filled = keys.shape[2]

    def append(self, keys: Keys, values: Values, tracked: bool = True) -> tuple[KeysSoFar, ValuesSoFar]:
        self.keys, self.values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.filled = self.filled + keys.shape[2]
        return self.keys, self.values

    def reserve(self, length: int) -> None:
        """There is room for all."""

    def check(self, keys: Keys, values: Values) -> None:
        """Whatever is appended was made by the layer that the cache is of."""


class Rolling(Cache):
    """A cache that keeps only the last places, as many as a causal window sees: a text can go on forever.

    `attention.rolling(batch)` makes one. `filled` counts all places so far, those that are forgotten too.

    Args:
        keys: no keys yet, (batch, heads, 0, dim).
        values: no values yet, (batch, heads, 0, value_dim).
        reach: how many earlier places the window sees.

    >>> cache = Rolling(torch.zeros(1, 1, 0, 2), torch.zeros(1, 1, 0, 2), reach=4)
    >>> for _ in range(3):
    ...     keys, values = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
    >>> cache.filled, cache.keys.shape[2], keys.shape[2]
    (9, 4, 7)
    """

    def __init__(self, keys: Keys, values: Values, reach: int) -> None:
        super().__init__(keys, values)
        self.reach = reach
        self._before = keys, values

    @property
    def length(self) -> int:
        """There is room for any number of positions."""
        return sys.maxsize

    def append(self, keys: Keys, values: Values, tracked: bool = True) -> tuple[KeysSoFar, ValuesSoFar]:
        self.check(keys, values)
        self._before = self.keys, self.values
        keys, values = (torch.cat(x, dim=2) for x in ((self.keys, keys), (self.values, values)))
        new = keys.shape[2] - self.keys.shape[2]
        first = max(0, keys.shape[2] - self.reach)
        self.keys, self.values = keys[:, :, first:].clone(), values[:, :, first:].clone()
        self.filled, self.tracked = self.filled + new, self.tracked or (tracked and torch.is_grad_enabled())
        return keys, values

    def undo(self, places: int) -> None:
        super().undo(places)
        self.keys, self.values = self._before

    def reserve(self, length: int) -> None:
        """There is room for all."""

    def moved(
        self, room: Float[Tensor, "batch heads length dim"], index: Int[Tensor, " entries"]
    ) -> Float[Tensor, "entries heads length dim"]:
        return room.index_select(0, index)

    def rewound(self, steps: int) -> "Cache":
        raise ValueError(_FORGOTTEN)

    def rewind(self, length: int) -> None:
        require(length == self.filled, _FORGOTTEN)

    def reset(self) -> None:
        super().reset()
        self.keys, self.values = self.keys[:, :, :0], self.values[:, :, :0]

    def copy(self) -> "Cache":
        twin = Rolling(self.keys.clone(), self.values.clone(), self.reach)
        twin.filled, twin.tracked, twin.reorders = self.filled, self.tracked, list(self.reorders)
        return twin


class SharedCache(Cache):
    """A cache whose values are the keys from a number on, as in `Latent` heads: they are stored once.

    Args:
        keys: room for the keys, (batch, heads, length, dim).
        first: the number of a key at which its value begins.

    >>> cache = SharedCache(torch.zeros(1, 1, 4, 3), first=1)
    >>> keys, values = cache.append(torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 2))
    >>> values.shape, values.untyped_storage().data_ptr() == keys.untyped_storage().data_ptr()
    (torch.Size([1, 1, 2, 2]), True)
    """

    def __init__(self, keys: Keys, first: int) -> None:
        self.first = first
        super().__init__(keys, keys[..., first:])

    @property
    def values(self) -> Values:  # type: ignore[override]
        """What the keys hold from `first` on."""
        return self.keys[..., self.first :]

    @values.setter
    def values(self, values: Values) -> None:
        """The keys hold them already."""

    def move(self, index: Int[Tensor, " entries"]) -> None:
        with writable():
            self.keys = self.moved(self.keys, index)
        self.reorders.append(index)

    def copy(self) -> "Cache":
        twin = SharedCache(self.keys.clone(), self.first)
        twin.filled, twin.tracked, twin.reorders = self.filled, self.tracked, list(self.reorders)
        return twin


def entries(index: Int[Tensor, " entries"], room: Float[Tensor, "batch ..."]) -> Int[Tensor, " entries"]:
    """The index of a reorder as int64, where the room is: a copy of its own.

    >>> entries(torch.tensor([1, 2]), torch.zeros(2))
    Traceback (most recent call last):
    ValueError: the index of reorder must name entries in 0..1: got 1 to 2
    """
    check_axes("the index of reorder", index, "entries")
    check_integers("the index of reorder", index)
    if index.numel() and not index.is_meta:
        low, high = (int(bound) for bound in index.aminmax())
        last = room.shape[0] - 1
        require(0 <= low <= high <= last, f"the index of reorder must name entries in 0..{last}: got {low} to {high}")
    with torch.inference_mode(False):
        return index.to(room.device, torch.int64, copy=True)


@contextmanager
def writable() -> Iterator[None]:
    """Leave inference mode for a moment: tensors made inside it cannot be written outside."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield
