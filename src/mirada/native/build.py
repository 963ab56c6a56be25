"""All C files, compiled into one library on first use where there is a C compiler."""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC")
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "silu")  # what C computes; C numbers them in this order
LONGEST, WIDEST, LANES = (
    64,
    128,
    16,
)  # of short attention: places, numbers of a vector, and what those are a multiple of
CONSTANTS = {
    "SHORT_LONGEST": LONGEST, "SHORT_WIDEST": WIDEST, "SHORT_LANES": LANES,
    **{name.upper().replace("-", "_"): number for number, name in enumerate(ACTIVATIONS)},
}  # fmt: skip
DEFINED = tuple(f"-D{name}={value}" for name, value in CONSTANTS.items())  # so they stand in one place, here


class NotBuiltError(Exception):
    """Why there is no library."""


def build() -> Path:
    """The library's file, made if it is not there. It appears whole or not at all, whoever else is compiling."""
    if os.environ.get("MIRADA_NATIVE") == "0":
        raise NotBuiltError("MIRADA_NATIVE=0 turns it off")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotBuiltError("there is no C compiler (cc, gcc or clang)")
    sources, headers = sorted(HERE.glob("*.c")), sorted(HERE.glob("*.h"))
    flags = (*FLAGS, *DEFINED)
    name = hashlib.sha256(
        b"".join(path.read_bytes() for path in (*sources, *headers)) + " ".join((processor(), *flags)).encode()
    ).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mirada"
    target = folder / f"mirada-{name}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / target.name
        command = [compiler, *flags, "-I", str(HERE), "-o", str(made), *map(str, sources), "-lm"]
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
