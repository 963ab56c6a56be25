"""Heads with neighborhoods of their own: computed group by group where nothing else tells heads apart."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.heads import Grouped, Tied
from mirada.attention.neighborhoods import Causal, Complete, Edges, Neighborhood, Padding, PerHead, Window
from mirada.attention.normalizers import Identity, Normalized, Normalizer, Softmax, Sparsemax
from mirada.attention.places import Places
from mirada.attention.scores import Dot, Graph, Product, Score

BATCH, HEADS, N, DIM, WIDTH = 2, 3, 5, 4, 12
APART = PerHead(Causal(), Window(1, 1), Complete())
PAIRED = PerHead(Causal(), Window(1, 1), Causal())


def per_head() -> nn.Parameter:
    return nn.Parameter(torch.tensor([0.3, 1.0, 4.0]).view(HEADS, 1, 1))


class Temperature(Softmax):
    """A softmax with a temperature per head."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = per_head()

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        return super().normalize(scores / self.temperature, mask)


class Sigmoid(Normalizer):
    """A normalizer of one's own with an offset per head."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = per_head()

    def normalize(self, scores: Tensor, mask: Tensor) -> Normalized:
        return Normalized((scores + self.offset).sigmoid().masked_fill(~mask, 0))


class Faded(Softmax):
    """A softmax whose weights are scaled per head as they meet the values."""

    def __init__(self) -> None:
        super().__init__()
        self.share = per_head()

    def drop(self, weights: Tensor) -> Tensor:
        return weights * self.share


class Sharpness(Dot):
    """A dot product with a factor per head that is said nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sharpness = per_head()

    def queries(self, q: Tensor) -> Tensor:
        return super().queries(q) * self.sharpness


class Factor(Dot):
    """The same through what the parent's method reads."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = per_head()

    def factor(self, dim: int) -> Tensor:
        return self.factors


class Stretched(Product):
    """The same in the keys, which a memory prepares once."""

    def __init__(self) -> None:
        super().__init__()
        self.stretch = per_head()

    def keys(self, k: Tensor) -> Tensor:
        return k * self.stretch


@pytest.mark.parametrize("where", [APART, PAIRED, APART & Padding([5, 3])], ids=str)
@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": Temperature()},
        {"normalizer": Sigmoid()},
        {"normalizer": Faded()},
        {"score": Sharpness()},
        {"score": Factor()},
        {"score": Stretched()},
    ],
    ids=lambda parts: type(next(iter(parts.values()))).__name__,
)
def test_parts_with_numbers_per_head_keep_them(parts: dict[str, nn.Module], where: Neighborhood) -> None:
    q, k, v = (torch.randn(BATCH, HEADS, N, DIM) for _ in "qkv")
    whole = attend(q, k, v, where=where, **parts)
    assert_close(whole, attend(q, k, v, where=where, **parts, kernel="reference"))
    layer = Attention(MultiHead(WIDTH, HEADS), where=where, **parts)
    x, heads = torch.randn(BATCH, N, WIDTH), layer.heads
    apart = attend(heads.queries(x), heads.keys(x), heads.values(x), where=where, **parts, kernel="reference")
    assert_close(layer(x), heads.merge(apart))


def test_a_remembered_memory_keeps_the_numbers_of_its_heads() -> None:
    cross = Attention(MultiHead(WIDTH, HEADS), Stretched(), where=APART)
    x, memory = torch.randn(BATCH, N, WIDTH), torch.randn(BATCH, 7, WIDTH)
    assert_close(cross(x, memory=cross.remember(memory)), cross(x, memory=memory))


class Cosine(Product):
    """A score of one's own that says that all heads are alike."""

    heads = 1

    def queries(self, q: Tensor) -> Tensor:
        return nn.functional.normalize(q, dim=-1)


class Liar(Sharpness):
    """A score of one's own that says so, though they are not."""

    heads = 1


