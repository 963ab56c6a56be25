"""A step, or a pass over short sources, as one call of compiled C on a CPU.

C receives sizes that were checked: of weights by `fits.py`, of tokens, entries and lengths where they are passed in. The
memory that it reads belongs to the engine or to the decoding, so that nobody else can change it.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mirada.attention.cache import Cache, writable
from mirada.attention.heads import HeadNorm
from mirada.attention.memory import Memory
from mirada.attention.neighborhoods import Padding
from mirada.attention.positions import Position, Rotary
from mirada.engine.fits import FIRST, Half, LayerTables, PositionTable, joined, near_of, sublayers_of, window_of
from mirada.engine.prompts import Prompts
from mirada.engine.state import Decoding, Index, Kept, KeptHead, Rows, Scores
from mirada.layers import stack
from mirada.layers.block import DecoderLayer, EncoderLayer
from mirada.layers.norm import LayerNorm, Norm
from mirada.layers.output import Output
from mirada.native import decode
from mirada.native.library import address, addresses, threads_for

# Weights in the form in which `decode.c` reads them: float32, in panels of columns.


Numbers = Float[Tensor, " _"]
FLOAT32, BFLOAT16, INT8 = "float32", "bfloat16", "int8"  # what a matrix is made of


class Packed(NamedTuple):
    """The weights of a half as C reads them, without its embedding and positions."""

    stack: Numbers
    sources: list[Numbers]  # keys and values of each layer that looks at a source
    scores: Numbers | None


def pack(half: Half, precision: str = FLOAT32) -> Packed:
    """The packed weights of a stack, of the norm after it and of the output."""
    matrix = PACKERS[precision]
    # in the order of a step: that of the words, then before the two matrices of each sublayer, its norm
    pieces = [] if half.place.norm is None else [norm_weights(half.place.norm, 1.0)]
    for layer in half.layers:
        for norm, scale, first, last, inner in sublayers_of(layer):
            pieces += [norm_weights(norm, scale), *(norm_weights(each, 1.0) for each in inner)]
            pieces += [matrix(*joined(*first)), matrix(*joined(last))]
    if half.stack.norm is not None:
        pieces.append(norm_weights(half.stack.norm, 1.0))
    return Packed(
        together(pieces),
        [panels(*joined(cross.heads.key, cross.heads.value)) for cross in half.across],  # type: ignore[arg-type]
        None if half.output is None else together([matrix(*scaled_output(half.output))]),
    )


def together(pieces: list[Numbers]) -> Numbers:
    """All numbers in one tensor, in large pages of memory where the system has them."""
    room = pieces[0].new_empty(sum(len(piece) for piece in pieces))
    decode.enlarge(room)
    return torch.cat(pieces, out=room)


def scaled_output(output: Output) -> tuple[Tensor, Tensor]:
    """Weight and bias of the output layer; what it multiplies its input by is multiplied into the weight."""
    weight, bias = joined(output)
    return (weight if output.scale == 1.0 else weight * output.scale), bias


def norm_weights(norm: Norm | HeadNorm, scale: float) -> Numbers:
    """A norm's eps, the scale of the attention after it, then its weights."""
    weight = norm.weight.detach()
    bias = norm.bias if isinstance(norm, LayerNorm) else None
    shift = torch.zeros_like(weight) if bias is None else bias.detach()
    small = weight.new_zeros(decode.panel())
    small[0], small[1] = norm.eps, scale
    room = padded(len(weight)) - len(weight)
    return torch.cat([small, F.pad(weight, (0, room)), F.pad(shift, (0, room))])


