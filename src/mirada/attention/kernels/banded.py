"""Neighborhoods in which a block of queries sees few keys: windows, grids, documents, a few places that all see.

A neighborhood says which pieces of the keys a block of queries may see, and what it is there (`Neighborhood.pieces`). A long
piece that all of the block see, or that is causal from its corner on, is a tile without a mask; the others are one tile with a
mask of their size. Time and memory grow with the tiles. A bias by distance is made tile by tile (`kernels/bias.py`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from mirada.attention.kernels.bias import ByDistance, GivenPairs, OfPairs, TileBias
from mirada.attention.kernels.fused import bias_is_trained, factors, refuses_product, same_dim, simple
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.tiles import Tile, Tiling, tiled, unavailable
from mirada.attention.neighborhoods import Causal, Complete, Documents, KeyRange, Neighborhood, Padding, intersect
from mirada.attention.places import Places
from mirada.shapes import broadcast_heads, finite

# measured by benchmarks/thresholds.py on two cores
SMALLEST = 256  # keys; below, there is little to gain over one fused call with a mask
WIDEST = 0.75  # of the pairs; tiles with more save too little
LONG = 256  # keys; a shorter piece without a mask is gathered with the others
FEWEST_ROWS = 64  # queries of a block; fewer leave the kernel idle
MOST_ROWS = 512  # queries of a block whose mask grows with them
KEPT_MASKS = 8  # pictures that return along the diagonal


class Banded(Kernel):
    """Windows, documents and what is joined with them: blocks of queries against the pieces of the keys that they see."""

    name = "banded"

    def refuses(self, request: Request) -> str | None:
        left, right = request.where.band
        position = request.position
        by_distance = position.constant and _by_distance(request)
        given = position.constant and position.given is not None
        if reason := refuses_product(request, biased=by_distance or given):
            return reason
        if not position.constant and simple(request):
            return "no mask is needed"
        places = _counted(request)
        if places is None:
            return "given positions need not run along the band"
        if reason := unavailable(request.q):
            return reason
        if request.keys < SMALLEST:
            return f"it pays from {SMALLEST} keys on: got {request.keys}"
        must = by_distance or (given and refuses_product(request) is not None)  # `fused` cannot add it
        if left + right < math.inf and not _has(request.where, Documents):
            wide = left + right + 1 > WIDEST * request.keys and not must
            return f"the band of {left + right + 1:.0f} keys is too wide for {request.keys}" if wide else None
        if must:
            return None
        share = sum(layout.cost() for layout in _layouts(request, places, None))
        share /= len(_samples(request)) * request.queries * request.keys
        return f"it would compute {share:.0%} of the pairs" if share > WIDEST else None

    def run(self, request: Request) -> KernelOutput:
        places = _counted(request)
        assert places is not None
        request = replace(request, places=places)
        bias: TileBias | None = None
        if request.position.constant:
            by_pair = GivenPairs if request.position.given is not None and bias_is_trained(request) else OfPairs
            kind = ByDistance if _by_distance(request) else by_pair
            bias = kind(request.position, places, request.q.dtype)
        layouts = _layouts(request, places, bias)
        k, v = broadcast_heads(request.k, request.heads), broadcast_heads(request.v, request.heads)
        hidden = None if finite(request.k, request.v) else _unseen(layouts, request)
        if hidden is not None:
            k, v = (x.masked_fill(hidden.unsqueeze(-1), 0) for x in (k, v))
        q, k, scale = factors(request, k)
        dim = v.shape[-1]
        q, k, v = same_dim(q, k, v)
        for layout in layouts:
            layout.dtype = q.dtype
        count = max((len(layout.split(block)) for layout in layouts for block in layout.blocks), default=1)
        tilings = tuple(Tiling(partial(_tiles, layouts, place)) for place in range(max(1, count)))
        return KernelOutput(tiled(request, q, k, v, tilings, scale, bias)[..., :dim])


def _by_distance(request: Request) -> bool:
    """Whether the distance alone decides what the position adds."""
    return request.position.of_distance(torch.zeros(1, dtype=torch.int64, device=request.q.device)) is not None


def _has(where: Neighborhood, kind: type[Neighborhood]) -> bool:
    """Whether a set of that kind is a part of the intersection."""
    return any(isinstance(part, kind) for part in where.conjuncts())


def _counted(request: Request) -> Places | None:
    """Places at which every distance is that of the indices; None if given positions do not say so.

    Positions that restart in every document do, where nothing but distances inside it counts.
    """
    places = request.full_places
    if places.counted:
        return places
    ids = [part.ids for part in request.where.conjuncts() if type(part) is Documents and part.key_ids is None]
    others = [part for part in request.where.conjuncts() if type(part) not in (Documents, Padding)]
    positions, given = places.positions, places.key_positions
    if positions is None or given is None or positions.is_meta or positions.shape != given.shape or places.start:
        return None
    if not all(part.homogeneous for part in others) or (request.position.constant and not _by_distance(request)):
        return None
    rows = positions.view(-1, request.queries)
    steady = rows[:, 1:] - rows[:, :-1] == 1
    for one in ids:
        steady = steady | (one[:, 1:] != one[:, :-1])
    same = positions is given or bool((positions == given).all())
    grouped = all(x is not None for part in request.where.conjuncts() if type(part) is Documents for x in part.runs())
    if not (same and grouped and bool(steady.all())):
        return None
    return replace(places, positions=None, key_positions=None)


class Block(NamedTuple):
    """The queries first, ..., last - 1 and the pieces of the keys that they see."""

    first: int
    last: int
    pieces: tuple[KeyRange, ...]


class TilePart(NamedTuple):
    """A piece of the keys in which the bias is a straight line on one side, or no line."""

    piece: KeyRange
    side: str | None  # "left", "right"; None where it bends


@dataclass
class Layout:
    """How one sample, or all of them, are cut into tiles."""

    where: Neighborhood
    places: Places
    samples: slice
    bias: TileBias | None
    dtype: torch.dtype = torch.float32
    masks: dict[tuple[object, ...], Tensor] = field(default_factory=dict)
    blocks: list[Block] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = list(_blocks(self.where, self.places, self.bias))

    def cost(self) -> float:
        """About how many pairs are computed: without a mask a causal piece is half as dear, with one that varies twice."""
        total = 0.0
        for first, last, pieces in self.blocks:
            for begin, end, where in pieces:
                corner = type(where) is Causal and begin == self.places.start + first
                plain = where.homogeneous or type(where) is Complete
                total += (last - first) * (end - begin) * (0.5 if corner else 1 if plain else 2)
        return total

    def split(self, block: Block) -> list[list[TilePart]]:
        """The tiles of a block: each long span that needs no mask, and one of all others."""
        first, last = (self.places.start + row for row in block[:2])
        alone: list[TilePart] = []
        rest: list[TilePart] = []
        for span in _spans(block, first, last, self.bias):
            begin, end, where = span.piece
            corner = type(where) is Causal and begin == first
            open_ = (type(where) is Complete and end - begin >= LONG) or corner
            (alone if open_ and span.side else rest).append(span)
        return [[span] for span in alone] + ([rest] if rest else [])

    def tile(self, block: Block, spans: list[TilePart]) -> Tile:
        """The tile of some spans."""
        rows = slice(block.first, block.last)
        first, last = self.places.start + block.first, self.places.start + block.last
        begin, end, where = spans[0].piece
        columns = _columns(spans, self.places.device)
        made = partial(Tile, rows, columns, samples=self.samples)
        trained = self.bias is not None and self.bias.values is not None and self.bias.values.requires_grad
        corner = type(where) is Causal and begin == first
        if len(spans) > 1 or not spans[0].side or not (corner or type(where) is Complete):
            if self.bias is None and all(type(span.piece.where) is Complete for span in spans):
                return made()
            return made(mask=self._mask(block, spans), trained=_taken(spans, first) if trained else ())
        if self.bias is None:
            return made(causal=corner)
        left = spans[0].side == "left"
        mask, shift = self.bias.line(first, last, begin, end, left)
        if trained:  # the line is level: one number for all pairs
            return made(causal=corner, shift=shift + mask[..., 0], level=end - 1 - first if left else begin - last + 1)
        return made(causal=corner, mask=mask.expand(-1, -1, last - first, -1), shift=shift)

    def _mask(self, block: Block, spans: list[TilePart]) -> Tensor:
        """What is added to the scores of a tile; the last few that can return are kept."""
        first, rows = self.places.start + block.first, block.last - block.first
        by_distance = self.bias is None or isinstance(self.bias, ByDistance)
        key: tuple[object, ...] | None = (rows,)
        for begin, end, where in (span.piece for span in spans):
            plain = type(where) is Complete
            if not by_distance or not (plain or where.homogeneous):
                key = None
                break
            key = (*key, end - begin, None if plain and self.bias is None else begin - first, where)  # type: ignore[misc]
        known = None if key is None else self.masks.get(key)
        if known is not None:
            return known
        masks = [self._piece_mask(block, span.piece) for span in spans]
        sizes = [max(mask.shape[axis] for mask in masks) for axis in (0, 1)]
        mask = masks[0] if len(masks) == 1 else torch.cat([x.expand(*sizes, rows, -1) for x in masks], dim=-1)
        if key is not None:
            self.masks[key] = mask
            for old in list(self.masks)[:-KEPT_MASKS]:
                del self.masks[old]
        return mask

    def _piece_mask(self, block: Block, piece: KeyRange) -> Tensor:
        """The part of a mask that belongs to one piece: the bias, or 0, and -inf where nothing is seen."""
        begin, end, where = piece
        here = self.places.rows(block.first, block.last).columns(begin, end)
        if self.bias is None:
            if type(where) is Complete:
                return torch.zeros(1, 1, here.queries, here.keys, dtype=self.dtype, device=here.device)
            return additive(where.sees(here).expand(-1, -1, here.queries, here.keys), self.dtype)
        added = self.bias.pairs(here.start, here.start + here.queries, begin, end)
        added = added[self.samples] if len(added) > 1 else added
        if type(where) is Complete:
            return added.expand(-1, -1, here.queries, here.keys)
        return torch.where(where.sees(here), added, -math.inf)


def _samples(request: Request) -> list[slice]:
    """The samples that are cut alike: all, or each by itself where documents differ, or lengths next to a bias."""
    kinds = [Documents, Padding] if request.position.constant else [Documents]
    parts = [part for part in request.where.conjuncts() if type(part) in kinds]
    differ = any(len(x) > 1 for part in parts for x in part.tensors())
    return [slice(b, b + 1) for b in range(request.batch)] if differ and request.batch > 1 else [slice(None)]


def _layouts(request: Request, places: Places, bias: TileBias | None) -> list[Layout]:
    """How each sample is cut into tiles, or all of them alike."""
    found = []
    for samples in _samples(request):
        where, here = request.where, places
        if samples.start is not None or request.batch == 1:
            where = where.of_sample(samples.start or 0)
            if places.lengths is not None and len(places.lengths) > 1:
                here = replace(places, lengths=places.lengths[samples])
        found.append(Layout(where, here, samples, bias))
    return found


def _blocks(where: Neighborhood, places: Places, bias: TileBias | None) -> Iterator[Block]:
    """The blocks of queries that see something: cut where what they see changes, and as small as its width suggests."""
    start = places.start
    cuts = {0, places.queries} | {cut - start for cut in where.cuts(places) if 0 < cut - start < places.queries}
    borders = sorted(cuts)
    for begin, end in pairwise(borders):
        size = _rows_at_once(where.pieces(places.rows(begin, end)), start + begin, bias)
        for first in range(begin, end, size):
            last = min(first + size, end)
            if pieces := where.pieces(places.rows(first, last)):
                yield Block(first, last, pieces)


def _rows_at_once(pieces: tuple[KeyRange, ...], first: int, bias: TileBias | None) -> int:
    """How many queries make a block."""
    masked = [x for x in pieces if type(x.where) is not Complete and not (type(x.where) is Causal and x.begin == first)]
    if not masked:
        if bias is None:
            return 2**62
        low, high = bias.lines(first, first + 1)
        bend = high - low if low < math.inf else math.inf  # the keys among which the bias is no line, which cost most
        return MOST_ROWS if bend == math.inf else min(MOST_ROWS, max(FEWEST_ROWS, 32 * round(bend / 32)))
    widths = [left + right for left, right in (piece.where.band for piece in masked)]
    width = max((width for width in widths if width < math.inf), default=2.0 * MOST_ROWS)
    # about half the band, in steps that suit the kernel
    return min(MOST_ROWS, max(FEWEST_ROWS, 32 * round(width / 64)))


def _spans(block: Block, first: int, last: int, bias: TileBias | None) -> Iterator[TilePart]:
    """The pieces of a block, cut where the bias begins or ends to be a straight line."""
    low, high = (math.inf, math.inf) if bias is None else bias.lines(first, last)
    for begin, end, where in block.pieces:
        middle = int(min(max(low, begin), end)), int(min(max(high, low, begin), end))
        borders = begin, *middle, end
        for side, left, right in zip(("left", None, "right"), borders[:-1], borders[1:], strict=True):
            if left < right:
                yield TilePart(KeyRange(left, right, where), side)


def _columns(spans: list[TilePart], device: torch.device) -> slice | Tensor:
    """The keys of some spans."""
    begin, end = spans[0].piece.begin, spans[-1].piece.end
    if sum(span.piece.end - span.piece.begin for span in spans) == end - begin:
        return slice(begin, end)
    return torch.cat([torch.arange(*span.piece[:2], device=device) for span in spans])


def _taken(spans: list[TilePart], first: int) -> tuple[tuple[int, int, int, int], ...]:
    """For each span: its columns in the tile, the first query and the first key."""
    found, done = [], 0
    for begin, end, _ in (span.piece for span in spans):
        found.append((done, done + end - begin, first, begin))
        done += end - begin
    return tuple(found)


def _tiles(layouts: list[Layout], place: int) -> Iterator[Tile]:
    """Of every block the tile at that place."""
    for layout in layouts:
        for block in layout.blocks:
            split = layout.split(block)
            if place < len(split):
                yield layout.tile(block, split[place])


def tiles(where: Neighborhood, places: Places, dtype: torch.dtype) -> Iterator[Tile]:
    """The tiles of a band, one for a block of queries."""
    layout = Layout(where, places, slice(None), None, dtype)
    yield from (layout.tile(block, _spans_of(block)) for block in layout.blocks)


def _spans_of(block: Block) -> list[TilePart]:
    """All pieces of a block in one tile."""
    return [TilePart(piece, "left") for piece in block.pieces]


def _unseen(layouts: list[Layout], request: Request) -> Tensor | None:
    """The keys that no query sees, computed block by block; None if there can be none."""
    where, places = request.where, request.places
    rest = intersect(part for part in where.conjuncts() if not part.uniform)
    if rest.reflexive and places.start == 0 and places.queries >= places.keys:
        return where.unseen(places)
    seen = torch.zeros(request.batch, request.heads, places.keys, dtype=torch.bool, device=places.device)
    for layout in layouts:
        for first, last, pieces in layout.blocks:
            for begin, end, part in pieces:
                here = layout.places.rows(first, last).columns(begin, end)
                mask = part.sees(here).any(2).expand(-1, -1, end - begin)
                seen[layout.samples, :, begin:end] |= mask
    return ~seen


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask to be added to the scores: 0 where True, -inf where False."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
