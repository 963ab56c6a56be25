"""`mirada import`: a run from a checkpoint of Hugging Face."""

import shlex
from typing import Annotated

import typer

from mirada.cli.arguments import examples
from mirada.words import echo, plural

EPILOG = examples(
    "mirada import models/bert-base-uncased",
    "mirada import models/opus-mt-en-es --out runs/spanish",
    "mirada import models/bert-base-uncased --out runs/vectors --task embed",
)


def import_(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder with config.json and model.safetensors, on this disk.")
    ],
    out: Annotated[str, typer.Option(help="The folder to write; without it, runs/ and the name of PATH.")] = "",
    task: Annotated[str, typer.Option(help="What the run does; without it, what the checkpoint is for.")] = "",
) -> None:
    """Make a run of a checkpoint that was trained elsewhere: it answers, and can be looked at, served and trained further.

    Nothing is downloaded, and no code of the folder is run.
    """
    from mirada.runs.importing import import_folder
    from mirada.runs.registry import entry
    from mirada.runs.settings import read_settings

    folder = import_folder(path, out, task, lambda text: echo(text, err=True))
    settings, quoted = read_settings(folder), shlex.quote(str(folder))
    files = plural(len(settings.files), "file")
    named = settings.origin["architecture"] or settings.origin["model_type"]
    echo(f"{folder} is a run of {settings.task}: a {named}, with {files} beside its weights")
    trained = settings.task if entry(settings.task).builtin else "classify"  # vectors are not trained here
    echo(f"try: mirada run {quoted}, or mirada look {quoted}; train from it: mirada train {trained} --from {quoted}")
