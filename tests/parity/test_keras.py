"""Parity with Keras 3 (torch backend): outputs and gradients."""

import pytest
import torch
from torch.testing import assert_close

keras = pytest.importorskip("keras")

from mirada.attention.neighborhoods import Dense  # noqa: E402
from mirada.hub.keras_mha import from_keras  # noqa: E402
from mirada.layers.axes import Axes  # noqa: E402


@pytest.fixture(autouse=True)
def _keras_seed() -> None:
    keras.utils.set_random_seed(7)  # Keras draws its first weights from a generator of its own


BATCH, QUERIES, KEYS, WIDTH, VALUE_WIDTH = 2, 5, 7, 11, 13


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, *inputs: torch.Tensor) -> None:
    assert_close(ours, theirs)
    probe = torch.linspace(-1, 1, theirs.numel()).view_as(theirs)
    gradients = [torch.autograd.grad((y * probe).sum(), inputs) for y in (ours, theirs)]
    assert_close(*gradients)


def shake(layer: "keras.Layer") -> None:
    """Weights away from their start, so that a forgotten one shows."""
    for variable in layer.weights:
        variable.assign(variable + 0.3 * torch.randn(variable.shape))


@pytest.mark.parametrize("mode", ["dot", "concat"])
@pytest.mark.parametrize("use_scale", [False, True])
def test_attention(mode: str, use_scale: bool) -> None:
    q, v, k = tensors((BATCH, QUERIES, WIDTH), (BATCH, KEYS, VALUE_WIDTH), (BATCH, KEYS, WIDTH))
    layer = keras.layers.Attention(score_mode=mode, use_scale=use_scale)
    layer([q, v, k])
    shake(layer)
    ours = from_keras(layer)
    assert_same(ours(q, memory=k, values=v), layer([q, v, k]), q, v, k)
    assert sum(p.numel() for p in ours.parameters()) == layer.count_params()


@pytest.mark.parametrize("use_scale", [False, True])
def test_additive_attention(use_scale: bool) -> None:
    q, v, k = tensors((BATCH, QUERIES, WIDTH), (BATCH, KEYS, VALUE_WIDTH), (BATCH, KEYS, WIDTH))
    layer = keras.layers.AdditiveAttention(use_scale=use_scale)
    layer([q, v, k])
    shake(layer)
    ours = from_keras(layer)
    assert_same(ours(q, memory=k, values=v), layer([q, v, k]), q, v, k)
    assert sum(p.numel() for p in ours.parameters()) == layer.count_params()


def test_parameter_gradients_of_the_scores() -> None:
    (x,) = tensors((BATCH, QUERIES, WIDTH))
    layer = keras.layers.Attention(score_mode="concat", use_scale=True)
    layer([x, x, x])
    shake(layer)
    ours = from_keras(layer)
    layer([x, x, x]).square().sum().backward()
    ours(x).square().sum().backward()
    theirs = {variable.path.split("/")[-1]: variable.value.grad for variable in layer.weights}
    assert_close(ours.score.scale.grad, theirs["scale"])
    assert_close(ours.score.weight.grad, theirs["concat_score_weight"])


@pytest.mark.parametrize("use_bias", [True, False])
def test_five_heads_of_sixty_four(use_bias: bool) -> None:
    q, v, k = tensors((BATCH, QUERIES, WIDTH), (BATCH, KEYS, 17), (BATCH, KEYS, 19))
    layer = keras.layers.MultiHeadAttention(num_heads=5, key_dim=64, value_dim=3, output_shape=23, use_bias=use_bias)
    layer(q, v, k)
    shake(layer)
    ours = from_keras(layer)
    assert_same(ours(q, memory=k, values=v), layer(q, v, k), q, v, k)


def test_masks_have_one_sign() -> None:
    q, k = tensors((BATCH, QUERIES, WIDTH), (BATCH, KEYS, WIDTH))
    layer = keras.layers.MultiHeadAttention(num_heads=5, key_dim=64)
    seen = torch.rand(BATCH, QUERIES, KEYS) < 0.6
    seen[..., 0] = True
    expected = layer(q, k, attention_mask=seen)
    assert_same(from_keras(layer)(q, memory=k, where=Dense(seen)), expected, q, k)


def test_sliding_window() -> None:
    (x,) = tensors((BATCH, KEYS, WIDTH))
    layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3, sliding_window=3)
    expected = layer(x, x)
    assert_same(from_keras(layer)(x), expected, x)


@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2), (2, 3), (1, 3), (1, 2, 3)])
def test_attention_axes(axes: tuple[int, ...]) -> None:
    (x,) = tensors((BATCH, 3, 5, 2, WIDTH))
    layer = keras.layers.MultiHeadAttention(num_heads=5, key_dim=64, attention_axes=axes)
    layer(x, x)
    shake(layer)
    ours = from_keras(layer)
    assert isinstance(ours, Axes)
    assert_same(ours(x), layer(x, x), x)


def test_attention_axes_across_two_inputs() -> None:
    q, k = tensors((BATCH, 3, 5, WIDTH), (BATCH, 3, 7, WIDTH))
    layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3, attention_axes=(2,))
    expected = layer(q, k)
    assert_same(from_keras(layer)(q, memory=k), expected, q, k)


def test_unbuilt_and_unknown_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="call it once"):
        from_keras(keras.layers.Attention())
    with pytest.raises(ValueError, match="unknown Keras layer 'Dense'"):
        from_keras(keras.layers.Dense(3))
