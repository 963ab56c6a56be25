"""The state of an engine's decoding, and what the states of one decoding share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache, entries, writable
from mirada.attention.memory import Memory
from mirada.layers.stack import DecoderState

Rows = Float[Tensor, "rows width"]
Kept = Float[Tensor, "rows slots keys"]  # the weights of the heads that a decoding keeps
Scores = Float[Tensor, "rows vocab"]
Index = Int[Tensor, " rows"]


class KeptHead(NamedTuple):
    """A head whose weights are kept in every step: of which layer, and whether it looks at the source or at the text so far."""

    layer: int
    across: bool
    head: int


class Decoding(ABC):
    """What the states of one decoding share: caches and sources. It owns the buffers, so that threads do not share them.

    The weights of `heads` are kept in every step, each in a slot of its own.
    """

    def __init__(self, caches: list[Cache], sources: list[Memory], heads: Sequence[KeptHead]) -> None:
        self.caches, self.sources, self.heads = caches, sources, tuple(heads)
        self.read: tuple[Index | None, dict[int, Memory]] = (None, {})

    @abstractmethod
    def step(self, tokens: Index, entry: Index | None) -> tuple[Scores, Rows, Kept] | None:
        """The scores of the next tokens, the input of the top layer's attention, and the weights of the heads that are kept; None
        if a token is not in the vocabulary.

        The new keys and values are written to the caches. `entry` has the source that each row reads (None: its own).
        """

    def prompt(self, tokens: Int[Tensor, "rows length"], entry: Index | None) -> tuple[Scores, Rows, Kept] | None:
        """The same as `step` for several tokens of every row, for the last of them; None: modules read them."""
        return None

    @property
    def room(self) -> int:
        """Places of a kept row in the next step: the longer of the text and the source."""
        return max(self.caches[0].filled + 1, *(memory.length for memory in self.sources[:1]), 0)

    def move(self, index: Index) -> None:
        """Let row b continue from row index[b]."""
        with writable():
            for cache in self.caches:
                cache.keys, cache.values = (cache.moved(room, index) for room in (cache.keys, cache.values))

    def settle(self) -> None:  # noqa: B027
        """Bring every row's keys and values to the row itself, where modules expect them. Here `move` has already done so."""

    def reserve(self, length: int) -> bool:
        """Enlarge the caches to that many places; whether they moved."""
        if length <= self.caches[0].length:
            return False
        for cache in self.caches:
            cache.reserve(length)
        return True

    def memory(self, layer: int, entry: Index | None) -> Memory:
        """A layer's keys and values of the sources, one source for each entry."""
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
    """The state of a decoding. It can be continued once: a step reuses its memory."""

    owner: object  # the stepper that made it: its keys and values come from that stepper's weights
    decoding: Decoding
    filled: int = 0
    reorders: int = 0
    asked: Tensor | None = None  # the last input of the top layer's attention, for its weights
    entry: Index | None = None  # the source that each entry reads; None: its own
    kept: Kept | None = None  # the weights of the last step; None where modules took it

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.decoding.caches[0].keys.shape[0]

    def reserve(self, steps: int) -> None:
        """Make room for that many more places."""
        self.require_current()
        self.decoding.reserve(self.filled + steps)

    def require_current(self) -> None:
        """Raise a ValueError if this state was continued before: its caches have changed."""
        first = self.decoding.caches[0]
        if (first.filled, len(first.reorders)) != (self.filled, self.reorders):
            raise ValueError("this state was continued already: continue from the one that step or reorder returned")

    def reorder(self, index: Int[Tensor, " entries"]) -> "EngineState":
        """The state in which entry b continues from entry index[b]. There may be more entries than before, or fewer."""
        self.require_current()
        index = entries(index, self.decoding.caches[0].keys)
        entry = index if self.entry is None else self.entry.index_select(0, index)
        if self.entry is not None and torch.equal(entry, self.entry):
            entry = self.entry  # beams of one sentence: what was prepared for this entry is still right
        asked, kept = (None if x is None else x.index_select(0, index) for x in (self.asked, self.kept))
        self.decoding.move(index)
        for cache in self.decoding.caches:
            cache.reorders.append(index)
        return replace(self, entry=entry, asked=asked, kept=kept, reorders=self.reorders + 1)

    def after(self, asked: Rows, kept: Kept, places: int = 1) -> "EngineState":
        """The state after so many places, with the input of the top layer's attention and the weights kept at the last."""
        filled = self.filled + places
        for cache in self.decoding.caches:
            cache.filled = filled
        return EngineState(self.owner, self.decoding, filled, self.reorders, asked.unsqueeze(1), self.entry, kept)

    def keys(self, across: bool) -> int:
        """How many places the weights of the last step have: those of the source, or of the text."""
        return self.decoding.sources[0].length if across else self.filled

    def for_modules(self, stack: nn.Module, layers: list[int]) -> DecoderState:
        """The same state for a stack of modules, with the memories of these layers. Both share their caches."""
        memories = [self.decoding.memory(layer, self.entry) for layer in layers]
        return DecoderState(stack, self.decoding.caches, memories, self.filled, self.reorders, self.asked, self.entry)
