"""Function transforms: torch.func.grad, vmap, jacrev, jacfwd, jvp and vectorized Jacobians, over every kernel and position."""

import pickle
import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.autograd import forward_ad
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from mirada import Attention, MultiHead
from mirada.attention.heads import Tied
from mirada.attention.neighborhoods import Causal, Complete, Edges, Neighborhood, Padding, Strided, Window
from mirada.attention.normalizers import Gumbel, Hard, Softmax, Sparsemax, draws
from mirada.attention.positions import ALiBi, LocalGaussian, Relative, Rotary, T5Bias
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


def along(name: str) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor]:
    """A function of two numbers, which say how far to go in two directions of the input; a point, and its Jacobian."""
    function, x = made(name)
    first, second = torch.randn_like(x), torch.randn_like(x)

    def moved(t: Tensor) -> Tensor:
        return function(x + t[0] * first + t[1] * second)

    point = torch.zeros(2)
    return moved, point, torch.autograd.functional.jacobian(moved, point)


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_jacobians_are_jacobians(name: str) -> None:
    function, point, expected = along(name)
    assert_close(torch.func.jacfwd(function)(point), expected, atol=1e-4, rtol=1e-3)
    forward = torch.autograd.functional.jacobian(function, point, strategy="forward-mode", vectorize=True)
    assert_close(forward, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_dual_numbers_carry_the_derivative(name: str) -> None:
    function, point, jacobian = along(name)
    direction = torch.tensor([2.0, -3.0])
    output, tangent = torch.func.jvp(function, (point,), (direction,))
    assert_close(tangent, jacobian @ direction, atol=1e-3, rtol=1e-3)
    assert_close(output, function(point), atol=1e-5, rtol=1e-4)
    with forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(point, direction)))
        assert_close(tangent, jacobian @ direction, atol=1e-3, rtol=1e-3)
        assert_close(primal, output, atol=1e-5, rtol=1e-4)


def test_dual_parameters_carry_the_derivative() -> None:
    layer, places, where, _ = CASES["fused"]
    x, parameters = torch.randn(1, places, WIDTH), {name: p.detach() for name, p in layer.named_parameters()}
    directions = {name: torch.randn_like(p) for name, p in parameters.items()}

    def called(parameters: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(layer, parameters, (x,), {"where": where}).square().sum()

    _, tangent = torch.func.jvp(called, (parameters,), (directions,))
    gradients = torch.func.grad(called)(parameters)
    assert_close(tangent, sum((gradients[name] * directions[name]).sum() for name in gradients), atol=1e-3, rtol=1e-3)


def test_forward_over_reverse_is_the_hessian() -> None:
    function, point, _ = along("additive")
    twice = torch.autograd.functional.hessian(lambda t: function(t).square().sum(), point)
    assert_close(torch.func.hessian(lambda t: function(t).square().sum())(point), twice, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("normalizer", [Softmax(0.5), Sparsemax(), Hard(), Gumbel()], ids=str)
def test_every_normalizer_carries_the_derivative(normalizer: torch.nn.Module) -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), normalizer=normalizer), torch.randn(1, 5, WIDTH)
    direction, step = torch.randn_like(x), 1e-4
    layer, x, direction = layer.double(), x.double(), direction.double()

    def function(x: Tensor) -> Tensor:
        torch.manual_seed(1)
        return layer(x)

    _, tangent = torch.func.jvp(function, (x,), (direction,))
    with forward_ad.dual_level():  # the same draws, whatever kernel makes them
        ahead, behind = (function(x + sign * step * direction) for sign in (1, -1))
    if not isinstance(normalizer, Gumbel):  # whose derivative is another's
        assert_close(tangent, (ahead - behind) / (2 * step), atol=1e-4, rtol=1e-4)
    assert tangent.isfinite().all()


def test_the_plan_says_why_in_forward_mode() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(1, 5, WIDTH)
    with forward_ad.dual_level():
        refused = layer.plan(x).refused
    assert refused["fused"] == "PyTorch's kernel has no rule for forward-mode differentiation"
    assert layer.plan(x).kernel != "reference"


def test_draws_under_activation_checkpointing() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), normalizer=Hard()), torch.randn(2, 5, WIDTH, requires_grad=True)
    with draws() as drawn:
        checkpoint(layer, x, use_reentrant=False)
    assert drawn.log_probability().requires_grad
    with pytest.raises(ValueError, match="Pass use_reentrant=False"), draws():
        checkpoint(layer, x, use_reentrant=True)
    with torch.no_grad(), draws() as drawn:  # nobody asks for gradients
        checkpoint(layer, x, use_reentrant=True)
    assert len(drawn) == 1
    with draws() as drawn, torch.no_grad():
        layer(x)
    assert len(drawn) == 1


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


@pytest.mark.parametrize("name", ["edges", "rotary", "bias"])
def test_a_first_call_inside_a_transform_leaves_nothing_behind(name: str) -> None:
    where = Edges(torch.tensor([[0, 1, 4, 4], [1, 2, 0, 1]]), 5) if name == "edges" else Causal()
    distance = random.randint(100, 2**16)  # of which nothing is kept yet
    position = {"edges": None, "rotary": Rotary(DIM, base=distance), "bias": T5Bias(HEADS, distance=distance)}[name]
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=where, position=position), torch.randn(1, 5, WIDTH)

    def function(x: Tensor) -> Tensor:
        return layer(x).square().sum()

    torch.func.vmap(torch.func.hessian(function))(torch.stack([x, -x]))
    copied = pickle.loads(pickle.dumps(layer))
    x.requires_grad_()
    for one in (layer, copied):
        [gradient] = torch.autograd.grad(one(x).square().sum(), x)
        assert_close(torch.func.grad(function)(x.detach()), gradient, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "layer",
    [
        Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=Rotary(DIM)),
        Attention(MultiHead(WIDTH, HEADS), where=Causal() & Window(3)),
    ],
    ids=["short", "window"],
)
def test_two_graphs_serve_every_length(layer: Attention) -> None:
    graphs = CompileCounter()
    torch.compiler.reset()
    compiled = torch.compile(layer, backend=graphs, fullgraph=True)
    for length in (5, 7, 11, 13, 17):
        x = torch.randn(2, length, WIDTH)
        assert_close(compiled(x), layer(x), atol=1e-5, rtol=1e-4)
    assert graphs.frame_count == 2


def test_two_graphs_serve_every_step_of_a_cache() -> None:
    layer, graphs, x = CASES["rotary"][0], CompileCounter(), torch.randn(2, 7, WIDTH)
    layer = Attention(layer.heads, where=Causal(), position=layer.position)
    torch.compiler.reset()
    compiled, cache = torch.compile(layer, backend=graphs, fullgraph=True), layer.cache(2, 7)
    with torch.no_grad():
        steps = torch.cat([compiled(one, cache=cache) for one in x.split(1, dim=1)], dim=1)
    assert_close(steps, layer(x), atol=1e-5, rtol=1e-4)
    assert graphs.frame_count == 2
