"""The feed-forward half of a Transformer block: the same small network at every place."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.errors import require, unknown
from mirada.layers.linear_activation import ACTIVATIONS, linear_activation
from mirada.native.products import called

Input = Float[Tensor, "*batch width"]


class FeedForward(nn.Module):
    """Widen, activate, narrow.

    h = W_2 act(W_1 x + b_1) + b_2, with act relu, gelu, gelu-tanh or silu

    >>> import torch
    >>> FeedForward(4, hidden=16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])

    Vaswani et al. (2017), arXiv:1706.03762, 3.3.
    """

    def __init__(self, width: int, hidden: int, activation: str = "relu") -> None:
        super().__init__()
        require(min(width, hidden) >= 1, f"sizes must be at least 1: got width={width}, hidden={hidden}")
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.widen = linear(width, hidden, bias=True)
        self.narrow = linear(hidden, width, bias=True)

    def forward(self, x: Input) -> Input:
        return called(self.narrow, linear_activation(self.widen, x, self.activation))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


class Gated(nn.Module):
    """A feed-forward layer in which one half opens and closes the other.

    h = W_2 (silu(W_1 x) * (V x)), without biases

    >>> import torch
    >>> Gated(4, hidden=16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])

    Shazeer (2020), arXiv:2002.05202.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        require(min(width, hidden) >= 1, f"sizes must be at least 1: got width={width}, hidden={hidden}")
        self.gate = linear(width, hidden, bias=False)
        self.widen = linear(width, hidden, bias=False)
        self.narrow = linear(hidden, width, bias=False)

    def forward(self, x: Input) -> Input:
        return called(self.narrow, F.silu(called(self.gate, x)) * called(self.widen, x))


def feed_forward(width: int, hidden: int, activation: str) -> FeedForward | Gated:
    """The feed-forward layer of that activation; "gated" is one of its own kind."""
    if activation == "gated":
        return Gated(width, hidden)
    if activation not in ACTIVATIONS:
        raise unknown("activation", activation, [*ACTIVATIONS, "gated"])
    return FeedForward(width, hidden, activation)
