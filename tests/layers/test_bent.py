"""act(W x + b) in one product and one pass, against the two layers it stands for."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers import bent as module
from mirada.layers.bent import ACTIVATIONS, Bent, bent
from mirada.layers.feedforward import FeedForward
from mirada.native import library

SHAPES = [(1, 4), (3, 4), (2, 3, 4), (2, 1, 5, 4), (0, 4), (700, 4)]


@pytest.fixture(params=sorted(ACTIVATIONS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def plain(layer: nn.Linear, x: Tensor, kind: str) -> Tensor:
    return ACTIVATIONS[kind](layer(x))


def both(layer: nn.Linear, x: Tensor, slope: Tensor, kind: str) -> list[tuple[Tensor, ...]]:
    found = []
    for run in (bent, plain):
        given = x.clone().requires_grad_()
        y = run(layer, given, kind)
        found.append((y.detach(), *torch.autograd.grad(y, (given, layer.weight, layer.bias), slope)))
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("wide", [1, 16, 101, 256])
def test_value_and_gradients_are_those_of_two_layers(shape: tuple[int, ...], wide: int, kind: str) -> None:
    layer = nn.Linear(4, wide)
    ours, theirs = both(layer, torch.randn(shape), torch.randn(*shape[:-1], wide), kind)
    assert_close(ours, theirs, rtol=1e-5, atol=1e-4)  # sums of up to 700 numbers


def test_inputs_and_slopes_that_are_not_contiguous(kind: str) -> None:
    layer = nn.Linear(4, 101)
    assert_close(*both(layer, torch.randn(4, 7, 5).transpose(0, 2), torch.randn(101, 7, 5).transpose(0, 2), kind))


def test_one_thread_finds_what_several_find(kind: str) -> None:
    layer, x, slope, threads = nn.Linear(4, 101), torch.randn(5000, 4), torch.randn(5000, 101), torch.get_num_threads()
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(both(layer, x, slope, kind)[0])
    torch.set_num_threads(threads)
    assert_close(found[0], found[1], rtol=1e-4, atol=1e-3)
    assert_close(found[0], found[2], rtol=1e-4, atol=1e-3)


def test_gradients_of_gradients(kind: str) -> None:
    layer, x = nn.Linear(4, 11), torch.randn(7, 4, requires_grad=True)
    found = []
    for y in (bent(layer, x, kind), plain(layer, x, kind)):
        (slope,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), (x, layer.weight)))
    assert_close(*found)


def test_many_gradients_at_once(kind: str) -> None:
    layer, x, slopes = nn.Linear(4, 11), torch.randn(7, 4, requires_grad=True), torch.randn(3, 7, 11)
    found = [
        torch.autograd.grad(y, (x, layer.weight, layer.bias), slopes, is_grads_batched=True)
        for y in (bent(layer, x, kind), plain(layer, x, kind))
    ]
    assert_close(*found)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_gradients_only_where_they_are_asked_for(frozen: str, kind: str) -> None:
    layer = nn.Linear(4, 11)
    getattr(layer, frozen).requires_grad_(False)
    bent(layer, torch.randn(7, 4), kind).sum().backward()
    assert getattr(layer, frozen).grad is None
    assert all(p.grad is not None for name, p in layer.named_parameters() if name != frozen)


def test_what_is_not_a_number_stays(kind: str) -> None:
    layer, x = nn.Linear(2, 3), torch.randn(4, 2)
    x[1, 0] = math.nan
    y = bent(layer, x, kind)
    assert y[1].isnan().all()
    assert y[[0, 2, 3]].isfinite().all()


def test_the_bends_of_many_numbers(kind: str) -> None:
    """Value and slope from -12 to 12, as exact as float32 can be expected to be."""
    x = torch.linspace(-12, 12, 4001).unsqueeze(1)
    layer = nn.Linear(1, 1)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)
    given, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    y, wanted = bent(layer, given, kind), ACTIVATIONS[kind](exact)
    assert_close(y.double(), wanted, rtol=1e-6, atol=2e-6)
    slope, bend = torch.autograd.grad(y.sum(), given)[0], torch.autograd.grad(wanted.sum(), exact)[0]
    assert_close(slope.double(), bend, rtol=2e-6, atol=2e-6)


def test_whoever_watches_the_layer_still_sees_it() -> None:
    feed, seen = FeedForward(4, 11), []
    feed.widen.register_forward_hook(lambda layer, given, result: seen.append(result))
    feed(torch.randn(2, 3, 4))
    assert [tuple(x.shape) for x in seen] == [(2, 3, 11)]
    assert (seen[0] < 0).any()


def test_the_usual_layer_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    if library.library() is None:
        pytest.skip("no C compiler here")
    feed, calls = FeedForward(4, 11), []
    monkeypatch.setattr(module, "Bent", type("Spy", (), {"apply": lambda *a: calls.append(1) or Bent.apply(*a)}))
    feed(torch.randn(2, 3, 4))
    feed.double()(torch.randn(2, 3, 4, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        feed.float()(torch.randn(2, 3, 4))
    assert calls == [1]


def test_it_can_be_compiled_and_mapped(kind: str) -> None:
    feed, x = FeedForward(4, 11, kind), torch.randn(5, 3, 4)
    assert_close(torch.compile(feed, backend="eager", fullgraph=True)(x), feed(x))
    assert_close(torch.func.vmap(feed)(x), feed(x))
    slope = torch.func.grad(lambda t: feed(t).sum())(x)
    assert_close(slope, torch.autograd.grad(feed(given := x.clone().requires_grad_()).sum(), given)[0])
