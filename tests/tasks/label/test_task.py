"""label: from a graph some of whose nodes have labels to labels for the others, with the neighbors looked at."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada.attention.neighborhoods import Edges
from mirada.looking.labels import NodeLabels
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits
from mirada.tasks.label.files import GraphOptions, read_graph
from mirada.tasks.label.graph import LabelledGraph, SparseRows
from mirada.tasks.label.task import Label
from mirada.training.log import read_metrics
from mirada.training.loop import Training
from mirada.training.state import TrainingState, read_checkpoint
from tests.data.graph_files import arrays, clubs, folder, npz
from tests.runs.small import trained

CORA = Path(__file__).parents[4] / "shared" / "data" / "cora" / "cora.npz"
ALONE = ("propagation=0", "consistency=0")  # attention as in the paper
QUICK = ("steps=40", "validate=10", "dim=4", "heads=2", "dropout=0", "weight_dropout=0", "lr=5e-2", *ALONE)
MOMENT = ("steps=4", "validate=2", "dim=4", "heads=2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return folder(tmp_path_factory.mktemp("data") / "clubs", **clubs())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, place: str) -> Run:
    return trained("label", place, tmp_path_factory.mktemp("run") / "clubs", *QUICK)


def saved(run: Run) -> bytes:
    return (run.folder / "model.safetensors").read_bytes()


# looking at a part of a graph


def test_what_ifs_name_the_nodes_of_a_part_by_their_numbers_in_the_whole(run: Run, monkeypatch) -> None:
    """The page shows a neighborhood: its places are not those of the model, and its axis says which are."""
    monkeypatch.setattr("mirada.tasks.label.graph_pass.WHOLE_GRAPH", 1)
    answer = run("even4")
    nodes = answer.look().labels.axes["nodes"]
    graph = run.known.graph
    assert isinstance(nodes, NodeLabels)
    assert 1 < nodes.size < len(graph)
    assert nodes.tokens == tuple(graph.names[place] for place in nodes.places)
    row, other = nodes.places[nodes.tokens.index("even4")], graph.numbers[answer.to_dict()["neighbors"][0]["node"]]
    with mirada.intervene(run.model, {"layers.1": mirada.Cut(row, other)}):
        after = run("even4")
        seen = after.look()["layers.1"]
    assert after.score != answer.score
    gone = (seen.edges[1] == nodes.places.index(row)) & (seen.edges[0] == nodes.places.index(other))
    assert gone.any()
    assert float(seen.weights()[..., gone].abs().max()) == 0


# learning and measuring


def test_nodes_are_labelled_by_their_neighbors(run: Run) -> None:
    found = run.measured(run.splits())
    plain = {"accuracy_features", "accuracy_propagation", "accuracy_sgc", "accuracy_majority"}
    assert set(found.metrics) == {"accuracy", "macro_f1"} | plain
    assert found.metrics["accuracy"] > found.metrics["accuracy_features"]
    assert found.metrics["accuracy_majority"] == 50.0
    assert [record.value.name for record in found.records] == [
        f"{('even', 'odd')[n % 2]}{n}" for n in (4, 5, 10, 11, 16, 17, 22, 23)
    ]
    assert found.details["labels"] == ["blue", "red"]
    assert sum(map(sum, found.details["confusion"])) == len(found.records)
    assert run.settings.facts["normalize"] == "standard"


def test_an_answer_says_where_the_model_looked(run: Run) -> None:
    answer = run("even4")
    graph = run.known.graph
    assert (answer.input, answer.written) == ("even4", ("even4",))
    assert answer.score == answer.ranked[0][1]
    assert {label for label, _ in answer.ranked} == {"blue", "red"}
    assert_close(sum(score for _, score in answer.ranked), 1.0)
    numbers = sorted({graph.numbers["even4"], *graph.edges[0][graph.edges[1] == graph.numbers["even4"]].tolist()})
    assert answer.read == tuple(f"{graph.names[n]} ({graph.labels[n]})" for n in numbers)
    assert answer.weights is not None
    assert answer.weights.shape == (1, len(numbers))
    assert_close(answer.weights.sum(), torch.tensor(1.0))
    seen = answer.look()
    assert seen.names == ["layers.0", "layers.1"]
    call = seen["layers.1"]
    mine = call.edges[1] == graph.numbers["even4"]
    assert_close(call.weights()[0].mean(0)[mine], answer.weights[0])
    told = answer.to_dict()["neighbors"]
    assert [one["weight"] for one in told] == sorted((w for w in answer.weights[0].tolist()), reverse=True)
    assert {one["label"] for one in told} <= {"blue", "red"}


def test_candidates_must_be_labels(run: Run) -> None:
    assert run("even4", candidates=("red",)).text == "red"
    with pytest.raises(ValueError, match="candidate 'green' is not a label of this run; known: blue, red"):
        run("even4", candidates=("green",))
    with pytest.raises(ValueError, match=r"no node 'evn4' among its 24. Did you mean even4, "):
        run("evn4")
    with pytest.raises(ValueError, match="beam is not used by label; it takes best, candidates"):
        run("even4", beam=3)


def test_many_nodes_are_answered_as_each_alone(run: Run) -> None:
    names = ["odd1", "even0", "odd23", "odd1"]
    together = run(names)
    assert [answer.input for answer in together] == names
    assert [answer.score for answer in together] == [run(name).score for name in names]


def test_a_loaded_run_gives_the_same_answers(run: Run) -> None:
    again = load(run.folder)
    assert again.known.graph.digest == run.known.graph.digest
    assert [answer.score for answer in again(["odd1", "even2"])] == [answer.score for answer in run(["odd1", "even2"])]


def test_the_report_shows_neighbors_and_errors(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    for text in (
        "Neighbors",
        "Examples",
        "neighbor-graph",
        "accuracy_features",
        "Taken for what",
        "even weights would give",
        "Who answers",
        " of 100 right, ",
        "95 % interval",
    ):
        assert text in page


# the same whatever the order


def test_renumbered_nodes_have_the_same_answers(tmp_path: Path, run: Run) -> None:
    files = clubs()
    turned = {name: reordered(text, seed) for seed, (name, text) in enumerate(files.items())}
    other = read_graph(folder(tmp_path / "turned", **turned), GraphOptions()).graph
    assert other.names != run.known.graph.names
    nodes = [
        record.value for record in Label().read(Source(str(tmp_path / "turned"), measured=True), GraphOptions()).test
    ]
    answers = {answer.input: answer for answer in run(nodes)}
    for name, answer in answers.items():
        mine = run(name)
        assert_close(answer.score, mine.score, rtol=1e-5, atol=1e-6)
        assert answer.text == mine.text
        assert sorted(answer.read) == sorted(mine.read)


def reordered(text: str, seed: int) -> str:
    head, *rows = text.strip().split("\n")
    order = np.random.default_rng(seed).permutation(len(rows))
    return "\n".join([head, *(rows[n] for n in order)]) + "\n"


def test_features_are_found_by_name_in_another_graph(tmp_path: Path, run: Run) -> None:
    rows = [line.split(",") for line in clubs()["features"].strip().split("\n")]
    moved = "\n".join(",".join((name, d, c, b, a)) for name, a, b, c, d in rows) + "\n"
    place = folder(tmp_path / "moved", **(clubs() | {"features": moved}))
    assert run.measure(place) == run.measure(), "the baselines too"


# resuming, seeds, starting from another run


def test_the_same_command_gives_the_same_bits_stopped_or_not(tmp_path: Path, place: str, monkeypatch) -> None:
    keys = ("steps=9", "validate=3", "dim=4", "heads=2")
    whole = trained("label", place, tmp_path / "whole", *keys)
    step = Training.step

    def dies(self: Training, state: TrainingState, stop: bool) -> Any:
        if state.steps == 9 and state.step == 5 and not self.resume:
            raise RuntimeError("killed")
        return step(self, state, stop)

    monkeypatch.setattr(Training, "step", dies)
    with pytest.raises(RuntimeError, match="killed"):
        trained("label", place, tmp_path / "stopped", *keys, "save_seconds=0")
    assert read_checkpoint(tmp_path / "stopped" / "checkpoints" / "last.safetensors")[1]["step"] == 5
    again = trained("label", place, tmp_path / "stopped", resume=True)
    assert saved(again) == saved(whole)
    assert (again.folder / "graph.safetensors").read_bytes() == (whole.folder / "graph.safetensors").read_bytes()


def test_another_graph_is_not_resumed(tmp_path: Path) -> None:
    place = folder(tmp_path / "g", **clubs())
    trained("label", place, tmp_path / "run", *MOMENT)
    files = clubs()
    folder(tmp_path / "g", **(files | {"edges": files["edges"] + "even0,odd3\n"}))
    with pytest.raises(ValueError, match="the data has changed since this run was started"):
        trained("label", place, tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="has changed since this run was trained"):
        load(tmp_path / "run").measure()


def test_a_run_starts_from_another(tmp_path: Path, place: str, run: Run) -> None:
    files = clubs(nodes=30, seed=6)
    other = folder(tmp_path / "other", **files)
    started = trained("label", other, tmp_path / "started", "steps=1", "lr=1e-12", start=str(run.folder))
    for mine, theirs in zip(started.model.parameters(), run.model.parameters(), strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-9)
    assert started.known.scale.mean.tolist() == run.known.scale.mean.tolist()
    rows = [line.split(",") for line in files["features"].strip().split("\n")]
    moved = "\n".join(",".join((name, d, c, b, a)) for name, a, b, c, d in rows) + "\n"
    turned = folder(tmp_path / "turned", **(files | {"features": moved}))
    again = trained("label", turned, tmp_path / "again", "steps=1", "lr=1e-12", start=str(run.folder))
    for name in ("even0", "odd29"):
        assert_close(again(name).score, started(name).score, rtol=1e-5, atol=1e-6)
        assert_close(load(again.folder)(name).score, started(name).score, rtol=1e-5, atol=1e-6)
    green = folder(tmp_path / "green", **(files | {"labels": files["labels"].replace("red", "green")}))
    with pytest.raises(ValueError, match="label 'green' is not known to the run to start from: blue, red"):
        trained("label", green, tmp_path / "green-run", start=str(run.folder))


# where the nodes come from


def test_arrays_in_memory_train_the_model_of_their_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = npz(tmp_path / "g.npz", arrays())
    settings: dict[str, Any] = {"steps": 4, "dim": 4, "heads": 2}
    file = mirada.train("label", path, out=tmp_path / "file", **settings)
    memory = mirada.train("label", arrays(), out=tmp_path / "memory", **settings)
    assert saved(file) == saved(memory)
    assert load(tmp_path / "memory")("3").text in ("0", "1")
    assert "features are given mean 0 and deviation 1 (normalize=standard)" in capsys.readouterr().err


def test_gatv2_is_another_model(tmp_path: Path, place: str) -> None:
    assert trained("label", place, tmp_path / "run", *MOMENT, model="gatv2").model.config.score == "graphv2"


def test_a_split_is_drawn_or_asked_for(place: str) -> None:
    task = Label()
    given = task.read(Source(place), GraphOptions())
    assert [len(part) for part in (given.train, given.valid, given.test)] == [8, 8, 8]
    asked = task.read(Source(place), GraphOptions(split="0.5,0.25,0.25"))
    assert [len(part) for part in (asked.train, asked.valid, asked.test)] == [12, 6, 6]
    assert any("the split is drawn as asked" in note for note in asked.notes)


def test_validation_and_test_may_be_graphs_of_their_own(tmp_path: Path, place: str, run: Run) -> None:
    other = folder(tmp_path / "other", **clubs(nodes=20, seed=7))
    splits = Label().read(Source(place, other), GraphOptions())
    assert {record.value.graph for record in splits.valid} != {splits.whole}
    assert len(splits.valid) == 6, "its own part for validation"
    assert {record.value.graph for record in splits.test} == {splits.whole}
    trained("label", place, tmp_path / "run", *MOMENT, valid=other)
    whole = tmp_path / "divided"
    for part, seed in (("train", 5), ("valid", 7), ("test", 8)):
        folder(whole / part, **clubs(nodes=18, seed=seed))
    divided = trained("label", str(whole), tmp_path / "divided-run", *MOMENT)
    found = divided.measured(divided.splits())
    assert all("/test/" in record.where for record in found.records)
    memory = arrays(features=np.ones((5, 2)))
    with pytest.raises(ValueError, match="the graph of valid: this run reads 3 features a node: got 2"):
        Label().read(Source(arrays(), memory), GraphOptions())
    with pytest.raises(ValueError, match="split= divides one graph, and here the parts are given"):
        Label().read(Source(place, other), GraphOptions(split="0.8,0.2"))


def test_another_graph_is_measured_by_its_test_nodes(tmp_path: Path, run: Run) -> None:
    files = clubs(nodes=20, seed=7)
    splits = run.splits(folder(tmp_path / "other", **files))
    assert len(splits.test) == 6
    bare = "".join(",".join(line.split(",")[:2]) + "\n" for line in files["labels"].strip().split("\n"))
    assert len(run.splits(folder(tmp_path / "bare", **(files | {"labels": bare}))).test) == 20, "all that have a label"
    narrow = folder(tmp_path / "narrow", **(files | {"features": "".join(f"{n},1\n" for n in names(files))}))
    with pytest.raises(ValueError, match="this run reads 4 features a node: got 1"):
        run.measure(narrow)


def names(files: dict[str, str]) -> list[str]:
    return [line.split(",")[0] for line in files["features"].strip().split("\n")[1:]]


def test_new_nodes_are_labelled_with_their_edges(tmp_path: Path, run: Run) -> None:
    features = "node,hat,scarf,coat,boots\nnew1,0,0,1,1\nnew2,0,0,1,1\nbad,0,0,1\nalone,0,0,1,1\n"
    evens, odds = ([n for n in names(clubs()) if n.startswith(word)] for word in ("even", "odd"))
    edges = "".join(f"new1,{name}\n" for name in evens) + "".join(f"new2,{name}\n" for name in odds)
    questions = run.task.questions(run, folder(tmp_path / "new", features=features, edges=edges, labels=None))
    assert questions.columns == ("node",)
    answers = run.answers_to(questions.rows)
    assert [answer.input for answer in answers] == ["new1", "new2", "bad", "alone"]
    assert [answer.text for answer in answers[:2]] == ["blue", "red"], "the same features, other neighbors"
    assert answers[2].error.startswith("expected 4 features, found 3")
    assert answers[3].read == ("alone",)
    assert answers[0].read[-1] == "new1", "a new node has no label"
    assert len(answers[0].read) == len(evens) + 1


def test_a_table_of_known_nodes_is_answered_row_by_row(tmp_path: Path, run: Run) -> None:
    path, some = tmp_path / "some.csv", names(clubs())[:2]
    path.write_text(f"since;nodo\n2001;{some[0]}\n2002;nobody\n2003;{some[1]}\n")
    questions = run.task.questions(run, str(path))
    answers = run.answers_to(questions.rows)
    assert questions.columns == ("since", "nodo")
    assert [answer.text for answer in answers] == [run(some[0]).text, "", run(some[1]).text]
    assert answers[1].error.startswith("the graph has no node 'nobody'")


def test_a_graph_of_arrays_is_labelled_as_a_whole(tmp_path: Path) -> None:
    path = npz(tmp_path / "g.npz", arrays())
    run = trained("label", path, tmp_path / "run", *MOMENT)
    questions = run.task.questions(run, npz(tmp_path / "other.npz", arrays(y=None)))
    assert [answer.text for answer in run.answers_to(questions.rows)] == [run(name).text for name in "01234"]
    bad = npz(tmp_path / "bad.npz", arrays(edge_index=np.array([[0], [9]])))
    with pytest.raises(ValueError, match=r"bad.npz: edge 0: edge_index names node 9 of 5.*\nFix these, or"):
        run.task.questions(run, bad)


# what is wrong


def one_label(text: str) -> str:
    return text.replace("red", "blue")


WRONG = [
    (
        {"labels": one_label(clubs()["labels"])},
        "a run needs at least two labels: all nodes to learn from",
    ),
    ({"labels": clubs()["labels"].replace("odd1,red", "odd1,pink")}, r"labels.csv:3: label of one node only: 'pink'."),
    (
        {"labels": clubs()["labels"].replace("odd5,red", "odd5,pink").replace("odd11,red", "odd11,pink")},
        r"labels.csv:7: label 'pink' does not occur in training; known: blue, red",
    ),
    ({"labels": clubs()["labels"].replace("train", "test")}, "no node has the split 'train'"),
    ({"edges": clubs()["edges"] + "odd1,nobody\n"}, r"edges.csv:\d+: edge to an unknown node: 'nobody'"),
    ({"labels": "node,label,split\n"}, "no record is left to learn from"),
]


@pytest.mark.parametrize(("files", "message"), WRONG)
def test_what_cannot_be_learned_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    place = folder(tmp_path / "g", **(clubs() | files))
    with pytest.raises(ValueError, match=message):
        trained("label", place, tmp_path / "run", *MOMENT)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("which", [1, 2, 4])
def test_what_is_bad_is_left_out_where_asked(tmp_path: Path, which: int) -> None:
    place = folder(tmp_path / "g", **(clubs() | WRONG[which][0]))
    run = trained("label", place, tmp_path / "run", *MOMENT, "bad=skip")
    assert run.known.labels == ("blue", "red")
    assert run.measure()["accuracy"] >= 0


# what it reaches


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_the_embedded_papers_are_labelled_far_above_their_words(tmp_path: Path, model: str) -> None:
    found = trained("label", "", tmp_path / "run", model=model).measure()
    assert found["accuracy"] >= 88
    assert found["accuracy_features"] <= 55


@pytest.mark.slow
@pytest.mark.skipif(not CORA.exists(), reason="the measuring data is not here")
def test_cora_reaches_the_paper(tmp_path: Path) -> None:
    run = trained("label", str(CORA), tmp_path / "run", "seeds=10")
    told = json.loads((run.folder / "seeds.json").read_text(encoding="utf-8"))
    assert told["mean"]["accuracy"] >= 83.0
    assert told["mean"]["accuracy_features"] <= 62
    seconds = [
        max(e["seconds"] for e in read_metrics(p) if "seconds" in e) for p in run.folder.glob("seed-*/metrics.jsonl")
    ]
    assert len(seconds) == 10


def test_a_graph_on_its_own_device_is_itself() -> None:
    edges = Edges(torch.tensor([[0, 1], [1, 0]]), 2)
    assert edges.to(torch.device("cpu")) is edges


def test_balance_weighs_rare_labels(tmp_path: Path, place: str, run: Run) -> None:
    balanced = trained("label", place, tmp_path / "yes", *QUICK, "balance=yes")
    counts = Counter(record.value.label for record in balanced.splits().train)
    mean = sum(counts.values()) / len(counts)
    wanted = tuple(mean / counts[label] for label in balanced.known.labels)
    assert balanced.known.weights == pytest.approx(wanted)
    assert load(balanced.folder).known.weights == balanced.known.weights
    assert run.known.weights == ()


# what the budget decides


@pytest.mark.parametrize(
    ("nodes", "edges", "minutes", "wanted"),
    [
        (2_708, 10_556, 0.0, {"dim": 8, "minutes": None, "lr": None}),
        (2_708, 10_556, 0.02, {"dim": 4, "minutes": None, "lr": 0.02}),
        (100_000, 2_000_000, 0.0, {"dim": 8, "minutes": 10.0, "lr": None}),
        (100_000, 2_000_000, 1.0, {"dim": 4, "minutes": None, "lr": 0.02}),
    ],
)
def test_nodes_edges_and_minutes_decide_the_model(nodes: int, edges: int, minutes: float, wanted: dict) -> None:
    empty = SparseRows(
        np.zeros(nodes + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 1433 if nodes < 9999 else 128
    )
    graph = LabelledGraph(("",) * nodes, empty, np.zeros((2, edges), np.int64), (), ())
    splits: Splits = Splits((), (), whole=graph)
    choice = Label().choose("gat", splits, GraphOptions(), minutes)
    assert choice == Label().choose("gat", splits, GraphOptions(), minutes)
    found = {"dim": choice.model["dim"], **{name: choice.recipe.get(name) for name in ("minutes", "lr")}}
    assert found == wanted
    assert choice.line(set()).startswith(f"chosen for {nodes:,} nodes, {edges:,} edges")


def test_the_choice_is_printed_and_what_is_set_stays(place: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    given = {"steps": 2, "validate": 2, "threads": 1, "propagation": 3}
    run = mirada.train("label", place, out=tmp_path / "run", **given)
    assert "chosen for 24 nodes, " in capsys.readouterr().err
    assert (run.model.config.propagation, run.model.config.heads) == (3, 8)
