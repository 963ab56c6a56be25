"""Packed weights: every number stands where C looks for it."""

import pytest
import torch
from torch.testing import assert_close

from mirada.engine.compiled import norm_weights, pack, padded, panels
from mirada.engine.fits import anatomy
from mirada.layers.norm import LayerNorm, RMSNorm
from mirada.native import decode, library
from tests.engine.models import transformer

pytestmark = pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")


@pytest.mark.parametrize(("out", "inner"), [(1, 1), (5, 3), (67, 11), (130, 7)])
def test_a_matrix_in_panels_multiplies_as_the_matrix_does(out: int, inner: int) -> None:
    weight, bias, x = torch.randn(out, inner), torch.randn(out), torch.randn(13, inner)
    packed = panels(weight, bias)
    assert len(packed) == padded(out) * (inner + 1)
    assert_close(decode.product(x, packed, out), torch.nn.functional.linear(x, weight, bias))


def test_a_panel_holds_some_columns_row_by_row() -> None:
    size = decode.panel()
    weight = torch.arange(2.0 * size * 3).view(2 * size, 3)
    packed = panels(weight, torch.zeros(2 * size))
    assert_close(packed[:size], weight[:size, 0])
    assert_close(packed[size : 2 * size], weight[:size, 1])
    assert_close(packed[3 * size : 4 * size], weight[size:, 0])


def test_a_norm_stands_behind_its_eps_and_a_scale() -> None:
    size = decode.panel()
    for norm in (LayerNorm(5, eps=0.25), RMSNorm(5, eps=0.25)):
        packed = norm_weights(norm, 0.5)
        assert packed[:2].tolist() == [0.25, 0.5]
        assert_close(packed[size : size + 5], norm.weight.detach())
        assert len(packed) == size + 2 * padded(5)


def test_all_weights_of_a_decoder_are_packed() -> None:
    half = anatomy(transformer()).decoder
    packed = pack(half)
    width, inner, hidden = 24, 24, 37
    norm = decode.panel() + 2 * padded(width)
    own = padded(3 * inner) * (width + 1) + padded(width) * (inner + 1)
    cross = padded(inner) * (width + 1) + padded(width) * (inner + 1)
    feed = padded(hidden) * (width + 1) + padded(width) * (hidden + 1)
    assert len(packed.stack) == 2 * (3 * norm + own + cross + feed) + norm
    assert [len(numbers) for numbers in packed.sources] == [padded(2 * inner) * (width + 1)] * 2
    assert len(packed.scores) == padded(71) * (width + 1)
