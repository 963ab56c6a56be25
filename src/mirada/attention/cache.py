"""Keys and values of earlier steps, kept so that each is computed once."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.shapes import show

Kept = Float[Tensor, "batch heads length dim"]


class Cache:
    """Room for the keys and values of `length` positions; `filled` says how many are there.

    Keys are kept as the score sees them (rotary keys already turned), so a step costs only its own projection.

    >>> cache = Cache(torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 2))
    >>> keys, values = cache.append(torch.ones(1, 1, 3, 2), torch.ones(1, 1, 3, 2))
    >>> keys.shape, cache.filled
    (torch.Size([1, 1, 3, 2]), 3)
    """

    def __init__(self, keys: Kept, values: Kept) -> None:
        self.keys, self.values = keys, values
        self.filled = 0
        self.reorders: list[Int[Tensor, " batch"]] = []

    @property
    def length(self) -> int:
        """How many positions there is room for."""
        return self.keys.shape[2]

    def append(self, keys: Kept, values: Kept) -> tuple[Kept, Kept]:
        """Store the keys and values of the next positions; return all of them so far."""
        self.check(keys)
        first, last = self.filled, self.filled + keys.shape[2]
        if torch.is_grad_enabled():
            # out of place: the gradient of an earlier step, even of its queries alone, needs what that step read
            self.keys = torch.slice_scatter(self.keys, keys, dim=2, start=first, end=last)
            self.values = torch.slice_scatter(self.values, values, dim=2, start=first, end=last)
        else:
            self.keys[:, :, first:last] = keys
            self.values[:, :, first:last] = values
        self.filled = last
        return self.keys[:, :, :last], self.values[:, :, :last]

    def reorder(self, index: Int[Tensor, " batch"]) -> None:
        """Let entry b continue what entry index[b] has so far: the step of a beam search."""
        size = self.keys.shape[0]
        require(index.shape == (size,), f"reorder needs an index per entry: got shape {show(index)} for batch={size}")
        self.keys = self.keys.index_select(0, index)
        self.values = self.values.index_select(0, index)
        self.reorders.append(index)

    def check(self, keys: Kept) -> None:
        """Require new keys that fit."""
        last = self.filled + keys.shape[2]
        require(
            last <= self.length,
            f"the cache has room for length={self.length}: got positions up to {last}. Make it longer.",
        )
        require(
            keys.shape[0] == self.keys.shape[0],
            f"the cache was made for batch={self.keys.shape[0]}: got batch={keys.shape[0]}",
        )
        require(
            keys.dtype == self.keys.dtype,
            f"the cache was made for {self.keys.dtype}: got {keys.dtype}. Pass dtype= to attention.cache.",
        )
