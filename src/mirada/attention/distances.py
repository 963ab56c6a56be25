"""Between a number per distance and a number per pair, without an index for every pair."""

import torch
from torch import Tensor

from mirada.attention.transforms import each_gradient, transformed


class Skew(torch.autograd.Function):
    """`_skew`, or with `back` its transpose `_unskew`: each is the gradient of the other."""

    @staticmethod
    def forward(x: Tensor, start: int, size: int, back: bool) -> Tensor:
        return (_unskew if back else _skew)(x, start, size)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        x, ctx.start, _, ctx.back = inputs
        ctx.size = x.shape[-1]

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        [d_x] = each_gradient(lambda grad: (_transposed(grad, ctx.start, ctx.size, not ctx.back),), grad)
        return d_x, None, None, None


def _transposed(x: Tensor, start: int, size: int, back: bool) -> Tensor:
    """`Skew`, or plain operations where a function transform has no rule for it."""
    plain = _unskew if back else _skew
    return plain(x, start, size) if transformed() else Skew.apply(x, start, size, back)


def _skew(x: Tensor, start: int, keys: int) -> Tensor:
    """(..., queries, 2 clip + 1) to (..., queries, keys): entry (r, j) = x[r, clip + clamp(j - start - r)]."""
    shape = x.shape[:-1]
    if 0 in (*shape, keys):
        return x.new_zeros(*shape, keys)
    left, inside, right = _spans(x.shape[-2], keys, start, x.shape[-1])
    rows = torch.cat([x[..., :1].expand(*shape, left), x[..., inside], x[..., -1:].expand(*shape, right)], dim=-1)
    return _leaning(rows, keys).contiguous()


def _unskew(pairs: Tensor, start: int, distances: int) -> Tensor:
    """(..., queries, keys) to (..., queries, 2 clip + 1): the sum of the pairs at each clipped distance."""
    queries, keys = pairs.shape[-2:]
    sums = pairs.new_zeros(*pairs.shape[:-1], distances)
    if 0 in pairs.shape:
        return sums
    left, inside, right = _spans(queries, keys, start, distances)
    rows = pairs.new_zeros(*pairs.shape[:-1], queries + keys - 1)
    _leaning(rows, keys).copy_(pairs)
    sums[..., inside] = rows[..., left : rows.shape[-1] - right]
    sums[..., 0] += rows[..., :left].sum(-1)
    sums[..., -1] += rows[..., rows.shape[-1] - right :].sum(-1)
    return sums


def _leaning(rows: Tensor, keys: int) -> Tensor:
    """The view of (..., queries, queries + keys - 1) in which row r begins one place earlier than row r - 1."""
    queries, width = rows.shape[-2:]
    strides = (*rows.stride()[:-2], width - 1, 1)
    return rows.as_strided((*rows.shape[:-1], keys), strides, rows.storage_offset() + queries - 1)


def _spans(queries: int, keys: int, start: int, distances: int) -> tuple[int, slice, int]:
    """How many distances lie left of the table, which of its columns occur, and how many lie right of it."""
    clip = distances // 2
    lowest, highest = -(start + queries - 1), keys - 1 - start
    left = max(0, min(highest + 1, -clip) - lowest)
    right = max(0, highest - max(lowest - 1, clip))
    return left, slice(max(lowest, -clip) + clip, max(min(highest, clip), max(lowest, -clip) - 1) + clip + 1), right
