"""Passes over memory, each one call of C: dropout, cross-entropy with its gradient, and an activation with its bias.

Float32 on a CPU (`dropout.c`, `cross_entropy.c`, `linear_activation.c`).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for
from mirada.native.structures import ACTIVATIONS

WORK = 16  # multiplications that take as long as reading and writing a number
KINDS = ACTIVATIONS[:3]  # silu is used by decoding only


def dropout(x: Tensor, base: Tensor | None, seed: int, dropped: int, scale: float) -> Tensor:
    """x with numbers zeroed with probability `dropped` / 256 and the others scaled; a base of the same shape is added.

    The same seed zeroes the same numbers.
    """
    x, base = x.contiguous(), None if base is None else base.contiguous()
    check("x", x, x.shape, torch.float32)
    if base is not None:
        check("base", base, x.shape, torch.float32)
    output = torch.empty_like(x)
    threads = threads_for(WORK * x.numel())
    loaded().dropout(x.numel(), x.data_ptr(), address(base), output.data_ptr(), seed, dropped, scale, threads)
    return output


def cross_entropy_backward_(
    logits: Float[Tensor, "n vocab"], bias: Float[Tensor, " vocab"] | None, targets: Int[Tensor, " n"], smoothing: float
) -> Float[Tensor, " n"]:
    """The cross-entropy of logits + bias for every row, in float64; the logits become its gradient.

    The targets must lie in 0..vocab - 1: C looks them up.
    """
    rows, vocab = logits.shape
    bias, targets = None if bias is None else bias.contiguous(), targets.contiguous()
    check("logits", logits, (rows, vocab), torch.float32)
    check("targets", targets, (rows,), torch.int64)
    if bias is not None:
        check("bias", bias, (vocab,), torch.float32)
    losses = logits.new_empty(rows, dtype=torch.float64)
    arguments = logits.data_ptr(), address(bias), targets.data_ptr(), smoothing, losses.data_ptr()
    loaded().cross_entropy(rows, vocab, *arguments, threads_for(WORK * logits.numel()))
    return losses


def activate_(h: Float[Tensor, "n width"], bias: Float[Tensor, " width"], kind: str) -> Float[Tensor, "n width"]:
    """act(h + bias), with act one of `KINDS`; h becomes the input of `activate_backward`."""
    bias = bias.contiguous()
    check("h", h, h.shape, torch.float32)
    check("bias", bias, h.shape[1:], torch.float32)
    output = h if kind == "relu" else torch.empty_like(h)
    arguments = h.data_ptr(), bias.data_ptr(), output.data_ptr()
    loaded().linear_activation(KINDS.index(kind), *h.shape, *arguments, threads_for(WORK * h.numel()))
    return output


def activate_backward(
    grad: Float[Tensor, "n width"], h: Float[Tensor, "n width"], kind: str
) -> tuple[Float[Tensor, "n width"], Float[Tensor, " width"]]:
    """The gradient before the activation, from the one after it, and its sum over the rows."""
    grad, threads = grad.contiguous(), threads_for(WORK * h.numel())
    check("h", h, h.shape, torch.float32)
    check("gradient", grad, h.shape, torch.float32)
    d_h, sums = torch.empty_like(h), h.new_zeros(threads, h.shape[1])
    arguments = grad.data_ptr(), h.data_ptr(), d_h.data_ptr(), sums.data_ptr()
    loaded().linear_activation_backward(KINDS.index(kind), *h.shape, *arguments, threads)
    return d_h, sums.sum(0)
