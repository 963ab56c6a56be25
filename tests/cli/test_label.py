"""Graphs on the command line: training, answers by name, new nodes, and every mistake in a line or two."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Command
from tests.cli.test_bad_input import assert_refused
from tests.data.graph_files import arrays, clubs, folder, npz
from tests.runs.small import trained

MOMENT = ("steps=4", "validate=2", "dim=4", "heads=2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return folder(tmp_path_factory.mktemp("data") / "clubs", **clubs())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, place: str) -> Path:
    return trained("label", place, tmp_path_factory.mktemp("run") / "clubs", *MOMENT).folder


def test_training_tells_what_it_reads_and_reaches(mirada: Command, place: str, tmp_path: Path) -> None:
    done = mirada("train", "label", "--data", place, "--out", tmp_path / "run", *MOMENT, "seeds=2")
    assert done.code == 0
    assert "features are given mean 0 and deviation 1 (normalize=standard)" in done.err
    assert "label: 8 nodes to learn from, 8 nodes to validate on, 1 batch an epoch" in done.err
    lines = done.out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["seed 0", "seed 1"]
    assert lines[2].startswith("on 8 nodes for test: accuracy ")
    assert "accuracy_features" in lines[2]
    assert lines[-1].startswith("mean ± standard deviation of 2 seeds: accuracy ")
    assert mirada("eval", tmp_path / "run", "--json").code == 0


def test_nodes_are_requested_by_name(mirada: Command, made: Path) -> None:
    done = mirada("run", made, "even4", "--json")
    (found,) = [json.loads(line) for line in done.out.splitlines()]
    assert {"input", "text", "score", "ranked", "neighbors", "readers"} == set(found)
    assert {one["text"] for one in found["ranked"]} == {"blue", "red"}
    assert {"node", "label", "weight"} == set(found["neighbors"][0])
    some = mirada("run", made, "even4", "evn6", "odd7")
    assert some.code == 1
    assert len(some.out.splitlines()) == 3
    assert some.out.splitlines()[1] == ""
    assert "mirada: the graph has no node 'evn6' among its 24. Did you mean even6, " in some.err


def test_the_name_of_a_file_is_no_node_unless_a_node_is_called_so(
    mirada: Command, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.txt").write_text("even4\n")
    hint = f"nodes.txt is a file, and this run takes nodes. To answer its lines: mirada run {made} < nodes.txt"
    assert_refused(mirada("run", made, "nodes.txt"), hint)
    files = {name: text and text.replace("even4", "even4.txt") for name, text in clubs().items()}
    run = trained("label", folder(tmp_path / "files", **files), tmp_path / "run", *MOMENT)
    Path("even4.txt").touch()
    assert mirada("run", run.folder, "even4.txt").code == 0


def test_eval_prints_the_metrics_of_the_contract(mirada: Command, made: Path, place: str) -> None:
    found = json.loads(mirada("eval", made, "--json").out)
    plain = {"accuracy_features", "accuracy_propagation", "accuracy_sgc", "accuracy_majority"}
    details = {"labels", "confusion", "per_class", "alone", "mixed", "verdict"}
    assert {"accuracy", "macro_f1"} | plain | details == set(found)
    same = json.loads(mirada("eval", made, "--data", place, "--json").out)
    assert same["accuracy"] == found["accuracy"], "the test nodes of the file, not those it learned from"
    refused = mirada("eval", made, "--by", "length")
    assert_refused(refused, "label has no lengths to group by")


def test_new_nodes_are_answered_into_a_file(mirada: Command, made: Path, tmp_path: Path) -> None:
    features = "node,hat,scarf,coat,boots\nnew1,0,1,0,1\nnew2,1,0,0,x\nnew3,1,0,0,0\n"
    new = folder(tmp_path / "new", features=features, edges="new1,even2\nnew1,new3\n", labels=None)
    out = tmp_path / "out.csv"
    done = mirada("run", made, "--data", new, "-o", out)
    assert done.code == 1
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["node"] for row in rows] == ["new1", "new2", "new3"]
    assert [row["answer"] in ("blue", "red") for row in rows] == [True, False, True]
    assert rows[1]["error"].startswith("not a number: feature boots of node 'new2' is 'x'.")
    assert "features.csv:3: not a number" in done.err
    assert_refused(mirada("run", made, "--data", tmp_path / "nowhere"), "nowhere is not a folder. New nodes come as")


def test_check_names_what_is_bad(mirada: Command, tmp_path: Path) -> None:
    files = clubs()
    place = folder(tmp_path / "g", **(files | {"edges": files["edges"] + "odd1,x\nodd1,y\n"}))
    done = mirada("check", "label", "--data", place)
    assert done.code == 1
    assert "edge to an unknown node: 'x' is not in the features." in done.out
    assert "and 1 more of this kind (--all lists each)" in done.out
    fine = mirada("check", "label", "--data", place, "bad=skip")
    assert fine.code == 0, fine.err
    assert "8 nodes to learn from, 8 nodes to validate on, 2 bad" in fine.out


TRAIN = [
    ("{place} normalize=row", "unknown normalize 'row'", "Did you mean 'rows'?"),
    ("{place} directed=maybe", "directed must be yes or no"),
    ("{place} columns=a,b", "columns= is not used by graphs"),
    ("{place} split=0.5,0.6", "split must be shares"),
    ("{place} seeds=0", "seeds must be at least 1: got 0"),
    ("{place} l2=-1", "l2 must be at least 0: got -1.0"),
    ("{place} l2=inf", "l2 must be finite"),
    ("{place} --model gatv3", "unknown model for label 'gatv3'", "Did you mean 'gatv2'?"),
    ("missing.npz", "missing.npz: no such file"),
    ("empty", "empty: there is no labels.csv. A graph is edges.csv"),
    ("text.npz", "text.npz: not an npz file. A graph has edge_index"),
    ("turned.npz", "turned.npz: edge_index must have the axes (2, edges)", "give its transpose"),
    ("objects.npz", "objects.npz: y is an array of objects"),
    ("overlap.npz", "overlap.npz: node 0: in two parts: train and test."),
    ("far.npz", "far.npz: edge 1: edge_index names node 9 of 5"),
    ("nan.npz", "nan.npz: node 2: a feature is not a finite number"),
    ("untrained.npz", "untrained.npz: the mask 'train' is empty"),
    ("one.npz", "one.npz: node 4: label of one node only: '7'"),
    ("same.npz", "at least two labels: all nodes to learn from have '0'"),
]


@pytest.mark.parametrize(("words", "wanted"), [(words, wanted) for words, *wanted in TRAIN])
def test_mistakes_are_told_in_a_line_or_two(
    mirada: Command, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, wanted: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("text.npz").write_text("hello")
    bad = {
        "turned": {"edge_index": np.zeros((4, 2), int)}, "objects": {"y": np.array([None] * 5)},
        "overlap": {"test": np.array([True, False, False, False, True])}, "far": {"edge_index": np.array([[0, 1], [1, 9]])},
        "nan": {"feature_values": np.array([1, 1, np.nan, 1, 1])}, "untrained": {"train": np.zeros(5, bool)},
        "one": {"y": np.array([0, 0, 0, 1, 7]), "train": np.array([True, True, False, True, True]), "test": None},
        "same": {"y": np.zeros(5, int)},
    }  # fmt: skip
    for name, change in bad.items():
        npz(Path(name), arrays(**change))
    done = mirada("train", "label", "--data", *words.format(place=place).split(), *MOMENT)
    error = "\n".join(
        line for line in done.err.splitlines() if "(normalize=" not in line and not line.startswith("chosen for")
    )  # what was recognized comes first
    assert_refused(done._replace(err=error), *wanted, lines=3)
    assert not Path("runs").exists()
