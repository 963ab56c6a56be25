"""A step in plain PyTorch, in as few calls as possible: for other devices and dtypes, and where there is no compiler."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.cache import Cache
from mirada.attention.memory import Memory
from mirada.layers.linear_activation import ACTIVATIONS
from mirada.layers.norm import Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.parts import Part, joined
from mirada.layers.quick.record import Record

Rows = Float[Tensor, "rows width"]


class Source(NamedTuple):
    """A source as products read it, each by `times` neighboring rows. The keys are scaled, `bias` hides padding."""

    keys: Float[Tensor, "sources_heads dim keys"]
    values: Float[Tensor, "sources_heads keys dim"]
    bias: Float[Tensor, "sources_heads 1 keys"] | None
    times: int


class Eager:
    """The ordinary way without its modules. Single matrices are the model's own; only joined ones are copies."""

    lazy = False

    def __init__(self, record: Record, norm: Norm | None, ends: Ends | None, sources: list[Memory]) -> None:
        assert record.shape is not None
        self.shape, self.norm, self.ends, self.sources = record.shape, norm, ends, sources
        self.activation = ACTIVATIONS[self.shape.activation]
        size = 3 if self.shape.cross else 2
        self.layers = [record.parts[first : first + size] for first in range(0, len(record.parts), size)]
        self.queries = [joined(*parts[0].first) for parts in self.layers]
        for (weight, bias), parts in zip(self.queries, self.layers, strict=True):
            own = slice(self.shape.heads * self.shape.dim)
            weight[own] *= parts[0].scale
            bias[own] *= parts[0].scale
        self.read: tuple[Tensor | None, list[Source]] | None = None

    def step(
        self, x: Rows, caches: list[Cache], entry: Int[Tensor, " rows"] | None, writers: Tensor | None
    ) -> tuple[Rows, Rows]:
        if self.read is None or self.read[0] is not entry:
            self.read = (entry, [self.source(n, memory, entry) for n, memory in enumerate(self.sources)])
        for number, (own, *across, feed) in enumerate(self.layers):
            asked = self.before(x, own)
            mixed = self.look_back(F.linear(asked, *self.queries[number]), caches[number])
            x = self.after(x, mixed, own)
            for part in across:
                asked = self.before(x, part)
                mixed = self.look_across(linear(asked, part.first[0]), self.read[1][number])
                x = self.after(x, mixed, part)
            x = self.after(x, self.activation(linear(self.before(x, feed), feed.first[0])), feed)
        return x if self.norm is None else self.norm(x), asked

    def say(
        self,
        tokens: Int[Tensor, " rows"],
        caches: list[Cache],
        entry: Int[Tensor, " rows"] | None,
        writers: Tensor | None,
    ) -> tuple[Float[Tensor, "rows vocab"], Rows] | None:
        assert self.ends is not None
        assert self.ends.output is not None
        words, output, place = self.ends.words, self.ends.output, caches[0].filled
        rows = self.ends.positions(place)
        try:
            x = F.embedding(tokens, words.weight)
        except IndexError:
            return None
        x = x * words.scale if rows is None else torch.add(rows[place], x, alpha=words.scale)
        h, asked = self.step(x, caches, entry, writers)
        return F.linear(h, output.weight, output.bias), asked

    def before(self, x: Rows, part: Part) -> Rows:
        return x if self.shape.post else part.norm.forward(x)

    def after(self, x: Rows, y: Float[Tensor, "rows inner"], part: Part) -> Rows:
        x = linear(y, part.last).add_(x)
        return part.norm.forward(x) if self.shape.post else x

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

    def source(self, number: int, memory: Memory, entry: Int[Tensor, " rows"] | None) -> Source:
        """The memory of a layer as the entries read it."""
        times = 1 if entry is None else neighbors(entry)
        if entry is not None:
            memory = memory.reorder(entry[::times])
        scale = self.layers[number][1].scale
        keys = (memory.keys * scale).transpose(2, 3).flatten(0, 1).contiguous()
        values, bias = memory.values.flatten(0, 1).contiguous(), None
        if memory.padding is not None:
            hidden = torch.arange(memory.length, device=keys.device) >= memory.padding.lengths.view(-1, 1)
            bias = keys.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
            bias = bias.expand(memory.batch, -1).repeat_interleave(self.shape.heads, 0).unsqueeze(1)
        return Source(keys, values, bias, times)


def linear(x: Tensor, layer: torch.nn.Linear) -> Tensor:
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
