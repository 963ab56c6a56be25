"""What a search steps in a model's stead: the model's steps with a packed copy of its weights."""

import copy
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.engine.anatomy import anatomy
from mirada.engine.compiled import Compiled, check_lengths
from mirada.engine.eager import Eager
from mirada.engine.state import EngineState
from mirada.layers.model import as_padding, check_state
from mirada.layers.stack import DecoderState
from mirada.native.library import serves
from mirada.shapes import check_axes

Tokens = Int[Tensor, "batch length"]
NOTHING = nullcontext()


class PackedStepper:
    """The steps of a model without a source, such as GPT, with weights of its own.

    Beside the packed weights it keeps a copy of the model in evaluation, through whose modules it goes where one call would
    not do: prompts of several tokens, empty sources, alignments, and tokens that are refused with the modules' own words.
    """

    def __init__(self, model: nn.Module) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self.model: Any = copy.deepcopy(model).eval().requires_grad_(False)
            self.parts = anatomy(self.model)
            self.decoder = (Compiled if serves(self.parts.decoder.words.weight) else Eager)(self.parts.decoder)

    @property
    def backend(self) -> str:
        """What takes the steps."""
        return self.decoder.name

    def start(self, memory: int = 1) -> EngineState | DecoderState:
        """The state of an empty text, for that many texts at once."""
        check_traced()
        with unmixed():
            if type(memory) is not int or memory < 1:
                return self.model.start(memory)
            return EngineState(self, self.decoder.begin(memory, []))

    def step(
        self, tokens: Int[Tensor, " batch"] | Tokens, state: EngineState | DecoderState
    ) -> tuple[Float[Tensor, "batch vocab"], EngineState | DecoderState]:
        """The scores of every next token after these, and the state that leads on."""
        if isinstance(state, DecoderState):
            with unmixed():
                return self.model.step(tokens, state)
        check_state(state, EngineState, self)
        check_traced()
        state.reserve(1)
        with unmixed():
            rows = self.one_each(tokens, state)
            found = None if rows is None else state.decoding.step(rows, state.entry)
            return self.step_modules(tokens, state) if found is None else (found[0], state.after(found[1]))

    def one_each(self, tokens: Tensor, state: EngineState) -> Int[Tensor, " batch"] | None:
        """The tokens of a step of one call: one int64 of every row, at a place that has a position; else None."""
        keys = state.decoding.caches[0].keys
        if type(tokens) is not Tensor or tokens.dtype != torch.int64 or tokens.device != keys.device:
            return None
        if self.parts.source is None and tokens.ndim == 2 and tokens.shape[1] == 1:
            tokens = tokens[:, 0]
        fits = tokens.shape == keys.shape[:1] and len(tokens) > 0 and self.decoder.positions.reaches(state.filled)
        return tokens if fits else None

    def step_modules(self, tokens: Tensor, state: EngineState) -> tuple[Float[Tensor, "batch vocab"], EngineState]:
        """A step through the modules of the copy, in the same caches."""
        state.decoding.settle()
        before = state.for_modules(self.parts.decoder.stack, list(range(len(state.decoding.sources))))
        logits, after = self.model.step(tokens, before)
        return logits, replace(state, filled=after.filled, asked=after.asked)

    def reorder(self, state: EngineState | DecoderState, index: Int[Tensor, " entries"]) -> EngineState | DecoderState:
        """The state in which entry b goes on from what entry index[b] has."""
        return state.reorder(index)

    def alignment(self, state: EngineState | DecoderState) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step: the mean of the heads of the top layer."""
        if isinstance(state, DecoderState):
            with unmixed():
                return self.model.alignment(state)
        check_state(state, EngineState, self)
        if not state.decoding.sources:  # it looks at its own text, which is in the caches
            state.decoding.settle()
        with unmixed():
            return self.model.alignment(
                state.for_modules(self.parts.decoder.stack, [-1] if state.decoding.sources else [])
            )


class SourceStepper(PackedStepper):
    """The same of a model that reads a source first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        with torch.inference_mode(False), torch.no_grad():
            known = self.parts.reader is not None and isinstance(self.decoder, Compiled)
            self.reader = Compiled(self.parts.reader) if known else None  # type: ignore[arg-type]

    def encode(self, *inputs: Any, **named: Any) -> Any:
        """What the model's own `encode` gives. Short texts are read in one call."""
        check_traced()
        with unmixed():
            if self.reader is not None:
                return self.read(*inputs, **named)
            return self.model.encode(*inputs, **named)

    def read(self, source: Tokens, lengths: Int[Tensor, " batch"] | None = None) -> Any:
        """Read texts with one call, or with the modules if that refuses them."""
        assert self.reader is not None
        assert self.parts.encoded is not None
        check_axes("source", source, "batch length")
        if self.reader.refuses(source) is None:
            padding = as_padding(lengths, *source.shape)
            states = self.reader.read(source, padding)
            if states is not None:
                return self.parts.encoded(states, padding)
        return self.model.encode(source, lengths)

    def start(self, memory: Any) -> EngineState | DecoderState:  # type: ignore[override]
        """The state before the first token: the source's keys and values are made here, once."""
        assert self.parts.source is not None
        if not isinstance(memory, tuple):
            return self.model.start(memory)  # which says what is wrong
        check_traced()
        with unmixed():
            states, padding = self.parts.source(memory)
            if not self.takes_source(states, padding):
                return self.model.start(memory)
            padding = None if padding is None else Padding(padding.lengths.clone())  # it may be changed by who has it
            sources = self.remember(states.detach(), padding)
            return EngineState(self, self.decoder.begin(states.shape[0], sources))

    def takes_source(self, states: Tensor, padding: Padding | None) -> bool:
        """Whether this is what the decoder can look at: no source is empty, all sizes fit."""
        like, width = self.parts.decoder.words.weight, self.parts.decoder.shape.width
        if not isinstance(states, Tensor) or states.ndim != 3 or states.shape[2] != width or not states.numel():
            return False
        if (states.dtype, states.device) != (like.dtype, like.device):
            return False
        if padding is None:
            return True
        check_lengths(padding.lengths, *states.shape[:2])
        return int(padding.lengths.min()) > 0

    def remember(self, states: Float[Tensor, "batch keys width"], padding: Padding | None) -> list[Memory]:
        """What every layer remembers of the source."""
        across = self.parts.decoder.across
        if isinstance(self.decoder, Compiled):
            rooms = zip(self.decoder.remember(states), across, strict=True)
            return [Memory(keys, values, cross.score, padding) for (keys, values), cross in rooms]
        return [cross.remember(states, padding=padding) for cross in across]


def check_traced() -> None:
    """Raise a ValueError where there are no numbers to work on."""
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
