"""Child's sparse patterns without a queries x keys matrix.

Strided: the keys a multiple of the stride away form residue classes; inside a class the pattern is plain causal attention.
Fixed: a block sees itself causally, and the summary columns of the blocks before it. Each whole pattern is the union of
two such parts, cut so that they share no pair, and joined as one softmax.
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import and_

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from mirada.attention.kernels.banded import additive
from mirada.attention.kernels.banded import tiles as band_tiles
from mirada.attention.kernels.fused import factors, refuses_product, same_dim
from mirada.attention.kernels.reference import NUMBERS_AT_ONCE
from mirada.attention.kernels.request import Kernel, KernelOutput, Request
from mirada.attention.kernels.tiles import Tile, Tiling, tiled, unavailable
from mirada.attention.neighborhoods import Causal, Complete, Fixed, Padding, Strided, Window

SMALLEST = 512  # keys; below, one fused call with a mask is faster (benchmarks/thresholds.py)


class StridedKernel(Kernel):
    """Child's patterns: the sequence is rearranged so that what is seen lies together."""

    name = "strided"

    def refuses(self, request: Request) -> str | None:
        if _pattern(request) is None:
            return "the neighborhood is not Strided or Fixed, alone or with padding"
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
        if isinstance(pattern, Strided):
            tilings = _strided_tilings(pattern, request, q.dtype)
        else:
            assert isinstance(pattern, Fixed)
            tilings = _fixed_tilings(pattern, request, q.dtype)
        return KernelOutput(tiled(request, q, k, v, tilings, scale)[..., :dim])


def _pattern(request: Request) -> Strided | Fixed | None:
    """The one pattern of the neighborhood, if everything else in it is padding (or causal, as the pattern is)."""
    parts = [part for part in request.where.conjuncts() if type(part) not in (Padding, Causal, Complete)]
    return parts[0] if len(parts) == 1 and type(parts[0]) in (Strided, Fixed) else None  # type: ignore[return-value]


def _strided_tilings(pattern: Strided, request: Request, dtype: torch.dtype) -> tuple[Tiling, ...]:
    """The window of the last keys, and the residue classes for what lies farther back."""
    stride, length, places = pattern.stride, request.keys, request.full_places
    window = reduce(and_, (part for part in request.where.conjuncts() if isinstance(part, Padding)), Window(stride))
    local = Tiling(lambda: band_tiles(window, places, dtype))
    split = partial(_cut, pattern="b h (n c) d -> (b c) h n d", size=stride)
    unsplit = partial(_uncut, pattern="(b c) h n d -> b h (n c) d", length=length, c=stride)
    mask = _arranged_padding(request, split, dtype)
    skip = 0 if pattern.part == "stride" else 2  # the key itself and the one a stride back are in the window
    size = -(-length // stride)

    def classes() -> Iterator[Tile]:
        if size > skip:
            rows, columns = slice(skip, size), slice(0, size - skip)
            yield Tile(rows, columns, causal=True, mask=None if mask is None else mask[..., columns])

    far = Tiling(classes, split, unsplit)
    return {None: (local, far), "local": (local,), "stride": (far,)}[pattern.part]


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


def _arranged_padding(request: Request, arrange: Callable[[Tensor], Tensor], dtype: torch.dtype) -> Tensor | None:
    """What to add to the scores of each key in an arrangement: -inf in the padding. None without padding."""
    places = request.full_places
    if places.lengths is None:
        return None
    per_key = additive(places.column < places.length, dtype).transpose(2, 3)
    return arrange(per_key.expand(request.batch, -1, -1, -1)).transpose(2, 3)


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
