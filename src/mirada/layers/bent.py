"""act(W x + b), the first half of a feed-forward layer: one product of matrices and one pass over its result."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.native import library
from mirada.native.linear_activation import KINDS, activate_, activate_backward


def gelu_tanh(x: Tensor) -> Tensor:
    """x times the normal distribution function, in the tanh approximation that GPT-2 was trained with."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
}


def bent(layer: nn.Linear, x: Tensor, activation: str) -> Tensor:
    """activation(layer(x)).

    >>> layer, x = nn.Linear(2, 1), torch.randn(5, 2)
    >>> bool((bent(layer, x, "relu") == torch.relu(layer(x))).all())
    True
    """
    if not serves(layer, x, activation):
        return ACTIVATIONS[activation](layer(x))
    return Bent.apply(x.flatten(0, -2), layer.weight, layer.bias, activation).unflatten(0, x.shape[:-1])


def serves(layer: nn.Linear, x: Tensor, activation: str) -> bool:
    """Whether the layer can be passed by: nobody watches it, and its numbers are the usual ones."""
    own = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    if type(layer) is not nn.Linear or own or everywhere._has_any_global_hook() or layer.bias is None:
        return False
    if activation not in KINDS or torch.is_autocast_enabled("cpu"):
        return False
    return library.serves(x, layer.weight, layer.bias) and x.ndim > 1


class Bent(torch.autograd.Function):
    """Kept for the backward pass: the input, and the product with its bias, or for relu its result."""

    @staticmethod
    def forward(ctx, rows, weight, bias, activation):  # type: ignore[no-untyped-def]
        h = rows @ weight.T
        y = activate_(h, bias, activation)
        ctx.save_for_backward(rows, weight, bias, h)
        ctx.activation = activation
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        rows, weight, bias, h = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        if not library.serves(grad) or torch.is_grad_enabled():  # many gradients at once, or those of gradients
            again = torch.is_grad_enabled()
            with torch.enable_grad():
                y = ACTIVATIONS[ctx.activation](F.linear(rows, weight, bias))
                wanted = [x for x, needed in zip((rows, weight, bias), needs, strict=True) if needed]
                found = iter(torch.autograd.grad(y, wanted, grad, create_graph=again))
            return *(next(found) if needed else None for needed in needs), None
        d, d_bias = activate_backward(grad, h, ctx.activation)
        return d @ weight if needs[0] else None, d.T @ rows if needs[1] else None, d_bias if needs[2] else None, None
