"""`mirada`: the commands and how their errors are shown. A command imports what it needs when it runs."""

import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated

import typer

import mirada
from mirada.words import echo

COMMANDS = {  # in the order of the help: the module here and its function
    "tasks": "tasks:tasks",
    "train": "train:train",
    "import": "import_:import_",
    "run": "run:run",
    "look": "look:look",
    "eval": "eval:evaluate",
    "runs": "runs:runs",
    "serve": "serve:serve",
    "export": "export:export",
    "check": "check:check",
    "bench": "bench:bench",
    "example": "example:example",
}
STOPPED = 130  # the exit code of a command that Ctrl-C ended
STANDARD = 2  # the last number of a standard stream
WIDEST, MOST_LINES = 600, 200  # of an error: a record or a path in it may be of any length


def app(names: Collection[str] = tuple(COMMANDS)) -> typer.Typer:
    """The program with these commands; the module of another one is not imported."""
    made = typer.Typer(
        name="mirada",
        help="Attention you can compose, run fast and look at.",
        epilog="Start with: mirada train translate. Any command takes --debug, which shows where an error came from.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback(invoke_without_command=True)(options)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        command = import_module(f"mirada.cli.{module}")
        made.command(name, epilog=command.EPILOG)(getattr(command, function))
    return made


def options(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Attention you can compose, run fast and look at."""
    if version:
        echo(f"mirada {mirada.__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command. A user error ends in a line or two on stderr and a non-zero exit code, never in a traceback."""
    # occupy the descriptors of closed standard streams: a file opened with one would receive what libraries print
    while (handle := os.open(os.devnull, os.O_RDWR)) <= STANDARD:
        pass
    os.close(handle)
    debug = "--debug" in sys.argv
    sys.argv[:] = [word for word in sys.argv if word != "--debug"]
    try:
        asked = [name for name in sys.argv[1:2] if name in COMMANDS]  # without one, the help names all
        app(asked or COMMANDS)(prog_name="mirada")  # a closed pipe at the output ends it silently
    except SystemExit as ended:
        if ended.code == STOPPED:
            echo("mirada: stopped", err=True)
        raise
    except Exception as error:
        if debug:
            raise
        text, code = explained(error)
        echo(f"mirada: {shortened(text)}", err=True)
        sys.exit(code)


def explained(error: Exception) -> tuple[str, int]:
    """The message for an error, and its exit code."""
    kind, reason = type(error).__name__, str(error).strip() or "no reason given"
    if isinstance(error, OSError):
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes | os.PathLike) else ""
        return f"{where}{error.strerror or reason}", 2
    if isinstance(error, ValueError):
        return reason, 2
    if kind == "Interrupted":
        return f"{reason}. Continue with the same command and --resume.", STOPPED
    if kind == "ProcessLostError":
        return f"{reason}. Continue with the same command and --resume; torchrun --max-restarts 3 does so by itself.", 1
    first = reason.splitlines()[0]
    full = "allocate memory" in reason or "overflowed with sizes" in reason
    if isinstance(error, MemoryError) or kind == "OutOfMemoryError" or full:
        return f"there is not enough memory: {first}\nTake a smaller batch_tokens, width, depth or length.", 1
    return f"{kind}: {first}\nThis should not happen: --debug shows where it came from. Please report it.", 1


def shortened(text: str) -> str:
    """A message that fits on a screen: the middle of long lines and the last of many lines are cut.

    >>> shortened("a" * 1000).count("a"), shortened("no such file")
    (600, 'no such file')
    """
    lines = text.splitlines()
    more = [f"... and {len(lines) - MOST_LINES:,} more lines"] if len(lines) > MOST_LINES else []
    half = WIDEST // 2
    cut = [line if len(line) <= WIDEST else f"{line[:half]} ... {line[-half:]}" for line in lines[:MOST_LINES]]
    return "\n".join([*cut, *more])
