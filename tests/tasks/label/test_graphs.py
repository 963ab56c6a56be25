"""Graphs from npz files, folders of tables and memory: what is read, and every fault named with its place."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from mirada.tasks.label.files import GraphOptions, read_graph
from mirada.tasks.label.graph import FoundGraph, LabelledGraph, drawn_parts, with_parts
from tests.data.graph_files import EDGES, FEATURES, LABELS, arrays, folder, npz

OPTIONS = GraphOptions()


def told(found: FoundGraph, place: str = "") -> list[str]:
    return [str(problem).removeprefix(place).lstrip("/") for problem in found.problems]


def edges(graph: LabelledGraph) -> set[tuple[str, str]]:
    return {(graph.names[source], graph.names[target]) for source, target in graph.edges.T.tolist()}


# arrays


def test_an_npz_file_is_a_graph_of_numbered_nodes(tmp_path: Path) -> None:
    path = npz(tmp_path / "g.npz", arrays())
    found = read_graph(path, OPTIONS)
    graph = found.graph
    assert told(found) == []
    assert graph.names == ("0", "1", "2", "3", "4")
    assert graph.labels == ("0", "0", "0", "1", "1")
    assert graph.parts == ("train", "train", "valid", "train", "test")
    assert graph.edges.tolist() == [[0, 1, 2, 3], [1, 2, 0, 4]], "the edges of an npz file are as they are"
    dense = [[1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 3]]
    assert graph.features.dense().tolist() == dense
    assert [node.where for node in graph.nodes("test")] == [f"{path}: node 4"]


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor, list])
def test_arrays_in_memory_are_the_same_graph(kind) -> None:
    given = {name: kind(value) if name != "feature_shape" else (5, 3) for name, value in arrays().items()}
    found = read_graph(given, OPTIONS).graph
    same = read_graph(arrays(), OPTIONS).graph
    assert found.digest == same.digest
    assert (found.labels, found.parts) == (same.labels, same.parts)
    assert found.nodes("valid")[0].where == "data: node 2"


def test_dense_features_are_taken_too() -> None:
    dense = read_graph(arrays(), OPTIONS).graph.features.dense()
    sparse = dict.fromkeys(("feature_rows", "feature_columns", "feature_values", "feature_shape"))
    found = read_graph(arrays(**sparse, features=dense), OPTIONS).graph
    assert found.digest == read_graph(arrays(), OPTIONS).graph.digest


def test_a_class_below_zero_is_unknown_and_texts_are_labels() -> None:
    assert read_graph(arrays(y=np.array([0, -1, 0, 1, 1])), OPTIONS).graph.labels == ("0", "", "0", "1", "1")
    assert read_graph(arrays(y=np.array(["a", "", "a", "b", "b"])), OPTIONS).graph.labels == ("a", "", "a", "b", "b")
    assert read_graph(arrays(y=None), OPTIONS).graph.labels == ("",) * 5


def test_entries_of_one_place_are_added_up() -> None:
    found = read_graph(arrays(feature_rows=np.array([0, 0, 2, 3, 4])), OPTIONS).graph
    assert found.features.dense()[0].tolist() == [3, 0, 0]


BAD_ARRAYS = [
    ({"edge_index": None}, "g: there is no 'edge_index' among feature_columns,"),
    ({"feature_values": None}, "g: there is no 'feature_values' among"),
    ({"edge_index": np.zeros((4, 2), int)}, r"edge_index must have the axes \(2, edges\).*got shape \(4, 2\). It is"),
    ({"edge_index": np.zeros(4, int)}, r"edge_index must have the axes .* got shape \(4,\)"),
    ({"edge_index": np.zeros((2, 3))}, "edge_index must hold whole numbers: got float64"),
    ({"feature_shape": np.array([5])}, r"feature_shape must be two numbers, nodes and features: got \[5\]"),
    ({"feature_shape": np.array([4, 3])}, r"feature_rows\[4\] is 4, outside of feature_shape \[4, 3\]"),
    ({"feature_columns": np.array([0, 0, 1, 2, -1])}, r"feature_columns\[4\] is -1, outside of"),
    ({"feature_rows": np.zeros(5)}, "feature_rows must be a list of whole numbers: got float64"),
    ({"feature_values": np.array(["a"] * 5)}, "feature_values must hold numbers: got <U1"),
    ({"feature_values": np.ones(4)}, r"must be equally long: got \[5, 5, 4\]"),
    ({"features": np.ones((5, 3), complex)}, "features must hold numbers: got complex128"),
    ({"features": np.ones(5)}, r"features must have the axes \(nodes, features\): got shape \(5,\)"),
    ({"features": np.ones((0, 3))}, "g: the graph has no node"),
    ({"y": np.zeros(4, int)}, r"y must have one class per node: got shape \(4,\) for 5 nodes"),
    ({"y": np.zeros(5)}, "y must hold classes, whole numbers or texts: got float64"),
    ({"train": None}, "there is valid and test, but no mask 'train'"),
    ({"train": np.zeros(5, bool)}, "the mask 'train' is empty: there is no node to learn from"),
    ({"train": np.array([0, 1, 3])}, "train must be a boolean mask with an entry per node: got int64"),
    ({"test": np.zeros(4, bool)}, r"test must be a boolean mask .* got bool of shape \(4,\)"),
]


@pytest.mark.parametrize(("change", "message"), BAD_ARRAYS)
def test_arrays_that_are_no_graph_are_refused(change: dict, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    npz(Path("g"), arrays(**change))
    Path("g.npz").rename("g")
    with pytest.raises(ValueError, match=message):
        read_graph("g", OPTIONS)
    with pytest.raises(ValueError, match=message.removeprefix("g: ")):
        read_graph(arrays(**change), OPTIONS)


def test_bad_edges_features_and_masks_are_problems_and_left_out() -> None:
    nan = np.array([1, np.nan, 1, 1, np.inf], np.float32)
    index = np.array([[0, 1, 9, 3, 2], [2, 2, 0, -1, 0]])
    train = np.array([True, True, True, True, False])
    found = read_graph(arrays(feature_values=nan, edge_index=index, train=train), OPTIONS)
    bad = "a feature is not a finite number. Fill it in, or leave the node out."
    assert told(found) == [
        f"data: node 1: {bad}",
        f"data: node 4: {bad}",
        "data: edge 2: edge_index names node 9 of 5, which are numbered from 0. Leave the edge out.",
        "data: edge 3: edge_index names node -1 of 5, which are numbered from 0. Leave the edge out.",
        "data: node 2: in two parts: train and valid. Take it out of one of the masks.",
    ]
    assert found.graph.edges.tolist() == [[0, 2], [2, 0]], "nothing reaches a node without features"
    assert found.graph.labels == ("0", "", "0", "1", "")
    assert found.graph.parts == ("train", "train", "", "train", "test")


def test_masks_that_share_all_nodes_to_learn_from() -> None:
    twice = np.array([True, False, True, False, False])
    with pytest.raises(ValueError, match="every node of the mask 'train' is in another mask too"):
        read_graph(arrays(train=twice, valid=twice), OPTIONS)


def test_what_is_no_npz_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing.npz: no such file"):
        read_graph(str(tmp_path / "missing.npz"), OPTIONS)
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match=r"text.npz: not an npz file. A graph has edge_index"):
        read_graph(str(tmp_path / "text.npz"), OPTIONS)
    whole = Path(npz(tmp_path / "g.npz", arrays())).read_bytes()
    spoiled = whole.replace(b"\x93NUMPY", b"\x93NUMPX")
    (tmp_path / "spoiled.npz").write_bytes(spoiled)
    with pytest.raises(ValueError, match=r"spoiled.npz"):
        read_graph(str(tmp_path / "spoiled.npz"), OPTIONS)


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = npz(tmp_path / "g.npz", arrays(y=np.array([{}, 1, 2, 3, 4], dtype=object)))
    with pytest.raises(ValueError, match=r"g.npz: y is an array of objects, which is read by running code. Save plain"):
        read_graph(path, OPTIONS)


def test_other_values_in_memory_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a graph in memory is a dict of arrays .* got list"):
        read_graph([("a", "b")], OPTIONS)


# tables


def test_a_folder_of_tables_is_a_graph(tmp_path: Path) -> None:
    place = folder(tmp_path / "g")
    found = read_graph(place, OPTIONS)
    graph = found.graph
    assert told(found) == []
    assert graph.names == ("a", "b", "c", "d", "e", "f")
    assert graph.columns == ("red", "green")
    assert graph.features.dense().tolist() == [[1, 0], [1, 0.5], [2, 0], [0, 1], [0, 2], [0, 1.5]]
    assert graph.labels == ("warm", "warm", "warm", "cold", "cold", "cold")
    assert graph.parts == ("train", "train", "valid", "train", "train", "test")
    one_way = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "c"), ("d", "f")}
    assert edges(graph) == one_way | {(b, a) for a, b in one_way}
    assert edges(read_graph(place, GraphOptions(directed=True)).graph) == one_way
    assert graph.nodes("test")[0].where == f"{place}/labels.csv:7"


def test_tables_come_as_people_have_them(tmp_path: Path) -> None:
    """Without headers, with other names and separators, packed, decimal commas, an index of pandas as a header."""
    wanted = read_graph(folder(tmp_path / "g"), OPTIONS).graph

    def body(text: str) -> str:
        return text.split("\n", 1)[1]

    bare = folder(tmp_path / "bare", edges=body(EDGES), features=body(FEATURES), labels=body(LABELS))
    other = folder(
        tmp_path / "other", edges="weight;to;from\n" + "".join(f"3;{b};{a}\n" for a, b in pairs(EDGES)),
        features=FEATURES.replace(",", ";").replace(".", ",").replace("node", ""),
        labels="split\tclass\tid\n" + "".join(f"{s}\t{b}\t{a}\n" for a, b, s in pairs(LABELS)),
    )  # fmt: skip
    tabs = tmp_path / "tabs"
    tabs.mkdir()
    for name, text in (("edges", EDGES), ("features", FEATURES), ("labels", LABELS)):
        (tabs / f"{name}.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    for place in (bare, other, str(tabs)):
        found = read_graph(place, OPTIONS)
        assert told(found) == []
        assert found.graph.digest == wanted.digest
        assert (found.graph.labels, found.graph.parts) == (wanted.labels, wanted.parts)


def test_blanks_may_divide_edges(tmp_path: Path) -> None:
    """As lists of edges can be downloaded, with remarks above."""
    edges = "# an undirected graph\n# nodes: 6\na b\nb c\nc d\nd e\na c\nd f\n"
    found = read_graph(folder(tmp_path / "blanks", edges=edges), OPTIONS)
    assert not found.problems
    assert np.array_equal(found.graph.edges, read_graph(folder(tmp_path / "commas"), OPTIONS).graph.edges)


def test_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    rows = {"a": "1.234,5;0,5", "b": "12 345,6;1", "c": "1'000;2,25"}
    text = "node;red;green\n" + "".join(f"{name};{row}\n" for name, row in rows.items())
    graph = read_graph(folder(tmp_path / "g", features=text, edges="a,b\n", labels="a,x\nb,y\n"), OPTIONS).graph
    np.testing.assert_allclose(graph.features.dense(), [[1234.5, 0.5], [12345.6, 1], [1000, 2.25]])
    quoted = 'node,red,green\na,"1,234",0.5\nb,7,1\nc,"2,000,000",2\n'
    graph = read_graph(folder(tmp_path / "h", features=quoted, edges="a,b\n", labels="a,x\nb,y\n"), OPTIONS).graph
    np.testing.assert_allclose(graph.features.dense(), [[1234, 0.5], [7, 1], [2_000_000, 2]])
    mixed = "node;red\na;0,5\nb;1,25\nc;1.5.2\n"
    place = folder(tmp_path / "i", features=mixed, edges="a,b\n", labels="a,x\nb,y\n")
    assert told(read_graph(place, OPTIONS), place) == [
        "features.csv:4: not a number: feature red of node 'c' is '1.5.2'. Fill in a finite number."
    ]


def test_what_was_taken_is_said_and_what_stands_above_is_left_out(tmp_path: Path) -> None:
    place = folder(
        tmp_path / "g", edges="sep=;\nweight;to;from\n" + "".join(f"3;{b};{a}\n" for a, b in pairs(EDGES)),
        features="Of the lab\n" + FEATURES.replace("node", "id"), labels=LABELS.replace("label", "clase"),
    )  # fmt: skip
    found = read_graph(place, OPTIONS)
    assert told(found) == []
    assert found.graph.digest == read_graph(folder(tmp_path / "h"), OPTIONS).graph.digest
    assert found.notes == [
        f"{place}/features.csv: header: node is id, the features are red, green (1 line above it left out)",
        f"{place}/edges.csv: header: source is from, target is to",
        f"{place}/labels.csv: header: node is node, label is clase, split is split",
    ]
    assert read_graph(folder(tmp_path / "h"), OPTIONS).notes == []


def pairs(text: str) -> list[list[str]]:
    return [line.split(",") for line in text.strip().split("\n")[1:]]


def test_numbers_that_name_features_are_a_header_and_words_are_one_where_nodes_are_numbers(tmp_path: Path) -> None:
    place = folder(
        tmp_path / "g", features="node,0,1\n10,1,0\n11,0,1\n", edges="paper,reference\n10,11\n", labels="who,what\n10,x\n11,y\n"
    )  # fmt: skip
    graph = read_graph(place, OPTIONS).graph
    assert (graph.names, graph.columns, graph.labels) == (("10", "11"), ("0", "1"), ("x", "y"))
    assert edges(graph) == {("10", "11"), ("11", "10")}
    told_no = read_graph(place, GraphOptions(header="no"))
    assert "edges.csv:1: edge to an unknown node: 'paper'" in "\n".join(told(told_no, place))
    assert len(read_graph(folder(tmp_path / "h"), GraphOptions(header="yes")).graph) == 6


def test_nodes_without_labels_are_there_all_the_same(tmp_path: Path) -> None:
    graph = read_graph(folder(tmp_path / "g", labels="a,warm,train\nb,,\nd,cold,val\n"), OPTIONS).graph
    assert graph.labels == ("warm", "", "", "cold", "", "")
    assert graph.parts == ("train", "", "", "valid", "", "")


BAD_TABLES = [
    ({"edges": "a,b\nb,z\n"}, "edges.csv:2: edge to an unknown node: 'z' is not in the features. Add it there, or"),
    ({"edges": "a,b\nb\n"}, "edges.csv:2: expected 2 columns, found 1. Each line is source,target."),
    ({"edges": "a,b,3\n"}, "edges.csv:1: expected 2 columns, found 3. Each line is source,target. Name source and"),
    ({"features": FEATURES + "g,1\n"}, "features.csv:8: expected 2 features, found 1. Every node has as many as"),
    ({"features": FEATURES + "g,1,red\n"}, "features.csv:8: not a number: feature green of node 'g' is 'red'. Fill in"),
    ({"features": FEATURES + "g,1,\n"}, "features.csv:8: not a number: feature green of node 'g' is ''."),
    ({"features": FEATURES + "g,nan,1\n"}, "features.csv:8: not a number: feature red of node 'g' is 'nan'."),
    ({"features": FEATURES + "g,inf,1\n"}, "features.csv:8: not a number: feature red of node 'g' is 'inf'."),
    ({"features": FEATURES + "a,1,1\n"}, "features.csv:8: node 'a' has features already: "),
    ({"features": FEATURES + ",1,1\n"}, "features.csv:8: no name: the first column names the node."),
    ({"features": FEATURES.encode() + b"\xff,1,1\n"}, "features.csv:8: not UTF-8"),
    ({"labels": LABELS + "z,warm,train\n"}, "labels.csv:8: label of an unknown node: 'z' is not in the features."),
    ({"labels": LABELS + "a,cold,train\n"}, "labels.csv:8: node 'a' has a label already: "),
    ({"labels": "a,warm,learn\n"}, "labels.csv:1: unknown split 'learn'; known: train, valid, test, or nothing."),
    ({"labels": "a\n"}, "labels.csv:1: expected 2 or 3 columns, found 1. Each line is node,label,split."),
]


@pytest.mark.parametrize(("files", "message"), BAD_TABLES)
def test_bad_rows_are_named_and_the_others_read(tmp_path: Path, files: dict, message: str) -> None:
    place = folder(tmp_path / "g", **files)
    found = read_graph(place, OPTIONS)
    (problem,) = told(found, place)
    assert problem.startswith(message)
    assert found.graph.names == ("a", "b", "c", "d", "e", "f")


def test_a_node_with_bad_features_takes_its_edges_and_label_with_it(tmp_path: Path) -> None:
    place = folder(tmp_path / "g", features=FEATURES.replace("c,2,0", "c,2,x"))
    found = read_graph(place, OPTIONS)
    assert told(found, place) == [
        "features.csv:4: not a number: feature green of node 'c' is 'x'. Fill in a finite number."
    ]
    assert "c" not in found.graph.names
    assert edges(found.graph) == {("a", "b"), ("b", "a"), ("d", "e"), ("e", "d"), ("d", "f"), ("f", "d")}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"edges": None}, "there is no edges.csv. A graph is edges.csv"),
        ({"labels": None}, "there is no labels.csv. A graph is"),
        ({"features": "a\nb\nc\n"}, "there is no feature, only names of nodes"),
        ({"features": "\n \n"}, "no row can be read"),
        ({"edges": ""}, "edges.csv: the file is empty"),
    ],
)
def test_folders_that_are_no_graph_are_refused(tmp_path: Path, files: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_graph(folder(tmp_path / "g", **files), OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": "row"}, "unknown normalize 'row'; known: auto, no, rows, standard. Did you mean 'rows'?"),
        ({"columns": "a,b"}, "columns= is not used by graphs"),
    ],
)
def test_options_are_checked(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphOptions(**options)


# parts


def graph_of(labels: str, parts: tuple[str, ...]) -> LabelledGraph:
    given = arrays(y=np.array(list(labels)), train=None, valid=None, test=None)
    graph = read_graph(given, OPTIONS).graph
    return LabelledGraph(graph.names, graph.features, graph.edges, graph.labels, parts)


def test_parts_that_are_given_stay() -> None:
    graph = graph_of("aabba", ("train", "train", "train", "valid", "test"))
    assert with_parts(graph, (), "g") == (graph, [])


def test_parts_are_drawn_where_none_are_given() -> None:
    graph, notes = with_parts(graph_of("aabba", ("",) * 5), (), "g")
    assert notes == [
        "g: no split is given, so one is drawn: of every class 60 % for train, 20 % for valid, 20 % for test"
    ]
    assert {graph.labels[n] for n, part in enumerate(graph.parts) if part == "train"} == {"a", "b"}
    asked, notes = with_parts(graph_of("aabba", ("train",) * 5), (0.5, 0.5), "g")
    assert notes == ["g: the split is drawn as asked: of every class 50 % for train, 50 % for valid"]
    assert set(asked.parts) == {"train", "valid"}


def test_without_validation_some_of_training_are_held_out() -> None:
    before = ("train", "train", "train", "train", "test")
    graph, notes = with_parts(graph_of("aabba", before), (), "g")
    assert notes == ["g: no node is for validation, so 20 % of those for training are held out"]
    assert graph.parts[4] == "test"
    with pytest.raises(ValueError, match="g: no node has the split 'train': there is nothing to learn from"):
        with_parts(graph_of("aabba", ("test", "", "", "", "")), (), "g")


def test_drawn_parts_have_their_shares_of_every_class_and_depend_on_names_only() -> None:
    names = [f"n{number}" for number in range(100)]
    labels = ["a"] * 60 + ["b"] * 30 + [""] * 10
    parts = drawn_parts(names, labels, (0.5, 0.3, 0.2))
    for label, wanted in (("a", (30, 18, 12)), ("b", (15, 9, 6)), ("", (0, 0, 0))):
        mine = [part for part, one in zip(parts, labels, strict=True) if one == label]
        assert tuple(mine.count(part) for part in ("train", "valid", "test")) == wanted
    order = np.random.default_rng(1).permutation(100)
    again = drawn_parts([names[n] for n in order], [labels[n] for n in order], (0.5, 0.3, 0.2))
    assert again == tuple(parts[n] for n in order)
    assert drawn_parts(["x"], ["a"], (0.1, 0.9)) == ("train",), "the rarest class is learned from"


def test_an_unknown_node_is_reported_with_names_that_are_near() -> None:
    graph = read_graph(arrays(), OPTIONS).graph
    assert graph.number("3") == 3
    with pytest.raises(ValueError, match=r"the graph has no node 'x' among its 5. Its names are such as 0, 1, 2."):
        graph.number("x")
    papers = LabelledGraph(("paper1", "paper2"), graph.features, graph.edges, ("", ""), ("", ""))
    with pytest.raises(ValueError, match=r"no node 'papr1' among its 2. Did you mean paper1, paper2\?"):
        papers.number("papr1")
