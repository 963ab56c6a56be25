"""Graph attention networks: by loops over nodes, blind to the names of nodes and to other graphs."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from mirada import look
from mirada.attention.neighborhoods import Edges
from mirada.models.gat import GAT, GATConfig

SIZES = {
    "features": 5, "classes": 7, "dim": 3, "heads": 2, "last_heads": 4, "dropout": 0.0, "weight_dropout": 0.0,
}  # fmt: skip
NODES = 11
# sources above targets; node 9 has one edge to itself, node 10 has none
EDGES = torch.tensor([[0, 1, 2, 2, 5, 6, 8, 3, 4, 9, 7, 0], [1, 1, 4, 0, 3, 1, 5, 8, 2, 9, 6, 7]])
SCORES, DEPTHS = ["graph", "graphv2"], [1, 2, 3]


def config(**changes: object) -> GATConfig:
    return GATConfig(**(SIZES | changes))


def made(config: GATConfig, dtype: torch.dtype = torch.float64) -> GAT:
    """A model in evaluation with random numbers in every parameter, the biases too."""
    model = GAT(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def features(nodes: int = NODES, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(nodes, 5, generator=torch.Generator().manual_seed(seed)).to(dtype)


def by_hand(model: GAT, x: Tensor, edges: Tensor, self_loops: bool = True) -> Tensor:
    """Every layer, head and node by itself: softmax over the neighbors of the score, sum of what they say."""
    pairs = {(int(s), int(t)) for s, t in edges.T} | ({(n, n) for n in range(len(x))} if self_loops else set())
    for number, layer in enumerate(model.layers):
        x = F.elu(x) if number else x
        heads, score, joined = layer.heads, layer.score, []
        for h in range(heads.heads):
            rows = slice(h * heads.dim, (h + 1) * heads.dim)
            said = x @ heads.node.weight[rows].T
            asked = said
            if heads.query is not None:
                said = said + heads.node.bias[rows]
                asked = x @ heads.query.weight[rows].T + heads.query.bias[rows]
            out = torch.zeros_like(said)
            for i in range(len(x)):
                neighbors = sorted(s for s, t in pairs if t == i)
                if not neighbors:
                    continue
                if model.config.score == "graph":
                    e = [F.leaky_relu(score.query[h] @ asked[i] + score.key[h] @ said[j], 0.2) for j in neighbors]
                else:
                    e = [score.weight[h] @ F.leaky_relu(asked[i] + said[j], 0.2) for j in neighbors]
                out[i] = torch.softmax(torch.stack(e), 0) @ said[neighbors]
            joined.append(out)
        last = number == len(model.layers) - 1
        x = (sum(joined) / len(joined) if last else torch.cat(joined, dim=-1)) + heads.bias
    return x


# By hand


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_every_layer_by_loops_over_nodes(score, depth, self_loops):
    model, x = made(config(score=score, depth=depth, self_loops=self_loops)), features()
    scores = model(x, EDGES)
    assert scores.shape == (NODES, 7)
    assert_close(scores, by_hand(model, x, EDGES, self_loops))


@pytest.mark.parametrize("score", SCORES)
def test_gradients_are_those_of_the_loops(score):
    model, x = made(config(score=score)), features().requires_grad_()
    mix = torch.randn(NODES, 7, dtype=torch.float64)
    inputs = [x, *model.parameters()]
    ours = torch.autograd.grad((model(x, EDGES) * mix).sum(), inputs)
    theirs = torch.autograd.grad((by_hand(model, x, EDGES) * mix).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other)


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_single_precision_agrees(score):
    model = made(config(score=score), torch.float32)
    x = features(dtype=torch.float32)
    assert_close(model(x, EDGES), by_hand(model, x, EDGES), rtol=1e-4, atol=1e-5)


def test_the_network_of_the_paper_has_its_parameters():
    model = GAT(GATConfig())
    first, last = 1433 * 64 + 2 * 64 + 64, 64 * 7 + 2 * 7 + 7
    assert sum(parameter.numel() for parameter in model.parameters()) == first + last == 92_373


def test_layers_widen_to_the_heads_and_end_in_the_classes():
    model = GAT(config(depth=3, score="graphv2"))
    assert [layer.heads.width for layer in model.layers] == [5, 6, 6]
    assert [layer.heads.heads for layer in model.layers] == [2, 2, 4]
    assert [layer.heads.dim for layer in model.layers] == [3, 3, 7]
    assert [layer.heads.combine for layer in model.layers] == ["concat", "concat", "mean"]


# A graph is a set


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("depth", DEPTHS)
@torch.no_grad()
def test_renumbered_nodes_give_renumbered_scores(score, depth):
    model, x = made(config(score=score, depth=depth)), features()
    order = torch.tensor([7, 0, 9, 3, 10, 1, 5, 8, 2, 6, 4])  # the new node n is the old node order[n]
    assert_close(model(x[order], order.argsort()[EDGES]), model(x, EDGES)[order])


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_the_order_of_edges_does_not_matter_and_duplicates_count_once(score):
    model, x = made(config(score=score)), features()
    scores = model(x, EDGES)
    shuffled = EDGES[:, [3, 11, 0, 7, 5, 1, 9, 2, 10, 4, 8, 6]]
    assert_close(model(x, shuffled), scores, rtol=0, atol=0)
    assert_close(model(x, torch.cat([EDGES, shuffled[:, :5], EDGES[:, 2:3]], dim=1)), scores, rtol=0, atol=0)
    loops = torch.arange(NODES).expand(2, -1)  # self loops that are there already are not added twice
    assert_close(model(x, torch.cat([EDGES, loops], dim=1)), scores, rtol=0, atol=0)


@torch.no_grad()
def test_edges_have_a_direction():
    model, x = made(config()), features()
    assert (model(x, EDGES.flip(0)) - model(x, EDGES)).abs().amax() > 1e-2


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_node_sees_as_far_as_the_network_is_deep(depth):
    """In a chain 0 -> 1 -> 2 -> ..., node n depends on n and on the `depth` nodes before it."""
    model, x = made(config(depth=depth)), features().requires_grad_()
    chain = torch.stack([torch.arange(NODES - 1), torch.arange(1, NODES)])
    scores, mix = model(x, chain), torch.randn(7, dtype=torch.float64)
    for node in range(NODES):
        (gradient,) = torch.autograd.grad(scores[node] @ mix, x, retain_graph=True)
        seen = [other for other in range(NODES) if gradient[other].abs().amax() > 0]
        assert seen == list(range(max(0, node - depth), node + 1))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("self_loops", [True, False])
def test_isolated_nodes_are_finite(score, self_loops):
    model, x = made(config(score=score, self_loops=self_loops)), features()
    scores = model(x, EDGES)
    assert scores.isfinite().all()
    scores.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    if not self_loops:
        assert_close(scores[10], model.layers[1].heads.bias)  # nobody to hear
    nobody = model(x, torch.zeros(2, 0, dtype=torch.long))
    assert nobody.isfinite().all()
    if not self_loops:
        assert_close(nobody, model.layers[1].heads.bias.expand(NODES, -1))


@torch.no_grad()
def test_no_nodes_have_no_classes():
    assert made(config())(features(0), torch.zeros(2, 0, dtype=torch.long)).shape == (0, 7)


@pytest.mark.parametrize("edges", [EDGES, EDGES[:, :3]], ids=["sparse", "sparser"])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_a_value_of_edges_is_used_as_it_is_again_and_again(score, edges):
    model, x = made(config(score=score)), features()
    where = Edges(edges, NODES)
    assert_close(model(x, where), by_hand(model, x, edges, self_loops=False))
    assert_close(model(x, where), model(x, where), rtol=0, atol=0)
    looped = where.with_self_loops()
    assert_close(model(x, looped), model(x, edges), rtol=0, atol=0)
    assert_close(model(x, model.graph(edges, NODES)), model(x, edges), rtol=0, atol=0)
    assert_close(model(features(seed=2), looped), model(features(seed=2), edges), rtol=0, atol=0)


def test_what_evaluation_worked_out_serves_training():
    model, x, where = made(config()), features(), Edges(EDGES, NODES).with_self_loops()
    with torch.inference_mode():
        seen = model(x, where).clone()
    model.train()
    scores = model(x, where)
    assert_close(scores, seen)
    scores.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


# Looking


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_look_sees_a_weight_for_every_edge(score):
    model, x = made(config(score=score)), features()
    with look(model) as seen:
        model(x, EDGES)
    assert seen.names == ["layers.0", "layers.1"]
    expected = sorted({(int(t), int(s)) for s, t in EDGES.T} | {(n, n) for n in range(NODES)})
    for name, heads in (("layers.0", 2), ("layers.1", 4)):
        call = seen[name]
        assert call.kind == "graph"
        assert call.edges.T.flip(1).tolist() == [list(pair) for pair in expected]
        weights = call.weights()
        assert weights.shape == (1, heads, len(expected))
        sums = torch.zeros(1, heads, NODES, dtype=weights.dtype).index_add(2, call.edges[1], weights)
        assert_close(sums, torch.ones_like(sums))
        assert_close(weights[0, :, -1], torch.ones(heads, dtype=weights.dtype))  # node 10 sees only itself


@torch.no_grad()
def test_the_weights_are_what_mixes_the_nodes():
    model, x = made(config(depth=1)), features()
    with look(model) as seen:
        scores = model(x, EDGES)
    call, said = seen["layers.0"], model.layers[0].heads.values(x.unsqueeze(0))[0]
    source, target = call.edges
    mixed = torch.zeros(4, NODES, 7, dtype=x.dtype)
    mixed.index_add_(1, target, call.weights()[0].unsqueeze(-1) * said[:, source])
    assert_close(scores, mixed.mean(0) + model.layers[0].heads.bias)


@torch.no_grad()
def test_gat_ranks_neighbors_alike_for_all_and_gatv2_does_not():
    """Brody, Alon and Yahav's reason for the second version, on a complete graph."""
    everyone = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    favorites = {}
    for score in SCORES:
        model = made(config(score=score, depth=1, dim=7, last_heads=1))
        with look(model) as seen:
            model(5 * features(), everyone)
        weights = seen["layers.0"].weights()[0, 0]
        source, target = seen["layers.0"].edges
        dense = torch.zeros(NODES, NODES, dtype=weights.dtype)
        dense[target, source] = weights
        favorites[score] = set(dense.argmax(1).tolist())
    assert len(favorites["graph"]) == 1
    assert len(favorites["graphv2"]) > 1


