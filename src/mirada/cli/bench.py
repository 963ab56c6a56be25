"""`mirada bench`: speed on this machine."""

from typing import Annotated

import typer

from mirada.cli.arguments import examples

EPILOG = examples("mirada bench training")


def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="attention, training or decoding; without one, all three.")
    ] = None,
) -> None:
    """Measure speed on this machine against plain PyTorch, and print what is compiled."""
    from mirada.cli.speed import run_benchmarks

    run_benchmarks(name)
