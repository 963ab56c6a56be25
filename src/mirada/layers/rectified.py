"""relu(W x + b), the first half of the usual feed-forward layer: one product of matrices and one pass over its result."""

import torch
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.native import passes


def serves(layer: nn.Linear, x: Tensor) -> bool:
    """Whether the layer can be passed by: nobody watches it, and its numbers are the usual ones."""
    own = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    if type(layer) is not nn.Linear or own or everywhere._has_any_global_hook() or layer.bias is None:
        return False
    return not torch.is_autocast_enabled("cpu") and passes.serves(x, layer.weight, layer.bias) and x.ndim > 1


def rectified(layer: nn.Linear, x: Tensor) -> Tensor:
    """relu(layer(x)).

    >>> layer = nn.Linear(2, 1)
    >>> x = torch.randn(5, 2)
    >>> bool((rectified(layer, x) == torch.relu(layer(x))).all())
    True
    """
    if not serves(layer, x):
        return torch.relu(layer(x))
    return Rectified.apply(x.flatten(0, -2), layer.weight, layer.bias).unflatten(0, x.shape[:-1])


class Rectified(torch.autograd.Function):
    """Kept for the backward pass: the input and the result, which tells where the slope goes on."""

    @staticmethod
    def forward(ctx, rows, weight, bias):  # type: ignore[no-untyped-def]
        h = rows @ weight.T
        passes.rectify_(h, bias)
        ctx.save_for_backward(rows, weight, h)
        return h

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        rows, weight, h = ctx.saved_tensors
        if passes.serves(grad) and not torch.is_grad_enabled():
            d, d_bias = passes.rectify_slope(grad, h)
        else:  # a gradient of the gradient, or many of them at once
            d = grad * (h > 0)
            d_bias = d.sum(0)
        needs_rows, needs_weight, needs_bias = ctx.needs_input_grad
        return d @ weight if needs_rows else None, d.T @ rows if needs_weight else None, d_bias if needs_bias else None
