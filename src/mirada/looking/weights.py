"""Exact weights, recomputed from what was recorded, for the rows asked for."""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.attention.kernels import edges as edges_kernel
from mirada.attention.kernels import reference
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Edges
from mirada.attention.normalizers import Draw, Mask, Normalized, Normalizer, Scores, Softmax, masked_softmax
from mirada.attention.scores import Dot, Product
from mirada.looking.statistics import WeightTile
from mirada.looking.stream import Factors
from mirada.shapes import broadcast_heads

TILE = 2**21  # numbers of a tile, which caches hold; 64 rows of 8 heads x 4,096 keys
LEAST_ROWS = 32  # of a tile of very many keys: every tile reads all of them
MOST_NUMBERS = 2**25  # of such a tile


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
    if (
        not isinstance(score, Product)
        or type(score).compare is not Product.compare
        or request.weighed_pairs is not None
    ):
        return None
    q, k, scale = reference.widen(request.q), reference.widen(broadcast_heads(request.k, request.heads)), 1.0
    with torch.no_grad():
        if type(score) is Dot:
            scale = float(score.factor(q.shape[-1]))
        else:
            q, k = score.queries(q), score.keys(k)
    plain = type(request.normalizer) is Softmax and draw is None and not request.position.inside
    return Factors(q, k, scale, plain)


def tiles(request: Request, draw: Draw | None, heads: slice, first: int, last: int) -> Iterator[WeightTile]:
    """The weights of the queries first, ..., last - 1 in pieces of bounded size, (batch, heads, rows, keys), before dropout.

    Where scores are products and the normalizer is a softmax, a tile has only the heads asked for and the keys that its rows
    can see.
    """
    if reference.whole(request):
        if first < last:
            weights = _weigh(request, draw, 0, request.queries)
            yield WeightTile(first, weights[:, heads, first:last], start=request.places.start)
        return
    separable = _separable(request, draw)
    step = _rows_at_once(request, heads) if separable else reference.chunk(request)
    k, _ = request.visible(rows_at_once=step)
    q, k = request.score.queries(reference.widen(request.q)), request.score.keys(reference.widen(k))
    if separable:
        q, k = q[:, heads], k[:, heads]
    for begin in range(first, last, step):
        end = min(begin + step, last)
        if separable:
            keys = _span(request, begin, end)
            weights = _softmax(request, q[:, :, begin:end], k[:, :, keys], begin, keys, heads)
            yield WeightTile(begin, weights, keys.start, request.places.start)
        else:
            weights = _weigh(request, draw, begin, end, q, k)
            yield WeightTile(begin, weights[:, heads], start=request.places.start)


def _weigh(
    request: Request, draw: Draw | None, begin: int, end: int, q: Tensor | None = None, k: Tensor | None = None
) -> Tensor:
    """The weights of some queries as the reference kernel computes them, with the choices that were drawn."""
    if q is None or k is None:
        k, _ = request.visible()
        q, k = request.score.queries(reference.widen(request.q)), request.score.keys(reference.widen(k))
    replayed = request if draw is None else replace(request, normalizer=Replay(draw.rows(begin, end)))
    return reference.weigh(replayed, q, k, begin, end).weights


def _separable(request: Request, draw: Draw | None) -> bool:
    """Whether the weights of a head and of the keys that a row can see need nothing of the other heads and keys."""
    score = request.score
    product = isinstance(score, Product) and type(score).compare is Product.compare and request.weighed_pairs is None
    plain = type(request.normalizer) is Softmax and request.reweigh is None and draw is None
    return product and plain and not request.position.inside


