"""A step as one call of compiled C: float32 on a CPU."""

import ctypes
import operator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.attention.cache import Cache
from mirada.attention.memory import Memory
from mirada.layers.norm import LayerNorm, Norm
from mirada.layers.quick.ends import Ends
from mirada.layers.quick.kept import kept
from mirada.layers.quick.library import addresses, library
from mirada.layers.quick.parts import Part, joined, parts_of, shape_of

Rows = Float[Tensor, "rows width"]
Index = Int[Tensor, " rows"]
Writers = Int[Tensor, "places rows"]
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")  # in the order in which step.c numbers them
WORTH_A_THREAD = 2**19  # multiplications that outweigh sharing them


def numbers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_int64) for name in names]


def pointers(*names: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_void_p) for name in names]


class Step(ctypes.Structure):
    """What `step` in step.c is told."""

    _fields_ = (
        numbers("width", "heads", "dim", "hidden", "depth", "activation", "rms", "post", "cross", "last_norm")
        + numbers("rows", "threads", "places", "cache_row", "cache_head", "source_row", "source_head", "source_place")
        + numbers("filled", "written", "source_length", "vocab")
        + [("enlarged", ctypes.c_float)]
        + pointers("weights", "caches", "sources", "writers", "entry", "lengths", "tokens")
        + pointers("input", "words", "position", "scores", "output", "asked", "scratch", "phases")
    )


