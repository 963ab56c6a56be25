"""What machines do: full and read-only disks, shared caches, stopped processes, clocks that jump, forks, other Pythons."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

from tests.campaign.attacks import bad
from tests.campaign.figures import Figures
from tests.campaign.forked import forked
from tests.campaign.kills import start, wait
from tests.campaign.runs import data_of, result, train
from tests.runs.small import reviews

TASK = "classify"  # whose runs are disturbed: the quickest
ROOM = 4 << 20  # bytes of a file system
BUILD = 110.0  # seconds that a compiler may take


def _whole(home: Path) -> Path:
    """A run that nothing disturbed."""
    whole = home / f"whole-{TASK}-1"
    if not (whole / "report.html").exists():
        shutil.rmtree(whole, ignore_errors=True)
        began = time.monotonic()
        assert not any(wait(start(TASK, home, whole, 1, False))), (home / f"log-{whole.name}").read_text()
        (whole / "took").write_text(str(time.monotonic() - began))
    return whole


def disks(seed: int, home: Path, figures: Figures) -> None:
    """No file may grow beyond some size, as on a full disk: refused in a line; then there is room, and the bits are the same."""
    dice, whole, folder = random.Random(seed), _whole(home), home / f"full-{seed}"
    data_of(TASK, home)
    largest = max(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    most = dice.randrange(100, int(1.3 * largest))

    def train_with_limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        train(TASK, home, folder)

    outcome = forked(train_with_limit)
    figures.add("full disk", outcome.kind, bad(outcome))
    again = wait(start(TASK, home, folder, 1, True)) if outcome.kind == "refused" else [0]
    same = not any(again) and result(folder) == result(whole)
    figures.add("resumed with room", "the same bits" if same else "FAILED", None if same else [most, again])
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def mounted(folder: Path, size: int) -> Iterator[None]:
    """A file system of so many bytes in a folder, where this user may mount one; else a skip."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        raise PermissionError(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def filesystems(seed: int, home: Path, figures: Figures) -> None:
    """A run in a file system that fills up, or may only be read: refused in a line, then resumed to the same bits where there is
    room; a run that is there answers, and is measured, without writing.
    """
    dice, whole, folder = random.Random(seed), _whole(home), home / f"mount-{seed}"
    data_of(TASK, home)
    kind = dice.choice(("fills up", "read only", "answers, read only"))
    texts = [row[0] for row in dice.sample(reviews(), 5)]
    try:
        with mounted(folder, ROOM):
            if kind == "answers, read only":
                shutil.copytree(whole, folder / "run")
            if kind != "fills up":
                subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
            if kind == "answers, read only":
                wanted = _answers(whole, texts)
                outcome = forked(lambda: _answers(folder / "run", texts))
                wrong = bad(outcome) or (None if outcome.value == wanted else ["other answers", outcome.value])
                figures.add(kind, outcome.kind, wrong)
                return
            full = Timer(dice.uniform(0, float((whole / "took").read_text())), _fill, [folder / "ballast"])
            if kind == "fills up":
                full.start()
            outcome = forked(lambda: train(TASK, home, folder / "run"))
            full.join() if kind == "fills up" else None
            allowed = outcome.kind == "refused" or (outcome.kind == "done" and kind == "fills up")
            figures.add(kind, outcome.kind, bad(outcome) or (None if allowed else ["trained", outcome.value]))
            if kind == "fills up" and outcome.kind == "refused":
                (folder / "ballast").unlink()
                again = wait(start(TASK, home, folder / "run", 1, True))
                same = not any(again) and result(folder / "run") == result(whole)
                log = (home / f"log-{folder.name}").read_text()[-300:] if any(again) else ""
                figures.add("resumed with room", "the same bits" if same else "FAILED", None if same else [again, log])
    except PermissionError as error:
        figures.add(kind, "not tried", None)
        print(error)


