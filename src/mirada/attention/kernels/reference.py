"""The meaning of attention: score, mask, normalize, mix. Every other kernel is tested equal to this one.

It takes every request. It works through the queries in chunks, so that memory stays bounded for scores that hold a
vector per pair; in training each chunk is computed again in the backward pass for the same reason.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mirada.attention.kernels.edges import pair_scores
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.normalizers import Draw, Normalized
from mirada.attention.transforms import transformed

NUMBERS_AT_ONCE = 2**22  # in the largest intermediate tensor of one chunk; measured, see docs/log.md


class Reference(Kernel):
    """The equation as it is written: what the other kernels must agree with."""

    name = "reference"

    def refuses(self, request: Request) -> str | None:
        return None

    def run(self, request: Request) -> KernelOutput:
        step = request.queries if torch.compiler.is_exporting() else chunk(request)
        k, v = request.visible(rows_at_once=step)
        q, k, v = request.score.queries(widen(request.q)), request.score.keys(widen(k)), widen(v)
        if torch.compiler.is_exporting() or step >= request.queries:
            return _rows(request, q, k, v, 0, request.queries)
        outputs, draws, before = [], [], _versions(request)
        for first in range(0, request.queries, step):
            last = min(first + step, request.queries)
            if torch.is_grad_enabled() and not transformed():  # a transform takes no hooks on what is kept
                answer = checkpoint(_unchanged_rows, before, request, q, k, v, first, last, use_reentrant=False)
            else:
                answer = _rows(request, q, k, v, first, last)
            outputs.append(answer.output)
            draws.append(answer.draw)
        return KernelOutput(torch.cat(outputs, dim=2), Draw.join(draws) if draws[0] is not None else None)


def _rows(request: Request, q: Tensor, k: Tensor, v: Tensor, first: int, last: int) -> KernelOutput:
    """The outputs of the queries first, ..., last - 1, from prepared queries and keys."""
    weights, draw = weigh(request, q, k, first, last)
    return KernelOutput(mix(request, request.normalizer.drop(weights), v, first, last), draw)


def _unchanged_rows(
    before: list[int], request: Request, q: Tensor, k: Tensor, v: Tensor, first: int, last: int
) -> KernelOutput:
    """`_rows`, which a backward pass computes again: what is not among its tensors must be as it was then."""
    if _versions(request) != before:
        raise ValueError(
            "a neighborhood, positions or parameters were changed in place before the backward pass: change a copy, or later"
        )
    return _rows(request, q, k, v, first, last)


def _versions(request: Request) -> list[int]:
    """How often each tensor that decides the weights, other than queries, keys and values, was changed in place."""
    given = (request.places.positions, request.places.key_positions)
    parts = (request.score, request.position, request.normalizer)
    tensors = (*request.where.tensors(), *given, *(x for part in parts for x in part.parameters()))
    return [version(x) for x in tensors if x is not None]


def weigh(request: Request, q: Tensor, k: Tensor, first: int, last: int) -> Normalized:
    """The weights of some queries, before dropout: normalize(score + position), inside the neighborhood."""
    if whole(request) and (first, last) != (0, request.queries):
        weights, draw = weigh(request, q, k, 0, request.queries)
        return Normalized(weights[:, :, first:last], None if draw is None else draw.rows(first, last))
    places, mask = request.full_places.rows(first, last), request.mask(first, last)
    prepared = q[:, :, first:last]
    if request.weighed_pairs is None:
        scores = widen(request.score.compare(prepared, k))
    else:
        scores = widen(pair_scores(request, prepared, k, places.start))
    scores = scores.to(torch.promote_types(scores.dtype, _wide(request.v.dtype)))  # a score of places has its own dtype
    bias = request.position.bias(prepared, places)
    scores = scores if bias is None else scores + bias
    narrowed = request.position.narrow(widen(request.q[:, :, first:last]), places)
    if narrowed is None:
        weights, draw = request.normalizer.normalize(scores, mask)
    else:
        inside, factor = narrowed
        mask = mask & inside
        weights, draw = request.normalizer.normalize(scores, mask)
        weights = weights * factor
    if request.reweigh is not None:
        weights = request.reweigh(weights, places, mask)
    return Normalized(weights, draw)


def mix(
    request: Request,
    weights: Float[Tensor, "batch heads queries keys"],
    v: Float[Tensor, "batch heads keys value_dim"],
    first: int,
    last: int,
) -> Float[Tensor, "batch heads queries value_dim"]:
    """The value rule: sum_j alpha_ij v_j, and what the position adds pair by pair."""
    output = weights @ v
    spread = request.position.spread(weights, request.full_places.rows(first, last))
    return (output if spread is None else output + spread).to(request.v.dtype)


def whole(request: Request) -> bool:
    """Whether the weights of a query may depend on the other queries: then all are computed at once."""
    return not request.normalizer.rowwise or (request.reweigh is not None and request.reweigh.whole)


def chunk(request: Request) -> int:
    """How many queries fit into one chunk."""
    if request.q.is_meta or whole(request):  # shapes take no memory
        return max(1, request.queries)
    per_query = request.batch * request.heads * request.keys * request.score.pair_width
    return max(1, NUMBERS_AT_ONCE // max(1, per_query))


def version(x: Tensor) -> int:
    """How often a tensor was changed in place; tensors of inference mode keep no count."""
    return -1 if x.is_inference() else x._version


def widen(x: Tensor) -> Tensor:
    """Half-precision numbers as float32: sums over many keys need the room. Others as they are."""
    return x.to(_wide(x.dtype))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which numbers of this one are summed."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
