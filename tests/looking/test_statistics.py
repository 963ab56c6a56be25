"""Statistics by hand, the same for dense weights and for edges, whatever the pieces."""

import math

import pytest
import torch

from mirada import Attention, MultiHead, look
from mirada.attention.neighborhoods import Causal, Edges, Padding
from mirada.attention.normalizers import Softmax
from mirada.looking.statistics import SinkKey, dense_statistics, edge_statistics


def test_numbers_by_hand() -> None:
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]]])
    [one], checks = dense_statistics([(0, weights)])
    assert one.entropy == pytest.approx((math.log(2) + 0 + 1.5 * math.log(2)) / 3, abs=1e-6)
    assert one.normalized_entropy == pytest.approx((1 + 1.5 * math.log(2) / math.log(3)) / 2, abs=1e-6)
    assert one.distance == pytest.approx((0.5 + 0 + 0.5 + 0.25) / 3)
    assert (one.previous, one.next) == (pytest.approx(0.125), pytest.approx(0.25))
    assert (one.first, one.self) == (pytest.approx(0.25), pytest.approx(2 / 3))
    assert one.sink == SinkKey(1, pytest.approx(1.75 / 3))
    assert (checks.row_sum_min, checks.row_sum_max, checks.identical_rows) == (1.0, 1.0, False)


def test_pieces_do_not_matter() -> None:
    weights = torch.rand(3, 11, 7).softmax(-1)
    whole = dense_statistics([(0, weights)])
    parts = dense_statistics([(0, weights[:, :4]), (4, weights[:, 4:5]), (5, weights[:, 5:])])
    for a, b in zip(whole[0], parts[0], strict=True):
        assert a.sink is b.sink is None
        assert {**vars(a), "sink": 0} == pytest.approx({**vars(b), "sink": 0}, rel=1e-5)
    assert vars(whole[1]) == pytest.approx(vars(parts[1]))


def test_edges_agree_with_the_dense_form() -> None:
    pairs = torch.tensor([[0, 1, 2, 2, 1], [0, 0, 1, 2, 2]])
    weights = torch.rand(2, 5)
    dense = torch.zeros(2, 3, 3)
    dense[:, pairs[1], pairs[0]] = weights
    by_edge, edge_checks = edge_statistics(weights, pairs, 3, 3)
    by_row, row_checks = dense_statistics([(0, dense)])
    for a, b in zip(by_edge, by_row, strict=True):
        assert a.entropy == pytest.approx(b.entropy, abs=1e-6)
        assert a.normalized_entropy == pytest.approx(b.normalized_entropy, abs=1e-6)
        assert a.sink == (None if b.sink is None else SinkKey(b.sink.key, pytest.approx(b.sink.mass)))
        assert (a.distance, a.previous) == (None, None)
    assert edge_checks.row_sum_max == pytest.approx(row_checks.row_sum_max)


def test_what_is_to_be_warned_of() -> None:
    weights = torch.tensor([[[0.5, 0.5], [math.nan, 0.5], [0.0, 0.0], [1.0, -0.5]]])
    [one], checks = dense_statistics([(0, weights)], dropout=0.1)
    assert (checks.nan_rows, checks.empty_rows, checks.dropout) == (1, 1, 0.1)
    assert (checks.row_sum_min, checks.row_sum_max, checks.weight_min) == (0.5, 1.0, -0.5)
    assert math.isfinite(one.entropy)
    same = dense_statistics([(0, torch.tensor([[[0.9, 0.1]] * 5]))])
    assert same[1].identical_rows
    assert same[0][0].sink == SinkKey(0, pytest.approx(0.9))


def test_one_query_or_one_key_is_no_sink() -> None:
    assert dense_statistics([(0, torch.ones(1, 5, 1))])[0][0].sink is None
    assert dense_statistics([(0, torch.tensor([[[1.0, 0.0]]]))])[0][0].sink is None


def test_nothing_at_all() -> None:
    assert dense_statistics([]) == ([], dense_statistics([])[1])
    assert edge_statistics(torch.zeros(1, 0), torch.zeros(2, 0, dtype=torch.long), 2, 2)[0][0].entropy == 0


def test_of_a_call() -> None:
    layer = Attention(MultiHead(8, 2), normalizer=Softmax(dropout=0.25))
    with look(layer) as seen, torch.no_grad():
        layer(torch.zeros(2, 4, 8), where=Padding([4, 2]))
    assert [head.entropy for head in seen[""].statistics()] == pytest.approx([math.log(4)] * 2)
    assert [head.entropy for head in seen[""].statistics(sample=1)] == pytest.approx([math.log(2)] * 2)
    assert (seen[""].checks().dropout, seen[""].checks().identical_rows) == (0.25, True)
    graph = Attention(MultiHead(8, 2))
    with look(graph) as seen, torch.no_grad():
        graph(torch.zeros(1, 3, 8), where=Edges(torch.tensor([[0, 1], [0, 0]]), 3))
    assert seen[""].checks().empty_rows == 4  # two nodes of two heads
    assert seen[""].statistics()[0].self == pytest.approx(0.5)


def test_rows_of_a_cache_that_was_there_before_count_from_where_they_stand() -> None:
    """Looking at the later steps of a decoding only gives what looking at all of them says of these rows."""
    torch.manual_seed(0)
    layer, x = Attention(MultiHead(8, 2), where=Causal()).eval(), torch.randn(1, 7, 8)
    with torch.no_grad(), look(layer) as whole:
        layer(x)
    cache = layer.cache(batch=1, length=7)
    with torch.no_grad():
        layer(x[:, :4], cache=cache)
        with look(layer) as seen:
            for step in range(4, 7):
                layer(x[:, step : step + 1], cache=cache)
    late = whole[""].weights()[0, :, 4:].double()
    rows = torch.arange(4, 7)
    for head, one in enumerate(seen.stream("").statistics()[0]):
        assert one.self == pytest.approx(float(late[head][[0, 1, 2], rows].mean()), abs=1e-6)
        assert one.previous == pytest.approx(float(late[head][[0, 1, 2], rows - 1].mean()), abs=1e-6)
        away = (rows.view(-1, 1) - torch.arange(7)).abs()
        assert one.distance == pytest.approx(float((late[head] * away).sum(-1).mean()), abs=1e-5)
