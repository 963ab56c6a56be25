"""Small data, and runs that are trained on it in a second or two."""

import json
from collections.abc import Iterable
from itertools import permutations, product
from pathlib import Path
from typing import Any

from mirada.runs.registry import entry
from mirada.runs.request import TrainingRequest
from mirada.runs.run import Run
from mirada.runs.settings import Settings, key_values
from mirada.runs.sources import Source, Splits
from mirada.runs.train import execute

SIZES = ("width=32", "hidden=64", "depth=1", "heads=2")
QUICK = (*SIZES, "steps=6", "validate=3", "batch_tokens=1024", "warmup=2", "threads=1")

NOUNS = (("house", "casa", 1), ("car", "coche", 0), ("book", "libro", 0), ("table", "mesa", 1), ("cat", "gato", 0))
COLORS = (("red", ("rojo", "roja")), ("small", ("pequeño", "pequeña")), ("old", ("viejo", "vieja")))
VERBS = (("I see", "veo"), ("we buy", "compramos"), ("they have", "tienen"))
GOOD, BAD = ("good", "great", "lovely", "funny"), ("bad", "awful", "boring", "sad")
THINGS = ("film", "book", "meal", "song", "trip")


def pairs() -> list[tuple[str, str]]:
    """90 sentences in English and Spanish."""
    rows = []
    for (verb, veo), (noun, casa, gender), (color, forms), the in product(VERBS, NOUNS, COLORS, (0, 1)):
        article = (("un", "una"), ("el", "la"))[the][gender]
        rows.append((f"{verb} {('a', 'the')[the]} {color} {noun}.", f"{veo} {article} {casa} {forms[gender]}."))
    return rows


def reviews() -> list[tuple[str, str]]:
    """40 texts and what they say."""
    words = [(word, "good") for word in GOOD] + [(word, "bad") for word in BAD]
    return [(f"the {thing} was {word}", label) for thing in THINGS for word, label in words]


def stories() -> list[tuple[str, str]]:
    """A sentence, and one that follows it."""
    return [(english[0].upper() + english[1:], f"It is {english.split()[-2]}.") for english, _ in pairs()]


def text() -> str:
    """Paragraphs of four sentences."""
    sentences = [f"{first} {second}" for first, second in stories()]
    return "\n\n".join(" ".join(sentences[i : i + 2]) for i in range(0, len(sentences), 2)) + "\n"


def write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> str:
    """A TSV file; its path comes back."""
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def request(
    task: str, data: Any = "", *words: str, valid: Any = "", keys: Iterable[str] = (), **more
) -> TrainingRequest:
    """What the command line would ask for."""
    pairs = tuple(key_values([*words, *keys]))
    return TrainingRequest(task=task, source=Source(data, valid), keys=pairs, **more)


def trained(task: str, data: Any, out: Path, *keys: str, **more) -> Run:
    """Train quietly."""
    return execute(request(task, data, *keys, out=str(out), **more), quiet, quiet)


def read(settings: Settings) -> Splits:
    """The records that a training would read."""
    return entry(settings.task).task().read(settings.source, settings.data)


def quiet(text: str) -> None:
    pass


def questions() -> list[tuple[str, str, str | None, int | None]]:
    """150 questions about who took what, with their passages, answers and starts; some have no answer."""
    names, things = ("Ana", "Luis", "Eva", "Juan"), ("key", "book", "lamp", "hat", "ring")
    rows: list[tuple[str, str, str | None, int | None]] = []
    for (one, other), (first, second) in product(
        permutations(names, 2), zip(things, things[1:] + things[:1], strict=True)
    ):
        passage = f"Today {one} took the {first}. It rained. Then {other} took the {second}."
        rows.append((f"Who has the {first}?", passage, one, passage.index(one)))
        rows.append((f"Who has the {second}?", passage, other, passage.index(other)))
        if one < other:
            missing = things[things.index(second) - 3]
            rows.append((f"Who has the {missing}?", passage, None, None))
    return rows


def write_questions(path: Path, rows: Iterable[tuple[str, str, str | None, int | None]]) -> str:
    """A file of JSON lines; its path comes back."""
    keys = ("question", "context", "answer", "start")
    path.write_text("".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows), encoding="utf-8")
    return str(path)
