"""Norms: layer, RMS and batch. All take the mask of real places, because padding must not count in any statistic."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mirada.errors import require

Input = Float[Tensor, "*places width"]  # (batch, length, width), or (rows, width) of one place each
Real = Bool[Tensor, "*places"]


class Norm(nn.Module):
    """The interface: `norm(x, real)`, where `real` marks the places that are not padding (None: all are)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        require(width >= 1 and eps > 0, f"a norm needs width >= 1 and eps > 0: got width={width}, eps={eps}")
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Input, real: Real | None = None) -> Input:
        """x, normalized: each place by itself, or over the real places of the batch."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.width}, eps={self.eps:g}"


class LayerNorm(Norm):
    """Every place by itself: (x - mean) / sqrt(variance + eps) * weight + bias, over the width.

    Args:
        width: numbers in a vector.
        eps: what is added to the variance.
        bias: whether a trained vector is added.

    >>> LayerNorm(2, eps=1e-9)(torch.tensor([[[1.0, 3.0]]])).tolist()
    [[[-1.0, 1.0]]]

    Ba, Kiros and Hinton (2016), arXiv:1607.06450.
    """

    def __init__(self, width: int, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__(width, eps)
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Input, real: Real | None = None) -> Input:
        return F.layer_norm(x, (self.width,), self.weight, self.bias, self.eps)


class RMSNorm(Norm):
    """Every place by itself, without a mean: x / sqrt(mean of x^2 + eps) * weight.

    Args:
        width: numbers in a vector.
        eps: what is added to the mean square.

    >>> RMSNorm(2, eps=1e-9)(torch.tensor([[[3.0, 3.0]]])).tolist()
    [[[1.0, 1.0]]]

    Zhang and Sennrich (2019), arXiv:1910.07467.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__(width, eps)

    def forward(self, x: Input, real: Real | None = None) -> Input:
        return F.rms_norm(x, (self.width,), self.weight, self.eps)


class BatchNorm(Norm):
    """Every channel over all real places of the batch: (x - mean) / sqrt(variance + eps) * weight + bias.

    The variance divides by N - correction: 0 as everywhere in the field, 1 as the lectures write it. In evaluation the
    running averages stand in for the batch, so that a sample does not depend on its neighbors.

    Args:
        width: numbers in a vector.
        correction: 0 or 1.
        eps: what is added to the variance.
        momentum: how fast the running averages follow the batches.

    >>> BatchNorm(1, eps=1e-9)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]]))[0, :2, 0].tolist()
    [-1.0, 1.0]

    Ioffe and Szegedy (2015), arXiv:1502.03167.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, correction: int = 0, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(width, eps)
        require(correction in (0, 1), f"correction must be 0 or 1: got {correction}")
        self.correction, self.momentum = correction, momentum
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Input, real: Real | None = None) -> Input:
        mean, variance = self.mean, self.variance
        if self.training:
            rows = x.flatten(0, -2) if real is None else x[real]
            require(len(rows) > self.correction, f"batch norm needs more than {self.correction} real places in a batch")
            variance, mean = torch.var_mean(rows, 0, correction=self.correction)
            with torch.no_grad():
                unbiased = variance * (len(rows) - self.correction) / max(1, len(rows) - 1)
                self.mean.lerp_(mean.to(self.mean.dtype), self.momentum)
                self.variance.lerp_(unbiased.to(self.variance.dtype), self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias


class NoNorm(Norm):
    """Every place as it is: where a model has no norm, such as before the first attention of ModernBERT.

    Args:
        width: numbers in a vector.

    >>> NoNorm(2)(torch.tensor([[[1.0, 3.0]]])).tolist(), len(list(NoNorm(2).parameters()))
    ([[[1.0, 3.0]]], 0)
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1.0)
        self.register_parameter("weight", None)

    def forward(self, x: Input, real: Real | None = None) -> Input:
        return x

    def extra_repr(self) -> str:
        return f"{self.width}"


NORMS = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm}
