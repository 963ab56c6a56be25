"""`mirada`: the commands and how their errors are shown. A command imports what it needs when it runs."""

import sys
from typing import Annotated

import typer

import mirada

app = typer.Typer(
    name="mirada",
    help="Attention you can compose, run fast and look at.",
    epilog="Start with: mirada train translate. Any command takes --debug, which shows where an error came from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def examples(*commands: str) -> str:
    """The end of a help text: commands to try, each on a line of its own, which the mark keeps."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {line}" for line in commands)])


Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
FILES = "A file, or aligned text files with a comma between them; without it, "
DataFile = Annotated[str, typer.Option("--data", help=f"{FILES}the builtin data.")]
TestFile = Annotated[str, typer.Option("--data", help=f"{FILES}what the run kept for this.")]


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        typer.echo(f"mirada {mirada.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Attention you can compose, run fast and look at."""


@app.command(epilog=examples("mirada tasks"))
def tasks() -> None:
    """List the tasks, their models and the data they read."""
    from mirada.tasks.catalog import describe

    typer.echo(describe())


@app.command(
    epilog=examples(
        "mirada train translate",
        "mirada train classify --data reviews.tsv --minutes 5 width=128",
        "mirada train translate --data train.en,train.de --valid valid.en,valid.de",
        "mirada train translate --out runs/german --resume",
    )
)
def train(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to learn: see `mirada tasks`.")],
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Any setting: steps=300 lr=1e-3 width=128 ...")
    ] = None,
    model: Annotated[str, typer.Option(help="The model; without it, the task's first.")] = "",
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
    from mirada.tasks.catalog import entry

    entry(task)  # a wrong word is told before torch is imported
    from mirada.cli.memory import keep_memory

    keep_memory()
    from mirada.tasks.fit import fit
    from mirada.tasks.order import Order
    from mirada.tasks.task import Place

    order = Order(task, model, Place(data, valid), out, resume, minutes, seed, device, start, tuple(keys or ()))
    fit(order, tell=lambda text: typer.echo(text, err=True), say=typer.echo)


@app.command(
    epilog=examples(
        'mirada run runs/translate "the red house"',
        "mirada run runs/translate --beam 4 --json < lines.txt",
        'mirada run runs/fill "Ana va al cine a ver una nueva ___." --candidates película,tienda',
        'mirada run runs/write "The list" --temperature 0.5 --tokens 100',
    )
)
def run(
    folder: Folder,
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT", help="What to answer; without any, lines of standard input.")
    ] = None,
    json: Json = False,
    beam: Annotated[int, typer.Option(help="Beams of the search; 1 is greedy.")] = 1,
    best: Annotated[int, typer.Option(help="How many answers to show for each input.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="Above 1 prefers long answers of a beam, below 1 short ones.")
    ] = 1.0,
    coverage: Annotated[float, typer.Option(help="How much a beam should look at all of the source.")] = 0.0,
    candidates: Annotated[str, typer.Option(help="Score these words or labels, with commas between them.")] = "",
    temperature: Annotated[float | None, typer.Option(help="Draw answers at random, the wilder the higher.")] = None,
    top_k: Annotated[int, typer.Option(help="Draw among the k likeliest tokens only; 0: among all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw among the likeliest tokens that sum up to p only.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the drawing.")] = 0,
    tokens: Annotated[int, typer.Option(help="At most so many tokens an answer; 0: what suits the task.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
) -> None:
    """Answer with a trained run, one line for each input."""
    from mirada.cli.answers import answer
    from mirada.tasks.answer import Ask

    words = tuple(word.strip() for word in candidates.split(",") if word.strip())
    ask = Ask(beam, best, length_penalty, coverage, words, temperature, top_k, top_p, seed, tokens)
    answer(folder, inputs, ask, json, device)


@app.command(
    "eval",
    epilog=examples("mirada eval runs/translate", "mirada eval runs/translate --data test.tsv --by length --json"),
)
def evaluate(
    folder: Folder,
    data: TestFile = "",
    by: Annotated[str, typer.Option(help="length: the quality for short and long inputs, also as a plot.")] = "",
    json: Json = False,
    beam: Annotated[int, typer.Option(help="Beams of the search; 1 is greedy.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
) -> None:
    """Measure a trained run, on its own test data or on a file."""
    from mirada.cli.quality import measure

    measure(folder, data, by, json, beam, device)


@app.command(epilog=examples("mirada check translate --data pairs.tsv", "mirada check classify --data a.csv bad=skip"))
def check(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What the data is for: see `mirada tasks`.")],
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, as for `mirada train`.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model; without it, the task's first.")] = "",
    data: DataFile = "",
    valid: Annotated[str, typer.Option(help="Data to validate on.")] = "",
) -> None:
    """Name every bad record as file:line, then estimate the memory and time of a training on this machine."""
    from mirada.tasks.catalog import entry

    entry(task)
    from mirada.cli.checking import check_data

    if not check_data(task, model, data, valid, tuple(keys or ())):
        raise typer.Exit(1)


@app.command(epilog=examples("mirada bench training"))
def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="attention, training or decoding; without one, all three.")
    ] = None,
) -> None:
    """Measure speed on this machine, beside plain PyTorch."""
    from mirada.cli.speed import run_benchmarks

    run_benchmarks(name)


@app.command(epilog=examples("mirada example negro"))
def example(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The example to run; without one, all are listed.")
    ] = None,
) -> None:
    """Run one of the lectures' small examples and print its numbers."""
    from mirada.cli.examples import describe, run

    if name is None:
        typer.echo(describe())
    else:
        run(name)


def main() -> None:
    """Run a command. A user's mistake ends in a line or two on stderr and a non-zero exit code, never in a traceback."""
    debug = "--debug" in sys.argv
    sys.argv[:] = [word for word in sys.argv if word != "--debug"]
    try:
        app()  # it ends quietly where nobody reads its answers any more
    except Exception as error:
        if debug:
            raise
        text, code = explained(error)
        typer.echo(f"mirada: {text}", err=True)
        sys.exit(code)


def explained(error: Exception) -> tuple[str, int]:
    """What to say about an error, and the exit code that goes with it."""
    kind, reason = type(error).__name__, str(error).strip() or "no reason given"
    if isinstance(error, ValueError | OSError):
        return reason, 2
    if kind == "Interrupted":
        return f"{reason}. Go on with the same command and --resume.", 130
    first = reason.splitlines()[0]
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or "allocate memory" in reason:
        return f"there is not enough memory: {first}\nTake a smaller batch_tokens, width, depth or length.", 1
    return f"{kind}: {first}\nThis should not happen: --debug shows where it came from. Please report it.", 1
