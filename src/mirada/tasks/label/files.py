"""A graph from a folder of tables: edges.csv (source, target), features.csv (node, ...), labels.csv (node, label, split)."""

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mirada.data.columns.contents import decimal_mark, one_number, usual_width
from mirada.data.columns.header import TITLES, feature_head, node_head
from mirada.data.files.forms import TABLE_TEXT_ENDINGS
from mirada.data.files.npz import ArrayError, array_names, is_archive, read_arrays
from mirada.data.files.opening import head, opened, scan
from mirada.data.files.records import KNOWN, Rows, table_rows
from mirada.data.options import TableOptions
from mirada.data.record import Problem, check_count
from mirada.errors import require
from mirada.runs.inputs import Question
from mirada.tasks.label.graph import (
    KINDS,
    PARTS,
    FoundGraph,
    LabelledGraph,
    Node,
    SparseRows,
    in_order_of,
    made_features,
)

# The tables of a graph's folder: located by their names, and their columns by those of a header.


TABLES_FORM = (
    "A graph is edges.csv (source, target), labels.csv (node, label, split) and, where nodes have features, features.csv "
    "(node, ...)."
)
SAMPLE = 100  # rows that tell how many cells there are, how numbers are written, and whether nodes are numbers


def _find(folder: str, name: str) -> str:
    """The table of a folder with this name, whatever its ending; "" if there is none."""
    for ending in TABLE_TEXT_ENDINGS:
        for path in (os.path.join(folder, name + ending), os.path.join(folder, f"{name}{ending}.gz")):
            if os.path.exists(path):
                return path
    return ""


def _required(folder: str, name: str) -> str:
    path = _find(folder, name)
    require(bool(path), f"{folder}: there is no {name}.csv. {TABLES_FORM}")
    return path


def _table(path: str, options: TableOptions) -> tuple[Rows, str, int]:
    """The rows of a table (the number of the line, its cells, what is wrong with it) without empty lines; its separator; and
    how many lines above it were skipped: titles, of one cell where others have several.
    """
    rows, separator = table_rows(path, 2, options)
    if not options.separator and _are_divided_by_blanks(path, options.encoding):
        lines_of = scan(path, options.encoding)
        rows = ((line, [text] if text.startswith("#") else text.split(), fault) for line, text, fault in lines_of)
    stripped = ((line, [cell.strip() for cell in cells], fault) for line, cells, fault in rows)
    kept = (row for row in stripped if row[2] or any(row[1]))
    sample = list(islice(kept, SAMPLE))
    width = usual_width([cells for _, cells, fault in sample if not fault] or [[""]], 1)
    inside = (n for n, (_, cells, fault) in enumerate(sample[: TITLES + 1]) if fault or len(cells) > 1)
    above = next(inside, 0) if width > 1 else 0
    return chain(sample[above:], kept), separator, above


def _are_divided_by_blanks(path: str, encoding: str) -> bool:
    """Whether nothing but blanks divides the lines, and all of them alike, as in lists of edges; remarks aside."""
    lines = [text for text, _ in head(path, encoding, SAMPLE) if text.strip() and not text.startswith("#")]
    divided = any(mark in line for line in lines for mark in KNOWN)
    counts = {len(line.split()) for line in lines}
    return not divided and len(counts) == 1 and max(counts) > 1


def _body(path: str, columns: tuple[str, ...], nodes: Mapping[str, int], options: TableOptions) -> tuple[Rows, str]:
    """The rows of a table about nodes, without its header, and what was recognized; the columns that a header names stand
    in our order.
    """
    lines, _, above = _table(path, options)
    first = next(lines, None)
    if first is None:
        return iter(()), ""
    head = node_head(first[1], columns, nodes, "no" if first[2] else options.header, above)
    rows = lines
    if picked := head.picked:  # a cell that is missing is empty
        rows = (
            (line, cells if fault else [cells[place] if place < len(cells) else "" for place in picked], fault)
            for line, cells, fault in lines
        )
    return rows if head.headed else chain([first], rows), f"{path}: {head.note}" if head.note else ""


