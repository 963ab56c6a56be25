"""`mirada run`: answers to inputs, one for each line."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirada.cli.options import Beam, Device, Folder, Json, examples
from mirada.errors import require

if TYPE_CHECKING:
    from mirada.runs.answers import Answer
    from mirada.runs.run import Run

AT_ONCE = 256  # lines of a pipe that are answered together
EPILOG = examples(
    'mirada run runs/translate "the red house"',
    "mirada run runs/translate --beam 4 --json < lines.txt",
    'mirada run runs/fill "Ana va al cine a ver una nueva ___." --candidates película,tienda',
    'mirada run runs/write "The list" --temperature 0.5 --tokens 100',
)


def run(
    folder: Folder,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="What to answer; without any, lines of standard input.")
    ] = None,
    as_json: Json = False,
    beam: Beam = None,
    best: Annotated[int | None, typer.Option(help="How many answers to show for each input.")] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="Above 1 prefers long answers of a beam, below 1 short ones.")
    ] = None,
    coverage: Annotated[float | None, typer.Option(help="How much a beam should look at all of the source.")] = None,
    candidates: Annotated[
        str | None, typer.Option(help="Score these words or labels, with commas between them.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Draw answers at random, the wilder the higher.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among the k likeliest tokens only; 0: among all.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest tokens that sum up to p only.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the drawing.")] = None,
    tokens: Annotated[
        int | None, typer.Option(help="At most so many tokens an answer; 0: what suits the task.")
    ] = None,
    device: Device = "cpu",
) -> None:
    """Answer with a trained run, one line for each input."""
    words = None if candidates is None else tuple(word.strip() for word in candidates.split(",") if word.strip())
    options = {
        "beam": beam, "best": best, "length_penalty": length_penalty, "coverage": coverage, "candidates": words,
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "tokens": tokens,
    }  # fmt: skip
    answer(folder, inputs, {name: value for name, value in options.items() if value is not None}, as_json, device)


def answer(folder: str, inputs: Sequence[str] | None, ask: Mapping[str, Any], as_json: bool, device: str) -> None:
    """Load the run, answer, print."""
    from mirada.runs.load import load

    run = load(folder, device)
    run.ask = run.asked(ask)  # what it does not know is told before anything is read
    if inputs:
        single = len(inputs) == 1 and not as_json and sys.stdout.isatty() and run.task.streams
        if single and not {"beam", "best"} & {name for name, value in ask.items() if value != 1}:
            for piece in run.stream(run.task.parse(inputs[0])):
                typer.echo(piece, nl=False)
            typer.echo()
            return
        print_answers(run.answers_in_place(inputs), as_json)
        return
    if sys.stdin.isatty():
        converse(run, as_json)
    else:
        answer_lines(run, as_json)


def converse(run: "Run", as_json: bool) -> None:
    """Answer every line that is typed. One that cannot be answered is no reason to stop."""
    typer.echo("mirada: type a line and press Enter; Ctrl-D ends", err=True)
    for line in filter(str.strip, lines()):
        try:
            print_answer(run.answers([run.task.parse(line)])[0], as_json)
        except ValueError as error:
            typer.echo(f"mirada: {error}", err=True)


def answer_lines(run: "Run", as_json: bool) -> None:
    """Answer the lines of a pipe or file, many at once: line i of the output is the answer to line i."""
    from mirada.runs.answers import Answer

    some, failed, read = False, 0, lines()
    while batch := list(islice(read, AT_ONCE)):
        answers = iter(run.answers_in_place([line for line in batch if line.strip()]))
        found = [next(answers) if line.strip() else Answer(line, "", 0.0) for line in batch]
        failed += print_each(found, as_json)
        sys.stdout.flush()
        some = some or any(map(str.strip, batch))
    require(some, "there is no input: give one as an argument, or lines on standard input")
    if failed:
        raise typer.Exit(1)


def print_answers(found: "Sequence[Answer]", as_json: bool) -> None:
    """All answers, one after the other; the command fails if one of them did."""
    if print_each(found, as_json):
        raise typer.Exit(1)


def print_each(found: "Sequence[Answer]", as_json: bool) -> int:
    """Answers one by one. What went wrong is told on stderr, and is an empty line here; how many did comes back."""
    for answer in found:
        print_answer(answer, as_json)
        if answer.error and not as_json:
            typer.echo(f"mirada: {answer.error}", err=True)
    return sum(bool(answer.error) for answer in found)


def lines() -> Iterator[str]:
    """Lines of standard input. Empty ones stay, so that answer i is that of line i."""
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"line {number} of standard input is not UTF-8: byte {error.start + 1} is {raw[error.start]:#04x}"
            ) from None


def print_answer(found: "Answer", as_json: bool) -> None:
    """One answer: a line of JSON, or its text; alternatives with their scores, one a line."""
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    elif found.ranked:
        for text, score in found.ranked:
            typer.echo(f"{score:8.4f}  {text}")
    else:
        typer.echo(found.text)
