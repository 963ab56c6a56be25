"""Graphs whose edges have features or count several times, and whose sources are other nodes than their targets."""

import pytest
import torch
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend, look
from mirada.attention.neighborhoods import Dense, Edges
from mirada.attention.normalizers import Sinks, Softmax, Sparsemax
from mirada.attention.scores import Dot, Graph, GraphV2, Location, Score, Softcap

TARGETS, SOURCES, HEADS, DIM, WIDTH = 5, 7, 3, 2, 2
LISTED = torch.tensor([[6, 0, 1, 6, 2, 0, 6, 4], [3, 1, 1, 3, 0, 4, 3, 3]])  # 6 -> 3 stands there three times


def parts(score: type[Score] = GraphV2) -> tuple[Score, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A score in float64, and queries, keys, values and features of edges with a gradient."""
    made = [torch.randn(1, HEADS, n, DIM, dtype=torch.float64) for n in (TARGETS, SOURCES, SOURCES)]
    made.append(torch.randn(LISTED.shape[1], WIDTH, dtype=torch.float64))
    return score(DIM, HEADS, features=WIDTH).double(), *(x.requires_grad_() for x in made)


def test_features_by_hand() -> None:
    score = Graph(1, 1, features=1)
    for parameter, number in ((score.query, 1.0), (score.key, 1.0), (score.edge, 2.0)):
        parameter.data.fill_(number)
    edges = Edges(
        torch.tensor([[1, 0], [0, 0]]), 1, features=torch.tensor([0.5, 1.0]).log(), sources=2
    )  # 1-D: one each
    q, k, v = torch.full((1, 1, 1, 1), 9.0), torch.zeros(1, 1, 2, 1), torch.tensor([[[[0.0], [10.0]]]])
    # scores 9 + 2 log(1/2) and 9: weights 1/5 of source 1, 4/5 of source 0
    assert_close(attend(q, k, v, score=score, where=edges).flatten(), torch.tensor([2.0]))


@pytest.mark.parametrize("score", [Graph, GraphV2, lambda *a, **b: Softcap(2.0, GraphV2(*a, **b))])
def test_the_kernels_agree_on_counted_edges_with_features(score: type[Score]) -> None:
    made, *tensors = parts(score)
    results = []
    for kernel in ("edges", "reference"):
        q, k, v, features = tensors
        edges = Edges(LISTED, TARGETS, features=features, sources=SOURCES, repeated="count")
        output = attend(q, k, v, score=made, where=edges, kernel=kernel)
        results.append((output, *torch.autograd.grad(output.square().sum(), (*tensors, *made.parameters()))))
    assert_close(*results)


def test_every_listed_edge_is_a_key_of_its_own() -> None:
    score, q, k, v, features = parts()
    edges = Edges(LISTED, TARGETS, features=features, sources=SOURCES, repeated="count")
    got = attend(q, k, v, score=score, where=edges)
    source, target = LISTED
    apart = Edges(torch.stack([torch.arange(8), target]), TARGETS, features=features, sources=8)
    assert_close(got, attend(q, k[:, :, source], v[:, :, source], score=score, where=apart))
    plain = attend(q, k, v, score=Dot(), where=Edges(LISTED, TARGETS, sources=SOURCES, repeated="count"))
    apart = Edges(torch.stack([torch.arange(8), target]), TARGETS, sources=8)
    assert_close(plain, attend(q, k[:, :, source], v[:, :, source], score=Dot(), where=apart))


@pytest.mark.parametrize("kernel", ["edges", "reference"])
def test_second_derivatives_by_features(kernel: str) -> None:
    score, q, k, v, features = parts()

    def output(q: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        edges = Edges(LISTED, TARGETS, features=features, sources=SOURCES, repeated="count")
        return attend(q, k, v, score=score, where=edges, kernel=kernel)

    assert torch.autograd.gradgradcheck(output, (q, features))


def test_gradients_of_features_in_a_function_transform() -> None:
    score, q, k, v, features = parts()

    def loss(features: torch.Tensor) -> torch.Tensor:
        edges = Edges(LISTED, TARGETS, features=features, sources=SOURCES, repeated="count")
        return attend(q, k, v, score=score, where=edges).square().sum()

    (expected,) = torch.autograd.grad(loss(features), features)
    assert_close(torch.func.grad(loss)(features), expected)


def test_only_what_computes_edges_one_by_one_is_planned() -> None:
    layer = Attention(MultiHead(6, 3))
    dense = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    for repeated, kernel in (("join", "fused"), ("count", "reference")):
        where = Edges(torch.cat([dense, dense[:, :1]], dim=1), 5, repeated=repeated)
        assert (
            layer.plan(torch.zeros(1, 5, 6), where=where & Dense(torch.ones(5, 5, dtype=torch.bool))).kernel == kernel
        )
    q = torch.zeros(1, 1, 5, 2)
    with pytest.raises(ValueError, match="features, or count several times"):
        attend(q, q, q, where=where, kernel="fused")


def test_looking_shows_the_weight_of_each_pair_once() -> None:
    score, q, k, v, features = (x.detach().float() if isinstance(x, torch.Tensor) else x.float() for x in parts())
    for normalizer in (Softmax(), Sinks(HEADS)):
        for made, given in ((score, features), (Dot(), None)):
            edges = Edges(LISTED, TARGETS, features=given, sources=SOURCES, repeated="count")
            with look() as seen:
                output = attend(q, k, v, score=made, where=edges, normalizer=normalizer)
            (call,) = seen["attend"].calls
            assert torch.equal(call.edges, edges.pairs)
            dense = torch.zeros(1, HEADS, TARGETS, SOURCES)
            dense[:, :, call.edges[1], call.edges[0]] = call.weights()
            assert_close(dense @ v, output)


def test_self_loops_are_added_where_they_miss() -> None:
    features = torch.arange(10.0).view(5, 2).requires_grad_()
    edges = Edges(torch.tensor([[2, 1, 0, 1, 2], [0, 0, 1, 1, 1]]), 3, features=features).with_self_loops()
    assert edges.edge_index[:, 5:].tolist() == [[0, 2], [0, 2]]
    assert edges.features[5:].tolist() == [[1.0, 2.0], [0.0, 0.0]]  # the mean of the edges to node 0; node 2 has none
    sampled = Edges(torch.tensor([[3], [0]]), 2, sources=4).with_self_loops()
    assert sampled.pairs.tolist() == [[0, 3, 1], [0, 0, 1]]


def test_half_precision_and_devices() -> None:
    score, q, k, v, features = (x.detach().bfloat16() if isinstance(x, torch.Tensor) else x.bfloat16() for x in parts())
    edges = Edges(LISTED, TARGETS, features=features, sources=SOURCES, repeated="count")
    got = attend(q, k, v, score=score, where=edges)
    wide = Edges(LISTED, TARGETS, features=features.float(), sources=SOURCES, repeated="count")
    assert_close(
        got.float(), attend(q.float(), k.float(), v.float(), score=score.float(), where=wide), atol=3e-2, rtol=3e-2
    )
    meta = edges.to(torch.device("meta"))
    assert meta.pairs.is_meta
    assert meta.features.is_meta


ONE = torch.tensor([[0], [1]])
TWICE = torch.tensor([[0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Edges(TWICE, 2, repeated="refuse"), "lists 1 edges again, of 2. Drop them"),
        (lambda: Edges(TWICE, 2, repeated="sum"), "repeated"),
        (lambda: Edges(TWICE, 2, features=torch.tensor([1.0, 2.0])), "features that differ"),
        (lambda: Edges(TWICE, 2, features=torch.ones(3, 2)), "edges=2, width.* got shape"),
        (lambda: Edges(ONE, 2, features=torch.ones(1, 2, dtype=torch.int64)), "floating"),
        (lambda: Edges(ONE, 1, sources=5), "name targets from 0 to 0: got 1 to 1 with nodes=1"),
        (lambda: Edges(ONE.flip(0), 5, sources=1), "name sources from 0 to 0: got 1 to 1 with sources=1"),
    ],
)
def test_graphs_that_cannot_be(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("score", "where", "message"),
    [
        (Dot(), Edges(ONE, 2, features=torch.ones(1, 3)), "reads 0 features of every edge: got 3"),
        (Graph(2, 1, features=3), Edges(ONE, 2), "reads 3 features of every edge: got 0"),
        (
            Graph(2, 1, features=3),
            Edges(ONE, 2, features=torch.ones(1, 3)) | Edges(ONE, 2),
            "features of every edge: got 0",
        ),
        (Dot(), ~Edges(TWICE, 2, repeated="count"), "only be joined by &"),
        (Dot(), Edges(TWICE, 2, repeated="count") & Edges(TWICE.clone(), 2, repeated="count"), "stand once"),
    ],
)
def test_what_would_be_ignored_is_refused(score: Score, where: Edges, message: str) -> None:
    q = torch.zeros(1, 1, 2, 2)
    with pytest.raises(ValueError, match=message):
        attend(q, q, q, score=score, where=where)


def test_counting_needs_a_softmax() -> None:
    q = torch.zeros(1, 1, 2, 2)
    with pytest.raises(ValueError, match="need a softmax: got Sparsemax"):
        attend(q, q, q, where=Edges(TWICE, 2, repeated="count"), normalizer=Sparsemax())


def test_features_that_agree_are_joined() -> None:
    edges = Edges(TWICE, 2, features=torch.tensor([[2.0], [2.0]]))
    score, x = Graph(2, 1, features=1), torch.randn(1, 1, 2, 2)
    once = Edges(ONE, 2, features=torch.tensor([[2.0]]))
    assert_close(attend(x, x, x, score=score, where=edges), attend(x, x, x, score=score, where=once))
    assert edges.counts.tolist() == [1]


def test_places_that_are_scored_count_too() -> None:
    score, x = Location(2, 2), torch.randn(1, 1, 2, 2)
    index = torch.tensor([[0, 1, 1], [0, 0, 0]])
    got = attend(x, x, x, score=score, where=Edges(index, 2, repeated="count"))
    scores = score(x, x)[0, 0, 0] + torch.tensor([1.0, 2.0]).log()
    assert_close(got[0, 0, 0], scores.softmax(-1) @ x[0, 0])


@pytest.mark.parametrize("score", [Graph, GraphV2])
def test_a_graph_without_edges(score: type[Score]) -> None:
    edges, x = Edges(torch.zeros(2, 0), 3, features=torch.zeros(0, 2)), torch.randn(1, HEADS, 3, DIM)
    made = score(DIM, HEADS, features=2)
    assert not attend(x, x, x, score=made, where=edges).any()
    assert_close(attend(x, x, x, score=made, where=edges.with_self_loops()), x)
