"""Rotating pairs of coordinates, forward and backward: the arithmetic of rotary positions."""

import torch
from torch import Tensor

from mirada.attention.transforms import each_gradient, transformed


class _Rotate(torch.autograd.Function):
    """Rotate coordinate pairs. A rotation's gradient is the rotation back, so nothing but the angles is kept."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
        return _rotate(x, cos, sin, layout)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        _, cos, sin, ctx.layout = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        cos, sin = ctx.saved_tensors
        [back] = each_gradient(lambda grad: (rotate_pairs(grad, cos, -sin, ctx.layout),), grad)
        return back, None, None, None


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """Coordinate pairs, rotated. Function transforms have rules for plain operations only, and so have exported programs."""
    if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled() and not transformed():
        return _rotate(x, cos, sin, layout)  # a fifth of a small model's decoding step is spent in calling a Function
    if not transformed() and not torch.compiler.is_exporting():
        return _Rotate.apply(x, cos, sin, layout)
    interleaved = layout == "interleaved"
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if interleaved else x.unflatten(-1, (2, -1)).unbind(-2)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1 if interleaved else -2).flatten(-2)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: str) -> Tensor:
    """(a, b) -> (a cos - b sin, b cos + a sin) for every pair, in as few passes over memory as eager mode allows.

    Raw views, not named rearranges: this is a measured hot path (`benchmarks/kernels.py`).
    """
    # a compiler cannot trace where a tensor lies, and fuses the plain form by itself
    adjacent = layout == "interleaved" and not torch.compiler.is_compiling() and x.stride(-1) == 1
    if adjacent and x.storage_offset() % 2 == 0 and all(stride % 2 == 0 for stride in x.stride()[:-1]):
        # pairs can be read as complex numbers without a copy
        rotated = x.new_empty(x.shape)  # head by head: the kernel that reads it next is faster for it
        pairs, rotated_pairs = (torch.view_as_complex(t.unflatten(-1, (-1, 2))) for t in (x, rotated))
        torch.mul(pairs, torch.complex(cos, sin), out=rotated_pairs)
        return rotated
    sizes, axis = ((-1, 2), -1) if layout == "interleaved" else ((2, -1), -2)
    pairs = x.unflatten(-1, sizes)
    rotated_pairs = pairs * cos.unsqueeze(axis)
    (a, b), (rotated_a, rotated_b) = pairs.unbind(axis), rotated_pairs.unbind(axis)
    rotated_a.addcmul_(b, sin, value=-1)
    rotated_b.addcmul_(a, sin)
    return rotated_pairs.flatten(-2)