@pytest.mark.parametrize("normalizer", [Softmax(), Sparsemax(), Identity()], ids=str)
@pytest.mark.parametrize("score", [Dot(), Cosine()], ids=str)
def test_heads_that_are_known_to_be_alike_are_grouped(score: Score, normalizer: Normalizer) -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), score, PAIRED, normalizer=normalizer)
    x = torch.randn(BATCH, N, WIDTH)
    chosen = layer.plan(x)
    assert [heads for _, heads, _ in chosen.groups] == [(0, 2), (1,)]
    q, k, v = layer.heads.project(x, x, x)
    parts = {"score": score, "where": PAIRED, "normalizer": normalizer}
    assert_close(layer(x), layer.heads.merge(attend(q, k, v, **parts, kernel="reference")))


def test_heads_that_are_not_what_they_are_said_to_be_are_noticed() -> None:
    q, k, v = (torch.randn(1, HEADS, N, DIM) for _ in "qkv")
    with pytest.raises(ValueError, match="a part with numbers per head that does not say so"):
        attend(q, k, v, score=Liar(), where=APART)


class Rolled(PerHead):
    """A subclass that gives each head the neighborhood of the next."""

    def sees(self, places: Places) -> Tensor:
        return super().sees(places).roll(1, dims=1)


def test_a_subclass_is_computed_by_what_it_sees() -> None:
    q, k, v = (torch.randn(1, HEADS, N, DIM) for _ in "qkv")
    rolled = Rolled(*APART.parts)
    expected = attend(q, k, v, where=PerHead(*APART.parts[2:], *APART.parts[:2]))
    assert_close(attend(q, k, v, where=rolled), expected)
    assert_close(attend(q, k, v, where=rolled & Padding([N])), expected)


def test_a_graph_per_head() -> None:
    nodes = torch.arange(60)
    seven, eleven = (Edges(torch.stack([nodes, (nodes * n + 1) % 60]), 60).with_self_loops() for n in (7, 11))
    where = PerHead(seven, eleven, seven)
    layer = Attention(Tied(WIDTH, HEADS, DIM), Graph(DIM, 1), where)
    x = torch.randn(BATCH, 60, WIDTH)
    assert {chosen.kernel for _, _, chosen in layer.plan(x).groups} == {"edges"}
    q, k, v = layer.heads.project(x, x, x)
    expected = attend(q, k, v, score=layer.score, where=where, kernel="reference")
    assert_close(layer(x), layer.heads.merge(expected))


def test_shared_keys_and_a_neighborhood_per_head() -> None:
    where = PerHead(Causal(), Window(1), Complete(), Causal())
    layer, x = Attention(Grouped(WIDTH, 4, 2), where=where), torch.randn(BATCH, N, WIDTH)
    q, k, v = layer.heads.project(x, x, x)
    expected = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), where=where, kernel="reference")
    assert_close(layer(x), layer.heads.merge(expected))


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
def test_no_queries_or_no_keys(queries: int, keys: int) -> None:
    q, k, v = (torch.randn(BATCH, HEADS, n, DIM) for n in (queries, keys, keys))
    places = {"positions": torch.arange(4, 4 + queries), "key_positions": torch.arange(keys)}
    assert_close(attend(q, k, v, where=APART & Causal(), **places), torch.zeros(BATCH, HEADS, queries, DIM))


def test_a_layer_can_be_bound_to_a_kernel() -> None:
    x, where = torch.randn(BATCH, 300, WIDTH), Window(3)
    free, bound = (
        Attention(MultiHead(WIDTH, 3), where=where),
        Attention(MultiHead(WIDTH, 3), where=where, kernel="reference"),
    )
    bound.load_state_dict(free.state_dict())
    assert (free.plan(x).kernel, bound.plan(x).kernel) == ("banded", "reference")
    assert_close(bound(x), free(x))
    assert "kernel='reference'" in repr(bound)
    forced = Attention(MultiHead(WIDTH, 3), where=where, kernel="banded")
    with pytest.raises(
        ValueError, match=r"kernel 'banded' refuses this request: it pays from 256 keys on: got 7\. Leave kernel=None"
    ):
        forced(x[:, :7])
    with pytest.raises(ValueError, match=r"unknown kernel 'band'; known: .*Did you mean 'banded'"):
        Attention(MultiHead(WIDTH, 3), kernel="band")
