"""What several commands share: their arguments, and how their help ends."""

from typing import Annotated

import typer

FILES = "A file, or aligned text files with a comma between them; without it, "

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of a run.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="What to learn: see `mirada tasks`.")]
Model = Annotated[str, typer.Option(help="The model; without it, the task's first.")]
DataFile = Annotated[str, typer.Option("--data", help=f"{FILES}the builtin data.")]
TestFile = Annotated[str, typer.Option("--data", help=f"{FILES}what the run kept for this.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, ...")]
Beam = Annotated[int | None, typer.Option(help="Beams of the search; 1 is greedy.", show_default=False)]


def examples(*commands: str) -> str:
    """The end of a help text: commands to try, each on a line of its own, which the mark keeps."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *(f"  {line}" for line in commands)])
