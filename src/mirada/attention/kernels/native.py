"""The C library of the graph kernels. Work is shared among threads by ranges of rows."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from mirada.native.library import library

STEPS_PER_THREAD = 2**22  # multiplications that outweigh handing work to a thread
REALS = {torch.float32: "float", torch.float64: "double"}


def serves(x: Tensor) -> bool:
    """Whether the library can work on this tensor: on a CPU, and not while a graph is traced, which has no memory yet."""
    return not torch.compiler.is_compiling() and x.device.type == "cpu" and library() is not None


def as_c(value: int | Tensor | None) -> ctypes.c_int64 | ctypes.c_void_p:
    """A number as it is, a tensor as the place where it lies, None as a null pointer."""
    if isinstance(value, int):
        return ctypes.c_int64(value)
    return ctypes.c_void_p(None if value is None else value.data_ptr())


@cache
def workers(count: int) -> ThreadPoolExecutor:
    """Threads that wait for work: starting some for every call would cost more than a small graph does."""
    return ThreadPoolExecutor(count, thread_name_prefix="mirada")


def in_parallel(name: str, rows: int, steps: int, *arguments: int | Tensor | None) -> None:
    """Call `name(first, last, ...)` on ranges of rows, one per thread if the `steps` of the whole are worth several.

    Tensors must be contiguous, of int64 and of one real dtype: C reads them as they are.
    """
    loaded = library()
    assert loaded is not None
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    reals = {x.dtype for x in tensors if x.is_floating_point()}
    whole = all(x.is_floating_point() or x.dtype == torch.int64 for x in tensors)
    if len(reals) != 1 or not reals <= set(REALS) or not whole or not all(x.is_contiguous() for x in tensors):
        raise ValueError(
            f"{name} needs contiguous tensors of int64 and one real dtype: got {[x.dtype for x in tensors]}"
        )
    real = REALS[reals.pop()]
    function = getattr(loaded, f"{name}_{real}")
    passed = [as_c(x) for x in arguments]
    parts = max(1, min(torch.get_num_threads(), rows, steps // STEPS_PER_THREAD))
    bounds = [rows * part // parts for part in range(parts + 1)]

    def call(span: tuple[int, int]) -> None:
        function(ctypes.c_int64(span[0]), ctypes.c_int64(span[1]), *passed)

    if parts == 1:
        call((0, rows))
    else:
        list(workers(parts).map(call, pairwise(bounds)))
