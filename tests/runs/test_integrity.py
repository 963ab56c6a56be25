"""What is looked at in the folder of a run; the command is tested in tests/cli/test_check_run.py."""

import os
from pathlib import Path

import pytest

from mirada.runs.integrity import inspect
from tests.runs.small import QUICK, pairs, trained, write_rows


def test_a_pipe_makes_nobody_wait(tmp_path: Path) -> None:
    run = trained("translate", write_rows(tmp_path / "pairs.tsv", pairs()), tmp_path / "run", *QUICK).folder
    assert not any(wrong for _, wrong in inspect(run))
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert [name for name, wrong in inspect(run) if "no ordinary file" in wrong] == ["metrics.jsonl"]


@pytest.mark.parametrize("content", ["{", "[]", '{"task": 3}'])
def test_without_settings_nothing_else_can_be_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    ((name, wrong),) = inspect(tmp_path)
    assert (name, bool(wrong)) == ("config.json", True)
