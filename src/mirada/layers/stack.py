"""Stacks of blocks, and the state of one that is decoded step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Neighborhood, Padding
from mirada.layers.block import BlockConfig, DecoderLayer, EncoderLayer, norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.run import Run
from mirada.shapes import check_axes

Input = Float[Tensor, "batch length width"]
ROOM = 64  # positions a cache starts with; it doubles when they are used up


L = TypeVar("L", bound=nn.Module)


class Layers(nn.ModuleList, Generic[L]):
    """A list of layers of one kind, known to type checkers as such."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[L]: ...  # type: ignore[override]

        def __getitem__(self, number: int) -> L: ...  # type: ignore[override]


@dataclass(frozen=True, eq=False)
class State:
    """Where a decoder is: the caches of its layers, and what they remember of the sources."""

    caches: list[Cache]
    run: Run = field(default_factory=Run)
    filled: int = 0
    reorders: int = 0
    asked: Tensor | None = None  # what the top layer's attention was asked with last, for its weights
    entry: Int[Tensor, " batch"] | None = None  # the source that each entry reads; None: its own

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.caches[0].keys.shape[0]

    @property
    def memories(self) -> list[Memory]:
        """The memory of every layer, with one source per entry. Quick steps do without it where entries share a source."""
        return self.run.memories(self.entry)

    def reserve(self, steps: int) -> None:
        """Room for that many more positions in every cache."""
        self.require_current()
        for cache in self.caches:
            cache.reserve(self.filled + steps)

    def require_current(self) -> None:
        """Raise a ValueError if somebody went on from this state before: its caches are not what they were."""
        for cache in self.caches:
            if (cache.filled, len(cache.reorders)) != (self.filled, self.reorders):
                raise ValueError("this state was continued already: go on from the one that step or reorder returned")

    def require_step(self) -> Tensor:
        """What the attention was asked with last; an error before the first step."""
        if self.asked is None:
            raise ValueError("there is no alignment before the first step")
        self.require_current()
        return self.asked

    def reorder(self, index: Int[Tensor, " entries"]) -> "State":
        """Let entry b go on from what entry index[b] has: a step of a beam search.

        There may be more entries than before, or fewer. Sources stay where they are, and so do the caches of quick steps.
        """
        self.require_current()
        check_axes("the index of reorder", index, "entries")
        index = index.to(torch.int64, copy=True)  # it is kept, and belongs to who called
        self.run.reorder(index, self.caches)
        entry = index if self.entry is None else self.entry.index_select(0, index)
        if self.entry is not None and torch.equal(entry, self.entry):
            entry = self.entry  # beams of one sentence: who was prepared to read it still is
        asked = None if self.asked is None else self.asked.index_select(0, index)
        return replace(self, entry=entry, asked=asked, reorders=self.reorders + 1)

    def after(self, asked: Tensor) -> "State":
        """The state after a step whose top attention was asked with that."""
        return State(self.caches, self.run, self.filled + asked.shape[1], self.reorders, asked, self.entry)

    def say(self, tokens: Int[Tensor, " batch"]) -> "tuple[Float[Tensor, 'batch vocab'], State] | None":
        """A quick step from words to the scores of words, of a state that knows its model's ends; None: take it otherwise."""
        self.reserve(1)
        said = self.run.say(tokens, self.caches, self.entry)
        return None if said is None else (said[0], self.after(said[1]))


