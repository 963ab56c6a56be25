"""Dropout that spends little on random numbers."""

import torch
from torch import Tensor, nn

from mirada.errors import require

STEPS = 256  # a random byte decides


class Dropout(nn.Module):
    """Zero numbers at random in training and scale the others up, so that the expectation stays.

    A random byte decides for each number, so the rate is a multiple of 1/256, the nearest to `rate`; the scale matches the
    rate in use. Eight bytes come from one draw of 64 bits: on a CPU that takes a tenth of the time of a draw per number.

    >>> Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    >>> sorted(set(Dropout(0.5)(torch.ones(1000)).tolist()))
    [0.0, 2.0]
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        require(0 <= rate < 1, f"dropout must lie in [0, 1): got {rate}")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        dropped = min(round(self.rate * STEPS), STEPS - 1)
        if not self.training or not dropped:
            return x
        return Drop.apply(x, random_bytes(x) >= dropped, STEPS / (STEPS - dropped))

    def extra_repr(self) -> str:
        return f"{self.rate}"


class Drop(torch.autograd.Function):
    """x * kept * scale. Of x nothing is kept for the backward pass but the mask."""

    @staticmethod
    def forward(ctx, x: Tensor, kept: Tensor, scale: float) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return (x * kept).mul_(scale)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[no-untyped-def]
        (kept,) = ctx.saved_tensors
        return Drop.apply(grad, kept, ctx.scale), None, None


def random_bytes(like: Tensor) -> Tensor:
    """A uniform byte for every number of a tensor."""
    words = torch.empty((like.numel() + 7) // 8, dtype=torch.int64, device=like.device).random_(-(2**63), None)
    return words.view(torch.uint8)[: like.numel()].view(like.shape)
