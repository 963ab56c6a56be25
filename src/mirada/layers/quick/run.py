"""The quick steps of one decoding."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache, Kept, writable
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.attention.observe import anybody_looks
from mirada.layers.norm import Norm
from mirada.layers.quick.compiled import Compiled
from mirada.layers.quick.eager import Eager
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.library import serves
from mirada.layers.quick.record import Record, examined
from mirada.layers.quick.refusal import refuses_lengths, refuses_now, refuses_sources

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
    ) -> tuple[Scores, Rows] | None:
        """The same from words to the scores of words; None if one of them is not in the vocabulary."""


@dataclass(eq=False, repr=False)
class Run:
    """What the quick steps of one decoding keep from state to state. The weights are those of its first quick step."""

    layers: nn.ModuleList = field(default_factory=nn.ModuleList)
    norm: Norm | None = None
    ends: Ends | None = None
    sources: list[Memory] = field(default_factory=list)
    record: Record | None = None
    reason: str | None = None  # why no step of this decoding can be quick
    way: Way | None = None
    writers: Writers | None = None  # the row of the caches in which each row's places were written
    read: tuple[Tensor | None, list[Memory]] = (None, [])

    def remember(self, memory: Float[Tensor, "batch keys width"], padding: Padding | None) -> None:
        """Keep what the layers remember of a memory."""
        if self.refuses_memory(memory, padding) is None:
            self.way = way = Compiled(self.record, self.layers, self.norm, self.ends)  # type: ignore[arg-type]
            scores = [layer.cross.score for layer in self.layers]  # type: ignore[union-attr]
            rooms = zip(way.remember(memory), scores, strict=True)
            self.sources = [Memory(keys, values, score, padding) for (keys, values), score in rooms]  # type: ignore[arg-type]
            way.read(self.sources)
        else:
            self.sources = [layer.cross.remember(memory, padding=padding) for layer in self.layers]  # type: ignore[operator, union-attr]
        self.read = (None, self.sources)

    def step(self, x: Places, caches: list[Cache], entry: Index | None) -> tuple[Places, Places] | None:
        """The next place of every entry and what the top attention was asked with; None: take the ordinary way."""
        if self.refuses(x, caches) is not None:
            return None
        assert self.way is not None
        h, asked = self.way.step(x.squeeze(1), caches, entry, self.writers)
        result = taken(h.unsqueeze(1), asked, caches)
        if anybody_looks():
            self.show(x, caches, entry)
        return result

    def say(self, tokens: Index, caches: list[Cache], entry: Index | None) -> tuple[Scores, Places] | None:
        """The scores of the words after these, and what the top attention was asked with; None: take the ordinary way."""
        if self.refuses_tokens(tokens, caches) is not None:
            return None
        assert self.way is not None
        said = self.way.say(tokens, caches, entry, self.writers)
        if said is None:
            return None
        result = taken(said[0], said[1], caches)
        if anybody_looks():
            assert self.ends is not None
            self.show(self.ends.place(self.ends.words(tokens.unsqueeze(1)), start=caches[0].filled - 1), caches, entry)
        return result

    def show(self, x: Places, caches: list[Cache], entry: Index | None) -> None:
        """Take the last step once more, through the modules, for whoever looks. The caches stay as the quick step left them."""
        self.settle(caches)
        place, memories = caches[0].filled - 1, self.memories(entry)
        kept = [(room, room[:, :, place].clone()) for cache in caches for room in (cache.keys, cache.values)]
        for number, (layer, cache) in enumerate(zip(self.layers, caches, strict=True)):
            cache.filled = place
            x, _ = layer.step(x, *memories[number : number + 1], cache)  # type: ignore[operator]
        for room, numbers in kept:
            room[:, :, place] = numbers

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
            return f"it takes one int64 token of every entry: got {tuple(tokens.shape)} {tokens.dtype}"
        reason = self.refuses_step(caches)
        if reason is not None:
            return reason
        assert self.record is not None
        if self.record.mute is None and not self.ends.reaches(place):  # type: ignore[union-attr]
            return f"its position has no place {place}"
        return self.record.mute

    def refuses_memory(self, memory: Float[Tensor, "batch keys width"], padding: Padding | None) -> str | None:
        """Why the layers must be asked themselves for what they remember; None if not."""
        reason = refuses_now()
        if reason is not None:
            return reason
        if not isinstance(memory, Tensor) or memory.ndim != 3 or not memory.numel() or not serves(memory):
            return "it is for float32 on a CPU with a C compiler"
        if padding is not None and (padding.lengths.shape[0] != memory.shape[0] or padding.longest > memory.shape[1]):
            return "its lengths do not fit"
        self.record = examined(self.layers, self.norm, self.ends)
        if self.record.shape is not None and memory.shape[2] != self.record.shape.width:
            return f"the memory is {memory.shape[2]} wide"
        return self.record.refuses(memory) or (None if padding is None else refuses_lengths(padding))

    def refuses_step(self, caches: list[Cache]) -> str | None:
        """Why no step can be quick at this moment; None if one can. The first one that can chooses the way for all."""
        reason, keys = refuses_now(), caches[0].keys
        if reason is not None:
            return reason
        if any(cache.tracked for cache in caches) or keys.shape[0] == 0:
            return "there are no entries, or a gradient may be asked of earlier steps"
        if self.record is None:
            self.record = examined(self.layers, self.norm, self.ends)
        if self.way is None and self.reason is None:
            self.reason = refuses_sources(self.sources, keys)
        reason = self.reason or self.record.refuses(keys)
        if reason is None and self.way is None:
            self.way = self.chosen(keys)
        return reason

    def chosen(self, keys: Tensor) -> Way:
        """The quickest way there is."""
        assert self.record is not None
        if not serves(keys):
            return Eager(self.record, self.norm, self.ends, self.sources)
        way = Compiled(self.record, self.layers, self.norm, self.ends)
        if self.sources:
            way.read(self.sources)
        return way

    def caches(self, batch: int, length: int) -> list[Cache] | None:
        """Caches for a way that was chosen already; None: ask the layers."""
        return self.way.rooms_for(batch, length) if isinstance(self.way, Compiled) else None

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
                with writable():
                    cache.keys, cache.values = (moved(kept, cache, index) for kept in (cache.keys, cache.values))
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


def moved(kept: Kept, cache: Cache, index: Index) -> Kept:
    """Keys or values of a cache in another order. Only what is filled is copied, unless a gradient goes through it."""
    if cache.tracked or not cache.filled:
        return kept.index_select(0, index)
    filled = kept[:, :, : cache.filled].index_select(0, index)
    room = kept if index.shape[0] == kept.shape[0] else kept.new_empty(index.shape[0], *kept.shape[1:])
    room[:, :, : cache.filled] = filled
    return room
