"""The library of `step.c`, compiled on first use where there is a C compiler, as that of the graph kernels is.

It shares PyTorch's own threads: both use the OpenMP that is loaded already. Where that cannot be had it works on one.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mirada.attention.kernels.native import processor

SOURCE = Path(__file__).with_name("step.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
WORTH_A_THREAD = 2**19  # multiplications that outweigh sharing them


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None without a compiler, without a folder to keep it in, or with `MIRADA_NATIVE=0`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or os.environ.get("MIRADA_NATIVE") == "0":
        return None
    for flags in ((*FLAGS, "-fopenmp"), FLAGS):
        try:
            return described(ctypes.CDLL(str(built(compiler, flags))))
        except (OSError, subprocess.SubprocessError):
            continue
    return None


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


def built(compiler: str, flags: tuple[str, ...]) -> Path:
    """The library's file, made if it is not there. It appears whole or not at all, whoever else is compiling."""
    name = hashlib.sha256(SOURCE.read_bytes() + " ".join((processor(), *flags)).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirada"
    target = folder / f"step-{name}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / "step.so"
        command = [compiler, *flags, "-o", str(made), str(SOURCE), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        os.replace(made, target)
    return target


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
