"""A graph whose nodes have features and labels, and which of them are to be learned from."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mirada.data.check import in_hash_order
from mirada.data.node_features import SparseRows
from mirada.data.record import Problem
from mirada.errors import require

PARTS = ("train", "valid", "test")
HELD_OUT = (0.8, 0.2)  # of what is to be learned from, where nothing is for validation
SHARES = (0.6, 0.2, 0.2)  # of the nodes of every class, where nobody says which to learn from
NEAR = 3  # names that an error proposes


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """Nodes with names, features and labels ("" is not known), and edges from sources (row 0) to targets (row 1).

    `parts` says which nodes are to be learned from, validated on and measured with: train, valid, test, or "" for none.
    `places` is where each node was found, `columns` are the names of the features, where they have any.
    """

    names: tuple[str, ...]
    features: SparseRows
    edges: NDArray[np.int64]
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    places: tuple[str, ...] = field(default=(), repr=False)
    columns: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The numbers of the nodes by name."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def digest(self) -> str:
        """A short name for exactly these nodes, features and edges."""
        digest = hashlib.blake2b("\x1f".join(self.names).encode(), digest_size=8)
        for array in (self.edges, self.features.starts, self.features.columns, self.features.values):
            digest.update(np.ascontiguousarray(array).tobytes() + b"\x1e")
        return digest.hexdigest()

    def number(self, name: str) -> int:
        """The number of a node; an unknown name is an error that proposes some."""
        if name not in self.numbers:
            near = get_close_matches(name, self.names, n=NEAR)
            some = (
                f"Did you mean {', '.join(near)}?" if near else f"Its names are such as {', '.join(self.names[:NEAR])}."
            )
            raise ValueError(f"the graph has no node {name!r} among its {len(self):,}. {some}")
        return self.numbers[name]

    def nodes(self, *parts: str) -> "list[Node]":
        """The labelled nodes of some parts; of all, where none is named."""
        some = zip(self.parts, self.labels, strict=True)
        return [Node(self, number) for number, (part, label) in enumerate(some) if label and part in (parts or (part,))]


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a graph."""

    graph: LabelledGraph
    number: int

    @property
    def name(self) -> str:
        return self.graph.names[self.number]

    @property
    def label(self) -> str:
        return self.graph.labels[self.number]

    @property
    def where(self) -> str:
        return self.graph.places[self.number] if self.graph.places else f"node {self.name}"


@dataclass(frozen=True)
class FoundGraph:
    """A graph as it was found, without what is bad in it, the problems, and what was recognized."""

    graph: LabelledGraph
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def in_order_of(known: LabelledGraph, rows: SparseRows, columns: Sequence[str], where: str) -> SparseRows:
    """Features in the order that a graph has them: by their names, where both have some."""
    if columns and known.columns:
        missing = [name for name in known.columns if name not in columns]
        require(not missing, f"{where}: there is no feature {missing[0] if missing else ''!r}, which this run reads")
    width = known.features.width
    require(rows.width == width, f"{where}: this run reads {width:,} features a node: got {rows.width:,}")
    if not columns or not known.columns:
        return rows
    places = {name: place for place, name in enumerate(columns)}
    return rows.in_order([places[name] for name in known.columns])


def with_parts(graph: LabelledGraph, shares: Sequence[float], where: str) -> tuple[LabelledGraph, list[str]]:
    """The graph with nodes to learn from, to validate on and to be measured with, and what was decided about them.

    Parts that the data gives stay, unless `shares` ask for others: then, and where none are given, they are drawn.
    """
    if shares or not any(graph.parts):
        how = "the split is drawn as asked" if shares else "no split is given, so one is drawn"
        shares = shares or SHARES
        told = ", ".join(f"{100 * share:.0f} % for {part}" for share, part in zip(shares, PARTS, strict=False))
        drawn = replace(graph, parts=drawn_parts(graph.names, graph.labels, shares))
        return drawn, [f"{where}: {how}: of every class {told}"]
    require("train" in graph.parts, f"{where}: no node has the split 'train': there is nothing to learn from")
    if "valid" in graph.parts:
        return graph, []
    mine = [label if part == "train" else "" for label, part in zip(graph.labels, graph.parts, strict=True)]
    again = drawn_parts(graph.names, mine, HELD_OUT)
    parts = tuple(new or old for new, old in zip(again, graph.parts, strict=True))
    note = f"{where}: no node is for validation, so {100 * HELD_OUT[1]:.0f} % of those for training are held out"
    return replace(graph, parts=parts), [note]


def drawn_parts(names: Sequence[str], labels: Sequence[str], shares: Sequence[float]) -> tuple[str, ...]:
    """A part for every labelled node, by shares of every class, in an order that only the names decide.

    The rarest class still has a node to learn from.

    >>> drawn_parts("abcdefghij", ["x"] * 9 + [""], (0.6, 0.2, 0.2)).count("train")
    5
    """
    parts = [""] * len(names)
    groups: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        if label:
            groups.setdefault(label, []).append(number)
    for members in groups.values():
        members.sort(key=lambda number: in_hash_order(names[number]))
        ends = [int(end + 0.5) for end in np.cumsum(shares) / sum(shares) * len(members)]
        for place, number in enumerate(members):
            parts[number] = "train" if place == 0 else PARTS[sum(place >= end for end in ends[:-1])]
    return tuple(parts)