class Encoder(nn.Module):
    """Encoder layers, one after the other, with a last norm where the blocks have theirs in front.

    >>> Encoder(BlockConfig(width=8, heads=2, hidden=16), depth=2)(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig, depth: int, where: Neighborhood | None = None) -> None:
        super().__init__()
        self.layers: Layers[EncoderLayer] = Layers(EncoderLayer(config, where) for _ in range(depth))
        self.norm = norm(config) if config.order == "pre" else None

    def forward(
        self,
        x: Input,
        where: Neighborhood | None = None,
        real: Bool[Tensor, "batch length"] | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Input:
        for layer in self.layers:
            x = layer(x, where, real, positions)
        return x if self.norm is None else self.norm(x, real)

    def start(self, batch: int, ends: Ends | None = None) -> State:
        """The state before the first step. A model that goes from words to words says what its ends are."""
        return State(caches(self.layers, batch), Run(self.layers, self.norm, ends))

    def step(self, x: Input, state: State) -> tuple[Input, State]:
        """The next places, given all that came before."""
        state.reserve(x.shape[1])
        x, asked = state.run.step(x, state.caches, state.entry) or self.ordinary_step(x, state)
        return x, state.after(asked)

    def ordinary_step(self, x: Input, state: State) -> tuple[Input, Input]:
        """A step through the modules: the next places, and what the top attention was asked with."""
        state.run.settle(state.caches)
        for layer, cache in zip(self.layers, state.caches, strict=True):
            x, asked = layer.step(x, cache)
        return x if self.norm is None else self.norm(x), asked

    def alignment(self, state: State) -> Float[Tensor, "batch keys"]:
        """The weights of the last place over all so far: the mean of the heads of the top layer."""
        asked = state.require_step()
        state.run.settle(state.caches)
        cache = state.caches[-1].rewound(asked.shape[1])
        return self.layers[-1].self.weights(asked, cache=cache)[:, :, -1].mean(1)


class Decoder(nn.Module):
    """Decoder layers over a memory, with a last norm where the blocks have theirs in front.

    >>> decoder = Decoder(BlockConfig(width=8, heads=2, hidden=16), depth=2)
    >>> decoder(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8)).shape
    torch.Size([2, 3, 8])
    """

    def __init__(self, config: BlockConfig, depth: int) -> None:
        super().__init__()
        self.layers: Layers[DecoderLayer] = Layers(DecoderLayer(config) for _ in range(depth))
        self.norm = norm(config) if config.order == "pre" else None

    def forward(
        self,
        x: Input,
        memory: Float[Tensor, "batch keys width"],
        memory_where: Neighborhood | None = None,
        real: Bool[Tensor, "batch length"] | None = None,
    ) -> Input:
        for layer in self.layers:
            x = layer(x, memory, memory_where, real=real)
        return x if self.norm is None else self.norm(x, real)

    def start(
        self, memory: Float[Tensor, "batch keys width"], padding: Padding | None = None, ends: Ends | None = None
    ) -> State:
        """The state before the first step: the memory's keys and values are made here, once.

        A model that goes from words to words says what its ends are.
        """
        run = Run(self.layers, self.norm, ends)
        run.remember(memory, padding)
        return State(run.caches(memory.shape[0], ROOM) or caches(self.layers, memory.shape[0]), run)

    def step(self, x: Input, state: State) -> tuple[Input, State]:
        """The next places, given all that came before."""
        state.reserve(x.shape[1])
        x, asked = state.run.step(x, state.caches, state.entry) or self.ordinary_step(x, state)
        return x, state.after(asked)

    def ordinary_step(self, x: Input, state: State) -> tuple[Input, Input]:
        """A step through the modules: the next places, and what the top attention was asked with."""
        state.run.settle(state.caches)
        for layer, memory, cache in zip(self.layers, state.memories, state.caches, strict=True):
            x, asked = layer.step(x, memory, cache)
        return x if self.norm is None else self.norm(x), asked

    def alignment(self, state: State) -> Float[Tensor, "batch keys"]:
        """The weights of the last place over the memory: the mean of the heads of the top layer."""
        asked = state.require_step()[:, -1:]
        return self.layers[-1].cross.weights(asked, memory=state.memories[-1])[:, :, 0].mean(1)


def caches(layers: Layers[EncoderLayer] | Layers[DecoderLayer], batch: int) -> list[Cache]:
    """An empty cache for every layer, in the precision of its keys: also where the attention itself has no parameters."""
    like = next(layers.parameters())
    kind, dtype = like.device.type, like.dtype
    projected = next(layers[0].self.heads.parameters(), None) is not None
    if projected and dtype != torch.float64 and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    return [layer.self.cache(batch, ROOM, dtype, like.device) for layer in layers]
