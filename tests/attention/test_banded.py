"""Documents, unions and biases as tiles: what the property tests of the kernels do not draw."""

import pytest
import torch
from torch.testing import assert_close

from mirada import Additive, Attention, Dot, MultiHead, Relative, attend
from mirada.attention import (
    ALiBi,
    Causal,
    Documents,
    Global,
    Neighborhood,
    Padding,
    Pairs,
    Position,
    Prefix,
    Rotary,
    Sinks,
    Strided,
    T5Bias,
    Window,
)
from mirada.attention.kernels import banded
from mirada.attention.kernels.request import Request
from mirada.attention.normalizers import Softmax
from mirada.attention.places import Places
from mirada.layers.parse import parse
from mirada.models.gpt import GPT, GPTConfig


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of a few places."""
    for name, number in {"SMALLEST": 0, "LONG": 4, "MOST_ROWS": 7, "FEWEST_ROWS": 3}.items():
        monkeypatch.setattr(banded, name, number)


def test_sorted_documents_know_their_longest_run() -> None:
    packed = Documents.of([[3, 5, 3], [11]])
    assert packed.band == (10, 10)
    assert Documents.of([3, 5, 3]).band == (4, 4)
    assert (Causal() & Documents.of([3, 5, 3])).band == (4, 0)
    assert Documents(torch.tensor([[0, 1, 0]])).band == (torch.inf, torch.inf)
    ids = torch.tensor([[0, 0, 1]])
    changed = Documents(ids)
    assert changed.band == (1, 1)
    ids[0, 1] = 1
    assert changed.of_sample(0).pieces(_places(1, 3, 1))[0][:2] == (1, 3)
    with pytest.raises(ValueError, match=r"all samples must have as many places: got sums of lengths \[2, 3\]"):
        Documents.of([[3], [1, 1]])


def _places(queries: int, keys: int, start: int = 0):
    from mirada.attention.places import Places

    return Places.count(queries, keys, start)


def test_documents_are_tiles_without_a_mask() -> None:
    layer, where = Attention(MultiHead(8, 2), where=Causal()), Documents.of([200, 1, 99])
    x = torch.randn(1, 300, 8)
    assert layer.plan(x, where=where).kernel == "banded"
    expected = torch.cat([layer(part) for part in x.split([200, 1, 99], dim=1)], dim=1)
    assert_close(layer(x, where=where), expected)
    apart = Documents(torch.arange(300).view(1, -1) % 2)
    assert layer.plan(x, where=apart).kernel == "fused"
    assert_close(layer(x, where=apart)[:, ::2], layer(x[:, ::2]))


@pytest.mark.parametrize("position", ["rotary", "sinusoidal", "alibi", "t5:bidirectional=no", "rotary + alibi"])
def test_a_packed_row_has_the_loss_of_its_documents(position: str, small: None) -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab=13, width=16, heads=2, depth=2, position=position, dropout=0.0))
    lengths = [5, 1, 11, 7]
    texts = [torch.randint(0, 13, (1, n + 1)) for n in lengths]
    places = torch.cat([torch.arange(n) for n in lengths]).unsqueeze(0)
    given = [torch.cat(parts, dim=1) for parts in zip(*((x[:, :-1], x[:, 1:]) for x in texts), strict=True)]
    packed = model.loss(*given, where=Documents.of(lengths), positions=places)
    single = sum(n * model.loss(x[:, :-1], x[:, 1:]) for n, x in zip(lengths, texts, strict=True)) / sum(lengths)
    assert_close(packed, single)
    for got, right in zip(
        *(torch.autograd.grad(loss, list(model.parameters())) for loss in (packed, single)), strict=True
    ):
        assert_close(got, right, rtol=1e-4, atol=1e-6)


def test_positions_that_do_not_restart_with_the_documents_are_kept(small: None) -> None:
    q = torch.randn(1, 2, 8, 4)
    places, where = torch.tensor([0, 1, 2, 3, 0, 2, 4, 6]), Causal() & Window(2) & Documents.of([4, 4])
    options = {"where": where, "positions": places, "key_positions": places}
    with pytest.raises(ValueError, match="given positions need not run along the band"):
        attend(q, q, q, **options, kernel="banded")
    assert_close(attend(q, q, q, **options), attend(q, q, q, **options, kernel="reference"))


@pytest.mark.parametrize(
    "where",
    [(Window(3) | Global(2)) & Causal(), (Window(2) | Global((0, 5))) & Causal(), Causal() & Documents.of([6, 2, 9])],
    ids=str,
)
@pytest.mark.parametrize("position", [None, Rotary(4) + ALiBi(2)], ids=str)
def test_cached_is_full(where: Neighborhood, position: Position | None, small: None) -> None:
    layer, x = Attention(MultiHead(8, 2), where=where, position=position), torch.randn(3, 17, 8)
    cache = layer.cache(3, 17)
    steps = [layer(part, cache=cache) for part in x.split([7, 1, 1, 5, 3], dim=1)]
    assert_close(torch.cat(steps, dim=1), layer(x))


def test_second_derivatives_of_trained_biases(small: None) -> None:
    q, where = torch.randn(1, 2, 9, 4, dtype=torch.float64, requires_grad=True), Causal() & Documents.of([4, 5])

    def by_distance(q: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        bias = T5Bias(2, 6, 3)
        del bias.table
        bias.table = table
        return attend(q, q, q, where=where, position=bias, kernel="banded")

    def by_pair(q: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return attend(q, q, q, where=where, position=Pairs(numbers), kernel="banded")

    table, numbers = (torch.randn(*n, dtype=torch.float64, requires_grad=True) for n in ((6, 2), (2, 9, 9)))
    for function, given in ((by_distance, table), (by_pair, numbers)):
        assert torch.autograd.gradcheck(function, (q, given))
        assert torch.autograd.gradgradcheck(function, (q, given))


@pytest.mark.parametrize("shape", [(3, 2, 11, 11), (2, 11, 11), (11, 11), (3, 1, 1, 11), (1, 1, 11, 1)], ids=str)
@pytest.mark.parametrize("kernel", ["banded", "reference"])
def test_pairs_are_added_and_get_a_gradient(shape: tuple[int, ...], kernel: str, small: None) -> None:
    q, k, v = (torch.randn(3, 2, 11, 4) for _ in "qkv")
    numbers = torch.randn(shape, requires_grad=True)
    where = Window(4, 2)
    weights = (q @ k.mT / 2 + numbers).masked_fill(~where.dense(11, 11), -torch.inf).softmax(-1)
    output = attend(q, k, v, where=where, position=Pairs(numbers), kernel=kernel)
    assert_close(output, weights @ v)
    goal = torch.randn_like(v)
    found, right = (torch.autograd.grad((x * goal).sum(), numbers)[0] for x in (output, weights @ v))
    assert_close(found, right, rtol=1e-4, atol=1e-5)


def test_pairs_that_do_not_fit_are_refused() -> None:
    layer, x = Attention(MultiHead(8, 2)), torch.zeros(3, 11, 8)
    with pytest.raises(ValueError, match=r"has numbers for 5 heads: got heads=2"):
        layer(x, position=Pairs(torch.zeros(5, 11, 11)))
    with pytest.raises(ValueError, match=r"must have a number for every pair: got batch=3, queries up to 11, keys=11"):
        layer(x, position=Pairs(torch.zeros(13, 13)))
    with pytest.raises(ValueError, match=r"Pairs takes real numbers"):
        Pairs(torch.zeros(3, 3, dtype=torch.int64))


def test_positions_add_up() -> None:
    both = parse("position", "rotary:part=0.5 + alibi", {"dim": 4, "heads": 2})
    assert repr(both) == repr(Rotary(4, part=0.5) + ALiBi(2))
    q, k, v = (torch.randn(1, 2, 7, 4) for _ in "qkv")
    turned = [both.parts[0].rotate(x, range(7)) for x in (q, k)]
    assert_close(attend(q, k, v, position=both, where=Causal()), attend(*turned, v, position=ALiBi(2), where=Causal()))
    relative = Rotary(4) + Relative(4, clip=2)
    with pytest.raises(ValueError, match="Relative and a score other than Dot"):
        attend(q, k, v, score=Additive(4, 4, 3), position=relative)


def test_a_steep_bias_is_exact_over_long_sequences() -> None:
    q, k, v = (torch.randn(1, 2, 2048, 4) for _ in "qkv")
    parts = {"where": Causal(), "position": ALiBi(2)}
    exact = attend(*(x.double() for x in (q, k, v)), **parts, kernel="reference")
    assert_close(attend(q, k, v, **parts, kernel="banded").double(), exact, rtol=1e-4, atol=1e-5)
    low = attend(*(x.bfloat16() for x in (q, k, v)), **parts)
    assert_close(low.double(), exact, rtol=5e-2, atol=5e-2)


def test_a_prefix_needs_no_mask() -> None:
    q, k, v = (torch.randn(1, 2, 700, 4) for _ in "qkv")
    where = Prefix(300) | Causal()
    assert_close(attend(q, k, v, where=where, kernel="banded"), attend(q, k, v, where=where, kernel="reference"))


@pytest.mark.parametrize("shape", [(3, 2, 11, 11), (11, 11), (1, 2, 1, 11)], ids=str)
@pytest.mark.parametrize("other", ["alibi", "t5"])
def test_trained_pairs_next_to_another_bias(shape: tuple[int, ...], other: str, small: None) -> None:
    torch.manual_seed(0)
    q, k, v, goal = (torch.randn(3, 2, 11, 4) for _ in range(4))
    numbers, bias = torch.randn(shape, requires_grad=True), ALiBi(2) if other == "alibi" else T5Bias(2, 8, 5)
    layer = Attention(MultiHead(8, 2), where=Causal(), position=bias)
    assert layer.plan(torch.randn(3, 11, 8), position=Pairs(numbers)).kernel == "banded"
    trained = [numbers, *bias.parameters()]
    options = {"where": Causal(), "position": bias + Pairs(numbers)}
    found, right = (attend(q, k, v, **options, kernel=kernel) for kernel in ("banded", "reference"))
    assert_close(found, right)
    sums = [(x * goal).sum() for x in (found, right)]
    assert_close(*(torch.autograd.grad(x, trained, retain_graph=True) for x in sums), rtol=1e-4, atol=1e-5)
    if shape[-2] > 1:
        places = Places.count(7, 11, start=4)
        late = Request(q[:, :, 4:], k, v, Dot(), Causal(), bias + Pairs(numbers), Softmax(), places)
        output = banded.Banded().run(late).output
        assert_close(output, right[:, :, 4:])
        again = ((x[:, :, -7:] * goal[:, :, 4:]).sum() for x in (output, right))
        assert_close(*(torch.autograd.grad(x, trained, retain_graph=True) for x in again), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "where",
    [
        Window(3), Window(2, 2) | Global((0, 6)), Prefix(4) | Causal(), Causal() & Documents.of([[4, 7], [9, 2]]),
        Window(3, 1) & Padding([11, 5]), Strided(3),
    ],
    ids=repr,
)  # fmt: skip
def test_a_sink_is_a_place_that_all_see(where: Neighborhood, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As tiles, without a mask of all pairs."""
    torch.manual_seed(0)
    q, k, v, goal = (torch.randn(2, 2, 11, 4, requires_grad=True) for _ in range(4))
    sinks = Sinks(2)
    sinks.scores.data.copy_(torch.tensor([-1.0, 2.0]))
    monkeypatch.setattr(banded, "WIDEST", 1000)
    monkeypatch.setattr("mirada.attention.kernels.fused.Fused.run", None)
    found, right = (attend(q, k, v, where=where, normalizer=sinks, kernel=name) for name in ("sinks", "reference"))
    assert_close(found, right)
    inputs = (q, k, v, sinks.scores)
    assert_close(*(torch.autograd.grad((x * goal).sum(), inputs) for x in (found, right)), rtol=1e-4, atol=1e-5)