class Compiled:
    """One call per step. The weights are kept in the order in which a step reads them, as long as the model has them."""

    lazy = True

    def __init__(
        self, layers: nn.ModuleList, norm: Norm | None, sources: list[Memory], ends: Ends | None = None
    ) -> None:
        self.shape = shape = shape_of(layers[0])  # type: ignore[arg-type]
        parts = [part for layer in layers for part in parts_of(layer)]  # type: ignore[arg-type]
        norms = [part.norm for part in parts] + ([norm] if norm is not None else [])
        linears = [linear for part in parts for linear in (*part.first, part.last)]
        beside = (shape, tuple(part.scale for part in parts), tuple(norm.eps for norm in norms))
        self.weights: Tensor = kept(layers, parameters_of([*norms, *linears]), beside, lambda: laid_out(parts, norm))
        self.job = Step(
            width=shape.width, heads=shape.heads, dim=shape.dim, hidden=shape.hidden, depth=len(layers),
            activation=ACTIVATIONS.index(shape.activation), rms=shape.rms, post=shape.post, cross=shape.cross,
            last_norm=norm is not None, weights=self.weights.data_ptr(),
        )  # fmt: skip
        self.steps = self.weights.numel()
        self.bound: tuple[int, list[Tensor]] = (0, [])  # the threads and caches that the job knows
        self.read(sources)
        self.ends = ends
        if ends is not None:
            self.open(ends)

    def step(self, x: Rows, caches: list[Cache], entry: Index | None, writers: Writers | None) -> tuple[Rows, Rows]:
        x, made = x.contiguous(), x.new_empty(2, *x.shape)
        self.job.tokens, self.job.input = None, x.data_ptr()
        self.go(caches, entry, writers, made[0], made[1])
        return made[0], made[1]

    def say(
        self, tokens: Index, caches: list[Cache], entry: Index | None, writers: Writers | None
    ) -> tuple[Float[Tensor, "rows vocab"], Rows] | None:
        assert self.ends is not None
        tokens, row = tokens.contiguous(), self.ends.position(caches[0].filled)
        logits = self.weights.new_empty(tokens.shape[0], self.job.vocab)
        asked = self.weights.new_empty(tokens.shape[0], self.job.width)
        self.job.tokens, self.job.position = tokens.data_ptr(), address(row)
        return (logits, asked) if self.go(caches, entry, writers, logits, asked) else None

    def go(
        self, caches: list[Cache], entry: Index | None, writers: Writers | None, output: Tensor, asked: Tensor
    ) -> bool:
        """Take a step; False if a token is not in the vocabulary."""
        job, rows = self.job, asked.shape[0]
        threads = max(1, min(torch.get_num_threads(), rows * self.steps // WORTH_A_THREAD))
        rooms = [room for cache in caches for room in (cache.keys, cache.values)]
        if self.bound[0] != threads or any(map(operator.is_not, rooms, self.bound[1])) or not self.bound[1]:
            self.bind(threads, caches)
        writers = None if writers is None else writers.contiguous()
        job.filled, job.written = caches[0].filled, 0 if writers is None else writers.shape[0]
        job.writers, job.entry = address(writers), address(entry)
        job.output, job.asked = output.data_ptr(), asked.data_ptr()
        return library().step(ctypes.byref(job)) == 0  # type: ignore[union-attr]

    def open(self, ends: Ends) -> None:
        """Tell the job where the words are, and the scores' matrix."""
        job, words, output = self.job, ends.words, ends.output
        bias = output.weight.new_zeros(len(output.weight)) if output.bias is None else output.bias
        self.scores = kept(output, parameters_of([output]), (), lambda: packed(output.weight.detach(), bias.detach()))
        self.table = words.weight.detach().contiguous()
        job.vocab, job.enlarged = len(self.table), words.scale
        job.words, job.scores = self.table.data_ptr(), self.scores.data_ptr()
        self.steps += self.scores.numel()

    def bind(self, threads: int, caches: list[Cache]) -> None:
        """Tell the job where the caches are, and give it room to work in."""
        job, shape, loaded = self.job, self.shape, library()
        assert loaded is not None
        for cache in caches:
            cache.keys, cache.values = cache.keys.contiguous(), cache.values.contiguous()
        rows, heads, length, dim = caches[0].keys.shape
        rooms = [room for cache in caches for room in (cache.keys, cache.values)]
        self.bound, self.rooms = (threads, rooms), addresses(rooms)
        panel = loaded.panel()
        places = padded(max(length, job.source_length), panel)
        inner = heads * dim
        per_row = sum(padded(n, panel) for n in (shape.width, shape.width, 3 * inner, inner, shape.hidden))
        self.scratch = torch.empty(rows * per_row + threads * 3 * places)
        self.phases = torch.empty(8 * loaded.phases(ctypes.c_int64(job.depth)), dtype=torch.int64)
        job.rows, job.threads, job.places = rows, threads, places
        job.cache_row, job.cache_head = heads * length * dim, length * dim
        job.caches, job.scratch, job.phases = ctypes.addressof(self.rooms), self.scratch.data_ptr(), self.phases.data_ptr()

    def read(self, sources: list[Memory]) -> None:
        """Tell the job where the sources are."""
        if not sources:
            return
        tensors = [kept.detach() for memory in sources for kept in (memory.keys, memory.values)]
        if len({(kept.shape, kept.stride()) for kept in tensors}) != 1 or tensors[0].stride(3) != 1:
            tensors = [kept.contiguous() for kept in tensors]
        job, self.sources, self.lengths = self.job, tensors, None
        job.source_length = tensors[0].shape[2]
        job.source_row, job.source_head, job.source_place, _ = tensors[0].stride()
        self.source_addresses = addresses(tensors)
        job.sources = ctypes.addressof(self.source_addresses)
        if sources[0].padding is not None:
            self.lengths = sources[0].padding.lengths.long().expand(sources[0].batch).contiguous()
            job.lengths = self.lengths.data_ptr()


def parameters_of(modules: list[nn.Module]) -> list[Tensor]:
    """The parameters of modules that have no others inside."""
    return [parameter for module in modules for parameter in module._parameters.values() if parameter is not None]


def laid_out(parts: list[Part], last: Norm | None) -> Float[Tensor, " numbers"]:
    """All weights in the order of a step: before the two matrices of each part, its norm."""
    pieces = []
    for part in parts:
        pieces += [beside(part.norm, part.scale), packed(*joined(part.first)), packed(*joined((part.last,)))]
    return torch.cat(pieces if last is None else [*pieces, beside(last, 1.0)])


def beside(norm: Norm, scale: float) -> Float[Tensor, " numbers"]:
    """A norm's weights, after its eps and the scale of the attention behind it."""
    panel = library().panel()  # type: ignore[union-attr]
    shift = norm.bias.detach() if isinstance(norm, LayerNorm) else torch.zeros(norm.width)
    small = torch.zeros(panel)
    small[0], small[1] = norm.eps, scale
    room = padded(norm.width, panel) - norm.width
    return torch.cat([small, F.pad(norm.weight.detach(), (0, room)), F.pad(shift, (0, room))])


def packed(weight: Float[Tensor, "out inner"], bias: Float[Tensor, " out"]) -> Float[Tensor, " numbers"]:
    """A matrix in panels of columns, and its bias behind it."""
    panel = library().panel()  # type: ignore[union-attr]
    room = padded(len(weight), panel) - len(weight)
    panels = F.pad(weight, (0, 0, 0, room)).view(-1, panel, weight.shape[1]).transpose(1, 2)
    return torch.cat([panels.flatten(), F.pad(bias, (0, room))])


def padded(n: int, panel: int) -> int:
    """As many as fill whole panels.

    >>> padded(9, panel=4)
    12
    """
    return -(-n // panel) * panel


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()

