"""What a run that labels nodes knows: the graph it learned from, the labels, and how features are scaled."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from mirada.data.batching import drawn
from mirada.data.record import Problem, Record, in_hash_order
from mirada.errors import require
from mirada.files import damage
from mirada.runs.classes import restored_weights, weight_facts
from mirada.tasks.label.readers import PlainReaders

# The features of nodes: rows of numbers of which most are zero, and how they are scaled before a model reads them.


MOST_BYTES = 2 << 30  # of features written out with their zeros: training needs a few times as much
MOSTLY_ZERO = 0.25  # share of numbers that are not zero, at most, in what looks like counted words
KINDS = ("auto", "rows", "standard", "no")


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of which only the numbers that are not zero are kept, one row after the other.

    >>> rows = SparseRows.from_dense(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0]]))
    >>> rows.starts.tolist(), rows.columns.tolist(), rows.values.tolist()
    ([0, 1, 1, 3], [1, 0, 2], [2.0, 1.0, 3.0])
    """

    starts: NDArray[np.int64]  # where each row begins, and where the last one ends
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def from_dense(cls, matrix: NDArray) -> "SparseRows":
        """A matrix without its zeros."""
        rows, columns = np.nonzero(matrix)
        return cls(_counted(rows, len(matrix)), columns, matrix[rows, columns].astype(np.float32), matrix.shape[1])

    @classmethod
    def from_entries(cls, rows: NDArray, columns: NDArray, values: NDArray, shape: tuple[int, int]) -> "SparseRows":
        """Numbers with their places, in any order; those of one place are added up."""
        places, index = np.unique(rows.astype(np.int64) * shape[1] + columns, return_inverse=True)
        sums = np.bincount(index, weights=values, minlength=len(places)).astype(np.float32)
        return cls(_counted(places // max(1, shape[1]), shape[0]), places % max(1, shape[1]), sums, shape[1])

    @classmethod
    def joined(cls, parts: "list[SparseRows]", width: int) -> "SparseRows":
        """The rows of several, one after the other."""
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
        columns = np.concatenate([np.zeros(0, np.int64), *(part.columns for part in parts)])
        values = np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)])
        return cls(counts.cumsum(), columns, values, width)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of every number."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def dense(self) -> NDArray[np.float32]:
        """The matrix with its zeros, if it is not too large for that."""
        size = 4 * len(self) * self.width
        require(
            size <= MOST_BYTES,
            f"{len(self):,} nodes with {self.width:,} features take {size / 1e9:.1f} GB, at most {MOST_BYTES / 1e9:.1f} GB "
            "are read. Give fewer features: the most frequent words, or the main components of all.",
        )
        matrix = np.zeros((len(self), self.width), np.float32)
        matrix[self.rows, self.columns] = self.values
        return matrix

    def widened(self, width: int) -> "SparseRows":
        """The same rows with columns of zeros after them."""
        return replace(self, width=width)

    def in_order(self, places: list[int]) -> "SparseRows":
        """The same rows with their columns in another order: column c of the result is column places[c]."""
        order = np.empty(self.width, np.int64)
        order[places] = np.arange(self.width)
        return SparseRows(self.starts, order[self.columns], self.values, self.width)


MOST_OWN = 4096  # nodes that are given a feature each: the features of more take too much memory
MADE, ROUNDS = 128, 3  # features of a larger graph, and how far they are passed along its edges


def made_features(nodes: int, edges: NDArray[np.int64]) -> tuple[SparseRows, str]:
    """Features for a graph that has none, and what they are: a feature of its own for every node; of many nodes, random
    numbers that are passed along the edges, so that nodes with the same neighborhood have similar ones.

    >>> made_features(2, np.zeros((2, 0), np.int64))[0].dense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    Chen et al. (2019), Fast and accurate network embeddings via very sparse random projection.
    """
    if nodes <= MOST_OWN:
        own = SparseRows(np.arange(nodes + 1), np.arange(nodes), np.ones(nodes, np.float32), nodes)
        return own, "there are no features, so every node is given one of its own"
    signs = (drawn(nodes * MADE, 0, 26) >> np.uint64(63)).astype(np.float32) * 2 - 1
    x = torch.from_numpy(signs.reshape(nodes, MADE))
    source, target = torch.from_numpy(np.ascontiguousarray(edges))
    along = torch.sparse_coo_tensor(
        torch.stack([target, source]), torch.ones(len(source)), (nodes, nodes), check_invariants=True
    )
    found = torch.zeros_like(x)
    for _ in range(ROUNDS):
        x = torch.nn.functional.normalize(x + torch.sparse.mm(along, x), dim=1)
        found += x
    width = f"there are no features, so {MADE} are made of the neighborhood of every node"
    return SparseRows.from_dense(found.numpy()), width


