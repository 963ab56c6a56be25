"""Commands in this process: starting another one costs seconds, most of them for importing torch."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mirada.cli.main import main
from tests.runs.small import QUICK, pairs, reviews, stories, text, trained, write_rows


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def mirada(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command line."""

    def command(*words: object, stdin: bytes = b"", typed: bool = False) -> Done:
        source = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        source.isatty = lambda: typed  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "argv", ["mirada", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", source)
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(ended.value.code or 0, *capsys.readouterr())

    return command


class Made(NamedTuple):
    """Files of data, and a run of every task, trained for a moment."""

    pairs: Path
    reviews: Path
    stories: Path
    text: Path
    translate: Path
    classify: Path
    fill: Path
    write: Path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    home = tmp_path_factory.mktemp("made")
    files = [home / name for name in ("pairs.tsv", "reviews.tsv", "stories.tsv", "text.txt")]
    for path, rows in zip(files, (pairs(), reviews(), stories()), strict=False):
        write_rows(path, rows)
    files[3].write_text(text(), encoding="utf-8")
    tasks = ("translate", "classify", "fill", "write")
    folders = [trained(task, str(path), home / task, *QUICK).folder for task, path in zip(tasks, files, strict=True)]
    return Made(*files, *folders)
