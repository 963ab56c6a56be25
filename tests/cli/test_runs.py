"""`mirada runs`: what was trained, in a table or side by side; `print(run)` in four lines."""

import json
import os
import shutil
from pathlib import Path

import pytest

from mirada.cli.runs import print_side_by_side
from mirada.runs.load import load
from tests.cli.conftest import Command, Made


def test_runs_are_listed_with_task_model_quality_and_minutes(mirada: Command, made: Made) -> None:
    done = mirada("runs", made.classify.parent)
    assert done.code == 0
    head, *rows = done.out.splitlines()
    assert head.split() == ["folder", "task", "model", "quality", "minutes"]
    assert [row.split()[1] for row in rows] == ["classify", "fill", "translate", "write"]
    assert "accuracy" in rows[0]
    assert "bleu" in rows[2]


def test_two_runs_stand_side_by_side_with_what_differs(mirada: Command, made: Made) -> None:
    lines = mirada("runs", made.classify, made.translate).out.splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert lines[0].split() == [str(made.classify), str(made.translate)]
    assert cells["task"] == ["classify", "translate"]
    assert cells["bleu"][0] == "-"
    assert "seed" not in cells, "it does not differ"
    assert cells["tokenizer"] == ["word", "bpe"]


def test_completed_steps_are_distinguished_from_requested_ones(capsys: pytest.CaptureFixture) -> None:
    row = {"task": "classify", "model": "transformer", "data": "builtin", "minutes": 0.1, "metrics": {}}
    rows = [row | {"folder": name, "steps": 17, "settings": {"steps": steps}} for name, steps in (("a", 30), ("b", 0))]
    print_side_by_side(rows)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[-2:]] == [["steps", "17", "17"], ["steps=", "30", "0"]]


def test_json_has_everything(mirada: Command, made: Made) -> None:
    (found,) = [json.loads(line) for line in mirada("runs", made.classify, "--json").out.splitlines()]
    assert found["metrics"]["accuracy"] >= 0
    assert found["settings"]["seed"] == 0
    assert "made" in found["ended"]


def test_a_broken_run_is_listed_as_such(mirada: Command, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text("{", encoding="utf-8")
    done = mirada("runs", tmp_path)
    assert done.code == 0
    assert "config.json or metrics.jsonl cannot be read" in done.out


def test_where_there_is_none(mirada: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there is no folder runs. Train one with `mirada train`." in mirada("runs").err
    assert "there is no run in" in mirada("runs", tmp_path).err


def test_a_run_prints_as_four_lines(made: Made) -> None:
    lines = str(load(made.classify)).splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"classify in {made.classify}: transformer, ")
    assert lines[1] == f"data     {made.reviews}"
    assert "accuracy" in lines[2]
    assert lines[3].startswith("training made 6 steps")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(mirada: Command, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_MIRADA_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "mirada ev")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "mirada ev")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert "eval" in mirada().out


ODD = ('{"a":' * 100_000, "[" * 100_000, "[]", "7", '{"task": 7, "name": "x"}', '{"task": "write", "name": {}}',
       '{"task": "a", "name": "b", "place": [], "config": {}, "recipe": {}, "data": {}}', "[1," * 6_000_000)  # fmt: skip


@pytest.mark.parametrize("content", ODD, ids=lambda content: content[:30])
def test_foreign_settings_are_listed_as_broken(mirada: Command, tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    done = mirada("runs", tmp_path.parent, "--json")
    assert (done.code, done.err) == (0, "")
    assert [len(json.loads(line)) for line in done.out.splitlines() if str(tmp_path) in line] == [2]
    assert mirada("runs", tmp_path).code == 0


def test_a_pipe_does_not_block(mirada: Command, tmp_path: Path, made: Made) -> None:
    run = Path(shutil.copytree(made.classify, tmp_path / "run"))
    for name in ("metrics.jsonl", "config.json"):
        (run / name).unlink()
        os.mkfifo(run / name)
        assert mirada("runs", tmp_path).code == 0
    assert "no ordinary file" in mirada("runs", tmp_path).out


def test_numbers_that_nobody_can_count_with(mirada: Command, tmp_path: Path, made: Made) -> None:
    run = Path(shutil.copytree(made.classify, tmp_path / "run"))
    with open(run / "metrics.jsonl", "a", encoding="utf-8") as file:
        huge = "1" + "0" * 400
        file.write(f'{{"seconds": {huge}, "step": {huge}}}\n{{"test": {{"accuracy": {huge}, "b": NaN}}}}\n')
        file.write('{"test": ' + "[" * 3_000_000)
    done = mirada("runs", tmp_path)
    assert (done.code, done.err) == (0, "")
