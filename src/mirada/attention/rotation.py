"""Turning pairs of coordinates by an angle, forward and backward: the arithmetic of rotary positions."""

from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.attention.transforms import each_gradient, transformed


class Turn(torch.autograd.Function):
    """Rotate coordinate pairs. A rotation's gradient is the rotation back, so nothing but the angles is kept."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
        return turn(x, cos, sin, layout)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        _, cos, sin, ctx.layout = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        cos, sin = ctx.saved_tensors
        [back] = each_gradient(lambda grad: (turned(grad, cos, -sin, ctx.layout),), grad)
        return back, None, None, None


def turned(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Coordinate pairs, rotated. Function transforms have rules for plain operations only."""
    if not transformed():
        return Turn.apply(x, cos, sin, layout)
    interleaved = layout == "interleaved"
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1 if interleaved else -2).flatten(-2)


def turn(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """(a, b) -> (a cos - b sin, b cos + a sin) for every pair, in as few passes over memory as eager mode allows.

    Raw views, not named rearranges: this is a measured hot path (`benchmarks/kernels.py`).
    """
    if layout == "interleaved" and complex_in_place(x):
        turned = x.new_empty(x.shape)  # head by head: the kernel that reads it next is faster for it
        pairs, turned_pairs = (torch.view_as_complex(t.unflatten(-1, (-1, 2))) for t in (x, turned))
        torch.mul(pairs, torch.complex(cos, sin), out=turned_pairs)
        return turned
    sizes, axis = ((-1, 2), -1) if layout == "interleaved" else ((2, -1), -2)
    pairs = x.unflatten(-1, sizes)
    turned_pairs = pairs * cos.unsqueeze(axis)
    (a, b), (turned_a, turned_b) = pairs.unbind(axis), turned_pairs.unbind(axis)
    turned_a.addcmul_(b, sin, value=-1)
    turned_b.addcmul_(a, sin)
    return turned_pairs.flatten(-2)


def angles(positions: Tensor, dim: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position and pair, with an axis for the heads if positions differ between samples."""
    turns = positions.unsqueeze(-1) * frequencies(dim // 2, dim, base, positions.device)
    turns = turns if turns.ndim == 2 else turns.unsqueeze(1)
    return turns.cos().to(dtype), turns.sin().to(dtype)


@lru_cache(maxsize=16)
def counted_angles(
    positions: range, dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The angles of counted positions, kept: queries, keys and all layers of a model share them."""
    with torch.inference_mode(False):  # what is kept must serve a later training step too
        return angles(torch.arange(positions.start, positions.stop, device=device), dim, base, dtype)


def complex_in_place(x: Tensor) -> bool:
    """Whether pairs of neighboring coordinates can be read as complex numbers without a copy."""
    if torch.compiler.is_compiling():
        return False  # a compiler cannot trace where a tensor lies, and fuses the plain form by itself
    return x.stride(-1) == 1 and x.storage_offset() % 2 == 0 and all(s % 2 == 0 for s in x.stride()[:-1])


def frequencies(pairs: int, width: int, base: float, device: torch.device) -> Float[Tensor, " pairs"]:
    """base^(-2m / width) for m = 0, 1, ..., in float64: an error here grows with the position."""
    return base ** (-2 * torch.arange(pairs, dtype=torch.float64, device=device) / width)
