"""Short sequences, where C does the work of PyTorch's fused kernel: both against the formula in float64."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.kernels import short
from mirada.attention.neighborhoods import Causal, Complete, Neighborhood, Padding
from mirada.native.library import library
from tests.ways import WAYS, take


def both(tensors: list[Tensor], where: Neighborhood) -> list[tuple[Tensor, ...]]:
    """The output and the gradients: the kernel's in float32, and the formula's in float64."""
    found = []
    for kernel, dtype in (("fused", torch.float32), ("reference", torch.float64)):
        inputs = [x.to(dtype, copy=True, memory_format=torch.preserve_format).requires_grad_() for x in tensors]
        output = attend(*inputs, where=where, kernel=kernel)
        grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(dtype)
        found.append((output.float(), *(x.float() for x in torch.autograd.grad(output, inputs, grad))))
    return found


@pytest.fixture(params=WAYS)
def short_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take(request.param, monkeypatch)


SIZES = [(2, 2), (5, 5), (16, 16), (17, 17), (33, 64), (64, 64), (9, 31), (3, 1)]
CASES = [
    (queries, keys, causal) for queries, keys in SIZES for causal in ((False, True) if queries == keys else (False,))
]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("queries", "keys", "causal"), CASES)
@pytest.mark.parametrize(("dim", "value_dim"), [(16, 16), (64, 64), (32, 80), (128, 48)])
def test_short_sequences_agree_with_the_formula(
    short_way: str, causal: bool, padded: bool, queries: int, keys: int, dim: int, value_dim: int
) -> None:
    torch.manual_seed(queries * keys + dim)
    tensors = [
        torch.randn(3, length, 2, d).transpose(1, 2) for length, d in ((queries, dim), (keys, dim), (keys, value_dim))
    ]
    where = Causal() if causal else Complete()
    if padded:
        where = where & Padding([keys, max(1, keys // 2), 1])
    assert_close(*both(tensors, where), rtol=1e-4, atol=2e-5)


def test_short_sequences_take_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    if library() is None:
        pytest.skip("no C compiler here")
    calls = []
    monkeypatch.setattr(short, "attend", lambda *given: calls.append(given[4]) or attend_shortly(*given))
    attend_shortly = short.Short.apply
    layer = Attention(MultiHead(64, 4), where=Causal())
    layer(torch.randn(2, 7, 64))
    layer(torch.randn(2, 7, 64), where=Padding([7, 3]))
    assert calls == [True, True]
    layer(torch.randn(2, 65, 64))  # too long
    layer(torch.randn(2, 1, 64))  # one query
    Attention(MultiHead(24, 4))(torch.randn(2, 7, 24))  # vectors of 6 numbers
    layer.double()(torch.randn(2, 7, 64, dtype=torch.float64))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer.float()(torch.randn(2, 7, 64))
    assert calls == [True, True]


def test_nothing_to_see_gives_zeros_and_no_slope(short_way: str) -> None:
    tensors = [torch.randn(2, 2, 5, 16, requires_grad=True) for _ in "qkv"]
    output = attend(*tensors, where=Padding([5, 0]), kernel="fused")
    assert_close(output[1], torch.zeros(2, 5, 16))
    for grad in torch.autograd.grad(output.square().sum(), tensors):
        assert_close(grad[1], torch.zeros(2, 5, 16))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_padded_reaches_nothing(short_way: str, bad: float) -> None:
    q, k, v = (torch.randn(2, 2, 5, 16) for _ in "qkv")
    where = Padding([5, 3])
    expected = attend(q, k, v, where=where)
    k[1, :, 3:] = v[1, :, 3:] = bad
    tensors = [x.requires_grad_() for x in (q, k, v)]
    output = attend(*tensors, where=where)
    assert_close(output, expected)
    for grad in torch.autograd.grad(output.square().sum(), tensors):
        assert grad.isfinite().all()


def test_heads_may_share_keys_and_values(short_way: str) -> None:
    tensors = [torch.randn(2, heads, 7, 16) for heads in (4, 2, 2)]
    assert_close(*both(tensors, Causal()), rtol=1e-4, atol=2e-5)


def test_large_scores_in_short_sequences(short_way: str) -> None:
    q, k, v = (torch.randn(2, 2, 9, 16) for _ in "qkv")
    for size in (30.0, 1000.0):
        exact = attend(size * q.double(), k.double(), v.double(), kernel="reference")
        assert_close(attend(size * q, k, v, kernel="fused"), exact.float(), rtol=1e-3, atol=1e-3)
