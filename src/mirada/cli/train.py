"""`mirada train`: from data to a run with its report."""

import time
from typing import Annotated

import typer

from mirada.cli.options import DataFile, Model, TaskName, examples
from mirada.cli.places import check_task, data_and_keys
from mirada.terminal import echo

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
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped: --out, or the last.")
    ] = False,
    minutes: Annotated[
        float, typer.Option(help="How long to train; without it, as many steps or epochs as set.", show_default=False)
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Another seed, another run.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...; auto takes a GPU where there is one.")] = "auto",
    start: Annotated[str, typer.Option("--from", metavar="DIR", help="Start from the weights of another run.")] = "",
) -> None:
    """Train a model, measure it, show answers and write a report."""
    began = time.monotonic()  # a budget counts from here: importing torch takes a while, too
    check_task("train", task, keys or ())  # a wrong word is told before torch is imported
    data, keys = data_and_keys(("mirada", "train", task), keys, data)
    from mirada.cli.allocator import keep_memory

    keep_memory()
    from mirada.runs.request import TrainingRequest
    from mirada.runs.settings import key_values
    from mirada.runs.sources import Source
    from mirada.runs.train import carry_out

    request = TrainingRequest(
        task=task, model=model, source=Source(data, valid), out=out, resume=resume, minutes=minutes, seed=seed,
        device=device, start=start, keys=tuple(key_values(keys)),
    )  # fmt: skip
    carry_out(request, lambda text: echo(text, err=True), echo, began)
