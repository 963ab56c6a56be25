"""Dropout: its rate and scale by counting, its gradient by its own mask."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.dropout import STEPS, random_bytes
from mirada.layers.dropout import Dropout
from tests.ways import WAYS, take

MANY = 200_003


@pytest.fixture(autouse=True, params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With a C compiler float32 is dropped in one pass, without it by torch: every test is one of both."""
    return take(request.param, monkeypatch)


def seeded_dropout(x: Tensor, rate: float, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return Dropout(rate)(x)


@pytest.mark.parametrize("rate", [0.1, 0.25, 1 / 3, 0.5, 0.9, 0.999])
def test_the_rate_is_the_nearest_multiple_of_one_in_256(rate: float) -> None:
    used = min(round(rate * STEPS), STEPS - 1) / STEPS
    assert abs(used - min(rate, 255 / 256)) <= 0.5 / STEPS
    y = Dropout(rate)(torch.ones(MANY))
    dropped = (y == 0).double().mean().item()
    # five standard deviations of a binomial fraction
    assert_close(dropped, used, rtol=0, atol=5 * math.sqrt(used * (1 - used) / MANY))
    assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - used)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_expectation_stays(rate: float) -> None:
    used = round(rate * STEPS) / STEPS
    spread = math.sqrt(used / (1 - used) / MANY)
    assert_close(Dropout(rate)(torch.ones(MANY)).double().mean().item(), 1.0, rtol=0, atol=5 * spread)


def test_all_eight_bytes_of_a_draw_decide_alike_and_for_themselves() -> None:
    kept = (Dropout(0.25)(torch.ones(8 * 40_009)) != 0).double().view(-1, 8)
    of_each = kept.mean(0)
    assert_close(of_each, torch.full_like(of_each, 0.75), rtol=0, atol=5 * math.sqrt(0.75 * 0.25 / 40_009))
    correlation = torch.corrcoef(kept.T)
    assert_close(correlation, torch.eye(8, dtype=torch.float64), rtol=0, atol=5 / math.sqrt(40_009))


