"""Heads against slices and matrix products written out, and the laws that join them."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.equation import Attention, attend
from mirada.attention.heads import Collaborative, Grouped, MultiHead, Split, Tied
from mirada.attention.neighborhoods import Causal, Padding
from mirada.attention.positions import Rotary
from mirada.attention.scores import Additive, Bilinear, Dot, Graph, GraphV2

BATCH, QUERIES, KEYS = 2, 5, 7


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    """The module in float64, with random numbers in every parameter, the biases too."""
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place) * parameter.shape[-1] ** -0.5)
    return module


def projected(layer: torch.nn.Linear, x: Tensor, head: int, dim: int) -> Tensor:
    """x W^T + b for the rows of one head."""
    rows = slice(head * dim, (head + 1) * dim)
    out = x @ layer.weight[rows].T
    return out if layer.bias is None else out + layer.bias[rows]


def one_head(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """softmax(q k^T scale) v for tensors of (batch, n, dim)."""
    return torch.softmax(q @ k.transpose(1, 2) * scale, dim=-1) @ v


# MultiHead


@pytest.mark.parametrize("bias", ["qkv", "o", "kq", ""])
def test_letters_name_the_projections_that_have_a_bias(bias: str) -> None:
    for heads in (MultiHead(12, 3, bias=bias), Grouped(12, 3, kv_heads=1, bias=bias)):
        found = {"q": heads.query, "k": heads.key, "v": heads.value, "o": heads.out}
        assert {letter for letter, layer in found.items() if layer.bias is not None} == set(bias)
    assert MultiHead(12, 3, bias="no").query.bias is None
    assert MultiHead(12, 3, bias="yes").out.bias is not None


@pytest.mark.parametrize("kv_heads", [3, 1])
def test_queries_and_keys_are_normalized_head_by_head_before_they_are_rotated(kv_heads: int) -> None:
    heads = seeded(Grouped(12, 3, kv_heads, dim=6, qk_norm=0.01))
    layer, x = Attention(heads, where=Causal(), position=Rotary(6)), numbers(BATCH, QUERIES, 12)

    def normed(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 0.01).sqrt() * weight

    outputs = []
    for h in range(3):
        group = h // (3 // kv_heads)
        q = normed(projected(heads.query, x, h, 6), heads.query_norm.weight)
        k = normed(projected(heads.key, x, group, 6), heads.key_norm.weight)
        q, k = (Rotary(6).rotate(y.unsqueeze(1), range(QUERIES))[:, 0] for y in (q, k))
        scores = (q @ k.transpose(1, 2) * 6**-0.5).masked_fill(~torch.ones(5, 5).tril().bool(), -math.inf)
        outputs.append(scores.softmax(-1) @ projected(heads.value, x, group, 6))
    assert_close(layer(x), torch.cat(outputs, -1) @ heads.out.weight.T + heads.out.bias)
    cache = layer.cache(BATCH, QUERIES)
    assert_close(torch.cat([layer(step, cache=cache) for step in x.split([2, 1, 2], dim=1)], 1), layer(x))


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_is_each_head_by_itself_then_side_by_side(bias):
    heads = seeded(MultiHead(21, 3, bias=bias))
    x, m = numbers(BATCH, QUERIES, 21, seed=1), numbers(BATCH, KEYS, 21, seed=2)
    outputs = [
        one_head(
            *(projected(layer, y, h, 7) for layer, y in ((heads.query, x), (heads.key, m), (heads.value, m))), 7**-0.5
        )
        for h in range(3)
    ]
    side_by_side = torch.cat(outputs, dim=-1) @ heads.out.weight.T
    expected = side_by_side + heads.out.bias if bias else side_by_side
    assert_close(Attention(heads)(x, memory=m), expected)
    # the law: [head_1 .. head_N] W = sum head_i W_i
    per_head = heads.out.weight.T.split(7)
    assert_close(side_by_side, sum(h @ w for h, w in zip(outputs, per_head, strict=True)))


def test_multi_head_merge_is_a_sum_over_heads():
    heads, h = seeded(MultiHead(21, 3)), numbers(BATCH, 3, QUERIES, 7)
    expected = sum(h[:, i] @ heads.out.weight.T[7 * i : 7 * (i + 1)] for i in range(3)) + heads.out.bias
    assert_close(heads.merge(h), expected)


def test_multi_head_sizes_of_its_own():
    heads = seeded(MultiHead(11, 3, dim=5, value_dim=7, memory_width=13, out=17, values_width=19))
    x, m, v = numbers(BATCH, QUERIES, 11), numbers(BATCH, KEYS, 13), numbers(BATCH, KEYS, 19)
    assert heads.query.weight.shape == (15, 11)
    assert heads.key.weight.shape == (15, 13)
    assert heads.value.weight.shape == (21, 19)
    assert heads.out.weight.shape == (17, 21)
    assert heads.queries(x).shape == (BATCH, 3, QUERIES, 5)
    assert heads.keys(m).shape == (BATCH, 3, KEYS, 5)
    assert heads.values(v).shape == (BATCH, 3, KEYS, 7)
    outputs = [
        one_head(
            projected(heads.query, x, h, 5), projected(heads.key, m, h, 5), projected(heads.value, v, h, 7), 5**-0.5
        )
        for h in range(3)
    ]
    expected = torch.cat(outputs, dim=-1) @ heads.out.weight.T + heads.out.bias
    assert_close(Attention(heads)(x, memory=m, values=v), expected)


def test_multi_head_sizes_by_default():
    heads = MultiHead(15, 3)
    assert (heads.dim, heads.key_dim, heads.value_dim, heads.memory_width, heads.value_width) == (5, 5, 5, 15, 15)
    assert MultiHead(11, 3, dim=5).value_dim == 5
    assert MultiHead(15, 3, memory_width=7).value_width == 7
    assert MultiHead(15, 3, bias=False).query.bias is None
    assert MultiHead(15, 3, bias=False).out.bias is None
    assert_close(heads.query.bias.data, torch.zeros(15))


def test_multi_head_starts_with_glorot_weights():
    torch.manual_seed(0)
    weight = MultiHead(101, 1, dim=103).query.weight
    bound = math.sqrt(6 / (101 + 103))
    assert weight.abs().amax() <= bound
    # the variance of a uniform number in +-bound, from 10403 of them: within five standard deviations of 0.9 %
    assert_close(weight.var().item(), bound**2 / 3, rtol=0.045, atol=0)


def test_multi_head_errors():
    with pytest.raises(
        ValueError, match=r"width must be divisible by heads: got width=7, heads=3\. Change one, or give dim\."
    ):
        MultiHead(7, 3)
    with pytest.raises(ValueError, match="width must be divisible by heads: got width=7, heads=0"):
        MultiHead(7, 0)
    with pytest.raises(ValueError, match="sizes must be at least 1: got width=7, heads=3, dim=0"):
        MultiHead(7, 3, dim=0)
    layer = Attention(MultiHead(6, 3, memory_width=5, values_width=7))
    x, m, v = torch.zeros(BATCH, QUERIES, 6), torch.zeros(BATCH, KEYS, 5), torch.zeros(BATCH, KEYS, 7)
    assert layer(x, memory=m, values=v).shape == (BATCH, QUERIES, 6)
    with pytest.raises(ValueError, match=r"MultiHead needs x of width=6: got shape \(2, 5, 11\)"):
        layer(torch.zeros(BATCH, QUERIES, 11), memory=m, values=v)
    with pytest.raises(ValueError, match=r"MultiHead needs memory of width=5: got shape \(2, 5, 6\)"):
        layer(x)
    with pytest.raises(ValueError, match=r"MultiHead needs values of width=7: got shape \(2, 7, 5\)"):
        layer(x, memory=m)
    with pytest.raises(ValueError, match=r"heads must be a value such as MultiHead\(width, heads\): got 6"):
        Attention(6)


# Grouped


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_grouped_heads_share_keys_and_values(kv_heads):
    heads = seeded(Grouped(30, 6, kv_heads))
    x = numbers(BATCH, QUERIES, 30)
    assert heads.queries(x).shape == (BATCH, 6, QUERIES, 5)
    assert heads.keys(x).shape == heads.values(x).shape == (BATCH, kv_heads, QUERIES, 5)
    outputs = []
    for h in range(6):
        shared = h // (6 // kv_heads)
        k, v = projected(heads.key, x, shared, 5), projected(heads.value, x, shared, 5)
        outputs.append(one_head(projected(heads.query, x, h, 5), k, v, 5**-0.5))
    expected = torch.cat(outputs, dim=-1) @ heads.out.weight.T + heads.out.bias
    assert_close(Attention(heads)(x), expected)


def test_grouped_with_all_heads_is_multi_head():
    grouped, multi = seeded(Grouped(21, 3, 3)), MultiHead(21, 3).double()
    multi.load_state_dict(grouped.state_dict())
    x = numbers(BATCH, QUERIES, 21)
    assert_close(Attention(grouped)(x), Attention(multi)(x), rtol=0, atol=0)


def test_grouped_keeps_a_smaller_cache():
    layer = Attention(Grouped(30, 6, 2, dim=7, bias=False), where=Causal())
    cache = layer.cache(batch=3, length=11)
    assert cache.keys.shape == cache.values.shape == (3, 2, 11, 7)
    assert sum(p.numel() for p in layer.parameters()) == 30 * (6 * 7) + 2 * 30 * (2 * 7) + (6 * 7) * 30


def test_grouped_errors():
    for kv_heads in (0, 4):
        with pytest.raises(ValueError, match=f"heads must be divisible by kv_heads: got heads=6, kv_heads={kv_heads}"):
            Grouped(30, 6, kv_heads)


# Collaborative


def test_collaborative_starts_as_multi_head_exactly():
    collaborative, multi = Collaborative(21, 3, shared=21).double(), seeded(MultiHead(21, 3))
    with torch.no_grad():
        for name in ("query", "key", "value", "out"):
            ours, theirs = getattr(collaborative, name), getattr(multi, name)
            ours.weight.copy_(theirs.weight)
            ours.bias.copy_(theirs.bias)
    x, m = numbers(BATCH, QUERIES, 21), numbers(BATCH, KEYS, 21, seed=1)
    assert_close(Attention(collaborative)(x), Attention(multi)(x), rtol=1e-12, atol=1e-12)
    where = Padding([3, 7])
    assert_close(
        Attention(collaborative)(x, memory=m, where=where),
        Attention(multi)(x, memory=m, where=where),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("shared", [21, 11, 2])
def test_collaborative_by_its_formula(shared):
    heads, x = seeded(Collaborative(21, 3, shared)), numbers(BATCH, QUERIES, 21)
    q, k = (x @ layer.weight.T + layer.bias for layer in (heads.query, heads.key))
    outputs = [
        one_head(q @ torch.diag(heads.mixing[r]), k, projected(heads.value, x, r, 7), 1 / math.sqrt(shared / 3))
        for r in range(3)
    ]
    assert heads.mixing.shape == (3, shared)
    assert heads.keys(x).shape == (BATCH, 1, QUERIES, shared)
    assert_close(Attention(heads)(x), torch.cat(outputs, dim=-1) @ heads.out.weight.T + heads.out.bias)


def test_collaborative_start_gives_every_coordinate_to_one_head():
    for shared in (3, 7, 11, 21):
        mixing = Collaborative(21, 3, shared).mixing.detach()
        assert_close(mixing.sum(0), torch.ones(shared))
        assert (mixing.sum(1) >= 1).all()
        owner = mixing.argmax(0)
        assert (owner[1:] >= owner[:-1]).all()


def test_collaborative_keeps_a_scale_that_was_given():
    given = Dot(scale=0.3)
    assert Attention(Collaborative(21, 3, 7), score=given).score is given
    assert_close(Attention(Collaborative(21, 3, 7)).score.factor(7), math.sqrt(3 / 7))
    heads, x = seeded(Collaborative(21, 3, 7)), numbers(BATCH, QUERIES, 21)
    expected = heads.merge(attend(heads.queries(x), heads.keys(x), heads.values(x), score=given))
    assert_close(Attention(heads, score=given)(x), expected)


def test_collaborative_errors():
    with pytest.raises(ValueError, match="width must be divisible by heads: got width=21, heads=2"):
        Collaborative(21, 2, 7)
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        Collaborative(21, 3, 0)


# Split


def test_split_cuts_the_width_and_has_no_parameters():
    heads, x, m = Split(21, 3), numbers(BATCH, QUERIES, 21), numbers(BATCH, KEYS, 21, seed=1)
    assert list(heads.parameters()) == []
    outputs = [one_head(x[..., s], m[..., s], m[..., s], 7**-0.5) for s in (slice(0, 7), slice(7, 14), slice(14, 21))]
    assert_close(Attention(heads)(x, memory=m), torch.cat(outputs, dim=-1))
    assert heads.aliases


def test_split_with_one_head_is_plain_self_attention():
    x = numbers(BATCH, QUERIES, 11)
    assert_close(Attention(Split(11, 1), score=Dot(1.0))(x), one_head(x, x, x, 1.0))


def test_split_bias_is_added_after_the_heads():
    heads, x = seeded(Split(21, 3, bias=True)), numbers(BATCH, QUERIES, 21)
    assert heads.bias.shape == (21,)
    assert_close(Attention(heads)(x), Attention(Split(21, 3))(x) + heads.bias)


def test_split_with_a_memory_of_another_width():
    heads, x, m = Split(6, 2, memory_width=10), numbers(BATCH, QUERIES, 6), numbers(BATCH, KEYS, 10, seed=1)
    score = seeded(Bilinear(3, 5, heads=2))
    outputs = []
    for h in range(2):
        q, k = x[..., 3 * h : 3 * h + 3], m[..., 5 * h : 5 * h + 5]
        outputs.append(one_head(q @ score.weight[h], k, k, 1.0))
    out = Attention(heads, score=score)(x, memory=m)
    assert out.shape == (BATCH, QUERIES, 10)
    assert_close(out, torch.cat(outputs, dim=-1))
    additive = Attention(heads, score=Additive(3, 5, hidden=7).double())
    assert additive(x, memory=m).shape == (BATCH, QUERIES, 10)


def test_split_values_may_have_any_width_that_can_be_cut():
    x, v = numbers(BATCH, QUERIES, 6), numbers(BATCH, QUERIES, 14, seed=1)
    outputs = [
        one_head(x[..., 3 * h : 3 * h + 3], x[..., 3 * h : 3 * h + 3], v[..., 7 * h : 7 * h + 7], 3**-0.5)
        for h in (0, 1)
    ]
    assert_close(Attention(Split(6, 2))(x, values=v), torch.cat(outputs, dim=-1))


def test_split_errors():
    with pytest.raises(ValueError, match="width must be divisible by heads: got width=7, heads=3"):
        Split(7, 3)
    x = torch.zeros(BATCH, QUERIES, 6)
    with pytest.raises(ValueError, match=r"values must have a width divisible by heads=2 .*: got \(2, 5, 7\)"):
        Attention(Split(6, 2))(x, values=torch.zeros(BATCH, QUERIES, 7))
    with pytest.raises(ValueError, match=r"equal to 6 with a bias\): got \(2, 5, 8\)"):
        Attention(Split(6, 2, bias=True))(x, values=torch.zeros(BATCH, QUERIES, 8))
    with pytest.raises(ValueError, match="a dot product needs queries and keys of one dim"):
        Attention(Split(6, 2, memory_width=10))


# Tied


@pytest.mark.parametrize("combine", ["concat", "mean"])
@pytest.mark.parametrize("queries", ["tied", "own"])
def test_tied_projects_once_for_keys_and_values(combine, queries):
    heads = seeded(Tied(11, 3, 5, combine=combine, queries=queries))
    x = numbers(BATCH, QUERIES, 11)
    outputs = []
    for h in range(3):
        node = projected(heads.node, x, h, 5)
        outputs.append(one_head(node if queries == "tied" else projected(heads.query, x, h, 5), node, node, 5**-0.5))
    joined = torch.cat(outputs, dim=-1) if combine == "concat" else sum(outputs) / 3
    assert heads.bias.shape == (15 if combine == "concat" else 5,)
    assert_close(Attention(heads)(x), joined + heads.bias)
    assert (heads.query is None) == (queries == "tied")


def test_tied_with_a_graph_score_is_gat():
    """LeakyReLU(a . [W h_i; W h_j]), softmax over j, sum of W h_j: with loops over nodes."""
    heads, score = seeded(Tied(11, 3, 5, bias=False)), seeded(Graph(5, 3))
    x = numbers(1, 7, 11)
    out = torch.zeros(7, 15, dtype=torch.float64)
    for h in range(3):
        node = x[0] @ heads.node.weight[5 * h : 5 * h + 5].T
        a = torch.cat([score.query[h], score.key[h]])
        for i in range(7):
            e = torch.stack([torch.nn.functional.leaky_relu(a @ torch.cat([node[i], node[j]]), 0.2) for j in range(7)])
            out[i, 5 * h : 5 * h + 5] = torch.softmax(e, 0) @ node
    assert_close(Attention(heads, score=score)(x)[0], out)


def test_tied_options():
    assert Tied(11, 3, 5).node.bias is None
    assert Tied(11, 3, 5, projection_bias=True).node.bias.shape == (15,)
    assert Tied(11, 3, 5, queries="own", projection_bias=True).query.bias.shape == (15,)
    assert Tied(11, 3, 5, bias=False).bias is None
    layer = Attention(Tied(11, 3, 5, combine="mean", queries="own"), score=GraphV2(5, 3))
    assert layer(torch.zeros(BATCH, QUERIES, 11)).shape == (BATCH, QUERIES, 5)


def test_tied_errors():
    with pytest.raises(ValueError, match=r"unknown combine 'average'; known: concat, mean\."):
        Tied(11, 3, 5, combine="average")
    with pytest.raises(ValueError, match=r"unknown queries 'ow'; known: own, tied\. Did you mean 'own'\?"):
        Tied(11, 3, 5, queries="ow")
    with pytest.raises(ValueError, match="sizes must be at least 1: got width=11, heads=3, dim=0"):
        Tied(11, 3, 0)


# All of them

ALL = {
    "multi": lambda: MultiHead(12, 3),
    "sized": lambda: MultiHead(12, 3, dim=5, value_dim=7, out=11),
    "grouped": lambda: Grouped(12, 6, 2),
    "collaborative": lambda: Collaborative(12, 3, shared=5),
    "split": lambda: Split(12, 3),
    "tied": lambda: Tied(12, 3, dim=5),
    "mean": lambda: Tied(12, 3, dim=5, combine="mean"),
}


@pytest.mark.parametrize("name", ALL)
def test_heads_have_the_sizes_they_say(name):
    heads, x = ALL[name](), torch.zeros(BATCH, QUERIES, 12)
    q, k, v = heads.queries(x), heads.keys(x), heads.values(x)
    assert q.shape == (BATCH, heads.heads, QUERIES, heads.dim)
    assert k.shape == (BATCH, heads.key_heads, QUERIES, heads.key_dim)
    assert v.shape == (BATCH, heads.value_heads, QUERIES, heads.value_dim)
    merged = heads.merge(torch.zeros(BATCH, heads.heads, QUERIES, heads.value_dim))
    out = {"sized": 11, "tied": 15, "mean": 5}.get(name, 12)
    assert merged.shape == Attention(heads)(x).shape == (BATCH, QUERIES, out)


@pytest.mark.parametrize("name", ALL)
def test_heads_treat_samples_and_positions_alike(name):
    """Projections look at one position of one sample: shuffling these shuffles the output."""
    layer, x = Attention(ALL[name]().double()), numbers(3, QUERIES, 12)
    order, places = torch.tensor([2, 0, 1]), torch.tensor([4, 2, 0, 1, 3])
    assert_close(layer(x[order]), layer(x)[order])
    assert_close(layer(x[:, places]), layer(x)[:, places])


def test_heads_print_what_they_were_made_of():
    assert repr(MultiHead(15, 3)).startswith("MultiHead(\n  15, heads=3, dim=5\n")
    assert "kv_heads=2" in repr(Grouped(30, 6, 2))
    assert "shared=7" in repr(Collaborative(21, 3, 7))
    assert repr(Split(21, 3)) == "Split(21, heads=3, dim=7)"
    assert "combine='mean'" in repr(Tied(11, 3, 5, combine="mean"))
