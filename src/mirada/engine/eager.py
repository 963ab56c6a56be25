"""A step in plain PyTorch, in as few calls as possible: for other devices and dtypes, and where there is no compiler."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache, writable
from mirada.attention.memory import Memory
from mirada.engine.anatomy import Half, PositionTable, Sublayer, joined
from mirada.engine.state import Decoding, Index, Rows, Scores
from mirada.layers.linear_activation import ACTIVATIONS
from mirada.layers.stack import caches


class Source(NamedTuple):
    """A source as products read it, each by `times` neighboring rows. The keys are scaled, `bias` hides padding."""

    keys: Float[Tensor, "sources_heads dim keys"]
    values: Float[Tensor, "sources_heads keys dim"]
    bias: Float[Tensor, "sources_heads 1 keys"] | None
    times: int


class Eager:
    """A decoder as products of matrices. Single matrices are those of the half; only joined ones are made here."""

    name = "plain PyTorch"

    def __init__(self, half: Half) -> None:
        self.half, self.shape, self.positions = half, half.shape, PositionTable(half)
        self.activation = ACTIVATIONS[self.shape.activation]
        size = 3 if self.shape.cross else 2
        parts = half.sublayers
        self.layers = [parts[first : first + size] for first in range(0, len(parts), size)]
        self.queries = [joined(*sublayers[0].first) for sublayers in self.layers]
        for (weight, bias), sublayers in zip(self.queries, self.layers, strict=True):
            own = slice(self.shape.heads * self.shape.dim)
            weight[own] *= sublayers[0].scale
            bias[own] *= sublayers[0].scale

    def begin(self, batch: int, sources: list[Memory]) -> "EagerDecoding":
        """A decoding of that many rows, over these sources if there are any."""
        return EagerDecoding(self, caches(self.half.stack.layers, batch), sources)


class EagerDecoding(Decoding):
    """Steps of a decoding, a few products each."""

    def __init__(self, eager: Eager, caches: list[Cache], sources: list[Memory]) -> None:
        super().__init__(caches, sources)
        self.eager, self.shape = eager, eager.shape
        self.prepared: tuple[Index | None, list[Source]] | None = None

    def step(self, tokens: Index, entry: Index | None) -> tuple[Scores, Rows] | None:
        half, place = self.eager.half, self.caches[0].filled
        assert half.output is not None
        rows = self.eager.positions.up_to(place)
        try:
            x = F.embedding(tokens, half.words.weight)
        except IndexError:
            return None
        x = x * half.words.scale if rows is None else torch.add(rows[place], x, alpha=half.words.scale)
        h, asked = self.through(x, entry)
        return F.linear(h, half.output.weight, half.output.bias), asked

    def move(self, index: Index) -> None:
        with writable():
            for cache in self.caches:
                cache.keys, cache.values = (cache.moved(room, index) for room in (cache.keys, cache.values))

    def settle(self) -> None:
        """They stand there always: `move` moves them."""

    def through(self, x: Rows, entry: Index | None) -> tuple[Rows, Rows]:
        """The outputs of the stack, and what its top attention was asked with."""
        if self.prepared is None or self.prepared[0] is not entry:
            self.prepared = (entry, [self.source(n, memory, entry) for n, memory in enumerate(self.sources)])
        for number, (own, *across, feed) in enumerate(self.eager.layers):
            asked = self.before(x, own)
            mixed = self.look_back(F.linear(asked, *self.eager.queries[number]), self.caches[number])
            x = self.after(x, mixed, own)
            for sublayer in across:
                asked = self.before(x, sublayer)
                mixed = self.look_across(linear(asked, sublayer.first[0]), self.prepared[1][number])
                x = self.after(x, mixed, sublayer)
            x = self.after(x, self.eager.activation(linear(self.before(x, feed), feed.first[0])), feed)
        norm = self.eager.half.stack.norm
        return x if norm is None else norm(x), asked

    def before(self, x: Rows, sublayer: Sublayer) -> Rows:
        return x if self.shape.post else sublayer.norm.forward(x)

    def after(self, x: Rows, y: Float[Tensor, "rows inner"], sublayer: Sublayer) -> Rows:
        x = linear(y, sublayer.last).add_(x)
        return sublayer.norm.forward(x) if self.shape.post else x

    def look_back(self, qkv: Float[Tensor, "rows three_inner"], cache: Cache) -> Float[Tensor, "rows inner"]:
        """Self-attention: the new keys and values go to the cache first. Raw views in a hot path."""
        rows, heads, dim, place = len(qkv), self.shape.heads, self.shape.dim, cache.filled
        q, k, v = qkv.view(rows, 3, heads, dim).unbind(1)
        cache.keys[:, :, place], cache.values[:, :, place] = k, v
        keys, values = (x[:, :, : place + 1].reshape(rows * heads, place + 1, dim) for x in (cache.keys, cache.values))
        weights = torch.bmm(q.reshape(rows * heads, 1, dim), keys.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, values).view(rows, heads * dim)

    def look_across(self, q: Float[Tensor, "rows inner"], source: Source) -> Float[Tensor, "rows inner"]:
        """Attention over the sources: rows that read the same one are queries of one product."""
        heads, dim, times = self.shape.heads, self.shape.dim, source.times
        q = q.view(-1, times, heads, dim).transpose(1, 2).reshape(-1, times, dim)
        scores = torch.bmm(q, source.keys) if source.bias is None else torch.baddbmm(source.bias, q, source.keys)
        mixed = torch.bmm(scores.softmax(-1), source.values)
        return mixed.view(-1, heads, times, dim).transpose(1, 2).reshape(-1, heads * dim)

    def source(self, number: int, memory: Memory, entry: Index | None) -> Source:
        """The memory of a layer as the entries read it."""
        times = 1 if entry is None else neighbors(entry)
        if entry is not None:
            memory = memory.reorder(entry[::times])
        scale = self.eager.layers[number][1].scale
        keys = (memory.keys * scale).transpose(2, 3).flatten(0, 1).contiguous()
        values, bias = memory.values.flatten(0, 1).contiguous(), None
        if memory.padding is not None:
            hidden = torch.arange(memory.length, device=keys.device) >= memory.padding.lengths.view(-1, 1)
            bias = keys.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
            bias = bias.expand(memory.batch, -1).repeat_interleave(self.shape.heads, 0).unsqueeze(1)
        return Source(keys, values, bias, times)


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """What the layer computes, without calling it."""
    return F.linear(x, layer.weight, layer.bias)


def neighbors(entry: Int[Tensor, " rows"]) -> int:
    """How many rows in a row read the same source, everywhere: the size of a beam.

    >>> neighbors(torch.tensor([0, 0, 0, 2, 2, 2])), neighbors(torch.tensor([0, 0, 1]))
    (3, 1)
    """
    differs = (entry != entry[0]).nonzero()
    times = int(differs[0]) if len(differs) else len(entry)
    return times if len(entry) % times == 0 and bool((entry.view(-1, times) == entry[::times, None]).all()) else 1
