"""The steps of recurrent decoders, which may attend to a source: one call of compiled C each, or a few products of plain PyTorch.

Unlike those of a Transformer their states are small and are never written again: one state may be continued twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import entries
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Monotonic
from mirada.attention.normalizers import Hard, Softmax
from mirada.attention.positions import LocalGaussian
from mirada.attention.scores import Additive, Bilinear, Concat, Dot, Location
from mirada.engine.compiled import (
    BFLOAT16,
    FLOAT32,
    INT8,
    PACKERS,
    PER_NUMBER,
    check_lengths,
    joined,
    padded,
    scaled_output,
    together,
)
from mirada.engine.fits import RecurrentHalf, recurrent_half
from mirada.engine.state import Index, Kept, KeptHead, Scores
from mirada.engine.stepper import EngineStepper, check_traced, unmixed
from mirada.errors import require
from mirada.layers.model import check_state, check_step
from mirada.layers.recurrent import BahdanauDecoder, Carried, LuongDecoder, RecurrentState
from mirada.native import decode
from mirada.native.library import address, serves, threads_for
from mirada.native.structures import CELLS, RecurrentStep

ONLY = KeptHead(0, True, 0)  # the one head there is
NO_ATTENTION, BEFORE, AFTER = range(3)  # when it attends, as in recurrent.c
PRODUCT, TANH, SUM, LOCATION = range(4)  # how a query and a key are compared


class RecurrentSource:
    """What all states of one decoding share: the memory that they attend to, as the model's own `start` made it."""

    def __init__(self, memory: Memory | None, hidden: int) -> None:
        self.memory = memory
        if memory is None:
            return
        # further values are unit vectors, which read hard weights: they are at hand here
        self.keys, self.values = memory.keys[:, 0].contiguous(), memory.values[:, 0, :, :hidden].contiguous()
        batch, self.length = self.keys.shape[:2]
        self.lengths = None if memory.padding is None else memory.padding.lengths.to(torch.int64, copy=True)
        if self.lengths is not None:
            check_lengths(self.lengths, batch, self.length)
        self.read: tuple[Index | None, Memory, Tensor] | None = None

    def of(self, entry: Index | None) -> tuple[Memory, Int[Tensor, " rows"]]:
        """The memory with one source for each row, and the lengths of these sources."""
        assert self.memory is not None
        if self.read is None or self.read[0] is not entry:
            lengths = self.keys.new_full((len(self.keys),), self.length, dtype=torch.int64)
            lengths = lengths if self.lengths is None else self.lengths
            memory = replace(self.memory, keys=self.keys.unsqueeze(1), values=self.values.unsqueeze(1), padding=None)
            if entry is not None:
                memory, lengths = memory.reorder(entry), lengths.index_select(0, entry)
            self.read = (entry, memory, lengths)
        return self.read[1:]


@dataclass(frozen=True, eq=False)
class RecurrentEngineState:
    """The state of a recurrent decoder between two steps of an engine."""

    owner: object
    source: RecurrentSource
    carried: Carried
    fed: Float[Tensor, "rows hidden"] | None = None
    entry: Index | None = None  # the source that each row reads; None: its own
    kept: Kept | None = None  # the weights of the last step
    filled: int = 0

    @property
    def batch(self) -> int:
        """How many sequences are decoded at once."""
        return self.carried.h.shape[1]

    def keys(self, across: bool) -> int:
        """How many places the weights of a step have."""
        return self.source.length

    def reorder(self, index: Int[Tensor, " entries"]) -> "RecurrentEngineState":
        """The state in which entry b continues from entry index[b]."""
        index = entries(index, self.carried.h[0])
        entry = index if self.entry is None else self.entry.index_select(0, index)
        if self.entry is not None and torch.equal(entry, self.entry):
            entry = self.entry  # beams of one sentence: what was prepared for this entry is still right
        fed, kept = (None if x is None else x.index_select(0, index) for x in (self.fed, self.kept))
        return replace(self, carried=self.carried.reorder(index), fed=fed, entry=entry, kept=kept)


class RecurrentResult(NamedTuple):
    """The scores of a step, what is carried on, the readout, and the weights."""

    scores: Scores
    carried: Carried
    readout: Float[Tensor, "rows hidden"]
    weights: Float[Tensor, "rows keys"] | None


