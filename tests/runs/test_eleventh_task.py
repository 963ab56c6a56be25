"""A task of one file, without any text, goes the way of all tasks: train, stop and resume, load, answer, measure, report."""

import json
from pathlib import Path

import pytest
import torch

import mirada
from mirada.runs.registry import CATALOG, TaskEntry
from mirada.training.loop import Interrupted, Training
from tests.cli.conftest import Command
from tests.cli.conftest import mirada as command  # noqa: F401 (a fixture)
from tests.runs import sort_numbers

ENTRY = TaskEntry(
    "put numbers in order", ("ranks",), "drawn numbers", "lines of numbers", "accuracy", "tests.runs.sort_numbers:Sort"
)


@pytest.fixture(autouse=True)
def _eleventh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "sort", ENTRY)


def test_it_is_small() -> None:
    assert len(Path(sort_numbers.__file__).read_text(encoding="utf-8").splitlines()) < 120


def test_it_goes_through_every_command(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: Command = request.getfixturevalue("command")
    listed = run("tasks")
    assert "sort: put numbers in order" in listed.out
    done = run("train", "sort", "--out", tmp_path / "run", "--seed", 1)
    assert done.code == 0, done.err
    assert done.out.startswith("on 7 records for test: accuracy ")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json", "model.safetensors", "metrics.jsonl", "report.html", "checkpoints"
    }  # fmt: skip
    assert run("run", tmp_path / "run", "19 3 7 0 11").out == "0 3 7 11 19\n"
    (answer,) = map(json.loads, run("run", tmp_path / "run", "--json", "5 4 3 2 1").out.splitlines())
    assert (answer["input"], answer["text"]) == ("5 4 3 2 1", "1 2 3 4 5")
    assert json.loads(run("eval", tmp_path / "run", "--json").out)["accuracy"] > 90
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Sorted" in page
    assert "Learning rate" in page
    refused = run("run", tmp_path / "run", "1 2 3 4 5", "--beam", 4)
    assert (refused.code, refused.err) == (2, "mirada: beam is not used by sort; it takes no options\n")
    assert "has no lengths to group by" in run("eval", tmp_path / "run", "--by", "length").err


def test_its_bad_records_are_named(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: Command = request.getfixturevalue("command")
    lines = [" ".join(map(str, row)) for row in sort_numbers.draw(40, 3)]
    (tmp_path / "numbers.txt").write_text("\n".join([*lines, "1 2", "1 1 2 3 4"]))
    done = run("check", "sort", "--data", tmp_path / "numbers.txt")
    assert done.code == 1
    assert f"{tmp_path / 'numbers.txt'}:41: expected 5 different numbers" in done.out
    assert "20 records to learn from, 20 records to validate on, 2 bad" in done.out
    train = run("train", "sort", "--data", tmp_path / "numbers.txt", "--out", tmp_path / "run", "steps=3", "bad=skip")
    assert train.code == 0, train.err
    assert "2 bad records are left out" in train.err


def test_a_stopped_run_ends_with_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mirada.train("sort", out=tmp_path / "whole", steps=30, validate=10)
    real = Training.step

    def stopping(self: Training, state, stop: bool):
        return real(self, state, stop or (state.step == 12 and state.steps == 30))

    with monkeypatch.context() as patched:
        patched.setattr(Training, "step", stopping)
        with pytest.raises(Interrupted, match="stopped after step 13 of 30"):
            mirada.train("sort", out=tmp_path / "cut", steps=30, validate=10)
    again = mirada.train("sort", out=tmp_path / "cut", resume=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value), name


def test_its_attention_can_be_looked_at(tmp_path: Path) -> None:
    run = mirada.train("sort", out=tmp_path / "run", steps=3)
    seen = mirada.load(run.folder)([(3, 1, 4, 15, 9)])[0].look()
    assert seen.names == ["attention"]
    torch.testing.assert_close(seen["attention"].weights().sum(-1), torch.ones(1, 2, 5))
