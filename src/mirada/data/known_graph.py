"""What a run that labels nodes knows: the graph it learned from, the labels, and how features are scaled."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from mirada.data.class_weights import restored_weights, weight_facts
from mirada.data.labelled_graph import PARTS, LabelledGraph
from mirada.data.node_features import KINDS, FeatureScale, SparseRows
from mirada.errors import require
from mirada.files import require_file

GRAPH = "graph.safetensors"
ARRAYS = ("edges", "starts", "columns", "values", "labels", "parts", "mean", "deviation", "names", "features")


@dataclass(frozen=True, eq=False)
class KnownGraph:
    """A graph with the labels in their order. Its file holds no zeros of the features."""

    files: ClassVar[tuple[str, ...]] = (GRAPH,)

    graph: LabelledGraph
    labels: tuple[str, ...]
    scale: FeatureScale
    weights: tuple[float, ...] = ()  # of the labels, where rare ones count as much as frequent ones

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        graph = self.graph
        return {
            "labels": list(self.labels), "nodes": len(graph), "edges": graph.edges.shape[1],
            "features": graph.features.width, "normalize": self.scale.kind,
            **weight_facts(self.weights),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """Its file, by name."""
        graph, features = self.graph, self.graph.features
        numbered = graph.names == tuple(map(str, range(len(graph))))
        arrays = {
            "edges": graph.edges, "starts": features.starts, "columns": features.columns, "values": features.values,
            "labels": places_in(graph.labels, self.labels), "parts": places_in(graph.parts, PARTS),
            "mean": self.scale.mean, "deviation": self.scale.deviation,
            "names": as_bytes(() if numbered else graph.names), "features": as_bytes(graph.columns),
        }  # fmt: skip
        return {GRAPH: save({name: np.ascontiguousarray(array) for name, array in arrays.items()})}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and `contents` kept; `paths` has the place of its file."""
        path = paths[GRAPH]
        try:
            require_file(path)
            arrays = load_file(path)
            missing = [name for name in ARRAYS if name not in arrays]
            require(not missing, f"it has no {', '.join(missing)}")
            require(isinstance(facts["labels"], list), "its labels are no list")
            labels = tuple(map(str, facts["labels"]))
            width, kind = int(facts["features"]), str(facts["normalize"])
            check_features(arrays, width, kind)
            features = SparseRows(arrays["starts"], arrays["columns"], arrays["values"], width)
            check_nodes(arrays, len(features), len(labels))
            names = from_bytes(arrays["names"]) or tuple(map(str, range(len(features))))
            columns = from_bytes(arrays["features"])
            require(len(names) == len(features), f"it has {len(names):,} names of {len(features):,} nodes")
            require(len(columns) in (0, width), f"it has {len(columns):,} names of {width:,} features")
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{path} does not hold the graph of this run: {reason}. Restore the file.") from None
        parts = named(arrays["parts"], PARTS)
        graph = LabelledGraph(names, features, arrays["edges"], named(arrays["labels"], labels), parts, columns=columns)
        scale = FeatureScale(kind, arrays["mean"], arrays["deviation"])
        return cls(graph, labels, scale, restored_weights(facts))


def check_features(arrays: Mapping[str, NDArray], width: int, kind: str) -> None:
    """Require rows of features that lie in a matrix of that width, and a scale for them."""
    starts, columns, values = (arrays[name] for name in ("starts", "columns", "values"))
    require(
        is_whole(starts, 1)
        and len(starts) > 1
        and is_whole(columns, 1)
        and values.ndim == 1
        and values.dtype.kind == "f",
        "its features are no rows of numbers",
    )
    inside = starts[0] == 0 and starts[-1] == len(columns) == len(values) and bool((np.diff(starts) >= 0).all())
    require(bool(inside), "its features do not lie in rows")
    require(within(columns, 0, width), f"it has features outside of {width:,} columns")
    require(kind in KINDS[1:], f"it is normalized by {kind!r}, which is not known")
    scaled = (width,) if kind == "standard" else (0,)
    for name in ("mean", "deviation"):
        require(arrays[name].shape == scaled and arrays[name].dtype.kind == "f", f"its {name} has another size")


def check_nodes(arrays: Mapping[str, NDArray], nodes: int, labels: int) -> None:
    """Require edges between nodes that are there, and a label and a part for each node."""
    edges = arrays["edges"]
    require(
        is_whole(edges, 2) and len(edges) == 2 and within(edges, 0, nodes), f"it has edges outside of {nodes:,} nodes"
    )
    for name, count in (("labels", labels), ("parts", len(PARTS))):
        places = arrays[name]
        good = is_whole(places, 1) and len(places) == nodes and within(places, -1, count)
        require(good, f"its {name} are not those of {nodes:,} nodes")


def is_whole(array: NDArray, axes: int) -> bool:
    """Whether an array has whole numbers and so many axes."""
    return array.ndim == axes and array.dtype.kind == "i"


def within(array: NDArray, least: int, end: int) -> bool:
    """Whether all numbers are from `least` to before `end`."""
    return array.size == 0 or (int(array.min()) >= least and int(array.max()) < end)


def places_in(words: Sequence[str], known: Sequence[str]) -> NDArray[np.int32]:
    """The place of every word in a list, -1 for those that are not in it.

    >>> places_in(["b", "", "a"], ["a", "b"]).tolist()
    [1, -1, 0]
    """
    places = {word: place for place, word in enumerate(known)}
    return np.array([places.get(word, -1) for word in words], dtype=np.int32)


def named(places: NDArray[np.int32], known: Sequence[str]) -> tuple[str, ...]:
    """What `places_in` took apart; -1 is nothing."""
    words = (*known, "")
    return tuple(words[place] for place in places.tolist())


def as_bytes(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Texts in an array of bytes."""
    return np.frombuffer(json.dumps(list(texts), ensure_ascii=False).encode(), dtype=np.uint8)


def from_bytes(array: NDArray[np.uint8]) -> tuple[str, ...]:
    """What `as_bytes` packed."""
    require(array.ndim == 1 and array.dtype == np.uint8, "its names are no text")
    texts = json.loads(array.tobytes().decode())
    require(isinstance(texts, list) and all(isinstance(text, str) for text in texts), "its names are no list of texts")
    return tuple(texts)