def order_of(half: RecurrentHalf) -> int:
    """When a decoder attends."""
    return (
        BEFORE if isinstance(half.decoder, BahdanauDecoder) else AFTER if half.attention is not None else NO_ATTENTION
    )


class EagerRecurrent:
    """Steps in plain PyTorch, by the functions of the parts and without their modules."""

    name = "plain PyTorch"

    def __init__(self, half: RecurrentHalf) -> None:
        self.half, self.order, self.output = half, order_of(half), scaled_output(half.output)

    def step(self, tokens: Index, state: RecurrentEngineState) -> RecurrentResult | None:
        """One step; None if a token is not in the vocabulary."""
        half, decoder, weights = self.half, self.half.decoder, None
        try:
            x = F.embedding(tokens, half.words.weight) * half.words.scale
        except IndexError:
            return None
        context = x
        if isinstance(decoder, BahdanauDecoder):
            before = state.carried.h[-1]
            weights, context = self.look(before, state)
            if decoder.gate is not None:
                context = torch.sigmoid(F.linear(before, decoder.gate.weight, decoder.gate.bias)) * context
            x = torch.cat([x, context], -1)
        inputs = x if state.fed is None else torch.cat([x, state.fed], -1)
        s, carried = decoder.cell.step(inputs, state.carried)
        readout = s
        if isinstance(decoder, BahdanauDecoder):
            readout = torch.tanh(F.linear(torch.cat([s, x], -1), decoder.readout.weight, decoder.readout.bias))
        elif isinstance(decoder, LuongDecoder):
            weights, context = self.look(s, state)
            readout = torch.tanh(F.linear(torch.cat([context, s], -1), decoder.combine.weight, decoder.combine.bias))
        return RecurrentResult(F.linear(readout, *self.output), carried, readout, weights)

    def look(self, s: Tensor, state: RecurrentEngineState) -> tuple[Tensor, Tensor]:
        """The weights of a state over its source, and their context. Raw views in a hot path."""
        attention = self.half.attention
        assert attention is not None
        memory, lengths = state.source.of(state.entry)
        places, query, lengths = (
            torch.arange(memory.length, device=s.device),
            s.view(len(s), 1, 1, -1),
            lengths.view(-1, 1),
        )
        seen, factor = places < lengths, None
        if isinstance(attention.where, Monotonic):
            center = torch.minimum(lengths - 1, torch.tensor(state.filled, device=s.device))
            seen = seen & ((places - center).abs() <= attention.where.half)
        if isinstance(attention.position, LocalGaussian):
            position = attention.position
            predicted = lengths * torch.sigmoid(torch.tanh(s @ position.weight.T) @ position.v).unsqueeze(1)
            seen = seen & ((places - predicted.floor()).abs() <= position.reach)
            factor = torch.exp(-2 * ((places - predicted) / position.reach) ** 2)
        scores = memory.score.compare(memory.score.queries(query), memory.keys)
        weights = attention.normalizer.normalize(scores, seen[:, None, None]).weights
        weights = weights[:, 0, 0] if factor is None else weights[:, 0, 0] * factor
        return weights, torch.bmm(weights.unsqueeze(1), memory.values[:, 0])[:, 0]


class PreparedQuery(NamedTuple):
    """How a state becomes a query and is compared with a key: the matrix of the query, what multiplies a tanh, and the scale."""

    compared: int
    matrix: tuple[Tensor, Tensor] | None = None
    v: Tensor | None = None
    scale: float = 1.0


def query_of(score: nn.Module, hidden: int) -> PreparedQuery | None:
    """The query of a score, as C computes it; None if it does not."""
    match score:
        case Dot():
            return PreparedQuery(PRODUCT, scale=float(score.factor(hidden)))
        case Bilinear():
            return PreparedQuery(PRODUCT, scale=float(Dot(scale=score.scale).factor(hidden)))
        case Additive():
            return PreparedQuery(TANH, (score.query[0].detach(), score.bias[0, 0].detach()), score.v[0].detach())
        case Concat():
            weight = score.weight[0, :, :hidden].detach().contiguous()
            v = None if score.v is None else score.v[0].detach()
            return PreparedQuery(SUM if v is None else TANH, (weight, weight.new_zeros(len(weight))), v)
        case Location():
            weight = score.weight.detach()
            return PreparedQuery(LOCATION, (weight, weight.new_zeros(len(weight))))
    return None


