"""The methods shown with an answer explain that answer, also if the network alone would answer differently."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada.looking.explain import compare as module
from mirada.looking.explain.compare import compare_methods
from mirada.looking.record import Seen
from mirada.runs.run import Run
from tests.runs.small import QUICK, stories, trained, write_rows
from tests.tasks.every_model import CASES, LookedAt

FIRST = {case.task: case for case in reversed(CASES)}
FORECASTS = [case for case in CASES if case.task == "forecast"]


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """The target of the last comparison."""
    found: list[Any] = []

    def compared(model: Any, inputs: Any, target: Any = None, **more: Any) -> Any:
        found.append(target)
        return compare_methods(model, inputs, target, **more)

    monkeypatch.setattr(module, "compare_methods", compared)
    return lambda: torch.as_tensor(found[-1]).tolist()


@pytest.mark.parametrize("case", [*FIRST.values(), *FORECASTS[1:]], ids=lambda case: case.name)
def test_every_task_has_methods(case: LookedAt) -> None:
    run, given = case.kept()
    seen = run(given).look(methods=True)
    assert seen.methods is not None
    matrices = seen.methods.matrices
    assert {"attention", "value_norm", "ablation"} <= set(matrices)
    assert ("gradient" in matrices) == (case.task != "label")
    axes = seen.labels.axes
    for name, size in zip((seen.methods.rows, seen.methods.columns), matrices["ablation"].shape, strict=True):
        assert not name or axes[name].size == size
    assert seen.methods.columns
    stored = Seen.from_bytes(seen.to_bytes())
    assert stored.methods is not None
    assert_close(stored.methods.matrices["ablation"], matrices["ablation"])
    assert float(matrices["attention"].sum(-1).max()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("task", ["classify", "recognize"])
def test_a_class_that_was_requested_is_explained(task: str, target: Callable[[], Any]) -> None:
    run, given = FIRST[task].kept()
    for name in run.known.labels:
        run(given, candidates=(name,)).look(methods=True)
        assert target() == [run.known.labels.index(name)]


@pytest.fixture(scope="module")
def filling(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("fill")
    return trained("fill", write_rows(home / "rows.tsv", stories()), home / "run", *QUICK, "tokenizer=bpe")


def test_a_candidate_for_a_gap_is_explained(filling: Run, target: Callable[[], Any]) -> None:
    tokenizer = filling.known.tokenizer
    for word in ("house", "xyzq"):
        pieces = tokenizer.encode(word)
        answer = filling("I see a red ___.", candidates=(word,))
        seen = answer.look(methods=True)
        rows = [step.row for step in seen.labels.outputs]
        assert [target()[row] for row in rows] == pieces  # of several pieces, each has a mask of its own
        assert [seen.labels.axes["text"].tokens[row] for row in rows] == ["<mask>"] * len(pieces)
    assert len(pieces) > 1
    likeliest = filling("I see a red ___.")
    (step,) = likeliest.look(methods=True).labels.outputs
    assert target()[step.row] == step.token
    assert tokenizer.decode([step.token]) == likeliest.text


def test_whether_a_sentence_follows_is_explained_by_those_scores(filling: Run, target: Callable[[], Any]) -> None:
    answer = filling("I see a red house.\tIt is red.")
    seen = answer.look(methods=True)
    assert target() == [int(answer.text == "follows")]
    assert seen.methods is not None
    assert seen.methods.matrices["ablation"].shape == (1, len(seen.labels.axes["text"].tokens))


def test_both_ends_of_an_answer_are_explained(target: Callable[[], Any]) -> None:
    run, given = FIRST["answer"].kept()
    seen = run(given).look(methods=True)
    assert target() == [step.row for step in seen.labels.outputs]
    assert seen.methods is not None
    assert seen.methods.rows == "answer"
    assert seen.labels.axes["answer"].tokens == tuple(
        f"{side}: {step.text}" for side, step in zip(("first", "last"), seen.labels.outputs, strict=True)
    )
    assert seen.methods.matrices["gradient"].shape == (2, seen.labels.axes["text"].size)


def test_a_node_is_explained_by_those_around_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mirada.tasks.label import graph_pass

    run = FIRST["label"].run(tmp_path)
    answer = run("even4")
    whole = answer.look(methods=True).methods
    monkeypatch.setattr(graph_pass, "WHOLE_GRAPH", 10)
    part = answer.look(methods=True)
    assert whole is not None
    assert part.methods is not None
    assert part.labels.axes["answer"].tokens == ("even4",)
    assert part.methods.matrices["ablation"].shape == (1, part.labels.axes["nodes"].size)
    assert part.methods.rows == whole.rows == "answer"
