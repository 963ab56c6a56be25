"""The cross-entropy and its gradient in one pass over the logits (`cross_entropy.c`)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, loaded, threads_for

WORK = 16  # multiplications that a logit's way through memory is worth


def cross_entropy_backward_(
    logits: Float[Tensor, "n vocab"], bias: Float[Tensor, " vocab"] | None, targets: Int[Tensor, " n"], smoothing: float
) -> Float[Tensor, " n"]:
    """The cross-entropy of logits + bias for every row, in float64; the logits become its gradient."""
    rows, vocab = logits.shape
    bias, targets = None if bias is None else bias.contiguous(), targets.contiguous()
    losses = torch.empty(rows, dtype=torch.float64)
    given = logits.data_ptr(), address(bias), targets.data_ptr(), smoothing, losses.data_ptr()
    loaded().cross_entropy(rows, vocab, *given, threads_for(WORK * logits.numel()))
    return losses
