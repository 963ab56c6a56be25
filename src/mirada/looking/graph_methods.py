"""Raw attention beside value norms, rollout and ablation, for one node of a graph.

Everything is per edge: nothing is nodes x nodes. There is no gradient: a weight per edge has none here (see `attribution`).
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.neighborhoods import Edges
from mirada.errors import require
from mirada.looking.labels import ANSWER
from mirada.looking.methods import Methods
from mirada.looking.record import Call, Seen
from mirada.looking.rollout import RESIDUAL


@torch.inference_mode(False)
@torch.no_grad()
def graph_methods(
    model: nn.Module,
    features: Float[Tensor, "nodes features"],
    edges: Edges,
    seen: Seen,
    node: int,
    wanted: int,
    shown: Sequence[int],
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
        "attention": torch.stack([node_row(call, node) for call in calls]).mean(0)[index],
        "value_norm": torch.stack([node_row(call, node, norms=True) for call in calls]).mean(0)[index],
        "rollout": rolled[index],
        "ablation": falls.clamp(min=0),
    }
    return Methods.of({name: row.unsqueeze(0) for name, row in matrices.items()}, ANSWER, "nodes")


def node_row(call: Call, node: int, norms: bool = False) -> Float[Tensor, " nodes"]:
    """How much a node looked at every node, the mean of heads; with `norms`, times the size of what it brought."""
    assert call.edges is not None
    source, target = call.edges.cpu()
    mine = target == node
    weights = call.weights()[0][:, mine.to(call._request.q.device)].cpu().float()
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