SPLITS = {
    **dict.fromkeys(("train", "training", "entrenamiento"), "train"),
    **dict.fromkeys(("valid", "val", "validation", "dev", "validación", "validacion"), "valid"),
    **dict.fromkeys(("test", "testing", "prueba"), "test"),
    **dict.fromkeys(("", "none", "no", "-"), ""),
}


def _from_folder(folder: str, options: TableOptions, directed: bool) -> FoundGraph:
    """The graph of a folder. Its nodes are those that have features, or, without features.csv, those that are named; edges
    count both ways unless they are `directed`.
    """
    path = _find(folder, "features")
    features = _read_features(path, options) if path else _named_nodes(folder, ("labels", "edges"), options)
    edges, wrong, note = _read_edges(_required(folder, "edges"), features.names, features.bad, options)
    columns, unclear, labels_note = _read_labels(_required(folder, "labels"), features, options)
    names, both = tuple(features.names), _both_ways(edges, directed)
    rows, made = (features.rows(), "") if path else made_features(len(names), both)
    graph = LabelledGraph(names, rows, both, *columns, features.columns, made)
    notes = [text for text in (features.note, note, labels_note, f"{folder}: {made}" if made else "") if text]
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
    entries: list[tuple[NDArray, NDArray]] = field(default_factory=list)  # columns and values of every node
    seen: list[tuple[str, str, str]] = field(default_factory=list)

    def take(self, line: int, cells: Sequence[str], fault: str) -> None:
        """The next row."""
        where, name = f"{self.path}:{line}", cells[0] if cells else ""
        if not fault and not name:
            fault = "no name: the first column names the node. Fill it in."
        elif not fault and name in self.names:
            fault = f"node {name!r} has features already: {self.places[self.names[name]]}. Take one of them out."
        elif not fault and len(cells) - 1 != self.width:
            features = f"expected {self.width:,} features, found {len(cells) - 1:,}"
            fault = f"{features}. Every node has as many as the others."
        values = np.zeros(0) if fault else _parsed(cells[1:], self.mark)
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
            self.entries.append((places, values[places].astype(np.float32)))

    @property
    def problems(self) -> list[Problem]:
        """The rows that cannot be used."""
        return [Problem(where, fault) for where, _, fault in self.seen if fault]

    @property
    def bad(self) -> set[str]:
        """The nodes that are named, but have no features that can be used."""
        return {name for _, name, fault in self.seen if fault and name} - self.names.keys()

    def rows(self) -> SparseRows:
        """The features of all nodes."""
        counts = [0, *(len(places) for places, _ in self.entries)]
        columns = np.concatenate([np.zeros(0, np.int64), *(places for places, _ in self.entries)])
        values = np.concatenate([np.zeros(0, np.float32), *(values for _, values in self.entries)])
        return SparseRows(np.cumsum(counts), columns, values, self.width)


def _read_features(path: str, options: TableOptions) -> FeatureRows:
    """The nodes with their features: a header is optional, and names the features."""
    rows, separator, above = _table(path, options)
    sample = list(islice(rows, SAMPLE))
    whole = [cells for _, cells, fault in sample if not fault]
    require(bool(whole), f"{path}: no row can be read. Each line is node,number,number,...")
    telling = (cell for cells in whole for cell in cells[1:] if "," in cell or "." in cell)
    features = FeatureRows(path, mark=decimal_mark(telling, separator))
    head = feature_head(whole[0], "no" if sample[0][2] else options.header, above)
    features.note = f"{path}: {head.note}" if head.note else ""
    features.columns, sample = head.names, sample[head.headed :]
    sizes = Counter(len(cells) - 1 for cells in whole)
    features.width = len(features.columns) or sizes.most_common(1)[0][0]
    require(features.width > 0, f"{path}: there is no feature, only names of nodes. Each line is node,number,...")
    for line, cells, fault in chain(sample, rows):
        features.take(line, cells, fault)
    return features


