"""Small runs of many tasks, for the campaign: their data, made by our code, and how they are trained."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runs.small import SIZES, pairs, questions, quiet, request, reviews, text, write_questions, write_rows
from tests.tasks.caption import test_task as test_caption
from tests.tasks.estimate import test_task as test_estimate
from tests.tasks.recognize import test_task as test_recognize
from tests.tasks.tag import test_task as test_tag
from tests.tasks.transcribe import test_task as test_transcribe

COMMON = ("steps=16", "validate=4", "warmup=2", "threads=1", "save_seconds=0", "average=3")


def forecast(path: Path) -> str:
    rows = [f"{n},{math.sin(n / 3):.5f},{math.cos(n / 5):.5f}" for n in range(300)]
    path.write_text("time,a,b\n" + "\n".join(rows) + "\n")
    return str(path)


def graph(path: Path) -> str:
    """Two rings of nodes with one edge between them."""
    path.mkdir()
    edges = [(n, (n + 1) % 20) for n in range(20)] + [(20 + n, 20 + (n + 1) % 20) for n in range(20)] + [(0, 20)]
    (path / "edges.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in edges))
    (path / "features.csv").write_text("node,x,y\n" + "".join(f"{n},{n % 3},{n // 20}\n" for n in range(40)))
    parts = ("train", "train", "valid", "test")
    labels = "".join(f"{n},{'ab'[n // 20]},{parts[n % 4]}\n" for n in range(40))
    (path / "labels.csv").write_text("node,label,split\n" + labels)
    return str(path)


def write_text(path: Path) -> str:
    path.write_text(text())
    return str(path)


def sounds(path: Path) -> str:
    path.mkdir()
    return test_transcribe.write_folder(path, range(4))


TASKS: dict[str, tuple[Callable[[Path], str], str, tuple[str, ...]]] = {
    "translate": (lambda path: write_rows(path, pairs()), "pairs.tsv", (*SIZES, "batch_tokens=512")),
    "classify": (lambda path: write_rows(path, reviews()), "reviews.tsv", (*SIZES, "batch_tokens=128")),
    "tag": (test_tag.write_conll, "names.conll", (*SIZES, "batch_tokens=256")),
    "estimate": (test_estimate.write_flats, "flats.csv", (*SIZES, "batch_tokens=256")),
    "write": (write_text, "text.txt", (*SIZES, "batch_tokens=512", "length=32")),
    "fill": (write_text, "texts.txt", (*SIZES, "batch_tokens=512", "length=48")),
    "forecast": (forecast, "series.csv", (*SIZES, "lookback=24", "horizon=6")),
    "answer": (
        lambda path: write_questions(path, questions()[:60]), "questions.jsonl", (*SIZES, "batch_tokens=1024"),
    ),
    "label": (graph, "graph", ("dim=8", "heads=2")),
    "recognize": (lambda path: str(test_recognize.save(path)), "bars", test_recognize.SMALL),
    "caption": (
        lambda path: str(test_caption.written_folder(path, count=60)), "scenes",
        tuple(key for key in test_caption.SIZES if not key.startswith("warmup")),
    ),
    "transcribe": (sounds, "sounds", (*SIZES, "batch_tokens=256")),
}  # fmt: skip


def data_of(task: str, home: Path) -> str:
    """The data of a task, written where it is not there yet."""
    make, name, _ = TASKS[task]
    return str(home / name) if (home / name).exists() else make(home / name)


def train(task: str, home: Path, out: Path, resume: bool = False, *more: str) -> None:
    """Train to the end, in this process."""
    from mirada.runs.train import execute

    keys = (*TASKS[task][2], *COMMON, *more)
    execute(request(task, data_of(task, home), *keys, out=str(out), resume=resume), quiet, quiet)


def result(folder: Path) -> dict[str, str]:
    """What a run is, by file: weights and what the task knows. Clocks are in none of these."""
    from mirada.files import checksum_of

    names = [
        path.name for path in folder.iterdir() if path.suffix in (".safetensors", ".json") or path.suffix == ".csv"
    ]
    found = {name: checksum_of((folder / name).read_bytes()) for name in names if name != "config.json"}
    described: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found | {"facts": json.dumps(described["facts"], sort_keys=True)}
