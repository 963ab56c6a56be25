"""`mirada tasks`: what there is."""

from mirada.cli.options import examples
from mirada.terminal import echo

EPILOG = examples("mirada tasks")


def tasks() -> None:
    """List the tasks, their models and the data they read."""
    from mirada.runs.catalog import describe

    echo(describe())