def _named_nodes(
    folder: str, tables: Sequence[str], options: TableOptions, known: Collection[str] = ()
) -> FeatureRows:  # fmt: skip
    """The nodes that labels and edges name, in this order, but for those that are `known`: without features, since there are
    none.
    """
    features = FeatureRows(folder)
    for table in tables:
        path, columns = (
            _required(folder, table),
            ("source", "target") if table == "edges" else ("node", "label", "split"),
        )
        lines, _, _ = _table(path, options)
        others = {cell: 0 for _, cells, fault in islice(lines, 1, None) if not fault for cell in cells}
        for line, cells, fault in _body(path, columns, others, options)[0]:
            whole = not fault and (len(cells) == 2 or (table == "labels" and len(cells) == 3))
            for name in cells[: 2 if table == "edges" else 1] if whole else ():
                if name and name not in features.names and name not in known:
                    features.names[name] = len(features.names)
                    features.places.append(f"{path}:{line}")
                    features.seen.append((f"{path}:{line}", name, ""))
    require(bool(features.names), f"{folder}: its tables name no node. {TABLES_FORM}")
    return features


def _parsed(cells: Sequence[str], mark: str) -> NDArray[np.float64]:
    """Numbers with this decimal mark; what is none is NaN.

    >>> _parsed(["1", "2,5", "1.234,5", "red"], ",").tolist()
    [1.0, 2.5, 1234.5, nan]
    """
    if mark == ".":
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
    return np.array([one_number(cell, mark) for cell in cells])


# Edges


def _read_edges(
    path: str, nodes: Mapping[str, int], bad: AbstractSet[str], options: TableOptions
) -> tuple[NDArray[np.int64], list[tuple[Problem, list[str]]], str]:
    """The edges, sources above targets, by the numbers of their nodes, the bad ones with their cells, and a note.

    Edges of nodes whose features are bad are skipped: the problem is reported there.
    """
    edges: list[tuple[int, int]] = []
    wrong: list[tuple[Problem, list[str]]] = []
    rows, note = _body(path, ("source", "target"), nodes, options)
    for line, cells, fault in rows:
        fault = fault or _edge_fault(cells, nodes, bad)
        if fault:
            wrong.append((Problem(f"{path}:{line}", fault), cells))
        elif bad.isdisjoint(cells):
            edges.append((nodes[cells[0]], nodes[cells[1]]))
    return np.array(edges, dtype=np.int64).reshape(-1, 2).T, wrong, note


def _edge_fault(cells: Sequence[str], nodes: Mapping[str, int], bad: AbstractSet[str]) -> str:
    """What is wrong with a row of the edges."""
    if len(cells) != 2:
        more = " Name source and target in the first line: then the others are ignored." if len(cells) > 2 else ""
        return f"expected 2 columns, found {len(cells)}. Each line is source,target.{more}"
    unknown = [name for name in cells if name not in nodes and name not in bad]
    if unknown:
        return f"edge to an unknown node: {unknown[0]!r} is not in the features. Add it there, or leave the edge out."
    return ""


def _both_ways(edges: NDArray[np.int64], directed: bool) -> NDArray[np.int64]:
    """Every edge in both directions, unless they have one; each once.

    >>> _both_ways(np.array([[0, 1], [1, 0]]), directed=False).tolist()
    [[0, 1], [1, 0]]
    """
    return np.unique(edges if directed else np.concatenate([edges, edges[::-1]], axis=1), axis=1)


# Labels


Columns = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


