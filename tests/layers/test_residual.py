"""The way around a layer, before and after its norm, by hand."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.layers.block import Residual
from mirada.layers.norm import BatchNorm, LayerNorm

BATCH, LENGTH, WIDTH = 2, 3, 5


def normed(x: Tensor, norm: LayerNorm) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, written out."""
    centered = x - x.mean(-1, keepdim=True)
    return centered / ((centered**2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def layer(x: Tensor) -> Tensor:
    return torch.sin(3 * x)


@pytest.fixture
def norm() -> LayerNorm:
    norm = LayerNorm(WIDTH)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    return norm


def test_pre_is_the_input_plus_the_layer_of_its_norm(norm: LayerNorm) -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    assert_close(Residual(norm, "pre")(x, layer), x + layer(normed(x, norm)))


def test_post_is_the_norm_of_the_input_plus_the_layer(norm: LayerNorm) -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    assert_close(Residual(norm, "post")(x, layer), normed(x + layer(x), norm))


def test_a_layer_that_says_nothing_is_gone_around(norm: LayerNorm) -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH, requires_grad=True)
    y = Residual(norm, "pre")(x, torch.zeros_like)
    assert_close(y, x)
    y.sum().backward()
    assert_close(x.grad, torch.ones_like(x))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_real_places_reach_the_norm(order: str) -> None:
    x = torch.randn(BATCH, LENGTH, WIDTH)
    real = torch.tensor([[True, True, False], [True, False, False]])
    around, other = (Residual(BatchNorm(WIDTH), order) for _ in range(2))
    y = around(x, layer, real)
    other(x, layer)
    before_norm = x if order == "pre" else x + layer(x)
    assert_close(around.norm.mean, 0.1 * before_norm[real].mean(0))
    assert not torch.equal(around.norm.mean, other.norm.mean)
    assert y.shape == x.shape


def test_dropout_falls_on_the_layer_and_never_on_the_way_around(norm: LayerNorm) -> None:
    x = torch.randn(BATCH, 101, WIDTH)
    around = Residual(norm, "pre", dropout=0.5)
    said, difference = layer(normed(x, norm)), around(x, layer) - x
    dropped = difference == 0
    assert 0 < dropped.sum() < dropped.numel()
    assert_close(difference[~dropped], 2 * said[~dropped], rtol=1e-4, atol=1e-5)
    assert_close(around.eval()(x, layer), x + said)


def test_dropout_comes_before_the_norm_that_follows(norm: LayerNorm) -> None:
    x, around = torch.randn(BATCH, LENGTH, WIDTH), Residual(norm, "post", dropout=0.5)
    torch.manual_seed(3)
    y = around(x, layer)
    torch.manual_seed(3)
    assert_close(y, normed(x + around.dropout(layer(x)), norm))


def test_the_layer_belongs_to_the_module_that_hands_it_over(norm: LayerNorm) -> None:
    around = Residual(norm, "pre", dropout=0.25)
    assert {name for name, _ in around.named_parameters()} == {"norm.weight", "norm.bias"}
    assert "order='pre'" in repr(around)


def test_unknown_orders_and_rates_are_refused(norm: LayerNorm) -> None:
    with pytest.raises(ValueError, match=r"unknown order 'psot'; known: post, pre\. Did you mean 'post'\?"):
        Residual(norm, "psot")
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\): got 1\.0"):
        Residual(norm, "pre", dropout=1.0)
