"""Parity of our graph attention network with layers of PyTorch Geometric: outputs and gradients.

An edge that is listed twice counts twice there and once here, where edges are a set; so no edge is listed twice in these
graphs. An edge from a node to itself is different: where self loops are added, both keep one per node.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

pyg = pytest.importorskip("torch_geometric.nn")

from mirada.models.gat import GAT, GATConfig  # noqa: E402

NODES, FEATURES, CLASSES, DIM, HEADS, LAST_HEADS = 17, 7, 5, 3, 2, 4
NEAR = {"atol": 1e-4, "rtol": 1e-4}


class Theirs(nn.Module):
    """GATConv or GATv2Conv layers with elu between them, heads side by side, averaged in the last layer."""

    def __init__(self, score: str, depth: int, self_loops: bool) -> None:
        super().__init__()
        kind = {"graph": pyg.GATConv, "graphv2": pyg.GATv2Conv}[score]
        widths = [FEATURES] + [HEADS * DIM] * (depth - 1)
        self.layers = nn.ModuleList(kind(w, DIM, heads=HEADS, add_self_loops=self_loops) for w in widths[:-1])
        self.layers.append(kind(widths[-1], CLASSES, heads=LAST_HEADS, concat=False, add_self_loops=self_loops))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            nodes = F.elu(layer(nodes, edges))
        return self.layers[-1](nodes, edges)


def pairs(ours: GAT, theirs: Theirs) -> list[tuple[nn.Parameter, nn.Parameter]]:
    """Our parameters and theirs, all of them."""
    found: list[tuple[nn.Parameter, nn.Parameter]] = []
    for mine, other in zip(ours.layers, theirs.layers, strict=True):
        found.append((mine.heads.bias, other.bias))
        if ours.config.score == "graph":
            # the source of an edge is the key
            found += [(mine.heads.node.weight, other.lin.weight)]
            found += [(mine.score.key, other.att_src), (mine.score.query, other.att_dst)]
        else:
            found += zip(mine.heads.node.parameters(), other.lin_l.parameters(), strict=True)
            found += zip(mine.heads.query.parameters(), other.lin_r.parameters(), strict=True)
            found += [(mine.score.weight, other.att)]
    assert len(found) == len(list(ours.parameters())) == len(list(theirs.parameters()))
    return found


@pytest.fixture
def edges() -> torch.Tensor:
    """Random edges, every one once: node 0 has none at all, node 1 only goes out, node 2 has a loop."""
    seen = torch.rand(NODES, NODES) < 0.3  # from row to column
    seen.fill_diagonal_(False)
    seen[0], seen[:, 0], seen[:, 1] = False, False, False
    seen[1, 3] = seen[2, 2] = True
    edges = torch.stack(seen.nonzero(as_tuple=True))
    return edges[:, torch.randperm(edges.shape[1])]


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("score", ["graph", "graphv2"])
def test_outputs_and_all_gradients_are_equal(edges: torch.Tensor, score: str, depth: int, self_loops: bool) -> None:
    theirs = Theirs(score, depth, self_loops)
    ours = GAT(
        GATConfig(
            features=FEATURES, classes=CLASSES, dim=DIM, heads=HEADS, last_heads=LAST_HEADS, depth=depth, score=score,
            dropout=0.0, weight_dropout=0.0, self_loops=self_loops,
        )
    )  # fmt: skip
    with torch.no_grad():
        for mine, other in pairs(ours, theirs):
            mine.copy_(other.view_as(mine))
    nodes = torch.randn(NODES, FEATURES, requires_grad=True)
    got, wanted = ours(nodes, edges), theirs(nodes, edges)
    assert_close(got, wanted, **NEAR)
    if not self_loops:
        assert_close(got[0], ours.layers[-1].heads.bias, **NEAR)  # who sees nothing is left with the bias

    probe = torch.randn_like(got)
    gradients = [torch.autograd.grad((y * probe).sum(), nodes, retain_graph=True) for y in (got, wanted)]
    assert_close(*gradients, **NEAR)
    (got * probe).sum().backward()
    (wanted * probe).sum().backward()
    for mine, other in pairs(ours, theirs):
        assert_close(mine.grad, other.grad.view_as(mine), **NEAR)
        assert other.grad.abs().max() > 0.02


def test_an_edge_listed_twice_counts_twice_there_and_once_here(edges: torch.Tensor) -> None:
    theirs = Theirs("graphv2", 2, self_loops=True)
    ours = GAT(
        GATConfig(features=FEATURES, classes=CLASSES, dim=DIM, heads=HEADS, last_heads=LAST_HEADS, score="graphv2")
    )
    ours.eval()
    nodes, twice = torch.randn(NODES, FEATURES), torch.cat([edges, edges[:, :5]], dim=1)
    assert_close(ours(nodes, twice), ours(nodes, edges), atol=0, rtol=0)
    with pytest.raises(AssertionError):
        assert_close(theirs(nodes, twice), theirs(nodes, edges), **NEAR)