def _read_labels(path: str, features: FeatureRows, options: TableOptions) -> tuple[Columns, list[Problem], str]:
    """The label, the part and the place of every node, the bad rows, and a note; a node without a row, or with an empty label,
    has none.
    """
    nodes, bad, problems = features.names, features.bad, []
    labels, parts, places = [""] * len(nodes), [""] * len(nodes), list(features.places)
    seen: dict[str, str] = {}
    rows, note = _body(path, ("node", "label", "split"), nodes, options)
    for line, cells, fault in rows:
        fault = fault or _label_fault(cells, nodes, bad, seen)
        if fault:
            problems.append(Problem(f"{path}:{line}", fault))
        elif cells[0] in nodes:
            place, seen[cells[0]] = nodes[cells[0]], f"{path}:{line}"
            labels[place], places[place] = cells[1], f"{path}:{line}"
            parts[place] = SPLITS[cells[2].casefold()] if len(cells) > 2 else ""
    return (tuple(labels), tuple(parts), tuple(places)), problems, note


def _label_fault(cells: Sequence[str], nodes: Mapping[str, int], bad: AbstractSet[str], seen: Mapping[str, str]) -> str:
    """What is wrong with a row of the labels."""
    if len(cells) not in (2, 3):
        return f"expected 2 or 3 columns, found {len(cells)}. Each line is node,label,split."
    name = cells[0]
    if name in bad:
        return ""  # the problem is reported there
    if name not in nodes:
        return f"label of an unknown node: {name!r} is not in the features. Add it there, or leave the label out."
    if name in seen:
        return f"node {name!r} has a label already: {seen[name]}. Take one of them out."
    if len(cells) > 2 and cells[2].casefold() not in SPLITS:
        return f"unknown split {cells[2]!r}; known: {', '.join(PARTS)}, or nothing."
    return ""


# A graph from arrays, in an npz file or in memory: edge_index, features, y and the masks train, valid and test.


SPARSE = ("feature_rows", "feature_columns", "feature_values", "feature_shape")
MOST_NODES, MOST_FEATURES = 10_000_000, 2**31 - 1  # a few bytes of feature_shape can name any number
ARRAYS_FORM = (
    "A graph has edge_index (2, edges), y, the boolean masks train, valid, test and, where nodes have some, features (nodes, "
    "features) or feature_rows, feature_columns, feature_values, feature_shape."
)


def from_npz(path: str) -> FoundGraph:
    """The graph of an npz file. Its nodes are named 0, 1, 2, ..."""
    with opened(path) as file:
        require(is_archive(file), f"{path}: not an npz file. {ARRAYS_FORM}")
    _check_names(array_names(path), path)
    try:
        return _from_arrays(read_arrays(path, (), ("edge_index", "features", *SPARSE, "y", *PARTS)), path)
    except ArrayError as error:
        kind = "an array of objects, which is read by running code" if error.objects else f"damaged: {error}"
        raise ValueError(f"{path}: {error.name} is {kind}. Save plain numbers or texts.") from None


def _check_names(names: Collection[str], where: str) -> None:
    """Require the arrays without which there is no graph."""
    sparse = SPARSE if "features" not in names and any(name in names for name in SPARSE) else ()
    for name in ("edge_index", *sparse):
        require(
            name in names, f"{where}: there is no {name!r} among {', '.join(sorted(names)) or 'nothing'}. {ARRAYS_FORM}"
        )


