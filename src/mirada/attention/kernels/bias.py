"""What a position adds to the scores of a tile, made when the tile is computed, and the gradient of it.

By distance: a number per head and distance. Where it is a straight line of the distance (all of ALiBi, the far ends of T5Bias),
a tile needs no number per pair: a line's share of the query is the same for all its keys, so it moves the log-sum-exp of the
row and nothing else, and what is left is a number per key.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mirada.attention.places import Places
from mirada.attention.positions import Pairs, Position


class TileBias:
    """What is added to the scores; `values` has all its numbers, with a gradient if they are trained."""

    values: Tensor | None = None

    def lines(self, first: int, last: int) -> tuple[float, float]:
        """For the queries first, ..., last - 1: the key up to which, and that from which on, it is a straight line; nowhere."""
        return -math.inf, math.inf

    def line(self, first: int, last: int, begin: int, end: int, left: bool) -> tuple[Tensor, Tensor]:
        """On a straight line: what each key adds, (1, heads, 1, keys), and what each query adds, (1, heads, queries)."""
        raise NotImplementedError

    def pairs(self, first: int, last: int, begin: int, end: int) -> Tensor:
        """What each pair adds, (batch or 1, heads or 1, queries, keys)."""
        raise NotImplementedError

    def collect(self, total: Tensor, d_scores: Tensor, first: int, begin: int) -> None:
        """Add to the gradient of `values` what the gradients of the pairs' scores say."""
        raise NotImplementedError

    def collect_line(self, total: Tensor, d_rows: Tensor, distance: int) -> None:
        """The same from a sum per query, of a line that is level: all its distances share a number."""
        raise NotImplementedError

    def fixed(self, values: Tensor) -> Position:
        """The position that adds these values."""
        raise NotImplementedError


class ByDistance(TileBias):
    """A number per head and distance j - i, for queries start, start + 1, ... and keys 0, 1, ..."""

    def __init__(self, position: Position, places: Places, dtype: torch.dtype) -> None:
        self.zero = places.start + places.queries  # where the distance 0 stands
        distances = torch.arange(-self.zero, places.keys + 1, device=places.device)
        values = position.of_distance(distances)
        assert values is not None
        self.values = values.to(torch.promote_types(dtype, torch.float32))
        self.straight = position.straight
        self.numbers = self.values.detach()

    def lines(self, first: int, last: int) -> tuple[float, float]:
        """See `TileBias`."""
        low, high = self.straight
        return first + low + 1, last - 1 + high

    def line(self, first: int, last: int, begin: int, end: int, left: bool) -> tuple[Tensor, Tensor]:
        """See `TileBias`."""
        keys = self._between(begin - first, end - first)
        corner = end - 1 if left else begin
        queries = self._between(corner - last + 1, corner - first + 1).flip(-1)
        return keys[None, :, None], (queries - queries[:, :1])[None]

    def pairs(self, first: int, last: int, begin: int, end: int) -> Tensor:
        """See `TileBias`."""
        numbers = self._between(begin - last + 1, end - first)
        return numbers.unfold(-1, end - begin, 1).flip(-2)[None]

    def collect(self, total: Tensor, d_scores: Tensor, first: int, begin: int) -> None:
        """See `TileBias`."""
        heads, queries, keys = d_scores.shape[1:]
        leaning = d_scores.new_zeros(heads, queries, queries + keys - 1)
        width = queries + keys - 1
        leaning.as_strided((heads, queries, keys), (queries * width, width - 1, 1), queries - 1).copy_(d_scores.sum(0))
        low = self.zero + begin - first - queries + 1
        total[:, low : low + width] += leaning.sum(1)

    def collect_line(self, total: Tensor, d_rows: Tensor, distance: int) -> None:
        """See `TileBias`."""
        total[:, self.zero + distance] += d_rows.sum((0, 2))

    def fixed(self, values: Tensor) -> Position:
        """See `TileBias`."""
        return _Fixed(values, self.zero)

    def _between(self, low: int, high: int) -> Tensor:
        """The numbers of the distances low, ..., high - 1."""
        return self.numbers[:, self.zero + low : self.zero + high]


class GivenPairs(TileBias):
    """A number for every pair: as it was given, or the sum of that and of what other parts add."""

    def __init__(self, position: Position, places: Places, dtype: torch.dtype) -> None:
        precise = torch.promote_types(dtype, torch.float32)
        added = position.bias(torch.empty(0, dtype=precise, device=places.device), places)
        assert added is not None
        self.start, self.numbers = places.start, added.to(precise)
        self.values = self.numbers

    def pairs(self, first: int, last: int, begin: int, end: int) -> Tensor:
        """See `TileBias`."""
        here = _part_of(self.numbers.detach(), first - self.start, last - self.start, begin, end)
        return here.expand(-1, -1, last - first, end - begin).contiguous()

    def collect(self, total: Tensor, d_scores: Tensor, first: int, begin: int) -> None:
        """See `TileBias`."""
        row = first - self.start
        part = _part_of(total, row, row + d_scores.shape[2], begin, begin + d_scores.shape[3])
        part += d_scores.sum_to_size(part.shape)

    def fixed(self, values: Tensor) -> Position:
        """See `TileBias`."""
        return Pairs(values if values.shape[2] == 1 else F.pad(values, (0, 0, self.start, 0)))


def _part_of(numbers: Tensor, first: int, last: int, begin: int, end: int) -> Tensor:
    """Some queries and keys of what may not vary among them."""
    numbers = numbers if numbers.shape[2] == 1 else numbers[:, :, first:last]
    return numbers if numbers.shape[3] == 1 else numbers[..., begin:end]


class OfPairs(TileBias):
    """Whatever a position without parameters adds, pair by pair."""

    def __init__(self, position: Position, places: Places, dtype: torch.dtype) -> None:
        self.position, self.places = position, places
        self.like = torch.empty(0, dtype=dtype, device=places.device)

    def pairs(self, first: int, last: int, begin: int, end: int) -> Tensor:
        """See `TileBias`."""
        start = self.places.start
        here = self.places.rows(first - start, last - start).columns(begin, end)
        added = self.position.bias(self.like, here)
        assert added is not None
        return added.detach()


class _Fixed(Position):
    """A number per head and distance that was worked out before: how the reference adds what a tile added."""

    acts = frozenset({"bias"})
    constant = True

    def __init__(self, values: Tensor, zero: int) -> None:
        super().__init__()
        self.values, self.zero = values, zero

    def bias(self, q: Tensor, places: Places) -> Tensor:
        distances = (places.column - places.row).squeeze((0, 1))
        return self.values[:, self.zero + distances].unsqueeze(0)
