"""The library of all C files: whether it is available, why not, and which tensors it takes. It is optional, and only faster.

`MIRADA_NATIVE=0` turns it off, `MIRADA_NATIVE=x86-64-v3` (or another name of variants.py) chooses a variant. It shares
PyTorch's threads: both use the OpenMP that is already loaded.
"""

import ctypes
import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from mirada.native.build import INSTALLED, BuildRecipe, NotBuiltError, build, candidates
from mirada.native.structures import DecodeStep, RecurrentStep, ShortAttention, layout
from mirada.native.variants import chosen

WORTH_A_THREAD = 2**19  # multiplications per thread from which sharing the work pays
PLAIN = (Tensor, nn.Parameter)

_number, _bits, _pointer = ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
_float, _double = ctypes.c_float, ctypes.c_double
SIGNATURES: dict[str, tuple[type | None, list[type]]] = {  # the result and the arguments of each function
    "dropout": (None, [_number, _pointer, _pointer, _pointer, _bits, _number, _float, _number]),
    "cross_entropy": (None, [_number, _number, _pointer, _pointer, _pointer, _double, _pointer, _number]),
    "linear_activation": (None, [_number, _number, _number, _pointer, _pointer, _pointer, _number]),
    "linear_activation_backward": (None, [_number, _number, _number, _pointer, _pointer, _pointer, _pointer, _number]),
    "short_forward": (None, [_pointer]),
    "short_backward": (None, [_pointer]),
    "decode_panel": (_number, []),
    "decode_phases": (_number, [_number]),
    "decode_byte_room": (_number, [_number]),
    "decode_step": (_number, [_pointer]),
    "decode_product": (None, [_number, _number, _number, _number, _pointer, _pointer, _pointer]),
    "decode_forget": (None, []),
    "recurrent_step": (_number, [_pointer]),
    "recurrent_phases": (_number, [_number]),
    "enlarge": (None, [_pointer, _number]),
    "checksum": (_bits, [_pointer, _pointer, _number, _number]),
    **{
        f"{name}_{real}": (None, [*[_number] * 3, *[_pointer] * pointers, _number])
        for name, pointers in (("edges_forward", 8), ("edges_score_gradient", 8), ("edges_value_gradient", 7))
        for real in ("float", "double")
    },
    "decode_layout": (_number, [_pointer]),
    "recurrent_layout": (_number, [_pointer]),
    "short_layout": (_number, [_pointer]),
}
LAYOUTS = {"decode_layout": DecodeStep, "recurrent_layout": RecurrentStep, "short_layout": ShortAttention}


class FoundLibrary(NamedTuple):
    """The library, or why there is none."""

    library: ctypes.CDLL | None
    reason: str | None
    built: tuple[BuildRecipe, Path] | None = None


def search() -> FoundLibrary:
    """Load the library that was installed, or build one if necessary: with threads, otherwise without."""
    reason: str | None = None
    try:
        for plan, path in candidates():
            try:
                path = path or build(plan)
                return FoundLibrary(declared(ctypes.CDLL(str(path))), None, (plan, path))
            except OSError as failed:
                reason = reason or f"the library could not be loaded: {failed}"
            except NotBuiltError as failed:
                reason = reason or str(failed)
    except NotBuiltError as missing:
        reason = reason or str(missing)
    return FoundLibrary(None, reason)


def declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library, with the signatures of its functions."""
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    for name, structure in LAYOUTS.items():
        report = getattr(loaded, name)
        offsets = (ctypes.c_int64 * report(None))()
        report(offsets)
        if list(offsets) != layout(structure):
            raise AssertionError(f"{structure.__name__} differs from that of C: {layout(structure)}, C {list(offsets)}")
    return loaded


_once = Lock()


@cache
def search_once() -> FoundLibrary:
    """The result of `search`, which runs once. Where nobody chose to have no library, it says so."""
    with _once:
        there = search()
        if there.library is None and chosen() != "0":
            logging.getLogger("mirada").warning("mirada computes in plain PyTorch, which is slower: %s", there.reason)
        return there


def library() -> ctypes.CDLL | None:
    """The compiled library; None if there is none (`reason` says why)."""
    return search_once().library


def reason() -> str | None:
    """Why there is no library; None if there is one."""
    return search_once().reason


def describe() -> str:
    """The compiler, its flags and the path of the library; or why there is none."""
    there = search_once()
    if there.built is None:
        return f"not compiled: {there.reason}. PyTorch computes the same, in more time"
    plan, path = there.built
    kept = "installed" if path.parent == INSTALLED else "kept"
    return (
        f"compiled by {plan.compiler} ({plan.version})\n  for {plan.variant}: {' '.join(plan.flags)}, {kept} as {path}"
    )


def identity() -> str:
    """A word for what decides the numbers: it differs where C was compiled from something else, or not at all."""
    there = search_once()
    return "plain" if there.built is None else f"{there.built[0].variant}-{there.built[0].key}"


def loaded() -> ctypes.CDLL:
    """The library, after `serves` returned True."""
    there = library()
    assert there is not None, reason()
    return there


def serves(*tensors: Tensor, dtypes: Sequence[torch.dtype] = (torch.float32,)) -> bool:
    """Whether C takes these tensors: plain ones on a CPU, of one of these dtypes, and not while they are traced."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return False  # C computes numbers only, without tangents and batching rules
    return all(_usual(x, dtypes) for x in tensors) and library() is not None


def plain_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor | None], needs: Sequence[bool], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of function(*inputs), which consists of PyTorch's operations: they may be differentiated again.

    A backward pass of ours ends here where its own numbers would not do: while gradients are on (`create_graph`), or
    for a batch of gradients. An input may have been computed from another, as when a weight is used twice: each is a
    variable of its own.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> plain_gradients(lambda x, y: x * y, (x, 2 * x), (True, False), torch.tensor(1.0))
    (tensor(6., grad_fn=<MulBackward0>), None)
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [
            x if not needed or x is None else x.view_as(x) if again else x.detach().requires_grad_()
            for x, needed in zip(inputs, needs, strict=True)
        ]
        wanted = [x for x, needed in zip(own, needs, strict=True) if needed]
        gradients = iter(torch.autograd.grad(function(*own), wanted, grad, create_graph=again))  # type: ignore[arg-type]
    return tuple(next(gradients) if needed else None for needed in needs)


def _usual(x: Tensor, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether C can read the memory of this tensor."""
    there = type(x) in PLAIN and x.device.type == "cpu" and torch._C._has_storage(x) and not x._is_zerotensor()
    return there and x.dtype in dtypes and not x.is_neg() and not x.is_conj()


def threads_for(work: int) -> int:
    """How many threads to use for that many multiplications."""
    return max(1, min(torch.get_num_threads(), work // WORTH_A_THREAD))


def address(tensor: Tensor | None) -> int | None:
    """The address of a tensor; None is the null pointer."""
    return None if tensor is None else tensor.data_ptr()


def addresses(tensors: Sequence[Tensor]) -> ctypes.Array:
    """The addresses of tensors, for C. The tensors must outlive the array."""
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def check(name: str, x: Tensor, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Require a contiguous tensor of that shape and dtype on a CPU, as C reads it."""
    if tuple(x.shape) != tuple(shape) or x.dtype != dtype or x.device.type != "cpu" or not x.is_contiguous():
        raise ValueError(
            f"{name} must be a contiguous {tuple(shape)} of {dtype} on a CPU: got {tuple(x.shape)} of {x.dtype} on {x.device}"
            f"{'' if x.is_contiguous() else ', not contiguous'}"
        )
