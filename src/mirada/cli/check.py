"""`mirada check`: all bad records of the data, then the memory and time of a training."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirada.cli.arguments import DataFile, Model, TaskName, check_task, data_and_keys, examples
from mirada.errors import require
from mirada.files import expanded
from mirada.words import echo

if TYPE_CHECKING:
    from mirada.data.record import Problem
    from mirada.runs.request import TrainingRequest
    from mirada.runs.sources import Splits
    from mirada.runs.task import Task

EPILOG = examples(
    "mirada check translate --data pairs.tsv",
    "mirada check classify --data a.csv --minutes 5 bad=skip",
    "mirada check runs/translate",
)


def check(
    task: TaskName,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, as for `mirada train`.")
    ] = None,
    model: Model = "",
    data: DataFile = "",
    valid: Annotated[str, typer.Option(help="Data to validate on.")] = "",
    minutes: Annotated[
        float, typer.Option(help="How long the training may take: it decides the model.", show_default=False)
    ] = 0.0,
    each: Annotated[bool, typer.Option("--all", help="List every bad record, not one of each kind.")] = False,
) -> None:
    """Name bad records as file:line, then estimate the memory and time of a training on this machine.

    With the folder of a run instead of TASK: check that its files are intact.
    """
    from mirada.runs.registry import CATALOG

    if task not in CATALOG and os.path.exists(expanded(task) / "config.json"):
        require(not (keys or model or data or valid or minutes), f"{task} is the folder of a run: it is checked alone")
        from mirada.runs.integrity import inspect

        folder, bad = expanded(task), 0
        for name, wrong in inspect(folder):
            echo(f"{name}: {wrong or 'intact'}")
            bad += bool(wrong)
        echo(f"{folder} is damaged: {bad} of its files" if bad else f"{folder} is intact")
        raise typer.Exit(int(bad > 0))
    check_task("check", task, keys or ())
    data, keys = data_and_keys(("mirada", "check", task), keys, data)
    from mirada.runs.request import TrainingRequest
    from mirada.runs.settings import key_values
    from mirada.runs.sources import Source

    pairs = tuple(key_values(keys))
    request = TrainingRequest(task=task, model=model, source=Source(data, valid), minutes=minutes, keys=pairs)
    if not is_usable(request, each):
        raise typer.Exit(1)


def is_usable(request: "TrainingRequest", each: bool) -> bool:
    """Print all problems and, without any (or with bad=skip), the estimate. Returns whether the data can be used."""
    import tempfile

    from mirada.runs.registry import entry
    from mirada.runs.sources import SETS
    from mirada.runs.task import encode
    from mirada.runs.train import FIX, build, no_print, prepare, skip
    from mirada.training.distributed import ProcessGroup
    from mirada.training.plan import estimate

    settings, task = request.settings(), entry(request.task).task()
    with tempfile.TemporaryDirectory() as folder:
        splits = task.read(settings.source, settings.data)
        for note in splits.notes:
            echo(note)
        if splits.problems and not (splits.train and splits.valid):
            _print_records(task, splits, splits.problems, each)
            echo("Fix these records: the others are too few.")
            return False
        settings, line = request.chosen(settings, splits)
        if line:
            echo(line)
        run = build(settings, splits, Path(folder))
        sets, problems = encode(run, splits, SETS[:2] if settings.source.builtin or not splits.test else SETS)
        _print_records(task, splits, problems, each)
        if problems and run.options.bad == "stop":
            echo(FIX)
            return False
        if problems:
            splits, sets = skip(splits, sets, problems)
        training = prepare(run, splits, sets, ProcessGroup(), False, no_print)
        pace = training.planning.measure()
        echo(estimate(training.planning.plan(pace), pace, run.settings.recipe.budget))
    return True


def _print_records(task: "Task", splits: "Splits", problems: "Sequence[Problem]", each: bool) -> None:
    """Print one bad record of each kind, or all, then the number of records."""
    from mirada.data.record import grouped, show

    if problems:
        echo(show(problems, most=len(problems)) if each else grouped(problems))
    echo(
        f"{task.amount(splits.train)} to learn from, {task.amount(splits.valid)} to validate on, {len(problems):,} bad"
    )
