"""Gradients of weights on any kernel equal those of weights that were really changed."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, look
from mirada.attention.heads import Grouped
from mirada.attention.kernels import reference
from mirada.attention.neighborhoods import Causal, Edges
from mirada.attention.positions import Relative
from mirada.attention.scores import Additive
from mirada.looking.explain.measures import value_norms, weight_gradients

LAYERS = {
    "dot": Attention(MultiHead(12, 3)),
    "causal": Attention(MultiHead(12, 3), where=Causal()),
    "grouped": Attention(Grouped(12, 4, 2)),
    "additive": Attention(MultiHead(12, 3), score=Additive(4, 4, 5)),
    "relative values": Attention(MultiHead(12, 3), position=Relative(4, 2)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_weights(name: str) -> None:
    layer, x = LAYERS[name], torch.randn(1, 5, 12)
    probe = torch.randn(1, 5, 12)
    seen, gradients = weight_gradients(layer, [x], lambda y: (y * probe).sum())
    call = seen[""]
    weights = call.weights().requires_grad_()
    mixed = reference.mix(call.request, weights, call.request.visible()[1], 0, 5)
    (layer.heads.merge(mixed) * probe).sum().backward()
    assert weights.grad is not None
    assert_close(gradients[""][0], weights.grad, atol=1e-5, rtol=1e-4)


def test_frozen_parameters_and_no_grad_do_not_matter() -> None:
    layer = Attention(MultiHead(8, 2)).requires_grad_(False)
    with torch.inference_mode():
        x = torch.randn(1, 3, 8)
        found = weight_gradients(layer, [x], lambda y: y.square().sum())[1][""][0]
    assert found.abs().max() > 0
    assert not any(parameter.requires_grad for parameter in layer.parameters())


def test_a_layer_that_does_not_matter_has_gradients_of_zero() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Attention(MultiHead(4, 1)), Attention(MultiHead(4, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.b(x)
            return self.a(x)

    _, gradients = weight_gradients(Two(), [torch.randn(1, 3, 4)], torch.sum)
    assert float(gradients["b"][0].abs().max()) == 0


def test_graphs_are_refused() -> None:
    layer = Attention(MultiHead(4, 1), where=Edges(torch.tensor([[0], [1]]), 2))
    with pytest.raises(ValueError, match="weight per edge"):
        weight_gradients(layer, [torch.randn(1, 2, 4)], torch.sum)


def test_value_norms() -> None:
    layer = Attention(MultiHead(8, 2))
    with look(layer) as seen, torch.no_grad():
        layer(torch.randn(1, 5, 8))
    found, call = value_norms(seen[""].weights()[0], seen[""].values()[0]), seen[""]
    expected = (call.weights()[0, 1, 2, 3] * call.values()[0, 1, 3].norm()).item()
    assert found[1, 2, 3].item() == pytest.approx(expected, rel=1e-5)


def test_scores_are_what_the_softmax_was_given() -> None:
    layer = Attention(MultiHead(8, 2), where=Causal())
    with look(layer) as seen, torch.no_grad():
        layer(torch.randn(2, 5, 8))
    call = seen[""]
    q, k = call.request.q, call.request.k
    assert_close(call.scores(), q @ k.transpose(-2, -1) / 2)
    masked = call.scores(head=1).masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf)
    assert_close(masked.softmax(-1), call.weights(head=1))
    assert_close(call.scores(0, slice(1, 3)), call.scores()[:, 0, 1:3])


def test_scores_with_a_position_and_of_a_cache() -> None:
    layer = Attention(MultiHead(8, 2), where=Causal(), position=Relative(4, 2))
    x = torch.randn(1, 4, 8)
    with torch.no_grad():
        with look(layer) as whole:
            layer(x)
        with look(layer) as steps:
            cache = layer.cache(1, 4)
            for place in range(4):
                layer(x[:, place : place + 1], cache=cache)
    assert_close(steps[""].scores(), whole[""].scores(rows=slice(3, 4)))
    assert_close(
        whole[""].scores().masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf).softmax(-1), whole[""].weights()
    )
