"""`mirada check DIR`: whether the folder of a run is whole."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Made

FILES = ("tokenizer.json", "checkpoints/last.safetensors", "metrics.jsonl", "model.safetensors")


@pytest.fixture
def run(tmp_path: Path, made: Made) -> Path:
    return Path(shutil.copytree(made.translate, tmp_path / "run"))


def test_a_whole_run(mirada: Command, run: Path) -> None:
    done = mirada("check", run)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [*(f"{name}: intact" for name in ("config.json", *FILES)), f"{run} is intact"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["gone", "cut", "flipped"])
def test_a_run_with_a_damaged_file(mirada: Command, run: Path, name: str, damage: str) -> None:
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2] if damage == "cut" else content[:-20] + b"?" + content[-19:])
    if damage == "flipped" and name == "metrics.jsonl":
        (run / name).write_bytes(content.replace(b'"loss": ', b'"loss": 1', 1))
    if damage == "gone":
        (run / name).unlink()
    done = mirada("check", run)
    assert done.code == 1
    bad = [line.split(":")[0] for line in done.out.splitlines()[:-1] if not line.endswith(": intact")]
    assert bad[0] == name
    assert done.out.splitlines()[-1].startswith(f"{run} is damaged")


def test_settings_that_were_changed(mirada: Command, run: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 1'), encoding="utf-8")
    done = mirada("check", run)
    assert done.code == 1
    assert done.out.startswith("config.json: ")
    assert "was changed since it was written" in done.out


def test_a_run_is_checked_alone(mirada: Command, run: Path) -> None:
    done = mirada("check", run, "--data", "pairs.tsv")
    assert (done.code, done.err) == (2, f"mirada: {run} is the folder of a run: it is checked alone\n")
