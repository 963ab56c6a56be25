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
from mirada.data.node_features import FeatureScale, SparseRows
from mirada.errors import require

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
            arrays = load_file(path)
            missing = [name for name in ARRAYS if name not in arrays]
            require(not missing, f"it has no {', '.join(missing)}")
            labels = tuple(map(str, facts["labels"]))
            width, kind = int(facts["features"]), str(facts["normalize"])
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{path} does not hold the graph of this run: {reason}. Restore the file.") from None
        features = SparseRows(arrays["starts"], arrays["columns"], arrays["values"], width)
        graph = LabelledGraph(
            from_bytes(arrays["names"]) or tuple(map(str, range(len(features)))),
            features,
            arrays["edges"],
            named(arrays["labels"], labels),
            named(arrays["parts"], PARTS),
            columns=from_bytes(arrays["features"]),
        )
        scale = FeatureScale(kind, arrays["mean"], arrays["deviation"])
        return cls(graph, labels, scale, restored_weights(facts))


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
    return tuple(json.loads(array.tobytes().decode()))
