"""The library of `passes.c`: work that takes torch several passes over memory, in one. Nothing needs it: it is only faster."""

import ctypes
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mirada.native.build import load

SOURCE = Path(__file__).with_name("passes.c")
WORTH_A_THREAD = 2**15  # numbers that outweigh sharing them
PLAIN = (Tensor, nn.Parameter)
BENDS = ("relu", "gelu", "gelu-tanh")  # in the order in which passes.c numbers them


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None without a compiler, without a folder to keep it in, or with `MIRADA_NATIVE=0`."""
    loaded = load(SOURCE, "-fopenmp") or load(SOURCE)
    if loaded is not None:
        number, pointer = ctypes.c_int64, ctypes.c_void_p
        loaded.drop.argtypes = [number, pointer, pointer, pointer, ctypes.c_uint64, number, ctypes.c_float, number]
        loaded.slopes.argtypes = [number, number, pointer, pointer, pointer, ctypes.c_double, pointer, number]
        loaded.bend.argtypes = [number, number, number, pointer, pointer, pointer, number]
        loaded.unbend.argtypes = [number, number, number, pointer, pointer, pointer, pointer, number]
        for function in (loaded.drop, loaded.slopes, loaded.bend, loaded.unbend):
            function.restype = None
    return loaded


def serves(*tensors: Tensor) -> bool:
    """Whether the library can work on these tensors: plain ones, in float32, on a CPU, and not while they are traced."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    return all(usual(x) for x in tensors) and library() is not None


def usual(x: Tensor) -> bool:
    """Whether there is memory behind this tensor that C can read as float32."""
    there = type(x) in PLAIN and x.device.type == "cpu" and torch._C._has_storage(x)
    return there and x.dtype == torch.float32 and not x.is_neg()


def drop(x: Tensor, base: Tensor | None, seed: int, dropped: int, scale: float) -> Tensor:
    """x with numbers zeroed, with a chance of `dropped` in 256, and the others scaled; a base of the same shape is added.

    The same seed zeroes the same numbers.
    """
    x = x.contiguous()
    base = None if base is None else base.contiguous()
    made = torch.empty_like(x)
    under = None if base is None else base.data_ptr()
    loaded().drop(x.numel(), x.data_ptr(), under, made.data_ptr(), seed, dropped, scale, threads_for(x))
    return made


def slopes_(
    logits: Float[Tensor, "n vocab"], bias: Float[Tensor, " vocab"] | None, targets: Int[Tensor, " n"], smoothing: float
) -> Float[Tensor, " n"]:
    """The cross-entropy of logits + bias for every row, in float64; the logits become its slopes."""
    rows, vocab = logits.shape
    bias = None if bias is None else bias.contiguous()
    targets = targets.contiguous()
    losses = torch.empty(rows, dtype=torch.float64)
    start = None if bias is None else bias.data_ptr()
    loaded().slopes(
        rows, vocab, logits.data_ptr(), start, targets.data_ptr(), smoothing, losses.data_ptr(), threads_for(logits)
    )
    return losses


def bend_(h: Float[Tensor, "n width"], bias: Float[Tensor, " width"], kind: str) -> Float[Tensor, "n width"]:
    """act(h + bias), with act one of `BENDS`; h becomes what `unbend` wants of it."""
    bias = bias.contiguous()
    made = h if kind == "relu" else torch.empty_like(h)
    loaded().bend(BENDS.index(kind), *h.shape, h.data_ptr(), bias.data_ptr(), made.data_ptr(), threads_for(h))
    return made


def unbend(
    slope: Float[Tensor, "n width"], h: Float[Tensor, "n width"], kind: str
) -> tuple[Float[Tensor, "n width"], Float[Tensor, " width"]]:
    """The slope before the bend, from that after it, and its sum over the rows."""
    slope, threads = slope.contiguous(), threads_for(h)
    found, sums = torch.empty_like(h), h.new_zeros(threads, h.shape[1])
    given = slope.data_ptr(), h.data_ptr(), found.data_ptr(), sums.data_ptr()
    loaded().unbend(BENDS.index(kind), *h.shape, *given, threads)
    return found, sums.sum(0)


def threads_for(x: Tensor) -> int:
    """How many threads a tensor is worth."""
    return max(1, min(torch.get_num_threads(), x.numel() // WORTH_A_THREAD))


def loaded() -> ctypes.CDLL:
    """The library, where `serves` said that there is one."""
    found = library()
    assert found is not None
    return found
