"""`mirada check`: every bad record, then what a training would take."""

import tempfile
from pathlib import Path

import typer

from mirada.data.check import show
from mirada.tasks.fit import Order, gather, settle
from mirada.tasks.sources import problems, usable
from mirada.tasks.task import Place
from mirada.training.distributed import Crew
from mirada.training.loop import Training


def check_data(task: str, model: str, data: str, valid: str, keys: tuple[str, ...]) -> bool:
    """Print all problems; without any (or with bad=skip), the estimate. Whether the data can be used as it is comes back."""
    described = settle(Order(task, model, Place(data, valid), keys=keys))
    with tempfile.TemporaryDirectory() as folder:
        splits, run, recipe = gather(described, Path(folder))
        found = problems(splits, run)
        if found:
            typer.echo(show(found, most=len(found)))
        typer.echo(
            f"{len(splits.train):,} records to learn from, {len(splits.valid):,} to validate on, {len(found):,} bad"
        )
        if found and run.options.bad == "stop":
            return False
        splits = usable(splits, found, run.options)
        supply = run.task.supply(splits.train, run, recipe)
        parts = run.task.parts(splits.valid, run, recipe)
        training = Training(run.task.objective(run.model, recipe), supply, parts, recipe, Path(folder), Crew())
        typer.echo(training.plan().told(recipe.minutes))
    return True
