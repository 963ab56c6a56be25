"""act(h + bias), forward and backward, each in one pass over memory (`linear_activation.c`)."""

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.native.library import check, loaded, threads_for
from mirada.native.structures import ACTIVATIONS

WORK = 16  # multiplications that a number's way through memory is worth
KINDS = ACTIVATIONS[:3]  # silu is used by decoding only


def activate_(h: Float[Tensor, "n width"], bias: Float[Tensor, " width"], kind: str) -> Float[Tensor, "n width"]:
    """act(h + bias), with act one of `KINDS`; h becomes what `activate_backward` wants of it."""
    bias = bias.contiguous()
    check("h", h, h.shape, torch.float32)
    check("bias", bias, h.shape[1:], torch.float32)
    made = h if kind == "relu" else torch.empty_like(h)
    given = h.data_ptr(), bias.data_ptr(), made.data_ptr()
    loaded().linear_activation(KINDS.index(kind), *h.shape, *given, threads_for(WORK * h.numel()))
    return made


def activate_backward(
    grad: Float[Tensor, "n width"], h: Float[Tensor, "n width"], kind: str
) -> tuple[Float[Tensor, "n width"], Float[Tensor, " width"]]:
    """The gradient before the activation, from that after it, and its sum over the rows."""
    grad, threads = grad.contiguous(), threads_for(WORK * h.numel())
    check("h", h, h.shape, torch.float32)
    check("gradient", grad, h.shape, torch.float32)
    d_h, sums = torch.empty_like(h), h.new_zeros(threads, h.shape[1])
    given = grad.data_ptr(), h.data_ptr(), d_h.data_ptr(), sums.data_ptr()
    loaded().linear_activation_backward(KINDS.index(kind), *h.shape, *given, threads)
    return d_h, sums.sum(0)
