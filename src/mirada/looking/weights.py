"""Exact weights, recomputed from what was recorded, for the rows asked for."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.attention.kernels import edges as edges_kernel
from mirada.attention.kernels import reference
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Edges
from mirada.attention.normalizers import Draw, Mask, Normalized, Normalizer, Scores, Softmax, masked_softmax
from mirada.attention.scores import Dot, Product
from mirada.looking.stream import Factors
from mirada.shapes import broadcast_heads


class Replay(Normalizer):
    """The weights of a choice made before: the drawn index again, not a new draw."""

    rowwise = True

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self.draw = draw

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        chosen = self.draw.one_hot(scores.shape[-1], scores.dtype)
        return Normalized(torch.where(self.draw.soft.unsqueeze(-1), masked_softmax(scores, mask), chosen))


class Raw(Normalizer):
    """The scores themselves, those of keys that may not be seen too."""

    rowwise = True

    def normalize(self, scores: Scores, mask: Mask) -> Normalized:
        return Normalized(scores)


def raw(request: Request) -> Request:
    """The same request for the scores that its normalizer is given."""
    return replace(request, normalizer=Raw())


def factors(request: Request, draw: Draw | None) -> Factors | None:
    """What a product score multiplies, and whether a softmax of that is all there is."""
    score = request.score
    if not isinstance(score, Product) or type(score).compare is not Product.compare:
        return None
    q, k, scale = reference.widen(request.q), reference.widen(broadcast_heads(request.k, request.heads)), 1.0
    with torch.no_grad():
        if type(score) is Dot:
            scale = float(score.factor(q.shape[-1]))
        else:
            q, k = score.queries(q), score.keys(k)
    plain = type(request.normalizer) is Softmax and draw is None and not request.position.inside
    return Factors(q, k, scale, plain)


def _chunks(request: Request, draw: Draw | None, first: int, last: int) -> Iterator[tuple[int, int, Tensor]]:
    """The weights of the queries first, ..., last - 1 in bounded pieces: (first, last, weights before dropout)."""
    step = reference.chunk(request)
    k, _ = request.visible(rows_at_once=step)
    q, k = request.score.queries(reference.widen(request.q)), request.score.keys(reference.widen(k))

    def weigh(begin: int, end: int) -> Tensor:
        replayed = request if draw is None else replace(request, normalizer=Replay(draw.rows(begin, end)))
        return reference.weigh(replayed, q, k, begin, end).weights

    if reference.whole(request):
        if first < last:
            yield first, last, weigh(0, request.queries)[:, :, first:last]
        return
    for begin in range(first, last, step):
        end = min(begin + step, last)
        yield begin, end, weigh(begin, end)


def dense_weights(request: Request, draw: Draw | None, heads: slice, first: int, last: int) -> Tensor:
    """(batch, heads, queries, keys) for the heads and queries asked for."""
    pieces = [piece[:, heads] for _, _, piece in _chunks(request, draw, first, last)]
    if pieces:
        return torch.cat(pieces, dim=2)
    return request.q.new_zeros(request.batch, len(range(request.heads)[heads]), 0, request.keys)


def edge_weights(request: Request, draw: Draw | None, heads: slice, edges: Edges) -> Float[Tensor, "batch heads edges"]:
    """One weight per edge, in the order of `edges.pairs`."""
    if draw is None and request.reweigh is None and edges_kernel.EdgesKernel().refuses(request) is None:
        return edges_kernel.edge_weights(request)[:, heads]
    source, target = edges.pairs
    pieces = [request.q.new_zeros(request.batch, len(range(request.heads)[heads]), 0)]
    for first, last, piece in _chunks(request, draw, 0, request.queries):
        here = slice(int(edges.offsets[first]), int(edges.offsets[last]))
        pieces.append(piece[:, heads][:, :, target[here] - first, source[here]])
    return torch.cat(pieces, dim=-1)


def outputs(request: Request, draw: Draw | None) -> Float[Tensor, "batch heads queries value_dim"]:
    """The weights times the values, by the request's value rule: what `attend` returned, up to rounding."""
    _, v = request.visible(rows_at_once=reference.chunk(request))
    v = reference.widen(v)
    chunks = _chunks(request, draw, 0, request.queries)
    pieces = [reference.mix(request, piece, v, first, last) for first, last, piece in chunks]
    return torch.cat(pieces, dim=2) if pieces else v.new_zeros(*request.q.shape[:3], v.shape[-1])


def edges_of(request: Request) -> Edges | None:
    """The graph that holds every pair of this request, if there is one."""
    graphs = (part for part in request.where.conjuncts() if isinstance(part, Edges))
    return next((graph for graph in graphs if type(graph).sees is Edges.sees), None)
