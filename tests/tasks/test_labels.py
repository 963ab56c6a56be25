"""Whatever a model is asked, what it looked at has labels: fitting axes for every layer, what was written, and its origin."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada.looking.labels import GridLabels, Labels, TextLabels
from mirada.looking.record import Call, Seen
from mirada.runs.registry import CATALOG
from mirada.runs.run import Run
from mirada.tasks.classify.task import windows
from mirada.tasks.label import graph_pass
from tests.runs.small import QUICK, pairs, stories, trained, write_rows
from tests.tasks.every_model import CASES, LookedAt


def sizes(call: Call) -> tuple[int, int]:
    """Rows and columns of a layer, its steps joined."""
    return sum(one.queries for one in call.calls), max(one.keys for one in call.calls)


def check_texts(labels: Labels) -> None:
    """The characters of a token are its text, and no place is empty."""
    for axis in labels.axes.values():
        assert all(token.strip() for token in axis.tokens)
        if isinstance(axis, TextLabels):
            for token, span in zip(axis.tokens, axis.spans, strict=True):
                assert span is None or (0 <= span[0] < span[1] <= len(axis.text))
                covered = "" if span is None else axis.text[slice(*span)]
                assert not covered.strip() or covered in token or token in ("<unk>", "<mask>")


def check_steps(labels: Labels, seen: Seen) -> None:
    """The written token is on a row, with its probability among the ranked ones."""
    most = max(sizes(seen[name])[0] for name in seen.names)
    for step in labels.outputs:
        assert 0 <= step.row < most
        assert step.text
        shares = [share for _, share in step.ranked]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) < 1.0001
        told = dict(step.ranked)
        if step.probability is not None and step.text in told:
            assert step.probability == pytest.approx(told[step.text], abs=1e-5)


def test_every_model_has_a_case() -> None:
    known = {(task, model) for task, item in CATALOG.items() if item.builtin for model in item.models}
    assert known - {(case.task, case.model) for case in CASES} == {("translate", "rnn")}  # which looks nowhere


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_layer_has_fitting_axes(case: LookedAt) -> None:
    run, given = case.kept()
    answer = run(given)
    seen = answer.look()
    labels = seen.labels
    for name in seen.names:
        assert labels.axes_of(name, *sizes(seen[name])) is not None, f"{name} {sizes(seen[name])}"
    check_texts(labels)
    check_steps(labels, seen)
    stored = Seen.from_bytes(seen.to_bytes())
    assert stored.names == seen.names
    for name in seen.names:
        axes = labels.axes_of(name, *sizes(seen[name]))
        assert stored.labels.axes_of(name, *sizes(seen[name])) == axes
        assert all(stored.labels.axes[axis].tokens == labels.axes[axis].tokens for axis in axes or ())
    assert [step.text for step in stored.labels.outputs] == [step.text for step in labels.outputs]
    assert labels.answer is not None
    assert labels.answer[0] == answer.text
    made = dict(labels.made)
    assert made.pop("input") == answer.input
    assert made.pop("kernel")
    assert made.pop("reader", "both") in ("attention", "words", "both", "none", "ridge", "linear", "forest")
    assert made == {
        "mirada": mirada.__version__, "torch": torch.__version__, "task": case.task, "model": case.model,
        "run": str(run.folder),
    }  # fmt: skip
    assert answer.text in ("", *(step.text for step in labels.outputs)) or case.task not in (
        "recognize",
        "fill",
        "label",
    )


@pytest.fixture(scope="module")
def translate(tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("translate")
    return trained("translate", write_rows(home / "pairs.tsv", pairs()), home / "run", *QUICK, "tokenizer=word")


def test_the_probability_of_a_step_is_the_models_own(translate: Run) -> None:
    answer = translate("I see a red house.")
    labels = answer.look().labels
    source, target = ([*translate.known.tokenizer.encode("I see a red house."), 3], [2, *answer.tokens])
    with torch.no_grad():
        logits = translate.model(torch.tensor([source]), None, torch.tensor([target]))[0].log_softmax(-1)
    for step, token in zip(labels.outputs, answer.tokens, strict=False):
        assert step.probability == pytest.approx(float(logits[step.row, token].exp()), abs=1e-5)
        assert step.text == translate.known.tokenizer.token(token)
    assert [step.row for step in labels.outputs] == list(range(len(labels.outputs)))
    assert labels.axes["target"].tokens == ("<s>", *answer.written)
    assert labels.axes["source"].tokens == answer.read


def test_two_sentences_are_one_axis(tmp_path: Path) -> None:
    run = trained("fill", write_rows(tmp_path / "rows.tsv", stories()), tmp_path / "run", *QUICK)
    labels = run("I see a red house.\tIt is red.").look().labels
    axis = labels.axes["text"]
    assert isinstance(axis, TextLabels)
    places = [axis.spans[place] for place, token in enumerate(axis.tokens) if token == "red"]
    assert places == [(8, 11), (25, 28)]
    (step,) = labels.outputs
    assert (step.row, step.text) == (0, labels.answer[0])


def test_the_windows_of_a_convolution() -> None:
    words = TextLabels(("a", "b", "c", "</s>"), "a b c", ((0, 1), (2, 3), (4, 5), None))
    found = windows(words, 3)
    assert found.tokens == ("a b c", "b c </s>")
    assert found.spans == ((0, 5), (2, 5))


def test_a_picture_comes_with_its_boxes(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.task == "caption")
    run = case.run(tmp_path)
    value = run.splits().valid[0].value
    labels = run(value).look().labels
    cells = labels.axes["cells"]
    assert isinstance(cells, GridLabels)
    assert cells.picture.startswith(b"\x89PNG")
    assert (cells.height, cells.width) == (4, 4)
    words = {step.row: step.text for step in labels.outputs}
    for row, box in labels.boxes:
        assert box in value.boxes[words[row]]


def test_a_large_graph_is_seen_around_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(case for case in CASES if case.task == "label")
    run = case.run(tmp_path)
    answer = run("even4")
    whole = answer.look()
    monkeypatch.setattr(graph_pass, "WHOLE_GRAPH", 10)
    part = answer.look()
    names = part.labels.axes["nodes"].tokens
    assert len(names) <= 10
    assert "shown" in part.labels.made
    assert names[part.labels.outputs[0].row] == "even4"
    every = whole.labels.axes["nodes"].tokens
    for name in part.names:
        known = edge_weights(whole[name], every)
        found = edge_weights(part[name], names)
        assert found.keys() <= known.keys()
        assert_close(torch.stack(list(found.values())), torch.stack([known[edge] for edge in found]))
        assert {edge for edge in known if edge[1] == "even4"} <= found.keys()


def edge_weights(call: Call, names: tuple[str, ...]) -> dict[tuple[str, str], torch.Tensor]:
    assert call.edges is not None
    pairs = [(names[source], names[target]) for source, target in call.edges.T.tolist()]
    return dict(zip(pairs, call.weights()[0].T, strict=True))
