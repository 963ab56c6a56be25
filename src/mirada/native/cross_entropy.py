"""The cross-entropy and its gradient in one pass over the logits (`cross_entropy.c`)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for

WORK = 16  # multiplications that a logit's way through memory is worth


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
    given = logits.data_ptr(), address(bias), targets.data_ptr(), smoothing, losses.data_ptr()
    loaded().cross_entropy(rows, vocab, *given, threads_for(WORK * logits.numel()))
    return losses
