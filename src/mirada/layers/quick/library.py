"""The library of `step.c`, compiled on first use where there is a C compiler, as that of the graph kernels is.

It shares PyTorch's own threads: both use the OpenMP that is loaded already. Where that cannot be had it works on one.
"""

import ctypes
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mirada.native.build import load

SOURCE = Path(__file__).with_name("step.c")
WORTH_A_THREAD = 2**19  # multiplications that outweigh sharing them


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None without a compiler, without a folder to keep it in, or with `MIRADA_NATIVE=0`."""
    found = load(SOURCE, "-fopenmp") or load(SOURCE)
    return None if found is None else described(found)


def described(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """The library, with what its functions take and give."""
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    loaded.panel.restype = loaded.phases.restype = loaded.step.restype = number
    loaded.phases.argtypes = [number]
    loaded.step.argtypes = [pointer]
    loaded.product.argtypes = [number, number, number, number, pointer, pointer, pointer]
    loaded.enlarge.argtypes = [pointer, number]
    loaded.product.restype = loaded.enlarge.restype = None
    loaded.sample.argtypes = [pointer, pointer, number]
    loaded.sample.restype = ctypes.c_uint64
    return loaded


def serves(x: Tensor) -> bool:
    """Whether the library can work on this tensor."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and library() is not None


def loaded() -> ctypes.CDLL:
    """The library, where `serves` said that there is one."""
    found = library()
    assert found is not None
    return found


@cache
def panel() -> int:
    """How many columns of a matrix stand together: it depends on the processor."""
    return loaded().panel()


def threads_for(multiplications: int) -> int:
    """How many threads a piece of work is worth."""
    return max(1, min(torch.get_num_threads(), multiplications // WORTH_A_THREAD))


def addresses(tensors: list[Tensor]) -> ctypes.Array:
    """Where the tensors lie, for C. They must outlive it."""
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


def address(tensor: Tensor | None) -> int | None:
    """Where a tensor lies; None is the null pointer."""
    return None if tensor is None else tensor.data_ptr()