def _from_arrays(given: Mapping[str, Any], where: str) -> FoundGraph:
    """The graph of arrays by name; `where` is the place, for errors.

    >>> found = _from_arrays({"edge_index": [[0, 1], [1, 7]], "features": np.eye(3), "y": [0, 1, 1]}, "data")
    >>> found.graph.edges.tolist(), str(found.problems[0])
    ([[0], [1]], 'data: edge 1: edge_index names node 7 of 3, which are numbered from 0. Leave the edge out.')
    """
    arrays = {str(name): np.asarray(value) for name, value in given.items()}
    _check_names(arrays, where)
    has_features = any(name in arrays for name in ("features", *SPARSE))
    features, problems = _features_of(arrays, where) if has_features else (None, [])
    nodes = _count_nodes(arrays) if features is None else len(features)
    require(nodes > 0, f"{where}: the graph has no node")
    edges, wrong = _edges_of(arrays["edge_index"], nodes, where)
    made = ""
    if features is None:
        features, made = made_features(nodes, edges)
    labels = _labels_of(arrays, nodes, where)
    names = tuple(map(str, range(nodes)))
    parts, unclear = _parts_of(arrays, nodes, where)
    bad = {int(problem.where.rsplit(" ", 1)[1]) for problem in problems}
    if bad:  # a node without features is not used, and neither are its edges
        edges = edges[:, ~np.isin(edges, list(bad)).any(0)]
        labels = tuple("" if number in bad else label for number, label in enumerate(labels))
    places = tuple(f"{where}: node {name}" for name in names)
    graph = LabelledGraph(names, features, edges, labels, parts, places, made=made)
    return FoundGraph(graph, [*problems, *wrong, *unclear], [f"{where}: {made}"] if made else [])


def _count_nodes(arrays: Mapping[str, NDArray]) -> int:
    """How many nodes a graph without features has: as many as have a class, a mask or an edge."""
    sizes = [len(arrays[name]) for name in ("y", *PARTS) if name in arrays and arrays[name].ndim == 1]
    index = arrays["edge_index"]
    ends = int(index.max()) + 1 if index.size and np.issubdtype(index.dtype, np.integer) else 0
    require(ends <= MOST_NODES, f"edge_index names node {ends - 1:,}: at most {MOST_NODES:,} nodes are read")
    return max(sizes) if sizes else ends


def _features_of(arrays: Mapping[str, NDArray], where: str) -> tuple[SparseRows, list[Problem]]:
    """The features, and the nodes whose features are no numbers."""
    if "features" in arrays:
        matrix = _numbers("features", arrays["features"], where)
        require(
            matrix.ndim == 2 and matrix.shape[1] > 0,
            f"{where}: features must have the axes (nodes, features): got shape {matrix.shape}",
        )
        bad = np.flatnonzero(~np.isfinite(matrix).all(1))
        return SparseRows.from_dense(np.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)), _not_finite(bad, where)
    rows, columns, values, shape = (arrays[name] for name in SPARSE)
    whole = shape.shape == (2,) and np.issubdtype(shape.dtype, np.integer) and bool((shape > 0).all())
    require(whole, f"{where}: feature_shape must be two numbers, nodes and features: got {shape.tolist()}")
    nodes, width = shape.tolist()
    require(
        nodes <= MOST_NODES and width <= MOST_FEATURES,
        f"{where}: feature_shape names {nodes:,} nodes of {width:,} features: at most {MOST_NODES:,} of {MOST_FEATURES:,} "
        "are read.",
    )
    for name, array, size in ((SPARSE[0], rows, shape[0]), (SPARSE[1], columns, shape[1])):
        require(
            array.ndim == 1 and np.issubdtype(array.dtype, np.integer),
            f"{where}: {name} must be a list of whole numbers: got {array.dtype} of shape {array.shape}",
        )
        outside = np.flatnonzero((array < 0) | (array >= size))
        if len(outside):
            first = outside[0]
            raise ValueError(f"{where}: {name}[{first}] is {array[first]}, outside of feature_shape {shape.tolist()}")
    values = _numbers("feature_values", values, where)
    lengths = [array.size for array in (rows, columns, values)]
    require(
        values.ndim == 1 and len(set(lengths)) == 1,
        f"{where}: feature_rows, feature_columns and feature_values must be equally long: got {lengths}",
    )
    bad = np.unique(rows[~np.isfinite(values)])
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return SparseRows.from_entries(rows, columns, values, (nodes, width)), _not_finite(bad, where)