def compiles(half: RecurrentHalf) -> bool:
    """Whether C has this decoder's score and normalizer."""
    attention = half.attention
    if attention is None:
        return True
    known = type(attention.normalizer) is Softmax or isinstance(attention.normalizer, Hard)
    return known and query_of(attention.score, half.decoder.cell.hidden) is not None


class CompiledRecurrent:
    """Steps of one call each, with packed weights that all decodings share."""

    name = "compiled"

    def __init__(self, half: RecurrentHalf, precision: str = FLOAT32) -> None:
        self.half, cell, attention = half, half.decoder.cell, half.attention
        position = None if attention is None else attention.position
        query = None if attention is None else query_of(attention.score, cell.hidden)
        self.query = query or PreparedQuery(PRODUCT)
        matrix = PACKERS[precision]
        self.stack = self._packed(matrix, position)
        self.scores, self.words = together([matrix(*scaled_output(half.output))]), half.words.weight.detach()
        gate, window = getattr(half.decoder, "gate", None), getattr(getattr(attention, "where", None), "half", -1)
        longest = 2 * cell.hidden + self.words.shape[1]
        self.blank = RecurrentStep(  # a job that knows the weights: every step has a copy
            width=self.words.shape[1], hidden=cell.hidden, depth=cell.depth, cell=CELLS.index(cell.cell),
            order=order_of(half), compared=self.query.compared,
            asked=0 if self.query.matrix is None else len(self.query.matrix[1]),
            feeding=getattr(half.decoder, "feeding", False), gated=gate is not None,
            predicted=isinstance(position, LocalGaussian), hard=attention is not None and attention.normalizer.chooses,
            half=position.reach if isinstance(position, LocalGaussian) else window,
            vocab=len(self.words), enlarged=half.words.scale, scale=self.query.scale,
            weights=self.stack.data_ptr(), v=address(self.query.v), words=self.words.data_ptr(),
            scores=self.scores.data_ptr(), bytes_each=decode.byte_room(longest) if precision == INT8 else 0,
            halved=precision == BFLOAT16, work=PER_NUMBER[precision] * (len(self.stack) + len(self.scores)),
        )  # fmt: skip
        sizes = (longest, 2 * cell.hidden, cell.hidden, cell.hidden, self.blank.asked)
        gates = len(cell.bias[0])
        self.per_row = sum(map(padded, sizes)) - padded(2 * cell.hidden) + 2 * padded(gates)

    def _packed(self, matrix: Any, position: Any) -> Tensor:
        """The weights of a step in the order in which it uses them."""
        decoder, pieces = self.half.decoder, [] if self.query.matrix is None else [matrix(*self.query.matrix)]
        if isinstance(position, LocalGaussian):
            weight, v = position.weight.detach(), position.v.detach()
            pieces += [matrix(weight, weight.new_zeros(len(weight))), _vector(v)]
        if isinstance(decoder, BahdanauDecoder) and decoder.gate is not None:
            pieces += [_vector(each.detach()) for each in (decoder.gate.weight[0], decoder.gate.bias)]
        for read, carry, bias in zip(decoder.cell.read, decoder.cell.carry, decoder.cell.bias, strict=True):
            pieces += [matrix(read.detach(), bias.detach()), matrix(carry.detach(), torch.zeros_like(bias))]
        if isinstance(decoder, BahdanauDecoder):
            pieces.append(matrix(*joined(decoder.readout)))
        if isinstance(decoder, LuongDecoder):
            pieces.append(matrix(*joined(decoder.combine)))
        return together(pieces)

    def step(self, tokens: Index, state: RecurrentEngineState) -> RecurrentResult | None:
        """One step; None if a token is not in the vocabulary."""
        job, words, source, tokens = (
            RecurrentStep.from_buffer_copy(self.blank),
            self.words,
            state.source,
            tokens.contiguous(),
        )
        rows, hidden = len(tokens), job.hidden
        h, c = (part.contiguous() for part in state.carried)
        new = words.new_empty(2, *h.shape)
        readout, logits, weights = words.new_empty(rows, hidden), words.new_empty(rows, job.vocab), None
        job.rows = job.all = rows
        job.threads = threads = threads_for(rows * job.work)
        job.time, job.tokens, job.h, job.c = state.filled, tokens.data_ptr(), h.data_ptr(), c.data_ptr()
        job.next_h, job.next_c, job.readout, job.output = (
            new[0].data_ptr(),
            new[1].data_ptr(),
            readout.data_ptr(),
            logits.data_ptr(),
        )
        fed, entry = None if state.fed is None else state.fed.contiguous(), state.entry
        job.fed, job.entry = address(fed), address(entry)
        if job.order != NO_ATTENTION:
            weights = words.new_empty(rows, source.length)
            job.keys, job.values, job.lengths = (
                source.keys.data_ptr(),
                source.values.data_ptr(),
                address(source.lengths),
            )
            job.source_count, job.source_length, job.key_dim = source.keys.shape
            job.key_row, job.key_place, _ = source.keys.stride()
            job.value_row, job.value_place, _ = source.values.stride()
            job.kept = weights.data_ptr()
        scratch = words.new_empty(rows * self.per_row + threads * padded(job.key_dim))
        job.scratch, job.own = scratch.data_ptr(), scratch.data_ptr() + 4 * rows * self.per_row
        phases = torch.empty(threads * 8 * decode.recurrent_phases(job.depth), dtype=torch.int64)
        room = torch.empty(threads * job.bytes_each, dtype=torch.uint8)
        job.phases, job.bytes = phases.data_ptr(), room.data_ptr() if job.bytes_each else None
        if not decode.recurrent_step(job):
            return None
        return RecurrentResult(
            logits, Carried(new[0], new[1 if job.cell == CELLS.index("lstm") else 0]), readout, weights
        )