def _fill(path: Path) -> None:
    """Write until there is no room."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))


def _answers(folder: Path, texts: list[str]) -> list[list[Any]]:
    from mirada.runs.load import load

    return [[answer.text, answer.score] for answer in load(folder)(texts)]


PROCESSORS = {"own": "-march=native", "v3": "-march=x86-64-v3", "v2": "-march=x86-64-v2"}  # what code is compiled for


def caches(seed: int, home: Path, figures: Figures) -> None:
    """Processors that share a folder of compiled code, one after the other or at once: each has a library of its own, also where
    that of the other is damaged, was remembered as failed, or bears its name; and it computes what PyTorch does.
    """
    dice, cache = random.Random(seed), home / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    mine, other = dice.sample([*PROCESSORS], 2)
    what = dice.choice(("whole", "cut", "renamed", "failed", "at once", "at once"))
    folder = cache / "mirada"
    if what != "at once":
        first = forked(lambda: _compiled_for(other, cache), hang=BUILD)
        theirs = Path(first.value[0])
        if what == "cut":
            theirs.write_bytes(theirs.read_bytes()[: dice.randrange(theirs.stat().st_size)])
        if what == "failed":
            (folder / f"mirada-{theirs.name.split('-')[1]}.failed").write_text("cc failed")
        if what == "renamed":  # under the key of this processor, as a careless copy would have it
            key = forked(lambda: _key_of(mine)).value
            shutil.copy(theirs, folder / f"mirada-{key}-{theirs.name.split('-')[2]}")
        outcomes = [forked(lambda: _compiled_for(mine, cache), hang=BUILD)]
    else:
        for path in folder.glob("*") if dice.random() < 0.3 else ():
            path.unlink()
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(lambda who: forked(lambda: _compiled_for(who, cache), hang=BUILD), (mine, other)))
    keys = [outcome.value[1] for outcome in outcomes if outcome.kind == "done"]
    wrong = [[outcome.kind, outcome.value] for outcome in outcomes if outcome.kind != "done" or not outcome.value[2]]
    renamed = what == "renamed" and not wrong and outcomes[0].value[3] != mine
    figures.add(f"cache, {what}", "own library", wrong or None if len(set(keys)) == len(keys) and not renamed else keys)


def _as_processor(name: str) -> Any:
    """The module that compiles, as on a processor of some kind."""
    from mirada.native import build

    own = build._processor()
    build._processor = lambda: own if name == "own" else f"{own} {name}"  # type: ignore[assignment]
    build.FLAGS = tuple(PROCESSORS[name] if flag.startswith("-march") else flag for flag in build.FLAGS)
    return build


def _key_of(name: str) -> str:
    return str(_as_processor(name).plans()[0].key)


def _compiled_for(name: str, cache: Path) -> list[Any]:
    """The library that a process on such a processor loads, its key, whether it is right, and what it was compiled for."""
    import torch

    from mirada.native import library, passes

    os.environ["XDG_CACHE_HOME"] = str(cache)
    _as_processor(name)
    library.search_once.cache_clear()
    there = library.search_once()
    if there.built is None:
        return ["", "", False, there.reason]
    plan, path = there.built
    h, bias = torch.randn(7, 13), torch.randn(13)
    right = torch.allclose(passes.activate_(h.clone(), bias, "gelu"), torch.nn.functional.gelu(h + bias), atol=1e-5)
    return [str(path), plan.key, right, next(k for k, flag in PROCESSORS.items() if flag in plan.flags)]


PYTHONS = ("3.12", "3.13")


def pythons(seed: int, home: Path, figures: Figures) -> None:
    """Other versions of Python: every file of ours compiles there without a warning, and what needs no torch passes its doctests,
    where the version and NumPy are installed (a torch for them is not looked for).
    """
    version = PYTHONS[seed % len(PYTHONS)]
    python = next((path for path in _interpreters(version)), None)
    if python is None:
        figures.add(f"Python {version}", "not tried")
        return
    source = str(Path(__file__).parents[2] / "src")
    program = (
        "import sys, pathlib, warnings; warnings.simplefilter('error')\n"
        "for path in pathlib.Path(sys.argv[1]).rglob('*.py'): compile(path.read_bytes(), str(path), 'exec')\n"
    )
    done = subprocess.run([python, "-c", program, source], capture_output=True, text=True)
    figures.add(f"Python {version}", "every file compiles", done.stderr[-300:] if done.returncode else None)
    doctests = (
        "import sys, importlib, doctest; flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE\n"
        "name = sys.argv[1]; failed = doctest.testmod(importlib.import_module(name), optionflags=flags)[0]\n"
        "assert not failed\n"
    )
    for name in WITHOUT_TORCH:
        words = [python, "-c", doctests, f"mirada.{name}"]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source})
        figures.add(
            f"Python {version}", "doctests", done.stdout[-300:] + done.stderr[-300:] if done.returncode else None
        )


WITHOUT_TORCH = (
    "words", "config", "files", "data.columns.times", "data.columns.holidays", "data.columns.names", "data.columns.contents",
    "data.columns.header", "data.files.cells", "data.files.json", "data.record", "data.files.memory", "data.files.forms",
    "runs.choice",
)  # fmt: skip


def _interpreters(version: str) -> Iterator[str]:
    """Programs of a version of Python that have NumPy."""
    homes = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python"))
    named = shutil.which(f"python{version}")
    for path in (os.environ.get(f"PYTHON{version.replace('.', '')}"), named, *map(str, homes)):
        if path and not subprocess.run([path, "-c", "import numpy"], capture_output=True).returncode:
            yield path


def stops(seed: int, home: Path, figures: Figures) -> None:
    """A training that is stopped with SIGSTOP and goes on, or whose clocks jump, ends with the same bits."""
    dice, whole, folder = random.Random(seed), _whole(home), home / f"stopped-{seed}"
    took = float((whole / "took").read_text())
    if dice.random() < 0.5:
        kind = "SIGSTOP"
        (child,) = children = start(TASK, home, folder, 1, False)
        for _ in range(dice.randint(1, 3)):
            time.sleep(dice.uniform(0, took / 3))
            os.kill(child, signal.SIGSTOP)
            time.sleep(dice.uniform(0.01, 0.5))
            os.kill(child, signal.SIGCONT)
        ended: Any = wait(children)
    else:
        kind = "clocks that jump"
        real, ticks = (time.time, time.monotonic), random.Random(seed)

        def train_with_jumps() -> None:
            time.time = lambda: real[0]() + ticks.choice((0, -1e9, 1e9, 86_400))
            jumped = [0.0]

            def later() -> float:  # a monotonic clock jumps forward only: a laptop that slept
                jumped[0] += ticks.choice((0.0, 0.0, 0.0, 3600.0))
                return real[1]() + jumped[0]

            time.monotonic = later
            train(TASK, home, folder)

        data_of(TASK, home)
        outcome = forked(train_with_jumps, hang=1e9)
        ended = [0] if outcome.kind == "done" else [outcome.kind, outcome.value]
    same = ended == [0] and result(folder) == result(whole)
    figures.add(kind, "the same bits" if same else "FAILED", None if same else ended)
    shutil.rmtree(folder, ignore_errors=True)


def forks(seed: int, home: Path, figures: Figures) -> None:
    """A run that was loaded before a fork answers in the child as in the parent, as in a server with workers."""
    from mirada.runs.load import load

    run = load(_whole(home))
    texts = [row[0] for row in random.Random(seed).sample(reviews(), 5)]
    wanted = [[answer.text, answer.score] for answer in run(texts)]
    outcome = forked(lambda: [[answer.text, answer.score] for answer in run(texts)])
    other = outcome.kind == "done" and outcome.value != wanted
    figures.add("forked worker", outcome.kind, bad(outcome) or (["other answers", outcome.value] if other else None))


MACHINES: dict[str, Callable[[int, Path, Figures], None]] = {
    "disks": disks, "filesystems": filesystems, "caches": caches, "stops": stops, "forks": forks, "pythons": pythons,
}  # fmt: skip