# Training


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("rates", [(0.6, 0.6), (0.0, 0.5), (0.5, 0.0)])
def test_training_with_dropout_has_finite_gradients(score, rates):
    dropout, weight_dropout = rates
    model = made(config(score=score, depth=3, dropout=dropout, weight_dropout=weight_dropout)).train()
    x, classes = features(), torch.arange(NODES) % 7
    first, second = model(x, EDGES), model(x, EDGES)
    assert (first - second).abs().amax() > 1e-3
    model.loss(x, EDGES, classes).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    assert_close(model(x, EDGES), model(x, EDGES), rtol=0, atol=0)
    assert_close(model(x, EDGES), by_hand(model, x, EDGES))


def test_weight_dropout_keeps_the_expectation():
    model, x = made(config(depth=1, weight_dropout=0.5)), features()
    expected = model(x, EDGES)
    model.train()
    with torch.no_grad():
        draws = torch.stack([model(x, EDGES) for _ in range(600)])
    error = (draws.mean(0) - expected).abs() / (draws.std(0) / 600**0.5 + 1e-9)
    assert error.amax() < 6  # standard errors, the largest of 77


def test_the_loss_is_over_the_nodes_whose_class_is_known():
    model, x, classes = made(config()), features(), torch.arange(NODES) % 7
    log = model(x, EDGES).log_softmax(-1)
    assert_close(model.loss(x, EDGES, classes), -sum(log[n, n % 7] for n in range(NODES)) / NODES)
    known = torch.zeros(NODES, dtype=torch.bool)
    known[[2, 10]] = True
    assert_close(model.loss(x, EDGES, classes, known), -(log[2, 2] + log[10, 3]) / 2)
    weighed = model.loss(x, EDGES, classes, known, torch.tensor([0.5, 3.0]))
    assert_close(weighed, -(0.5 * log[2, 2] + 3 * log[10, 3]) / 2)


def test_a_loss_without_known_classes_is_refused():
    model, x, classes = made(config()), features(), torch.arange(NODES) % 7
    with pytest.raises(ValueError, match="the loss needs at least one node whose class is known: got none"):
        model.loss(x, EDGES, classes, torch.zeros(NODES, dtype=torch.bool))


# Weights and errors


def test_edges_of_another_graph_are_refused():
    with pytest.raises(ValueError, match=r"needs keys=5, one per node: got queries up to 11, keys=11"):
        made(config())(features(), Edges(torch.tensor([[0], [1]]), nodes=5))


@pytest.mark.parametrize("wrong", [7, -1])
def test_a_class_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match="class"):
        made(config()).loss(features(), EDGES, torch.full((NODES,), wrong))
