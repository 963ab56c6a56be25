"""Mutants of run folders: loaded, resumed and checked, they are refused, repaired, or give the results of the intact one."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaign.figures import Figures
from tests.campaign.forked import Outcome, forked
from tests.campaign.runs import TASKS, data_of, result, train

ASKED = {  # files are in the folder of the tasks' data
    "translate": "I see a cat.", "classify": "the film was good", "estimate": "size=70, district=center",
    "label": "3", "tag": "Ana left Oslo .", "write": "I see", "fill": "I see a ___.",
    "answer": "Who has the key?\tToday Ana took the key. It rained.", "forecast": Path("series.csv"),
    "recognize": Path("bars", "above", "0.png"), "caption": Path("scenes", "3.png"), "transcribe": Path("sounds", "ab-1.wav"),
}  # fmt: skip
NOTICED = "noticed"
Mutation = Callable[[random.Random, Path], None]


def flip(dice: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 1, 8))):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def cut(dice: random.Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: dice.randrange(len(content))])


def grow(dice: random.Random, path: Path) -> None:
    path.write_bytes(path.read_bytes() + dice.randbytes(dice.randrange(1, 99)))


def zero(dice: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = dice.randrange(len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)


def shuffle(dice: random.Random, path: Path) -> None:
    content = path.read_bytes()
    place = dice.randrange(len(content))
    path.write_bytes(content[place:] + content[:place])


def remove(dice: random.Random, path: Path) -> None:
    path.unlink()


def fill(dice: random.Random, path: Path) -> None:
    path.write_bytes(dice.choice((b"", b"{}", b"[]", b"null", b"\0" * 64, b"[" * 5000, b"\xff" * 99, b'{"a": 1}')))


def link(dice: random.Random, path: Path) -> None:
    path.unlink()
    path.symlink_to(dice.choice((path.parent / "nothing", "/dev/zero", path.parent)))


def pipe(dice: random.Random, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swap(dice: random.Random, path: Path) -> None:
    other = dice.choice([p for p in path.parent.iterdir() if p.is_file() and p != path] or [path])
    path.write_bytes(other.read_bytes())


def edit(dice: random.Random, path: Path) -> None:
    """Change a value of JSON, with its checksum left as it was."""
    described = json.loads((path.parent.parent / path.name if path.name != "config.json" else path).read_text())
    inside: Any = described
    for _ in range(3):
        keys = [key for key in inside if isinstance(inside[key], dict) and inside[key]]
        if not keys or dice.random() < 0.3:
            break
        inside = inside[dice.choice(keys)]
    key = dice.choice([key for key in inside if key != "checksum"] or ["checksum"])
    inside[key] = dice.choice((None, -1, 2**64, "x", [], {}, 1e308, True, "\x1b[2J", 10**30, 0))
    path.write_text(json.dumps(described))


MUTATIONS: tuple[Mutation, ...] = (
    flip,
    flip,
    flip,
    cut,
    cut,
    grow,
    zero,
    shuffle,
    remove,
    fill,
    link,
    pipe,
    swap,
    edit,
)


def made(task: str, home: Path) -> Path:
    """A run that has ended, and the same run, stopped before its end."""
    whole = home / f"whole-{task}"
    if not (whole / "report.html").exists():
        shutil.rmtree(whole, ignore_errors=True)
        assert forked(lambda: train(task, home, whole), hang=1e9).kind == "done"
        shutil.rmtree(home / f"stopped-{task}", ignore_errors=True)
        forked(lambda: stop(task, home, home / f"stopped-{task}"), hang=1e9)
    return whole


def stop(task: str, home: Path, folder: Path) -> None:
    """Train, and be gone in the middle of it."""
    from mirada.training.loop import Training

    real = Training.timed_step

    def fragile(self: Training, state: Any, *given: Any) -> Any:
        if state.step == 10 and (folder / "metrics.jsonl").exists():
            os._exit(9)
        return real(self, state, *given)

    Training.timed_step = fragile  # type: ignore[method-assign]
    train(task, home, folder)


def answer(task: str, home: Path, folder: Path) -> list[Any]:
    from mirada.runs.load import load

    asked = ASKED[task]
    found = load(folder)(str(home / asked) if isinstance(asked, Path) else asked)
    return [found.text, repr(found.score)]


def resumed(task: str, home: Path, folder: Path) -> dict[str, str]:
    train(task, home, folder, True)
    return weights_of(folder)


def weights_of(folder: Path) -> dict[str, str]:
    """The numbers of the model, whatever else its file says."""
    from safetensors.torch import load_file

    from mirada.files import checksum_of

    tensors = load_file(folder / "model.safetensors")
    return {name: checksum_of(value.numpy().tobytes()) for name, value in tensors.items()} | {
        name: value for name, value in result(folder).items() if name == "tokenizer.json"
    }


def one(seed: int, home: Path, figures: Figures) -> None:
    """One mutant, used in one of three ways."""
    dice = random.Random(seed)
    task = list(ASKED)[seed // 8 % len(ASKED)]  # one after the other: each has to be trained first
    whole = made(task, home)
    use = dice.choice(("answer", "resume", "resume stopped", "check"))
    folder = home / "mutant"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(home / f"stopped-{task}" if "stopped" in use else whole, folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size and p.suffix not in (".html", ""))
    mutation, path = dice.choice(MUTATIONS), dice.choice(files)
    if mutation is edit:
        path = folder / "config.json"
    mutation(dice, path)
    kind = f"{use}: {mutation.__name__}"
    outcome = used(use, task, home, folder)
    wanted = answer(task, home, whole) if use in ("answer", "check") else weights_of(whole)
    if outcome.kind in ("traceback", "hang", "memory"):
        figures.add(kind, outcome.kind, [path.name, outcome.value, round(outcome.seconds, 1), outcome.memory])
    elif outcome.kind == "done" and outcome.value not in (wanted, NOTICED):
        figures.add(kind, "silently different", [path.name, outcome.value])
    else:
        noticed = outcome.kind == "refused" or outcome.value == NOTICED
        figures.add(kind, "refused" if noticed else "the same result")
    data_of(task, home)


def used(use: str, task: str, home: Path, folder: Path) -> Outcome:
    """What comes of a mutant."""
    if use == "answer":
        return forked(lambda: answer(task, home, folder))
    if use == "check":
        return forked(lambda: check(task, home, folder))
    return forked(lambda: resumed(task, home, folder))


def check(task: str, home: Path, folder: Path) -> Any:
    """What `mirada check DIR` says; where it finds nothing, the answer, which then has to be that of the whole run."""
    from mirada.runs.integrity import inspect

    return NOTICED if any(wrong for _, wrong in inspect(folder)) else answer(task, home, folder)


assert set(ASKED) == set(TASKS)
