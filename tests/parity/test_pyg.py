"""Parity with PyTorch Geometric: GATConv, GATv2Conv and TransformerConv, outputs and gradients."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

pyg = pytest.importorskip("torch_geometric.nn")

from mirada import Attention, MultiHead  # noqa: E402
from mirada.attention.heads import Tied  # noqa: E402
from mirada.attention.neighborhoods import Edges  # noqa: E402
from mirada.attention.scores import Graph, GraphV2  # noqa: E402

NODES, WIDTH, HEADS, DIM = 11, 7, 3, 5


@pytest.fixture
def graph() -> torch.Tensor:
    """A random simple graph in which node 0 has no incoming edge."""
    seen = torch.rand(NODES, NODES) < 0.3
    seen[0] = False
    seen.fill_diagonal_(False)
    target, source = seen.nonzero(as_tuple=True)
    return torch.stack([source, target])


def assert_same(ours: Attention, theirs: nn.Module, edges: Edges, edge_index: torch.Tensor) -> None:
    x = torch.randn(NODES, WIDTH, requires_grad=True)
    expected, got = theirs(x, edge_index), ours(x.unsqueeze(0), where=edges).squeeze(0)
    assert_close(got, expected)
    probe = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * probe).sum(), x)[0] for y in (got, expected)]
    assert_close(*gradients)


@pytest.mark.parametrize(("combine", "concat"), [("concat", True), ("mean", False)])
def test_gat(graph: torch.Tensor, combine: str, concat: bool) -> None:
    theirs = pyg.GATConv(WIDTH, DIM, heads=HEADS, concat=concat)
    nn.init.normal_(theirs.bias)
    ours = Attention(Tied(WIDTH, HEADS, DIM, combine), score=Graph(DIM, HEADS))
    with torch.no_grad():
        ours.heads.node.weight.copy_(theirs.lin.weight)
        ours.heads.bias.copy_(theirs.bias)
        ours.score.key.copy_(theirs.att_src[0])
        ours.score.query.copy_(theirs.att_dst[0])
    assert_same(ours, theirs, Edges(graph, NODES).with_self_loops(), graph)


def test_gat_without_self_loops_leaves_an_isolated_node_its_bias(graph: torch.Tensor) -> None:
    ours = Attention(Tied(WIDTH, HEADS, DIM), score=Graph(DIM, HEADS))
    nn.init.normal_(ours.heads.bias)
    y = ours(torch.randn(1, NODES, WIDTH), where=Edges(graph, NODES))
    assert_close(y[0, 0], ours.heads.bias.detach())


@pytest.mark.parametrize("share", [True, False])
def test_gat_v2(graph: torch.Tensor, share: bool) -> None:
    theirs = pyg.GATv2Conv(WIDTH, DIM, heads=HEADS, share_weights=share)
    for bias in (theirs.bias, theirs.lin_l.bias, theirs.lin_r.bias):
        nn.init.normal_(bias)
    heads = Tied(WIDTH, HEADS, DIM, queries="tied" if share else "own", projection_bias=True)
    ours = Attention(heads, score=GraphV2(DIM, HEADS))
    with torch.no_grad():
        heads.node.load_state_dict(theirs.lin_l.state_dict())
        if not share:
            heads.query.load_state_dict(theirs.lin_r.state_dict())
        heads.bias.copy_(theirs.bias)
        ours.score.weight.copy_(theirs.att[0])
    assert_same(ours, theirs, Edges(graph, NODES).with_self_loops(), graph)


def test_transformer_conv(graph: torch.Tensor) -> None:
    theirs = pyg.TransformerConv(WIDTH, DIM, heads=HEADS, root_weight=False)
    ours = Attention(MultiHead(WIDTH, HEADS, dim=DIM, out=HEADS * DIM))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(ours.heads, name).load_state_dict(getattr(theirs, f"lin_{name}").state_dict())
        ours.heads.out.weight.copy_(torch.eye(HEADS * DIM))
    assert_same(ours, theirs, Edges(graph, NODES), graph)


def test_listing_an_edge_twice_changes_nothing(graph: torch.Tensor) -> None:
    ours = Attention(Tied(WIDTH, HEADS, DIM), score=Graph(DIM, HEADS))
    x = torch.randn(1, NODES, WIDTH)
    twice = torch.cat([graph, graph.flip(1)], dim=1)
    assert_close(ours(x, where=Edges(twice, NODES)), ours(x, where=Edges(graph, NODES)))
