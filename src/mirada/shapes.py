"""Checks of ranks, dtypes and sizes, with errors that show the axes by name."""

import torch
from torch import Tensor

from mirada.errors import require

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
PLAIN = (Tensor, torch.nn.Parameter)


def show(tensor: Tensor) -> str:
    """The shape of a tensor as a plain tuple: `(2, 3, 5)`."""
    return str(tuple(tensor.shape))


def check_axes(name: str, tensor: Tensor, axes: str, **sizes: int) -> None:
    """Require one axis per word of `axes`, and the sizes of those named.

    >>> check_axes("x", torch.zeros(3, 5), "batch queries width")
    Traceback (most recent call last):
    ValueError: x must have the axes (batch queries width): got shape (3, 5)
    """
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor with the axes ({axes}): got {type(tensor).__name__}")
    if tensor.ndim != len(axes.split()):
        raise ValueError(f"{name} must have the axes ({axes}): got shape {show(tensor)}")
    for word, size in sizes.items():
        check_size(name, tensor, axes.split().index(word), word, size)


def check_floating(name: str, tensor: Tensor) -> None:
    """Require a real floating-point dtype."""
    if not tensor.is_floating_point():
        raise ValueError(f"{name} must hold floating-point numbers: got {tensor.dtype}. Embed or convert it first.")


def check_dtype(name: str, tensor: Tensor, like: Tensor) -> None:
    """Require the dtype of a layer's own parameters, unless autocast converts."""
    check_floating(name, tensor)
    if tensor.dtype != like.dtype and not autocasting(tensor.device):
        raise ValueError(f"{name} must have the layer's dtype {like.dtype}: got {tensor.dtype}. Convert one of them.")


def autocasting(device: torch.device) -> bool:
    """Whether autocast is enabled for a device; the meta device has none."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def check_integers(name: str, tensor: Tensor) -> None:
    """Require an integer dtype."""
    if tensor.dtype not in INTEGERS:
        raise ValueError(f"{name} must hold integers: got {tensor.dtype}")


def readable(*tensors: Tensor) -> bool:
    """Whether Python may read the numbers of tensors: to check them, or to leave out work that they make unnecessary.

    Not where there are none (the meta device, a program that is exported), where there are many in place of one (vmap), nor on a
    GPU, where reading waits for all that is queued: there, PyTorch's own operations say which number is wrong.

    >>> readable(torch.ones(2)), readable(torch.ones(2, device="meta"))
    (True, False)
    """
    if torch.compiler.is_exporting() or any(tensor.device.type != "cpu" for tensor in tensors):
        return False
    return torch.compiler.is_compiling() or not any(map(_batched, tensors))


def _batched(tensor: Tensor) -> bool:
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def check_size(name: str, tensor: Tensor, axis: int, word: str, size: int) -> None:
    """Require the size of one axis, named by `word`."""
    if tensor.shape[axis] != size:
        raise ValueError(f"{name} must have {word}={size}: got {word}={tensor.shape[axis]} in shape {show(tensor)}")


def check_pictures(pictures: Tensor, channels: int) -> None:
    """Require pictures of (batch, channels, height, width) with at least one pixel."""
    check_axes("pictures", pictures, "batch channels height width")
    check_floating("pictures", pictures)
    require(pictures.shape[1] == channels, f"pictures must have {channels} channels: got shape {show(pictures)}")
    require(min(pictures.shape[2:]) > 0, f"a picture needs at least one pixel: got shape {show(pictures)}")


def broadcast_heads(tensor: Tensor, heads: int) -> Tensor:
    """Repeat key or value heads for the query heads that share them: (batch, kv heads, ...) to (batch, heads, ...).

    Query head h reads head h // (heads / kv heads), as in other implementations of grouped-query attention.
    """
    if tensor.shape[1] == heads:
        return tensor
    if tensor.shape[1] == 1:
        return tensor.expand(-1, heads, -1, -1)
    times = heads // tensor.shape[1]
    if torch.compiler.is_exporting():  # the strides of the other one would fix the sizes of the program
        return tensor.index_select(1, torch.arange(heads, device=tensor.device) // times)
    return tensor.repeat_interleave(times, dim=1)


def finite(*tensors: Tensor) -> bool:
    """Whether one norm per tensor shows that all numbers are finite, and small enough that products of them are finite too.

    False may also mean unknown: it is computed only on a CPU and outside of tracing, where it costs no synchronization.
    """
    if torch.compiler.is_compiling() or any(type(x) not in PLAIN or x.device.type != "cpu" for x in tensors):
        return False
    try:
        with torch.no_grad():
            return all(bool(torch.linalg.vector_norm(x).isfinite()) for x in tensors)
    except RuntimeError:  # a tensor inside a function transform has no single answer
        return False
