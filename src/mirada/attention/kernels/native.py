"""A small C library, compiled on first use where there is a C compiler. Nothing needs it: it is only faster.

`MIRADA_NATIVE=0` turns it off. The library is kept in the user's cache folder, under a name that depends on the source and on
the processor. Work is shared among threads by ranges of rows.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("edges.c")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
STEPS_PER_THREAD = 2**22  # multiplications that outweigh handing work to a thread
REALS = {torch.float32: "float", torch.float64: "double"}


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library; None without a compiler, without a folder to keep it in, or if it was turned off."""
    return load(SOURCE)


def load(source: Path, *flags: str) -> ctypes.CDLL | None:
    """The library of a C file, compiled if need be with these flags beside ours; None where that cannot be had."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or os.environ.get("MIRADA_NATIVE") == "0":
        return None
    try:
        path = compiled(compiler, source, flags)
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # cut short or damaged: make it anew, once
            path.unlink()
            return ctypes.CDLL(str(compiled(compiler, source, flags)))
    except (OSError, subprocess.SubprocessError):
        return None


def serves(x: Tensor) -> bool:
    """Whether the library can work on this tensor: on a CPU, and not while a graph is traced, which has no memory yet."""
    return not torch.compiler.is_compiling() and x.device.type == "cpu" and library() is not None


def compiled(compiler: str, source: Path, flags: tuple[str, ...]) -> Path:
    """The library's file, made if it is not there. It appears whole or not at all, whoever else is compiling."""
    name = hashlib.sha256(source.read_bytes() + " ".join((processor(), *flags)).encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirada"
    target = folder / f"{source.stem}-{name}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / target.name
        command = [compiler, *FLAGS, *flags, "-o", str(made), str(source), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        os.replace(made, target)
    return target


def processor() -> str:
    """What the compiled code depends on: code made for one processor may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()


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
