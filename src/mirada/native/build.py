"""All C files, compiled into one library on first use and kept in the user's private cache folder.

The file's name holds a key of everything that affects the build, and a hash of the file: a truncated or damaged file, or one of
another user, is never loaded. It is written atomically, also while other processes compile. A failed build is remembered for a
day, so that later processes do not try again in vain.
"""

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from mirada.native.structures import DEFINED

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-fno-math-errno")
SHARED = ("-shared", "-fPIC")
THREADS = "-fopenmp"
COMPILERS = ("cc", "gcc", "clang")
LONGEST_BUILD = 120  # seconds
LONGEST_VERSION = 3  # seconds that every process waits for a compiler that hangs
REMEMBERED = 24 * 3600  # seconds that a failed build is not tried again
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotBuiltError(Exception):
    """The library was not built; the message says why."""


@dataclass(frozen=True)
class BuildRecipe:
    """Everything that affects the build."""

    compiler: str
    version: str
    flags: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """A name for the library that is built with these settings."""
        decides = [self.compiler, self.version, *self.flags, *SHARED, *DEFINED, _processor()]
        text = "\0".join([*decides, *(f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in sources())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def command(self, target: Path) -> list[str]:
        """The command of the compiler."""
        files = [str(path) for path in sources() if path.suffix == ".c"]
        return [self.compiler, *self.flags, *SHARED, *DEFINED, "-I", str(HERE), "-o", str(target), *files, "-lm"]


def plans() -> list[BuildRecipe]:
    """The builds to try, in order: with threads, then without."""
    if os.environ.get("MIRADA_NATIVE") == "0":
        raise NotBuiltError("MIRADA_NATIVE=0 turns it off")
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NotBuiltError(f"there is no C compiler ({', '.join(COMPILERS)})")
    if not hasattr(os, "geteuid"):
        raise NotBuiltError("this system has no owners of files, so the owner of a library cannot be checked")
    try:
        printed = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=LONGEST_VERSION
        ).stdout
    except (OSError, subprocess.SubprocessError) as failed:
        raise NotBuiltError(f"{compiler} does not run: {failed}") from failed
    version = next(iter(printed.splitlines()), "").strip()
    return [BuildRecipe(compiler, version, flags) for flags in ((*FLAGS, THREADS), FLAGS)]


def build(plan: BuildRecipe) -> Path:
    """The library of a recipe, built if it does not exist."""
    try:
        folder, key = _private_folder(), plan.key
        for path in sorted(folder.glob(f"mirada-{key}-*.so")):
            if ours(path) and path == named(folder, key, path.read_bytes()):
                return path
            path.unlink(missing_ok=True)
        failure = folder / f"mirada-{key}.failed"
        if failure.exists() and ours(failure) and time.time() - failure.stat().st_mtime < REMEMBERED:
            raise NotBuiltError(f"{failure.read_text(encoding='utf-8')} (remembered: remove {failure} to try again)")
        return _compiled(plan, folder, key, failure)
    except OSError as failed:
        raise NotBuiltError(f"the library could not be kept: {failed}") from failed


def _compiled(plan: BuildRecipe, folder: Path, key: str, failure: Path) -> Path:
    """Compile in a temporary folder, and move the result to its place atomically."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        output = Path(scratch) / "output"
        try:
            done = subprocess.run(plan.command(output), capture_output=True, text=True, timeout=LONGEST_BUILD)
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["it says nothing"]
            error = next((line for line in lines if "error" in line), lines[0])
            reason = None if done.returncode == 0 and output.exists() else error
        except subprocess.SubprocessError as failed:
            reason = str(failed)
        if reason is not None:
            reason = f"{plan.compiler} failed: {reason}"
            output.write_text(reason, encoding="utf-8")
            output.chmod(0o600)
            os.replace(output, failure)
            raise NotBuiltError(reason)
        output.chmod(0o700)
        target = named(folder, key, output.read_bytes())
        os.replace(output, target)
    failure.unlink(missing_ok=True)
    return target


def named(folder: Path, key: str, contents: bytes) -> Path:
    """The path of a library with these contents."""
    return folder / f"mirada-{key}-{hashlib.sha256(contents).hexdigest()[:32]}.so"


def _private_folder() -> Path:
    """The folder of the libraries: it belongs to the user, and nobody else may write to it or replace it."""
    folder = cache_home() / "mirada"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = folder.resolve()
    if not stat.S_ISDIR(folder.stat().st_mode) or not ours(folder):
        raise NotBuiltError(f"{folder} must be yours and writable by nobody else: chown it, or chmod go-w")
    for above in folder.parents:  # nobody but this user and root may rename what is in them; others may add (sticky)
        about = above.stat()
        writable = about.st_mode & WRITABLE_BY_OTHERS and not about.st_mode & stat.S_ISVTX
        if writable or about.st_uid not in (0, os.geteuid()):
            raise NotBuiltError(f"{folder} can be replaced by others, who may write to {above}: set XDG_CACHE_HOME")
    return folder


def cache_home() -> Path:
    """$XDG_CACHE_HOME, or ~/.cache. A relative path is ignored: it would differ with the working directory."""
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if chosen.is_absolute():
        return chosen
    try:
        home = Path.home()
        if home.is_absolute() and home.is_dir():
            return home / ".cache"
        reason = f"HOME={str(home)!r}"
    except (RuntimeError, KeyError) as unknown:
        reason = str(unknown)
    raise NotBuiltError(f"there is no home folder to keep it in ({reason}): set XDG_CACHE_HOME")


def ours(path: Path) -> bool:
    """Whether a file or folder belongs to this user, and nobody else may write to it."""
    about = path.stat()
    return about.st_uid == os.geteuid() and not about.st_mode & WRITABLE_BY_OTHERS


def sources() -> list[Path]:
    """The C files and what they include."""
    return sorted(path for path in HERE.iterdir() if path.suffix in (".c", ".h"))


@cache
def _processor() -> str:
    """The features of the processor: code compiled for one processor may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return platform.machine() + platform.processor()
