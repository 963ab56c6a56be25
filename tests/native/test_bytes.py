"""Matrices of bytes and in bfloat16: products are those of the formula to the last digits of float32, on any processor."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada import engine
from mirada.native import decode, library
from mirada.native.structures import DecodeStep
from tests.engine.models import captioner, gpt, read, transcriber, transformer, walk, whisper
from tests.native.stack import rounded_product

needs_compiler = pytest.mark.skipif(library.library() is None, reason="nothing is compiled here")


def formula(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same in integers and float64."""
    scales = weight.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny) / 127
    tops = x.abs().amax(1)
    by = torch.where(tops > 0, 127 / tops, 0)
    a, b = (x * by[:, None]).round().double(), (weight / scales[:, None]).round().double()
    return (a @ b.T) * (tops.double() / 127)[:, None] * scales.double() + bias.double()


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 7, 101])
@pytest.mark.parametrize(("inner", "out"), [(1, 1), (3, 65), (64, 64), (257, 130), (1030, 3)])
def test_products_are_those_of_the_formula(inner: int, out: int, rows: int, threads: int) -> None:
    x, weight, bias = torch.randn(rows, inner), torch.randn(out, inner), torch.randn(out)
    x[0] *= 1e3
    weight[-1] *= 1e-4
    assert_close(rounded_product(x, weight, bias, threads).double(), formula(x, weight, bias), rtol=1e-5, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 7, 101])
@pytest.mark.parametrize(("inner", "out"), [(1, 1), (3, 65), (64, 64), (257, 130), (1030, 3)])
def test_products_in_bfloat16_are_those_of_rounded_weights(inner: int, out: int, rows: int, threads: int) -> None:
    x, weight, bias = torch.randn(rows, inner), torch.randn(out, inner), torch.randn(out)
    found = rounded_product(x, weight, bias, threads, "bfloat16")
    exact = x.double() @ weight.bfloat16().double().T + bias.double()
    assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


@needs_compiler
def test_the_largest_numbers_do_not_overflow() -> None:
    inner = 60_000
    x, weight = torch.ones(1, inner), torch.ones(2, inner) * torch.tensor([[1.0], [-1.0]])
    assert_close(rounded_product(x, weight, torch.zeros(2)), torch.tensor([[60_000.0, -60_000.0]]))


@needs_compiler
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_so_in_its_row(wrong: float) -> None:
    x, weight, bias = torch.randn(3, 10), torch.randn(5, 10), torch.randn(5)
    x[1, 4], x[2] = wrong, 0
    found = rounded_product(x, weight, bias)
    assert found[1].isnan().all()
    assert_close(found[[0, 2]].double(), formula(x[[0, 2]], weight, bias), rtol=1e-5, atol=1e-5)
    assert_close(found[2], bias)


@needs_compiler
@pytest.mark.parametrize(("inner", "room"), [(60_001, 10**6), (10, 7)])
def test_what_does_not_fit_is_refused(inner: int, room: int) -> None:
    job = DecodeStep(
        width=inner, heads=1, groups=1, dim=1, hidden=1, rows=1, all=1, threads=1, bytes=1, bytes_each=room
    )
    with pytest.raises(ValueError, match="an input of a matrix of bytes has at most 60,000 numbers"):
        decode.step(job)


MODELS: dict[str, Any] = {
    "transformer": transformer, "gpt": gpt, "transcriber": transcriber, "captioner": captioner, "whisper": whisper,
    "relative": lambda: gpt(position="relative:3"),
    "llama": lambda: gpt(position="rotary", projection="grouped:1,bias=no", activation="gated", norm="rms"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_rounded_engine_is_close_to_the_model_and_says_what_it_is(name: str, precision: str) -> None:
    model = MODELS[name]()
    made, exact = engine.fast(model, precision=precision), engine.fast(model)
    assert made.precision == precision
    assert precision in repr(made)
    assert made.holds(model)
    indices = {2: torch.tensor([2, 0, 0])}
    ours, theirs = (
        torch.stack(walk(each.stepper, each.stepper.start(read(model, each.stepper, 3)), 6, indices)[0])
        for each in (made, exact)
    )
    error = (ours - theirs).std() / theirs.std()
    assert 0 < error < {"int8": 0.05, "bfloat16": 0.01}[precision]
    assert exact.precision == "float32"


def test_what_an_engine_does_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"precision=int8 is not for this model: .*self.score is Additive"):
        engine.fast(gpt(score="additive"), precision="int8")
    with pytest.raises(ValueError, match="unknown precision 'int9'; known: bfloat16, float32, int8"):
        engine.fast(gpt(), precision="int9")
    with pytest.raises(ValueError, match=r"precision=int8 is not for this model: it is compiled for float32"):
        engine.fast(gpt(torch.float64), precision="int8")
    monkeypatch.setattr(library, "search_once", lambda: library.FoundLibrary(None, "a test turned it off"))
    with pytest.raises(ValueError, match="a test turned it off"):
        engine.fast(gpt(), precision="int8")
