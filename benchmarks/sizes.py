"""What a size of a model costs: `python benchmarks/sizes.py [TASK ...]` prints seconds a thousand units on one core.

The sizes are those of the tables `SIZES` in `mirada/tasks/<task>/task.py`, and so are the units: a token, a place of a
recording, a picture of 64 x 64. Steps are measured as `mirada check` measures them, in seconds of the processor, on
made-up records of the usual kind.
"""

import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from mirada.runs.choice import SequenceCost
from mirada.runs.registry import entry
from mirada.runs.request import TrainingRequest
from mirada.runs.sources import Source
from mirada.runs.task import encode
from mirada.runs.train import build, no_print, prepare
from mirada.training.distributed import ProcessGroup

TURNS = 3
DRAW = np.random.default_rng(1)
LETTERS = list("etaoinshrdlucmfwypvb")
WORDS = ["".join(DRAW.choice(LETTERS, size=2 + rank % 8)) for rank in range(20_000)]
FREQUENCIES = np.cumsum(1 / np.arange(10, 20_010))


def text(words: int) -> str:
    """So many words, frequent and rare ones."""
    ranks = np.searchsorted(FREQUENCIES, DRAW.random(words) * FREQUENCIES[-1])
    return " ".join(WORDS[rank] for rank in ranks) + "."


def answerable() -> tuple[str, str, str]:
    """A question, a passage and an answer."""
    passage = text(140)
    return f"{text(10)}?", passage, passage.split()[70]


# for every task some data, and the size of a batch
DATA: dict[str, Any] = {
    "translate": lambda: [(text(12), text(12)) for _ in range(6000)],
    "write": lambda: [text(20_000) for _ in range(2)],
    "fill": lambda: [(text(10), text(10)) for _ in range(4000)],
    "caption": lambda: [(DRAW.integers(0, 255, (64, 64, 3), dtype=np.uint8), text(9)) for _ in range(300)],
    "transcribe": lambda: [((DRAW.normal(size=16_000).astype(np.float32), 16_000), text(3)) for _ in range(300)],
    "answer": lambda: [answerable() for _ in range(600)],
}
BATCH = {"translate": 1024, "write": 1024, "fill": 1024, "caption": 32, "transcribe": 1500, "answer": 2048}


def seconds(task: str, model: str, data: Any, size: SequenceCost) -> float:
    """The time of a thousand units in one size."""
    batch = BATCH[task]
    named = {"batch_size" if task == "caption" else "batch_tokens": batch, "threads": 1, "steps": 1}
    given = tuple({**size.settings, **named}.items())
    request = TrainingRequest(task=task, model=model, source=Source(data), keys=given)
    with tempfile.TemporaryDirectory() as folder:
        here, settings = entry(task).task(), request.settings()
        splits = here.read(settings.source, settings.data)
        settings, _ = request.chosen(settings, splits)
        run = build(settings, splits, Path(folder))
        sets, _ = encode(run, splits, ("train", "valid"))
        training = prepare(run, splits, sets, ProcessGroup(), False, no_print)
        training.planning.clock = time.process_time  # whatever else the machine does
        return 1000 * median(training.planning.measure().step for _ in range(TURNS)) / batch


def main() -> None:
    torch.set_num_threads(1)
    for task in sys.argv[1:] or DATA:
        data, module = DATA[task](), import_module(f"mirada.tasks.{task}.task")
        tables = {entry(task).models[0]: module.SIZES}
        if hasattr(module, "RECURRENT_SIZES"):
            tables["luong"] = module.RECURRENT_SIZES
        for model, sizes in tables.items():
            for size in sizes:
                cost = seconds(task, model, data, size)
                print(f"{task} {model} {dict(size.settings)}: {cost:.3f} s, table {size.seconds:g}", flush=True)


if __name__ == "__main__":
    main()
