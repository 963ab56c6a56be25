"""Parity with PyTorch Geometric: GATConv, GATv2Conv and TransformerConv, outputs and gradients."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

pyg = pytest.importorskip("torch_geometric.nn")

from mirada import Attention, MultiHead  # noqa: E402
from mirada.attention.heads import Tied  # noqa: E402
from mirada.attention.neighborhoods import Documents, Edges  # noqa: E402
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


# Edges with features, other sources than targets, edges listed several times, and what PyG's loaders give.

FEATURES, TARGETS = 2, 5


def gat_with_features(theirs: nn.Module) -> Attention:
    ours = Attention(Tied(WIDTH, HEADS, DIM), score=Graph(DIM, HEADS, features=FEATURES))
    nn.init.normal_(theirs.bias)
    with torch.no_grad():
        ours.heads.node.weight.copy_(theirs.lin.weight)
        ours.heads.bias.copy_(theirs.bias)
        ours.score.key.copy_(theirs.att_src[0])
        ours.score.query.copy_(theirs.att_dst[0])
        of_edges = theirs.lin_edge.weight.view(HEADS, DIM, FEATURES)
        ours.score.edge.copy_(torch.einsum("hdf,hd->hf", of_edges, theirs.att_edge[0]))
    return ours


def gat_v2_with_features(theirs: nn.Module) -> Attention:
    heads = Tied(WIDTH, HEADS, DIM, queries="own", projection_bias=True)
    ours = Attention(heads, score=GraphV2(DIM, HEADS, features=FEATURES))
    for bias in (theirs.bias, theirs.lin_l.bias, theirs.lin_r.bias):
        nn.init.normal_(bias)
    with torch.no_grad():
        heads.node.load_state_dict(theirs.lin_l.state_dict())
        heads.query.load_state_dict(theirs.lin_r.state_dict())
        heads.bias.copy_(theirs.bias)
        ours.score.weight.copy_(theirs.att[0])
        ours.score.edge.copy_(theirs.lin_edge.weight.view(HEADS, DIM, FEATURES))
    return ours


MADE = {"gat": (pyg.GATConv, gat_with_features), "gatv2": (pyg.GATv2Conv, gat_v2_with_features)}


@pytest.mark.parametrize("kernel", ["edges", "reference"])
@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("name", MADE)
def test_features_of_edges(graph: torch.Tensor, name: str, loops: bool, kernel: str) -> None:
    make, same = MADE[name]
    theirs = make(WIDTH, DIM, heads=HEADS, edge_dim=FEATURES, add_self_loops=loops)
    ours = same(theirs)
    ours.kernel = kernel
    graph = graph[:, torch.randperm(graph.shape[1])]
    x = torch.randn(NODES, WIDTH, requires_grad=True)
    features = torch.randn(graph.shape[1], FEATURES, requires_grad=True)
    edges = Edges(graph, NODES, features=features)
    expected = theirs(x, graph, edge_attr=features)
    got = ours(x[None], where=edges.with_self_loops() if loops else edges)[0]
    assert_close(got, expected)
    probe = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * probe).sum(), (x, features)) for y in (got, expected)]
    assert_close(*gradients)


@pytest.mark.parametrize("kernel", ["edges", "reference"])
@pytest.mark.parametrize("name", MADE)
def test_edges_listed_again_are_counted_as_theirs(graph: torch.Tensor, name: str, kernel: str) -> None:
    make, same = MADE[name]
    theirs = make(WIDTH, DIM, heads=HEADS, edge_dim=FEATURES, add_self_loops=False)
    ours = same(theirs)
    ours.kernel = kernel
    twice = torch.cat([graph, graph[:, ::2], graph[:, ::4]], dim=1)
    features = torch.randn(twice.shape[1], FEATURES)
    edges = Edges(twice, NODES, features=features, repeated="count")
    x = torch.randn(NODES, WIDTH)
    assert_close(ours(x[None], where=edges)[0], theirs(x, twice, edge_attr=features))


@pytest.mark.parametrize("kernel", ["edges", "reference"])
@pytest.mark.parametrize("features", [0, FEATURES])
def test_sources_that_are_other_nodes(graph: torch.Tensor, features: int, kernel: str) -> None:
    theirs = pyg.GATv2Conv((WIDTH, WIDTH), DIM, heads=HEADS, edge_dim=FEATURES, add_self_loops=False)
    ours = gat_v2_with_features(theirs)
    given = torch.randn(graph.shape[1], FEATURES) if features else None
    if not features:
        ours.score = GraphV2(DIM, HEADS)
        ours.score.weight.data.copy_(theirs.att[0])
    ours.kernel = kernel
    graph = graph[:, graph[1] < TARGETS]
    given = None if given is None else given[: graph.shape[1]]
    sources, targets = (torch.randn(n, WIDTH, requires_grad=True) for n in (NODES, TARGETS))
    expected = theirs((sources, targets), graph, edge_attr=given)
    edges = Edges(graph, TARGETS, features=given, sources=NODES)
    got = ours(targets[None], memory=sources[None], where=edges)[0]
    assert_close(got, expected)
    probe = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * probe).sum(), (sources, targets)) for y in (got, expected)]
    assert_close(*gradients)


def test_a_batch_of_graphs_is_one_graph_of_all(graph: torch.Tensor) -> None:
    data = pytest.importorskip("torch_geometric.data")
    attention = Attention(Tied(WIDTH, HEADS, DIM), score=Graph(DIM, HEADS, features=FEATURES))
    graphs = []
    for nodes in (3, 7, NODES):
        index = graph[:, (graph < nodes).all(0)]
        graphs.append(data.Data(torch.randn(nodes, WIDTH), index, torch.randn(index.shape[1], FEATURES)))
    batch = next(iter(pytest.importorskip("torch_geometric.loader").DataLoader(graphs, batch_size=3)))
    got = attention(batch.x[None], where=Edges(batch.edge_index, len(batch.x), features=batch.edge_attr))[0]
    each = [attention(g.x[None], where=Edges(g.edge_index, len(g.x), features=g.edge_attr))[0] for g in graphs]
    assert_close(got, torch.cat(each))
    within = Attention(MultiHead(WIDTH, 1))  # all nodes of the same graph, by the vector of the batch
    got = within(batch.x[None], where=Documents(batch.batch[None]))[0]
    assert_close(got, torch.cat([within(g.x[None])[0] for g in graphs]))


def test_an_edge_index_of_theirs_is_taken(graph: torch.Tensor) -> None:
    index = pytest.importorskip("torch_geometric").EdgeIndex(graph, sparse_size=(NODES, NODES))
    assert torch.equal(Edges(index, NODES).pairs, Edges(graph, NODES).pairs)
    assert type(Edges(index, NODES).with_self_loops().edge_index) is torch.Tensor


def sampled(whole: object, seeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The nodes, edges and features that NeighborLoader gives for these seeds; by hand where its sampler is missing."""
    loader = pytest.importorskip("torch_geometric.loader")
    try:
        batch = next(iter(loader.NeighborLoader(whole, [-1], input_nodes=seeds, batch_size=len(seeds))))
    except ImportError:
        edges = torch.isin(whole.edge_index[1], seeds)
        used = whole.edge_index[:, edges]
        nodes = torch.cat([seeds, used[0].unique()[~torch.isin(used[0].unique(), seeds)]])
        place = torch.full((NODES,), -1).index_put_((nodes,), torch.arange(len(nodes)))
        return nodes, place[used], whole.edge_attr[edges]
    return batch.n_id, batch.edge_index, batch.edge_attr


def test_a_sampled_graph_gives_its_seeds_what_the_whole_graph_gives(graph: torch.Tensor) -> None:
    data = pytest.importorskip("torch_geometric.data")
    x, features, seeds = (
        torch.randn(NODES, WIDTH),
        torch.randn(graph.shape[1], FEATURES),
        torch.randperm(NODES)[:TARGETS],
    )
    nodes, index, of_edges = sampled(data.Data(x, graph, features), seeds)
    attention = Attention(Tied(WIDTH, HEADS, DIM), score=Graph(DIM, HEADS, features=FEATURES))
    expected = attention(x[None], where=Edges(graph, NODES, features=features))[0, seeds]
    edges = Edges(index, TARGETS, features=of_edges, sources=len(nodes))
    assert_close(attention(x[None, seeds], memory=x[None, nodes], where=edges)[0], expected)
