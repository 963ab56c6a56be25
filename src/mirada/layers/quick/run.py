"""The quick steps of one decoding."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache, Kept, writable
from mirada.attention.memory import Memory
from mirada.layers.norm import Norm
from mirada.layers.quick.compiled import Compiled
from mirada.layers.quick.eager import Eager
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.library import serves
from mirada.layers.quick.parts import modules_of
from mirada.layers.quick.refusal import Watch, refuses_modules, refuses_now, refuses_sources, refuses_stack

Places = Float[Tensor, "batch 1 width"]
Rows = Float[Tensor, "rows width"]
Scores = Float[Tensor, "rows vocab"]
Index = Int[Tensor, " rows"]
Writers = Int[Tensor, "places rows"]


class Way(Protocol):
    """One way to take a quick step."""

    lazy: bool  # whether it reads caches through `writers`, so that reordering them moves nothing

    def step(self, x: Rows, caches: list[Cache], entry: Index | None, writers: Writers | None) -> tuple[Rows, Rows]:
        """The outputs of the stack at the new places, and what its top attention was asked with.

        The new keys and values are written to the caches. `entry` has the source that each row reads (None: its own),
        `writers` the row of the caches in which each row's places were written, for as many places as it has.
        """

    def say(
        self, tokens: Index, caches: list[Cache], entry: Index | None, writers: Writers | None
    ) -> tuple[Float[Tensor, "rows vocab"], Rows] | None:
        """The same from words to the scores of words; None if one of them is not in the vocabulary."""


@dataclass(eq=False)
class Run:
    """What the quick steps of one decoding keep from state to state. The weights are those of the first step."""

    layers: nn.ModuleList = field(default_factory=nn.ModuleList)
    norm: Norm | None = None
    sources: list[Memory] = field(default_factory=list)
    ends: Ends | None = None
    watch: Watch | None = None
    reason: str | None = None  # why no step of this decoding can be quick
    mute: str | None = None  # why none can go from words to words
    way: Way | None = None
    writers: Writers | None = None  # the row of the caches in which each row's places were written
    read: tuple[Tensor | None, list[Memory]] = (None, [])

    def __post_init__(self) -> None:
        self.read = (None, self.sources)

    def step(self, x: Places, caches: list[Cache], entry: Index | None) -> tuple[Places, Places] | None:
        """The next place of every entry and what the top attention was asked with; None: take the ordinary way."""
        if self.refuses(x, caches) is not None:
            return None
        h, asked = self.way.step(x.squeeze(1), caches, entry, self.writers)  # type: ignore[union-attr]
        return taken(h.unsqueeze(1), asked, caches)

    def say(self, tokens: Index, caches: list[Cache], entry: Index | None) -> tuple[Scores, Places] | None:
        """The scores of the words after these, and what the top attention was asked with; None: take the ordinary way."""
        if self.refuses_tokens(tokens, caches) is not None:
            return None
        said = self.way.say(tokens, caches, entry, self.writers)  # type: ignore[union-attr]
        return None if said is None else taken(*said, caches)

    def refuses(self, x: Places, caches: list[Cache]) -> str | None:
        """Why this step cannot be quick; None if it can."""
        keys = caches[0].keys
        if x.shape[:2] != (keys.shape[0], 1):
            return f"it takes one place of every entry: got {tuple(x.shape[:2])} for {keys.shape[0]} entries"
        if x.dtype != keys.dtype or x.device != keys.device:
            return f"the input is {x.dtype} on {x.device}, the cache {keys.dtype} on {keys.device}"
        return self.refuses_step(caches)

    def refuses_tokens(self, tokens: Index, caches: list[Cache]) -> str | None:
        """Why this step from words to the scores of words cannot be quick; None if it can."""
        keys, place = caches[0].keys, caches[0].filled
        if tokens.shape != keys.shape[:1] or tokens.dtype != torch.int64 or tokens.device != keys.device:
            return f"it takes one int64 token of every entry: got {tuple(tokens.shape)} {tokens.dtype} on {tokens.device}"
        reason = self.refuses_step(caches) or self.mute
        if reason is None and not self.ends.reaches(place):  # type: ignore[union-attr]
            reason = f"its position has no place {place}"
        return reason

    def refuses_step(self, caches: list[Cache]) -> str | None:
        """Why no step can be quick at this moment; None if one can. The first that can chooses the way of all."""
        reason, keys = refuses_now(), caches[0].keys
        if reason is not None:
            return reason
        if any(cache.tracked for cache in caches):
            return "a gradient may be asked of earlier steps"
        if self.watch is None:
            self.prepare(keys)
        assert self.watch is not None
        reason = self.reason or self.watch.refuses()
        if reason is None and self.way is None:
            kind = Compiled if serves(keys) else Eager
            self.way = kind(self.layers, self.norm, self.sources, None if self.mute else self.ends)
        return reason

    def prepare(self, keys: Tensor) -> None:
        """Look at the modules, once per decoding."""
        tops = [*self.layers, *([] if self.norm is None else [self.norm])]
        self.mute = "it has no ends" if self.ends is None else self.ends.refuses()
        if self.ends is not None and self.mute is None:
            tops += [self.ends.words, self.ends.place, self.ends.output]
        modules = [inside for module in tops for inside in modules_of(module)]
        self.watch = Watch.over(modules)
        self.reason = refuses_stack(self.layers, self.norm) or refuses_modules(modules, keys)  # type: ignore[arg-type]
        self.reason = self.reason or refuses_sources(self.sources, keys)

    def memories(self, entry: Index | None) -> list[Memory]:
        """The sources as the entries read them, one for each."""
        if self.read[0] is not entry:
            memories = self.sources if entry is None else [memory.reorder(entry) for memory in self.sources]
            self.read = (entry, memories)
        return self.read[1]

    def reorder(self, index: Index, caches: list[Cache]) -> None:
        """Let row b go on from what row index[b] has. A lazy way only needs to know who wrote what."""
        filled, same = caches[0].filled, index.shape[0] == caches[0].keys.shape[0]
        if self.way is not None and self.way.lazy and same and filled:
            new = filled - (0 if self.writers is None else self.writers.shape[0])
            own = index.expand(new, -1)  # what was written since the last time stands in its own row
            self.writers = own if self.writers is None else torch.cat([self.writers.index_select(1, index), own])
        else:
            self.settle(caches)
            for cache in caches:
                move(cache, index)
        for cache in caches:
            cache.reorders.append(index)

    def settle(self, caches: list[Cache]) -> None:
        """Bring every row's keys and values to the row itself, where others expect them."""
        if self.writers is None:
            return
        writers, self.writers = self.writers.T, None
        places = torch.arange(writers.shape[1], device=writers.device)
        with writable():
            for cache in caches:
                for kept in (cache.keys, cache.values):
                    kept[:, :, : len(places)] = kept.transpose(1, 2)[writers, places].transpose(1, 2)


def taken(result: Tensor, asked: Rows, caches: list[Cache]) -> tuple[Tensor, Places]:
    """The result of a step, once the caches know that it was taken."""
    for cache in caches:
        cache.filled += 1
    return result, asked.unsqueeze(1)


def move(cache: Cache, index: Index) -> None:
    """Reorder a cache, of which only what is filled needs to be copied."""
    with writable():
        cache.keys, cache.values = (moved(kept, cache, index) for kept in (cache.keys, cache.values))


def moved(kept: Kept, cache: Cache, index: Index) -> Kept:
    """Keys or values of a cache in another order."""
    if cache.tracked or not cache.filled:
        return kept.index_select(0, index)
    filled = kept[:, :, : cache.filled].index_select(0, index)
    room = kept if len(index) == len(kept) else kept.new_zeros(len(index), *kept.shape[1:])
    room[:, :, : cache.filled] = filled
    return room
