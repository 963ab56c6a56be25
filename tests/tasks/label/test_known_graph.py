"""The graph of a run: in its file and back, and joined with nodes that are new."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from mirada.tasks.label.files import GraphOptions, read_graph, read_new_nodes
from mirada.tasks.label.graph import GRAPH, FeatureScale, KnownGraph, LabelledGraph, Node
from tests.data.graph_files import arrays, folder

OPTIONS = GraphOptions()


def known(graph: LabelledGraph, kind: str = "standard") -> KnownGraph:
    return KnownGraph(graph, tuple(sorted(set(graph.labels) - {""})), FeatureScale.fit(graph.features, kind))


@pytest.fixture
def tables(tmp_path: Path) -> LabelledGraph:
    return read_graph(folder(tmp_path / "known"), OPTIONS).graph


# its file


@pytest.mark.parametrize("kind", ["standard", "rows"])
def test_it_is_restored_as_it_was(tmp_path: Path, tables: LabelledGraph, kind: str) -> None:
    for graph in (tables, read_graph(arrays(y=np.array([0, 0, -1, 1, 1])), OPTIONS).graph):
        before = known(graph, kind)
        (content,) = before.contents().values()
        (tmp_path / GRAPH).write_bytes(content)
        after = KnownGraph.restore(before.facts(), {GRAPH: tmp_path / GRAPH})
        assert after.graph.digest == before.graph.digest
        for name in ("names", "labels", "parts", "columns"):
            assert getattr(after.graph, name) == getattr(before.graph, name)
        assert after.labels == before.labels
        assert after.scale(after.graph.features).tolist() == before.scale(before.graph.features).tolist()
        assert after.contents() == before.contents()


def test_names_that_are_numbers_take_no_room() -> None:
    numbered = known(read_graph(arrays(), OPTIONS).graph)
    named = LabelledGraph(
        tuple("abcde"), *(getattr(numbered.graph, n) for n in ("features", "edges", "labels", "parts"))
    )
    sizes = [len(one.contents()[GRAPH]) for one in (numbered, known(named))]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("spoil", ["cut", "gone", "facts"])
def test_a_file_of_something_else_is_reported(tmp_path: Path, tables: LabelledGraph, spoil: str) -> None:
    whole = known(tables)
    (content,) = whole.contents().values()
    path, facts = tmp_path / GRAPH, whole.facts()
    if spoil != "gone":
        path.write_bytes(content[:50] if spoil == "cut" else content)
    if spoil == "facts":
        del facts["labels"]
    with pytest.raises(
        ValueError, match=r"graph.safetensors does not hold the graph of this run: .* Restore the file."
    ):
        KnownGraph.restore(facts, {GRAPH: path})


# new nodes


def test_new_nodes_are_joined_with_the_known_ones(tmp_path: Path, tables: LabelledGraph) -> None:
    place = folder(tmp_path / "new", features="node,green,red\nx,3,1\ny,4,2\n", edges="x,a\nx,y\n", labels=None)
    one, two = read_new_nodes(place, tables, OPTIONS, directed=False)
    assert (one.cells, two.cells, one.error) == (("x",), ("y",), "")
    assert isinstance(one.input, Node)
    graph = one.input.graph
    assert graph.names == (*tables.names, "x", "y")
    assert graph.features.dense()[6:].tolist() == [[1, 3], [2, 4]], "features are found by their names"
    new = {(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist()[tables.edges.shape[1] :]}
    assert new == {("x", "a"), ("a", "x"), ("x", "y"), ("y", "x")}
    (_, other) = read_new_nodes(place, tables, OPTIONS, directed=True)
    assert isinstance(other.input, Node)
    assert other.input.graph.edges.shape[1] == tables.edges.shape[1] + 2


def test_new_nodes_may_have_no_edges(tmp_path: Path, tables: LabelledGraph) -> None:
    (one,) = read_new_nodes(folder(tmp_path / "new", features="x,3,1\n", edges=None), tables, OPTIONS, False)
    assert isinstance(one.input, Node)
    assert one.input.graph.edges.shape == tables.edges.shape


def test_bad_new_nodes_have_errors_in_their_places(tmp_path: Path, tables: LabelledGraph) -> None:
    rows = "node,red,green\nx,1,2\ny,1,\na,1,2\nz,1,1\nx,3,3\nw,2,2\n"
    place = folder(tmp_path / "new", features=rows, edges="z,nowhere\nx,y\nw,a\n")
    found = read_new_nodes(place, tables, OPTIONS, False)
    assert [one.cells[0] for one in found] == ["x", "y", "a", "z", "x", "w"]
    assert [isinstance(one.input, str) for one in found] == [False, True, True, True, True, False]
    errors = [one.error for one in found]
    assert errors[1].startswith("not a number: feature green of node 'y' is ''")
    assert errors[2].startswith("node 'a' is in the graph of this run already.")
    assert "edges.csv:1: edge to an unknown node: 'nowhere'" in errors[3]
    assert "node 'x' has features already" in errors[4]
    joined = found[-1].input.graph
    ends = {joined.names[n] for n in joined.edges[:, tables.edges.shape[1] :].flatten().tolist()}
    numbers = set(joined.edges[:, tables.edges.shape[1] :].flatten().tolist())
    assert ends == {"w", "a"}
    assert numbers == {joined.numbers["w"], 0}, "an edge to a known node leads to the known one"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"features": "x,1,2,3\n"}, "features.csv: this run reads 2 features a node: got 3"),
        ({"features": "node,red,blue\nx,1,2\n"}, "features.csv: there is no feature 'green', which this run reads"),
        ({"features": "x,1,2\n", "edges": "p,q\nq,p\n"}, "edges.csv:1: edge to an unknown node: 'p'"),
        ({"features": None}, "there is no features.csv"),
    ],
)
def test_places_without_new_nodes_are_refused(tmp_path: Path, tables: LabelledGraph, files: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_new_nodes(folder(tmp_path / "new", **files), tables, OPTIONS, False)
    with pytest.raises(ValueError, match=r"nowhere is not a folder. New nodes come as features.csv and edges.csv"):
        read_new_nodes("nowhere", tables, OPTIONS, False)


def arrays_of(whole: KnownGraph) -> dict[str, np.ndarray]:
    return load(whole.contents()[GRAPH])


def text(value: object) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


ODD_ARRAYS = {
    "labels": [np.full(6, 9, np.int32), np.full(6, -2, np.int32), np.zeros(3, np.int32), np.zeros(6), np.zeros((6, 2), np.int32)],
    "parts": [np.full(6, 3, np.int32), np.full(6, -7, np.int32), np.zeros(0, np.int32)],
    "names": [text(["a"]), text({"a": 1}), text([1, 2, 3, 4, 5, 6]), text(7), np.zeros(6), np.frombuffer(b"[" * 9999, np.uint8),
              np.frombuffer(b"\xff", np.uint8)],
    "features": [text(["one"]), text("ab"), np.zeros((2, 2), np.uint8)],
    "edges": [np.array([[0], [6]]), np.array([[-1], [0]]), np.zeros((3, 1), np.int64), np.zeros((2, 1)), np.zeros(2, np.int64)],
    "starts": [np.zeros(7, np.int64), np.zeros(0, np.int64), np.arange(7)[::-1].copy(), np.zeros(7), np.array(3)],
    "columns": [np.full(8, 99), np.full(8, -1), np.zeros(2, np.int64)],
    "values": [np.zeros(8, np.int64), np.zeros((8, 1), np.float32), np.array(1.0)],
    "mean": [np.zeros(1, np.float32), np.zeros((2, 1), np.float32), np.zeros(2, np.int64)],
    "deviation": [np.zeros(0, np.float32)],
}  # fmt: skip


@pytest.mark.parametrize(("name", "place"), [(n, p) for n, some in ODD_ARRAYS.items() for p in range(len(some))])
def test_arrays_that_are_no_graph_are_reported(tmp_path: Path, tables: LabelledGraph, name: str, place: int) -> None:
    whole = known(tables)
    (tmp_path / GRAPH).write_bytes(save(arrays_of(whole) | {name: ODD_ARRAYS[name][place]}))
    with pytest.raises(
        ValueError, match=r"graph.safetensors does not hold the graph of this run: .* Restore the file."
    ):
        KnownGraph.restore(whole.facts(), {GRAPH: tmp_path / GRAPH})


@pytest.mark.parametrize("facts", [{"labels": 7}, {"labels": "ab"}, {"labels": None}, {"features": "x"}, {"features": 1},
                                   {"features": 2**70}, {"normalize": "odd"}, {"normalize": None}], ids=str)  # fmt: skip
def test_facts_that_are_of_no_graph_are_reported(tmp_path: Path, tables: LabelledGraph, facts: dict) -> None:
    whole = known(tables)
    (tmp_path / GRAPH).write_bytes(whole.contents()[GRAPH])
    with pytest.raises(
        ValueError, match=r"graph.safetensors does not hold the graph of this run: .* Restore the file."
    ):
        KnownGraph.restore(whole.facts() | facts, {GRAPH: tmp_path / GRAPH})


def test_a_pipe_in_the_place_of_the_graph_makes_nobody_wait(tmp_path: Path, tables: LabelledGraph) -> None:
    os.mkfifo(tmp_path / GRAPH)
    with pytest.raises(ValueError, match=r"no ordinary file"):
        KnownGraph.restore(known(tables).facts(), {GRAPH: tmp_path / GRAPH})
