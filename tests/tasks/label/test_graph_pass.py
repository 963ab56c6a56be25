"""What a node's class depended on: the dense rollout, edge by edge, and real runs without a neighbor."""

import pytest
import torch
from torch.testing import assert_close

from mirada import Cut, DropHead, Force, MaskKey, intervene, look
from mirada.attention.neighborhoods import Edges
from mirada.looking.explain.measures import rollout
from mirada.models.gat import GAT, GATConfig
from mirada.tasks.label.graph_pass import edge_rollout, graph_methods, subgraph

PAIRS = torch.tensor([[0, 1, 2, 3, 4, 2, 6], [1, 2, 1, 2, 3, 0, 5]])
NODES = 7


def made() -> tuple[GAT, torch.Tensor, Edges]:
    torch.manual_seed(1)
    return GAT(GATConfig.tiny()).eval(), torch.randn(NODES, 5), Edges(PAIRS, NODES).with_self_loops()


def test_the_rollout_is_the_dense_one() -> None:
    model, x, edges = made()
    with torch.no_grad(), look(model) as seen:
        model(x, edges)
    dense = []
    for name in seen.names:
        call = seen[name]
        weights = torch.zeros(call.heads, NODES, NODES)
        weights[:, edges.pairs[1], edges.pairs[0]] = call.weights()[0]
        dense.append(weights)
    for node in range(NODES):
        assert_close(edge_rollout([seen[name] for name in seen.names], node), rollout(dense)[node])


def test_ablation_is_a_run_without_the_neighbor() -> None:
    model, x, edges = made()
    with torch.no_grad(), look(model) as seen:
        scores = model(x, edges)
    node, wanted = 1, int(scores[1].argmin())
    found = graph_methods(model, x, edges, seen, node, wanted, range(NODES))
    assert list(found.matrices) == ["attention", "value_norm", "rollout", "ablation"]
    assert (found.rows, found.columns) == ("answer", "nodes")
    falls = []
    for other in range(NODES):
        with torch.no_grad(), intervene(model, dict.fromkeys(seen.names, MaskKey(other))):
            after = model(x, edges)
        falls.append(float((scores[node].log_softmax(-1) - after[node].log_softmax(-1))[wanted]))
    expected = torch.tensor(falls).clamp(min=0)
    assert_close(found.matrices["ablation"][0], expected / expected.sum(), atol=1e-5, rtol=1e-4)
    assert float(found.matrices["attention"][0, [4, 5, 6]].max()) == 0  # no neighbors
    assert float(found.matrices["rollout"][0, 3]) > 0  # a neighbor of a neighbor
    assert float(found.matrices["rollout"][0, [5, 6]].max()) == 0  # another island


def test_some_nodes_in_their_order() -> None:
    model, x, edges = made()
    with torch.no_grad(), look(model) as seen:
        model(x, edges)
    whole = graph_methods(model, x, edges, seen, 2, 0, range(NODES))
    some = graph_methods(model, x, edges, seen, 2, 0, [3, 1, 2])
    for name, matrix in some.matrices.items():
        part = whole.matrices[name][:, [3, 1, 2]]
        assert_close(matrix, part / part.sum().clamp(min=1e-30), atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="training mode"):
        graph_methods(model.train(), x, edges, seen, 2, 0, [3])


@pytest.mark.parametrize(
    "change",
    [DropHead(1), Cut(2, 1), MaskKey(3), Force(2, 3, 0.75, head=0), lambda weights: weights / 2],
    ids=lambda change: type(change).__name__,
)
def test_a_part_of_a_graph_shows_the_weights_that_a_change_left(change: object) -> None:
    model, x, edges = made()
    with torch.no_grad(), intervene(model, {"layers.0": change}), look(model) as seen:
        model(x, edges)
    nodes, targets = [1, 2, 3, 4], [2, 3]  # all sources of these targets are among the nodes
    part, whole = subgraph(seen, nodes, targets), seen["layers.0"]
    source, target = whole.edges
    kept = torch.isin(target, torch.tensor(targets))
    told = {(nodes[a], nodes[b]): n for n, (a, b) in enumerate(part["layers.0"].edges.T.tolist())}
    order = [told[pair] for pair in zip(source[kept].tolist(), target[kept].tolist(), strict=True)]
    assert_close(part["layers.0"].weights()[..., order], whole.weights()[..., kept])
    assert_close(part["layers.0"].output()[:, :, 1:3], whole.output()[:, :, targets])
