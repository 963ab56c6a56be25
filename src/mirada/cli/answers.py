"""`mirada run`: answers to inputs, one for each line."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import typer

from mirada.errors import require
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.run import Run, load

AT_ONCE = 256  # lines of a pipe that are answered together


def answer(folder: str, inputs: Sequence[str] | None, ask: Ask, as_json: bool, device: str) -> None:
    """Load the run, answer, print."""
    run = load(folder, device)
    run.asked(vars(ask))  # what it does not know is told before anything is read
    if inputs:
        if len(inputs) == 1 and not as_json and sys.stdout.isatty() and run.task.streams and ask.beam == ask.best == 1:
            for piece in run.stream(inputs[0], **vars(ask)):
                typer.echo(piece, nl=False)
            typer.echo()
            return
        for found in run(list(inputs), **vars(ask)):
            show(found, as_json)
        return
    if sys.stdin.isatty():
        converse(run, ask, as_json)
    else:
        answer_lines(run, ask, as_json)


def converse(run: Run, ask: Ask, as_json: bool) -> None:
    """Answer every line that is typed. One that cannot be answered is no reason to stop."""
    typer.echo("mirada: type a line and press Enter; Ctrl-D ends", err=True)
    for line in filter(str.strip, lines()):
        try:
            show(run(line, **vars(ask)), as_json)
        except ValueError as error:
            typer.echo(f"mirada: {error}", err=True)


def answer_lines(run: Run, ask: Ask, as_json: bool) -> None:
    """Answer the lines of a pipe or file, many at once: line i of the output is the answer to line i."""
    some = False
    read = lines()
    while batch := list(islice(read, AT_ONCE)):
        answers = iter(run([line for line in batch if line.strip()], **vars(ask)))
        for line in batch:
            show(next(answers) if line.strip() else Answer(line, "", 0.0), as_json)
        sys.stdout.flush()
        some = some or any(map(str.strip, batch))
    require(some, "there is no input: give one as an argument, or lines on standard input")


def lines() -> Iterator[str]:
    """Lines of standard input. Empty ones stay, so that answer i is that of line i."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of standard input is not UTF-8: byte {error.start + 1} is {raw[error.start]:#04x}"
            ) from None


def show(found: Answer, as_json: bool) -> None:
    """One answer: a line of JSON, or its text; alternatives with their scores, one a line."""
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif found.ranked:
        for text, score in found.ranked:
            typer.echo(f"{score:8.4f}  {text}")
    else:
        typer.echo(found.text)
