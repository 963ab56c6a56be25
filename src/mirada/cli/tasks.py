"""`mirada tasks`: what there is."""

import typer

from mirada.cli.options import examples

EPILOG = examples("mirada tasks")


def tasks() -> None:
    """List the tasks, their models and the data they read."""
    from mirada.runs.catalog import describe

    typer.echo(describe())
