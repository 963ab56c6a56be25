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
from mirada.layers.quick.panels import laid_out, packed, padded, parameters_of
from mirada.layers.quick.parts import parts_of, shape_of

Rows = Float[Tensor, "rows width"]
Index = Int[Tensor, " rows"]
Writers = Int[Tensor, "places rows"]
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")  # in the order in which step.c numbers them


def numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_int64) for name in names]


def pointers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_void_p) for name in names]


class Job(ctypes.Structure):
    """What `step` in step.c is told: its `Step`, field by field."""

    _fields_ = (
        numbers("width", "heads", "dim", "hidden", "depth", "activation", "rms", "post", "cross", "last_norm", "length")
        + numbers("rows", "threads", "places", "cache_row", "cache_head", "source_row", "source_head", "source_place")
        + numbers("filled", "written", "source_length", "vocab")
        + [("enlarged", ctypes.c_float)]
        + pointers("weights", "caches", "sources", "writers", "entry", "lengths", "tokens")
        + pointers("input", "words", "position", "scores", "output", "asked", "scratch", "phases")
    )


class Stack:
    """The weights of a stack, kept in the order in which they are read as long as the model has them, and a job for them."""

    def __init__(self, layers: nn.ModuleList, norm: Norm | None) -> None:
        self.shape = shape = shape_of(layers[0])  # type: ignore[arg-type]
        parts = [part for layer in layers for part in parts_of(layer)]  # type: ignore[arg-type]
        norms = [part.norm for part in parts] + ([norm] if norm is not None else [])
        linears = [linear for part in parts for linear in (*part.first, part.last)]
        beside = (shape, tuple(part.scale for part in parts), tuple(norm.eps for norm in norms))
        self.weights: Tensor = kept(layers, parameters_of([*norms, *linears]), beside, lambda: laid_out(parts, norm))
        self.job = Job(
            width=shape.width, heads=shape.heads, dim=shape.dim, hidden=shape.hidden, depth=len(layers),
            activation=ACTIVATIONS.index(shape.activation), rms=shape.rms, post=shape.post, cross=shape.cross,
            last_norm=norm is not None, weights=self.weights.data_ptr(),
        )  # fmt: skip

    def make_room(self, rows: int, threads: int, places: int) -> None:
        """Give the job memory to work in."""
        job, shape, inner = self.job, self.shape, self.shape.heads * self.shape.dim
        per_row = sum(map(padded, (shape.width, shape.width, 3 * inner, inner, shape.hidden)))
        job.rows, job.threads, job.places = rows, threads, padded(places)
        self.scratch = torch.empty(rows * per_row + threads * 3 * job.places)
        self.phases = torch.empty(8 * loaded().phases(job.depth), dtype=torch.int64)
        job.scratch, job.phases = self.scratch.data_ptr(), self.phases.data_ptr()


class Compiled(Stack):
    """Steps, one call each."""

    lazy = True

    def __init__(
        self, layers: nn.ModuleList, norm: Norm | None, sources: list[Memory], ends: Ends | None = None
    ) -> None:
        super().__init__(layers, norm)
        self.ends, self.work = ends, self.weights.numel()
        self.bound: tuple[int, list[Tensor]] = (0, [])  # the threads and caches that the job knows
        if sources:
            self.read(sources)
        if ends is not None:
            self.open(ends)

    def step(self, x: Rows, caches: list[Cache], entry: Index | None, writers: Writers | None) -> tuple[Rows, Rows]:
        x, made = x.contiguous(), x.new_empty(2, *x.shape)
        self.job.tokens, self.job.scores, self.job.input = None, None, x.data_ptr()
        self.go(caches, entry, writers, made[0], made[1])
        return made[0], made[1]

    def say(
        self, tokens: Index, caches: list[Cache], entry: Index | None, writers: Writers | None
    ) -> tuple[Float[Tensor, "rows vocab"], Rows] | None:
        assert self.ends is not None
        job, tokens, row = self.job, tokens.contiguous(), self.ends.positions(caches[0].filled, 1)
        logits = self.weights.new_empty(tokens.shape[0], job.vocab)
        asked = self.weights.new_empty(tokens.shape[0], job.width)
        job.tokens, job.scores, job.position = tokens.data_ptr(), self.scores.data_ptr(), address(row)
        return (logits, asked) if self.go(caches, entry, writers, logits, asked) else None

    def go(
        self, caches: list[Cache], entry: Index | None, writers: Writers | None, output: Tensor, asked: Tensor
    ) -> bool:
        """Take a step; False if a token is not in the vocabulary."""
        job, threads = self.job, threads_for(asked.shape[0] * self.work)
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

    def open(self, ends: Ends) -> None:
        """Tell the job where the words are, and keep the output's matrix for it."""
        job, weight, bias = self.job, ends.output.weight.detach(), ends.output.bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias.detach()
        self.scores = kept(ends.output, parameters_of([ends.output]), (), lambda: packed(weight, bias))
        self.table = ends.words.weight.detach().contiguous()
        job.vocab, job.enlarged, job.words = len(self.table), ends.words.scale, self.table.data_ptr()
        self.work += self.scores.numel()
