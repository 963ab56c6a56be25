"""`mirada example`: scripts that read like a lecture and run like a program."""

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


def _folder() -> Path:
    """Where the scripts are: inside an installed package, beside `src` in a checkout."""
    package = Path(mirada.__file__).parent
    installed = package / "examples"
    return installed if installed.is_dir() else package.parents[1] / "examples"


def scripts() -> dict[str, Path]:
    """The scripts by name."""
    return {path.stem: path for path in sorted(_folder().glob("*.py"))}


def _describe() -> str:
    """Every example with the first line of its docstring."""
    found = scripts()
    width = max(map(len, found), default=0)
    lines = [f"  {name:<{width}}  {_first_line(path)}" for name, path in found.items()]
    return "\n".join(["Examples (run one with: mirada example NAME)", *lines])


def _first_line(path: Path) -> str:
    """What a script shows, in one line."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def example(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The example to run; without one, all are listed.")
    ] = None,
) -> None:
    """Run one of the lectures' small examples and print its numbers."""
    if name is None:
        echo(_describe())
    else:
        _run_script(name)


def _run_script(name: str) -> None:
    """Run a script as a program."""
    found = scripts()
    path = found.get({"negro": "black_cat", "black-cat": "black_cat"}.get(name, name))  # negro: its old name
    if path is None:
        raise unknown("example", name, found)
    runpy.run_path(str(path), run_name="__main__")