def _not_finite(nodes: NDArray, where: str) -> list[Problem]:
    what = "a feature is not a finite number. Fill it in, or leave the node out."
    return [Problem(f"{where}: node {node}", what) for node in nodes.tolist()]


def _numbers(name: str, array: NDArray, where: str) -> NDArray:
    """Require numbers, real ones."""
    real = array.dtype == bool or np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    require(real, f"{where}: {name} must hold numbers: got {array.dtype}")
    return array


def _edges_of(index: NDArray, nodes: int, where: str) -> tuple[NDArray[np.int64], list[Problem]]:
    """The edges, and those that lead to nodes which do not exist."""
    index = index.reshape(2, 0).astype(np.int64) if index.size == 0 else index
    transposed = " It is (edges, 2): give its transpose." if index.ndim == 2 and index.shape[1] == 2 else ""
    require(
        index.ndim == 2 and index.shape[0] == 2,
        f"{where}: edge_index must have the axes (2, edges), sources above targets: got shape {index.shape}.{transposed}",
    )
    require(np.issubdtype(index.dtype, np.integer), f"{where}: edge_index must hold whole numbers: got {index.dtype}")
    index = index.astype(np.int64)
    outside = (index < 0) | (index >= nodes)
    problems: list[Problem] = []
    for edge in np.flatnonzero(outside.any(0)).tolist():
        wrong = index[:, edge][outside[:, edge]][0]
        what = f"edge_index names node {wrong} of {nodes:,}, which are numbered from 0. Leave the edge out."
        check_count(len(problems), f"{where}: edge {edge}", what)
        problems.append(Problem(f"{where}: edge {edge}", what))
    return index[:, ~outside.any(0)], problems


def _labels_of(arrays: Mapping[str, NDArray], nodes: int, where: str) -> tuple[str, ...]:
    """A label for every node; a class below zero, or an empty text, is not known. Without y, none is."""
    if "y" not in arrays:
        return ("",) * nodes
    y = arrays["y"]
    require(y.shape == (nodes,), f"{where}: y must have one class per node: got shape {y.shape} for {nodes:,} nodes")
    if y.dtype.kind in "US":
        texts = (label.decode(errors="replace") if isinstance(label, bytes) else label for label in y.tolist())
        return tuple(text.strip() for text in texts)
    require(np.issubdtype(y.dtype, np.integer), f"{where}: y must hold classes, whole numbers or texts: got {y.dtype}")
    return tuple("" if number < 0 else str(number) for number in y.tolist())


def _parts_of(arrays: Mapping[str, NDArray], nodes: int, where: str) -> tuple[tuple[str, ...], list[Problem]]:
    """Which nodes are in which part, and those that are in two."""
    masks = {part: arrays[part] for part in PARTS if part in arrays}
    require(
        not masks or "train" in masks, f"{where}: there is {' and '.join(masks)}, but no mask 'train'. {ARRAYS_FORM}"
    )
    for part, mask in masks.items():
        require(
            mask.dtype == bool and mask.shape == (nodes,),
            f"{where}: {part} must be a boolean mask with an entry per node: got {mask.dtype} of shape {mask.shape}",
        )
    if masks:
        require(bool(masks["train"].any()), f"{where}: the mask 'train' is empty: there is no node to learn from")
    parts, problems = [""] * nodes, []
    for part, mask in masks.items():
        for row in np.flatnonzero(mask).tolist():
            parts[row] = f"{parts[row]} and {part}" if parts[row] else part
    for place, part in enumerate(parts):
        if " and " in part:
            what = f"in two parts: {part}. Take it out of one of the masks."
            problems.append(Problem(f"{where}: node {place}", what))
            parts[place] = ""
    require(
        not problems or "train" in parts,
        f"{where}: every node of the mask 'train' is in another mask too. A node is in one part only.",
    )
    return tuple(parts), problems


# Nodes that were not there when a model learned: their features, and their edges among themselves and to known
# nodes.


