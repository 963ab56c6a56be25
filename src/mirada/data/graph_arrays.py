"""A graph from arrays, in an npz file or in memory: edge_index, features, y and the masks train, valid and test."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirada.data.labelled_graph import PARTS, FoundGraph, LabelledGraph
from mirada.data.node_features import SparseRows
from mirada.data.npz import ArrayError, array_names, is_archive, read_arrays
from mirada.data.record import Problem, check_count
from mirada.data.text import opened
from mirada.errors import require

SPARSE = ("feature_rows", "feature_columns", "feature_values", "feature_shape")
MOST_NODES, MOST_FEATURES = 10_000_000, 2**31 - 1  # a few bytes of feature_shape can name any number
FORM = (
    "A graph has edge_index (2, edges), feature_rows, feature_columns, feature_values, feature_shape or features (nodes, "
    "features), y, and the boolean masks train, valid, test."
)


def from_npz(path: str) -> FoundGraph:
    """The graph of an npz file. Its nodes are named 0, 1, 2, ..."""
    with opened(path) as file:
        require(is_archive(file), f"{path}: not an npz file. {FORM}")
    check_names(array_names(path), path)
    try:
        return from_arrays(read_arrays(path, (), ("edge_index", "features", *SPARSE, "y", *PARTS)), path)
    except ArrayError as error:
        kind = "an array of objects, which is read by running code" if error.objects else f"damaged: {error}"
        raise ValueError(f"{path}: {error.name} is {kind}. Save plain numbers or texts.") from None


def check_names(names: Collection[str], where: str) -> None:
    """Require the arrays without which there is no graph."""
    for name in ("edge_index", *(() if "features" in names else SPARSE)):
        require(name in names, f"{where}: there is no {name!r} among {', '.join(sorted(names)) or 'nothing'}. {FORM}")


def from_arrays(given: Mapping[str, Any], where: str) -> FoundGraph:
    """The graph of arrays by name; `where` is the place, for errors.

    >>> found = from_arrays({"edge_index": [[0, 1], [1, 7]], "features": np.eye(3), "y": [0, 1, 1]}, "data")
    >>> found.graph.edges.tolist(), str(found.problems[0])
    ([[0], [1]], 'data: edge 1: edge_index names node 7 of 3, which are numbered from 0. Leave the edge out.')
    """
    arrays = {str(name): np.asarray(value) for name, value in given.items()}
    check_names(arrays, where)
    features, problems = features_of(arrays, where)
    nodes = len(features)
    require(nodes > 0, f"{where}: the graph has no node")
    edges, wrong = edges_of(arrays["edge_index"], nodes, where)
    labels = labels_of(arrays, nodes, where)
    names = tuple(map(str, range(nodes)))
    parts, unclear = parts_of(arrays, nodes, where)
    bad = {int(problem.where.rsplit(" ", 1)[1]) for problem in problems}
    if bad:  # a node without features tells nothing, and neither do its edges
        edges = edges[:, ~np.isin(edges, list(bad)).any(0)]
        labels = tuple("" if number in bad else label for number, label in enumerate(labels))
    places = tuple(f"{where}: node {name}" for name in names)
    graph = LabelledGraph(names, features, edges, labels, parts, places)
    return FoundGraph(graph, [*problems, *wrong, *unclear])


def features_of(arrays: Mapping[str, NDArray], where: str) -> tuple[SparseRows, list[Problem]]:
    """The features, and the nodes whose features are no numbers."""
    if "features" in arrays:
        matrix = numbers("features", arrays["features"], where)
        require(
            matrix.ndim == 2 and matrix.shape[1] > 0,
            f"{where}: features must have the axes (nodes, features): got shape {matrix.shape}",
        )
        bad = np.flatnonzero(~np.isfinite(matrix).all(1))
        return SparseRows.from_dense(np.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)), not_finite(bad, where)
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
    values = numbers("feature_values", values, where)
    lengths = [array.size for array in (rows, columns, values)]
    require(
        values.ndim == 1 and len(set(lengths)) == 1,
        f"{where}: feature_rows, feature_columns and feature_values must be equally long: got {lengths}",
    )
    bad = np.unique(rows[~np.isfinite(values)])
    values = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    return SparseRows.from_entries(rows, columns, values, (nodes, width)), not_finite(bad, where)


def not_finite(nodes: NDArray, where: str) -> list[Problem]:
    what = "a feature is not a finite number. Fill it in, or leave the node out."
    return [Problem(f"{where}: node {node}", what) for node in nodes.tolist()]


def numbers(name: str, array: NDArray, where: str) -> NDArray:
    """Require numbers, real ones."""
    real = array.dtype == bool or np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    require(real, f"{where}: {name} must hold numbers: got {array.dtype}")
    return array


def edges_of(index: NDArray, nodes: int, where: str) -> tuple[NDArray[np.int64], list[Problem]]:
    """The edges, and those that lead to nodes which do not exist."""
    index = index.reshape(2, 0).astype(np.int64) if index.size == 0 else index
    turned = " It is (edges, 2): give its transpose." if index.ndim == 2 and index.shape[1] == 2 else ""
    require(
        index.ndim == 2 and index.shape[0] == 2,
        f"{where}: edge_index must have the axes (2, edges), sources above targets: got shape {index.shape}.{turned}",
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


def labels_of(arrays: Mapping[str, NDArray], nodes: int, where: str) -> tuple[str, ...]:
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


def parts_of(arrays: Mapping[str, NDArray], nodes: int, where: str) -> tuple[tuple[str, ...], list[Problem]]:
    """Which nodes are in which part, and those that are in two."""
    masks = {part: arrays[part] for part in PARTS if part in arrays}
    require(not masks or "train" in masks, f"{where}: there is {' and '.join(masks)}, but no mask 'train'. {FORM}")
    for part, mask in masks.items():
        require(
            mask.dtype == bool and mask.shape == (nodes,),
            f"{where}: {part} must be a boolean mask with an entry per node: got {mask.dtype} of shape {mask.shape}",
        )
    if masks:
        require(bool(masks["train"].any()), f"{where}: the mask 'train' is empty: there is no node to learn from")
    parts, problems = [""] * nodes, []
    for part, mask in masks.items():
        for number in np.flatnonzero(mask).tolist():
            parts[number] = f"{parts[number]} and {part}" if parts[number] else part
    for number, part in enumerate(parts):
        if " and " in part:
            problems.append(
                Problem(f"{where}: node {number}", f"in two parts: {part}. Take it out of one of the masks.")
            )
            parts[number] = ""
    require(
        not problems or "train" in parts,
        f"{where}: every node of the mask 'train' is in another mask too. A node is in one part only.",
    )
    return tuple(parts), problems