def test_every_byte_comes_equally_often() -> None:
    counts = torch.bincount(random_bytes(torch.empty(MANY)).long(), minlength=256).double()
    expected = MANY / 256
    squares = ((counts - expected) ** 2 / expected).sum().item()
    assert squares < 255 + 6 * math.sqrt(2 * 255)  # chi-square with 255 degrees of freedom


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (9,), (3, 5, 11), (0, 3), (2, 0)])
def test_any_number_of_numbers(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    y = Dropout(0.5)(x)
    assert y.shape == x.shape
    assert_close(torch.where(y == 0, 2 * x, y), 2 * x)


def test_a_tensor_that_is_not_contiguous() -> None:
    x = torch.randn(5, 7, 11).transpose(0, 2)[::2]
    y = Dropout(0.5)(x)
    assert_close(torch.where(y == 0, 2 * x, y), 2 * x)
    assert 0 < (y == 0).sum() < y.numel()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_the_dtype_stays(dtype: torch.dtype) -> None:
    y = Dropout(0.5)(torch.ones(101, dtype=dtype))
    assert y.dtype == dtype
    assert set(y.tolist()) == {0.0, 2.0}


def test_the_input_stays_as_it_is() -> None:
    x = torch.randn(101)
    before = x.clone()
    Dropout(0.5)(x)
    assert_close(x, before, rtol=0, atol=0)


def test_the_gradient_goes_through_the_same_mask() -> None:
    x, grad = torch.randn(3, 5, 11, requires_grad=True), torch.randn(3, 5, 11)
    y = seeded_dropout(x, 0.3)
    (y * grad).sum().backward()
    scale = STEPS / (STEPS - round(0.3 * STEPS))
    assert_close(x.grad, grad * (y != 0) * scale)


def test_nothing_of_the_input_is_kept_for_the_gradient(way: str) -> None:
    kept: list[Tensor] = []
    x = torch.randn(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        Dropout(0.5)(x)
    assert [t.dtype for t in kept] == ([] if way == "compiled" else [torch.bool])


def test_gradients_of_gradients() -> None:
    x = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: seeded_dropout(t, 0.4), x)
    assert torch.autograd.gradgradcheck(lambda t: seeded_dropout(t, 0.4) ** 3, x)


def test_gradients_of_gradients_in_float32() -> None:
    x = torch.randn(5, 101, requires_grad=True)
    y = seeded_dropout(x, 0.3)
    kept = (y != 0) * (y / x).detach()
    (grad,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    assert_close(grad, 3 * x**2 * kept**3)
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert_close(second, 6 * x * kept**3)


def test_many_gradients_at_once() -> None:
    x = torch.randn(5, 11, requires_grad=True)
    y = seeded_dropout(x, 0.3)
    grads = torch.randn(3, 5, 11)
    (found,) = torch.autograd.grad(y, x, grads, is_grads_batched=True, retain_graph=True)
    for grad, each in zip(grads, found, strict=True):
        assert_close(each, torch.autograd.grad(y, x, grad, retain_graph=True)[0])


def test_a_gradient_that_is_not_contiguous() -> None:
    x = torch.randn(5, 11, requires_grad=True)
    y = seeded_dropout(x, 0.3)
    grad = torch.randn(11, 5).T
    assert_close(torch.autograd.grad(y, x, grad)[0], grad * (y / x).detach())


def test_numbers_far_apart_are_dropped_for_themselves() -> None:
    """Neither a distance within a block of random bytes nor one of many blocks repeats what was dropped."""
    kept = (seeded_dropout(torch.ones(2**20), 0.5) != 0).double() * 2 - 1
    for distance in (1, 7, 8, 63, 64, 65, 512, 4096, 65_536):
        alike = (kept[distance:] * kept[:-distance]).mean().item()
        assert abs(alike) < 5 / math.sqrt(len(kept) - distance)


def test_one_thread_drops_what_several_drop() -> None:
    x, threads = torch.randn(2**17), torch.get_num_threads()
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(seeded_dropout(x, 0.5))
    torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("shape", [(3, 5, 11), (64,), (4, 100)], ids=str)
def test_a_base_is_added(shape: tuple[int, ...]) -> None:
    x, base, grad = torch.randn(shape, requires_grad=True), torch.randn(shape, requires_grad=True), torch.randn(shape)
    torch.manual_seed(3)
    y = Dropout(0.3)(x, base)
    alone = seeded_dropout(x, 0.3)
    assert_close(y, base + alone)
    found = torch.autograd.grad(y, (x, base), grad)
    assert_close(found, torch.autograd.grad(base + alone, (x, base), grad))
    assert_close(Dropout(0.3).eval()(x, base), base + x)
    assert_close(Dropout(0.0)(x, base), base + x)


def test_a_base_of_another_shape_is_broadcast() -> None:
    x, base = torch.randn(3, 11), torch.randn(11)
    torch.manual_seed(3)
    assert_close(Dropout(0.3)(x, base), base + seeded_dropout(x, 0.3))


def test_nan_and_infinity_stay() -> None:
    y = seeded_dropout(torch.tensor([math.nan, math.inf, -math.inf]).repeat(100), 0.5).view(100, 3)
    assert y[:, 0].isnan().any()
    assert {math.inf, -math.inf} <= set(y[:, 1:].flatten().tolist())


def test_in_evaluation_nothing_happens() -> None:
    x = torch.randn(3, 5)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.001)(x) is x  # the nearest multiple of 1/256 is 0


def test_evaluation_draws_no_random_numbers() -> None:
    state = torch.get_rng_state()
    Dropout(0.9).eval()(torch.ones(11))
    Dropout(0.0)(torch.ones(11))
    assert torch.equal(torch.get_rng_state(), state)


def test_seeds_can_be_repeated() -> None:
    x = torch.randn(5, 101)
    first = seeded_dropout(x, 0.5)
    assert_close(seeded_dropout(x, 0.5), first, rtol=0, atol=0)
    assert not torch.equal(seeded_dropout(x, 0.5, seed=4), first)
    assert not torch.equal(Dropout(0.5)(x), Dropout(0.5)(x))


@pytest.mark.parametrize("rate", [1.0, -0.1, 2.0, float("nan")])
def test_rates_that_are_no_rates_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\): got "):
        Dropout(rate)


def test_it_prints_its_rate() -> None:
    assert repr(Dropout(0.25)) == "Dropout(0.25)"


def test_it_can_be_compiled_and_mapped():
    compiled = torch.compile(Dropout(0.5), backend="eager", fullgraph=True)
    assert set(compiled(torch.ones(101)).tolist()) == {0.0, 2.0}
    mapped = torch.func.vmap(Dropout(0.5), randomness="different")(torch.ones(3, 101))
    assert set(mapped.flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("default", [torch.float64, torch.float16])
def test_many_gradients_at_once_under_another_default_dtype(default: torch.dtype) -> None:
    """C reads float32: what it is given must not depend on the default."""
    x = torch.randn(5, 1001, requires_grad=True)
    y = seeded_dropout(x, 0.3)
    grads = torch.randn(3, 5, 1001)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        (found,) = torch.autograd.grad(y, x, grads, is_grads_batched=True, retain_graph=True)
    finally:
        torch.set_default_dtype(before)
    assert found.dtype == torch.float32
    assert_close(found, grads * (y / x).detach())
