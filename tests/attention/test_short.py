"""Short sequences, which C or PyTorch's fused kernel computes: both against the formula in float64."""

import math
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.kernels.plan import Plan, plan
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Causal, Complete, Neighborhood, Padding, Window
from mirada.attention.normalizers import Softmax
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Position
from mirada.attention.scores import Bilinear, Dot
from mirada.native.library import library, reason
from tests.ways import take

needs_compiler = pytest.mark.skipif(library() is None, reason=f"nothing is compiled here: {reason()}")


def both(tensors: list[Tensor], where: Neighborhood, kernel: str) -> list[tuple[Tensor, ...]]:
    """The output and the gradients: the kernel's in float32, and the formula's in float64."""
    found = []
    for name, dtype in ((kernel, torch.float32), ("reference", torch.float64)):
        inputs = [x.to(dtype, copy=True, memory_format=torch.preserve_format).requires_grad_() for x in tensors]
        output = attend(*inputs, where=where, kernel=name)
        grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(dtype)
        found.append((output.float(), *(x.float() for x in torch.autograd.grad(output, inputs, grad))))
    return found


@pytest.fixture(params=["short", "fused"])
def kernel(request: pytest.FixtureRequest) -> str:
    """Whichever the plan chooses, with C and without."""
    if request.param == "short" and library() is None:
        pytest.skip(f"nothing is compiled here: {reason()}")
    return request.param


