"""Second derivatives: through every kernel and every compiled function they are those of plain operations."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import Attention, MultiHead
from mirada.attention.heads import Tied
from mirada.attention.kernels import plan as planning
from mirada.attention.neighborhoods import Causal, Documents, Edges, Fixed, Neighborhood, Padding, Strided, Window
from mirada.attention.positions import ALiBi, Relative
from mirada.attention.scores import Additive, Bilinear, Graph
from mirada.layers.feedforward import FeedForward
from mirada.models.gpt import GPT, GPTConfig
from mirada.native import library
from mirada.native.products import called
from tests.ways import WAYS, take

WIDTH, HEADS, DIM = 32, 2, 16
RING = Edges(torch.stack([torch.arange(60), (torch.arange(60) + 1) % 60]), 60)
DOCUMENTS = Documents(torch.arange(263).unsqueeze(0) // 29)

# a layer, how many places, what the call adds, and the kernel that runs
CASES: dict[str, tuple[Attention, int, Neighborhood | None, str]] = {
    "edges": (Attention(Tied(WIDTH, HEADS, DIM), Graph(DIM, HEADS)), 60, RING, "edges"),
    "banded": (Attention(MultiHead(WIDTH, HEADS), where=Causal() & Window(20)), 263, Padding([257]), "banded"),
    "banded, scores of a matrix": (
        Attention(MultiHead(WIDTH, HEADS, dim=8, value_dim=16), Bilinear(8, 8), Window(20)), 263, DOCUMENTS, "banded"
    ),
    "banded, biased": (Attention(MultiHead(WIDTH, HEADS), where=Window(20), position=ALiBi(HEADS)), 263, None, "banded"),
    "strided": (Attention(MultiHead(WIDTH, HEADS), where=Strided(9)), 515, Padding([511]), "strided"),
    "fixed": (Attention(MultiHead(WIDTH, HEADS), where=Fixed(31, 2)), 515, None, "strided"),
    "short": (Attention(MultiHead(WIDTH, HEADS), where=Causal()), 7, None, "short"),
    "short, padded": (Attention(MultiHead(WIDTH, HEADS)), 7, Padding([5]), "short"),
    "fused": (Attention(MultiHead(WIDTH, HEADS), where=Causal()), 131, None, "fused"),
    "fused, masked": (Attention(MultiHead(WIDTH, HEADS), where=Causal()), 131, Padding([127]), "fused"),
    "fused, biased": (Attention(MultiHead(WIDTH, HEADS, value_dim=8), position=ALiBi(HEADS)), 13, None, "fused"),
    "reference": (Attention(MultiHead(WIDTH, HEADS), Additive(DIM, DIM, 3)), 7, None, "reference"),
    "relative": (Attention(MultiHead(WIDTH, HEADS), position=Relative(DIM, 2)), 7, None, "reference"),
}  # fmt: skip


def made(name: str) -> tuple[Callable[[Tensor], Tensor], Tensor, Attention]:
    """A function of two numbers, which move the input, its argument, and the layer in it: the named kernel runs."""
    layer, places, where, kernel = CASES[name]
    x, one, other = torch.randn(3, 1, places, WIDTH)
    chosen = layer.plan(x, where=where).kernel
    if kernel == "short" and chosen != kernel:
        pytest.skip("there is no compiled library")
    assert chosen == kernel
    far = max(1, places // 5)

    def function(t: Tensor) -> Tensor:
        moved = x + t[0] * one + t[1] * other
        return (moved + layer(moved, where=where))[:, ::far].square().sum()

    return function, torch.zeros(2), layer


def by_the_reference(patch: pytest.MonkeyPatch) -> None:
    """Let plain operations compute everything."""
    patch.setattr(planning, "KERNELS", planning.KERNELS[-1:])
    patch.setattr(library, "search_once", lambda: library.FoundLibrary(None, "a test turned it off"))


@pytest.mark.parametrize("name", CASES)
def test_a_hessian_is_that_of_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, t, _ = made(name)
    with monkeypatch.context() as patch:
        by_the_reference(patch)
        expected = torch.func.hessian(function)(t)
    near = {"rtol": 1e-3, "atol": 1e-4 * float(expected.detach().abs().max())}
    direction = torch.tensor([1.0, -2.0])
    assert_close(torch.autograd.functional.hessian(function, t), expected, **near)
    assert_close(torch.autograd.functional.hessian(function, t, vectorize=True), expected, **near)
    assert_close(torch.func.hessian(function)(t), expected, **near)
    assert_close(torch.func.jacrev(torch.func.grad(function))(t), expected, **near)
    assert_close(torch.autograd.functional.hvp(function, t, direction)[1], expected @ direction, **near)
    assert_close(torch.autograd.functional.vhp(function, t, direction)[1], expected @ direction, **near)


def second(function: Callable[[], Tensor], wanted: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradient of the squared gradient."""
    first = torch.autograd.grad(function(), wanted, create_graph=True)
    return torch.autograd.grad(sum(x.square().sum() for x in first), wanted)


def assert_near(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Each tensor equals its counterpart, to a share of the largest number."""
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_gradients_reach_the_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, t, layer = made(name)
    wanted = [t.requires_grad_(), *(p for p in layer.parameters() if p.ndim > 1)]
    found = second(lambda: function(t), wanted)
    with monkeypatch.context() as patch:
        by_the_reference(patch)
        expected = second(lambda: function(t), wanted)
    assert_near(found, expected)


def test_a_model_of_language(monkeypatch: pytest.MonkeyPatch) -> None:
    """All compiled functions together: short attention, activations, products, the cross-entropy in chunks."""
    monkeypatch.setattr("mirada.layers.output.SMALL", 0)
    model, ids = GPT(GPTConfig(vocab=37, width=32, depth=2, heads=2)), torch.randint(37, (3, 11))
    model.eval()
    wanted = [p for name, p in model.named_parameters() if "value" in name or "widen" in name]
    found = second(lambda: model.loss(ids, ids), wanted)
    with monkeypatch.context() as patch:
        by_the_reference(patch)
        patch.setattr("mirada.layers.output.SMALL", 2**30)
        expected = second(lambda: model.loss(ids, ids), wanted)
    assert_near(found, expected)
    assert all(float(x.abs().max()) > 1e-6 for x in found)


@pytest.mark.parametrize("way", WAYS)
def test_a_layer_that_is_used_twice(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches it the second time was computed by its own weights, which must not be counted twice."""
    take(way, monkeypatch)
    monkeypatch.setattr("mirada.native.products.LEAST", 0)
    widen, wide = FeedForward(8, 5, "gelu"), nn.Linear(8, 8)
    x, wanted = torch.randn(13, 8), [widen.widen.weight, wide.weight]

    def plain() -> Tensor:
        h = x
        for _ in range(2):
            h = wide(widen.narrow(torch.nn.functional.gelu(widen.widen(h))))
        return h.square().sum()

    def ours() -> Tensor:
        h = x
        for _ in range(2):
            h = called(wide, widen(h))
        return h.square().sum()

    assert_near(torch.autograd.grad(ours(), wanted, create_graph=True), torch.autograd.grad(plain(), wanted))
    assert_near(second(ours, wanted), second(plain, wanted))


def test_lengths_that_changed_are_refused_the_second_time_too() -> None:
    layer, x, lengths = CASES["banded"][0], torch.randn(1, 263, WIDTH, requires_grad=True), torch.tensor([257])
    loss = layer(x, where=Padding(lengths)).sum()
    lengths.sub_(1)
    with pytest.raises(ValueError, match="changed in place"):
        torch.autograd.grad(loss, x, create_graph=True)
