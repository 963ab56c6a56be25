"""act(W x + b) in one product and one pass, against the two layers it stands for."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers import feedforward as module
from mirada.layers.feedforward import ACTIVATIONS, FeedForward, _LinearActivation, linear_activation
from mirada.native import library
from tests.ways import WAYS, take

SHAPES = [(1, 4), (3, 4), (2, 3, 4), (2, 1, 5, 4), (0, 4), (700, 4)]


@pytest.fixture(autouse=True, params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take(request.param, monkeypatch)


@pytest.fixture(params=sorted(ACTIVATIONS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def plain(layer: nn.Linear, x: Tensor, kind: str) -> Tensor:
    return ACTIVATIONS[kind](layer(x))


def both(layer: nn.Linear, x: Tensor, grad: Tensor, kind: str) -> list[tuple[Tensor, ...]]:
    found = []
    for run in (linear_activation, plain):
        given = x.clone().requires_grad_()
        y = run(layer, given, kind)
        found.append((y.detach(), *torch.autograd.grad(y, (given, layer.weight, layer.bias), grad)))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("wide", [1, 16, 101, 256])
def test_value_and_gradients_are_those_of_two_layers(shape: tuple[int, ...], wide: int, kind: str) -> None:
    layer = nn.Linear(4, wide)
    ours, theirs = both(layer, torch.randn(shape), torch.randn(*shape[:-1], wide), kind)
    assert_close(ours, theirs, rtol=1e-5, atol=1e-4)  # sums of up to 700 numbers


def test_inputs_and_gradients_that_are_not_contiguous(kind: str) -> None:
    layer = nn.Linear(4, 101)
    assert_close(*both(layer, torch.randn(4, 7, 5).transpose(0, 2), torch.randn(101, 7, 5).transpose(0, 2), kind))


def test_one_thread_finds_what_several_find(kind: str) -> None:
    layer, x, grad, threads = nn.Linear(4, 101), torch.randn(5000, 4), torch.randn(5000, 101), torch.get_num_threads()
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(both(layer, x, grad, kind)[0])
    torch.set_num_threads(threads)
    assert_close(found[0], found[1], rtol=1e-4, atol=1e-3)
    assert_close(found[0], found[2], rtol=1e-4, atol=1e-3)


def test_gradients_of_gradients(kind: str) -> None:
    layer, x = nn.Linear(4, 11), torch.randn(7, 4, requires_grad=True)
    found = []
    for y in (linear_activation(layer, x, kind), plain(layer, x, kind)):
        (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), (x, layer.weight)))
    assert_close(*found)


def test_many_gradients_at_once(kind: str) -> None:
    layer, x, gradients = nn.Linear(4, 11), torch.randn(7, 4, requires_grad=True), torch.randn(3, 7, 11)
    found = [
        torch.autograd.grad(y, (x, layer.weight, layer.bias), gradients, is_grads_batched=True)
        for y in (linear_activation(layer, x, kind), plain(layer, x, kind))
    ]
    assert_close(*found)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_gradients_only_on_request(frozen: str, kind: str) -> None:
    layer = nn.Linear(4, 11)
    getattr(layer, frozen).requires_grad_(False)
    linear_activation(layer, torch.randn(7, 4), kind).sum().backward()
    assert getattr(layer, frozen).grad is None
    assert all(p.grad is not None for name, p in layer.named_parameters() if name != frozen)


def test_what_is_not_a_number_stays(kind: str) -> None:
    layer, x = nn.Linear(2, 3), torch.randn(4, 2)
    x[1, 0] = math.nan
    y = linear_activation(layer, x, kind)
    assert y[1].isnan().all()
    assert y[[0, 2, 3]].isfinite().all()


def test_the_activations_of_many_numbers(kind: str) -> None:
    """Value and gradient from -12 to 12, as exact as float32 can be expected to be."""
    x = torch.linspace(-12, 12, 4001).unsqueeze(1)
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    y, wanted = linear_activation(layer, given, kind), ACTIVATIONS[kind](exact)
    assert_close(y.double(), wanted, rtol=1e-6, atol=2e-6)
    grad, wanted_grad = torch.autograd.grad(y.sum(), given)[0], torch.autograd.grad(wanted.sum(), exact)[0]
    assert_close(grad.double(), wanted_grad, rtol=2e-6, atol=2e-6)


def test_whoever_watches_the_layer_still_sees_it() -> None:
    feed, seen = FeedForward(4, 11), []
    feed.widen.register_forward_hook(lambda layer, given, result: seen.append(result))
    feed(torch.randn(2, 3, 4))
    assert [tuple(x.shape) for x in seen] == [(2, 3, 11)]
    assert (seen[0] < 0).any()


def test_the_usual_layer_is_passed_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, calls = FeedForward(4, 11), []
    monkeypatch.setattr(
        module,
        "_LinearActivation",
        type("Spy", (), {"apply": lambda *a: calls.append(1) or _LinearActivation.apply(*a)}),
    )
    feed(torch.randn(2, 3, 4))
    feed.double()(torch.randn(2, 3, 4, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        feed.float()(torch.randn(2, 3, 4))
    assert calls == ([1] if way == "compiled" else [])


def test_it_can_be_compiled_and_mapped(kind: str) -> None:
    torch.compiler.reset()  # the wrapper of the axis check is one function for all kinds: its graphs would add up
    feed, x = FeedForward(4, 11, kind), torch.randn(5, 3, 4)
    assert_close(torch.compile(feed, backend="eager", fullgraph=True)(x), feed(x))
    assert_close(torch.func.vmap(feed)(x), feed(x))
    grad = torch.func.grad(lambda t: feed(t).sum())(x)
    assert_close(grad, torch.autograd.grad(feed(given := x.clone().requires_grad_()).sum(), given)[0])


# The same as PyTorch at the ends of float32

SIZES = [10.0**power for power in (-30, -3, 0, 1, 2, 4, 6, 8, 9, 12, 13, 16, 18, 19, 20, 25, 30, 37, 38)] + [2e19, 5e19]
EXTREMES = [sign * size for size in SIZES for sign in (1, -1)] + [0.0, -math.inf, math.nan]


def test_extremes_are_what_pytorch_makes_of_them(kind: str) -> None:
    """Values and gradients, also where one of PyTorch's own products overflows."""
    x, layer = torch.tensor(EXTREMES).repeat(16).unsqueeze(1), nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    found = []
    for run in (linear_activation, plain):
        given = x.clone().requires_grad_()
        y = run(layer, given, kind)
        found.append((y.detach(), torch.autograd.grad(y, given, torch.ones_like(y))[0]))
    assert_close(*found, rtol=1e-5, atol=2e-6, equal_nan=True)