def panels(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix in panels of columns, followed by its bias."""
    room = padded(len(weight)) - len(weight)
    columns = F.pad(weight, (0, 0, 0, room)).view(-1, decode.panel(), weight.shape[1]).transpose(1, 2)
    return torch.cat([columns.flatten(), F.pad(bias, (0, room))])


def byte_panels(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix as bytes in panels of columns, each column rounded by a scale of its own: a byte is round(w / scale).

    After the bytes, which stand in fours of one column, every column has 128 times their sum, its scale and its bias.
    """
    out, inner = weight.shape
    room = padded(out) - out
    scales = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    rounded = F.pad((weight / scales[:, None]).round().to(torch.int8), (0, -inner % 4, 0, room))
    columns = rounded.view(-1, decode.panel(), rounded.shape[1] // 4, 4).transpose(1, 2).contiguous()
    shifts = (128 * rounded.sum(1, dtype=torch.int32)).view(torch.float32)
    return torch.cat([columns.view(torch.float32).flatten(), shifts, F.pad(scales, (0, room)), F.pad(bias, (0, room))])


def half_panels(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Numbers:
    """A matrix in bfloat16 in panels of columns, followed by its bias in float32.

    The word at j has column j of the panel in its lower half, and the column half a panel further on in its upper half.
    """
    room, each = padded(len(weight)) - len(weight), decode.panel()
    columns = F.pad(weight, (0, 0, 0, room)).bfloat16().view(-1, 2, each // 2, weight.shape[1]).permute(0, 3, 2, 1)
    return torch.cat([columns.contiguous().view(torch.int16).flatten().view(torch.float32), F.pad(bias, (0, room))])


PER_NUMBER = {FLOAT32: 1, BFLOAT16: 2, INT8: 4}  # weights in 32 bits
PACKERS = {FLOAT32: panels, BFLOAT16: half_panels, INT8: byte_panels}


def padded(n: int) -> int:
    """The number rounded up to whole panels."""
    return -(-n // decode.panel()) * decode.panel()


LONGEST = 128  # places of a source; a fused kernel reads longer ones as quickly
AT_ONCE = 192  # rows of a prompt in one call: a matrix that is read once serves all of them


class Buffers:
    """The work buffers of C for one decoding or one pass."""

    def __init__(self, job: decode.DecodeStep, rows: int, threads: int, places: int) -> None:
        inner, columns = job.heads * job.dim, (job.heads + 2 * job.groups) * job.dim
        hidden = 2 * job.hidden if job.gated else job.hidden
        per_row = sum(map(padded, (job.width, job.width, columns, inner, hidden)))
        job.rows, job.all, job.threads, job.places = rows, rows, threads, padded(places)
        self.scratch, self.own = (
            torch.empty(n, dtype=torch.float32, device="cpu") for n in (rows * per_row, threads * 4 * job.places)
        )
        self.phases = torch.empty(threads * 8 * decode.phases(job.depth), dtype=torch.int64, device="cpu")
        self.bytes = torch.empty(threads * job.bytes_each, dtype=torch.uint8, device="cpu")
        job.bytes = self.bytes.data_ptr() if job.bytes_each else None
        job.scratch, job.own, job.phases = self.scratch.data_ptr(), self.own.data_ptr(), self.phases.data_ptr()


class Compiled:
    """The packed weights of a half, shared by all decodings and never written, and the last prompts that it read."""

    name = "compiled"

    def __init__(self, half: Half, precision: str = FLOAT32) -> None:
        self.half, shape = half, half.shape
        self.packed, self.positions = pack(half, precision), PositionTable(half)
        self.tables = LayerTables.of(half, FIRST)
        self.near = [near_of(layer) for layer in half.layers]
        self.relatives = addresses_or_none([vectors for near in self.near for vectors in near.vectors])
        self.clips = torch.tensor([near.clip for near in self.near])
        some = any(near.clip >= 0 for near in self.near)
        longest = max(shape.width, shape.heads * shape.dim, shape.hidden)
        self.words, self.prompts = half.words.weight.detach(), Prompts()
        self.blank = decode.DecodeStep(  # a job that knows the weights: every decoding and pass has a copy
            width=shape.width, heads=shape.heads, dim=shape.dim, hidden=shape.hidden, depth=len(half.stack.layers),
            activation=decode.ACTIVATIONS.index(shape.activation), rms=shape.rms, post=shape.post, cross=shape.cross,
            first_norm=half.place.norm is not None, last_norm=half.stack.norm is not None,
            groups=shape.groups, gated=shape.gated, normed=shape.normed, weights=self.packed.stack.data_ptr(),
            scores=address(self.packed.scores), vocab=len(self.words), enlarged=half.words.scale,
            words=self.words.data_ptr(), clips=self.clips.data_ptr(),
            relatives=ctypes.addressof(self.relatives) if some else None,
            bytes_each=decode.byte_room(longest) if precision == INT8 else 0,
            halved=precision == BFLOAT16, work=PER_NUMBER[precision]
            * sum(len(numbers) for numbers in (self.packed.stack, self.packed.scores) if numbers is not None),
        )  # fmt: skip

    def tables_up_to(self, place: int) -> LayerTables:
        """What depends on places, for this one too. To grow, the tables are replaced: other threads may read them meanwhile."""
        if self.tables.places <= place:
            self.tables = LayerTables.of(self.half, 2 * place)
        return self.tables

    def refuses(self, tokens: Int[Tensor, "batch length"]) -> str | None:
        """Why these tokens cannot be read in one call; None if they can."""
        if tokens.dtype != torch.int64 or tokens.device.type != "cpu" or not tokens.numel():
            return f"it reads int64 tokens on a CPU: got {tuple(tokens.shape)} {tokens.dtype} on {tokens.device}"
        if tokens.shape[1] > LONGEST:
            return f"it reads up to {LONGEST} places: got {tokens.shape[1]}"
        if not self.positions.reaches(tokens.shape[1] - 1):
            return f"there is no position {tokens.shape[1] - 1}"
        return None

    def read(
        self, tokens: Int[Tensor, "batch length"], padding: Padding | None
    ) -> Float[Tensor, "batch length width"] | None:
        """The encoder's states of tokens that it does not refuse; None if a token is not in the vocabulary."""
        job, tokens = decode.DecodeStep.from_buffer_copy(self.blank), tokens.contiguous()
        batch, length = tokens.shape
        positions = self.positions.up_to(length - 1)
        lengths = None if padding is None else padding.lengths.to(torch.int64, copy=True)
        if lengths is not None:
            check_lengths(lengths, batch, length)
        states = self.words.new_empty(batch, length, job.width)
        buffers = Buffers(job, batch * length, threads_for(batch * length * job.work), length)
        job.length, job.tokens, job.position = length, tokens.data_ptr(), address(positions)
        job.lengths, job.output = address(lengths), states.data_ptr()
        done = decode.step(job)
        del buffers  # C has used them until here
        return states if done else None

    def remember(self, states: Float[Tensor, "batch keys width"], padding: Padding | None) -> list[Memory]:
        """Keys and values of a source, for every layer: both from one product."""
        job, (batch, length, width) = self.blank, states.shape
        projected = states.new_empty(job.depth, batch, length, 2, job.groups, job.dim)
        rows, columns = states.reshape(batch * length, width), 2 * job.groups * job.dim
        for matrix, room in zip(self.packed.sources, projected, strict=True):
            decode.product(rows, matrix, columns, out=room.view(len(rows), columns))
        keys, values = projected.permute(3, 0, 1, 4, 2, 5).unbind(0)  # (layers, batch, heads, length, dim) each
        return [Memory(k, v, cross.score, padding) for k, v, cross in zip(keys, values, self.half.across, strict=True)]

    def score(self, states: Rows) -> Scores:
        """The scores of the next tokens after the stack's own outputs: a step through no layers."""
        job, states = decode.DecodeStep.from_buffer_copy(self.blank), states.contiguous()
        rows, scores = len(states), states.new_empty(len(states), job.vocab)
        job.depth = job.cross = job.first_norm = job.last_norm = 0
        buffers = Buffers(job, rows, threads_for(rows * job.work), 1)
        job.cache_head, job.input, job.output = job.dim, states.data_ptr(), scores.data_ptr()
        decode.step(job)
        del buffers  # C has used them until here
        return scores

    def begin(self, batch: int, sources: list[Memory], heads: Sequence[KeptHead]) -> "CompiledDecoding":
        """A decoding of that many rows, over these sources if there are any. Entries that were not written are never read."""
        job = self.blank
        with torch.inference_mode(False):  # a tensor made in inference mode could not be written outside it
            rooms = self.words.new_empty(job.depth, 2, batch, job.groups, stack.ROOM, job.dim)
            caches = [Cache(*room.unbind(0)) for room in rooms.unbind(0)]
        return CompiledDecoding(self, caches, sources, heads)


class CompiledDecoding(Decoding):
    """Steps of a decoding, one call each. A reorder copies nothing: `writers` holds the row where each place was written."""

    def __init__(
        self, compiled: Compiled, caches: list[Cache], sources: list[Memory], heads: Sequence[KeptHead]
    ) -> None:
        super().__init__(caches, sources, heads)
        self.compiled, self.job = compiled, decode.DecodeStep.from_buffer_copy(compiled.blank)
        self.writers: Int[Tensor, "places rows"] | None = None
        self.bound = 0  # the threads that its buffers and addresses are for; 0: it has none
        self.slots = torch.full((self.job.depth, 2, self.job.heads), -1)
        for slot, (layer, across, head) in enumerate(self.heads):
            self.slots[layer, int(across), head] = slot
        self.job.slots, self.job.slot = len(self.heads), self.slots.data_ptr()
        self.windows = torch.tensor([window_of(layer) for layer in compiled.half.layers])
        self.job.windows = self.windows.data_ptr() if int(self.windows.max()) >= 0 else None
        self.tables: LayerTables | None = None
        if sources:
            tensors = [room for memory in sources for room in (memory.keys, memory.values)]
            assert len({(room.shape, room.stride()) for room in tensors}) == 1
            assert tensors[0].stride(3) == 1
            job, padding = self.job, sources[0].padding
            self.places = addresses(tensors)
            job.sources, job.source_count = ctypes.addressof(self.places), tensors[0].shape[0]
            job.source_length = tensors[0].shape[2]
            job.source_row, job.source_head, job.source_place, _ = tensors[0].stride()
            if padding is not None:
                self.lengths = padding.lengths.to(torch.int64, copy=True)
                check_lengths(self.lengths, *tensors[0].shape[::2])
                job.lengths = self.lengths.data_ptr()

    def step(self, tokens: Index, entry: Index | None) -> tuple[Scores, Rows, Kept] | None:
        job, compiled, words, writers = self.job, self.compiled, self.compiled.words, self.writers
        rows, tokens = tokens.shape[0], tokens.contiguous()
        threads = threads_for(rows * job.work)
        if self.bound != threads:
            self.bind(threads)
        logits, asked = words.new_empty(rows, job.vocab), words.new_empty(rows, job.width)
        if self.tables is None or self.tables.places <= self.caches[0].filled:
            self.use(compiled.tables_up_to(self.caches[0].filled))
        job.room = self.room
        kept = words.new_empty(rows, job.slots, job.room)
        job.kept = address(kept) if job.slots else None
        place = job.filled = self.caches[0].filled
        job.written = 0 if writers is None else writers.shape[0]
        job.writers, job.entry, job.tokens = address(writers), address(entry), tokens.data_ptr()
        positions = self.compiled.positions.up_to(place)
        # a number, because a view of the row would take longer
        job.position = None if positions is None else positions.data_ptr() + 4 * job.width * place
        job.output, job.asked = logits.data_ptr(), asked.data_ptr()
        return (logits, asked, kept) if decode.step(job) else None

    def prompt(self, tokens: Int[Tensor, "rows length"], entry: Index | None) -> tuple[Scores, Rows, Kept] | None:
        """The same as `step` for several tokens of every row, for the last of them. The bits are those of single steps."""
        self.settle()
        (rows, length), filled, words = tokens.shape, self.caches[0].filled, self.compiled.words
        many = max(1, AT_ONCE // rows)
        threads = threads_for(rows * min(many, length) * self.job.work)
        self.bind(threads)
        if self.tables is None or self.tables.places < filled + length:
            self.use(self.compiled.tables_up_to(filled + length - 1))
        entries = torch.arange(rows) if entry is None else entry
        alone = rows == 1 and not filled and not self.sources
        known = self.compiled.prompts.recall(tokens[0], self.caches) if alone else 0
        for first in range(known, length, many):
            part = tokens[:, first : first + many]
            job, places = decode.DecodeStep.from_buffer_copy(self.job), part.shape[1]
            buffers = Buffers(job, rows * places, threads, job.places)
            homes = torch.arange(rows).repeat_interleave(places)
            fills = torch.arange(filled + first, filled + first + places).repeat(rows)
            sources, part = entries[homes], part.contiguous()
            states, asked = words.new_empty(2, rows, places, job.width).unbind()
            last = first + places == length
            job.room = max(filled + length, self.room)
            kept = words.new_empty(rows, places if last else 0, job.slots, job.room)
            job.kept = address(kept) if job.slots and last else None
            job.cache_rows, job.together, job.written, job.writers = rows, 1, 0, None
            job.filled, job.fills, job.homes = filled + first + places - 1, fills.data_ptr(), homes.data_ptr()
            job.entry = sources.data_ptr() if self.sources else None
            job.tokens, job.position = part.data_ptr(), address(self.compiled.positions.up_to(job.filled))
            job.scores, job.output, job.asked = None, states.data_ptr(), asked.data_ptr()
            if not decode.step(job):
                return None
            del buffers  # C has used them until here
        if alone:
            self.compiled.prompts.keep(tokens[0], self.caches)
        return self.compiled.score(states[:, -1]), asked[:, -1], kept[:, -1]

    def use(self, tables: LayerTables) -> None:
        """Write the addresses of what depends on places into the job, and keep it."""
        self.tables, job = tables, self.job
        rotating = [
            position for position in map(position_of, self.compiled.half.layers) if isinstance(position, Rotary)
        ]
        if rotating:
            job.turned, job.interleaved = rotating[0].rates.dim, rotating[0].layout == "interleaved"
            self.turns = addresses_or_none(tables.turns)
            job.turns = ctypes.addressof(self.turns)
        if any(bias is not None for bias in tables.biases):
            self.biases, job.distances = addresses_or_none(tables.biases), tables.places
            job.biases = ctypes.addressof(self.biases)

    def bind(self, threads: int) -> None:
        """Write the addresses of the caches and of new buffers into the job."""
        rooms = [room for cache in self.caches for room in (cache.keys, cache.values)]
        rows, heads, length, dim = rooms[0].shape
        assert {room.shape for room in rooms} == {rooms[0].shape}
        assert all(room.is_contiguous() for room in rooms)
        self.rooms = addresses(rooms)
        self.buffers = Buffers(self.job, rows, threads, max(length, self.job.source_length))
        self.job.cache_row, self.job.cache_head = heads * length * dim, length * dim
        self.job.caches, self.bound = ctypes.addressof(self.rooms), threads

    def reserve(self, length: int) -> bool:
        moved = super().reserve(length)
        if moved:
            self.bound = 0
        return moved

    def move(self, index: Index) -> None:
        filled = self.caches[0].filled
        if index.shape[0] == self.caches[0].keys.shape[0] and filled:
            new = filled - (0 if self.writers is None else self.writers.shape[0])
            own = index.expand(new, -1)  # places written since the last reorder are in their own row
            before = [] if self.writers is None else [self.writers.index_select(1, index)]
            self.writers = torch.cat([*before, own])
            return
        self.settle()
        super().move(index)

    def settle(self) -> None:
        self.bound = 0  # the next user of the caches may enlarge them
        if self.writers is None:
            return
        writers, self.writers = self.writers.T, None
        places = torch.arange(writers.shape[1])
        with writable():
            for cache in self.caches:
                for room in (cache.keys, cache.values):
                    room[:, :, : len(places)] = room.transpose(1, 2)[writers, places].transpose(1, 2)


def position_of(layer: EncoderLayer | DecoderLayer) -> Position:
    """The position of a layer's self-attention."""
    return layer.self_attention.position  # type: ignore[no-any-return]


def addresses_or_none(tensors: Sequence[Tensor | None]) -> "ctypes.Array[ctypes.c_void_p]":
    """The addresses of tensors, for C; 0 for none."""
    return (ctypes.c_void_p * len(tensors))(*(address(tensor) for tensor in tensors))


def check_lengths(lengths: Int[Tensor, " batch"], batch: int, length: int) -> None:
    """Require one length per source, within the source: C does not check lengths."""
    low, high = (int(bound) for bound in lengths.aminmax()) if len(lengths) else (0, 0)
    if lengths.shape != (batch,) or low < 0 or high > length:
        raise ValueError(
            f"lengths must be one per source, in 0..{length}: got {low} to {high} for {len(lengths)} of {batch} sources. "
            "Were they changed since the sources were read?"
        )
