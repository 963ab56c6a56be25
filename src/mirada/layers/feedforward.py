"""act(W x + b), the first half of a feed-forward layer: one product of matrices and one pass over its result."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.heads import linear
from mirada.errors import require, require_known
from mirada.native.library import plain_gradients, serves
from mirada.native.passes import KINDS, activate_, activate_backward
from mirada.native.products import called, product, untouched

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "gelu": F.gelu, "silu": F.silu}
ACTIVATIONS["gelu-tanh"] = partial(F.gelu, approximate="tanh")  # the approximation that GPT-2 was trained with
ACTIVATIONS["gelu-sigmoid"] = lambda x: x * torch.sigmoid(1.702 * x)  # the one of CLIP, which others call quick


def linear_activation(layer: nn.Module, x: Tensor, activation: str) -> Tensor:
    """activation(layer(x)).

    >>> layer, x = nn.Linear(2, 1), torch.randn(5, 2)
    >>> bool((linear_activation(layer, x, "relu") == torch.relu(layer(x))).all())
    True
    """
    if not replaceable(layer, x, activation):
        return ACTIVATIONS[activation](layer(x))
    return _LinearActivation.apply(x.flatten(0, -2), layer.weight, layer.bias, activation).unflatten(0, x.shape[:-1])


def replaceable(layer: nn.Module, x: Tensor, activation: str) -> bool:
    """Whether calling the layer would do nothing but W x + b on plain numbers: then C may do it in its place."""
    if type(layer) is not nn.Linear or not untouched(layer) or activation not in KINDS:
        return False
    weight, bias = layer._parameters.get("weight"), layer._parameters.get("bias")
    if weight is None or bias is None or torch.is_autocast_enabled("cpu"):
        return False
    fits = weight.ndim == 2 and bias.shape == weight.shape[:1] and x.ndim > 1 and x.shape[-1] == weight.shape[1]
    return fits and serves(x, weight, bias)


class _LinearActivation(torch.autograd.Function):
    """Kept for the backward pass: the input, and the product with its bias, or for relu its result."""

    @staticmethod
    def forward(ctx, rows, weight, bias, activation):  # type: ignore[no-untyped-def]
        h = product(rows, weight)
        y = activate_(h, bias, activation)
        ctx.save_for_backward(rows, weight, bias, h)
        ctx.activation = activation
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        rows, weight, bias, h = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if not serves(grad) or torch.is_grad_enabled():  # batched gradients, or gradients of gradients
            activation = ACTIVATIONS[ctx.activation]
            given = (rows, weight, bias), needs, grad
            return *plain_gradients(lambda *given: activation(F.linear(*given)), *given), None
        d, d_bias = activate_backward(grad, h, ctx.activation)
        d_rows = product(d, weight.T) if needs[0] else None
        return d_rows, product(d.T, rows.T) if needs[1] else None, d_bias if needs[2] else None, None


# The feed-forward half of a Transformer block: the same small network at every place.


Input = Float[Tensor, "*batch width"]


class FeedForward(nn.Module):
    """Widen, activate, narrow.

    h = W_2 act(W_1 x + b_1) + b_2, with act relu, gelu, gelu-tanh, gelu-sigmoid or silu

    Args:
        width: numbers in a vector.
        hidden: numbers in the hidden layer.
        activation: relu, gelu, gelu-tanh or silu.
        bias: whether there are b_1 and b_2.

    >>> import torch
    >>> FeedForward(4, hidden=16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])

    Vaswani et al. (2017), arXiv:1706.03762, 3.3.
    """

    def __init__(self, width: int, hidden: int, activation: str = "relu", bias: bool = True) -> None:
        super().__init__()
        require(min(width, hidden) >= 1, f"sizes must be at least 1: got width={width}, hidden={hidden}")
        require_known("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.widen = linear(width, hidden, bias)
        self.narrow = linear(hidden, width, bias)

    def forward(self, x: Input) -> Input:
        """The network at every place."""
        return called(self.narrow, linear_activation(self.widen, x, self.activation))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


class Gated(nn.Module):
    """A feed-forward layer in which one half opens and closes the other.

    h = W_2 (act(W_1 x) * (V x)), with act relu, gelu, gelu-tanh or silu; all three have a bias, or none has

    Args:
        width: numbers in a vector.
        hidden: numbers in the hidden layer.
        activation: relu, gelu, gelu-tanh or silu.
        bias: whether the three products have a bias.

    >>> import torch
    >>> Gated(4, hidden=16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])

    Shazeer (2020), arXiv:2002.05202.
    """

    def __init__(self, width: int, hidden: int, activation: str = "silu", bias: bool = False) -> None:
        super().__init__()
        require(min(width, hidden) >= 1, f"sizes must be at least 1: got width={width}, hidden={hidden}")
        require_known("activation", activation, ACTIVATIONS)
        self.activation = activation
        self.gate = linear(width, hidden, bias)
        self.widen = linear(width, hidden, bias)
        self.narrow = linear(hidden, width, bias)

    def forward(self, x: Input) -> Input:
        """The network at every place."""
        return called(self.narrow, ACTIVATIONS[self.activation](called(self.gate, x)) * called(self.widen, x))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


def feed_forward(width: int, hidden: int, word: str) -> FeedForward | Gated:
    """The feed-forward layer that a word describes: an activation, or `gated` with one; then whether it has biases.

    >>> feed_forward(4, 16, "gelu:bias=no").widen.bias is None
    True
    >>> feed_forward(4, 16, "gated:gelu-tanh,bias=yes")
    Gated(
      activation='gelu-tanh'
      ...
    """
    name, colon, rest = word.partition(":")
    arguments = rest.split(",") if colon else []
    layer: type[FeedForward | Gated] = Gated if name == "gated" else FeedForward
    if layer is Gated:
        name = arguments.pop(0) if arguments and "=" not in arguments[0] else "silu"
    require_known("activation", name, ACTIVATIONS if layer is Gated else [*ACTIVATIONS, "gated"])
    biases = {"bias=yes": True, "bias=no": False}
    fits = len(arguments) <= 1 and all(argument in biases for argument in arguments)
    require(fits, f"activation {word!r} does not fit: for example 'gelu', 'gelu:bias=no', 'gated:gelu-tanh,bias=yes'")
    return layer(width, hidden, name, *(biases[argument] for argument in arguments))
