"""`mirada tasks`: the tasks and their models."""

from mirada.cli.arguments import examples
from mirada.words import echo

EPILOG = examples("mirada tasks")


def tasks() -> None:
    """List the tasks, their models and the data they read."""
    from mirada.runs.registry import describe

    echo(describe())