def _counted(rows: NDArray, count: int) -> NDArray[np.int64]:
    """Where each of `count` rows begins among entries that are sorted by row."""
    return np.concatenate([[0], np.bincount(rows, minlength=count).cumsum()]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """How features are scaled: `rows` makes each row sum to 1, `standard` gives each column mean 0 and deviation 1.

    >>> words = SparseRows.from_dense(np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0] * 9]))
    >>> FeatureScale.fit(words, "auto").kind
    'rows'
    >>> FeatureScale.fit(words, "rows")(words)[0, :3].tolist()
    [0.5, 0.5, 0.0]

    Rows as in Kipf and Welling (2017), arXiv:1609.02907, and in the GAT paper.
    """

    kind: str
    mean: NDArray[np.float32]  # of every column; both are empty where they are not used
    deviation: NDArray[np.float32]

    @classmethod
    def fit(cls, features: SparseRows, kind: str) -> "FeatureScale":
        """The scale of some features; `auto` takes rows for what looks like counted words, and standard for the rest."""
        if kind == "auto":
            few = len(features.values) <= MOSTLY_ZERO * len(features) * features.width
            kind = "rows" if few and bool((features.values >= 0).all()) else "standard"
        if kind != "standard":
            return cls(kind, np.zeros(0, np.float32), np.zeros(0, np.float32))
        count, values = max(1, len(features)), features.values.astype(np.float64)
        mean = np.bincount(features.columns, values, features.width) / count
        square = np.bincount(features.columns, (values - mean[features.columns]) ** 2, features.width)
        zeros = count - np.bincount(features.columns, minlength=features.width)
        deviation = np.sqrt((square + zeros * mean**2) / count)
        deviation[deviation < 1e-9] = 1.0  # a constant column
        return cls(kind, mean.astype(np.float32), deviation.astype(np.float32))

    def __call__(self, features: SparseRows) -> NDArray[np.float32]:
        """The features as a model reads them."""
        matrix = features.dense()
        if self.kind == "rows":
            sums = matrix.sum(1, keepdims=True)
            matrix /= np.where(np.abs(sums) < 1e-9, 1.0, sums)
        elif self.kind == "standard":
            matrix -= self.mean
            matrix /= self.deviation
        return matrix

    @property
    def text(self) -> str:
        """What is done, for the person."""
        return {
            "rows": "features are divided by the sum of their row (normalize=rows)",
            "standard": "features are given mean 0 and deviation 1 (normalize=standard)",
            "no": "features are read as they are (normalize=no)",
        }[self.kind]


# A graph whose nodes have features and labels, and which of them are to be learned from.


PARTS = ("train", "valid", "test")
HELD_OUT = (0.8, 0.2)  # of what is to be learned from, where nothing is for validation
SHARES = (0.6, 0.2, 0.2)  # of the nodes of every class, where nobody says which to learn from
NEAR = 3  # names that an error proposes


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """Nodes with names, features and labels ("" is not known), and edges from sources (row 0) to targets (row 1).

    `parts` says which nodes are to be learned from, validated on and measured with: train, valid, test, or "" for none.
    `places` is where each node comes from, `columns` are the names of the features, where they have any. `made` says that the
    data has no features, and how they were made.
    """

    names: tuple[str, ...]
    features: SparseRows
    edges: NDArray[np.int64]
    labels: tuple[str, ...]
    parts: tuple[str, ...]
    places: tuple[str, ...] = field(default=(), repr=False)
    columns: tuple[str, ...] = field(default=(), repr=False)
    made: str = ""

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
            some = f"Did you mean {', '.join(near)}?"
            some = some if near else f"Its names are such as {', '.join(self.names[:NEAR])}."
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
        """Its name, which is unique in the graph."""
        return self.graph.names[self.number]

    @property
    def label(self) -> str:
        """Its label; "" where it is not known."""
        return self.graph.labels[self.number]

    @property
    def where(self) -> str:
        """Where it comes from: a line of a file, or its name."""
        return self.graph.places[self.number] if self.graph.places else f"node {self.name}"


NodeRecord = Record[Node]


@dataclass(frozen=True)
class FoundGraph:
    """A graph without its bad nodes and edges, the problems, and notes on how it was read."""

    graph: LabelledGraph
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def in_order_of(known: LabelledGraph, rows: SparseRows, columns: Sequence[str], where: str) -> SparseRows:
    """Features in the order that a graph has them: by their names, where both have some."""
    if columns and known.columns:
        missing = [name for name in known.columns if name not in columns]
        require(not missing, f"{where}: there is no feature {missing[0] if missing else ''!r}, which this run reads")
    width = known.features.width
    require(
        not known.made or rows.width == width,
        f"{where}: this run learned from a graph without features, so it can label no other graph. Train one with features.",
    )
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
        listed = ", ".join(f"{100 * share:.0f} % for {part}" for share, part in zip(shares, PARTS, strict=False))
        drawn = replace(graph, parts=drawn_parts(graph.names, graph.labels, shares))
        return drawn, [f"{where}: {how}: of every class {listed}"]
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


GRAPH = "graph.safetensors"
READERS = "readers."  # before the names of the arrays that they have
ARRAYS = ("edges", "starts", "columns", "values", "labels", "parts", "mean", "deviation", "names", "features")


@dataclass(frozen=True, eq=False)
class KnownGraph:
    """A graph with the labels in their order. Its file holds no zeros of the features.

    `readers` are plain models that are mixed with attention; runs of before have none.
    """

    files: ClassVar[tuple[str, ...]] = (GRAPH,)

    graph: LabelledGraph
    labels: tuple[str, ...]
    scale: FeatureScale
    weights: tuple[float, ...] = ()  # of the labels, where rare ones count as much as frequent ones
    readers: PlainReaders | None = None

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        graph = self.graph
        return {
            "labels": list(self.labels), "nodes": len(graph), "edges": graph.edges.shape[1],
            "features": graph.features.width, "normalize": self.scale.kind,
            **({"made": graph.made} if graph.made else {}), **weight_facts(self.weights),
            **(self.readers.facts() if self.readers else {}),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """Its file, by name."""
        graph, features = self.graph, self.graph.features
        numbered = graph.names == tuple(map(str, range(len(graph))))
        arrays = {
            "edges": graph.edges, "starts": features.starts, "columns": features.columns, "values": features.values,
            "labels": places_in(graph.labels, self.labels), "parts": places_in(graph.parts, PARTS),
            "mean": self.scale.mean, "deviation": self.scale.deviation,
            "names": _as_bytes(() if numbered else graph.names), "features": _as_bytes(graph.columns),
        }  # fmt: skip
        plain = {} if self.readers is None else {name: x.numpy() for name, x in self.readers.arrays().items()}
        arrays |= {f"{READERS}{name}": array for name, array in plain.items()}
        return {GRAPH: save({name: np.ascontiguousarray(array) for name, array in arrays.items()})}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the place of its file."""
        path = paths[GRAPH]
        try:
            wrong = damage(path)
            require(not wrong, wrong)
            arrays = load_file(path)
            missing = [name for name in ARRAYS if name not in arrays]
            require(not missing, f"it has no {', '.join(missing)}")
            require(isinstance(facts["labels"], list), "its labels are no list")
            labels = tuple(map(str, facts["labels"]))
            width, kind = int(facts["features"]), str(facts["normalize"])
            _check_features(arrays, width, kind)
            features = SparseRows(arrays["starts"], arrays["columns"], arrays["values"], width)
            _check_nodes(arrays, len(features), len(labels))
            names = _from_bytes(arrays["names"]) or tuple(map(str, range(len(features))))
            columns = _from_bytes(arrays["features"])
            require(len(names) == len(features), f"it has {len(names):,} names of {len(features):,} nodes")
            require(len(columns) in (0, width), f"it has {len(columns):,} names of {width:,} features")
            plain = {name.removeprefix(READERS): array for name, array in arrays.items() if name.startswith(READERS)}
            readers = PlainReaders.restore(facts, plain, len(features), width, len(labels))
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{path} does not hold the graph of this run: {reason}. Restore the file.") from None
        given, parts = _named(arrays["labels"], labels), _named(arrays["parts"], PARTS)
        made = str(facts.get("made", ""))
        graph = LabelledGraph(names, features, arrays["edges"], given, parts, columns=columns, made=made)
        scale = FeatureScale(kind, arrays["mean"], arrays["deviation"])
        return cls(graph, labels, scale, restored_weights(facts), readers)


def _check_features(arrays: Mapping[str, NDArray], width: int, kind: str) -> None:
    """Require rows of features that lie in a matrix of that width, and a scale for them."""
    starts, columns, values = (arrays[name] for name in ("starts", "columns", "values"))
    whole = _is_whole(starts, 1) and len(starts) > 1 and _is_whole(columns, 1)
    require(whole and values.ndim == 1 and values.dtype.kind == "f", "its features are no rows of numbers")
    inside = starts[0] == 0 and starts[-1] == len(columns) == len(values) and bool((np.diff(starts) >= 0).all())
    require(bool(inside), "its features do not lie in rows")
    require(_within(columns, 0, width), f"it has features outside of {width:,} columns")
    require(kind in KINDS[1:], f"it is normalized by {kind!r}, which is not known")
    scaled = (width,) if kind == "standard" else (0,)
    for name in ("mean", "deviation"):
        require(arrays[name].shape == scaled and arrays[name].dtype.kind == "f", f"its {name} has another size")


def _check_nodes(arrays: Mapping[str, NDArray], nodes: int, labels: int) -> None:
    """Require edges between nodes that are there, and a label and a part for each node."""
    edges = arrays["edges"]
    inside = _is_whole(edges, 2) and len(edges) == 2 and _within(edges, 0, nodes)
    require(inside, f"it has edges outside of {nodes:,} nodes")
    for name, count in (("labels", labels), ("parts", len(PARTS))):
        places = arrays[name]
        good = _is_whole(places, 1) and len(places) == nodes and _within(places, -1, count)
        require(good, f"its {name} are not those of {nodes:,} nodes")


def _is_whole(array: NDArray, axes: int) -> bool:
    """Whether an array has whole numbers and so many axes."""
    return array.ndim == axes and array.dtype.kind == "i"


def _within(array: NDArray, least: int, end: int) -> bool:
    """Whether all numbers are from `least` to before `end`."""
    return array.size == 0 or (int(array.min()) >= least and int(array.max()) < end)


def places_in(words: Sequence[str], known: Sequence[str]) -> NDArray[np.int32]:
    """The place of every word in a list, -1 for those that are not in it.

    >>> places_in(["b", "", "a"], ["a", "b"]).tolist()
    [1, -1, 0]
    """
    places = {word: place for place, word in enumerate(known)}
    return np.array([places.get(word, -1) for word in words], dtype=np.int32)


def _named(places: NDArray[np.int32], known: Sequence[str]) -> tuple[str, ...]:
    """What `places_in` took apart; -1 is nothing."""
    words = (*known, "")
    return tuple(words[place] for place in places.tolist())


def _as_bytes(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Texts in an array of bytes."""
    return np.frombuffer(json.dumps(list(texts), ensure_ascii=False).encode(), dtype=np.uint8)


def _from_bytes(array: NDArray[np.uint8]) -> tuple[str, ...]:
    """What `_as_bytes` packed."""
    require(array.ndim == 1 and array.dtype == np.uint8, "its names are no text")
    texts = json.loads(array.tobytes().decode())
    require(isinstance(texts, list) and all(isinstance(text, str) for text in texts), "its names are no list of texts")
    return tuple(texts)
