"""All C files as one library: installed with the package for every kind of processor, or compiled on first use.

A wheel brings a library for each variant of its machine, and the best one that this processor runs is loaded: nothing is
compiled. Without them, as in a folder of sources, the library is compiled for this processor on first use and kept in the
user's private cache folder.

The file's name holds a key of everything that affects the build, and a hash of the file: a truncated or damaged file, one that
was built from other sources or, in the cache, one of another user, is never loaded. It is written atomically, also while other
processes compile. A failed build is remembered for a day, so that later processes do not try again in vain.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from mirada.files import write_whole
from mirada.native.structures import DEFINED
from mirada.native.variants import NATIVE, SWITCH, Variant, chosen, features, of_machine, runnable

HERE = Path(__file__).parent
INSTALLED = HERE / "installed"  # the libraries of a wheel, and how they were built
RECIPES = "recipes.json"
FLAGS = ("-O3", "-fno-math-errno")
FOR_THIS = "-march=native"
SHARED = ("-shared", "-fPIC")
THREADS = "-fopenmp"
COMPILERS = ("cc", "gcc", "clang")
LONGEST_BUILD = 120  # seconds
LONGEST_VERSION = 3  # seconds that every process waits for a compiler that hangs
REMEMBERED = 24 * 3600  # seconds that a failed build is not tried again
TURNED_OFF = f"{SWITCH}=0 turns it off"
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotBuiltError(Exception):
    """The library was not built; the message says why."""


@dataclass(frozen=True)
class BuildRecipe:
    """Everything that affects the build."""

    compiler: str
    version: str
    flags: tuple[str, ...]
    variant: str = NATIVE

    @cached_property
    def key(self) -> str:
        """A name for the library that is built with these settings."""
        processor = features() if FOR_THIS in self.flags else self.variant
        decides = [self.compiler, self.version, *self.flags, *SHARED, *DEFINED, processor]
        text = "\0".join([*decides, *(f"{path.name}\0{path.read_text(encoding='utf-8')}" for path in sources())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def command(self, target: Path) -> list[str]:
        """The command of the compiler."""
        files = [str(path) for path in sources() if path.suffix == ".c"]
        return [self.compiler, *self.flags, *SHARED, *DEFINED, "-I", str(HERE), "-o", str(target), *files, "-lm"]


def candidates() -> Iterator[tuple[BuildRecipe, Path | None]]:
    """What may be loaded, in order: the best installed library with its path, then what can be compiled here."""
    name = chosen()
    if name == "0":
        raise NotBuiltError(TURNED_OFF)
    best = next((there for there in installed() if name in (None, there[0].variant)), None)
    if best is not None:
        yield best
    yield from ((plan, None) for plan in plans())


def installed() -> Iterator[tuple[BuildRecipe, Path]]:
    """The libraries that were installed with these sources and run on this processor, the best one first."""
    try:
        listed = json.loads((INSTALLED / RECIPES).read_text(encoding="utf-8"))
        recipes = {each["variant"]: BuildRecipe(**each | {"flags": tuple(each["flags"])}) for each in listed}
    except (OSError, ValueError, TypeError, KeyError):
        return
    for variant in runnable():
        recipe = recipes.get(variant.name)
        if recipe is not None and (path := _whole(INSTALLED, recipe.key)):
            yield recipe, path


def plans() -> list[BuildRecipe]:
    """The builds to try, in order: with threads, then without."""
    if not hasattr(os, "geteuid"):
        raise NotBuiltError("this system has no owners of files, so the owner of a library cannot be checked")
    return _recipes(next((variant for variant in runnable() if variant.name == chosen()), None))


def _recipes(variant: Variant | None) -> list[BuildRecipe]:
    """The builds of a variant, or for this processor alone: with threads, then without."""
    if chosen() == "0":
        raise NotBuiltError(TURNED_OFF)
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NotBuiltError(f"there is no C compiler ({', '.join(COMPILERS)})")
    try:
        printed = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=LONGEST_VERSION
        ).stdout
    except (OSError, subprocess.SubprocessError) as failed:
        raise NotBuiltError(f"{compiler} does not run: {failed}") from failed
    version = next(iter(printed.splitlines()), "").strip()
    flags, name = (*FLAGS, *(variant.flags if variant else (FOR_THIS,))), variant.name if variant else NATIVE
    return [BuildRecipe(compiler, version, each, name) for each in ((*flags, THREADS), flags)]


def build_variants(folder: Path, variants: Sequence[Variant] | None = None) -> list[str]:
    """Build libraries into a folder, for every variant of this machine, and list them there; what failed, a line for each.

    Several are compiled at once. Libraries of other sources are removed, and so are all of them if none could be built.
    """
    variants = of_machine() if variants is None else variants
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        built = list(pool.map(lambda variant: _built_variant(variant, folder), variants))
    done = [recipe for recipe in built if isinstance(recipe, BuildRecipe)]
    write_whole(folder / RECIPES, json.dumps([asdict(recipe) for recipe in done], indent=1).encode(), sync=False)
    for path in folder.glob("mirada-*.so"):
        if not any(path.name.startswith(f"mirada-{recipe.key}-") for recipe in done):
            path.unlink(missing_ok=True)
    return [problem for problem in built if isinstance(problem, str)]


def _built_variant(variant: Variant, folder: Path) -> BuildRecipe | str:
    """The recipe of a variant's library, which is in the folder now; or why there is none."""
    reason = ""
    try:
        for recipe in _recipes(variant):
            try:
                if _whole(folder, recipe.key) is None:
                    _compiled(recipe, folder).chmod(0o755)
                return recipe
            except NotBuiltError as failed:
                reason = reason or str(failed)
    except NotBuiltError as missing:
        reason = str(missing)
    return f"{variant.name}: {reason}"


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
        try:
            target = _compiled(plan, folder)
        except NotBuiltError as failed:
            write_whole(failure, str(failed).encode(), sync=False)
            failure.chmod(0o600)
            raise
        failure.unlink(missing_ok=True)
        return target
    except OSError as failed:
        raise NotBuiltError(f"the library could not be kept: {failed}") from failed


def _compiled(plan: BuildRecipe, folder: Path) -> Path:
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
            raise NotBuiltError(f"{plan.compiler} failed: {reason}")
        output.chmod(0o700)
        target = named(folder, plan.key, output.read_bytes())
        os.replace(output, target)
    return target


def _whole(folder: Path, key: str) -> Path | None:
    """The library of that key whose contents have the hash in its name; None if there is none."""
    for path in sorted(folder.glob(f"mirada-{key}-*.so")):
        with suppress(OSError):
            if path == named(folder, key, path.read_bytes()):
                return path
    return None


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
