"""Matrix products by oneDNN where MKL is slower: on AMD processors MKL uses only half of AVX-512.

Both are part of PyTorch. Small products stay with MKL: calling oneDNN costs more than they do.
"""

from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from mirada.native.library import plain_gradients, serves

LEAST = 2**20  # multiplications from which oneDNN pays
LINEAR_FORWARD = nn.Linear.forward  # at import: other code may replace it


def product(a: Float[Tensor, "rows depth"], b: Float[Tensor, "columns depth"]) -> Float[Tensor, "rows columns"]:
    """a b^T; either may be a transposed view.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])).item()
    11.0
    """
    if a.shape[0] * a.shape[1] * b.shape[0] < LEAST or not faster():
        return a @ b.T
    return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")


def called(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x); for a plain linear layer without hooks, on many rows, one product of oneDNN, forward and backward.

    >>> layer, x = nn.Linear(2, 3), torch.randn(5, 2)
    >>> bool((called(layer, x) == layer(x)).all())
    True
    """
    plain = type(layer) is nn.Linear and not torch.compiler.is_compiling()
    if not plain or x.numel() * layer.out_features < LEAST or not faster():  # type: ignore[operator]
        return layer(x)
    weight, bias = layer._parameters.get("weight"), layer._parameters.get("bias")
    tensors = [x, weight] if bias is None else [x, weight, bias]
    fits = x.ndim > 1 and weight is not None and x.shape[-1] == weight.shape[1] and untouched(layer)
    if not fits or torch.is_autocast_enabled("cpu") or not serves(*tensors):  # type: ignore[arg-type]
        return layer(x)
    return _LinearProduct.apply(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])


@cache
def faster() -> bool:
    """Whether oneDNN is available and MKL is slower."""
    try:
        amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
        if not amd or torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
            return False
        a, b = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)
        return torch.equal(torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], ""), a @ b.T)
    except (OSError, AttributeError, RuntimeError):  # not Linux, another PyTorch
        return False


def untouched(layer: nn.Module) -> bool:
    """Whether a linear layer runs the forward of its class: no hooks, and no method or weight replaced on the instance."""
    hooks = layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks
    if nn.Linear.forward is not LINEAR_FORWARD:
        return False
    names = ("forward", "__call__", "_call_impl", "_slow_forward", "weight", "bias", "_compiled_call_impl")
    overridden = any(vars(layer).get(name) is not None for name in names)
    return not hooks and not overridden and not everywhere._has_any_global_hook()


class _LinearProduct(torch.autograd.Function):
    """x W^T + b."""

    @staticmethod
    def forward(ctx, rows, weight, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(rows, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        rows, weight, bias = ctx.saved_tensors
        if not serves(grad) or torch.is_grad_enabled():  # batched gradients, or gradients of gradients
            return plain_gradients(F.linear, (rows, weight, bias), ctx.needs_input_grad, grad)
        x, w, b = ctx.needs_input_grad
        return (
            product(grad, weight.T) if x else None, product(grad.T, rows.T) if w else None, grad.sum(0) if b else None,
        )  # fmt: skip
