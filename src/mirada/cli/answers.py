"""`mirada run`: answers to inputs, one for each line."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import typer

from mirada.errors import require
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.run import load

AT_ONCE = 256  # lines of a pipe that are answered together


def answer(folder: str, inputs: Sequence[str] | None, ask: Ask, as_json: bool, device: str) -> None:
    """Load the run, answer, print."""
    run = load(folder, device)
    if inputs:
        if len(inputs) == 1 and not as_json and sys.stdout.isatty() and run.task.streams and ask.beam == ask.best == 1:
            for piece in run.stream(inputs[0], **vars(ask)):
                typer.echo(piece, nl=False)
            typer.echo()
            return
        batches: Iterator[list[str]] = iter([list(inputs)])
    else:
        if sys.stdin.isatty():
            typer.echo("mirada: type a line and press Enter; Ctrl-D ends", err=True)
        batches = lines(1 if sys.stdin.isatty() else AT_ONCE)
    some = False
    for batch in batches:
        for found in run(batch, **vars(ask)):
            show(found, as_json)
        sys.stdout.flush()
        some = True
    require(some, "there is no input: give one as an argument, or lines on standard input")


def lines(count: int) -> Iterator[list[str]]:
    """Lines of standard input, some at a time; empty ones are left out."""
    stripped = (line.rstrip("\r\n") for line in sys.stdin)
    wanted = (line for line in stripped if line.strip())
    while batch := list(islice(wanted, count)):
        yield batch


def show(found: Answer, as_json: bool) -> None:
    """One answer: a line of JSON, or its text; alternatives with their scores, one a line."""
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif found.ranked:
        for text, score in found.ranked:
            typer.echo(f"{score:8.4f}  {text}")
    else:
        typer.echo(found.text)