def _vector(x: Tensor) -> Tensor:
    """A vector with room for whole panels."""
    return F.pad(x, (0, padded(len(x)) - len(x)))


class RecurrentStepper(EngineStepper):
    """The steps of a model with a recurrent decoder, with its own copy of the weights."""

    def __init__(self, model: nn.Module, precision: str = FLOAT32) -> None:
        super().__init__(model, precision)
        with torch.inference_mode(False), torch.no_grad():
            half = recurrent_half(self.model)
            assert half is not None
            self.half = half
            able = serves(half.words.weight) and compiles(half)
            self.decoder = CompiledRecurrent(half, precision) if able else EagerRecurrent(half)

    @property
    def top(self) -> tuple[KeptHead, ...]:
        return () if self.half.attention is None else (ONLY,)

    def place_of(self, layer: nn.Module) -> tuple[int, bool] | None:
        return ONLY[:2] if layer is self.half.attention else None

    def encode(self, *inputs: Any, **named: Any) -> Any:
        """The result of the model's own `encode`."""
        check_traced()
        with unmixed():
            return self.model.encode(*inputs, **named)

    def start(self, memory: Any, heads: Sequence[KeptHead] | None = None) -> RecurrentEngineState:
        check_traced()
        with unmixed(), torch.no_grad():
            first: RecurrentState = self.model.start(memory)
            score = getattr(self.half.attention, "score", None)
            if isinstance(score, Location) and first.memory is not None:
                score.check(first.carried.h[-1:, :, None].transpose(0, 1), first.memory.keys)
            return RecurrentEngineState(
                self, RecurrentSource(first.memory, self.half.decoder.cell.hidden), first.carried, first.fed
            )

    def step(
        self, tokens: Int[Tensor, " batch"], state: RecurrentEngineState
    ) -> tuple[Float[Tensor, "batch vocab"], RecurrentEngineState]:
        check_state(state, RecurrentEngineState, self)
        check_traced()
        check_step(tokens, state.batch)
        with unmixed(), torch.no_grad():
            result = self.decoder.step(tokens.long(), state)
            if result is None:
                self.half.words(tokens)  # which raises an error that names the tokens
            assert result is not None
        kept = None if result.weights is None else result.weights.unsqueeze(1)
        fed = None if state.fed is None else result.readout
        after = replace(state, carried=result.carried, fed=fed, kept=kept, filled=state.filled + 1)
        return result.scores, after

    def reorder(self, state: RecurrentEngineState, index: Int[Tensor, " entries"]) -> RecurrentEngineState:
        """The state in which entry b continues from entry index[b]."""
        return state.reorder(index)

    def alignment(self, state: RecurrentEngineState) -> Float[Tensor, "batch keys"]:
        """Where the model looked in the last step."""
        check_state(state, RecurrentEngineState, self)
        require(self.half.attention is not None, "a decoder without attention has no alignment")
        require(state.kept is not None, "there is no alignment before the first step")
        assert state.kept is not None
        return state.kept[:, 0]
