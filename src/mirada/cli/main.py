"""`mirada`: the commands and how their errors are shown."""

import sys
from typing import Annotated

import typer

import mirada

app = typer.Typer(
    name="mirada",
    help="Attention you can compose, run fast and look at.",
    epilog="Example: mirada example step_by_step",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


@app.command(epilog="Example: mirada example negro")
def example(
    name: Annotated[str | None, typer.Argument(help="The example to run; without one, all are listed.")] = None,
) -> None:
    """Run one of the lectures' small examples and print its numbers."""
    from mirada.cli.examples import describe, run

    if name is None:
        typer.echo(describe())
    else:
        run(name)


def main() -> None:
    """Run a command. A user's mistake ends in one line on stderr and a non-zero exit code, never in a traceback."""
    try:
        app()
    except ValueError as error:
        typer.echo(f"mirada: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
