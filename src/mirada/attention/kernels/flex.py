"""PyTorch's FlexAttention for GPUs: the neighborhood and the bias of a pair become part of a compiled kernel.

A neighborhood says `pair`, whether one query sees one key, and a position `pairwise`, what is added to one score. Blocks
of pairs that nobody sees are skipped: which ones is worked out once for each neighborhood and size, and kept.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from mirada.attention.kernels.fused import factors, same_dim
from mirada.attention.kernels.reference import NUMBERS_AT_ONCE, version
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.neighborhoods import Neighborhood, lengths_of
from mirada.attention.normalizers import Softmax
from mirada.attention.places import Pair, Places
from mirada.attention.scores import Product
from mirada.attention.transforms import transformed

DEVICES = ("cuda",)  # on a CPU it has no backward pass


class Flex(Kernel):
    """FlexAttention: every neighborhood and bias that can be said of one pair, without a matrix of all pairs."""

    name = "flex"

    def refuses(self, request: Request) -> str | None:
        kind = request.q.device.type
        if kind not in DEVICES:
            return f"it is for {', '.join(DEVICES)}, not {kind}"
        return lowering_refusal(request)

    def run(self, request: Request) -> KernelOutput:
        k, v = request.visible(rows_at_once=max(1, NUMBERS_AT_ONCE // max(1, request.keys)))
        q, k, scale = factors(request, k)
        dim = v.shape[-1]
        q, k, v = same_dim(q, k, v)
        mask, bias = _blocks(request), None
        if request.position.inside:
            bias = _bias_of(request)
        output = _attend(q.device.type)(q, k, v, score_mod=bias, block_mask=mask, scale=scale)
        return KernelOutput(output[..., :dim])


def lowering_refusal(request: Request) -> str | None:
    """Why the request cannot be said pair by pair, if it cannot."""
    if type(request.score).compare is not Product.compare:
        return f"{type(request.score).__name__} is not a product q'.k'"
    if type(request.normalizer) is not Softmax:
        return f"it has a softmax inside, not {type(request.normalizer).__name__}"
    if request.normalizer.training and request.normalizer.dropout:
        return f"it cannot drop weights (dropout={request.normalizer.dropout}, training)"
    if transformed():
        return "it has no rule for function transforms"
    if request.q.dtype == torch.float64:
        return "it computes in float32 at most"
    if 0 in (*request.q.shape, *request.v.shape):
        return f"nothing to fuse in an empty input: q {tuple(request.q.shape)}, keys={request.keys}"
    elsewhere = [x.device for x in request.where.tensors() if x.device != request.q.device]
    if elsewhere:
        return f"the neighborhood has tensors on {elsewhere[0]}: move them to {request.q.device}"
    zero = torch.zeros((), dtype=torch.int64, device=request.q.device)
    at = _pair(request.full_places, zero, zero, zero, zero)
    for part in request.where.conjuncts():
        if part.pair(at) is None:
            return f"{part} does not say `pair`, whether one query sees one key"
    position = request.position
    if position.inside and (position.overrides("narrow", "spread") or position.pairwise(zero.device) is None):
        return f"{type(position).__name__} does not say `pairwise`, what it adds to the score of one pair"
    return None


def _pair(places: Places, sample: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Pair:
    """One query and one key of these places."""
    row, column = query + places.start, key + places.first_key
    at = Pair(sample, head, row, column, row, column, places.keys, places.lengths)
    if places.positions is not None:
        at = replace(at, i=_position(at, places.positions)[query])
    if places.key_positions is not None:
        at = replace(at, j=_position(at, places.key_positions)[key])
    return at


def _position(at: Pair, positions: Tensor) -> Tensor:
    """The positions of this sample."""
    return positions if positions.ndim == 1 else at.of_sample(positions)


def _bias_of(request: Request) -> Callable[..., Tensor]:
    """What is added to a score, as FlexAttention asks for it."""
    formula, places = request.position.pairwise(request.q.device), request.full_places
    assert formula is not None

    def score_mod(score: Tensor, sample: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return score + formula(_pair(places, sample, head, query, key)).to(score.dtype)

    return score_mod


def _blocks(request: Request) -> Any:
    """Which blocks of pairs hold one that is seen; kept as long as the neighborhood is what it was."""
    where, places = request.where, request.full_places
    corner = where.sees(places.rows(0, 1).columns(0, 1)).shape  # what varies shows in one corner
    given = where, places.queries, places.keys, places.start, places.device, corner[0], corner[1]
    if not places.counted or torch.compiler.is_compiling():
        return _block_mask(where, places, corner[0], corner[1])
    return _kept_block_mask(*given, tuple(version(x) for x in where.tensors()))


@lru_cache(maxsize=16)
def _kept_block_mask(
    where: Neighborhood,
    queries: int,
    keys: int,
    start: int,
    device: torch.device,
    batch: int,
    heads: int,
    versions: tuple[int, ...],
) -> Any:
    """The blocks of counted places: layers of a model and steps of a training share them."""
    places = Places(queries, keys, start, device, lengths=lengths_of(where))
    return _block_mask(where, places, batch, heads)


def _block_mask(where: Neighborhood, places: Places, batch: int, heads: int) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask  # importing it imports the compiler: a second

    def mask_mod(sample: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = where.pair(_pair(places, sample, head, query, key))
        assert seen is not None
        return seen

    sizes = batch if batch > 1 else None, heads if heads > 1 else None, places.queries, places.keys
    compiled = places.device.type != "cpu" and not torch.compiler.is_compiling()
    return create_block_mask(mask_mod, *sizes, device=places.device, _compile=compiled)


@cache
def _attend(kind: str) -> Callable[..., Any]:
    """FlexAttention, compiled where it is meant to run; elsewhere all pairs are computed, which is for tests."""
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention if kind == "cpu" else torch.compile(flex_attention, dynamic=True)  # type: ignore[return-value]