def _rows_at_once(request: Request, heads: slice) -> int:
    """How many queries a tile has: few enough for the caches, but enough for products that pay, within bounded memory."""
    per_row = max(1, request.batch * len(range(request.heads)[heads]) * request.keys)
    return max(1, TILE // per_row, min(LEAST_ROWS, MOST_NUMBERS // per_row))


def _span(request: Request, begin: int, end: int) -> slice:
    """The keys that the queries begin, ..., end - 1 can see, as far as their neighborhood says."""
    left, right = request.where.band if request.places.counted else (math.inf, math.inf)
    start, keys = request.places.start, request.keys
    first = 0 if left == math.inf else min(max(0, start + begin - int(left)), keys)
    return slice(first, keys if right == math.inf else max(first, min(keys, start + end + int(right))))


def _softmax(request: Request, q: Tensor, k: Tensor, begin: int, keys: slice, heads: slice) -> Tensor:
    """What the reference kernel computes for a softmax of products, in place, for some keys and heads."""
    places = request.full_places.rows(begin, begin + q.shape[2]).columns(keys.start, keys.stop)
    scores = reference.widen(request.score.compare(q, k))
    scores = scores.to(torch.promote_types(scores.dtype, reference.widen(request.v[:0]).dtype))
    bias, mask = request.position.bias(q, places), _of(request.where.sees(places), heads)
    if bias is not None:
        scores = scores + _of(bias, heads)
    if bool(mask.all()):
        return scores.softmax(-1)
    scores = scores.masked_fill_(~mask, -torch.inf)
    empty = ~mask.any(-1, keepdim=True)
    if not bool(empty.any()):
        return scores.softmax(-1)
    return scores.masked_fill_(empty, 0).softmax(-1).masked_fill_(~mask, 0)


def _of(x: Tensor, heads: slice) -> Tensor:
    """What belongs to some heads, of a tensor that may be the same for all."""
    return x if x.shape[1] == 1 else x[:, heads]


def dense_weights(request: Request, draw: Draw | None, heads: slice, first: int, last: int) -> Tensor:
    """(batch, heads, queries, keys) for the heads and queries asked for."""
    shape = request.batch, len(range(request.heads)[heads]), max(0, last - first), request.keys
    weights: Tensor | None = None
    for tile in tiles(request, draw, heads, first, last):
        if tile.weights.shape == shape:
            return tile.weights
        weights = tile.weights.new_zeros(shape) if weights is None else weights
        weights[:, :, tile.row - first : tile.rows.stop - first, tile.keys] = tile.weights
    return request.q.new_zeros(shape) if weights is None else weights


def edge_weights(request: Request, draw: Draw | None, heads: slice, edges: Edges) -> Float[Tensor, "batch heads edges"]:
    """One weight per edge, in the order of `edges.pairs`."""
    if draw is None and request.reweigh is None and edges_kernel.EdgesKernel().refuses(request) is None:
        return edges_kernel.edge_weights(request)[:, heads]
    source, target = edges.pairs
    pieces = [request.q.new_zeros(request.batch, len(range(request.heads)[heads]), 0)]
    for tile in tiles(request, draw, heads, 0, request.queries):
        here = slice(int(edges.offsets[tile.rows.start]), int(edges.offsets[tile.rows.stop]))
        pieces.append(tile.weights[:, :, target[here] - tile.row, source[here] - tile.key])
    return torch.cat(pieces, dim=-1)


def outputs(request: Request, draw: Draw | None) -> Float[Tensor, "batch heads queries value_dim"]:
    """The weights times the values, by the request's value rule: what `attend` returned, up to rounding."""
    _, v = request.visible(rows_at_once=reference.chunk(request))
    v = reference.widen(v)
    pieces = []
    for tile in tiles(request, draw, slice(None), 0, request.queries):
        weights = tile.weights
        if weights.shape[3] < request.keys:
            weights = F.pad(weights, (tile.keys.start, request.keys - tile.keys.stop))
        pieces.append(reference.mix(request, weights, v, tile.rows.start, tile.rows.stop))
    return torch.cat(pieces, dim=2) if pieces else v.new_zeros(*request.q.shape[:3], v.shape[-1])


def edges_of(request: Request) -> Edges | None:
    """The graph that holds every pair of this request, if there is one."""
    graphs = (part for part in request.where.conjuncts() if isinstance(part, Edges))
    return next((graph for graph in graphs if type(graph).sees is Edges.sees), None)
