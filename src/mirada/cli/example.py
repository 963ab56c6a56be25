"""`mirada example`: small scripts of the lectures."""

import ast
import runpy
from pathlib import Path
from typing import Annotated

import typer

import mirada
from mirada.cli.arguments import examples
from mirada.errors import unknown
from mirada.words import echo

EPILOG = examples("mirada example black_cat")


def scripts() -> dict[str, Path]:
    """The scripts by name: those inside an installed package, or next to `src` in a checkout."""
    package = Path(mirada.__file__).parent
    home = package / "examples" if (package / "examples").is_dir() else package.parents[1] / "examples"
    return {path.stem: path for path in sorted(home.glob("*.py"))}


def example(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The example to run; without one, all are listed.")
    ] = None,
) -> None:
    """Run one of the lectures' small examples and print its numbers."""
    known = scripts()
    if name is None:
        echo("Examples (run one with: mirada example NAME)")
        for each, path in known.items():
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            echo(f"  {each:<{max(map(len, known))}}  {about.partition(chr(10))[0]}")
        return
    script = known.get({"negro": "black_cat", "black-cat": "black_cat"}.get(name, name))  # negro: its old name
    if script is None:
        raise unknown("example", name, known)
    runpy.run_path(str(script), run_name="__main__")
