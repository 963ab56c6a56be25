"""Parts made from outside: overriding one method is always right, whatever the parent said about its own."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.heads import Split
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Documents,
    Edges,
    Fixed,
    Grid,
    Intersection,
    Neighborhood,
    Padding,
    PerHead,
    Strided,
    Union,
    Window,
)
from mirada.attention.normalizers import Identity, Normalizer, Softmax
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Position
from mirada.attention.scores import Dot, Graph, Offset, Score

HEADS, N, DIM, WIDTH = 3, 7, 4, 12
RING = Edges(torch.stack([torch.arange(60), (torch.arange(60) * 7 + 1) % 60]), 60).with_self_loops()


class LaterOdd:
    """A mixin with another set: the odd keys, of what comes later too."""

    def sees(self, places: Places) -> Tensor:
        odd = (places.column % 2 == 1) & (places.column >= places.row - 1)
        return odd.expand(1, 1, places.queries, places.keys)


class FarWindow(Window):
    """A subclass that looks farther than its parent."""

    def sees(self, places: Places) -> Tensor:
        return (places.j - places.i).abs() <= 2 * self.left


class OddCausal(Causal):
    sees = LaterOdd.sees


class OddStrided(LaterOdd, Strided):
    """The set comes from a mixin."""


class OddFixed(LaterOdd, Fixed):
    pass


class OddPadding(LaterOdd, Padding):
    pass


class OddDocuments(LaterOdd, Documents):
    pass


class OddEdges(LaterOdd, Edges):
    pass


class OddComplete(LaterOdd, Complete):
    pass


class OddGrid(LaterOdd, Grid):
    pass


class OddBoth(LaterOdd, Intersection):
    pass


ODD = [
    OddCausal(),
    OddStrided(2),
    OddFixed(3, 1, "summary"),
    OddPadding([N]),
    OddDocuments(torch.zeros(1, N).long()),
    OddEdges(torch.tensor([[0, 1], [1, 0]]), N),
    OddComplete(),
    OddGrid(1, N),
    OddBoth((Causal(), Window(2))),
]


@pytest.mark.parametrize("where", ODD, ids=lambda where: type(where).__name__)
def test_nothing_is_said_about_another_set(where: Neighborhood) -> None:
    said = (where.causal, where.reflexive, where.band, where.homogeneous, where.uniform)
    assert said == (False, False, (math.inf, math.inf), False, False)
    assert where.conjuncts() == (where,)
    expected = LaterOdd().sees(Places.count(N, N))
    assert_close(where.dense(N, N), expected)
    assert_close((where & Causal()).dense(N, N), expected & Causal().dense(N, N))
    assert_close((~~where).dense(N, N), expected)


@pytest.mark.parametrize("where", ODD, ids=lambda where: type(where).__name__)
@pytest.mark.parametrize("also", [Complete(), Padding([N - 1])], ids=str)
def test_a_nan_that_nobody_sees_reaches_nothing(where: Neighborhood, also: Neighborhood) -> None:
    q, k, v = (torch.randn(1, HEADS, N, DIM) for _ in "qkv")
    both, hidden = where & also, [0, 2, 4] if also == Complete() else [0, 2, 4, 6]
    expected = attend(q, k, v, where=Dense(both.dense(N, N)), kernel="reference")
    k[:, :, hidden] = v[:, :, hidden] = torch.nan
    for kernel in (None, "reference"):
        assert_close(attend(q, k, v, where=both, kernel=kernel), expected)
    layer = Attention(Split(WIDTH, HEADS), where=both)
    x = torch.randn(1, N, WIDTH)
    whole = Attention(Split(WIDTH, HEADS), where=Dense(both.dense(N, N)))(x)
    poisoned = x.clone()
    poisoned[:, hidden] = torch.nan
    kept = [place for place in range(N) if place not in hidden]
    assert_close(layer(poisoned)[:, kept], whole[:, kept])


@pytest.mark.parametrize("length", [N, 300, 600])
def test_a_window_that_looks_farther_is_not_cut(length: int) -> None:
    q, k, v = (torch.randn(1, HEADS, length, DIM) for _ in "qkv")
    expected = attend(q, k, v, where=Window(10, 10), kernel="reference")
    for kernel in (None, "reference"):
        assert_close(attend(q, k, v, where=FarWindow(5), kernel=kernel), expected)
        assert_close(attend(q, k, v, where=FarWindow(5) & Complete(), kernel=kernel), expected)


def test_a_cache_refuses_a_set_that_may_see_later_keys() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=FarWindow(2))
    with pytest.raises(ValueError, match="sees later keys"):
        layer(torch.randn(1, 2, WIDTH), cache=layer.cache(1, 4))


@dataclass(frozen=True, eq=False, repr=False)
class Diluted(Window):
    """A subclass that says again what still holds."""

    step: int = 2
    homogeneous = True

    @property
    def band(self) -> tuple[float, float]:
        return self.left, self.right

    def sees(self, places: Places) -> Tensor:
        return super().sees(places) & ((places.j - places.i) % self.step == 0)


class Renamed(Diluted):
    """A subclass without a set of its own keeps all."""


class Ahead(Neighborhood):
    """What is said before there is a set is said about those to come."""

    causal = True


class Previous(Ahead):
    def sees(self, places: Places) -> Tensor:
        return places.j == places.i - 1


def test_what_is_said_next_to_the_set_holds() -> None:
    q, k, v = (torch.randn(1, HEADS, 300, DIM) for _ in "qkv")
    layer = Attention(Split(WIDTH, HEADS), where=Renamed(8))
    assert (Renamed(8).band, Renamed(8).homogeneous, Renamed(8).reflexive) == ((8, 0), True, False)
    assert layer.plan(torch.randn(1, 300, WIDTH)).kernel == "banded"
    assert_close(attend(q, k, v, where=Renamed(8)), attend(q, k, v, where=Renamed(8), kernel="reference"))
    assert Previous().causal
    assert Window(3).causal


def test_two_parents_that_speak_of_different_sets() -> None:
    class Narrow(Window):
        band = (1, 0)

    class Both(Narrow, FarWindow):
        """It sees what FarWindow sees, and Narrow spoke of Window."""

    assert Narrow(1).band == (1, 0)
    assert Both(1).band == (math.inf, math.inf)


def test_a_dense_mask_of_one_s_own_needs_its_set() -> None:
    with pytest.raises(ValueError, match=r"Wrong overrides dense, which no kernel asks: write sees\(places\)"):

        class Wrong(Window):
            def dense(self, queries: int, keys: int, start: int = 0) -> Tensor:
                return torch.ones(1, 1, queries, keys, dtype=torch.bool)

    class Own(Window):
        def sees(self, places: Places) -> Tensor:
            return places.j == places.i

        def dense(self, queries: int, keys: int, start: int = 0) -> Tensor:
            return torch.eye(queries, keys).bool()[None, None]

    class Again(Own):
        sees = LaterOdd.sees

    assert_close(Own(1).dense(2, 2), torch.eye(2).bool()[None, None])
    assert_close(Again(1).dense(N, N), LaterOdd().sees(Places.count(N, N)))


class Shifted(Union):
    def sees(self, places: Places) -> Tensor:
        return super().sees(places).roll(1, -1)


def test_a_union_of_one_s_own_is_not_taken_apart() -> None:
    shifted = Shifted((Window(0), Window(1)))
    assert_close((shifted | Window(0)).dense(N, N), shifted.dense(N, N) | Window(0).dense(N, N))


@pytest.mark.parametrize(
    "where",
    [OddPadding([3, 5]), OddDocuments(torch.zeros(2, N).long()), PerHead(OddPadding([3, 5]), Causal(), Causal())],
    ids=lambda where: type(where).__name__,
)
def test_repeating_keeps_the_class(where: Neighborhood) -> None:
    again = where.repeat(2)
    assert type(again) is type(where)
    assert_close(again.dense(N, N), where.dense(N, N))
    assert [x.shape[0] for x in again.tensors()] == [4] * len(list(where.tensors()))


def test_a_graph_of_one_s_own_keeps_its_class() -> None:
    graph = OddEdges(torch.tensor([[0, 1], [1, 0]]), N)
    assert graph.pairs.shape == (2, 2)
    loops = graph.with_self_loops()
    assert type(loops) is OddEdges
    assert loops.pairs.shape == (2, 2 + N)
    assert type(graph.to(torch.device("meta"))) is OddEdges


class NegativeDistance:
    """A mixin that compares its own way."""

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k)


class MixedNear(NegativeDistance, Dot):
    pass


class NearerStill(MixedNear):
    pass


class BothWays(Dot):
    """Both, which agree."""

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k)

    def aligned(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).norm(dim=-1)


class Restated(BothWays):
    compare = BothWays.compare

    def aligned(self, q: Tensor, k: Tensor) -> Tensor:
        return -(q - k).square().sum(-1).sqrt()


@pytest.mark.parametrize("score", [MixedNear(), NearerStill(), BothWays(), Restated()], ids=lambda s: type(s).__name__)
def test_single_pairs_are_compared_as_all_pairs_are(score: Score) -> None:
    q, k, v = (torch.randn(1, HEADS, 60, DIM) for _ in "qkv")
    whole = attend(q, k, v, score=score, where=RING, kernel="reference")
    assert_close(attend(q, k, v, score=score, where=RING, kernel="edges"), whole, atol=1e-4, rtol=1e-4)
    assert_close(attend(q, k, v, score=score, where=RING), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("parent", [Dot, Graph, MixedNear])
def test_a_way_to_compare_single_pairs_alone_is_refused(parent: type[Score]) -> None:
    class Squares:
        def aligned(self, q: Tensor, k: Tensor) -> Tensor:
            return (q * k).sum(-1) ** 2

    with pytest.raises(
        ValueError, match=r"Alone overrides aligned, and kernels .* or compare = \w+\.compare to keep it"
    ):

        class Alone(parent):
            aligned = Squares.aligned

    with pytest.raises(ValueError, match="Mixed overrides aligned, and kernels"):

        class Mixed(Squares, parent):
            pass


@pytest.mark.parametrize("parent", [Score, Dot, Graph])
def test_a_score_that_no_kernel_would_call_is_refused(parent: type[Score]) -> None:
    with pytest.raises(ValueError, match=r"Doubled overrides forward, which no kernel calls: write compare\(q, k\)"):

        class Doubled(parent):
            def forward(self, q: Tensor, k: Tensor) -> Tensor:
                return 2 * super().forward(q, k)


@pytest.mark.parametrize("parent", [Normalizer, Softmax])
def test_a_normalizer_that_no_kernel_would_call_is_refused(parent: type[Normalizer]) -> None:
    with pytest.raises(ValueError, match=r"Halved overrides forward, which no kernel calls: write normalize"):

        class Halved(parent):
            def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
                return super().forward(scores, mask) / 2


class TransposedOffset(Offset):
    """Cells numbered column by column."""

    def queries(self, q: Tensor) -> Tensor:
        cells = super().queries(q)
        return (cells % self.height) * self.width + cells // self.height


def test_a_grid_that_is_numbered_otherwise_is_no_plain_convolution() -> None:
    q, k, v = (torch.randn(1, 1, 6, DIM) for _ in "qkv")
    score = TransposedOffset(2, 3)
    parts = {"score": score, "normalizer": Identity()}
    assert_close(attend(q, k, v, **parts), attend(q, k, v, **parts, kernel="reference"))


class FirstPlaces(ALiBi):
    """A bias that knows the place, not only the distance, from a class whose bias is constant."""

    def bias(self, q: Tensor, places: Places) -> Tensor:
        return -0.1 * (places.i % 5) * (places.j % 3).to(q.dtype)


class ByQuery(ALiBi):
    def bias(self, q: Tensor, places: Places) -> Tensor:
        return q.mean(-1, keepdim=True) * (places.i - places.j)


class Beside(ALiBi):
    """A constant bias, and something collected with the values."""

    def spread(self, weights: Tensor, places: Places) -> Tensor:
        return weights.square().sum(-1, keepdim=True).expand(*weights.shape[:3], DIM)


class Silent(Position):
    """A position that does not say that it acts."""

    def bias(self, q: Tensor, places: Places) -> Tensor:
        return -(places.i - places.j).abs().to(q.dtype)


@pytest.mark.parametrize("length", [N, 300])
@pytest.mark.parametrize("position", [FirstPlaces(HEADS), ByQuery(HEADS), Beside(HEADS), Silent()], ids=str)
def test_a_position_of_one_s_own_is_computed_as_it_says(position: Position, length: int) -> None:
    q, k, v = (torch.randn(1, HEADS, length, DIM) for _ in "qkv")
    for where in (Causal() & Window(9), Causal()):
        parts = {"where": where, "position": position}
        assert_close(attend(q, k, v, **parts), attend(q, k, v, **parts, kernel="reference"), atol=1e-4, rtol=1e-4)


def test_a_position_that_does_not_say_so_is_not_dropped() -> None:
    q, k, v = (torch.randn(1, HEADS, 60, DIM) for _ in "qkv")
    parts = {"where": RING, "position": Silent(), "score": Graph(DIM, HEADS)}
    assert_close(attend(q, k, v, **parts), attend(q, k, v, **parts, kernel="reference"))
    cells = {"score": Offset(6, 10), "position": Silent(), "normalizer": Identity()}
    assert_close(attend(q, k, v, **cells), attend(q, k, v, **cells, kernel="reference"))


class TrainedSlope(Position):
    """A bias that is trained through a tensor which is no parameter."""

    acts = frozenset({"bias"})
    constant = True

    def __init__(self, slope: Tensor) -> None:
        super().__init__()
        self.made = lambda: slope.exp()

    def bias(self, q: Tensor, places: Places) -> Tensor:
        return -self.made().to(q.dtype) * (places.i - places.j).abs()


@pytest.mark.parametrize("length", [N, 300])
def test_a_bias_has_its_gradient_however_it_is_trained(length: int) -> None:
    slope = torch.tensor(-1.0, requires_grad=True)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Window(9, 9), position=TrainedSlope(slope))
    x = torch.randn(1, length, WIDTH)
    q, k, v = layer.heads.project(x, x, x)
    expected = attend(q, k, v, where=layer.where, position=layer.position, kernel="reference")
    [wanted] = torch.autograd.grad(expected.square().sum(), slope)
    [found] = torch.autograd.grad(attend(q, k, v, where=layer.where, position=layer.position).square().sum(), slope)
    assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert layer.plan(x).kernel == "reference"
    fixed = TrainedSlope(slope.detach())
    assert Attention(layer.heads, where=layer.where, position=fixed).plan(x).kernel != "reference"