SIZES = [(2, 2), (5, 5), (16, 16), (17, 17), (33, 64), (64, 64), (65, 65), (128, 128), (50, 100), (9, 31), (3, 1)]
CASES = [
    (queries, keys, causal) for queries, keys in SIZES for causal in ((False, True) if queries == keys else (False,))
]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("queries", "keys", "causal"), CASES)
@pytest.mark.parametrize(("dim", "value_dim"), [(16, 16), (64, 64), (32, 80), (128, 48)])
def test_short_sequences_agree_with_the_formula(
    kernel: str, causal: bool, padded: bool, queries: int, keys: int, dim: int, value_dim: int
) -> None:
    torch.manual_seed(queries * keys + dim)
    tensors = [
        torch.randn(3, length, 2, d).transpose(1, 2) for length, d in ((queries, dim), (keys, dim), (keys, value_dim))
    ]
    where = Causal() if causal else Complete()
    if padded:
        where = where & Padding([keys, max(1, keys // 2), 1])
    assert_close(*both(tensors, where, kernel), rtol=1e-4, atol=2e-5)


# The plan


def planned(q: Tensor, k: Tensor | None = None, v: Tensor | None = None, **parts: object) -> Plan:
    k = q if k is None else k
    v = k if v is None else v
    parts = {"score": Dot(), "where": Complete(), "position": Position(), "normalizer": Softmax()} | parts
    return plan(Request(q, k, v, places=Places.count(q.shape[2], k.shape[2], device=q.device), **parts))


@needs_compiler
@pytest.mark.parametrize("where", [Complete(), Causal(), Padding([7, 3]), Causal() & Padding([7, 3])], ids=str)
@pytest.mark.parametrize("score", [Dot(), Dot(scale=0.3), Dot(scale="learned"), Dot(scale=-1.0)], ids=str)
def test_short_sequences_are_planned_for_the_short_kernel(where: Neighborhood, score: Dot) -> None:
    q = torch.randn(2, 3, 7, 16)
    assert planned(q, where=where, score=score).kernel == "short"
    assert_close(attend(q, q, q, where=where, score=score), attend(q, q, q, where=where, score=score, kernel="fused"))


REFUSED = {
    "queries=129, keys=129": lambda: planned(torch.randn(2, 3, 129, 16)),
    "queries=1, keys=7": lambda: planned(torch.randn(2, 3, 1, 16), torch.randn(2, 3, 7, 16)),
    "queries=7, keys=129": lambda: planned(torch.randn(2, 3, 7, 16), torch.randn(2, 3, 129, 16)),
    "dims must be multiples of 16 up to 128: got 17 and 17": lambda: planned(torch.randn(2, 3, 7, 17)),
    "got 16 and 24": lambda: planned(*(torch.randn(2, 3, 7, d) for d in (16, 16, 24))),
    "got 144 and 144": lambda: planned(torch.randn(2, 3, 7, 144)),
    "takes no mask": lambda: planned(torch.randn(2, 3, 7, 16), where=Window(2)),
    "takes no mask.*no bias": lambda: planned(torch.randn(2, 3, 7, 16), position=ALiBi(3)),
    "for Dot, not Bilinear": lambda: planned(torch.randn(2, 3, 7, 16), score=Bilinear(16, 16)),
    "got torch.float64 on cpu": lambda: planned(torch.randn(2, 3, 7, 16).double()),
    "got torch.float32 on meta": lambda: planned(torch.randn(2, 3, 7, 16, device="meta")),
}


@needs_compiler
@pytest.mark.parametrize(("expected", "make"), REFUSED.items(), ids=REFUSED)
def test_the_plan_says_why_not_short(expected: str, make: Callable[[], Plan]) -> None:
    found = make()
    assert found.kernel == "fused"
    assert re.search(expected, found.refused["short"]), found.refused["short"]


@needs_compiler
def test_autocast_goes_to_pytorch() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert planned(torch.randn(2, 3, 7, 16)).refused["short"] == "autocast is on"


def test_the_plan_says_that_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    take("torch", monkeypatch)
    found = planned(torch.randn(2, 3, 7, 16))
    assert found.kernel == "fused"
    assert found.refused["short"].startswith("not compiled: a test turned it off.")
    assert "not short: not compiled: a test turned it off" in str(found)
    x = torch.randn(2, 3, 7, 16)
    assert_close(attend(x, x, x), attend(x, x, x, kernel="reference"))


@needs_compiler
def test_layers_take_the_short_kernel() -> None:
    layer = Attention(MultiHead(64, 4), where=Causal())
    assert layer.plan(torch.randn(2, 7, 64), where=Padding([7, 3])).kernel == "short"
    assert layer.plan(torch.randn(2, 129, 64)).kernel == "fused"


def test_what_is_traced_goes_to_pytorch() -> None:
    x = torch.randn(2, 3, 7, 16)
    traced = torch.compile(lambda x: attend(x, x, x, where=Causal()), backend="eager", fullgraph=True)
    assert_close(traced(x), attend(x, x, x, where=Causal()))


# Gradients


@needs_compiler
def test_many_gradients_at_once() -> None:
    tensors = [torch.randn(2, 3, 7, 16, requires_grad=True) for _ in "qkv"]
    output = attend(*tensors, where=Causal() & Padding([7, 4]), kernel="short")
    grads = torch.randn(3, *output.shape)
    found = torch.autograd.grad(output, tensors, grads, is_grads_batched=True, retain_graph=True)
    for place, grad in enumerate(grads):
        each = torch.autograd.grad(output, tensors, grad, retain_graph=True)
        assert_close(tuple(x[place] for x in found), each)


@needs_compiler
def test_lengths_changed_afterwards_change_nothing() -> None:
    tensors = [torch.randn(2, 3, 7, 16, requires_grad=True) for _ in "qkv"]
    lengths = torch.tensor([7, 4])
    outputs = [attend(*tensors, where=Padding(given), kernel="short") for given in (lengths, lengths.clone())]
    lengths.data.fill_(100)
    first, second = (torch.autograd.grad(output.square().sum(), tensors) for output in outputs)
    assert_close(first, second, rtol=0, atol=0)


def test_nothing_to_see_gives_zeros_and_no_gradient(kernel: str) -> None:
    tensors = [torch.randn(2, 2, 5, 16, requires_grad=True) for _ in "qkv"]
    output = attend(*tensors, where=Padding([5, 0]), kernel=kernel)
    assert_close(output[1], torch.zeros(2, 5, 16))
    for grad in torch.autograd.grad(output.square().sum(), tensors):
        assert_close(grad[1], torch.zeros(2, 5, 16))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_padded_reaches_nothing(kernel: str, bad: float) -> None:
    q, k, v = (torch.randn(2, 2, 5, 16) for _ in "qkv")
    where = Padding([5, 3])
    expected = attend(q, k, v, where=where, kernel=kernel)
    k[1, :, 3:] = v[1, :, 3:] = bad
    tensors = [x.requires_grad_() for x in (q, k, v)]
    output = attend(*tensors, where=where, kernel=kernel)
    assert_close(output, expected)
    for grad in torch.autograd.grad(output.square().sum(), tensors):
        assert grad.isfinite().all()


def test_heads_may_share_keys_and_values(kernel: str) -> None:
    tensors = [torch.randn(2, heads, 7, 16) for heads in (4, 2, 2)]
    assert_close(*both(tensors, Causal(), kernel), rtol=1e-4, atol=2e-5)


def test_large_scores_in_short_sequences(kernel: str) -> None:
    q, k, v = (torch.randn(2, 2, 9, 16) for _ in "qkv")
    for size in (30.0, 1000.0):
        exact = attend(size * q.double(), k.double(), v.double(), kernel="reference")
        assert_close(attend(size * q, k, v, kernel=kernel), exact.float(), rtol=1e-3, atol=1e-3)
