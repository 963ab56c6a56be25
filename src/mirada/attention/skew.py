"""Between a number per distance and a number per pair, without an index for every pair.

Row r holds a number for each clipped distance of query start + r. Written out for every distance in a row one longer than
the row above needs, the same memory read with a row stride shorter by one is the queries x keys matrix: entry (r, j) is the
number for distance j - (start + r). `Skew` goes from distances to pairs, `Unskew` sums pairs into distances; each is the
other's gradient.

The skewing of Huang et al. (2018), arXiv:1809.04281, for clipped distances and any first query.
"""

import torch
from torch import Tensor

from mirada.attention.transforms import each_gradient, transformed


class Skew(torch.autograd.Function):
    """(..., queries, 2 clip + 1) to (..., queries, keys): entry (r, j) = x[r, clip + clamp(j - start - r)]."""

    @staticmethod
    def forward(x: Tensor, start: int, keys: int) -> Tensor:
        return skew(x, start, keys)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.start, ctx.distances = inputs[1], inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        [back] = each_gradient(lambda grad: (unskewed(grad, ctx.start, ctx.distances),), grad)
        return back, None, None


class Unskew(torch.autograd.Function):
    """(..., queries, keys) to (..., queries, 2 clip + 1): the sum of the pairs at each clipped distance."""

    @staticmethod
    def forward(pairs: Tensor, start: int, distances: int) -> Tensor:
        return unskew(pairs, start, distances)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.start, ctx.keys = inputs[1], inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        [back] = each_gradient(lambda grad: (skewed(grad, ctx.start, ctx.keys),), grad)
        return back, None, None


def skewed(x: Tensor, start: int, keys: int) -> Tensor:
    """`Skew`, or plain operations where a function transform has no rule for it."""
    return skew(x, start, keys) if transformed() else Skew.apply(x, start, keys)


def unskewed(pairs: Tensor, start: int, distances: int) -> Tensor:
    """`Unskew`, or plain operations where a function transform has no rule for it."""
    return unskew(pairs, start, distances) if transformed() else Unskew.apply(pairs, start, distances)


def skew(x: Tensor, start: int, keys: int) -> Tensor:
    """A number per pair from a number per distance."""
    shape = x.shape[:-1]
    if 0 in (*shape, keys):
        return x.new_zeros(*shape, keys)
    left, inside, right = spans(x.shape[-2], keys, start, x.shape[-1])
    rows = torch.cat([x[..., :1].expand(*shape, left), x[..., inside], x[..., -1:].expand(*shape, right)], dim=-1)
    return leaning(rows, keys).contiguous()


def unskew(pairs: Tensor, start: int, distances: int) -> Tensor:
    """The sums per distance of a number per pair."""
    queries, keys = pairs.shape[-2:]
    sums = pairs.new_zeros(*pairs.shape[:-1], distances)
    if 0 in pairs.shape:
        return sums
    left, inside, right = spans(queries, keys, start, distances)
    rows = pairs.new_zeros(*pairs.shape[:-1], queries + keys - 1)
    leaning(rows, keys).copy_(pairs)
    sums[..., inside] = rows[..., left : rows.shape[-1] - right]
    sums[..., 0] += rows[..., :left].sum(-1)
    sums[..., -1] += rows[..., rows.shape[-1] - right :].sum(-1)
    return sums


def leaning(rows: Tensor, keys: int) -> Tensor:
    """The view of (..., queries, queries + keys - 1) in which row r begins one place earlier than row r - 1."""
    queries, width = rows.shape[-2:]
    strides = (*rows.stride()[:-2], width - 1, 1)
    return rows.as_strided((*rows.shape[:-1], keys), strides, rows.storage_offset() + queries - 1)


def spans(queries: int, keys: int, start: int, distances: int) -> tuple[int, slice, int]:
    """How many distances lie left of the table, which of its columns occur, and how many lie right of it."""
    clip = distances // 2
    lowest, highest = -(start + queries - 1), keys - 1 - start
    left = max(0, min(highest + 1, -clip) - lowest)
    right = max(0, highest - max(lowest - 1, clip))
    return left, slice(max(lowest, -clip) + clip, max(min(highest, clip), max(lowest, -clip) - 1) + clip + 1), right
