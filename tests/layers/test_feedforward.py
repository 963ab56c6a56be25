"""Feed-forward layers against formulas written out."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.layers.feedforward import ACTIVATIONS, FeedForward, Gated, feed_forward

BATCH, LENGTH, WIDTH, HIDDEN = 2, 3, 5, 11

BY_HAND = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu-sigmoid": lambda x: x / (1 + math.exp(-1.702 * x)),
    "gelu-tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place))
    return module


def each(function: object, x: Tensor) -> Tensor:
    return torch.tensor([function(number) for number in x.flatten().tolist()], dtype=x.dtype).view(x.shape)


def test_every_activation_has_a_formula() -> None:
    assert set(ACTIVATIONS) == set(BY_HAND)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_number_by_number(activation: str) -> None:
    x = torch.tensor([-7.0, -1.3, -0.2, 0.0, 0.1, 0.9, 5.0], dtype=torch.float64)
    assert_close(ACTIVATIONS[activation](x), each(BY_HAND[activation], x))


@pytest.mark.parametrize("activation", BY_HAND)
def test_widen_bend_narrow(activation: str) -> None:
    layer, x = seeded(FeedForward(WIDTH, HIDDEN, activation)), numbers(BATCH, LENGTH, WIDTH)
    assert layer.widen.weight.shape == (HIDDEN, WIDTH)
    hidden = each(BY_HAND[activation], x @ layer.widen.weight.T + layer.widen.bias)
    assert_close(layer(x), hidden @ layer.narrow.weight.T + layer.narrow.bias)


def test_gated_by_its_formula() -> None:
    layer, x = seeded(Gated(WIDTH, HIDDEN)), numbers(BATCH, LENGTH, WIDTH)
    gate = x @ layer.gate.weight.T
    opened = gate * torch.sigmoid(gate) * (x @ layer.widen.weight.T)
    assert_close(layer(x), opened @ layer.narrow.weight.T)
    assert sorted(name for name, _ in layer.named_parameters()) == ["gate.weight", "narrow.weight", "widen.weight"]


@pytest.mark.parametrize("activation", [*BY_HAND, "gated"])
def test_gradients(activation: str) -> None:
    layer = seeded(feed_forward(3, 5, activation))
    x = numbers(2, 3).requires_grad_()
    assert torch.autograd.gradcheck(layer, x)


@pytest.mark.parametrize("activation", [*BY_HAND, "gated"])
def test_the_same_network_at_every_place(activation: str) -> None:
    layer, x = seeded(feed_forward(WIDTH, HIDDEN, activation)), numbers(BATCH, LENGTH, WIDTH)
    assert_close(layer(x)[1, 2], layer(x[1, 2]))
    assert_close(layer(x.flip(1)), layer(x).flip(1))


def test_names_make_layers() -> None:
    assert isinstance(feed_forward(WIDTH, HIDDEN, "gated"), Gated)
    layer = feed_forward(WIDTH, HIDDEN, "silu")
    assert isinstance(layer, FeedForward)
    assert layer.activation == "silu"
    assert "activation='silu'" in repr(layer)


def test_they_start_without_a_bias() -> None:
    layer = FeedForward(WIDTH, HIDDEN)
    assert_close(layer(torch.zeros(LENGTH, WIDTH)), torch.zeros(LENGTH, WIDTH))
    bound = math.sqrt(6 / (WIDTH + HIDDEN))
    assert max(layer.widen.weight.abs().amax(), layer.narrow.weight.abs().amax()) <= bound


def test_sizes_and_names_that_are_not_there_are_refused() -> None:
    for made in (FeedForward, Gated):
        for width, hidden in ((0, 5), (5, 0)):
            with pytest.raises(ValueError, match=f"sizes must be at least 1: got width={width}, hidden={hidden}"):
                made(width, hidden)
    with pytest.raises(ValueError, match=r"unknown activation 'rleu'; known: .*gated.* Did you mean 'relu'\?"):
        feed_forward(5, 7, "rleu")


def test_an_error_does_not_suggest_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="unknown activation 'gated'") as refused:
        FeedForward(5, 7, "gated")
    assert "Did you mean 'gated'" not in str(refused.value)


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("biases", [True, False])
def test_a_word_describes_activation_gate_and_biases(name: str, biases: bool) -> None:
    x, word = numbers(BATCH, LENGTH, WIDTH), "yes" if biases else "no"
    plain = seeded(feed_forward(WIDTH, HIDDEN, f"{name}:bias={word}"))
    gated = seeded(feed_forward(WIDTH, HIDDEN, f"gated:{name},bias={word}"))
    for layer in (plain, gated):
        assert {biases} == {child.bias is not None for child in layer.children()}
    zero = torch.zeros(())

    def linear(layer: torch.nn.Linear, x: Tensor) -> Tensor:
        return x @ layer.weight.T + (zero if layer.bias is None else layer.bias)

    activated = each(BY_HAND[name], linear(plain.widen, x))
    torch.testing.assert_close(plain(x), linear(plain.narrow, activated))
    opened = each(BY_HAND[name], linear(gated.gate, x)) * linear(gated.widen, x)
    torch.testing.assert_close(gated(x), linear(gated.narrow, opened))


def test_a_gate_is_silu_without_biases_unless_the_word_says_otherwise() -> None:
    layer = feed_forward(WIDTH, HIDDEN, "gated")
    assert isinstance(layer, Gated)
    assert (layer.activation, layer.gate.bias) == ("silu", None)
    assert feed_forward(WIDTH, HIDDEN, "gated:bias=yes").activation == "silu"
    for word in ("gelu:", "gelu:bias", "gated:gelu,bias=yes,bias=yes", "gated:bias=maybe"):
        with pytest.raises(ValueError, match=r"activation .* does not fit: for example 'gelu', 'gelu:bias=no'"):
            feed_forward(WIDTH, HIDDEN, word)
