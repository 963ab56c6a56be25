"""A step, or a pass over short sources, as one call of compiled C: float32 on a CPU."""

import ctypes
import operator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache
from mirada.attention.memory import Memory
from mirada.layers.norm import Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.kept import kept
from mirada.layers.quick.library import address, addresses, loaded, threads_for
from mirada.layers.quick.panels import pack, padded
from mirada.layers.quick.record import Record
from mirada.native.decode import ACTIVATIONS, DecodeStep

Rows = Float[Tensor, "rows width"]
Index = Int[Tensor, " rows"]
Writers = Int[Tensor, "places rows"]
Room = Float[Tensor, "batch heads keys dim"]


class Stack:
    """The packed weights of a stack and of its ends, and a job that knows them."""

    def __init__(self, record: Record, layers: nn.ModuleList, norm: Norm | None, ends: Ends | None) -> None:
        assert record.shape is not None
        self.shape = shape = record.shape
        self.ends = None if record.mute else ends
        output = None if self.ends is None else self.ends.output
        self.packed = kept(layers, record, lambda: pack(record.parts, norm, layers, output))
        self.job = DecodeStep(
            width=shape.width, heads=shape.heads, dim=shape.dim, hidden=shape.hidden, depth=len(layers),
            activation=ACTIVATIONS.index(shape.activation), rms=shape.rms, post=shape.post, cross=shape.cross,
            last_norm=norm is not None, weights=self.packed.stack.data_ptr(),
            work=sum(len(numbers) for numbers in (self.packed.stack, self.packed.scores) if numbers is not None),
        )  # fmt: skip
        if self.ends is not None:
            words = self.ends.words
            self.table = words.weight.detach().contiguous()
            self.job.vocab, self.job.enlarged, self.job.words = len(self.table), words.scale, self.table.data_ptr()

    def make_room(self, rows: int, threads: int, places: int) -> None:
        """Give the job memory to work in."""
        job, shape, inner = self.job, self.shape, self.shape.heads * self.shape.dim
        per_row = sum(map(padded, (shape.width, shape.width, 3 * inner, inner, shape.hidden)))
        job.rows, job.all, job.threads, job.places = rows, rows, threads, padded(places)
        self.scratch, self.own = (self.packed.stack.new_empty(n) for n in (rows * per_row, threads * 3 * job.places))
        self.phases = self.scratch.new_empty(threads * 8 * loaded().phases(job.depth), dtype=torch.int64)
        job.scratch, job.own, job.phases = self.scratch.data_ptr(), self.own.data_ptr(), self.phases.data_ptr()


