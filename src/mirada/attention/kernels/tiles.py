"""Attention as a list of tiles: slices of queries against slices of keys, each one call of the fused CPU kernel.

The kernel returns each tile's output and log-sum-exp. Where several tiles serve one query their outputs are joined by their
log-sum-exps; backward, each tile receives the joined output and log-sum-exp, so that its gradients are those of one
softmax over all tiles. Time and memory grow with the tiles, not with queries x keys.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mirada.attention.kernels.bias import TileBias
from mirada.attention.kernels.reference import Reference, version
from mirada.attention.kernels.request import Request
from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Dot
from mirada.attention.transforms import each_gradient, transformed
from mirada.native.library import plain_gradients

FORWARD: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu", None)
BACKWARD: Any = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None)


def unavailable(x: Tensor) -> str | None:
    """Why the kernel that answers with a log-sum-exp cannot run here, if it cannot."""
    if FORWARD is None or BACKWARD is None or x.device.type != "cpu":
        return f"this PyTorch has no such kernel for {x.device.type}"
    return "its tiles have no rule for function transforms" if transformed() else None


@dataclass(frozen=True)
class Tile:
    """Queries rows against keys columns; `causal` counts both from the tile's corner; `mask` is added to the scores.

    `shift` is what is added to all scores of a query besides, (1, heads, queries). Of a trained bias, `trained` has the places
    it is taken from: for columns first, ..., last - 1 of the tile, the first query's and the first key's place; `level` is the
    one distance that stands for a whole tile.
    """

    rows: slice
    columns: slice | Tensor
    causal: bool = False
    mask: Tensor | None = None
    samples: slice = field(default_factory=lambda: slice(None))
    shift: Tensor | None = None
    trained: tuple[tuple[int, int, int, int], ...] = ()
    level: int | None = None

    def of(self, x: Tensor) -> Tensor:
        """The tile's part of what is there for each query."""
        return x[self.samples, :, self.rows]

    def of_keys(self, x: Tensor) -> Tensor:
        """The tile's part of what is there for each key."""
        x = x[self.samples]
        return x[:, :, self.columns] if isinstance(self.columns, slice) else x.index_select(2, self.columns)

    def add_to_keys(self, total: Tensor, part: Tensor) -> None:
        """Add the tile's part of a sum per key to the whole."""
        if isinstance(self.columns, slice):
            total[self.samples, :, self.columns] += part
        else:
            total[self.samples].index_add_(2, self.columns, part.to(total.dtype))


@dataclass(frozen=True)
class Tiling:
    """Tiles over one arrangement of the sequence.

    `arrange` brings (batch, heads, n, dim) into the form that the tiles cut, and `restore` brings gradients and outputs
    back; for keys it may be another pair. Rows of different tiles of a sample are distinct.
    """

    tiles: Callable[[], Iterator[Tile]]
    arrange: Callable[[Tensor], Tensor] = lambda x: x
    restore: Callable[[Tensor], Tensor] = lambda x: x
    arrange_keys: Callable[[Tensor], Tensor] | None = None
    restore_keys: Callable[[Tensor], Tensor] | None = None


def tiled(
    request: Request,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tilings: tuple[Tiling, ...],
    scale: float,
    bias: TileBias | None = None,
) -> Tensor:
    """Softmax attention over the union of several tilings, which must not list a pair twice.

    The `request` says the same with a neighborhood, for q, k and v at its places: a second derivative is computed from it. The
    tiles' masks were made from `bias`, which is given for its gradient.
    """
    values = None if bias is None else bias.values
    return _Tiled.apply(q, k, v, values, tilings, PlainMeaning(request, scale, bias))


class PlainMeaning:
    """What a kernel computes, as the reference computes it, for second derivatives. It keeps no queries, keys and values."""

    def __init__(self, request: Request, scale: float, bias: TileBias | None = None) -> None:
        self.bias = bias
        self.where, self.position, self.places, self.scale = request.where, request.position, request.places, scale
        self.versions = [version(x) for x in self.where.tensors()]

    def check_unchanged(self) -> None:
        """Raise a ValueError if a backward pass would see another neighborhood."""
        if [version(x) for x in self.where.tensors()] != self.versions:
            raise ValueError("lengths or documents of a neighborhood were changed in place before the backward pass")

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, values: Tensor | None = None) -> Tensor:
        position = self.position if values is None or self.bias is None else self.bias.fixed(values)
        request = Request(q, k, v, Dot(scale=self.scale), self.where, position, Softmax(), self.places)
        return Reference().run(request).output


