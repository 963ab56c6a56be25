"""Neighborhoods that lie in a band around the diagonal: windows, blocks, grids, and what is cut out of them.

Blocks of queries meet the slice of keys that the band lets them see, one fused call each: time and memory grow as
length x band. Inside a block the exact neighborhood is a mask of that block's size.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from mirada.attention.kernels.fused import factors, refuses_product, same_dim, with_bias
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.tiles import Tile, Tiling, tiled, unavailable
from mirada.attention.neighborhoods import Neighborhood, intersect
from mirada.attention.places import Places
from mirada.attention.positions import Position
from mirada.shapes import broadcast_heads

# measured by benchmarks/thresholds.py on two cores
SMALLEST = 256  # keys; below, there is little to gain over one fused call with a mask
WIDEST = 0.75  # of the keys; a wider band saves too little


class Banded(Kernel):
    """Windows, blocks and grids: blocks of queries against the keys that the band lets them see."""

    name = "banded"

    def refuses(self, request: Request) -> str | None:
        left, right = request.where.band
        if left + right == torch.inf:
            return "the neighborhood is no band along the diagonal"
        if reason := refuses_product(request):
            return reason
        if not request.places.counted:
            return "given positions need not run along the band"
        if reason := unavailable(request.q):
            return reason
        if request.keys < SMALLEST:
            return f"it pays from {SMALLEST} keys on: got {request.keys}"
        if left + right + 1 > WIDEST * request.keys:
            return f"the band of {left + right + 1:.0f} keys is too wide for {request.keys}"
        return None

    def run(self, request: Request) -> KernelOutput:
        where, left, right = request.where, *map(int, request.where.band)
        start, places = request.places.start, request.full_places
        # no query reaches beyond these keys: of a long cache only the end is read
        reached = slice(max(0, start - left), min(request.keys, start + request.queries + right))
        places = places.columns(reached.start, max(reached.start, reached.stop))
        k, v = (broadcast_heads(x, request.heads)[:, :, reached] for x in (request.k, request.v))
        hidden = _unseen(where, places)
        if hidden is not None:
            k, v = (x.masked_fill(hidden.unsqueeze(-1), 0) for x in (k, v))
        q, k, scale = factors(request, k)
        dim = v.shape[-1]
        q, k, v = same_dim(q, k, v)
        position, dtype = request.position, q.dtype
        tiling = Tiling(lambda: tiles(where, places, position, dtype))
        return KernelOutput(tiled(replace(request, places=places), q, k, v, (tiling,), scale)[..., :dim])


def _spans(where: Neighborhood, places: Places) -> Iterator[tuple[int, int, int, int]]:
    """The blocks of queries first, ..., last - 1 and the keys begin, ..., end - 1 that they may see."""
    left, right = (int(reach) for reach in where.band)
    offset = places.start - places.first_key
    size = min(512, max(64, 32 * round((left + right) / 64)))  # about half the band, in steps that suit the kernel
    for first in range(0, places.queries, size):
        last = min(first + size, places.queries)
        begin, end = max(0, offset + first - left), min(places.keys, offset + last + right)
        if begin < end:
            yield first, last, begin, end


def _unseen(where: Neighborhood, places: Places) -> Tensor | None:
    """The keys that no query sees, computed block by block; None if there can be none."""
    rest = intersect(part for part in where.conjuncts() if not part.uniform)
    if rest.reflexive and places.start == 0 and places.queries >= places.keys:
        return where.unseen(places)
    seen = torch.zeros(1, 1, places.keys, dtype=torch.bool, device=places.device)
    for first, last, begin, end in _spans(where, places):
        here = where.sees(places.rows(first, last).columns(begin, end)).any(2).expand(-1, -1, end - begin)
        seen = seen.expand(*(max(sizes) for sizes in zip(seen.shape[:2], here.shape[:2], strict=True)), -1).clone()
        seen[..., begin:end] |= here
    return ~seen


def tiles(where: Neighborhood, places: Places, position: Position, dtype: torch.dtype) -> Iterator[Tile]:
    """The blocks of queries with the keys they may see, and what the position adds to their scores."""
    known: dict[tuple[int, int, int], Tensor] = {}
    for first, last, begin, end in _spans(where, places):
        shape = (last - first, end - begin, places.start + first - begin)
        mask = known.get(shape)
        if mask is None:
            here = places.rows(first, last).columns(begin, end)
            mask = with_bias(position, where.sees(here), here, dtype)
            mask = additive(mask, dtype) if mask.dtype == torch.bool else mask
            if where.homogeneous:  # the same picture all along the diagonal
                known[shape] = mask
        yield Tile(slice(first, last), slice(begin, end), mask=mask)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to be added to the scores: 0 where True, -inf where False."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
