"""Statistics of attention over long inputs: `seen[name].reduce(Entropy(), TopK(8))` never holds more than some rows.

A reduction of your own is a class with `begin`, `add` and `result`:

>>> import torch
>>> from mirada import Attention, Causal, MultiHead, look
>>> class Largest:
...     def begin(self, batch, heads, queries, keys):
...         self.rows = torch.zeros(batch, heads, queries)
...     def add(self, tile):
...         self.rows[..., tile.rows] = tile.weights.amax(-1)
...     def result(self):
...         return self.rows
>>> layer = Attention(MultiHead(width=4, heads=2), where=Causal())
>>> with look(layer) as seen:
...     _ = layer(torch.zeros(1, 3, 4))
>>> reduced = seen[""].reduce(Largest(), Entropy(), head=0)
>>> reduced["Largest"][0, 0], reduced["Entropy"].shape
(tensor([1.0000, 0.5000, 0.3333]), torch.Size([1, 1, 3]))
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.looking.statistics import SINK, WeightTile, row_distance, row_entropy
from mirada.looking.stream import SeenCall

__all__ = ["ColumnSums", "Distance", "Entropy", "KeyedWeights", "Reduction", "Sink", "TopK", "WeightTile", "reduced"]


@runtime_checkable
class Reduction(Protocol):
    """What is made of weights that come some rows at a time, in order of the rows.

    >>> isinstance(Entropy(), Reduction)
    True
    """

    def begin(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """Forget what was before; these are the sizes of the weights to come."""

    def add(self, tile: WeightTile) -> None:
        """Take in the weights `tile.weights` of the queries `tile.rows` for the keys `tile.keys`; all others are 0."""

    def result(self) -> Any:
        """What came out."""


class KeyedWeights(NamedTuple):
    """Keys and their weights; a key of -1 stands for none.

    >>> KeyedWeights(torch.tensor([3, -1]), torch.tensor([0.9, 0.0])).keys.tolist()
    [3, -1]
    """

    keys: Int[Tensor, "*shape"]
    weights: Float[Tensor, "*shape"]


def reduced(call: SeenCall, reductions: Sequence[Reduction], head: int | None = None) -> dict[str, Any]:
    """The results of reductions over the weights of one call, by the names of their classes.

    Args:
        call: a recorded call, or one that was read from a file.
        reductions: what is to be computed; all of them in one pass.
        head: one head; without it, all.
    """
    for item in reductions:
        fits = isinstance(item, Reduction) and not isinstance(item, type)
        require(fits, f"a reduction is a value with begin, add and result, such as Entropy(): got {item!r}")
    names = [type(item).__name__ for item in reductions]
    require(len(reductions) > 0, "reduce needs at least one reduction, such as Entropy()")
    require(len(set(names)) == len(names), f"reductions are told apart by their class names: got {', '.join(names)}")
    require(
        call.edges is None, "the weights of a graph are one per edge, which needs no reduction: ask for `weights()`"
    )
    for item in reductions:
        item.begin(call.batch, call.heads if head is None else 1, call.queries, call.keys)
    for tile in call.tiles(head):
        for item in reductions:
            item.add(tile)
    return {name: item.result() for name, item in zip(names, reductions, strict=True)}


class _ByRow:
    """A number for every query, (batch, heads, queries)."""

    def begin(self, batch: int, heads: int, queries: int, keys: int) -> None:
        self._rows = torch.zeros(batch, heads, queries)

    def result(self) -> Float[Tensor, "batch heads queries"]:
        """The number of every query."""
        return self._rows

    def _put(self, tile: WeightTile, numbers: Tensor) -> None:
        self._rows[..., tile.rows] = numbers.to(self._rows)


class Entropy(_ByRow):
    """How evenly every query spreads its weight, in nats: -sum_j a_ij log a_ij, rows divided by their sum; 0 for empty rows.

    >>> entropy = Entropy()
    >>> entropy.begin(batch=1, heads=1, queries=1, keys=2)
    >>> entropy.add(WeightTile(0, torch.tensor([[[[0.5, 0.5]]]])))
    >>> round(entropy.result().item(), 4)
    0.6931
    """

    def add(self, tile: WeightTile) -> None:
        """Add some rows."""
        sizes = tile.weights.abs()
        total = sizes.sum(-1)
        empty = total == 0
        self._put(tile, row_entropy(sizes, total.masked_fill(empty, 1)).masked_fill(empty, 0))


class Distance(_ByRow):
    """How far every query looks on average: sum_j a_ij |i - j|, rows divided by their sum; 0 for empty rows.

    >>> distance = Distance()
    >>> distance.begin(batch=1, heads=1, queries=1, keys=3)
    >>> distance.add(WeightTile(0, torch.tensor([[[[0.0, 0.5, 0.5]]]])))
    >>> distance.result().item()
    1.5
    """

    def add(self, tile: WeightTile) -> None:
        """Add some rows."""
        sizes = tile.weights.abs()
        total = sizes.sum(-1)
        self._put(tile, row_distance(sizes, tile.start + tile.row, tile.key) / total.masked_fill(total == 0, 1))


class TopK:
    """The `count` largest weights of every query with their keys, (batch, heads, queries, count), largest first.

    Args:
        count: how many; where fewer keys have weight, the rest are key -1 with weight 0.

    >>> top = TopK(2)
    >>> top.begin(batch=1, heads=1, queries=1, keys=3)
    >>> top.add(WeightTile(0, torch.tensor([[[[0.0, 0.2, 0.8]]]])))
    >>> top.result().keys.tolist()
    [[[[2, 1]]]]
    """

    def __init__(self, count: int) -> None:
        require(isinstance(count, int) and count >= 1, f"TopK needs a whole number of at least 1: got {count!r}")
        self.count = count

    def begin(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """No row has weight yet."""
        shape = batch, heads, queries, min(self.count, keys)
        self._kept = KeyedWeights(torch.full(shape, -1), torch.zeros(shape))

    def add(self, tile: WeightTile) -> None:
        """Add some rows."""
        weights, index = tile.weights.topk(min(self._kept.keys.shape[-1], tile.weights.shape[-1]))
        kept = ..., tile.rows, slice(weights.shape[-1])
        self._kept.weights[kept] = weights.to(self._kept.weights)
        self._kept.keys[kept] = (index + tile.key).masked_fill(weights == 0, -1).to(self._kept.keys)

    def result(self) -> KeyedWeights:
        """Keys and weights."""
        return self._kept


class ColumnSums:
    """How much weight every key gets in all, (batch, heads, keys).

    >>> sums = ColumnSums()
    >>> sums.begin(batch=1, heads=1, queries=2, keys=2)
    >>> sums.add(WeightTile(0, torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])))
    >>> sums.result().tolist()
    [[[1.5, 0.5]]]
    """

    def begin(self, batch: int, heads: int, queries: int, keys: int) -> None:
        """No key has weight yet."""
        self._sums = torch.zeros(batch, heads, keys, dtype=torch.double)

    def add(self, tile: WeightTile) -> None:
        """Add some rows."""
        ones = tile.weights.new_ones(1, tile.weights.shape[-2])
        self._sums[..., tile.keys] += (ones @ tile.weights).squeeze(-2).to(self._sums)

    def result(self) -> Float[Tensor, "batch heads keys"]:
        """The sums as float32."""
        return self._sums.float()


class Sink(ColumnSums):
    """The key that most queries rest on, (batch, heads): its number, or -1 where no key has more than `share` of all weight.

    Args:
        share: the share of all weight from which a key is a sink.

    >>> sink = Sink()
    >>> sink.begin(batch=1, heads=1, queries=2, keys=2)
    >>> sink.add(WeightTile(0, torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])))
    >>> sink.result()
    KeyedWeights(keys=tensor([[0]]), weights=tensor([[0.7500]]))
    """

    def __init__(self, share: float = SINK) -> None:
        require(0 <= share < 1, f"Sink needs a share of at least 0 and below 1: got {share!r}")
        self.share = share

    def result(self) -> KeyedWeights:  # type: ignore[override]
        """The key and its share of all weight."""
        total = self._sums.sum(-1, keepdim=True)
        if self._sums.shape[-1] == 0:
            return KeyedWeights(torch.full(total.shape[:2], -1), torch.zeros(total.shape[:2]))
        mass, key = (self._sums / total.masked_fill(total == 0, 1)).max(-1)
        return KeyedWeights(key.masked_fill(mass <= self.share, -1), mass.float())
