"""Dropout as a layer."""

from torch import Tensor, nn

from mirada.attention.dropout import dropout
from mirada.errors import require


class Dropout(nn.Module):
    """Zero numbers at random in training and scale the others up; see `attention/dropout.py` for how the rate is rounded.

    What is given as `base` is added to that: base + dropout(x).

    >>> import torch
    >>> Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        require(0 <= rate < 1, f"dropout must lie in [0, 1): got {rate}")
        self.rate = rate

    def forward(self, x: Tensor, base: Tensor | None = None) -> Tensor:
        """x, with numbers dropped in training, and `base` added where there is one."""
        if self.training:
            return dropout(x, self.rate, base)
        return x if base is None else base + x

    def extra_repr(self) -> str:
        return f"{self.rate}"
