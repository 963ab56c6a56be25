"""Softmaxes with one more term below the line: a further key of value 0, with which faster kernels compute them."""

from dataclasses import replace

import torch
import torch.nn.functional as F

from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Documents,
    Global,
    Intersection,
    Neighborhood,
    Padding,
    Prefix,
    Union,
)
from mirada.attention.normalizers import Sinks, Softmax, SoftmaxPlusOne
from mirada.attention.places import place
from mirada.attention.scores import Dot, Product


class SinkKernel(Kernel):
    """`SoftmaxPlusOne` and `Sinks` as a plain softmax with a further key, by the first of some kernels that takes that.

    The key stands before all others, and a query that sees only it before all queries, so that causal stays causal. A last
    number in every query (1) and key (0; the sink's score in its own) makes the score, and brings back its gradient.
    """

    name = "sinks"

    def __init__(self, *inner: Kernel) -> None:
        self.inner = inner

    def refuses(self, request: Request) -> str | None:
        if type(request.normalizer) not in (SoftmaxPlusOne, Sinks):
            return "the softmax has no further term"
        if type(request.score).compare is not Product.compare:
            return f"{type(request.score).__name__} is not a product q'.k'"
        if request.position.inside:
            return f"{type(request.position).__name__} acts inside the softmax or on the values"
        if torch.compiler.is_exporting():
            return "it goes by sizes, which an exported program does not know"
        if 0 in (*request.q.shape, *request.v.shape):
            return "nothing to fuse in an empty input"
        longer = _with_sink(request)
        reasons = [kernel.refuses(longer) for kernel in self.inner]
        return None if None in reasons else reasons[-1]

    def run(self, request: Request) -> KernelOutput:
        longer = _with_sink(request)
        kernel = next(kernel for kernel in self.inner if kernel.refuses(longer) is None)
        return KernelOutput(kernel.run(longer).output[:, :, 1:])


def _with_sink(request: Request) -> Request:
    """The request with a plain softmax, a further key before all others and a query for it."""
    normalizer = request.normalizer
    assert isinstance(normalizer, SoftmaxPlusOne)
    k, v = request.visible()
    q, k = request.score.queries(request.q), request.score.keys(k)
    first = F.pad(normalizer.sink(k).expand(len(k), k.shape[1], 1, 1), (k.shape[-1], 0))
    q, k = F.pad(F.pad(q, (0, 1), value=1.0), (0, 0, 1, 0)), torch.cat([first, F.pad(k, (0, 1))], dim=2)
    queries, keys = request.queries + 1, request.keys + 1
    places = place(request.batch, queries, keys, q.device, start=0)
    return replace(
        request, q=q, k=k, v=F.pad(v, (0, 0, 1, 0)), score=Dot(1.0), where=_longer(request), normalizer=Softmax(), places=places
    )  # fmt: skip


def _longer(request: Request) -> Neighborhood:
    """The neighborhood with the further key, which everybody sees."""
    plain = request.places.counted and request.places.start == 0
    if request.kinds == {Complete} or (plain and request.kinds == {Causal}):
        return request.where
    moved = _moved(request.where) if plain and request.queries == request.keys else None
    if moved is not None:
        return moved | Global(1)
    mask = request.mask().expand(-1, -1, request.queries, request.keys)
    return Dense(F.pad(F.pad(mask, (1, 0), value=True), (0, 0, 1, 0)))


def _moved(where: Neighborhood) -> Neighborhood | None:
    """The same set of places that are one further on, which may see anything at place 0; None where that is not known."""
    if where.homogeneous:
        return where
    if type(where) is Padding:
        return where._with(lengths=where.lengths + 1, longest=where.longest + 1)
    if type(where) is Documents and where.key_ids is None:
        ids = where.ids.long()
        return Documents(torch.cat([ids.amin(1, keepdim=True) - 1, ids], dim=1))
    if type(where) is Global:
        return Global(tuple(place + 1 for run in where.runs for place in range(*run)))
    if type(where) is Prefix:
        return Prefix(where.places + 1)
    if isinstance(where, Intersection | Union):
        parts = [_moved(part) for part in where.parts]
        known = tuple(part for part in parts if part is not None)
        return type(where)(known) if len(known) == len(parts) else None
    return None
