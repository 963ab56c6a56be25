"""Stacks of blocks, and the state of one that is decoded step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mirada.attention.cache import Cache, entries
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Causal, Neighborhood, Padding
from mirada.attention.positions import Position
from mirada.layers.block import BlockConfig, DecoderLayer, EncoderLayer, norm
from mirada.layers.model import check_state
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
class DecoderState:
    """The state of a stack that is decoded step by step: `start` makes it, `step` and `reorder` return the next one.

    Args:
        owner: the stack that made it: keys and values are those of its weights.
        caches: the keys and values of every layer so far.
        memories: the keys and values of the sources, for every layer.
        filled: how many positions were decoded.
        reorders: how often the entries were reordered.
        asked: the last input of the top layer's attention, from which its weights are computed.
        entry: the source that each entry reads; None: its own.

    >>> stack = Stack(BlockConfig(width=8, heads=2, hidden=16), depth=2).eval()
    >>> h, state = stack.step(torch.zeros(3, 4, 8), stack.start(3))
    >>> state.filled, state.reorder(torch.tensor([0, 0])).batch
    (4, 2)
    """

    owner: nn.Module  # the stack that made it: its keys and values are of that one's weights
    caches: list[Cache]
    memories: list[Memory] = field(default_factory=list)  # of every layer, one source per entry
    filled: int = 0
    reorders: int = 0
    asked: Tensor | None = None  # the last input of the top layer's attention
    entry: Int[Tensor, " batch"] | None = None  # the source that each entry reads; None: its own

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.caches[0].keys.shape[0]

    def reserve(self, steps: int) -> None:
        """Room for that many more positions in every cache."""
        self.require_current()
        for cache in self.caches:
            cache.reserve(self.filled + steps)

    def require_current(self) -> None:
        """Raise a ValueError if this state was continued before: its caches have changed."""
        for cache in self.caches:
            if (cache.filled, len(cache.reorders)) != (self.filled, self.reorders):
                raise ValueError(
                    "this state was continued already: continue from the one that step or reorder returned"
                )

    def require_step(self) -> Tensor:
        """The last input of the attention; an error before the first step."""
        if self.asked is None:
            raise ValueError("there is no alignment before the first step")
        self.require_current()
        return self.asked

    def reorder(self, index: Int[Tensor, " entries"]) -> "DecoderState":
        """Let entry b continue from entry index[b], as a beam search does.

        There may be more entries than before, or fewer. If every entry keeps its source,
        the sources' keys and values are not copied.
        """
        self.require_current()
        index = entries(index, self.caches[0].keys)
        entry = index if self.entry is None else self.entry.index_select(0, index)
        asked = None if self.asked is None else self.asked.index_select(0, index)
        if self.entry is not None and torch.equal(entry, self.entry):
            memories = self.memories
        else:
            memories = [memory.reorder(index) for memory in self.memories]
        for cache in self.caches:
            cache.move(index)
        return replace(self, memories=memories, entry=entry, asked=asked, reorders=self.reorders + 1)

    def after(self, asked: Tensor) -> "DecoderState":
        """The state after a step with that input of the top attention."""
        return replace(self, filled=self.filled + asked.shape[1], asked=asked)


def _called(stack: nn.Module, layer: nn.Module, *given: Any, **named: Any) -> Tensor:
    """A layer's output; with checkpointing, only its input is kept for the backward pass, and the rest computed again."""
    if stack.checkpointing and stack.training and torch.is_grad_enabled():
        return checkpoint(layer, *given, use_reentrant=False, **named)  # type: ignore[no-any-return]
    return layer(*given, **named)  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Encoder layers, one after the other, with a final norm if the blocks are pre-norm.

    Args:
        config: sizes and factors of each layer.
        depth: how many layers there are.
        where: the neighborhood, within that of the configuration; complete by default.

    >>> Encoder(BlockConfig(width=8, heads=2, hidden=16), depth=2)(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 3, 8])
    """

    checkpointing: bool = False  # whether layers are computed again in the backward pass

    def __init__(self, config: BlockConfig, depth: int, where: Neighborhood | None = None) -> None:
        super().__init__()
        self.layers: Layers[EncoderLayer] = Layers(EncoderLayer(config.of_layer(n), where) for n in range(depth))
        _share_position(self.layers)
        self.norm = norm(config) if config.order == "pre" else None

    def forward(
        self,
        x: Input,
        where: Neighborhood | None = None,
        real: Bool[Tensor, "batch length"] | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Input:
        """A vector for every place, in its context."""
        for layer in self.layers:
            x = _called(self, layer, x, where, real, positions)
        return x if self.norm is None else self.norm(x, real)


class Stack(Encoder):
    """Causal layers, one after the other: a decoder without a memory, as GPT is, that can also be run step by step.

    Args:
        config: sizes and factors of each layer.
        depth: how many layers there are.

    >>> stack = Stack(BlockConfig(width=8, heads=2, hidden=16), depth=2).eval()
    >>> x = torch.randn(1, 3, 8)
    >>> h, state = stack.step(x[:, :2], stack.start(1))
    >>> torch.allclose(h, stack(x)[:, :2], atol=1e-5)
    True
    """

    def __init__(self, config: BlockConfig, depth: int) -> None:
        super().__init__(config, depth, Causal())

    def start(self, batch: int) -> DecoderState:
        """The state before the first step."""
        return DecoderState(self, caches(self.layers, batch))

    def step(self, x: Input, state: DecoderState) -> tuple[Input, DecoderState]:
        """The next places, given all that came before."""
        _check_step(self, x, state)
        state.reserve(x.shape[1])
        for layer, cache in zip(self.layers, state.caches, strict=True):
            x, asked = layer.step(x, cache)
        return x if self.norm is None else self.norm(x), state.after(asked)

    def alignment(self, state: DecoderState) -> Float[Tensor, "batch keys"]:
        """The weights of the last place over all so far: the mean of the heads of the top layer."""
        check_state(state, DecoderState, self)
        asked = state.require_step()
        cache = state.caches[-1].rewound(asked.shape[1])
        return self.layers[-1].self_attention.weights(asked, cache=cache)[:, :, -1].mean(1)


class Decoder(nn.Module):
    """Decoder layers over a memory, with a final norm if the blocks are pre-norm.

    Args:
        config: sizes and factors of each layer.
        depth: how many layers there are.

    >>> decoder = Decoder(BlockConfig(width=8, heads=2, hidden=16), depth=2)
    >>> decoder(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8)).shape
    torch.Size([2, 3, 8])
    """

    checkpointing: bool = False  # whether layers are computed again in the backward pass

    def __init__(self, config: BlockConfig, depth: int) -> None:
        super().__init__()
        self.layers: Layers[DecoderLayer] = Layers(DecoderLayer(config.of_layer(n)) for n in range(depth))
        _share_position(self.layers)
        self.norm = norm(config) if config.order == "pre" else None

    def forward(
        self,
        x: Input,
        memory: Float[Tensor, "batch keys width"],
        memory_where: Neighborhood | None = None,
        real: Bool[Tensor, "batch length"] | None = None,
    ) -> Input:
        """A vector for every place of a target, given a memory."""
        for layer in self.layers:
            x = _called(self, layer, x, memory, memory_where, real=real)
        return x if self.norm is None else self.norm(x, real)

    def start(self, memory: Float[Tensor, "batch keys width"], padding: Padding | None = None) -> DecoderState:
        """The state before the first step: the memory's keys and values are made here, once."""
        memories = [layer.cross.remember(memory, padding=padding) for layer in self.layers]
        return DecoderState(self, caches(self.layers, memory.shape[0]), memories)

    def step(self, x: Input, state: DecoderState) -> tuple[Input, DecoderState]:
        """The next places, given all that came before."""
        _check_step(self, x, state)
        state.reserve(x.shape[1])
        for layer, memory, cache in zip(self.layers, state.memories, state.caches, strict=True):
            x, asked = layer.step(x, memory, cache)
        return x if self.norm is None else self.norm(x), state.after(asked)

    def alignment(self, state: DecoderState) -> Float[Tensor, "batch keys"]:
        """The weights of the last place over the memory: the mean of the heads of the top layer."""
        check_state(state, DecoderState, self)
        last = state.require_step()[:, -1:]
        return self.layers[-1].cross.weights(last, memory=state.memories[-1])[:, :, 0].mean(1)


def _share_position(layers: Layers[EncoderLayer] | Layers[DecoderLayer]) -> None:
    """Let layers have one position where a stack has one for all that are alike."""
    shared: dict[str, Position] = {}
    for layer in layers:
        position = layer.self_attention.position
        if position.shared:
            layer.self_attention.position = shared.setdefault(repr(position), position)


def _check_step(stack: Stack | Decoder, x: Input, state: DecoderState) -> None:
    """Require a state of this stack, and inputs that fit: a step must fail before it writes to a cache."""
    check_state(state, DecoderState, stack)
    check_axes("x", x, "batch length width", batch=state.batch, width=stack.layers[0].self_attention.heads.width)


def caches(layers: Layers[EncoderLayer] | Layers[DecoderLayer], batch: int) -> list[Cache]:
    """An empty cache for every layer, in the precision of its keys: also where the attention itself has no parameters."""
    like = next(layers.parameters())
    kind, dtype = like.device.type, like.dtype
    projected = next(layers[0].self_attention.heads.parameters(), None) is not None
    if projected and dtype != torch.float64 and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    return [layer.self_attention.cache(batch, ROOM, dtype, like.device) for layer in layers]
