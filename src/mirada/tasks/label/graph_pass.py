"""One pass of a model over a graph: an answer for every node, and what the model looked at around it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Edges, Mask
from mirada.attention.places import Places
from mirada.errors import require
from mirada.looking import weights as exact
from mirada.looking.explain.measures import RESIDUAL
from mirada.looking.explain.methods import Methods
from mirada.looking.labels import ANSWER, RANKED, AxisLabels, Labels, NodeLabels, WrittenStep
from mirada.looking.record import Call, Seen, look
from mirada.runs.answers import Answer
from mirada.runs.ask import RankAsk
from mirada.runs.run import Run
from mirada.tasks.label.graph import FeatureScale, KnownGraph, LabelledGraph, Node, in_order_of, places_in
from mirada.tasks.label.readers import ClassedNodes, PlainReaders, ReadGraph
from mirada.training.mixtures import NETWORK

LISTED = 10  # neighbors of an answer in --json
WHOLE_GRAPH = 150  # nodes that are looked at together: of a larger graph, a neighborhood


def encoded_graph(
    known: KnownGraph, graph: LabelledGraph, self_loops: bool
) -> tuple[Float[Tensor, "nodes features"], Edges]:
    """The features and edges of a graph as the model reads them; kept, since every question is about the same few graphs."""
    return _encoded(known.graph, known.scale, graph, self_loops)


@lru_cache(maxsize=4)
def _encoded(
    known: LabelledGraph, scale: FeatureScale, graph: LabelledGraph, self_loops: bool
) -> tuple[Float[Tensor, "nodes features"], Edges]:
    features = graph.features
    if graph is not known:
        features = in_order_of(known, features, graph.columns, "the graph")
    edges = Edges(torch.from_numpy(graph.edges), len(graph))
    return torch.from_numpy(scale(features)), edges.with_self_loops() if self_loops else edges


def with_readers(known: KnownGraph, train: Sequence[Node], valid: Sequence[Node]) -> KnownGraph:
    """A copy with plain readers that learned from nodes of the known graph, and were chosen by others of it, if there are any."""

    def numbered(nodes: Sequence[Node]) -> ClassedNodes:
        numbers = torch.tensor([node.number for node in nodes], dtype=torch.int64)
        classes = torch.from_numpy(places_in([node.label for node in nodes], known.labels)).long()
        return ClassedNodes(numbers, classes)

    here = [node for node in valid if node.label in known.labels]
    x, _ = encoded_graph(known, known.graph, True)
    graph = ReadGraph(torch.from_numpy(known.graph.edges), x)
    weights = known.weights or (1.0,) * len(known.labels)
    readers = PlainReaders.fit(graph, numbered(train), numbered(here) if here else None, weights)
    return replace(known, readers=readers)


@lru_cache(maxsize=4)
def _plain_scores(
    readers: PlainReaders, known: LabelledGraph, scale: FeatureScale, graph: LabelledGraph
) -> dict[str, Float[Tensor, "nodes classes"]]:
    x, _ = _encoded(known, scale, graph, True)
    count = known.edges.shape[1]
    same = graph is known or (
        graph.names[: len(known)] == known.names and bool(np.array_equal(graph.edges[:, :count], known.edges))
    )
    return readers.scores(ReadGraph(torch.from_numpy(graph.edges), x), same)


def plain_scores(known: KnownGraph, graph: LabelledGraph) -> dict[str, Float[Tensor, "nodes classes"]]:
    """The scores of all plain readers for all nodes of a graph; kept, as the graph is."""
    return {} if known.readers is None else _plain_scores(known.readers, known.graph, known.scale, graph)


class GraphPass:
    """One pass over a graph: the probabilities of every node, of attention and plain readers together, what each of them says
    alone, and the weights of every edge in the last layer.
    """

    def __init__(self, run: Run, graph: LabelledGraph) -> None:
        self.run, self.graph = run, graph
        x, edges = encoded_graph(run.known, graph, run.model.config.self_loops)
        self.inputs = x.to(run.device), edges.to(run.device)
        with look(run.model) as seen:
            scores = run.model(*self.inputs)
        known: KnownGraph = run.known
        self.scores = {NETWORK: scores.float().cpu(), **plain_scores(known, graph)}
        mixed = known.readers.mixed(self.scores) if known.readers else self.scores[NETWORK]
        self.probabilities = mixed.softmax(-1)
        self.alone = {name: one.argmax(1).tolist() for name, one in self.scores.items()}
        call = seen[seen.names[-1]]
        self.weights = call.weights()[0].float().mean(0).cpu()
        self.sources, self.offsets = edges.pairs[0].tolist(), edges.offsets.tolist()

    def answer(self, node: Node, ask: RankAsk) -> Answer:
        """The answer for one node of the graph."""
        labels: tuple[str, ...] = self.run.known.labels
        ranked = sorted(zip(labels, self.probabilities[node.number].tolist(), strict=True), key=lambda pair: -pair[1])
        ranked = [pair for pair in ranked if not ask.candidates or pair[0] in ask.candidates]
        mine = slice(self.offsets[node.number], self.offsets[node.number + 1])
        neighbors = [Node(self.graph, number) for number in self.sources[mine]]
        weights = self.weights[mine]
        strongest = sorted(zip(neighbors, weights.tolist(), strict=True), key=lambda pair: -pair[1])[:LISTED]
        described = tuple(f"{other.name} ({other.label})" if other.label else other.name for other in neighbors)
        listed = [{"node": other.name, "label": other.label, "weight": weight} for other, weight in strongest]
        alone = {name: labels[given[node.number]] for name, given in self.alone.items()}
        more = {"neighbors": listed} | ({"readers": alone} if len(alone) > 1 else {})
        return Answer(
            node.name, *ranked[0], value=tuple(neighbors), read=described, written=(node.name,),
            weights=weights.unsqueeze(0), more=more, replay=partial(self.look, node, ranked),
            **ask.ranking(ranked),
        )  # fmt: skip

    def look(self, node: Node, ranked: Sequence[tuple[str, float]], methods: bool = False) -> Seen:
        """All attention of the pass; of a large graph, what the node and its strongest neighbors looked at."""
        kept = neighborhood(node.number, self.sources, self.offsets, self.weights.tolist(), WHOLE_GRAPH)
        whole = len(self.graph) <= WHOLE_GRAPH
        nodes = list(range(len(self.graph))) if whole else kept.nodes
        names = tuple(self.graph.names[number] for number in nodes)
        labels = _node_labels(names, nodes.index(node.number), len(self.graph), ranked, () if whole else nodes)
        seen = self.run.look(*self.inputs, labels=lambda _: labels)
        shown = seen if whole else subgraph(seen, nodes, kept.targets)
        if methods:
            wanted = self.run.known.labels.index(ranked[0][0])
            shown.methods = graph_methods(self.run.model, *self.inputs, seen, node.number, wanted, nodes)
        return shown


def _node_labels(
    names: tuple[str, ...], row: int, nodes: int, ranked: Sequence[tuple[str, float]], places: Sequence[int] = ()
) -> Labels:
    """What the rows and columns are if a node was labelled that stands at `row`; `nodes` are in the whole graph, and `places`
    are those of a part in it.
    """
    facts = {"input": names[row]}
    if len(names) < nodes:
        facts["shown"] = f"{len(names):,} of {nodes:,} nodes: those that {names[row]} and its neighbors looked at"
    step = WrittenStep(row, *ranked[0], tuple(ranked[:RANKED]))
    axes = {"nodes": NodeLabels(names, tuple(places)), ANSWER: AxisLabels((names[row],))}
    return Labels(axes, {"*": ("nodes", "nodes")}, facts, ranked[0], (step,))


class GraphNeighborhood(NamedTuple):
    """Nodes around a node, and those of them whose neighbors are all among them."""

    nodes: list[int]
    targets: list[int]


def neighborhood(
    node: int, sources: Sequence[int], offsets: Sequence[int], weights: Sequence[float], most: int
) -> GraphNeighborhood:
    """A node with all its neighbors; then theirs, those of the strongest first, as long as there is room.

    >>> neighborhood(0, [1, 2, 0, 3, 0], [0, 2, 4, 5, 5], [0.7, 0.3, 0.5, 0.5, 1.0], most=9)
    GraphNeighborhood(nodes=[0, 1, 2, 3], targets=[0, 1, 2])
    """
    mine = range(offsets[node], offsets[node + 1])
    nodes = dict.fromkeys([node, *(sources[edge] for edge in mine)])
    targets = [node]
    for edge in sorted(mine, key=lambda edge: -weights[edge]):
        other = sources[edge]
        theirs = sources[offsets[other] : offsets[other + 1]]
        if other != node and len(nodes.keys() | set(theirs)) <= most:
            targets.append(other)
            nodes |= dict.fromkeys(theirs)
    return GraphNeighborhood(sorted(nodes), sorted(targets))


def subgraph(seen: Seen, nodes: Sequence[int], targets: Sequence[int]) -> Seen:
    """The same calls, with the rows of `targets` and the columns of `nodes`; rows of other nodes are empty.

    A weight depends on the two nodes of its edge and on the other edges of its target. So it stays what it is, if all
    sources of a target are among the nodes.

    >>> from mirada import Attention, look
    >>> from mirada.attention.heads import Tied
    >>> from mirada.attention.scores import Graph
    >>> layer = Attention(Tied(3, heads=1, dim=2), score=Graph(dim=2, heads=1))
    >>> with look(layer) as seen:
    ...     _ = layer(torch.ones(1, 4, 3), where=Edges(torch.tensor([[0, 1, 3], [2, 2, 1]]), 4))
    >>> part = subgraph(seen, [0, 1, 2], [2])
    >>> part[""].edges.tolist(), part[""].weights(head=0).tolist()
    ([[0, 1], [2, 2]], [[0.5, 0.5]])
    """
    index, rows = torch.tensor(nodes), torch.tensor(targets)
    return seen.with_requests(lambda call: _restricted(call, index, rows))


def _restricted(call: Call, nodes: torch.Tensor, targets: torch.Tensor) -> Request:
    """What a call attended with, on some nodes only."""
    request = call.request
    graph = exact.edges_of(request)
    if graph is None:
        raise ValueError(f"{call.name or 'the layer'} attends over no graph: it has no subgraph")
    source, target = graph.pairs.cpu()
    kept = torch.isin(target, targets) & torch.isin(source, nodes)
    place = torch.full((call.keys,), -1).index_put_((nodes,), torch.arange(len(nodes)))
    where = Edges(torch.stack([place[source[kept]], place[target[kept]]]), len(nodes)).to(request.q.device)
    index = nodes.to(request.q.device)
    q, k, v = (x.index_select(2, index) for x in (request.q, request.k, request.v))
    places = Places.count(len(nodes), len(nodes), device=request.q.device)
    smaller = replace(request, q=q, k=k, v=v, where=where, places=places, reweigh=None)
    parts = len(request.where.conjuncts())
    if request.reweigh is not None or parts > 1 or graph.weighs_pairs:  # places of the whole graph decide too
        used = torch.zeros(call.batch, call.heads, len(nodes), len(nodes))
        used[..., place[target[kept]], place[source[kept]]] = call.weights()[..., kept].cpu().float()
        smaller = replace(smaller, reweigh=UsedWeights(used))
    return smaller


@dataclass(frozen=True, eq=False)
class UsedWeights:
    """The weights between some nodes as they were used: what changed them cannot be asked again without the other nodes."""

    weights: Float[Tensor, "batch heads nodes nodes"]
    whole: bool = True

    def __call__(self, weights: Tensor, places: Places, mask: Mask) -> Tensor:
        return self.weights.to(weights)


@torch.inference_mode(False)
@torch.no_grad()
def graph_methods(
    model: nn.Module, features: Tensor, edges: Edges, seen: Seen, node: int, wanted: int, shown: Sequence[int]
) -> Methods:
    """What the class `wanted` of a node depended on, among the nodes `shown`: one row, by four methods.

    Ablation takes away the edges that lead from a node, one node after the other, and reads how far the log-probability
    falls; a node that no path of the layers' depth leads from changes nothing and is not tried.
    """
    require(
        not model.training, "the model is in training mode, where dropout makes every pass another: call model.eval()"
    )
    calls = [seen[name] for name in seen.names]
    require(all(call.edges is not None for call in calls), "the model has layers that attend over no graph")
    features = features.clone() if features.is_inference() else features
    index = torch.tensor(list(shown))
    rolled = edge_rollout(calls, node)

    def log_probability(graph: Edges) -> float:
        return float(model(features, graph)[node].float().log_softmax(-1)[wanted])

    whole, falls = log_probability(edges), torch.zeros(len(index))
    source = edges.pairs[0]
    for place, other in enumerate(shown):
        if rolled[other] > 0 and bool((source == other).any()):
            falls[place] = whole - log_probability(Edges(edges.pairs[:, source != other], edges.nodes))
    matrices = {
        "attention": torch.stack([_node_row(call, node) for call in calls]).mean(0)[index],
        "value_norm": torch.stack([_node_row(call, node, norms=True) for call in calls]).mean(0)[index],
        "rollout": rolled[index],
        "ablation": falls.clamp(min=0),
    }
    return Methods.of({name: row.unsqueeze(0) for name, row in matrices.items()}, ANSWER, "nodes")


def _node_row(call: Call, node: int, norms: bool = False) -> Float[Tensor, " nodes"]:
    """How much a node looked at every node, the mean of heads; with `norms`, times the size of what it brought."""
    assert call.edges is not None
    source, target = call.edges.cpu()
    mine = target == node
    weights = call.weights()[0][:, mine.to(call.request.q.device)].cpu().float()
    if norms:
        weights = weights * call.values()[0].cpu().float().norm(dim=-1)[:, source[mine]]
    return torch.zeros(call.keys).index_add_(0, source[mine], weights.mean(0))


def edge_rollout(calls: Sequence[Call], node: int) -> Float[Tensor, " nodes"]:
    """What a node has seen of every node after all layers: `rollout`, one row of it, edge by edge."""
    row = torch.zeros(calls[-1].queries)
    row[node] = 1
    for call in reversed(calls):
        assert call.edges is not None
        source, target = call.edges.cpu()
        weights = call.weights()[0].cpu().float().mean(0)
        sums = torch.zeros(call.queries).index_add_(0, target, weights)
        rows = row / (RESIDUAL + (1 - RESIDUAL) * sums)  # a node that sees nothing keeps what it was
        row = RESIDUAL * rows + torch.zeros(call.keys).index_add_(0, source, (1 - RESIDUAL) * weights * rows[target])
    return row
