"""Steppers, which a search steps in place of the model: the model's steps with a packed copy of its weights."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.attention.positions import Rotary
from mirada.attention.rotation import rotate_pairs
from mirada.engine.compiled import FLOAT32, Compiled, check_lengths, position_of, scaled_output
from mirada.engine.fits import (
    FIRST,
    Half,
    LayerTables,
    PositionTable,
    Sublayer,
    anatomy,
    joined,
    near_of,
    reads,
    sublayers_of,
    window_of,
)
from mirada.engine.state import Decoding, EngineState, Index, Kept, KeptHead, Rows, Scores
from mirada.layers.feedforward import ACTIVATIONS
from mirada.layers.model import as_padding, check_state
from mirada.layers.stack import DecoderState, caches
from mirada.models.transformer import SourceMemory
from mirada.native.library import serves
from mirada.shapes import check_axes

# A step in plain PyTorch, in as few calls as possible: for other devices and dtypes, and where there is no compiler.


Mixed = tuple[Float[Tensor, "rows inner"], Float[Tensor, "rows heads keys"]]  # mixed values, and the weights


class EagerSource(NamedTuple):
    """The keys and values of a source, each read by `times` neighboring rows. Keys are scaled, `bias` hides padding."""

    keys: Float[Tensor, "sources_heads dim keys"]
    values: Float[Tensor, "sources_heads keys dim"]
    bias: Float[Tensor, "sources_heads 1 keys"] | None
    times: int


class Eager:
    """A decoder as products of matrices: those of the model, except the joined ones of queries, keys and values."""

    name = "plain PyTorch"

    def __init__(self, half: Half) -> None:
        self.half, self.shape, self.positions = half, half.shape, PositionTable(half)
        self.activation = ACTIVATIONS[self.shape.activation]
        self.layers = [sublayers_of(layer) for layer in half.layers]
        self.queries = [joined(*sublayers[0].first) for sublayers in self.layers]
        self.output = None if half.output is None else scaled_output(half.output)
        self.tables = LayerTables.of(half, FIRST)
        self.windows = [window_of(layer) for layer in half.layers]
        self.near = [near_of(layer) for layer in half.layers]
        self.rotary = next((p for p in map(position_of, half.layers) if isinstance(p, Rotary)), None)
        for (weight, bias), sublayers in zip(self.queries, self.layers, strict=True):
            if self.shape.normed:  # a norm would undo it
                continue
            queries = slice(self.shape.heads * self.shape.dim)
            weight[queries] *= sublayers[0].scale
            bias[queries] *= sublayers[0].scale

    def begin(self, batch: int, sources: list[Memory], heads: Sequence[KeptHead]) -> "EagerDecoding":
        """A decoding of that many rows, over these sources if there are any."""
        return EagerDecoding(self, caches(self.half.stack.layers, batch), sources, heads)

    def remember(self, states: Float[Tensor, "batch keys width"], padding: Padding | None) -> list[Memory]:
        """Keys and values of a source, for every layer."""
        return [cross.remember(states, padding=padding) for cross in self.half.across]


class EagerDecoding(Decoding):
    """Steps of a decoding, a few products each."""

    def __init__(self, eager: Eager, caches: list[Cache], sources: list[Memory], heads: Sequence[KeptHead]) -> None:
        super().__init__(caches, sources, heads)
        self.eager, self.shape = eager, eager.shape
        self.prepared: tuple[Index | None, list[EagerSource]] | None = None

    def step(self, tokens: Index, entry: Index | None) -> tuple[Scores, Rows, Kept] | None:
        half, place = self.eager.half, self.caches[0].filled
        assert self.eager.output is not None
        rows = self.eager.positions.up_to(place)
        try:
            x = F.embedding(tokens, half.words.weight)
        except IndexError:
            return None
        x = x * half.words.scale if rows is None else torch.add(rows[place], x, alpha=half.words.scale)
        x = x if half.place.norm is None else half.place.norm.forward(x)
        if self.eager.tables.places <= place:
            self.eager.tables = LayerTables.of(half, 2 * place)
        kept = x.new_empty(len(x), len(self.heads), self.room)
        h, asked = self.through(x, entry, kept)
        return F.linear(h, *self.eager.output), asked, kept

    def through(self, x: Rows, entry: Index | None, kept: Kept) -> tuple[Rows, Rows]:
        """The outputs of the stack, and the input of its top layer's attention; weights go to `kept`."""
        if self.prepared is None or self.prepared[0] is not entry:
            self.prepared = (entry, [self.source(n, memory, entry) for n, memory in enumerate(self.sources)])
        for number, (attention, *across, feed) in enumerate(self.eager.layers):
            asked = self.before(x, attention)
            qkv = F.linear(asked, *self.eager.queries[number])
            mixed, weights = self.attend_to_itself(qkv, number, attention)
            self.keep(kept, number, False, weights)
            x = self.after(x, mixed, attention)
            for sublayer in across:
                asked = self.before(x, sublayer)
                mixed, weights = self.attend_to_source(_linear(asked, sublayer.first[0]), self.prepared[1][number])
                self.keep(kept, number, True, weights)
                x = self.after(x, mixed, sublayer)
            h = [_linear(self.before(x, feed), each) for each in feed.first]
            x = self.after(
                x, self.eager.activation(h[0]) * h[1] if self.shape.gated else self.eager.activation(h[0]), feed
            )
        norm = self.eager.half.stack.norm
        return x if norm is None else norm(x), asked

    def keep(self, kept: Kept, layer: int, across: bool, weights: Float[Tensor, "rows heads _"]) -> None:
        """Keep the weights of the heads of a layer that are wanted; places beyond the keys get 0."""
        for slot, head in enumerate(self.heads):
            if (head.layer, head.across) == (layer, across):
                kept[:, slot, : weights.shape[2]] = weights[:, head.head]
                kept[:, slot, weights.shape[2] :] = 0

    def before(self, x: Rows, sublayer: Sublayer) -> Rows:
        """The input of a sublayer."""
        return x if self.shape.post else sublayer.norm.forward(x)

    def after(self, x: Rows, y: Float[Tensor, "rows inner"], sublayer: Sublayer) -> Rows:
        """x with the result of a sublayer added."""
        x = _linear(y, sublayer.last).add_(x)
        return sublayer.norm.forward(x) if self.shape.post else x

    def attend_to_itself(self, qkv: Float[Tensor, "rows columns"], number: int, sublayer: Sublayer) -> Mixed:
        """Self-attention: the new keys and values go to the cache first. Raw views in a hot path."""
        cache, tables, window = self.caches[number], self.eager.tables, self.eager.windows[number]
        rows, heads, groups, dim, place = len(qkv), self.shape.heads, self.shape.groups, self.shape.dim, cache.filled
        q, k, v = qkv.view(rows, heads + 2 * groups, dim).split([heads, groups, groups], 1)
        if sublayer.inner:
            q, k = (norm(x.unsqueeze(2)).squeeze(2) for norm, x in zip(sublayer.inner, (q, k), strict=True))
            q = q * sublayer.scale
        if (turns := tables.turns[number]) is not None:
            q, k = (self.turned(x, turns[place]) for x in (q, k))
        cache.keys[:, :, place], cache.values[:, :, place] = k, v
        first = max(0, place - window) if window >= 0 else 0
        keys, values = (x[:, :, first : place + 1].reshape(rows * groups, -1, dim) for x in (cache.keys, cache.values))
        scores = torch.bmm(q.reshape(rows * groups, heads // groups, dim), keys.transpose(1, 2))
        if (bias := tables.biases[number]) is not None:
            by_key = bias[:, : place + 1 - first].flip(1).view(groups, heads // groups, -1)
            scores = scores + by_key.repeat(rows, 1, 1)
        clip, (to_keys, to_values) = self.eager.near[number]
        back = torch.arange(place - first, -1, -1, device=q.device).clamp(max=clip)
        if to_keys is not None:
            scores = scores + (q.reshape(rows * groups, heads // groups, dim) @ to_keys.T).index_select(2, back)
        weights = scores.softmax(-1)
        mixed = torch.bmm(weights, values if to_values is None else values + to_values.index_select(0, back))
        mixed = mixed.view(rows, heads * dim)
        return mixed, F.pad(weights.view(rows, heads, -1), (first, 0))

    def turned(
        self, x: Float[Tensor, "rows heads dim"], turns: Float[Tensor, " pairs"]
    ) -> Float[Tensor, "rows heads dim"]:
        """Queries or keys with their pairs rotated."""
        assert self.eager.rotary is not None
        size, (cos, sin) = len(turns), turns.chunk(2)
        rotated = rotate_pairs(x[..., :size], cos, sin, self.eager.rotary.layout)
        return torch.cat([rotated, x[..., size:]], -1)

    def attend_to_source(self, q: Float[Tensor, "rows inner"], source: EagerSource) -> Mixed:
        """Attention over the sources: rows that read the same one are queries of one product."""
        heads, dim, times = self.shape.heads, self.shape.dim, source.times
        q = q.view(-1, times, heads, dim).transpose(1, 2).reshape(-1, times, dim)
        scores = torch.bmm(q, source.keys) if source.bias is None else torch.baddbmm(source.bias, q, source.keys)
        weights = scores.softmax(-1)
        mixed = torch.bmm(weights, source.values)
        rows = weights.view(-1, heads, times, weights.shape[2]).transpose(1, 2).flatten(0, 1)
        return mixed.view(-1, heads, times, dim).transpose(1, 2).reshape(-1, heads * dim), rows

    def source(self, number: int, memory: Memory, entry: Index | None) -> EagerSource:
        """The keys and values of a layer for these entries."""
        times = 1 if entry is None else neighbors(entry)
        if entry is not None:
            memory = memory.reorder(entry[::times])
        scale = self.eager.layers[number][1].scale
        each = self.shape.heads // self.shape.groups
        keys = (memory.keys * scale).transpose(2, 3).repeat_interleave(each, 1).flatten(0, 1).contiguous()
        values, bias = memory.values.repeat_interleave(each, 1).flatten(0, 1).contiguous(), None
        if memory.padding is not None:
            hidden = torch.arange(memory.length, device=keys.device) >= memory.padding.lengths.view(-1, 1)
            bias = keys.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
            bias = bias.expand(memory.batch, -1).repeat_interleave(self.shape.heads, 0).unsqueeze(1)
        return EagerSource(keys, values, bias, times)


def _linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """The output of the layer, without calling the module."""
    return F.linear(x, layer.weight, layer.bias)


def neighbors(entry: Int[Tensor, " rows"]) -> int:
    """How many consecutive rows read the same source, if the number is the same throughout: the size of a beam.

    >>> neighbors(torch.tensor([0, 0, 0, 2, 2, 2])), neighbors(torch.tensor([0, 0, 1]))
    (3, 1)
    """
    differs = (entry != entry[0]).nonzero()
    times = int(differs[0]) if len(differs) else len(entry)
    return times if len(entry) % times == 0 and bool((entry.view(-1, times) == entry[::times, None]).all()) else 1


Tokens = Int[Tensor, "batch length"]
Places = Int[Tensor, "batch *places"]  # a token for each row, or several
NOTHING = nullcontext()


class EngineStepper(ABC):
    """Steps of a model with its own copy of the weights, and of the model in evaluation mode."""

    decoder: Any  # what computes the steps

    def __init__(self, model: nn.Module, precision: str = FLOAT32) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self.model: Any = copy.deepcopy(model).eval().requires_grad_(False)
        self.precision = precision

    @property
    def backend(self) -> str:
        """The name of what computes the steps."""
        return self.decoder.name  # type: ignore[no-any-return]

    @property
    @abstractmethod
    def top(self) -> tuple[KeptHead, ...]:
        """The heads that an alignment is the mean of."""

    @abstractmethod
    def place_of(self, layer: nn.Module) -> tuple[int, bool] | None:
        """The number of a decoder's layer, and whether this attention of it looks at the source; None if it is in no layer."""

    @abstractmethod
    def start(self, memory: Any, heads: Sequence[KeptHead] | None = None) -> Any:
        """The state before the first token. Every step keeps the weights of `heads`, or of `top`."""

    @abstractmethod
    def step(self, tokens: Any, state: Any) -> tuple[Scores, Any]:
        """The scores of every possible next token, and the next state."""

    @abstractmethod
    def reorder(self, state: Any, index: Int[Tensor, " entries"]) -> Any:
        """The state in which entry b continues from entry index[b]."""

    @abstractmethod
    def alignment(self, state: Any) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step."""


class PackedStepper(EngineStepper):
    """The steps of a model without a source, such as GPT.

    It calls the modules of its copy where C does not do: for prompts where nothing is compiled, empty sources and alignments,
    and to let them refuse wrong tokens with their message.
    """

    decoder: Compiled | Eager

    def __init__(self, model: nn.Module, precision: str = FLOAT32) -> None:
        super().__init__(model, precision)
        with torch.inference_mode(False), torch.no_grad():
            self.parts = anatomy(self.model)
            half = self.parts.decoder
            self.decoder = Compiled(half, precision) if serves(half.words.weight) else Eager(half)

    def place_of(self, layer: nn.Module) -> tuple[int, bool] | None:
        for number, each in enumerate(self.parts.decoder.layers):
            if layer is each.self_attention:
                return number, False
            if layer is getattr(each, "cross", None):
                return number, True
        return None

    @property
    def top(self) -> tuple[KeptHead, ...]:
        """The heads that an alignment is the mean of: all of the top layer's last attention."""
        shape, depth = self.parts.decoder.shape, len(self.parts.decoder.layers)
        return tuple(KeptHead(depth - 1, shape.cross, head) for head in range(shape.heads))

    def start(self, memory: int = 1, heads: Sequence[KeptHead] | None = None) -> EngineState | DecoderState:
        """The state of an empty text, for that many texts at once. Every step keeps the weights of `heads`, or of `top`."""
        check_traced()
        with unmixed():
            if type(memory) is not int or memory < 1:
                return self.model.start(memory)
            return EngineState(self, self.decoder.begin(memory, [], self.top if heads is None else heads))

    def step(
        self, tokens: Int[Tensor, " batch"] | Tokens, state: EngineState | DecoderState
    ) -> tuple[Float[Tensor, "batch vocab"], EngineState | DecoderState]:
        """The scores of every possible next token, and the next state."""
        if isinstance(state, DecoderState):
            with unmixed():
                return self.model.step(tokens, state)
        check_state(state, EngineState, self)
        check_traced()
        state.reserve(1)
        with unmixed():
            rows = self.taken(tokens, state)
            result = None if rows is None else self.through(rows, state)
            if rows is not None and result is not None:
                return result[0], state.after(*result[1:], rows.numel() // state.batch)
            state.decoding.settle()  # through the modules of the copy, in the same caches
            before = state.for_modules(self.parts.decoder.stack, list(range(len(state.decoding.sources))))
            logits, after = self.model.step(tokens, before)
            return logits, replace(state, filled=after.filled, asked=after.asked, kept=None)

    def through(self, tokens: Places, state: EngineState) -> tuple[Scores, Rows, Kept] | None:
        """A step through one place or several, of tokens that the engine can take; None if one of them is not a word."""
        if tokens.ndim == 1:
            return state.decoding.step(tokens, state.entry)
        state.reserve(tokens.shape[1])
        return state.decoding.prompt(tokens, state.entry)

    def taken(self, tokens: Tensor, state: EngineState) -> Places | None:
        """The tokens, if the engine can take them: one int64 per row or several, at places with a position; else None."""
        keys = state.decoding.caches[0].keys
        if type(tokens) is not Tensor or tokens.dtype != torch.int64 or tokens.device != keys.device:
            return None
        shape = tokens.shape
        places = 1 if len(shape) < 2 else shape[1]
        if (
            shape[:1] != keys.shape[:1]
            or not tokens.numel()
            or not self.decoder.positions.reaches(state.filled + places - 1)
        ):
            return None
        if len(shape) == 1:
            return tokens
        if self.parts.source is not None or len(shape) > 2:
            return None
        return tokens[:, 0] if places == 1 else tokens

    def reorder(self, state: EngineState | DecoderState, index: Int[Tensor, " entries"]) -> EngineState | DecoderState:
        """The state in which entry b continues from entry index[b]."""
        return state.reorder(index)

    def alignment(self, state: EngineState | DecoderState) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: the mean of the heads of the top layer."""
        if isinstance(state, DecoderState):
            with unmixed():
                return self.model.alignment(state)
        check_state(state, EngineState, self)
        state.require_current()
        slots = [slot for slot, head in enumerate(state.decoding.heads) if head in self.top]
        if state.kept is not None and len(slots) == len(self.top):
            return state.kept[:, slots, : state.keys(bool(state.decoding.sources))].mean(1)
        if not state.decoding.sources:  # it attends to its own text, which is in the caches
            state.decoding.settle()
        top = [-1] if state.decoding.sources else []
        with unmixed():
            return self.model.alignment(state.for_modules(self.parts.decoder.stack, top))


class SourceStepper(PackedStepper):
    """The steps of a model that reads a source first."""

    def __init__(self, model: nn.Module, precision: str = FLOAT32) -> None:
        super().__init__(model, precision)
        with torch.inference_mode(False), torch.no_grad():
            half = self.parts.reader
            fits = half is not None and isinstance(self.decoder, Compiled) and reads(half)
            self.reader = Compiled(half, precision) if fits else None  # type: ignore[arg-type]

    def encode(self, *inputs: Any, **named: Any) -> Any:
        """The result of the model's own `encode`. Short texts are read in one call."""
        check_traced()
        with unmixed():
            if self.reader is not None:
                return self.read(*inputs, **named)
            return self.model.encode(*inputs, **named)

    def read(self, source: Tokens, lengths: Int[Tensor, " batch"] | None = None) -> Any:
        """Read texts with one call, or with the modules if the call refuses them."""
        assert self.reader is not None
        check_axes("source", source, "batch length")
        if self.reader.refuses(source) is None:
            padding = as_padding(lengths, *source.shape)
            states = self.reader.read(source, padding)
            if states is not None:
                return SourceMemory(states, padding)  # only a Transformer has a reader
        return self.model.encode(source, lengths)

    def start(self, memory: Any, heads: Sequence[KeptHead] | None = None) -> EngineState | DecoderState:  # type: ignore[override]
        """The state before the first token: the source's keys and values are computed here, once."""
        assert self.parts.source is not None
        if not isinstance(memory, tuple):
            return self.model.start(memory)  # which raises an error that names the problem
        check_traced()
        with unmixed():
            states, padding = self.parts.source(memory)
            if not self.takes_source(states, padding):
                return self.model.start(memory)
            padding = None if padding is None else Padding(padding.lengths.clone())  # the caller may change its own
            sources = self.decoder.remember(states.detach(), padding)
            heads = self.top if heads is None else heads
            return EngineState(self, self.decoder.begin(states.shape[0], sources, heads))

    def takes_source(self, states: Tensor, padding: Padding | None) -> bool:
        """Whether the decoder can attend to these states: no source is empty, all sizes fit."""
        like, width = self.parts.decoder.words.weight, self.parts.decoder.shape.width
        fits = isinstance(states, Tensor) and states.ndim == 3 and states.shape[2] == width and states.numel() > 0
        if not fits or (states.dtype, states.device) != (like.dtype, like.device):
            return False
        if padding is not None:
            check_lengths(padding.lengths, *states.shape[:2])
        return padding is None or int(padding.lengths.min()) > 0


def check_traced() -> None:
    """Raise a ValueError while a function is traced or transformed: there are no numbers to compute with."""
    traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack()
    if traced or torch._C._functorch.peek_interpreter_stack() is not None:
        raise ValueError("an engine cannot be traced, compiled or transformed: step the model itself")


def unmixed() -> AbstractContextManager[object]:
    """No autocast: an engine computes in the precision of its weights."""
    mixed = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    if not mixed:
        return NOTHING
    stack = ExitStack()
    for kind in mixed:
        stack.enter_context(torch.autocast(kind, enabled=False))
    return stack
