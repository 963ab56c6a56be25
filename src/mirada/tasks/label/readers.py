"""Plain readers of a graph, made in seconds: its features alone, labels passed along its edges, features smoothed by them.

Attention is mixed with them by validation, and is measured next to them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.training.baselines import MOST_ROWS, STRENGTH, DenseRows, learning, logistic_regression
from mirada.training.mixtures import NETWORK, chosen_scales, mixed_scores, wrong_share

PLAIN = {"features": "features", "propagation": "label propagation", "sgc": "SGC"}
HOPS, USUAL_HOPS = (1, 2, 3, 4), 2  # of smoothed features, to choose from
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the data against the prior, to choose from
SHARES = (0.5, 0.8, 0.9, 0.99)  # of its neighbors in the label of a node, to choose from
ROUNDS = 50  # of passing labels on
LEAST = 1e-3  # probability that propagation leaves to every label
MOST_NUMBERS = 2**27  # of features that are smoothed: half a gigabyte
MOST_TRIED = 2_000  # nodes that strengths are tried on

Scores = Float[Tensor, "nodes classes"]


class ClassedNodes(NamedTuple):
    """Some nodes of a graph by their numbers, with their classes."""

    numbers: Int[Tensor, " some"]
    classes: Int[Tensor, " some"]


@dataclass(frozen=True)
class ReadGraph:
    """What plain readers read of a graph.

    Args:
        edges: Sources above targets.
        features: Those of every node, scaled.
    """

    edges: Int[Tensor, "2 edges"]
    features: Float[Tensor, "nodes features"]

    def smoother(self, loops: bool = True) -> Tensor:
        """S = D^-1/2 A D^-1/2 as a sparse matrix, whose rows are targets; with `loops` every node is its own neighbor too.

        >>> ReadGraph(torch.tensor([[0], [1]]), torch.zeros(2, 3)).smoother().to_dense().square().tolist()
        [[0.4999999701976776, 0.0], [0.25, 0.4999999701976776]]
        """
        (source, target), nodes = self.edges, len(self.features)
        if loops:
            apart, every = source != target, torch.arange(nodes)
            source, target = torch.cat([source[apart], every]), torch.cat([target[apart], every])
        out, into = (torch.bincount(ends, minlength=nodes).float() for ends in (source, target))
        values = (out[source] * into[target]).rsqrt()
        return torch.sparse_coo_tensor(
            torch.stack([target, source]), values, (nodes, nodes), check_invariants=True
        ).coalesce()

    def smoothed(self, hops: int) -> Iterator[Float[Tensor, "nodes features"]]:
        """The features after one hop, after two, ..."""
        x, along = self.features, self.smoother()
        for _ in range(hops):
            x = torch.sparse.mm(along, x)
            yield x


@dataclass(frozen=True, eq=False)
class LinearNodes:
    """Logistic regression over features that were smoothed `hops` times; 0: each node's own.

    scores = S^hops X W + bias

    Wu et al. (2019), Simplifying graph convolutional networks, arXiv:1902.07153.
    """

    hops: int
    weights: Float[Tensor, "features classes"]
    bias: Float[Tensor, " classes"]

    @classmethod
    def fit(
        cls, hops: int, rows: Float[Tensor, "some features"], wanted: Tensor, strength: float, class_weights: Tensor
    ) -> Self:
        """Fit to rows that are centered and scaled to length 1 on the average; both are folded into weights and bias."""
        mean = rows.mean(0)
        scale = (rows - mean).square().sum(1).mean().sqrt().clamp_min(1e-9)
        weights, bias = logistic_regression(
            DenseRows((rows - mean) / scale), wanted, rows.shape[1], len(class_weights),
            strength=strength, row_weights=class_weights[wanted],
        )  # fmt: skip
        return cls(hops, weights / scale, bias - mean @ (weights / scale))

    def scores(self, smoothed: Float[Tensor, "nodes features"]) -> Scores:
        """The scores of the classes, of features that are smoothed already."""
        return smoothed @ self.weights + self.bias


@dataclass(frozen=True, eq=False)
class PlainReaders:
    """What plain readers learned, and how they are mixed with attention: the sum of scales x scores of every reader.

    Args:
        linear: The linear models, features and sgc, by name; sgc is missing where a graph is too large for it.
        share: What neighbors count in propagation, F = share S F + (1 - share) Y.
        seeds: The numbers of the nodes learned from.
        classes: Their classes.
        scales: The scale of every reader that answers; empty until they are fitted, attention answers alone then.
    """

    linear: Mapping[str, LinearNodes]
    share: float
    seeds: Int[Tensor, " seeds"]
    classes: Int[Tensor, " seeds"]
    scales: Mapping[str, float]

    @classmethod
    def fit(cls, graph: ReadGraph, train: ClassedNodes, valid: ClassedNodes | None, weights: Sequence[float]) -> Self:
        """Learn from the nodes of `train`. Those of `valid` choose hops, strengths and the share; without any, the usual ones
        are taken. `weights` are those of the classes.
        """
        with learning():
            class_weights = torch.tensor(weights)
            train = ClassedNodes(*(x.clone() for x in train))
            valid = None if valid is None else ClassedNodes(*(x.clone() for x in valid))
            linear = {"features": _chosen([(0, *_rows(graph.features, train, valid))], train, valid, class_weights)}
            if graph.features.numel() <= MOST_NUMBERS:
                after = enumerate(graph.smoothed(max(HOPS)), 1)
                tried = [
                    (hops, *_rows(x, train, valid)) for hops, x in after if valid is not None or hops == USUAL_HOPS
                ]
                linear["sgc"] = _chosen(tried, train, valid, class_weights)
            reader = cls(linear, SHARES[2], *train, {})
            if valid is None:
                return reader
            readers = [replace(reader, share=share) for share in SHARES]
            return min(readers, key=lambda one: wrong_share(one.propagated(graph)[valid[0]], valid[1]))

    def scores(self, graph: ReadGraph, same: bool, names: Sequence[str] = tuple(PLAIN)) -> dict[str, Scores]:
        """The scores of readers for all nodes of a graph. `same` says whether its first nodes are those of the graph learned
        from: in another one there are no labels to pass along.
        """
        found = {}
        with learning(), torch.no_grad():
            for name in names:
                if name == "propagation":
                    found[name] = self.propagated(graph, same)
                elif name in self.linear:
                    reader, x = self.linear[name], graph.features
                    for x in graph.smoothed(reader.hops):  # noqa: B007 (the last)
                        pass
                    found[name] = reader.scores(x)
        return found

    def propagated(self, graph: ReadGraph, same: bool = True) -> Scores:
        """The logarithm of the share that every label has of what reaches a node along the edges; even where nothing does.

        Zhou et al. (2004), Learning with local and global consistency.
        """
        nodes, classes = len(graph.features), len(self.linear["features"].bias)
        first = torch.zeros(nodes, classes)
        if same:
            first[self.seeds, self.classes] = 1.0
        found, along = first, graph.smoother(loops=False)
        for _ in range(ROUNDS if same else 0):
            found = self.share * torch.sparse.mm(along, found) + (1 - self.share) * first
        total = found.sum(1, keepdim=True)
        return (torch.where(total > 0, found / total.clamp_min(1e-30), 1 / classes) + LEAST).log()

    def mixed(self, scores: Mapping[str, Scores]) -> Scores:
        """The scores of the answer."""
        return mixed_scores(scores, self.scales)

    def calibrated(self, scores: Mapping[str, Scores], wanted: Int[Tensor, " nodes"], counts: Tensor) -> Self:
        """A copy that answers as validates best."""
        return replace(self, scales=chosen_scales(scores, wanted, counts))

    # what a run keeps

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        hops = {name: one.hops for name, one in self.linear.items()}
        return {"readers": {"hops": hops, "share": self.share, "scales": dict(self.scales)}}

    def arrays(self) -> dict[str, Tensor]:
        """What its file holds."""
        found = {"seeds": self.seeds, "seed_classes": self.classes}
        for name, one in self.linear.items():
            found |= {f"{name}_weights": one.weights, f"{name}_bias": one.bias}
        return found

    @classmethod
    def restore(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, Any], nodes: int, features: int, classes: int
    ) -> Self | None:
        """What `facts` and `arrays` kept; None for a run that has none."""
        if "readers" not in facts:
            return None
        kept = facts["readers"]
        linear = {}
        for name, hops in kept["hops"].items():
            weights, bias = (torch.from_numpy(arrays[f"{name}_{part}"]) for part in ("weights", "bias"))
            require(name in PLAIN and 0 <= int(hops) <= max(HOPS), f"it has no plain reader {name!r}")
            require(weights.shape == (features, classes), f"its {name} reads another number of features")
            require(bias.shape == (classes,), f"its {name} knows another number of classes")
            linear[name] = LinearNodes(int(hops), weights.float(), bias.float())
        require("features" in linear, "it has no reader of features")
        seeds, given = (torch.from_numpy(arrays[name]).long() for name in ("seeds", "seed_classes"))
        require(seeds.ndim == 1 and seeds.shape == given.shape, "its seeds and their classes differ in number")
        for name, some, end in (("seeds", seeds, nodes), ("classes", given, classes)):
            require(bool(((some >= 0) & (some < end)).all()), f"its {name} are not those of its nodes")
        scales = {str(name): float(scale) for name, scale in kept["scales"].items()}
        require(
            all(name in (NETWORK, *linear, "propagation") for name in scales), "it mixes readers that are not there"
        )
        require(all(math.isfinite(scale) for scale in scales.values()), "its scales are not finite")
        return cls(linear, float(kept["share"]), seeds, given, scales)


def _rows(x: Tensor, train: ClassedNodes, valid: ClassedNodes | None) -> tuple[Tensor, Tensor]:
    """The rows of the nodes to learn from, and of those to choose by."""
    every = max(1, -(-len(train[0]) // MOST_ROWS))
    return x[train[0][::every]], x[valid[0]] if valid is not None else x[:0]


def _chosen(
    inputs: Sequence[tuple[int, Tensor, Tensor]], train: ClassedNodes, valid: ClassedNodes | None, class_weights: Tensor
) -> LinearNodes:
    """The linear model that is best on the nodes of `valid`, over rows after some hops, and some strengths."""
    wanted = train[1][:: max(1, -(-len(train[1]) // MOST_ROWS))]
    chosen, strength, lowest = inputs[0], STRENGTH, math.inf
    every = max(1, -(-len(wanted) // MOST_TRIED))
    for item in inputs:
        hops, rows, held_out = item
        if valid is None:
            break
        for tried in STRENGTHS:
            model = LinearNodes.fit(hops, rows[::every], wanted[::every], tried, class_weights)
            if (loss := wrong_share(model.scores(held_out), valid[1])) < lowest:
                chosen, strength, lowest = item, tried, loss
    return LinearNodes.fit(chosen[0], chosen[1], wanted, strength, class_weights)
