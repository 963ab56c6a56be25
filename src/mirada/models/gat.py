"""Graph attention networks: every node looks at its neighbors.

features -> [dropout -> attention over the edges -> elu] x (depth - 1) -> attention, heads averaged -> classes
         -> [passed on along the edges] x propagation
"""

from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.attention.equation import Attention
from mirada.attention.heads import Tied
from mirada.attention.neighborhoods import Edges
from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Graph, GraphV2
from mirada.config import Config
from mirada.errors import require
from mirada.layers.dropout import Dropout
from mirada.layers.model import Model, check_classes
from mirada.layers.stack import Layers
from mirada.shapes import check_axes, readable


@dataclass(frozen=True, kw_only=True)
class GATConfig(Config):
    """`score` is graph (GAT) or graphv2 (GATv2). Hidden layers have `heads` heads of `dim`, the last `last_heads`.

    Args:
        features: numbers in a node.
        classes: how many classes there are.
        dim: numbers in a head of a hidden layer.
        heads: heads of a hidden layer.
        last_heads: heads of the last layer.
        depth: how many layers there are.
        score: graph or graphv2.
        dropout: the share of inputs dropped in training.
        weight_dropout: the share of attention weights dropped in training.
        self_loops: whether every node sees itself.
        propagation: how often the scores of the classes are passed along the edges after attention (APPNP).
        restart: the share of its own first scores that a node keeps in each of these steps.
        node_dropout: the share of nodes whose features are dropped in training (GRAND).
        consistency: how much two passes with different dropout must agree on all nodes, labelled or not (GRAND).

    >>> GATConfig(features=5, classes=3, score="graphv2").depth
    2
    """

    features: int = 1433
    classes: int = 7
    dim: int = 8
    heads: int = 8
    last_heads: int = 1
    depth: int = 2
    score: str = "graph"
    dropout: float = 0.6
    weight_dropout: float = 0.6
    self_loops: bool = True
    propagation: int = 0
    restart: float = 0.1
    node_dropout: float = 0.0
    consistency: float = 0.0

    def check(self) -> None:
        self.at_least(1, "features", "classes", "dim", "heads", "last_heads", "depth")
        self.at_least(0, "propagation", "consistency")
        self.probability("dropout", "weight_dropout", "restart", "node_dropout")
        self.one_of("score", "graph", "graphv2")

    @classmethod
    def tiny(cls) -> Self:
        """Small sizes, for tests and examples."""
        return cls(features=5, classes=3, dim=4, heads=2, last_heads=3, dropout=0.0, weight_dropout=0.0)


