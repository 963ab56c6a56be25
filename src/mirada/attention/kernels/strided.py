"""Child's sparse patterns without a queries x keys matrix.

Strided and Dilated: the keys a multiple of the step away form residue classes; inside a class the pattern is plain causal
attention, or a window. Windows next to it are joined.
Fixed: a block sees itself causally, and the summary columns of the blocks before it. Each whole pattern is the union of
two such parts, cut so that they share no pair, and joined as one softmax.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mirada.attention.kernels.banded import additive
from mirada.attention.kernels.banded import tiles as band_tiles
from mirada.attention.kernels.fused import factors, is_causal, refuses_product, same_dim
from mirada.attention.kernels.reference import NUMBERS_AT_ONCE
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.tiles import Tile, Tiling, tiled, unavailable
from mirada.attention.neighborhoods import Causal, Complete, Dilated, Fixed, Padding, Strided, Union, Window
from mirada.attention.places import Places

SMALLEST = 512  # keys; below, one fused call with a mask is faster (benchmarks/thresholds.py)


class StridedKernel(Kernel):
    """Child's patterns: the sequence is rearranged so that what is seen lies together."""

    name = "strided"

    def refuses(self, request: Request) -> str | None:
        if _pattern(request) is None:
            return "the neighborhood is not Strided, Dilated (with windows) or Fixed, alone or with padding"
        if reason := refuses_product(request):
            return reason
        if request.position.constant:
            return f"{type(request.position).__name__} would need a bias per residue class or block"
        if not request.places.counted or request.places.start or request.queries != request.keys:
            return "the pattern must be complete: as many queries as keys, counted from 0"
        if reason := unavailable(request.q):
            return reason
        if request.keys < SMALLEST:
            return f"it pays from {SMALLEST} keys on: got {request.keys}"
        return None

    def run(self, request: Request) -> KernelOutput:
        k, v = request.visible(rows_at_once=max(1, NUMBERS_AT_ONCE // request.keys))
        q, k, scale = factors(request, k)
        dim = v.shape[-1]
        q, k, v = same_dim(q, k, v)
        pattern = _pattern(request)
        if isinstance(pattern, Fixed):
            tilings = _fixed_tilings(pattern, request, q.dtype)
        else:
            assert pattern is not None
            tilings = _class_tilings(pattern, request, q.dtype)
        return KernelOutput(tiled(request, q, k, v, tilings, scale)[..., :dim])


class Classes(NamedTuple):
    """Residue classes modulo `step`, of which a query sees so many keys on each side, and a window around it."""

    step: int
    left: float
    right: float
    window: Window | None


def _pattern(request: Request) -> Classes | Fixed | None:
    """The pattern of the neighborhood, if everything else in it is padding or causal."""
    others = (Padding, Causal, Complete)
    parts = [part for part in request.where.conjuncts() if type(part) not in others]
    if len(parts) != 1:
        return None
    if type(parts[0]) is Fixed:
        return parts[0]
    joined = parts[0].parts if type(parts[0]) is Union else (parts[0],)
    local, classes = [], []
    for part in joined:
        if type(part) is Window:
            local.append(part)
        elif type(part) is Dilated:
            classes.append((part.step, float(part.left), float(part.right)))
        elif type(part) is Strided:
            local += [Window(part.stride)] if part.part != "stride" else []
            classes += [(part.stride, math.inf, 0.0)] if part.part != "local" else []
        else:
            return None
    if len({step for step, *_ in classes}) != 1:
        return None
    causal = is_causal(request)
    window = Window(max(x.left for x in local), 0 if causal else max(x.right for x in local)) if local else None
    reach = max(left for _, left, _ in classes), 0.0 if causal else max(right for *_, right in classes)
    return Classes(classes[0][0], *reach, window)


def _class_tilings(pattern: Classes, request: Request, dtype: torch.dtype) -> tuple[Tiling, ...]:
    """The window, and the residue classes for what lies farther away on either side."""
    step, length, places, window = pattern.step, request.keys, request.full_places, pattern.window
    split = partial(_cut, pattern="b h (n c) d -> (b c) h n d", size=step)
    unsplit = partial(_uncut, pattern="(b c) h n d -> b h (n c) d", length=length, c=step)
    hidden = _arranged_padding(request, split, dtype, ends=pattern.right > 0 and length % step > 0)
    size = -(-length // step)

    def classes(left: float, right: float, shift: int) -> Iterator[Tile]:
        """What lies `shift` places or more away, before the query or, if shift < 0, after it."""
        rows, columns, rest = max(shift, 0), max(-shift, 0), size - abs(shift)
        if left == math.inf:
            found = iter([Tile(slice(0, rest), slice(0, rest), causal=True)] if rest > 0 else [])
        else:
            found = band_tiles(Window(int(left), int(right)), Places.count(max(0, rest), max(0, rest)), dtype)
        for tile in found:
            assert isinstance(tile.columns, slice)
            own = slice(tile.columns.start + columns, tile.columns.stop + columns)
            masks = [x for x in (tile.mask, None if hidden is None else hidden[..., own]) if x is not None]
            at = slice(tile.rows.start + rows, tile.rows.stop + rows)
            yield replace(tile, rows=at, columns=own, mask=sum(masks[1:], masks[0]) if masks else None)

    if window is None:
        return (Tiling(partial(classes, pattern.left, pattern.right, 0), split, unsplit),)
    local = reduce(and_, (part for part in request.where.conjuncts() if isinstance(part, Padding)), window)
    found = [Tiling(lambda: band_tiles(local, places, dtype))]
    before, after = window.left // step + 1, window.right // step + 1
    if pattern.left >= before:
        found.append(Tiling(partial(classes, pattern.left - before, 0, before), split, unsplit))
    if pattern.right >= after:
        found.append(Tiling(partial(classes, 0, pattern.right - after, -after), split, unsplit))
    return tuple(found)


def _fixed_tilings(pattern: Fixed, request: Request, dtype: torch.dtype) -> tuple[Tiling, ...]:
    """The query's own block, and the summary columns of the blocks before it."""
    block, summary, length = pattern.block, pattern.summary, request.keys
    split = partial(_cut, pattern="b h (n c) d -> (b n) h c d", size=block)
    unsplit = partial(_uncut, pattern="(b n) h c d -> b h (n c) d", length=length, n=-(-length // block))
    pick, unpick = (partial(f, block=block, summary=summary) for f in (_to_summary, _from_summary))
    mask, summary_mask = (_arranged_padding(request, arrange, dtype) for arrange in (split, pick))

    def own(columns: slice) -> Iterator[Tile]:
        yield Tile(columns, columns, causal=True, mask=None if mask is None else mask[..., columns])

    def before() -> Iterator[Tile]:
        for index in range(1, -(-length // block)):
            rows, columns = slice(index * block, min((index + 1) * block, length)), slice(0, index * summary)
            yield Tile(rows, columns, mask=None if summary_mask is None else summary_mask[..., columns])

    whole = Tiling(partial(own, slice(0, block)), split, unsplit)
    # its own summary columns, up to itself
    corner = Tiling(partial(own, slice(block - summary, block)), split, unsplit)
    earlier = Tiling(before, arrange_keys=pick, restore_keys=partial(unpick, length=length))
    return {None: (whole, earlier), "local": (whole,), "summary": (corner, earlier)}[pattern.part]


def _arranged_padding(
    request: Request, arrange: Callable[[Tensor], Tensor], dtype: torch.dtype, ends: bool = False
) -> Tensor | None:
    """What to add to the scores of each key in an arrangement: -inf in the padding. None without padding.

    With `ends` also for what `_cut` appends to the sequence.
    """
    places = request.full_places
    if places.lengths is None and not ends:
        return None
    inside = (places.column < places.length).transpose(2, 3).to(dtype)
    return additive(arrange(inside.expand(request.batch, -1, -1, -1)).transpose(2, 3) > 0, dtype)


def _cut(x: Tensor, pattern: str, size: int) -> Tensor:
    """Blocks or residue classes of `size` places side by side in the batch.

    Zeros are appended up to a whole number of them. They come last, so no causal row of the sequence sees them.
    """
    missing = -x.shape[2] % size
    return rearrange(F.pad(x, (0, 0, 0, missing)) if missing else x, pattern, c=size)


def _uncut(x: Tensor, pattern: str, length: int, **sizes: int) -> Tensor:
    """The sequence back from its blocks or residue classes."""
    return rearrange(x, pattern, **sizes)[:, :, :length]


def _to_summary(x: Tensor, block: int, summary: int) -> Tensor:
    """The last `summary` places of every block."""
    return _cut(x, "b h (n c) d -> b h n c d", block)[..., block - summary :, :].flatten(2, 3)


def _from_summary(x: Tensor, block: int, summary: int, length: int) -> Tensor:
    """Gradients of the summary places, and zeros between them."""
    padded = F.pad(rearrange(x, "b h (n c) d -> b h n c d", c=summary), (0, 0, block - summary, 0))
    return padded.flatten(2, 3)[:, :, :length]