class Compiled(Stack):
    """Steps, one call each."""

    lazy = True

    def __init__(self, record: Record, layers: nn.ModuleList, norm: Norm | None, ends: Ends | None) -> None:
        super().__init__(record, layers, norm, ends)
        self.bound: tuple[int, list[Tensor]] = (0, [])  # the threads and caches that the job knows
        self.positions: Float[Tensor, "places width"] | None = None

    def step(self, x: Rows, caches: list[Cache], entry: Index | None, writers: Writers | None) -> tuple[Rows, Rows]:
        x, made = x.contiguous(), x.new_empty(2, *x.shape)
        self.job.tokens, self.job.scores, self.job.input = None, None, x.data_ptr()
        self.go(caches, entry, writers, made[0], made[1])
        return made[0], made[1]

    def say(
        self, tokens: Index, caches: list[Cache], entry: Index | None, writers: Writers | None
    ) -> tuple[Float[Tensor, "rows vocab"], Rows] | None:
        job, tokens = self.job, tokens.contiguous()
        logits = self.table.new_empty(tokens.shape[0], job.vocab)
        asked = self.table.new_empty(tokens.shape[0], job.width)
        job.tokens, job.scores = tokens.data_ptr(), address(self.packed.scores)
        job.position = self.position(caches[0].filled)
        return (logits, asked) if self.go(caches, entry, writers, logits, asked) else None

    def position(self, place: int) -> int | None:
        """Where the vector of a position lies; a number, because a view of it would take longer."""
        if self.positions is None or place >= self.positions.shape[0]:
            assert self.ends is not None
            self.positions = self.ends.positions(place)
        return None if self.positions is None else self.positions.data_ptr() + 4 * self.job.width * place

    def go(
        self, caches: list[Cache], entry: Index | None, writers: Writers | None, output: Tensor, asked: Tensor
    ) -> bool:
        """Take a step; False if a token is not in the vocabulary."""
        job = self.job
        threads = threads_for(asked.shape[0] * job.work)
        rooms = [room for cache in caches for room in (cache.keys, cache.values)]
        if self.bound[0] != threads or any(map(operator.is_not, rooms, self.bound[1])):
            self.bind(threads, caches)
        writers = None if writers is None else writers.contiguous()
        job.filled, job.written = caches[0].filled, 0 if writers is None else writers.shape[0]
        job.writers, job.entry = address(writers), address(entry)
        job.output, job.asked = output.data_ptr(), asked.data_ptr()
        return loaded().step(ctypes.byref(job)) == 0

    def bind(self, threads: int, caches: list[Cache]) -> None:
        """Tell the job where the caches are."""
        for cache in caches:
            cache.keys, cache.values = cache.keys.contiguous(), cache.values.contiguous()
        rooms = [room for cache in caches for room in (cache.keys, cache.values)]
        self.bound, self.rooms = (threads, rooms), addresses(rooms)
        rows, heads, length, dim = rooms[0].shape
        self.make_room(rows, threads, max(length, self.job.source_length))
        self.job.cache_row, self.job.cache_head = heads * length * dim, length * dim
        self.job.caches = ctypes.addressof(self.rooms)

    def rooms_for(self, batch: int, length: int) -> list[Cache]:
        """Caches of all layers. What is not written yet is never read, so it is not cleared."""
        job = self.job
        with torch.inference_mode(False):  # room made in inference mode could not be written outside it
            rooms = self.packed.stack.new_empty(job.depth, 2, batch, job.heads, length, job.dim)
            return [Cache(*room.unbind(0)) for room in rooms.unbind(0)]

    def remember(self, memory: Float[Tensor, "batch keys width"]) -> list[tuple[Room, Room]]:
        """Keys and values of a memory, for every layer: both from one product."""
        job, memory, (batch, length, width) = self.job, memory.contiguous(), memory.shape
        made = memory.new_empty(job.depth, batch, length, 2, job.heads, job.dim)
        columns, threads = made[0, 0, 0].numel(), threads_for(batch * length * self.packed.sources[0].shape[0])
        for matrix, room in zip(self.packed.sources, made, strict=True):
            sizes = (batch * length, width, columns, threads)
            loaded().product(*sizes, matrix.data_ptr(), memory.data_ptr(), room.data_ptr())
        keys, values = made.permute(3, 0, 1, 4, 2, 5).unbind(0)  # (layers, batch, heads, length, dim) each
        return list(zip(keys.unbind(0), values.unbind(0), strict=True))

    def read(self, sources: list[Memory]) -> None:
        """Tell the job where the sources are."""
        tensors = [room.detach() for memory in sources for room in (memory.keys, memory.values)]
        if len({(room.shape, room.stride()) for room in tensors}) != 1 or tensors[0].stride(3) != 1:
            tensors = [room.contiguous() for room in tensors]
        job, padding = self.job, sources[0].padding
        self.sources, self.places = tensors, addresses(tensors)
        job.sources, job.source_length = ctypes.addressof(self.places), tensors[0].shape[2]
        job.source_row, job.source_head, job.source_place, _ = tensors[0].stride()
        if padding is not None:
            self.lengths = padding.lengths.long().expand(sources[0].batch).contiguous()
            job.lengths = self.lengths.data_ptr()
