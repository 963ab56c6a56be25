"""Mutants of data files and hostile text, read by every task that reads such files: good records, or a plain error."""

import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.campaign.figures import Figures
from tests.campaign.forked import forked
from tests.campaign.runs import data_of, forecast
from tests.data.graph_files import arrays
from tests.runs.small import pairs, questions, reviews, text
from tests.tasks.recognize.test_task import marked

HOSTILE = (
    "\x1b[2J\x1b]0;x\x07", "\u202eabc\u202c", "\0", "\r", "\x0b\x0c\x1c\x85\u2028", "\ud7ff\ue000", "e\u0301" * 50, "\ufeff",
    "\U0010ffff", '"', '""', "'", "\\", "\t", ",", ";", "<script>alert(1)</script>", "{{7*7}}", "%s%n%x", "../../etc/passwd",
    "=cmd|' /C calc'!A0", "NaN", "1e999", "-0", "٣", "ǅ", "ﷺ" * 9, "a" * 5000, "👩‍👩‍👧", "\u200b", "__label__", "[MASK]", "</s>",
    "___",
)  # fmt: skip
READERS = {
    "pairs.tsv": ("translate",), "pairs.csv": ("translate",), "reviews.csv": ("classify",), "reviews.tsv": ("classify",),
    "reviews.jsonl": ("classify",), "reviews.json": ("classify",), "fast.txt": ("classify",), "text.txt": ("write", "fill"),
    "series.csv": ("forecast",), "questions.jsonl": ("answer",), "squad.json": ("answer",), "pairs.tsv.gz": ("translate",),
    "images.npz": ("recognize",), "graph.npz": ("label",),
}  # fmt: skip
FOLDERS = ("recognize", "caption", "transcribe", "label")  # tasks whose data is a folder: one file of it is changed


def content_of(name: str, home: Path) -> bytes:
    """A good file of that name."""
    rows = pairs() if name.startswith("pairs") else reviews()
    if name.endswith(".npz"):
        pixels, labels = marked()
        stored = io.BytesIO()
        np.savez(stored, **(arrays() if name == "graph.npz" else {"images": pixels, "labels": np.array(labels)}))
        return stored.getvalue()
    if name.endswith(".gz"):
        return gzip.compress(content_of(name.removesuffix(".gz"), home), mtime=0)
    if name == "text.txt":
        return text().encode()
    if name == "series.csv":
        return Path(forecast(home / "good.csv")).read_bytes()
    if name == "fast.txt":
        return "".join(f"__label__{label} {words}\n" for words, label in rows).encode()
    if name.endswith(".tsv"):
        return "".join("\t".join(row) + "\n" for row in rows).encode()
    if name.endswith(".csv"):
        return ("text,label\n" + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)).encode()
    if name.startswith("reviews"):
        objects = [{"text": words, "label": label} for words, label in rows]
        return ("\n".join(map(json.dumps, objects)) if name.endswith("l") else json.dumps(objects)).encode()
    asked = [{"question": q, "context": c, "answer": a, "start": s} for q, c, a, s in questions()[:40]]
    if name == "questions.jsonl":
        return "\n".join(map(json.dumps, asked)).encode()
    paragraphs = [
        {"context": c, "qas": [{"id": str(n), "question": q, "answers": [{"text": a, "answer_start": s}]}]}
        for n, (q, c, a, s) in enumerate(questions()[:40])
        if a
    ]
    return json.dumps({"data": [{"title": "x", "paragraphs": paragraphs}]}).encode()


def flipped(dice: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 3, 30))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(dice: random.Random, content: bytes) -> bytes:
    return content[: dice.randrange(len(content))]


def hostile(dice: random.Random, content: bytes) -> bytes:
    """Hostile words between and inside of words."""
    places = sorted(dice.randrange(len(content)) for _ in range(dice.randrange(1, 30)))
    for place in reversed(places):
        content = content[:place] + dice.choice(HOSTILE).encode(errors="surrogatepass") + content[place:]
    return content


def repeated(dice: random.Random, content: bytes) -> bytes:
    start = dice.randrange(len(content))
    piece = content[start : start + dice.randrange(1, 200)]
    return content[:start] + piece * dice.randrange(2, 2000) + content[start:]


def noise(dice: random.Random, content: bytes) -> bytes:
    return dice.randbytes(dice.randrange(1, 3000))


def encoded(dice: random.Random, content: bytes) -> bytes:
    try:
        return content.decode().encode(
            dice.choice(("utf-16", "utf-16-le", "utf-32", "cp1252", "utf-7", "shift_jis")), "replace"
        )
    except UnicodeDecodeError:
        return content


def ends(dice: random.Random, content: bytes) -> bytes:
    return content.replace(b"\n", dice.choice((b"\r", b"\r\n", b"\n\n", b"\n\r", b"\0\n", b"")))


def shuffled(dice: random.Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines[: dice.randrange(1, len(lines) + 1)])


Mutation = Callable[[random.Random, bytes], bytes]
MUTATIONS: tuple[Mutation, ...] = (
    flipped, cut, hostile, hostile, repeated, noise, encoded, ends, shuffled,
)  # fmt: skip


def one(seed: int, home: Path, figures: Figures) -> None:
    """One file, or a folder with one bad file, read by a task; now and then all the way to a model's examples."""
    dice = random.Random(seed)
    name = dice.choice([*READERS, *FOLDERS])
    mutation, deep = dice.choice(MUTATIONS), dice.random() < 0.2
    task, path, changed = (
        in_a_folder(dice, name, mutation, home) if name in FOLDERS else alone(dice, name, mutation, home)
    )
    outcome = forked(lambda: read(task, path, deep))
    bad = outcome.kind in ("traceback", "hang", "memory")
    failure = [changed, outcome.value, round(outcome.seconds, 1), outcome.memory] if bad else None
    figures.add(f"{task}: {mutation.__name__}", outcome.kind, failure)
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def alone(dice: random.Random, name: str, mutation: Mutation, home: Path) -> tuple[str, Path, str]:
    """A task, a mutant of a file that it reads, and its name."""
    task, content = dice.choice(READERS[name]), mutation(dice, content_of(name, home))
    path = home / f"mutant-{name}"
    path.write_bytes(content or b"\n")
    return task, path, name


def in_a_folder(dice: random.Random, task: str, mutation: Mutation, home: Path) -> tuple[str, Path, str]:
    """A task, a folder that it reads, and the one file in it that is a mutant: as often a table as a picture or a sound."""
    path = home / f"mutant-{task}"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(data_of(task, home), path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    tables = [file for file in files if file.suffix in (".csv", ".tsv", ".jsonl")]
    changed = dice.choice(tables if tables and dice.random() < 0.5 else files)
    changed.write_bytes(mutation(dice, changed.read_bytes()))
    return task, path, str(changed.relative_to(path))


def read(task: str, path: Path, deep: bool) -> int:
    """How many records a file has; deep: as far as `mirada check` goes."""
    from mirada.cli.check import is_usable
    from tests.campaign.runs import TASKS
    from tests.runs.small import read as read_splits
    from tests.runs.small import request

    if deep:
        return int(is_usable(request(task, str(path), *TASKS[task][2], "steps=1", "threads=1", "bad=skip"), False))
    return len(read_splits(request(task, str(path)).settings()).train)
