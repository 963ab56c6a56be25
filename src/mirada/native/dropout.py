"""Dropout in one pass over memory (`dropout.c`)."""

import torch
from torch import Tensor

from mirada.native.library import address, check, loaded, threads_for

WORK = 16  # multiplications that a number's way through memory is worth


def dropout(x: Tensor, base: Tensor | None, seed: int, dropped: int, scale: float) -> Tensor:
    """x with numbers zeroed, with a chance of `dropped` in 256, and the others scaled; a base of the same shape is added.

    The same seed zeroes the same numbers.
    """
    x, base = x.contiguous(), None if base is None else base.contiguous()
    check("x", x, x.shape, torch.float32)
    if base is not None:
        check("base", base, x.shape, torch.float32)
    made = torch.empty_like(x)
    threads = threads_for(WORK * x.numel())
    loaded().dropout(x.numel(), x.data_ptr(), address(base), made.data_ptr(), seed, dropped, scale, threads)
    return made
