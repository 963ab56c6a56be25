"""The tutorials tell the truth: every command and every block runs, and what the first hour shows comes out."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import mirada
from mirada.cli.main import main
from mirada.runs.registry import CATALOG
from mirada.runs.sources import Splits

ROOT = Path(__file__).parents[1]
ENGLISH = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
SPANISH = sorted((ROOT / "docs" / "es").glob("*.md"))
FEW = {"train": 200, "valid": 16, "test": 16}  # records of the builtin data: a test learns nothing, it tries the way
QUICK = ("steps=4", "validate=2", "warmup=1", "threads=1")
ENV = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of every block that is to be run, and of what it prints."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [(language, text) for language, text in found if language]


def commands(text: str) -> list[tuple[str, str]]:
    """Every command of a block, and the comment behind it; a line that ends with a backslash continues."""
    lines = text.replace("\\\n", " ").splitlines()
    pairs = [re.split(r"  # ", line, maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return [(pair[0].strip(), pair[1] if len(pair) > 1 else "") for pair in pairs]


def shortened(words: list[str]) -> list[str]:
    """A training of the builtin data or with a budget makes a few steps here; one that counts its steps stays as it is."""
    if words[0] != "train" or any(word.startswith("steps=") for word in words):
        return words
    if "--minutes" in words:
        place = words.index("--minutes")
        words = words[:place] + words[place + 2 :]
    return [*words, *QUICK]


def in_process(words: list[str]) -> tuple[int, str, str]:
    """A mirada command: its exit code, what it prints and what it tells."""
    out, err, argv = StringIO(), StringIO(), sys.argv
    sys.argv = ["mirada", *words]
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = argv
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()


def interrupted(words: list[str]) -> tuple[int, str, str]:
    """A training that is stopped by Ctrl-C once it has made some steps."""
    log = Path(words[words.index("--out") + 1]) / "metrics.jsonl"
    command = [sys.executable, "-m", "mirada", *words]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (log.exists() and b'"lr"' in log.read_bytes()):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    return process.returncode, out, err


def run(command: str, note: str) -> str:
    """Run one command as a person would; all that is seen comes back."""
    words = shlex.split(command)
    if words[0] != "mirada":
        done = subprocess.run(["bash", "-c", command], env=ENV, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr
    stopped = "Ctrl-C" in note
    code, out, err = interrupted(words[1:]) if stopped else in_process(shortened(words[1:]))
    expected = re.search(r"exit code (\d+)", note)
    assert code == (130 if stopped else int(expected[1]) if expected else 0), f"{command}\n{out}\n{err}"
    return out + err


def few(read: Callable[..., Splits]) -> Callable[..., Splits]:
    """The same reader with a part of the builtin records."""

    def some(self: Any, source: Any, options: Any) -> Splits:
        splits = read(self, source, options)
        if not source.builtin:
            return splits
        parts: dict[str, Sequence[Any]] = {name: getattr(splits, name)[:count] for name, count in FEW.items()}
        return replace(splits, **parts, probes={})

    return some


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for item in CATALOG.values():
        kind = type(item.task())
        monkeypatch.setattr(kind, "read", few(kind.read))
    train = mirada.train

    def quick(*given: Any, minutes: float | None = None, **settings: Any) -> Any:
        return train(*given, **({"steps": 4, "validate": 2, "warmup": 1, "threads": 1} | settings))

    monkeypatch.setattr(mirada, "train", quick, raising=False)


def masked(line: str) -> str:
    """A line without its numbers and bars: they belong to the machine."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.:e-]*", "#", line.replace("█", ""))).strip()


def page_case(page: Path) -> Any:
    """A page to try. Those of the lecture decks train nearly every task and model, and three others train often, too."""
    long = page.stem.startswith("deck") or page.stem in ("first-hour", "pretrained", "look")
    return pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize("page", map(page_case, ENGLISH))
def test_every_command_and_block_runs(page: Path) -> None:
    if page.stem == "pretrained":
        pytest.importorskip("transformers")
        from tests import pretrained

        pretrained.make(Path.cwd())
    names: dict[str, Any] = {"__name__": "tutorial"}
    seen, tried = "", 0
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), names)
            tried += 1
        elif language == "bash":
            seen = ""
            for command, note in commands(text):
                seen += run(command, note) + "\n"
                tried += 1
        elif language == "text" and page.stem == "first-hour":
            known = {masked(line.replace(str(Path.cwd()) + "/", "")) for line in seen.splitlines()}
            for line in filter(str.strip, text.splitlines()):
                start, dots, _ = masked(line).partition("...")
                assert any(other == start or (dots and other.startswith(start)) for other in known), (
                    f"{line!r} is not among\n{seen}"
                )
    assert tried > 1


def test_every_page_has_a_twin_in_spanish() -> None:
    assert [page.name for page in SPANISH] == [page.name for page in ENGLISH]


@pytest.mark.parametrize("page", SPANISH, ids=lambda page: page.stem)
def test_the_spanish_page_has_the_same_commands(page: Path) -> None:
    twin = ROOT / "docs" / "tutorials" / page.name
    kept = [block for block in blocks(twin) if block[0] in ("bash", "python")]
    assert [block for block in blocks(page) if block[0] in ("bash", "python")] == kept
