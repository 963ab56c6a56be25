"""Neighbors in a graph: the strongest around the node, all of them in the list."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.tasks.label.report import MOST, NeighborGraph
from tests.drawing.parsed import NAN, assert_inside, page_of


def test_every_neighbor_is_drawn_and_listed_strongest_first() -> None:
    root = page_of(NeighborGraph("p7", (("p1", 0.2), ("p2", 0.5), ("p3", 0.3)), ("a", "b", "a"), "a", "b", score=0.75))
    assert [node.text for node in root.all("li")] == ["p2 (b)0.5", "p3 (a)0.3", "p1 (a)0.2"]
    edges = root.all("line")
    assert [node.text for node in edges] == ["p2 (b): 0.5", "p3 (a): 0.3", "p1 (a): 0.2"]
    widths = [float(node.attributes["stroke-width"] or "nan") for node in edges]
    assert widths == pytest.approx([9.0, 0.8 + 8.2 * 0.6, 0.8 + 8.2 * 0.4], abs=1e-3)
    assert root.all("svg")[0].attributes["aria-label"] == "p7 and its neighbors: p2 0.5, p3 0.3, p1 0.2"
    assert "even would be 0.3333" in root.text
    assert "\u2717 wrong" in root.all(kind="verdict")[0].text


def test_the_node_itself_is_a_ring() -> None:
    root = page_of(NeighborGraph("p7", (("p7", 0.6), ("p1", 0.4))))
    assert [node.text for node in root.all(kind="ring")] == ["p7 itself: 0.6"]
    assert len(root.all("line")) == 1
    assert [node.text for node in root.all("li")] == ["p7 itself0.6", "p10.4"]
    assert root.all(kind="verdict") == []


def test_dots_tell_what_a_neighbors_label_has_to_do_with_the_answer() -> None:
    neighbors = (("p1", 0.4), ("p2", 0.3), ("p3", 0.2), ("p4", 0.1), ("p7", 0.1))
    root = page_of(NeighborGraph("p7", neighbors, ("a", "b", "c", "", "a"), "a", "b"))
    kinds = [
        node.attributes["class"] for node in root.all("circle") if "center" not in (node.attributes["class"] or "")
    ]
    assert kinds == ["edge ring", "node same", "node missed", "node other", "node"]
    (key,) = root.all(kind="dots")
    assert key.text == "labelled as answeredas wantedotherwise"
    right = page_of(NeighborGraph("p7", (("p1", 0.4), ("p7", 0.6)), ("a", "b"), "a", "a"))
    assert right.all(kind="dots")[0].text == "labelled as answered", "only what is there"
    assert page_of(NeighborGraph("p7", (("p1", 1.0),), ("a",))).all(kind="dots") == []


def test_many_neighbors_are_listed_and_the_drawing_says_what_it_leaves_out() -> None:
    count = 2 * MOST
    root = page_of(NeighborGraph("hub", tuple((f"n{i}", 1 / count) for i in range(count))))
    assert len(root.all("line")) == MOST
    assert len(root.all("li")) == count
    assert root.all(kind="remark")[0].text == "Drawn: 12 of 24 neighbors, with 50% of their weight. The list has all."


def test_odd_weights_are_dashed_and_reported() -> None:
    root = page_of(NeighborGraph("a", (("b", -0.5), ("c", NAN), ("d", 1.5))))
    dashes = {node.text[0]: node.attributes.get("stroke-dasharray") for node in root.all("line")}
    assert dashes == {"d": None, "b": "5 4", "c": "5 4"}
    assert [node.text for node in root.all("line")][-1] == "c: nan"
    assert [node.text for node in root.all(kind="caution")] == ["1 weight is not a number."]


def test_long_names_are_cut_in_the_drawing_only() -> None:
    name = "a very long name of a paper"
    root = page_of(NeighborGraph("x", ((name, 1.0),)))
    assert "a very lon\u2026" in [node.text for node in root.all("text")]
    assert root.all("line")[0].text == f"{name}: 1"
    assert root.all("li")[0].text == f"{name}1"


@given(weights=st.lists(st.floats(), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_any_graph_stays_in_its_picture(weights: list[float]) -> None:
    root = page_of(NeighborGraph("n0", tuple((f"n{i}", weight) for i, weight in enumerate(weights))))
    assert_inside(root)
    assert len(root.all("li")) == len(weights)
    for edge in root.all("line"):
        assert math.isfinite(float(edge.attributes["stroke-width"] or "nan"))


def test_kinds_are_one_per_neighbor() -> None:
    with pytest.raises(ValueError, match="kinds must be one per neighbor, or none: got 1 for 2 neighbors"):
        NeighborGraph("a", (("b", 0.5), ("c", 0.5)), ("x",))
