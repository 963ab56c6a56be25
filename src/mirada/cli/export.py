"""`mirada export`: a run as a checkpoint of another library."""

from typing import Annotated

import typer

from mirada.cli.arguments import Folder, check_folder, examples
from mirada.words import echo

EPILOG = examples("mirada export runs/spanish --to hf -o models/spanish")


def export(
    folder: Folder,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FORMAT", help="hf: a folder for transformers; ctranslate2: one for it; torch: FILE.pt2."
        ),
    ],
    out: Annotated[str, typer.Option("-o", "--out", help="The folder or file to write.")],
) -> None:
    """Write the model of a run in the form of another library."""
    check_folder("export", folder, ())
    from mirada.runs.exporting import export_run, format_of

    format_of(to)  # a wrong one is named before anything is loaded
    from mirada.runs.load import load

    for line in export_run(load(folder), to, out):
        echo(line)
