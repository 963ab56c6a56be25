"""The tasks by name, with all that the command line says about them. Importing this imports no torch."""

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from mirada.errors import unknown

if TYPE_CHECKING:
    from mirada.runs.task import Task

GROUP = "mirada.tasks"  # entry points of other packages: each names a TaskEntry


@dataclass(frozen=True)
class TaskEntry:
    """What a person wants done, and what it takes. The first model is the default."""

    about: str
    models: tuple[str, ...]
    builtin: str
    reads: str
    metric: str
    home: str  # module:class of the task

    def task(self) -> "Task":
        """The task itself; this is where torch is imported."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)()


CATALOG = {
    "translate": TaskEntry(
        "write a sentence in another language",
        ("transformer", "bahdanau", "luong", "luong-local-m", "luong-local-p", "rnn"),
        "English to Spanish sentences of a grammar (reverse=yes: Spanish to English)",
        "pairs: TSV, CSV, JSONL, Parquet, or two aligned text files (train.en,train.es)",
        "BLEU, chrF",
        "mirada.tasks.translate:Translate",
    ),
    "classify": TaskEntry(
        "give a text one of the labels it was trained with",
        ("transformer", "lstm-attention", "conv-attention"),
        "reviews with negation and contrast",
        "texts and labels: TSV, CSV, JSONL, Parquet",
        "accuracy, macro F1",
        "mirada.tasks.classify:Classify",
    ),
    "write": TaskEntry(
        "go on with a text",
        ("gpt",),
        "the documentation that comes with Python",
        "text files",
        "perplexity, bits per character",
        "mirada.tasks.write:Write",
    ),
    "fill": TaskEntry(
        "find the word that is missing in a text, and tell whether a sentence follows another",
        ("bert",),
        "two sentences about a place, in Spanish or English",
        "text files, or pairs of sentences: TSV, CSV, JSONL, Parquet",
        "accuracy of hidden words and of the order",
        "mirada.tasks.fill:Fill",
    ),
}


def entry(name: str) -> TaskEntry:
    """The entry of a task, of ours or of another package that brings one.

    >>> entry("translat")
    Traceback (most recent call last):
    ValueError: unknown task 'translat'; known: classify, fill, translate, write. Did you mean 'translate'?
    """
    if name not in CATALOG:
        for point in entry_points(group=GROUP):
            if point.name == name:
                CATALOG[name] = point.load()
                return CATALOG[name]
        raise unknown("task", name, CATALOG)
    return CATALOG[name]


def describe() -> str:
    """The table that `mirada tasks` prints."""
    lines = []
    for name, item in CATALOG.items():
        lines += [
            f"{name}: {item.about}",
            f"  models   {', '.join(item.models)} (the first is the default)",
            f"  reads    {item.reads}",
            f"  builtin  {item.builtin}",
            f"  metric   {item.metric}",
            f"  try      mirada train {name}",
            "",
        ]
    return "\n".join(lines[:-1])