class GAT(Model[GATConfig]):
    """Attention over the edges of a graph, layer by layer; the last one averages its heads.

    Args:
        config: sizes and the score, as a `GATConfig`.

    >>> edges = torch.tensor([[0, 1], [1, 2]])  # from node 0 to 1, from 1 to 2
    >>> GAT(GATConfig.tiny())(torch.zeros(4, 5), edges).shape
    torch.Size([4, 3])

    Veličković et al. (2018), arXiv:1710.10903; GATv2: Brody, Alon and Yahav (2022), arXiv:2105.14491; propagation: Gasteiger
    et al. (2019), arXiv:1810.05997; consistency: Feng et al. (2020), arXiv:2005.11079.
    """

    Config = GATConfig

    def __init__(self, config: GATConfig) -> None:
        super().__init__(config)
        self.dropout = Dropout(config.dropout)
        widths = [config.features] + [config.heads * config.dim] * (config.depth - 1)
        self.layers: Layers[Attention] = Layers(
            attention(config, width, last=number == config.depth - 1) for number, width in enumerate(widths)
        )

    def forward(
        self, nodes: Float[Tensor, "nodes features"], edges: Int[Tensor, "2 edges"] | Edges
    ) -> Float[Tensor, "nodes classes"]:
        """The scores of the classes of every node. Several graphs are one disjoint union.

        An `Edges` is used as it is, and keeps what it has worked out for the next call; a tensor is given self loops first,
        where the configuration says so.
        """
        return self.passes(nodes, edges, 1)[0]

    def passes(
        self, nodes: Float[Tensor, "nodes features"], edges: Int[Tensor, "2 edges"] | Edges, count: int
    ) -> Float[Tensor, "passes nodes classes"]:
        """The scores of several passes at once, which differ in what dropout drops."""
        check_axes("nodes", nodes, "nodes features", features=self.config.features)
        where = edges if isinstance(edges, Edges) else self.graph(edges, nodes.shape[0])
        x = nodes.expand(count, -1, -1)
        if self.training and self.config.node_dropout:
            kept = torch.rand(count, nodes.shape[0], 1, device=x.device) >= self.config.node_dropout
            x = x * (kept / (1 - self.config.node_dropout))
        for layer in self.layers:
            x = x if layer is self.layers[0] else F.elu(x)
            x = layer(self.dropout(x), where=where)
        return propagated(x, where, self.config.propagation, self.config.restart) if self.config.propagation else x

    def graph(self, edges: Int[Tensor, "2 edges"], nodes: int) -> Edges:
        """The neighborhood of a list of edges: sources in row 0, targets in row 1."""
        where = Edges(edges, nodes)
        return where.with_self_loops() if self.config.self_loops else where

    def loss(
        self,
        nodes: Float[Tensor, "nodes features"],
        edges: Int[Tensor, "2 edges"] | Edges,
        classes: Int[Tensor, " nodes"],
        known: Bool[Tensor, " nodes"] | None = None,
        weights: Float[Tensor, " known"] | None = None,
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy over the nodes whose class is known, each times its weight where there are weights; in
        training with how far two passes disagree, where the configuration says so.
        """
        check_axes("classes", classes, "nodes", nodes=nodes.shape[0])
        both = self.passes(nodes, edges, 2 if self.training and self.config.consistency else 1)
        apart = self.config.consistency * disagreement(both) if len(both) > 1 else 0.0
        if known is not None:
            mask = isinstance(known, Tensor) and known.dtype == torch.bool and known.shape == classes.shape
            require(mask, "known must be a bool mask with one entry per node")
            require(
                not readable(known) or bool(known.any()),
                "the loss needs at least one node whose class is known: got none",
            )
            both, classes = both[:, known], classes[known]
        classes = check_classes("classes", classes, self.config.classes, len(classes))
        scores, wanted = both.flatten(0, 1), classes.repeat(len(both))
        if weights is None:
            return F.cross_entropy(scores, wanted) + apart
        return (weights.repeat(len(both)) * F.cross_entropy(scores, wanted, reduction="none")).mean() + apart


def attention(config: GATConfig, width: int, last: bool) -> Attention:
    """One layer: heads side by side, or averaged into the classes at the last."""
    heads, dim = (config.last_heads, config.classes) if last else (config.heads, config.dim)
    combine: Literal["concat", "mean"] = "mean" if last else "concat"
    if config.score == "graphv2":
        tied = Tied(width, heads, dim, combine, queries="own", projection_bias=True)
    else:
        tied = Tied(width, heads, dim, combine)
    score = (GraphV2 if config.score == "graphv2" else Graph)(dim, heads)
    return Attention(tied, score, normalizer=Softmax(config.weight_dropout))


def propagated(
    scores: Float[Tensor, "passes nodes classes"], edges: Edges, steps: int, restart: float
) -> Float[Tensor, "passes nodes classes"]:
    """Scores passed along the edges: z = (1 - restart) S z + restart scores, so many times.

    S = D^-1/2 A D^-1/2, with the self loops that the edges have: sums are divided by the root of both degrees. A node without
    edges keeps its own scores.

    >>> edges = Edges(torch.tensor([[0, 1], [1, 0]]), 3)
    >>> propagated(torch.tensor([[[4.0], [0.0], [2.0]]]), edges, steps=1, restart=0.25).flatten().tolist()
    [1.0, 3.0, 2.0]

    Gasteiger, Bojchevski and Günnemann (2019), arXiv:1810.05997.
    """
    if torch.compiler.is_exporting():  # a sparse tensor is not traced
        seen = edges.dense(edges.nodes, edges.nodes)[0, 0].to(scores.dtype)
        into = seen.sum(1)
        along = seen * (into.unsqueeze(1) * seen.sum(0)).clamp(min=1).rsqrt()
        first = z = scores
        for _ in range(steps):
            z = torch.where((into == 0).unsqueeze(-1), first, (1 - restart) * (along @ z) + restart * first)
        return z
    (source, target), count = edges.pairs, edges.nodes
    out, into = (torch.bincount(ends, minlength=count).to(scores.dtype) for ends in (source, target))
    shares, size = (out[source] * into[target]).rsqrt(), (count, count)
    along = torch.sparse_coo_tensor(edges.pairs.flip(0), shares, size, is_coalesced=True, check_invariants=False)
    alone = (into == 0).unsqueeze(-1)
    first = scores.transpose(0, 1).flatten(1)  # the rows of all passes are moved together
    z = first
    for _ in range(steps):
        z = torch.where(alone, first, (1 - restart) * torch.sparse.mm(along, z) + restart * first)
    return z.unflatten(1, (len(scores), -1)).transpose(0, 1)


SHARPER = 0.5  # temperature of the mean that the passes are compared with


def disagreement(scores: Float[Tensor, "passes nodes classes"]) -> Float[Tensor, ""]:
    """How far passes are from their sharpened mean: the squared distance of probabilities, the mean over nodes and passes.

    mean over s, i of |p_si - sharpened_i|^2,    sharpened proportional to (mean over s of p_s)^(1 / temperature)

    >>> disagreement(torch.tensor([[[9.0, -9.0]], [[9.0, -9.0]]])).item() < 1e-6
    True

    Feng et al. (2020), arXiv:2005.11079.
    """
    shares = scores.softmax(-1)
    sharp = shares.detach().mean(0) ** (1 / SHARPER)
    sharp = sharp / sharp.sum(-1, keepdim=True)
    return (shares - sharp).square().sum(-1).mean()
