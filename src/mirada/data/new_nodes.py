"""Nodes that were not there when a model learned: their features, and their edges among themselves and to known nodes."""

import os
from dataclasses import dataclass

import numpy as np

from mirada.data.graph_tables import both_ways, read_edges, read_features
from mirada.data.labelled_graph import LabelledGraph, Node, in_order_of
from mirada.data.node_features import SparseRows
from mirada.data.node_table import find, required
from mirada.data.options import TableOptions
from mirada.errors import require


@dataclass(frozen=True)
class NewNode:
    """A row of features.csv: its place, the name of its node, and the node in the joined graph, or why there is none."""

    where: str
    name: str
    node: Node | None
    error: str = ""


def read_new_nodes(folder: str, known: LabelledGraph, options: TableOptions, directed: bool) -> list[NewNode]:
    """The nodes of features.csv, in its order, in one graph with the known ones.

    edges.csv has the edges among them and to known nodes; it may be missing. A row that cannot be used has an error in its
    place, and so has a node with an edge that cannot be used: it would be answered without a neighbor.
    """
    folder = os.path.expanduser(folder)
    require(
        os.path.isdir(folder), f"{folder} is not a folder. New nodes come as features.csv and edges.csv in a folder."
    )
    features = read_features(required(folder, "features"), options)
    rows = in_order_of(known, features.rows(), features.columns, features.path)
    numbers = {name: len(known) + number for name, number in features.names.items()} | known.numbers
    errors = {name: already(name) for name in features.names if name in known.numbers}
    path = find(folder, "edges")
    edges = np.zeros((2, 0), np.int64)
    if path:
        edges, wrong, _ = read_edges(path, numbers, features.bad, options)
        for problem, cells in wrong:
            mine = [name for name in cells if name in features.names]
            require(bool(mine), str(problem))
            errors |= {name: str(problem) for name in mine}
    joined = LabelledGraph(
        (*known.names, *features.names),
        SparseRows.joined([known.features, rows], known.features.width),
        np.concatenate([known.edges, both_ways(edges, directed)], axis=1),
        (*known.labels, *("" for _ in features.names)),
        (*known.parts, *("" for _ in features.names)),
        columns=known.columns,
    )
    found = []
    for where, name, fault in features.seen:
        error = fault or errors.get(name, "")
        found.append(NewNode(where, name, None if error else Node(joined, numbers[name]), error))
    return found


def already(name: str) -> str:
    return (
        f"node {name!r} is in the graph of this run already. Ask for it by its name, or give the new node another one."
    )
