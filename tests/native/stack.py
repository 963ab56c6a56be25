"""A random stack of Transformer layers, as arguments of decode.c and as a formula in float64."""

import ctypes
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mirada.engine.compiled import BFLOAT16, INT8, PACKERS
from mirada.layers.feedforward import ACTIVATIONS
from mirada.native import decode
from mirada.native.decode import panel
from mirada.native.library import address, addresses
from mirada.native.structures import DecodeStep

EPS = 1e-5
MOST = 9  # places that are rotated, and distances of a bias


def padded(n: int) -> int:
    return n + -n % panel()


def packed(weight: Tensor, bias: Tensor) -> Tensor:
    """A matrix in panels of columns, and its bias behind it."""
    room = -len(weight) % panel()
    panels = F.pad(weight, (0, 0, 0, room)).view(-1, panel(), weight.shape[1]).transpose(1, 2)
    return torch.cat([panels.flatten(), F.pad(bias, (0, room))])


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    dim: int
    hidden: int
    depth: int = 2
    activation: str = "relu"
    rms: bool = False
    post: bool = False
    cross: bool = False
    vocab: int = 0  # 0: the stack's own outputs
    times: int = 1  # heads of queries for a head of keys and values
    gated: bool = False
    normed: bool = False  # queries and keys
    turned: int = 0  # coordinates that are rotated
    interleaved: bool = False
    window: int = -1  # of every second layer
    biased: bool = False  # by distance

    @property
    def groups(self) -> int:
        return self.heads // self.times