def read_new_nodes(folder: str, known: LabelledGraph, options: TableOptions, directed: bool) -> list[Question]:
    """The nodes of features.csv, in its order, in one graph with the known ones; of edges.csv, where nodes have no features.

    edges.csv has the edges among them and to known nodes; it may be missing. A row that cannot be used has an error in its
    place, and so has a node with an edge that cannot be used: it would be answered without a neighbor.
    """
    folder = os.path.expanduser(folder)
    require(
        os.path.isdir(folder), f"{folder} is not a folder. New nodes come as features.csv and edges.csv in a folder."
    )
    if known.made:
        features = _named_nodes(folder, ("edges",), options, known.names)
        rows = SparseRows.from_dense(np.zeros((len(features.names), 1))).widened(known.features.width)
    else:
        features = _read_features(_required(folder, "features"), options)
        rows = in_order_of(known, features.rows(), features.columns, features.path)
    numbers = {name: len(known) + number for name, number in features.names.items()} | known.numbers
    ways_out = "Ask for it by its name, or give the new node another one."
    already = (name for name in features.names if name in known.numbers)
    errors = {name: f"node {name!r} is in the graph of this run already. {ways_out}" for name in already}
    path = _find(folder, "edges")
    edges = np.zeros((2, 0), np.int64)
    if path:
        edges, wrong, _ = _read_edges(path, numbers, features.bad, options)
        for problem, cells in wrong:
            mine = [name for name in cells if name in features.names]
            require(bool(mine), str(problem))
            errors |= {name: str(problem) for name in mine}
    unknown = ("",) * len(features.names)  # labels and parts
    every = SparseRows.joined([known.features, rows], known.features.width)
    edges = np.concatenate([known.edges, _both_ways(edges, directed)], axis=1)
    names, labels, parts = (*known.names, *features.names), (*known.labels, *unknown), (*known.parts, *unknown)
    joined = LabelledGraph(names, every, edges, labels, parts, columns=known.columns, made=known.made)
    nodes = []
    for where, name, fault in features.seen:
        error = fault or errors.get(name, "")
        nodes.append(Question(where, name if error else Node(joined, numbers[name]), (name,), error))
    return nodes


# Graphs with labelled nodes from the places where people have them: an npz file, a folder of tables, arrays in
# memory.


@dataclass(frozen=True, kw_only=True)
class GraphOptions(TableOptions):
    """`directed`: an edge of a table leads from its source to its target only. `normalize` is how features are scaled: auto
    (by how they look), rows, standard or no. `balance` lets rare labels count as much as frequent ones. `beside` says what is
    mixed with attention: plain models of features and edges, as far as validation wants them, or none. `builtin` is the graph
    that is learned without data: papers, with isolated ones, or without their words.
    """

    of_files: ClassVar[tuple[str, ...]] = (*TableOptions.of_files, "balance")
    fixed: ClassVar[tuple[str, ...]] = ("normalize",)

    directed: bool = False
    balance: bool = False
    normalize: str = "auto"
    beside: str = "plain"
    builtin: str = "papers"

    def check(self) -> None:
        super().check()
        self.one_of("normalize", *KINDS)
        self.one_of("beside", "plain", "none")
        self.one_of("builtin", "papers", "isolated", "wordless")
        require(not self.columns, "columns= is not used by graphs: name the columns in the first line of each table")


def read_graph(place: Any, options: GraphOptions) -> FoundGraph:
    """The graph of a place: FILE.npz, a folder of tables, or a dict with the arrays of the npz form."""
    if not isinstance(place, str):
        require(
            isinstance(place, Mapping),
            f"a graph in memory is a dict of arrays (edge_index, features, y, ...): got {type(place).__name__}",
        )
        return _from_arrays(place, "data")
    path = os.path.expanduser(place)
    return _from_folder(path, options, options.directed) if os.path.isdir(path) else from_npz(path)
