"""Products by oneDNN: equal to PyTorch's own, forward and backward, and not used where hooks or other observers are attached."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from mirada.native import products
from mirada.native.products import _LinearProduct, called, product

ROWS, WIDE, OUT = 131, 97, 89  # more than LEAST multiplications


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """oneDNN is used here, whatever this CPU is; how often, the list tells."""
    try:
        torch.ops.mkldnn._linear_pointwise(torch.ones(2, 2), torch.ones(2, 2), None, "none", [], "")
    except (AttributeError, RuntimeError):
        pytest.skip("this PyTorch has no oneDNN")
    calls: list[str] = []
    real = _LinearProduct.forward

    def counted(*given):
        calls.append("forward")
        return real(*given)

    monkeypatch.setattr(products, "faster", lambda: True)
    monkeypatch.setattr(_LinearProduct, "forward", staticmethod(counted))
    return calls


def pair(bias: bool = True) -> tuple[nn.Linear, torch.Tensor]:
    torch.manual_seed(3)
    return nn.Linear(WIDE, OUT, bias), torch.randn(ROWS, WIDE, requires_grad=True)


@pytest.mark.parametrize("turned_a", [False, True])
@pytest.mark.parametrize("turned_b", [False, True])
def test_a_product_however_its_factors_lie(asked: list[str], turned_a: bool, turned_b: bool) -> None:
    a = torch.randn(WIDE, ROWS).T if turned_a else torch.randn(ROWS, WIDE)
    b = torch.randn(WIDE, OUT).T if turned_b else torch.randn(OUT, WIDE)
    assert a.numel() * len(b) >= products.LEAST
    assert_close(product(a, b), a @ b.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(ROWS,), (1, ROWS), (ROWS, 2)])
def test_a_linear_layer_has_the_outputs_and_gradients_of_pytorch(
    asked: list[str], bias: bool, shape: tuple[int, ...]
) -> None:  # fmt: skip
    layer, _ = pair(bias)
    x = torch.randn(*shape, WIDE, requires_grad=True)
    probe = torch.randn(*shape, OUT)
    found = called(layer, x)
    assert asked == ["forward"]
    wanted = F.linear(x, layer.weight, layer.bias)
    assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    ours, theirs = (torch.autograd.grad((y * probe).sum(), [x, *layer.parameters()]) for y in (found, wanted))
    for our, their in zip(ours, theirs, strict=True):
        assert_close(our, their, rtol=1e-4, atol=1e-4)


def test_gradients_of_gradients(asked: list[str]) -> None:
    layer, x = pair()
    seconds = []
    for y in (called(layer, x), layer(x)):
        (first,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
        seconds.append(torch.autograd.grad((first**2).sum(), layer.weight)[0])
    assert_close(*seconds, rtol=1e-3, atol=1e-2)


def test_only_what_is_needed_has_a_gradient(asked: list[str]) -> None:
    layer, x = pair()
    layer.weight.requires_grad_(False)
    called(layer, x.detach()).sum().backward()
    assert layer.weight.grad is None
    assert_close(layer.bias.grad, torch.full((OUT,), float(ROWS)))


def test_hooks_see_the_layer_called(asked: list[str]) -> None:
    layer, x = pair()
    seen: list[int] = []
    handle = layer.register_forward_hook(lambda module, given, out: seen.append(1))
    called(layer, x)
    handle.remove()
    assert (seen, asked) == ([1], [])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert called(layer, x).dtype == torch.bfloat16
    assert called(layer.double(), x.double()).dtype == torch.float64
    assert asked == []


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_small_products_stay_where_they_are(asked: list[str], rows: int) -> None:
    layer, _ = pair()
    x = torch.randn(rows, WIDE)
    assert_close(called(layer, x), layer(x), rtol=0, atol=0)
    assert asked == []


def test_other_modules_are_called(asked: list[str]) -> None:
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    layer, x = Doubled(WIDE, OUT), torch.randn(ROWS, WIDE)
    assert_close(called(layer, x), layer(x), rtol=0, atol=0)
    assert asked == []


def test_a_wrong_width_is_refused_as_ever(asked: list[str]) -> None:
    layer, _ = pair()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        called(layer, torch.randn(ROWS, WIDE + 1))


def test_where_it_is_not_faster_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "faster", lambda: False)
    layer, x = pair()
    assert_close(called(layer, x), layer(x), rtol=0, atol=0)
    assert_close(product(x, layer.weight), x @ layer.weight.T, rtol=0, atol=0)
