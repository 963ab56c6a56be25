"""Who looks at a whole answer sees one pass over what was written, and the engine writes as fast as without."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada import DropHead, intervene, look
from mirada.models.transformer import Transformer

PAIRS = [("one two", "uno dos"), ("two", "dos"), ("one", "uno"), ("two one one", "dos uno uno")] * 4
CROSS, ENCODER = "decoder.layers.0.cross", "encoder.layers.0.self"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    sizes = {"width": 16, "heads": 2, "depth": 1, "steps": 2, "threads": 1, "dropout": 0}
    return mirada.train("translate", PAIRS, out=tmp_path_factory.mktemp("run") / "run", **sizes)


@pytest.mark.parametrize("beam", [1, 3])
def test_every_layer_has_the_call_of_the_answer(run: Any, beam: int) -> None:
    plain = run("one two one", beam=beam)
    with look(run.model) as seen:
        answer = run("one two one", beam=beam)
    assert answer.tokens == plain.tokens
    assert seen.names == [ENCODER, "decoder.layers.0.self", CROSS]
    assert [len(seen[name].calls) for name in seen.names] == [1, 1, 1]
    written = 1 + len(answer.tokens)
    assert (seen[CROSS].queries, seen[CROSS].keys) == (written, seen[ENCODER].keys)
    for name in seen.names:
        assert torch.equal(seen[name].weights(), answer.look()[name].weights())
    rows = run("one two one", beam=beam, alignments=f"{CROSS}:0,1").alignments[CROSS]  # by the engine
    assert_close(seen[CROSS].weights()[0, :, : rows.shape[1], : rows.shape[2]], rows, atol=1e-5, rtol=0)


def test_of_several_answers_every_step_is_shown(run: Any) -> None:
    with look(run.model) as seen:
        answers = run(["two", "one two one"])
    assert len(seen[CROSS].calls) >= max(len(answer.tokens) for answer in answers) > 0
    assert {call.queries for call in seen[CROSS].calls} == {1}


def test_the_engine_writes_unless_somebody_intervenes(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = [], Transformer.step

    def counted(*given: Any) -> Any:
        steps.append(given)
        return step(*given)

    monkeypatch.setattr(Transformer, "step", counted)
    with look(run.model) as seen:
        run("one two")
    assert (steps, len(seen[CROSS].calls)) == ([], 1)
    with intervene(run.model, {CROSS: DropHead(0)}), look(run.model) as seen:
        run("one two")
    assert len(steps) == len(seen[CROSS].calls) > 0


def test_a_task_that_writes_from_a_prompt_shows_the_same(tmp_path: Path) -> None:
    sizes = {"width": 16, "heads": 2, "depth": 1, "steps": 2, "threads": 1}
    run = mirada.train("write", ["one two three four five six seven " * 9] * 8, out=tmp_path / "run", **sizes)
    with look(run.model) as seen:
        answer = run("one two", tokens=5)
    (name,) = seen.names
    assert {call.queries for call in seen[name].calls[:-1]} <= {seen[name].queries - 1}  # for its own weights
    assert torch.equal(seen[name].weights(), answer.look()[name].weights())
