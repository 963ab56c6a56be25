"""`mirada check`: every bad record, then what a training would take."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from mirada.data.check import show
from mirada.data.text import Problem
from mirada.tasks.catalog import entry
from mirada.tasks.fit import gather, read
from mirada.tasks.order import Order
from mirada.tasks.sources import problems, require_both, usable
from mirada.tasks.task import Place, Splits, Task
from mirada.training.distributed import Crew
from mirada.training.loop import Training


def check_data(task: str, model: str, data: str, valid: str, keys: tuple[str, ...]) -> bool:
    """Print all problems; without any (or with bad=skip), the estimate. Whether the data can be used as it is comes back."""
    chosen = entry(task).task()
    described = Order(task, model, Place(data, valid), keys=keys).settings()
    with tempfile.TemporaryDirectory() as folder:
        splits = read(described, Path(folder))
        if splits.problems and not (splits.train and splits.valid):
            tell_records(chosen, splits, splits.problems)
            typer.echo("Mend these records: the others are too few.")
            return False
        run, recipe = gather(described, Path(folder), require_both(splits))
        found = problems(splits, run)
        tell_records(chosen, splits, found)
        if found and run.options.bad == "stop":
            typer.echo("Mend these records, or leave them out with bad=skip.")
            return False
        splits = require_both(replace(usable(splits, found, run.options), problems=()))
        supply = run.task.supply(splits.train, run, recipe)
        parts = run.task.parts(splits.valid, run, recipe)
        training = Training(run.task.objective(run.model, recipe), supply, parts, recipe, Path(folder), Crew())
        typer.echo(training.plan().told(recipe.budget))
    return True


def tell_records(task: Task, splits: Splits, found: Sequence[Problem]) -> None:
    """Every bad record, then how many there are of all."""
    if found:
        typer.echo(show(found, most=len(found)))
    typer.echo(
        f"{task.amount(splits.train)} to learn from, {task.amount(splits.valid)} to validate on, {len(found):,} bad"
    )