def test_infinity_stays() -> None:
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    for kind in ("relu", "gelu-tanh", "silu"):
        assert linear_activation(layer, torch.full((1, 1), math.inf), kind).item() == math.inf


# Only what is exactly a linear layer


class Doubled(nn.Linear):
    """A linear layer of another library."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Adapted(nn.Module):
    """A low-rank adapter around a linear layer, with the inner layer's weights under their usual names."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(base.in_features, 2, bias=False), nn.Linear(2, base.out_features, bias=False)

    @property
    def weight(self) -> Tensor:
        return self.base.weight

    @property
    def bias(self) -> Tensor:
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


def with_own_forward(layer: nn.Linear) -> nn.Module:
    whole = layer.forward
    layer.forward = lambda x: 2 * whole(x)
    return layer


def with_a_view_as_weight(layer: nn.Linear) -> nn.Module:
    weight = layer.weight
    del layer.weight
    layer.weight = 3 * weight.detach()  # as pruning and the older weight norm have it
    return layer


OTHERS = {
    "own forward": with_own_forward,
    "subclass": lambda layer: Doubled(4, 11),
    "adapter": Adapted,
    "wrapped": lambda layer: nn.Sequential(layer, nn.LayerNorm(11)),
    "spectral norm": nn.utils.parametrizations.spectral_norm,
    "computed weight": with_a_view_as_weight,
    "no bias": lambda layer: nn.Linear(4, 11, bias=False),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_what_stands_in_a_linear_layers_place_is_called(change: object) -> None:
    feed, x = FeedForward(4, 11).eval(), torch.randn(7, 4)
    feed.widen = change(feed.widen)
    expected = feed.narrow(torch.relu(feed.widen.eval()(x)))
    assert_close(feed(x), expected, rtol=0, atol=0)
    plain_one = FeedForward(4, 11)
    if library.library() is not None:
        assert module.replaceable(plain_one.widen, x, "relu")
    assert not module.replaceable(feed.widen, x, "relu")


def test_a_replaced_forward_of_the_class_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, x, usual = FeedForward(4, 11), torch.randn(7, 4), nn.Linear.forward
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: 2 * usual(self, x))
    assert_close(feed(x), feed.narrow(torch.relu(feed.widen(x))), rtol=0, atol=0)


@pytest.mark.parametrize("size", [1, 10, 12])
def test_a_bias_of_another_size_reaches_no_c(size: int) -> None:
    layer, x = nn.Linear(4, 11), torch.randn(7, 4)
    layer.bias = nn.Parameter(torch.randn(size))
    assert not module.replaceable(layer, x, "relu")
    if size > 1:
        with pytest.raises(RuntimeError):
            linear_activation(layer, x, "relu")
