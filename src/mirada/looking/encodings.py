"""How weights are stored: bytes of their square roots, plain numbers, or queries and keys to recompute them from.

`docs/attn.md` has the table. Every encoding is checked against the exact weights when it is written.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Integer, UInt8
from torch import Tensor

from mirada.attention.normalizers import masked_softmax
from mirada.looking.statistics import Checks
from mirada.looking.stream import NUMBERS_AT_ONCE, Factors, Stream

LARGEST_ERROR = 0.004
SAMPLE = 2**18  # weights that are deflated to guess how small all of them would be
DEFLATE_LEVEL = 6


def compand(weights: Float[Tensor, "..."]) -> UInt8[Tensor, "..."]:
    """A byte b for a weight in [0, 1] such that (b / 255)^2 is near it: small weights keep more digits than large ones.

    >>> expand(compand(torch.tensor([0.0, 0.0001, 0.5, 1.0])))
    tensor([0.0000e+00, 1.3841e-04, 4.9827e-01, 1.0000e+00])
    """
    return (weights.clamp(0, 1).sqrt() * 255).round().to(torch.uint8)


def expand(codes: UInt8[Tensor, "..."]) -> Float[Tensor, "..."]:
    return (codes.float() / 255).square()


def bytes_hold(checks: Checks) -> bool:
    """Whether all weights lie in [0, 1], up to rounding, and are numbers."""
    return checks.nan_rows == 0 and checks.weight_min >= 0 and checks.weight_max <= 1 + 1e-5


@dataclass
class WeightBytes:
    """The weights of a stream on their way into a file, (heads, queries, keys); `error` is known when all are out."""

    stream: Stream
    error: float = 0.0

    def companded(self) -> Iterator[bytes]:
        for weights in by_head(self.stream):
            codes = compand(weights)
            if weights.numel():
                self.error = max(self.error, float((expand(codes) - weights).abs().max()))
            yield codes.numpy().tobytes()

    def float32(self) -> Iterator[bytes]:
        return (little(weights) for weights in by_head(self.stream))


HELD = 2**26  # bytes of weights held in memory while the rows of a head are brought together


def by_head(stream: Stream) -> Iterator[Float[Tensor, "rows keys"]]:
    """The weights head by head, as the file has them, in pieces of some rows.

    Recomputed pieces have all heads of some rows. Where all fit they are computed once and transposed, else some heads at a
    time; bounded memory is worth the second pass.
    """
    size = 4 * stream.queries * stream.keys
    at_once = max(1, min(stream.heads, HELD // max(1, size)))
    for first in range(0, stream.heads, at_once):
        heads = slice(first, min(first + at_once, stream.heads))
        if size <= HELD:
            kept = torch.zeros(heads.stop - first, stream.queries, stream.keys)
            for row, piece in stream.pieces():
                kept[:, row : row + piece.shape[1]] = piece[heads]
            yield from kept
        else:
            yield from (piece[first] for _, piece in stream.pieces())


def little(x: Tensor) -> bytes:
    """The numbers in C order, little-endian."""
    array = x.contiguous().numpy()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@dataclass(frozen=True, eq=False)
class HalfProduct:
    """weights = softmax(scale q.k) inside the mask, from float16."""

    q: Float[Tensor, "heads queries dim"]
    k: Float[Tensor, "heads keys dim"]
    scale: float
    mask: dict[str, Any]  # as in the manifest
    bits: UInt8[Tensor, " bytes"] | None = None

    def may_see(self, first: int, last: int) -> Bool[Tensor, "rows keys"]:
        """Who may be seen by the rows first, ..., last - 1."""
        keys = self.k.shape[1]
        if self.bits is None:
            return shape_mask(self.mask, first, last, keys)
        begin, end = first * keys, last * keys
        part = np.unpackbits(self.bits[begin // 8 : math.ceil(end / 8)].numpy())
        return torch.from_numpy(part[begin % 8 : begin % 8 + end - begin].astype(bool)).view(last - first, keys)

    def scores(self, heads: slice, first: int, last: int) -> Float[Tensor, "heads rows keys"]:
        return self.scale * (self.q[heads, first:last].float() @ self.k[heads].float().transpose(1, 2))

    def weights(self, heads: slice, first: int, last: int) -> Float[Tensor, "heads rows keys"]:
        return masked_softmax(self.scores(heads, first, last)[None], self.may_see(first, last)[None, None])[0]


def shape_mask(mask: dict[str, Any], first: int, last: int, keys: int) -> Bool[Tensor, "rows keys"]:
    """The masks that need no bits: complete, causal, window."""
    i, j = torch.arange(first, last).view(-1, 1), torch.arange(keys)
    if mask["kind"] == "causal":
        return j <= i
    if mask["kind"] == "window":
        return (j >= i - mask["left"]) & (j <= i + mask["right"])
    return torch.ones(last - first, keys, dtype=torch.bool)


def half_product(stream: Stream, checks: Checks) -> tuple[HalfProduct, float] | None:
    """The stream as float16 queries and keys, and their largest error; None where they do not fit it or are not smaller."""
    if stream.stepped or stream.edges is not None or not bytes_hold(checks) or not stream.queries * stream.keys:
        return None
    factors = stream.factors()
    if factors is None or not factors.plain or not smaller(stream, factors):
        return None
    mask = described_mask(stream)
    if mask is None:
        return None
    halves = HalfProduct(factors.q.half(), factors.k.half(), factors.scale, *mask)
    error = 0.0
    for first, weights in stream.pieces():
        again = halves.weights(slice(None), first, first + weights.shape[1])
        error = max(error, float((again - weights).abs().nan_to_num(nan=1.0).max()))
        if error > LARGEST_ERROR:
            return None
    return halves, error


def smaller(stream: Stream, factors: Factors) -> bool:
    """Whether the product would take less room than bytes, by deflating some of both."""
    halves = 2 * (factors.q.numel() + factors.k.numel())
    all_weights = stream.heads * stream.queries * stream.keys
    if halves >= all_weights:
        return False
    rows = max(1, SAMPLE // max(1, stream.heads * stream.keys))
    middle = max(0, stream.queries // 2 - rows // 2)
    found = stream.last.weights(rows=slice(middle, min(middle + rows, stream.queries)))[stream.sample]
    codes = compand(found.detach().cpu().float())
    some = little(factors.k.half().flatten()[:SAMPLE])
    return halves * deflated(some) < all_weights * deflated(codes.numpy().tobytes())


def deflated(content: bytes) -> float:
    packer = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -15, 9, zlib.Z_FILTERED)
    return len(packer.compress(content) + packer.flush()) / max(1, len(content))


def described_mask(stream: Stream) -> tuple[dict[str, Any], UInt8[Tensor, " bytes"] | None] | None:
    """The mask by its shape, or as bits; None where heads have different ones."""
    left, right = getattr(stream.last.where, "band", (math.inf, math.inf))
    candidates: list[dict[str, Any]] = [{"kind": "complete"}, {"kind": "causal"}]
    if math.isfinite(left) and math.isfinite(right):
        candidates.append({"kind": "window", "left": int(left), "right": int(right)})
    rows, packed, rest = max(1, NUMBERS_AT_ONCE // stream.keys), [], np.zeros(0, dtype=bool)
    for first in range(0, stream.queries, rows):
        last = min(first + rows, stream.queries)
        mask = stream.mask(first, last)
        if not bool((mask == mask[:1]).all()):
            return None
        candidates = [c for c in candidates if torch.equal(shape_mask(c, first, last, stream.keys), mask[0])]
        rest = np.concatenate([rest, mask[0].numpy().ravel()])
        whole = len(rest) // 8 * 8 if last < stream.queries else len(rest)
        packed.append(np.packbits(rest[:whole]))
        rest = rest[whole:]
    if candidates:
        return candidates[0], None
    return {"kind": "bits"}, torch.from_numpy(np.concatenate(packed))


@dataclass(frozen=True, eq=False)
class Codes:
    """Weights as they stand in a file: bytes of square roots, or float32."""

    stored: UInt8[Tensor, "..."] | Float[Tensor, "..."]  # (heads, queries, keys) or (heads, edges)

    def weights(self, heads: slice, first: int, last: int) -> Float[Tensor, "heads rows keys"]:
        part = self.stored[heads, first:last]
        return expand(part) if part.dtype == torch.uint8 else part

    def all(self, heads: slice) -> Float[Tensor, "heads edges"]:
        """For edges: one weight each."""
        part = self.stored[heads]
        return expand(part) if part.dtype == torch.uint8 else part


def as_tensor(content: bytes, dtype: str, shape: tuple[int, ...]) -> Integer[Tensor, "..."] | Float[Tensor, "..."]:
    """A blob as a tensor. Its size was checked before."""
    array = np.frombuffer(content, dtype=np.dtype(dtype).newbyteorder("<")).reshape(shape)
    return torch.from_numpy(array.astype(np.dtype(dtype)))