class WholeTile(torch.autograd.Function):
    """One tile that is everything: what PyTorch's fused attention computes, with a second derivative."""

    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, meaning: PlainMeaning
    ) -> Tensor:
        """The output; the log-sum-exps are kept for the backward pass."""
        output, sums = FORWARD(q, k, v, 0.0, causal, attn_mask=mask, scale=meaning.scale)
        ctx.save_for_backward(q, k, v, output, sums, mask)
        ctx.causal, ctx.meaning = causal, meaning
        return output

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        """PyTorch's gradients; those of the reference where they are differentiated again."""
        q, k, v, output, sums, mask = ctx.saved_tensors
        if torch.is_grad_enabled():
            ctx.meaning.check_unchanged()
            return *plain_gradients(ctx.meaning, (q, k, v), ctx.needs_input_grad[:3], grad), None, None, None

        def gradients(grad: Tensor) -> tuple[Tensor, ...]:
            kept = q, k, v, output, sums
            return BACKWARD(_unit_stride(grad), *kept, 0.0, ctx.causal, attn_mask=mask, scale=ctx.meaning.scale)

        return *each_gradient(gradients, grad), None, None, None


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[no-untyped-def]
        ctx, q: Tensor, k: Tensor, v: Tensor, values: Tensor | None, tilings: tuple[Tiling, ...], meaning: PlainMeaning
    ) -> Tensor:
        """The output of each tiling, joined by the sums of their weights."""
        inputs, scale = (q, k, v, values), meaning.scale
        q, k, v = _unit_stride(q), _unit_stride(k), _unit_stride(v)
        parts = [run(tiling, q, k, v, scale, alone=len(tilings) == 1) for tiling in tilings]
        output, sums = parts[0] if len(parts) == 1 else join(parts)
        # what a level part of a trained bias took of the whole: its gradient needs no weights
        kept = parts if values is not None and values.requires_grad and len(parts) > 1 else []
        ctx.save_for_backward(*inputs, output, sums, *(x for part in kept for x in part))
        ctx.tilings, ctx.meaning = tilings, meaning
        return output

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        """The same tiles again, for the gradients."""
        q, k, v, values, output, sums, *kept = ctx.saved_tensors
        meaning: PlainMeaning = ctx.meaning
        meaning.check_unchanged()
        if torch.is_grad_enabled():
            return *plain_gradients(meaning, (q, k, v, values), ctx.needs_input_grad[:4], grad), None, None
        given = (_unit_stride(q), _unit_stride(k), _unit_stride(v), output, sums)
        trained = ctx.needs_input_grad[3]

        def gradients(grad: Tensor) -> tuple[Tensor, ...]:
            grad = _unit_stride(grad)
            parts = zip(*(_gradients(tiling, grad, *given, meaning.scale) for tiling in ctx.tilings), strict=True)
            found = tuple(sum(each[1:], each[0]).to(q.dtype) for each in parts)
            if not trained:
                return found
            total = torch.zeros_like(values)
            for place, tiling in enumerate(ctx.tilings):
                part = tuple(kept[2 * place : 2 * place + 2]) or (output, sums)
                _bias_gradient(total, meaning, tiling, grad, given, part)
            return *found, total

        each = each_gradient(gradients, grad)
        return *each[:3], each[3] if trained else None, None, None


def _bias_gradient(
    total: Tensor,
    meaning: PlainMeaning,
    tiling: Tiling,
    grad: Tensor,
    given: tuple[Tensor, ...],
    part: tuple[Tensor, ...],
) -> None:
    """Add what the tiles of a tiling say about the gradient of the bias; `part` is the tiling's own output and log-sum-exp."""
    assert meaning.bias is not None
    q, k, v, output, sums = given
    dtype = sums.dtype
    for tile in tiling.tiles():
        if tile.level is None and not tile.trained:
            continue
        here, own_sums = tile.of(grad).to(dtype), tile.of(sums).masked_fill(tile.of(sums) == -torch.inf, 0)
        mean = (here * tile.of(output)).sum(-1)
        if tile.level is not None:
            share = (tile.of(part[1]) - own_sums).exp()
            meaning.bias.collect_line(total, share * ((here * tile.of(part[0])).sum(-1) - mean), tile.level)
            continue
        assert tile.mask is not None
        shift = own_sums if tile.shift is None else own_sums - tile.shift
        scores = (tile.of(q).to(dtype) * meaning.scale) @ tile.of_keys(k).to(dtype).mT
        weights = scores.add_(tile.mask).sub_(shift.unsqueeze(-1)).exp_()
        d_scores = weights.mul_((here @ tile.of_keys(v).to(dtype).mT).sub_(mean.unsqueeze(-1)))
        own = total[tile.samples] if total.ndim == 4 and len(total) > 1 else total
        for begin, end, row, column in tile.trained:
            meaning.bias.collect(own, d_scores[..., begin:end], row, column)


