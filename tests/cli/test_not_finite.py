"""Weights that are no numbers give an error in the answer's place, and what is printed as JSON is JSON."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mirada.runs.answers import Answer
from mirada.runs.load import load
from mirada.training.log import MetricsLog, append_event, read_metrics
from tests.cli.conftest import Command, Made

INPUTS = {"classify": "a good film", "translate": "we buy the red car.", "fill": "It is ___.", "write": "It is"}


def strict(text: str) -> Any:
    def refuse(word: str) -> float:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def damaged(folder: Path, to: Path, value: float) -> Path:
    """A copy of a run with one number of its weights changed, as another program would write it: without a checksum."""
    shutil.copytree(folder, to)
    weights = load_file(to / "model.safetensors")
    name = max(weights, key=lambda each: weights[each].numel())
    weights[name].view(-1)[weights[name].numel() // 2] = value
    save_file(weights, to / "model.safetensors")
    return to


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("task", sorted(INPUTS))
def test_weights_that_are_no_numbers(mirada: Command, made: Made, tmp_path: Path, task: str, value: float) -> None:
    folder = damaged(getattr(made, task), tmp_path / "run", value)
    done = mirada("run", folder, INPUTS[task], "--json")
    assert done.code == 1
    answer = strict(done.out)
    assert set(answer) == {"input", "error"}
    assert "model.safetensors has weights that are no finite numbers" in answer["error"]
    assert mirada("run", folder, INPUTS[task]).code == 1
    with pytest.raises(ValueError, match="no finite numbers"):
        load(folder)(INPUTS[task])
    with pytest.raises(ValueError, match="no finite numbers"):
        next(load(folder).stream(INPUTS[task]))


@pytest.mark.parametrize("task", ["classify", "fill", "translate"])
def test_weights_that_overflow(made: Made, task: str) -> None:
    run = load(getattr(made, task))
    with torch.no_grad():
        for values in run.model.parameters():
            values.normal_(std=1e30, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match=r"no number|not numbers"):
        run(INPUTS[task])
    (answer,) = run.answers_in_place([INPUTS[task]])
    assert "no number" in answer.error or "not numbers" in answer.error


def test_json_of_an_answer_has_no_nan() -> None:
    answer = Answer("a", "b", math.inf, ranked=(("b", -math.inf), ("c", 0.5)), more={"values": [[math.nan, 1.0]]})
    assert answer.to_dict() == {
        "input": "a", "text": "b", "score": None, "ranked": [{"text": "b", "score": None}, {"text": "c", "score": 0.5}],
        "values": [[None, 1.0]],
    }  # fmt: skip


def test_the_metrics_log_is_strict_and_older_logs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    log.write(step=1, valid={"loss": math.nan, "parts": [math.inf]})
    log.close()
    append_event(path, {"test": {"wer": math.nan}})
    assert [strict(line) for line in path.read_text().splitlines()] == [
        {"step": 1, "valid": {"loss": None, "parts": [None]}},
        {"test": {"wer": None}},
    ]
    path.write_text('{"step": 1, "valid": {"loss": NaN}}\n')
    assert read_metrics(path) == [{"step": 1, "valid": {"loss": None}}]


def test_measuring_prints_strict_json(mirada: Command, made: Made, tmp_path: Path, monkeypatch: Any) -> None:
    from mirada.tasks.classify.task import Classify

    monkeypatch.setattr(Classify, "measure", lambda *_: ({"accuracy": math.nan}, []))
    monkeypatch.setattr(Classify, "details", lambda *_: {"ece": math.inf})
    done = mirada("eval", made.classify, "--data", made.reviews, "--json")
    assert done.code == 0, done.err
    assert strict(done.out)["accuracy"] is None
    assert strict(done.out)["ece"] is None
