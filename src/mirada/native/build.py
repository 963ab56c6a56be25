"""C files, compiled on first use where there is a C compiler. Nothing needs them: they are only faster.

`MIRADA_NATIVE=0` turns them off. A library is kept in the user's cache folder, under a name that depends on its source and on
the processor.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

SHARED = Path(__file__).with_name("elements.h")  # what any of the C files may include
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


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


def compiled(compiler: str, source: Path, flags: tuple[str, ...]) -> Path:
    """The library's file, made if it is not there. It appears whole or not at all, whoever else is compiling."""
    name = hashlib.sha256(
        source.read_bytes() + SHARED.read_bytes() + " ".join((processor(), *flags)).encode()
    ).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirada"
    target = folder / f"{source.stem}-{name}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / target.name
        command = [compiler, *FLAGS, *flags, "-I", str(SHARED.parent), "-o", str(made), str(source), "-lm"]
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
