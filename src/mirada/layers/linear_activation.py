"""act(W x + b), the first half of a feed-forward layer: one product of matrices and one pass over its result."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mirada.native.library import serves
from mirada.native.linear_activation import KINDS, activate_, activate_backward
from mirada.native.products import product, untouched


def gelu_tanh(x: Tensor) -> Tensor:
    """x times the normal distribution function, in the tanh approximation that GPT-2 was trained with."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
}


def linear_activation(layer: nn.Module, x: Tensor, activation: str) -> Tensor:
    """activation(layer(x)).

    >>> layer, x = nn.Linear(2, 1), torch.randn(5, 2)
    >>> bool((linear_activation(layer, x, "relu") == torch.relu(layer(x))).all())
    True
    """
    if not replaceable(layer, x, activation):
        return ACTIVATIONS[activation](layer(x))
    rows = x.flatten(0, -2)
    return LinearActivation.apply(rows, layer.weight, layer.bias, activation).unflatten(0, x.shape[:-1])


def replaceable(layer: nn.Module, x: Tensor, activation: str) -> bool:
    """Whether calling the layer would do nothing but W x + b on plain numbers: then C may do it in its place."""
    if type(layer) is not nn.Linear or not untouched(layer) or activation not in KINDS:
        return False
    weight, bias = layer._parameters.get("weight"), layer._parameters.get("bias")
    if weight is None or bias is None or torch.is_autocast_enabled("cpu"):
        return False
    fits = weight.ndim == 2 and bias.shape == weight.shape[:1] and x.ndim > 1 and x.shape[-1] == weight.shape[1]
    return fits and serves(x, weight, bias)


class LinearActivation(torch.autograd.Function):
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
        if not serves(grad) or torch.is_grad_enabled():  # many gradients at once, or those of gradients
            again = torch.is_grad_enabled()
            with torch.enable_grad():
                y = ACTIVATIONS[ctx.activation](F.linear(rows, weight, bias))
                wanted = [x for x, needed in zip((rows, weight, bias), needs, strict=True) if needed]
                found = iter(torch.autograd.grad(y, wanted, grad, create_graph=again))
            return *(next(found) if needed else None for needed in needs), None
        d, d_bias = activate_backward(grad, h, ctx.activation)
        return (
            product(d, weight.T) if needs[0] else None, product(d.T, rows.T) if needs[1] else None,
            d_bias if needs[2] else None, None,
        )  # fmt: skip