def _unit_stride(x: Tensor) -> Tensor:
    """The kernel assumes that the coordinates of a vector are contiguous, and ignores the stride."""
    return x if x.stride(-1) == 1 else x.contiguous()


def run(tiling: Tiling, q: Tensor, k: Tensor, v: Tensor, scale: float, alone: bool) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp of one tiling, in the order of the sequence.

    Where a query sees nothing the log-sum-exp is -inf if it will be joined with others, and anything at all if it is alone.
    """
    arrange_keys = tiling.arrange_keys or tiling.arrange
    q, k, v = tiling.arrange(q), arrange_keys(k), arrange_keys(v)
    output = q.new_zeros(*q.shape[:3], v.shape[-1])
    sums = q.new_full(q.shape[:3], -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
    for tile in tiling.tiles():
        given = tile.of(q), tile.of_keys(k), tile.of_keys(v)
        tile_output, tile_sums = FORWARD(*given, 0.0, tile.causal, attn_mask=tile.mask, scale=scale)
        output[tile.samples, :, tile.rows] = tile_output
        tile_sums = tile_sums if tile.shift is None else tile_sums + tile.shift
        if tile.mask is not None and not alone:  # the kernel returns 0 for an empty row
            tile_sums = tile_sums.masked_fill(_empty_rows(tile.mask, tile.causal, tile_sums.shape[-1]), -torch.inf)
        sums[tile.samples, :, tile.rows] = tile_sums
    return tiling.restore(output), tiling.restore(sums.unsqueeze(-1)).squeeze(-1)


def _empty_rows(mask: Tensor, causal: bool, queries: int) -> Tensor:
    """The rows of a tile whose every key is masked."""
    hidden = mask == -torch.inf
    if causal:
        hidden = hidden | torch.ones(queries, mask.shape[-1], dtype=torch.bool, device=mask.device).triu(1)
    return hidden.all(-1)


def join(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """One softmax out of several over distinct keys: outputs weighted by their shares of the whole sum."""
    sums = torch.stack([part for _, part in parts])
    whole = torch.logsumexp(sums, 0)
    shares = (sums - whole.masked_fill(whole == -torch.inf, 0)).exp().unsqueeze(-1)
    output = torch.zeros_like(parts[0][0], dtype=shares.dtype)
    for share, (part, _) in zip(shares, parts, strict=True):
        output.addcmul_(part.to(shares.dtype), share)
    return output.to(parts[0][0].dtype), whole


def _gradients(
    tiling: Tiling, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, output: Tensor, sums: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What one tiling adds to the gradients of q, k and v."""
    arrange_keys = tiling.arrange_keys or tiling.arrange
    q, grad, output = (tiling.arrange(x) for x in (q, grad, output))
    sums = tiling.arrange(sums.masked_fill(sums == -torch.inf, 0).unsqueeze(-1)).squeeze(-1)
    k, v = arrange_keys(k), arrange_keys(v)
    # many tiles may add to one key, so low precision would lose the later ones
    precise = torch.promote_types(q.dtype, torch.float32)
    dq = torch.zeros_like(q, memory_format=torch.contiguous_format)
    dk, dv = (torch.zeros_like(x, memory_format=torch.contiguous_format, dtype=precise) for x in (k, v))
    for tile in tiling.tiles():
        own = tile.of(sums) if tile.shift is None else tile.of(sums) - tile.shift
        # the kernel expects the memory order of its own log-sum-exp: queries before heads
        own = own.transpose(1, 2).contiguous().transpose(1, 2)
        given = tile.of(grad), tile.of(q), tile.of_keys(k), tile.of_keys(v), tile.of(output), own
        dq[tile.samples, :, tile.rows], more_k, more_v = BACKWARD(
            *given, 0.0, tile.causal, attn_mask=tile.mask, scale=scale
        )
        tile.add_to_keys(dk, more_k)
        tile.add_to_keys(dv, more_v)
    restore_keys = tiling.restore_keys or tiling.restore
    return tiling.restore(dq), restore_keys(dk), restore_keys(dv)
