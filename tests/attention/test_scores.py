"""Every score against its formula, worked out pair by pair with plain Python numbers."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.equation import attend
from mirada.attention.normalizers import Identity, Softmax
from mirada.attention.scores import (
    Additive,
    Bilinear,
    Concat,
    Dot,
    Graph,
    GraphV2,
    Location,
    Offset,
    Product,
    Score,
    TanhSum,
)

BATCH, HEADS, QUERIES, KEYS, DIM_Q, DIM_K, HIDDEN = 2, 3, 5, 7, 11, 13, 17
Vector = list[float]


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def queries(dim: int = DIM_Q, heads: int = HEADS, n: int = QUERIES) -> Tensor:
    return numbers(BATCH, heads, n, dim, seed=1)


def keys(dim: int = DIM_K, heads: int = HEADS, n: int = KEYS) -> Tensor:
    return numbers(BATCH, heads, n, dim, seed=2)


def seeded(score: Score, seed: int = 3) -> Score:
    """The score in float64, with random numbers in every parameter, the biases too."""
    score = score.double()
    for place, parameter in enumerate(score.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=seed + place))
    return score


def pair_by_pair(formula: Callable[[Vector, Vector, int], float], q: Tensor, k: Tensor) -> Tensor:
    """formula(q_i, k_j, head) for every pair of a batch."""
    (batch, heads, n, _), m = q.shape, k.shape[2]
    scores = torch.empty(batch, heads, n, m, dtype=torch.float64)
    for sample, head, i, j in product(range(batch), range(heads), range(n), range(m)):
        scores[sample, head, i, j] = formula(q[sample, head, i].tolist(), k[sample, head, j].tolist(), head)
    return scores


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def matvec(rows: list[Vector], x: Vector) -> Vector:
    return [dot(row, x) for row in rows]


def leaky(x: float) -> float:
    return x if x > 0 else 0.2 * x


def row_of(parameter: Tensor, head: int) -> list:
    """The parameter of a head: its own row, or the only one."""
    return parameter[head if len(parameter) > 1 else 0].tolist()


# Dot


def test_dot_by_hand():
    q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 1.0], [2.0, -1.0]]]])
    assert_close(Dot()(q, k), torch.tensor([[[[7 / math.sqrt(2), 2 / math.sqrt(2)]]]]))
    assert_close(Dot(scale=1.0)(q, k), torch.tensor([[[[7.0, 2.0]]]]))
    assert_close(Dot(scale=-0.5)(q, k), torch.tensor([[[[-3.5, -1.0]]]]))


@pytest.mark.parametrize("scale", [None, 1.0, 0.37, 0])
def test_dot_of_every_pair(scale):
    q, k = queries(DIM_Q), keys(DIM_Q)
    factor = 1 / math.sqrt(DIM_Q) if scale is None else scale
    assert_close(Dot(scale)(q, k), pair_by_pair(lambda a, b, _: factor * dot(a, b), q, k))


def test_dot_scale_counts_the_dim_of_one_head():
    assert Dot().factor(16) == 0.25
    assert Dot(scale=3).factor(16) == 3


def test_dot_learned_scale_starts_at_one_and_is_trained():
    score, q, k = Dot("learned").double(), queries(DIM_Q), keys(DIM_Q)
    raw = pair_by_pair(lambda a, b, _: dot(a, b), q, k)
    assert_close(score(q, k), raw)
    score(q, k).sum().backward()
    assert_close(score.scale.grad, raw.sum())
    score.scale.data.fill_(-1.7)
    assert_close(score(q, k), -1.7 * raw)


def test_dot_errors():
    with pytest.raises(ValueError, match=r"unknown scale 'lerned'; known: learned\. Did you mean 'learned'\?"):
        Dot("lerned")
    with pytest.raises(ValueError, match="scale must be a finite number: got inf"):
        Dot(math.inf)
    with pytest.raises(ValueError, match=r"one dim: got q \(2, 3, 5, 11\), k \(2, 3, 7, 13\)\. Use Bilinear"):
        Dot()(queries(), keys())


# Bilinear


def test_bilinear_by_hand():
    score = Bilinear(2, 3)
    score.weight.data.copy_(torch.tensor([[[1.0, 2.0, 0.0], [0.0, -1.0, 3.0]]]))
    q, k = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[1.0, 1.0, 1.0], [5.0, 0.0, -1.0]]]])
    # q^T W = [1, 0, 6]
    assert_close(score(q, k), torch.tensor([[[[7.0, -1.0]]]]))


@pytest.mark.parametrize("heads", [1, HEADS])
def test_bilinear_of_every_pair(heads):
    score, q, k = seeded(Bilinear(DIM_Q, DIM_K, heads)), queries(), keys()
    expected = pair_by_pair(lambda a, b, head: dot(a, matvec(row_of(score.weight, head), b)), q, k)
    assert_close(score(q, k), expected)


@pytest.mark.parametrize(("scale", "factor"), [(None, DIM_Q**-0.5), (0.25, 0.25)])
def test_a_scaled_bilinear_score_before_and_after_its_keys_are_ready(scale, factor):
    plain, scaled = seeded(Bilinear(DIM_Q, DIM_K)), Bilinear(DIM_Q, DIM_K, scale=scale).double()
    scaled.load_state_dict(plain.state_dict())
    q, k = queries(), keys()
    assert_close(scaled(q, k), factor * plain(q, k))
    assert_close(scaled.ready()(q, scaled.keys(k)), factor * plain(q, k))


def test_a_bilinear_score_needs_a_finite_scale():
    with pytest.raises(ValueError, match="scale must be a finite number: got nan"):
        Bilinear(2, 2, scale=math.nan)


def test_bilinear_of_a_product_is_the_dot_of_two_projections():
    q, k, w_q, w_k = queries(), keys(), numbers(HIDDEN, DIM_Q, seed=5), numbers(HIDDEN, DIM_K, seed=6)
    score = Bilinear(DIM_Q, DIM_K).double()
    score.weight.data.copy_(w_q.T @ w_k)
    assert_close(score(q, k), Dot(scale=1.0)(q @ w_q.T, k @ w_k.T))


# Additive


def test_additive_by_hand():
    score = Additive(1, 1, hidden=2).double()
    score.query.data.copy_(torch.tensor([[[0.5], [1.0]]]))
    score.key.data.copy_(torch.tensor([[[-1.0], [2.0]]]))
    score.bias.data.copy_(torch.tensor([[[0.25, -1.0]]]))
    score.v.data.copy_(torch.tensor([[2.0, -3.0]]))
    q, k = torch.tensor([[[[1.0]]]], dtype=torch.float64), torch.tensor([[[[0.5], [0.0]]]], dtype=torch.float64)
    first = 2 * math.tanh(0.5 - 0.5 + 0.25) - 3 * math.tanh(1.0 + 1.0 - 1.0)
    second = 2 * math.tanh(0.5 + 0.25) - 3 * math.tanh(1.0 - 1.0)
    assert_close(score(q, k), torch.tensor([[[[first, second]]]], dtype=torch.float64))


@pytest.mark.parametrize("heads", [1, HEADS])
def test_additive_of_every_pair(heads):
    score, q, k = seeded(Additive(DIM_Q, DIM_K, HIDDEN, heads)), queries(), keys()

    def formula(a: Vector, b: Vector, head: int) -> float:
        from_query, from_key = matvec(row_of(score.query, head), a), matvec(row_of(score.key, head), b)
        bias, v = row_of(score.bias, head)[0], row_of(score.v, head)
        return dot(v, [math.tanh(sum(terms)) for terms in zip(from_query, from_key, bias, strict=True)])

    assert_close(score(q, k), pair_by_pair(formula, q, k))


def test_additive_has_a_bias_inside_the_tanh_that_starts_at_zero_and_none_outside():
    score = Additive(DIM_Q, DIM_K, HIDDEN)
    assert_close(score.bias.data, torch.zeros(1, 1, HIDDEN))
    zeros = score(torch.zeros(1, 1, 2, DIM_Q), torch.zeros(1, 1, 3, DIM_K))
    assert_close(zeros, torch.zeros(1, 1, 2, 3))


# Concat


def test_concat_by_hand():
    score = Concat(1, 2, hidden=1).double()
    score.weight.data.copy_(torch.tensor([[[1.0, 2.0, -1.0]]]))
    score.v.data.copy_(torch.tensor([[3.0]]))
    q, k = torch.tensor([[[[0.5]]]], dtype=torch.float64), torch.tensor([[[[0.25, 0.75]]]], dtype=torch.float64)
    assert_close(score(q, k).item(), 3 * math.tanh(0.5 + 0.5 - 0.75))


@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("hidden", [HIDDEN, None])
def test_concat_of_every_pair(hidden, heads):
    score, q, k = seeded(Concat(DIM_Q, DIM_K, hidden, heads)), queries(), keys()

    def formula(a: Vector, b: Vector, head: int) -> float:
        joined = matvec(row_of(score.weight, head), a + b)
        return joined[0] if hidden is None else dot(row_of(score.v, head), [math.tanh(x) for x in joined])

    assert_close(score(q, k), pair_by_pair(formula, q, k))


def test_concat_query_term_of_the_linear_form_cancels_in_the_softmax():
    score, q, k = seeded(Concat(DIM_Q, DIM_K, None, HEADS)), queries(), keys()
    weights = score(q, k).softmax(-1)
    assert_close(weights, weights[:, :, :1].expand_as(weights))
    # with a hidden layer the query matters
    weights = seeded(Concat(DIM_Q, DIM_K, HIDDEN, HEADS))(q, k).softmax(-1)
    assert (weights[:, :, 0] - weights[:, :, 1]).abs().amax() > 0.01


def test_concat_is_additive_without_a_bias():
    additive, concat = seeded(Additive(DIM_Q, DIM_K, HIDDEN, HEADS)), Concat(DIM_Q, DIM_K, HIDDEN, HEADS).double()
    additive.bias.data.zero_()
    concat.weight.data.copy_(torch.cat([additive.query, additive.key], dim=-1))
    concat.v.data.copy_(additive.v)
    assert_close(concat(queries(), keys()), additive(queries(), keys()))


# TanhSum


@pytest.mark.parametrize("scale", [None, "learned"])
@pytest.mark.parametrize("weight", ["vector", "scalar", None])
def test_tanh_sum_of_every_pair(weight, scale):
    score, q, k = seeded(TanhSum(DIM_Q, weight, scale)), queries(DIM_Q), keys(DIM_Q)
    factor = 1.0 if scale is None else score.scale.item()
    row = [1.0] * DIM_Q if weight is None else score.weight.expand(DIM_Q).tolist()

    def formula(a: Vector, b: Vector, _: int) -> float:
        return dot(row, [math.tanh(factor * (x + y)) for x, y in zip(a, b, strict=True)])

    assert_close(score(q, k), pair_by_pair(formula, q, k))


@pytest.mark.parametrize(("weight", "scale", "count"), [("vector", None, 5), ("scalar", "learned", 2), (None, None, 0)])
def test_tanh_sum_parameters_start_at_one(weight, scale, count):
    score = TanhSum(5, weight, scale)
    assert sum(parameter.numel() for parameter in score.parameters()) == count
    q, k = torch.full((1, 1, 1, 5), 0.2), torch.full((1, 1, 1, 5), 0.1)
    assert_close(score(q, k).item(), 5 * math.tanh(0.3), rtol=1e-6, atol=0)


def test_tanh_sum_errors():
    with pytest.raises(ValueError, match=r"unknown weight 'vectors'; known: scalar, vector\. Did you mean 'vector'\?"):
        TanhSum(3, weight="vectors")
    with pytest.raises(ValueError, match="unknown scale 'fixed'; known: learned"):
        TanhSum(3, scale="fixed")
    with pytest.raises(
        ValueError, match=r"TanhSum\(3\) needs queries of dim 3 and keys of dim 3: got q \(2, 3, 5, 11\)"
    ):
        TanhSum(3)(queries(), keys())


# Location


def test_location_reads_the_query_alone_and_is_cut_to_the_keys():
    score, q = seeded(Location(DIM_Q, max_keys=11)), queries()
    nothing = torch.full((BATCH, HEADS, KEYS, DIM_K), math.nan, dtype=torch.float64)
    rows = score.weight.tolist()
    expected = [[[matvec(rows, a)[:KEYS] for a in head] for head in sample] for sample in q.tolist()]
    assert not score.reads_keys
    assert_close(score(q, nothing), torch.tensor(expected, dtype=torch.float64))
    assert score(q, keys(n=11)).shape == (BATCH, HEADS, QUERIES, 11)


def test_location_errors():
    with pytest.raises(ValueError, match=r"max_keys=7: got keys=11\. Build it larger or cut the source\."):
        Location(DIM_Q, max_keys=7)(queries(), keys(n=11))
    with pytest.raises(ValueError, match="needs queries of dim 5"):
        Location(5, max_keys=7)(queries(), keys())


# Graph attention


def test_graph_by_hand():
    score = Graph(dim=2, heads=1)
    score.query.data.copy_(torch.tensor([[1.0, -1.0]]))
    score.key.data.copy_(torch.tensor([[2.0, 0.5]]))
    q, k = torch.tensor([[[[3.0, 1.0], [0.0, 4.0]]]]), torch.tensor([[[[1.0, 2.0], [-1.0, 0.0]]]])
    # s = [2, -4], t = [3, -2]
    assert_close(score(q, k), torch.tensor([[[[5.0, 0.0], [-0.2, -1.2]]]]))


@pytest.mark.parametrize("heads", [1, HEADS])
def test_graph_of_every_pair(heads):
    score, q, k = seeded(Graph(DIM_Q, heads)), queries(DIM_Q), keys(DIM_Q)

    def formula(a: Vector, b: Vector, head: int) -> float:
        return leaky(dot(row_of(score.query, head) + row_of(score.key, head), a + b))

    assert_close(score(q, k), pair_by_pair(formula, q, k))


def test_graph_ranks_neighbors_the_same_for_every_query():
    score, q, k = seeded(Graph(DIM_Q, HEADS)), queries(DIM_Q, n=31), keys(DIM_Q)
    ranking = score(q, k).argsort(-1)
    assert_close(ranking, ranking[:, :, :1].expand_as(ranking))


@pytest.mark.parametrize("heads", [1, HEADS])
def test_graph_v2_of_every_pair(heads):
    score, q, k = seeded(GraphV2(DIM_Q, heads)), queries(DIM_Q), keys(DIM_Q)

    def formula(a: Vector, b: Vector, head: int) -> float:
        return dot(row_of(score.weight, head), [leaky(x + y) for x, y in zip(a, b, strict=True)])

    assert_close(score(q, k), pair_by_pair(formula, q, k))


def test_graph_v2_lets_each_query_rank_its_own_way():
    score = GraphV2(dim=2, heads=1)
    score.weight.data.fill_(1)
    q, k = torch.tensor([[[[0.0, -10.0], [-10.0, 0.0]]]]), torch.tensor([[[[3.0, 0.0], [0.0, 3.0]]]])
    scores = score(q, k)
    # 3 + 0.2 (-10) = 1 where the key answers the open coordinate, 0 + 0.2 (-7) = -1.4 where it does not
    assert_close(scores, torch.tensor([[[[1.0, -1.4], [-1.4, 1.0]]]]))
    assert scores[0, 0].argmax(-1).tolist() == [0, 1]


# Offset


@pytest.mark.parametrize("heads", [1, HEADS])
@pytest.mark.parametrize("radius", [0, 1, 2])
def test_offset_of_every_pair_of_cells(radius, heads):
    height, width = 3, 5
    score = seeded(Offset(height, width, radius, heads))
    cells = torch.zeros(BATCH, HEADS, height * width, 1, dtype=torch.float64)
    expected = torch.zeros(BATCH, HEADS, 15, 15, dtype=torch.float64)
    for head in range(HEADS):
        table = row_of(score.weight, head)
        for i in range(15):
            for j in range(15):
                down, right = j // width - i // width, j % width - i % width
                if abs(down) <= radius and abs(right) <= radius:
                    expected[:, head, i, j] = table[down + radius][right + radius]
    assert not score.reads_keys
    assert_close(score(cells, cells), expected)


def test_offset_gradient_counts_the_pairs_of_each_offset():
    score, cells = Offset(2, 3), torch.zeros(1, 1, 6, 1)
    score(cells, cells).sum().backward()
    # on 2 x 3 cells a step down happens (2 - 1) * 3 times, a step aside 2 * (3 - 1) times, both together (2 - 1) * (3 - 1)
    assert_close(score.weight.grad, torch.tensor([[[2.0, 3.0, 2.0], [4.0, 6.0, 4.0], [2.0, 3.0, 2.0]]]))


def test_offset_of_an_empty_batch():
    nothing = torch.zeros(0, HEADS, 15, 1)
    assert Offset(3, 5)(nothing, nothing).shape == (0, HEADS, 15, 15)


def test_offset_with_numbers_of_another_precision():
    score = Offset(3, 5, heads=HEADS)
    q, k, v = (numbers(BATCH, HEADS, 15, DIM_Q, seed=seed) for seed in range(3))
    exact = Offset(3, 5, heads=HEADS).double()
    exact.load_state_dict(score.state_dict())
    for normalizer in (Softmax(), Identity()):
        expected = attend(q, k, v, score=exact, normalizer=normalizer)
        for kernel in (None, "reference"):
            assert_close(attend(q, k, v, score=score, normalizer=normalizer, kernel=kernel), expected)


def test_offset_errors():
    with pytest.raises(ValueError, match=r"3 x 5 = 15 cells: got queries=5, keys=7\. Flatten the grid row by row\."):
        Offset(3, 5)(queries(), keys())
    with pytest.raises(ValueError, match="height, width >= 1 and radius >= 0: got 0, 5, radius=1"):
        Offset(0, 5)
    with pytest.raises(ValueError, match="radius=-1"):
        Offset(3, 5, radius=-1)


# All of them

ALL = {
    "dot": lambda heads: Dot(),
    "learned": lambda heads: Dot("learned"),
    "bilinear": lambda heads: Bilinear(2, 2, heads),
    "additive": lambda heads: Additive(2, 2, 3, heads),
    "concat": lambda heads: Concat(2, 2, 3, heads),
    "linear": lambda heads: Concat(2, 2, None, heads),
    "tanh-sum": lambda heads: TanhSum(2),
    "location": lambda heads: Location(2, 23),
    "graph": lambda heads: Graph(2, heads),
    "graph-v2": lambda heads: GraphV2(2, heads),
    "offset": lambda heads: Offset(3, 5, heads=heads),
}
WITH_HEADS = ["bilinear", "additive", "concat", "linear", "graph", "graph-v2", "offset"]


@pytest.mark.parametrize("name", WITH_HEADS)
def test_one_row_of_parameters_is_shared_by_all_heads(name):
    shared, own = seeded(ALL[name](1)), ALL[name](HEADS).double()
    for one, many in zip(shared.parameters(), own.parameters(), strict=True):
        assert one.shape[0] == 1
        assert many.shape == (HEADS, *one.shape[1:])
        many.data.copy_(one.data)
    q, k = queries(2, n=15), keys(2, n=15)
    assert_close(shared(q, k), own(q, k))


@pytest.mark.parametrize("name", WITH_HEADS)
def test_the_wrong_number_of_heads_is_an_error(name):
    with pytest.raises(
        ValueError, match=r"is made for heads=3: got heads=5\. Build it with heads=5, or heads=1 to share"
    ):
        ALL[name](3).double()(queries(2, heads=5, n=15), keys(2, heads=5, n=15))


@pytest.mark.parametrize("name", sorted(set(ALL) - {"dot", "learned", "offset", "location"}))
def test_the_wrong_dim_is_an_error(name):
    with pytest.raises(
        ValueError, match=r"needs queries of dim 2 and keys of dim 2: got q \(2, 3, 5, 11\), k \(2, 3, 7, 2\)"
    ):
        ALL[name](1).double()(queries(11), keys(2))
    with pytest.raises(
        ValueError, match=r"needs queries of dim 2 and keys of dim 2: got q \(2, 3, 5, 2\), k \(2, 3, 7, 13\)"
    ):
        ALL[name](1).double()(queries(2), keys(13))


@pytest.mark.parametrize("build", [lambda: Bilinear(0, 2), lambda: Additive(2, 2, 0), lambda: Graph(2, heads=0)])
def test_sizes_below_one_are_an_error(build):
    with pytest.raises(ValueError, match="sizes must be at least 1: got heads="):
        build()


@pytest.mark.parametrize("name", ALL)
def test_comparing_some_queries_gives_their_rows(name):
    """What a kernel relies on: sides are prepared once, and rows can be compared in pieces."""
    score, q, k = seeded(ALL[name](HEADS)), queries(2, n=15), keys(2, n=15)
    whole, prepared_q, prepared_k = score(q, k), score.queries(q), score.keys(k)
    pieces = [score.compare(prepared_q[:, :, first:last], prepared_k) for first, last in ((0, 2), (2, 13), (13, 15))]
    assert whole.shape == (BATCH, HEADS, 15, 15)
    assert_close(torch.cat(pieces, dim=2), whole)


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_those_of_finite_differences(name):
    score, q, k = seeded(ALL[name](HEADS)), queries(2, n=15)[:1], keys(2, n=15)[:1]
    names = [name for name, _ in score.named_parameters()]

    def scores(q: Tensor, k: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(score, dict(zip(names, values, strict=True)), (q, k))

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (q, k, *score.parameters())]
    assert torch.autograd.gradcheck(scores, inputs, fast_mode=True)


def test_products_are_what_a_fused_kernel_can_run():
    products = {name for name, build in ALL.items() if isinstance(build(1), Product)}
    assert products == {"dot", "learned", "bilinear"}


def test_scores_print_what_they_were_made_of():
    assert repr(Dot()) == "Dot()"
    assert repr(Dot(0.5)) == "Dot(scale=0.5)"
    assert repr(Dot("learned")) == "Dot(scale='learned')"
    assert repr(Bilinear(2, 3)) == "Bilinear(2, 3, heads=1)"
    assert repr(Bilinear(2, 3, scale=None)) == "Bilinear(2, 3, heads=1, scale=None)"
    assert repr(Additive(2, 3, 5, heads=7)) == "Additive(2, 3, hidden=5, heads=7)"
    assert repr(Concat(2, 3, None)) == "Concat(2, 3, hidden=None, heads=1)"
    assert repr(Location(2, 3)) == "Location(2, max_keys=3)"
    assert repr(GraphV2(2, 3)) == "GraphV2(2, heads=3)"
    assert repr(Offset(2, 3)) == "Offset(2, 3, radius=1, heads=1)"
