"""`mirada train`: from data to a run with its report."""

import os
import time
from typing import Annotated

import typer

from mirada.cli.arguments import DataFile, Model, TaskName, check_task, data_and_keys, examples
from mirada.words import echo

# Memory for a long training: freed pages stay with the process.


TRIM, PAD, MAPPED = -1, -2, -3  # the names of glibc's mallopt: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD


def keep_memory() -> None:
    """Keep freed memory in the process, and use large pages. Called before torch allocates its first tensor.

    Every training step allocates the same memory. Without this, much of it is returned to the system and requested again:
    tens of thousands of page faults a step, a tenth of the time (docs/log.md). Without glibc this does nothing.
    """
    import ctypes

    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's name: tensors of 2 MB and more in large pages
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(MAPPED, 2**25)  # the most it allows: below that, memory comes from the heap
        mallopt(TRIM, 2**30)
        mallopt(PAD, 2**26)


EPILOG = examples(
    "mirada train translate",
    "mirada train classify --data reviews.tsv --minutes 5 width=128",
    "mirada train translate --data train.en,train.de --valid valid.en,valid.de",
    "mirada train translate --out runs/german --resume",
)


def train(
    task: TaskName,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Any setting: steps=300 lr=1e-3 width=128 ...")
    ] = None,
    model: Model = "",
    data: DataFile = "",
    valid: Annotated[str, typer.Option(help="Data to validate on; without it, some of --data is held out.")] = "",
    out: Annotated[str, typer.Option(help="The folder to write; without it, runs/TASK.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Resume a stopped run: --out, or the last.")] = False,
    minutes: Annotated[
        float, typer.Option(help="How long to train; without it, as many steps or epochs as set.", show_default=False)
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Another seed, another run.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...; auto takes a GPU where there is one.")] = "auto",
    start: Annotated[str, typer.Option("--from", metavar="DIR", help="Start from the weights of another run.")] = "",
) -> None:
    """Train a model, measure it, show answers and write a report."""
    began = time.monotonic()  # the time budget includes importing torch
    check_task("train", task, keys or ())  # a wrong argument is refused before torch is imported
    data, keys = data_and_keys(("mirada", "train", task), keys, data)

    keep_memory()
    from mirada.runs.request import TrainingRequest
    from mirada.runs.settings import key_values
    from mirada.runs.sources import Source
    from mirada.runs.train import execute

    request = TrainingRequest(
        task=task, model=model, source=Source(data, valid), out=out, resume=resume, minutes=minutes, seed=seed,
        device=device, start=start, keys=tuple(key_values(keys)),
    )  # fmt: skip
    execute(request, lambda text: echo(text, err=True), echo, began)
