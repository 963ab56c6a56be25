"""What several commands share: their arguments, and how their help ends."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mirada.runs.run import Run

FILES = "A file or folder, or aligned text files with a comma between them; without it, "

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="What to learn: see `mirada tasks`.")]
Model = Annotated[str, typer.Option(help="The model; without it, the task's first.")]
DataFile = Annotated[str, typer.Option("--data", help=f"{FILES}the builtin data.")]
TestFile = Annotated[str, typer.Option("--data", help=f"{FILES}what the run kept for this.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...")]
Beam = Annotated[int | None, typer.Option(help="Beams of the search; 1 is greedy.", show_default=False)]
TableKeys = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="How the file of --data is read: columns=, separator=, encoding=, ..."),
]


def told_of_file(run: "Run", keys: Sequence[str] | None) -> dict[str, Any]:
    """The KEY=VALUE of a command that say how the file of --data is read."""
    from mirada.runs.settings import file_options, key_values

    return file_options(type(run.options), key_values(keys or ()))


def without_keys(run: "Run", words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Paths among the words of a command, and the KEY=VALUE that say how these files are read."""
    keys = [word for word in words if word.partition("=")[0] in run.options.of_files and "=" in word]
    keys = [word for word in keys if not os.path.exists(word)]
    return [word for word in words if word not in keys], keys


def examples(*commands: str) -> str:
    """The end of a help text: commands to try, each on a line of its own, which the mark keeps."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {line}" for line in commands)])
