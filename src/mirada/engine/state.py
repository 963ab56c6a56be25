"""Where an engine is in a decoding, and what the states of one decoding share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache, entries, writable
from mirada.attention.memory import Memory
from mirada.layers.stack import DecoderState

Rows = Float[Tensor, "rows width"]
Scores = Float[Tensor, "rows vocab"]
Index = Int[Tensor, " rows"]


class Decoding(ABC):
    """What the states of one decoding share: caches and sources. Buffers are here, so that threads do not share them."""

    def __init__(self, caches: list[Cache], sources: list[Memory]) -> None:
        self.caches, self.sources = caches, sources
        self.read: tuple[Index | None, dict[int, Memory]] = (None, {})

    @abstractmethod
    def step(self, tokens: Index, entry: Index | None) -> tuple[Scores, Rows] | None:
        """The scores of the tokens after these, and what the top attention was asked with.

        The new keys and values are written to the caches. `entry` has the source that each row reads (None: its own). None if
        a token is not in the vocabulary.
        """

    def move(self, index: Index) -> None:
        """Let row b go on from what row index[b] has."""
        with writable():
            for cache in self.caches:
                cache.keys, cache.values = (cache.moved(room, index) for room in (cache.keys, cache.values))

    def settle(self) -> None:  # noqa: B027
        """Bring every row's keys and values to the row itself, where others expect them. `move` has done so here."""

    def reserve(self, length: int) -> bool:
        """Make room for that many places; whether something moved."""
        if length <= self.caches[0].length:
            return False
        for cache in self.caches:
            cache.reserve(length)
        return True

    def memory(self, layer: int, entry: Index | None) -> Memory:
        """What a layer remembers of the sources, as the entries read them: one for each."""
        if entry is None:
            return self.sources[layer]
        if self.read[0] is not entry:
            self.read = (entry, {})
        known = self.read[1]
        if layer not in known:
            known[layer] = self.sources[layer].reorder(entry)
        return known[layer]


@dataclass(frozen=True, eq=False)
class EngineState:
    """Where a decoding is. It is continued once: a step reuses its room."""

    owner: object  # the stepper that made it: its keys and values are of that one's weights
    decoding: Decoding
    filled: int = 0
    reorders: int = 0
    asked: Tensor | None = None  # what the top layer's attention was asked with last, for its weights
    entry: Index | None = None  # the source that each entry reads; None: its own

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.decoding.caches[0].keys.shape[0]

    def reserve(self, steps: int) -> None:
        """Room for that many more places."""
        self.require_current()
        self.decoding.reserve(self.filled + steps)

    def require_current(self) -> None:
        """Raise a ValueError if somebody went on from this state before: its caches are not what they were."""
        first = self.decoding.caches[0]
        if (first.filled, len(first.reorders)) != (self.filled, self.reorders):
            raise ValueError("this state was continued already: go on from the one that step or reorder returned")

    def reorder(self, index: Int[Tensor, " entries"]) -> "EngineState":
        """Let entry b go on from what entry index[b] has. There may be more entries than before, or fewer."""
        self.require_current()
        index = entries(index, self.decoding.caches[0].keys)
        entry = index if self.entry is None else self.entry.index_select(0, index)
        if self.entry is not None and torch.equal(entry, self.entry):
            entry = self.entry  # beams of one sentence: who was prepared to read it still is
        asked = None if self.asked is None else self.asked.index_select(0, index)
        self.decoding.move(index)
        for cache in self.decoding.caches:
            cache.reorders.append(index)
        return replace(self, entry=entry, asked=asked, reorders=self.reorders + 1)

    def after(self, asked: Rows) -> "EngineState":
        """The state after a step whose top attention was asked with that."""
        for cache in self.decoding.caches:
            cache.filled += 1
        return EngineState(self.owner, self.decoding, self.filled + 1, self.reorders, asked.unsqueeze(1), self.entry)

    def for_modules(self, stack: nn.Module, layers: list[int]) -> DecoderState:
        """The same state as a stack of modules knows it, with the memories of these layers. They share their caches."""
        memories = [self.decoding.memory(layer, self.entry) for layer in layers]
        return DecoderState(stack, self.decoding.caches, memories, self.filled, self.reorders, self.asked, self.entry)