class Stack:
    """Weights, and the job that knows them."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self.shape, self.random = shape, torch.Generator().manual_seed(seed)
        inner, width = shape.heads * shape.dim, shape.width
        matrices = [(inner + 2 * shape.groups * shape.dim, width), (width, inner)]
        matrices += [(inner, width), (width, inner)] if shape.cross else []
        matrices += [((2 if shape.gated else 1) * shape.hidden, width), (width, shape.hidden)]
        self.norms = [(self.draw(width), self.draw(width)) for _ in range(shape.depth * len(matrices) // 2 + 1)]
        self.matrices = [(self.draw(*size), self.draw(size[0])) for _ in range(shape.depth) for size in matrices]
        self.output = (self.draw(shape.vocab, width), self.draw(shape.vocab)) if shape.vocab else None
        self.inner = [(self.draw(shape.dim), self.draw(shape.dim)) for _ in range(shape.depth if shape.normed else 0)]
        self.turns, self.biases = self.draw(MOST, shape.turned), self.draw(shape.heads, MOST)
        self.windows = torch.tensor([shape.window if layer % 2 else -1 for layer in range(shape.depth)])
        pieces, kinds = [], len(matrices) // 2
        for place, norm in enumerate(self.norms[:-1]):
            own = self.inner[place // kinds] if shape.normed and place % kinds == 0 else ()
            pieces += [self.norm_of(norm), *(self.norm_of((each, torch.zeros_like(each))) for each in own)]
            pieces += [packed(*matrix) for matrix in self.matrices[2 * place : 2 * place + 2]]
        self.weights = torch.cat([*pieces, self.norm_of(self.norms[-1])])
        self.scores = None if self.output is None else packed(*self.output)

    def draw(self, *size: int) -> Tensor:
        return 0.4 * torch.randn(size, generator=self.random)

    def norm_of(self, norm: tuple[Tensor, Tensor]) -> Tensor:
        small = torch.zeros(panel())
        small[0], small[1] = EPS, 1 / math.sqrt(self.shape.dim)
        shift = torch.zeros_like(norm[1]) if self.shape.rms else norm[1]
        room = padded(len(norm[0])) - len(norm[0])
        return torch.cat([small, F.pad(norm[0], (0, room)), F.pad(shift, (0, room))])

    def job(self, rows: int, places: int, threads: int, **more: int | None) -> tuple[DecodeStep, list[Tensor]]:
        """The arguments of C, and the memory that must outlive them; its first tensor is the output."""
        shape, inner = self.shape, self.shape.heads * self.shape.dim
        hidden = shape.hidden * (2 if shape.gated else 1)
        per_row = sum(map(padded, (shape.width, shape.width, inner + 2 * shape.groups * shape.dim, inner, hidden)))
        kept = [
            torch.empty(rows, shape.vocab or shape.width),
            torch.empty(rows * per_row),
            torch.empty(threads * 4 * padded(places)),
            torch.empty(threads * 8 * decode.phases(shape.depth), dtype=torch.int64),
        ]
        output, scratch, own, phases = (x.data_ptr() for x in kept)
        job = DecodeStep(
            width=shape.width, heads=shape.heads, dim=shape.dim, hidden=shape.hidden, depth=shape.depth,
            activation=decode.ACTIVATIONS.index(shape.activation), rms=shape.rms, post=shape.post, cross=shape.cross,
            groups=shape.groups, gated=shape.gated, normed=shape.normed, turned=shape.turned, interleaved=shape.interleaved,
            last_norm=1, rows=rows, all=rows, threads=threads, places=padded(places), vocab=shape.vocab,
            work=len(self.weights), weights=self.weights.data_ptr(), scores=address(self.scores), output=output,
            scratch=scratch, own=own, phases=phases, **more,
        )  # fmt: skip
        return job, kept

    # The formula

    def normalized(self, x: Tensor, place: int) -> Tensor:
        weight, bias = (part.double() for part in self.norms[place])
        if self.shape.rms:
            return F.rms_norm(x, x.shape[-1:], weight, EPS)
        return F.layer_norm(x, x.shape[-1:], weight, bias, EPS)

    def linear(self, x: Tensor, place: int) -> Tensor:
        weight, bias = (part.double() for part in self.matrices[place])
        return F.linear(x, weight, bias)

    def prepared(self, q: Tensor, k: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Queries and keys of self-attention, normalized and rotated."""
        if self.inner:
            q, k = (
                F.rms_norm(x.unflatten(-1, (-1, self.shape.dim)), (self.shape.dim,), weight.double(), EPS).flatten(-2)
                for x, weight in zip((q, k), self.inner[layer], strict=True)
            )
        return (self.rotated(q), self.rotated(k)) if self.shape.turned else (q, k)

    def rotated(self, x: Tensor) -> Tensor:
        """Pair m of place p: (a, b) to (a c - b s, b c + a s) with the numbers c and s of that place."""
        x, size = x.unflatten(-1, (-1, self.shape.dim)).clone(), self.shape.turned
        cos, sin = self.turns[: x.shape[1], None].double().chunk(2, -1)
        step = (
            (slice(0, size, 2), slice(1, size, 2))
            if self.shape.interleaved
            else (slice(size // 2), slice(size // 2, size))
        )
        a, b = x[..., step[0]], x[..., step[1]]
        x[..., step[0]], x[..., step[1]] = a * cos - b * sin, b * cos + a * sin
        return x.flatten(-2)

    def attended(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, seen: list[Tensor], layer: int | None = None
    ) -> Tensor:
        """(batch, queries, inner) over (batch, keys, inner); the weights of all heads are added to `seen`."""
        if layer is not None:
            q, k = self.prepared(q, k, layer)
            if (window := int(self.windows[layer])) >= 0:
                mask = mask & torch.ones_like(mask).triu(-window)
        q, k, v = (x.unflatten(-1, (-1, self.shape.dim)).transpose(1, 2) for x in (q, k, v))
        k, v = (x.repeat_interleave(self.shape.heads // x.shape[1], 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.shape.dim)
        if self.shape.biased and layer is not None:
            back = (torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])).clamp(min=0)
            scores = scores + self.biases.double()[:, back]
        scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
        seen.append(scores.softmax(-1))
        return (seen[-1] @ v).transpose(1, 2).flatten(2)

    def formula(
        self, x: Tensor, own: Tensor, sources: list[tuple[Tensor, Tensor]], across: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """The outputs at all places of x, (batch, places, width), and all weights; `own` and `across` say who sees whom."""
        x, kinds, place = x.double(), 3 if self.shape.cross else 2, 0
        seen: list[Tensor] = []
        for layer in range(self.shape.depth):
            for kind in range(kinds):
                h = x if self.shape.post else self.normalized(x, place)
                first = self.linear(h, 2 * place)
                if kind == kinds - 1 and self.shape.gated:
                    a, b = first.chunk(2, -1)
                    made = ACTIVATIONS[self.shape.activation](a) * b
                elif kind == kinds - 1:
                    made = ACTIVATIONS[self.shape.activation](first)
                elif kind == 0:
                    sizes = [
                        heads * self.shape.dim for heads in (self.shape.heads, self.shape.groups, self.shape.groups)
                    ]
                    made = self.attended(*first.split(sizes, -1), own, seen, layer)
                else:
                    keys, values = (part.double() for part in sources[layer])
                    made = self.attended(first, keys, values, across, seen)
                x = x + self.linear(made, 2 * place + 1)
                x = self.normalized(x, place) if self.shape.post else x
                place += 1
        x = self.normalized(x, place)
        return (x if self.output is None else F.linear(x, *(part.double() for part in self.output))), seen


def decoded(
    stack: Stack, rows: int, steps: int, threads: int, source_length: int = 7, at_once: bool = False
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The outputs of some steps over random inputs, (rows, steps, ...), and the weights of all heads, (rows, steps, heads of all
    attentions, places): C's, and the formula's. `at_once` takes all steps as rows of one.
    """
    shape, now = stack.shape, rows * (steps if at_once else 1)  # rows of a call
    x = stack.draw(rows, steps, shape.width)
    caches = [torch.empty(rows, shape.groups, steps, shape.dim) for _ in range(2 * shape.depth)]
    own = shape.groups * shape.dim
    sources = [(stack.draw(rows, source_length, own), stack.draw(rows, source_length, own)) for _ in range(shape.depth)]
    lengths = torch.randint(1, source_length + 1, (rows,), generator=stack.random)
    read = [part for pair in sources for part in pair]
    where, from_where = addresses(caches), addresses(read)
    turns, biases = addresses([stack.turns] * shape.depth), addresses([stack.biases] * shape.depth)
    kinds, room = 2 if shape.cross else 1, max(steps, source_length)
    slot = torch.full((shape.depth, 2, shape.heads), -1)
    slot[:, :kinds] = torch.arange(shape.depth * kinds * shape.heads).view(shape.depth, kinds, shape.heads)
    weights = torch.full((now, shape.depth * kinds * shape.heads, room), math.nan)
    homes, fills = torch.arange(rows).repeat_interleave(steps), torch.arange(steps).repeat(rows)
    job, kept = stack.job(
        now, max(steps, source_length), threads, cache_row=own * steps, cache_head=steps * shape.dim,
        caches=ctypes.addressof(where), sources=ctypes.addressof(from_where), source_row=source_length * own,
        source_head=shape.dim, source_place=own, source_length=source_length, source_count=rows,
        lengths=lengths.data_ptr(), slot=slot.data_ptr(), slots=weights.shape[1], room=room, kept=weights.data_ptr(),
        turns=ctypes.addressof(turns) if shape.turned else None, windows=stack.windows.data_ptr(), distances=MOST,
        biases=ctypes.addressof(biases) if shape.biased else None,
    )  # fmt: skip
    found = []
    if at_once:
        job.cache_rows, job.together, job.filled, job.input = rows, 1, steps - 1, x.data_ptr()
        job.fills, job.homes, job.entry = fills.data_ptr(), homes.data_ptr(), homes.data_ptr()
        assert decode.step(job)
        found = list(zip(*(each.unflatten(0, (rows, steps)).unbind(1) for each in (kept[0], weights)), strict=True))
    for time in range(0 if at_once else steps):
        step = x[:, time].contiguous()
        job.filled, job.input = time, step.data_ptr()
        assert decode.step(job)
        found.append((kept[0].clone(), weights.clone()))
    causal = torch.ones(steps, steps, dtype=torch.bool).tril().expand(rows, -1, -1)
    across = (torch.arange(source_length) < lengths.view(-1, 1, 1)).expand(-1, steps, -1)
    outputs, seen = stack.formula(x, causal, sources, across)
    seen = [F.pad(each, (0, room - each.shape[3])) for each in seen]
    all_heads = torch.cat(seen, 1).transpose(1, 2)
    return tuple(torch.stack(each, 1).double() for each in zip(*found, strict=True)), (outputs, all_heads)  # type: ignore[return-value]


def read(stack: Stack, batch: int, length: int, threads: int) -> tuple[Tensor, Tensor]:
    """The outputs of one pass over whole sources: C's, and the formula's."""
    x = stack.draw(batch, length, stack.shape.width)
    lengths = torch.randint(1, length + 1, (batch,), generator=stack.random)
    job, kept = stack.job(
        batch * length, length, threads, length=length, lengths=lengths.data_ptr(), input=x.data_ptr()
    )
    assert decode.step(job)
    mask = (torch.arange(length) < lengths.view(-1, 1, 1)).expand(-1, length, -1)
    return kept[0].view(batch, length, -1).double(), stack.formula(x, mask, [], None)[0]


def rounded_product(x: Tensor, weight: Tensor, bias: Tensor, threads: int = 1, precision: str = INT8) -> Tensor:
    """x W^T + b by a step of no layers whose output layer is a matrix of bytes, or of another precision."""
    (rows, inner), out = x.shape, len(weight)
    padded = -(-inner // decode.panel()) * decode.panel()
    scores, output = PACKERS[precision](weight, bias), torch.full((rows, out), math.nan)
    scratch, own = torch.empty(rows * 20 * padded), torch.empty(threads * 4 * decode.panel())
    phases = torch.empty(threads * 8 * decode.phases(0), dtype=torch.int64)
    room = torch.empty(threads * decode.byte_room(inner), dtype=torch.uint8)
    job = DecodeStep(
        width=inner, heads=1, groups=1, dim=1, hidden=1, rows=rows, all=rows, threads=threads, places=decode.panel(),
        cache_row=20, cache_head=20, work=1, vocab=out, bytes_each=decode.byte_room(inner), scores=scores.data_ptr(),
        input=x.data_ptr(), output=output.data_ptr(), scratch=scratch.data_ptr(), own=own.data_ptr(),
        phases=phases.data_ptr(), halved=precision == BFLOAT16,
        bytes=room.data_ptr() if precision == INT8 else None, weights=scratch.data_ptr(),
    )  # fmt: skip
    assert decode.step(job)
    return output
