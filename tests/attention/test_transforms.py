"""Function transforms: torch.func.grad, vmap, jacrev and vectorized Jacobians, over every kernel and position."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import Attention, MultiHead
from mirada.attention.heads import Tied
from mirada.attention.neighborhoods import Causal, Complete, Edges, Neighborhood, Padding, Strided, Window
from mirada.attention.positions import ALiBi, LocalGaussian, Relative, Rotary
from mirada.attention.scores import Additive, Graph

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # PyTorch's own kernels, in a loop
WIDTH, HEADS, DIM = 32, 2, 16
RING = Edges(torch.stack([torch.arange(60), (torch.arange(60) + 1) % 60]), 60)

# a layer, how many places, what the call adds, and the kernel that runs where nothing is transformed
CASES: dict[str, tuple[Attention, int, Neighborhood | None, str]] = {
    "edges": (Attention(Tied(WIDTH, HEADS, DIM), Graph(DIM, HEADS)), 60, RING, "edges"),
    "banded": (Attention(MultiHead(WIDTH, HEADS), where=Causal() & Window(20)), 260, None, "banded"),
    "strided": (Attention(MultiHead(WIDTH, HEADS), where=Strided(9)), 515, None, "strided"),
    "short": (Attention(MultiHead(WIDTH, HEADS), where=Causal()), 5, None, "short"),
    "fused": (Attention(MultiHead(WIDTH, HEADS), where=Causal()), 5, Padding([3]), ""),
    "rotary": (Attention(MultiHead(WIDTH, HEADS), position=Rotary(DIM)), 5, None, ""),
    "interleaved": (Attention(MultiHead(WIDTH, HEADS), position=Rotary(DIM, layout="interleaved")), 5, None, ""),
    "relative": (Attention(MultiHead(WIDTH, HEADS), position=Relative(DIM, 2)), 5, None, ""),
    "alibi": (Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=ALiBi(HEADS)), 5, None, ""),
    "local": (Attention(MultiHead(WIDTH, HEADS), position=LocalGaussian(DIM, 2)), 5, None, ""),
    "additive": (Attention(MultiHead(WIDTH, HEADS), Additive(DIM, DIM, 3)), 5, None, ""),
}


def made(name: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A function of an input to a few numbers, and an input; its usual kernel is the one that is named."""
    layer, places, where, kernel = CASES[name]
    x = torch.randn(1, places, WIDTH)
    chosen = layer.plan(x, where=where).kernel
    if kernel == "short" and chosen != kernel:
        pytest.skip("there is no compiled library")
    assert chosen == kernel or not kernel
    return lambda x: layer(x, where=where)[:, :: max(1, places // 3), :2].sum(0), x


@pytest.mark.parametrize("name", CASES)
def test_a_functional_gradient_is_the_gradient(name: str) -> None:
    function, x = made(name)
    x.requires_grad_()
    [expected] = torch.autograd.grad(function(x).square().sum(), x)
    assert_close(torch.func.grad(lambda x: function(x).square().sum())(x.detach()), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_vmap_is_a_loop(name: str) -> None:
    function, x = made(name)
    inputs = torch.stack([x, 2 * x, -x])
    expected = torch.stack([function(one) for one in inputs])
    assert_close(torch.func.vmap(function)(inputs), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_vectorized_jacobians_are_jacobians(name: str) -> None:
    function, x = made(name)
    plain = torch.autograd.functional.jacobian(function, x)
    at_once = torch.autograd.functional.jacobian(function, x, vectorize=True)
    assert_close(at_once, plain, atol=1e-5, rtol=1e-4)
    assert_close(torch.func.jacrev(function)(x), plain, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_many_gradients_of_one_output(name: str) -> None:
    function, x = made(name)
    x.requires_grad_()
    output = function(x)
    directions = torch.randn(3, *output.shape)

    def back(direction: Tensor) -> Tensor:
        return torch.autograd.grad(output, x, direction, retain_graph=True)[0]

    expected = torch.stack([back(direction) for direction in directions])
    assert_close(torch.func.vmap(back)(directions), expected, atol=1e-5, rtol=1e-4)


def test_the_reference_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.attention.kernels.reference.NUMBERS_AT_ONCE", 40)
    function, x = made("additive")
    x.requires_grad_()
    [expected] = torch.autograd.grad(function(x).sum(), x)
    assert_close(torch.func.grad(lambda x: function(x).sum())(x.detach()), expected, atol=1e-5, rtol=1e-4)


def test_the_plan_says_why() -> None:
    layer, places, _, _ = CASES["banded"]
    reasons: list[str] = []

    def asked(x: Tensor) -> Tensor:
        reasons.append(layer.plan(x, where=Complete()).refused["banded"])
        return layer(x).sum()

    torch.func.grad(asked)(torch.randn(1, places, WIDTH))
    assert reasons == ["its tiles have no rule for function transforms"]
