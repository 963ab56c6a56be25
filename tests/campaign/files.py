"""Mutants of data files and hostile text, read by every task that reads such files: good records, or a plain error."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

from tests.campaign.figures import Figures
from tests.campaign.forked import forked
from tests.campaign.runs import forecast
from tests.runs.small import pairs, questions, reviews, text

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
}  # fmt: skip


def content_of(name: str, home: Path) -> bytes:
    """A good file of that name."""
    rows = pairs() if name.startswith("pairs") else reviews()
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


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flipped, cut, hostile, hostile, repeated, noise, encoded, ends, shuffled,
)  # fmt: skip


def one(seed: int, home: Path, figures: Figures) -> None:
    """One file, read by a task; now and then all the way to a model's examples."""
    dice = random.Random(seed)
    name = dice.choice(list(READERS))
    mutation, task = dice.choice(MUTATIONS), dice.choice(READERS[name])
    content = mutation(dice, content_of(name, home))
    path = home / f"mutant-{name}"
    path.write_bytes(content or b"\n")
    deep = dice.random() < 0.2
    outcome = forked(lambda: read(task, path, deep))
    kind = f"{task}: {mutation.__name__}"
    bad = outcome.kind in ("traceback", "hang", "memory")
    failure = [name, outcome.value, round(outcome.seconds, 1), outcome.memory] if bad else None
    figures.add(kind, outcome.kind, failure)
    path.unlink()


def read(task: str, path: Path, deep: bool) -> int:
    """How many records a file has; deep: as far as `mirada check` goes."""
    from mirada.cli.check import is_usable
    from mirada.runs.train import read as read_splits
    from tests.runs.small import SIZES, request

    if deep:
        return int(is_usable(request(task, str(path), *SIZES, "steps=1", "threads=1", "bad=skip"), False))
    return len(read_splits(request(task, str(path)).settings()).train)
