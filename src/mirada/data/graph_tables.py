"""A graph from a folder of tables: edges.csv (source, target), features.csv (node, ...), labels.csv (node, label, split)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from mirada.data.decimals import one_number
from mirada.data.first_row import number
from mirada.data.header import lines
from mirada.data.labelled_graph import PARTS, FoundGraph, LabelledGraph
from mirada.data.node_features import SparseRows
from mirada.data.node_table import SAMPLE, body, names, required, table
from mirada.data.numbers import decimal_mark
from mirada.data.options import TableOptions
from mirada.data.record import Problem
from mirada.errors import require

SPLITS = {
    **dict.fromkeys(("train", "training", "entrenamiento"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev", "validación", "validacion"), "valid"),
    **dict.fromkeys(("test", "testing", "prueba"), "test"),
    **dict.fromkeys(("", "none", "no", "-"), ""),
}
NAMED = 3  # features that a note names


def from_folder(folder: str, options: TableOptions, directed: bool) -> FoundGraph:
    """The graph of a folder. Its nodes are those that have features; edges count both ways unless they are `directed`."""
    features = read_features(required(folder, "features"), options)
    edges, wrong, note = read_edges(required(folder, "edges"), features.names, features.bad, options)
    labels, unclear = read_labels(required(folder, "labels"), features, options)
    graph = LabelledGraph(
        tuple(features.names), features.rows(), both_ways(edges, directed), labels.labels, labels.parts, labels.places,
        features.columns,
    )  # fmt: skip
    notes = [text for text in (features.note, note, labels.note) if text]
    return FoundGraph(graph, [*features.problems, *(problem for problem, _ in wrong), *unclear], notes)


# Features


@dataclass
class FeatureRows:
    """The features of nodes as they are read. `seen` has every row: its place, its node, and what is wrong with it."""

    path: str
    columns: tuple[str, ...] = ()
    width: int = 0
    mark: str = "."  # before the fraction of a number
    note: str = ""  # what was recognized, for the person
    names: dict[str, int] = field(default_factory=dict)
    places: list[str] = field(default_factory=list)
    found: list[tuple[NDArray, NDArray]] = field(default_factory=list)  # columns and values of every node
    seen: list[tuple[str, str, str]] = field(default_factory=list)

    def take(self, line: int, cells: Sequence[str], fault: str) -> None:
        """The next row."""
        where, name = f"{self.path}:{line}", cells[0] if cells else ""
        fault = fault or self.fault(name, cells[1:])
        values = np.zeros(0) if fault else parsed(cells[1:], self.mark)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            place = int(wrong[0])
            called = f"feature {self.columns[place] if self.columns else place + 1}"
            fault = f"not a number: {called} of node {name!r} is {cells[place + 1]!r}. Fill in a finite number."
        self.seen.append((where, name, fault))
        if not fault:
            places = np.flatnonzero(values)
            self.names[name] = len(self.names)
            self.places.append(where)
            self.found.append((places, values[places].astype(np.float32)))

    def fault(self, name: str, cells: Sequence[str]) -> str:
        if not name:
            return "no name: the first column names the node. Fill it in."
        if name in self.names:
            return f"node {name!r} has features already: {self.places[self.names[name]]}. Take one of them out."
        if len(cells) != self.width:
            return f"expected {self.width:,} features, found {len(cells):,}. Every node has as many as the others."
        return ""

    @property
    def problems(self) -> list[Problem]:
        return [Problem(where, fault) for where, _, fault in self.seen if fault]

    @property
    def bad(self) -> set[str]:
        """The nodes that are named, but have no features that can be used."""
        return {name for _, name, fault in self.seen if fault and name} - self.names.keys()

    def rows(self) -> SparseRows:
        """The features of all nodes."""
        counts = [0, *(len(places) for places, _ in self.found)]
        columns = np.concatenate([np.zeros(0, np.int64), *(places for places, _ in self.found)])
        values = np.concatenate([np.zeros(0, np.float32), *(values for _, values in self.found)])
        return SparseRows(np.cumsum(counts), columns, values, self.width)


def read_features(path: str, options: TableOptions) -> FeatureRows:
    """The nodes with their features: a header is optional, and names the features."""
    found_table = table(path, options)
    rows = found_table.rows
    sample = list(islice(rows, SAMPLE))
    whole = [cells for _, cells, fault in sample if not fault]
    require(bool(whole), f"{path}: no row can be read. Each line is node,number,number,...")
    telling = (cell for cells in whole for cell in cells[1:] if "," in cell or "." in cell)
    found = FeatureRows(path, mark=decimal_mark(telling, found_table.separator))
    if not sample[0][2] and has_feature_header(whole[0], options.header):
        found.columns = tuple(whole[0][1:])
        found.note = feature_note(path, whole[0], found_table.above)
        sample = sample[1:]
    elif found_table.above:
        found.note = f"{path}: {lines(found_table.above)} at the top left out"
    sizes = Counter(len(cells) - 1 for cells in whole)
    found.width = len(found.columns) or sizes.most_common(1)[0][0]
    require(found.width > 0, f"{path}: there is no feature beside the names of the nodes. Each line is node,number,...")
    for line, cells, fault in chain(sample, rows):
        found.take(line, cells, fault)
    return found


def has_feature_header(first: Sequence[str], header: str) -> bool:
    """Whether a first row names the features: it is told, or it begins as a header does, or has no number."""
    if header:
        return header == "yes"
    return not first[0] or names(first[0], "node") or not any(map(number, first[1:]))


def feature_note(path: str, header: Sequence[str], above: int) -> str:
    """What was recognized, for the person; nothing where the first column has our own word."""
    if header[0].casefold() == "node" and not above:
        return ""
    features = ", ".join(header[1 : NAMED + 1]) + (", ..." if len(header) > NAMED + 1 else "")
    left = f" ({lines(above)} above it left out)" if above else ""
    return f"{path}: header: node is {header[0] or 'the first column'}, the features are {features}{left}"


def parsed(cells: Sequence[str], mark: str) -> NDArray[np.float64]:
    """Numbers with this decimal mark; what is none is NaN.

    >>> parsed(["1", "2,5", "1.234,5", "red"], ",").tolist()
    [1.0, 2.5, 1234.5, nan]
    """
    if mark == ".":
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
    return np.array([one_number(cell, mark) for cell in cells])


# Edges


def read_edges(
    path: str, nodes: Mapping[str, int], bad: AbstractSet[str], options: TableOptions
) -> tuple[NDArray[np.int64], list[tuple[Problem, list[str]]], str]:
    """The edges, sources above targets, by the numbers of their nodes, the bad ones with their cells, and a note.

    Edges of nodes whose features are bad are left out: what is wrong is told there.
    """
    found: list[tuple[int, int]] = []
    wrong: list[tuple[Problem, list[str]]] = []
    rows, note = body(path, ("source", "target"), nodes, options)
    for line, cells, fault in rows:
        fault = fault or edge_fault(cells, nodes, bad)
        if fault:
            wrong.append((Problem(f"{path}:{line}", fault), cells))
        elif bad.isdisjoint(cells):
            found.append((nodes[cells[0]], nodes[cells[1]]))
    return np.array(found, dtype=np.int64).reshape(-1, 2).T, wrong, note


def edge_fault(cells: Sequence[str], nodes: Mapping[str, int], bad: AbstractSet[str]) -> str:
    """What is wrong with a row of the edges."""
    if len(cells) != 2:
        more = " Name source and target in the first line: then the others are left out." if len(cells) > 2 else ""
        return f"expected 2 columns, found {len(cells)}. Each line is source,target.{more}"
    unknown = [name for name in cells if name not in nodes and name not in bad]
    if unknown:
        return f"edge to an unknown node: {unknown[0]!r} is not in the features. Add it there, or leave the edge out."
    return ""


def both_ways(edges: NDArray[np.int64], directed: bool) -> NDArray[np.int64]:
    """Every edge in both directions, unless they have one; each once.

    >>> both_ways(np.array([[0, 1], [1, 0]]), directed=False).tolist()
    [[0, 1], [1, 0]]
    """
    return np.unique(edges if directed else np.concatenate([edges, edges[::-1]], axis=1), axis=1)


# Labels


@dataclass(frozen=True)
class LabelRows:
    """A label, a part and a place for every node."""

    labels: tuple[str, ...]
    parts: tuple[str, ...]
    places: tuple[str, ...]
    note: str = ""


def read_labels(path: str, features: FeatureRows, options: TableOptions) -> tuple[LabelRows, list[Problem]]:
    """The labels of the nodes, and the bad rows; a node without a row, or with an empty label, has none."""
    nodes, bad, problems = features.names, features.bad, []
    labels, parts, places = [""] * len(nodes), [""] * len(nodes), list(features.places)
    seen: dict[str, str] = {}
    rows, note = body(path, ("node", "label", "split"), nodes, options)
    for line, cells, fault in rows:
        fault = fault or label_fault(cells, nodes, bad, seen)
        if fault:
            problems.append(Problem(f"{path}:{line}", fault))
        elif cells[0] in nodes:
            place, seen[cells[0]] = nodes[cells[0]], f"{path}:{line}"
            labels[place], places[place] = cells[1], f"{path}:{line}"
            parts[place] = SPLITS[cells[2].casefold()] if len(cells) > 2 else ""
    return LabelRows(tuple(labels), tuple(parts), tuple(places), note), problems


def label_fault(cells: Sequence[str], nodes: Mapping[str, int], bad: AbstractSet[str], seen: Mapping[str, str]) -> str:
    """What is wrong with a row of the labels."""
    if len(cells) not in (2, 3):
        return f"expected 2 or 3 columns, found {len(cells)}. Each line is node,label,split."
    name = cells[0]
    if name in bad:
        return ""  # what is wrong is told there
    if name not in nodes:
        return f"label of an unknown node: {name!r} is not in the features. Add it there, or leave the label out."
    if name in seen:
        return f"node {name!r} has a label already: {seen[name]}. Take one of them out."
    if len(cells) > 2 and cells[2].casefold() not in SPLITS:
        return f"unknown split {cells[2]!r}; known: {', '.join(PARTS)}, or nothing."
    return ""
