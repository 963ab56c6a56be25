"""The bindings of decode.c: products, checksums, and steps that do not fit their memory."""

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from mirada.native import decode, library
from mirada.native.decode import checksum, panel, product
from mirada.native.structures import DecodeStep
from tests.native.stack import Shape, Stack, decoded, packed, read
from tests.ways import WAYS, take

needs_compiler = pytest.mark.skipif(library.library() is None, reason=f"nothing is compiled here: {library.reason()}")


# Products


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 5, 6, 7, 13, 97, 211])
@pytest.mark.parametrize(("inner", "columns"), [(1, 1), (16, 64), (37, 65), (64, 200)])
def test_products_are_those_of_a_linear_layer(
    rows: int, inner: int, columns: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "threads_for", lambda work: threads)
    x, weight, bias = torch.randn(rows, inner), torch.randn(columns, inner), torch.randn(columns)
    exact = F.linear(x.double(), weight.double(), bias.double())
    assert_close(product(x, packed(weight, bias), columns).double(), exact, rtol=1e-5, atol=1e-4)


@needs_compiler
def test_products_of_other_sizes_are_refused() -> None:
    matrix = packed(torch.randn(7, 5), torch.randn(7))
    for wrong in (lambda: product(torch.randn(3, 6), matrix, 7), lambda: product(torch.randn(3, 5), matrix[:-1], 7)):
        with pytest.raises(ValueError, match="a matrix of 7 columns in panels must be"):
            wrong()


# Checksums


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return take(request.param, monkeypatch)


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 1000, 70000])
def test_any_single_number_counts(way: str, size: int) -> None:
    x = torch.randn(size)
    before = checksum([x])
    assert checksum([x.clone()]) == before
    for place in {0, size // 3, size // 2, size - 1}:
        for change in (lambda n: n + 1, lambda n: -n, lambda n: torch.nextafter(n, torch.tensor(9.0))):
            y = x.clone()
            y.data[place] = change(y[place])
            assert checksum([y]) != before


def test_what_a_plain_sum_would_miss(way: str) -> None:
    x = torch.randn(1000)
    swapped, halves = x.clone(), x.view(2, 500)
    swapped[[3, 700]] = x[[700, 3]]
    others = [[swapped], [-x], [x.flip(0)], [x[:-1]], [halves[0], halves[1]], [halves[1], halves[0]], [x, x], []]
    others += [[torch.cat([x, torch.zeros(1)])], [torch.zeros(1000)], [torch.zeros(1001)], [torch.zeros(0), x]]
    sums = [checksum(tensors) for tensors in ([x], *others)]
    assert len(set(sums)) == len(sums)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 3000))
def test_random_changes_are_noticed(seed: int, size: int) -> None:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(size, generator=random)
    y = torch.where(torch.rand(size, generator=random) < 0.1, -x, x)
    assert (checksum([x]) == checksum([y])) == torch.equal(x, y)


def test_tensors_of_any_kind(way: str) -> None:
    parts = [
        torch.arange(3),
        torch.ones(2, 3).T,
        torch.tensor(True),
        torch.zeros(0),
        torch.ones(5, dtype=torch.bfloat16),
    ]
    assert checksum(parts) == checksum([x.clone() for x in parts])
    assert checksum(parts) != checksum([*parts[:2], torch.tensor(False), *parts[3:]])


@needs_compiler
def test_the_number_of_threads_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, sums = [torch.randn(300_000), torch.randn(7), torch.randn(1_000_003)], set()
    for threads in (1, 2, 3):
        monkeypatch.setattr(decode, "threads_for", lambda work: threads)  # noqa: B023
        sums.add(checksum(tensors))
    assert len(sums) == 1


# Steps and passes

SHAPES = [
    Shape(16, 1, 16, 16), Shape(5, 1, 3, 7), Shape(24, 3, 8, 37, post=True), Shape(72, 4, 18, 33, rms=True, vocab=101),
    Shape(40, 2, 17, 65, cross=True), Shape(64, 4, 16, 128, depth=3, cross=True, post=True, rms=True, vocab=7),
]  # fmt: skip
FACTORS = [
    Shape(24, 4, 6, 37, times=2, turned=6, gated=True, rms=True, activation="silu", vocab=5),
    Shape(24, 6, 5, 37, times=3, turned=4, interleaved=True, normed=True, window=1),
    Shape(24, 2, 9, 21, biased=True, cross=True, rms=True, gated=True),
    Shape(20, 4, 7, 1030, times=4, cross=True, normed=True, gated=True, window=0),
    Shape(16, 1, 16, 16, turned=16),
]


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 7, 65])
@pytest.mark.parametrize("shape", SHAPES + FACTORS, ids=str)
def test_steps_are_those_of_the_formula(shape: Shape, rows: int, threads: int) -> None:
    decode.forget()
    assert_close(*decoded(Stack(shape), rows, 4, threads), rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 17])
@pytest.mark.parametrize("shape", SHAPES + FACTORS, ids=str)
def test_rows_may_be_places_of_one(shape: Shape, rows: int, threads: int) -> None:
    """Each with a place and a row of the caches of its own choice: the same numbers, to the bit, as one step after the other."""
    decode.forget()
    found, expected = decoded(Stack(shape), rows, 4, threads, at_once=True)
    assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert_close(found, decoded(Stack(shape), rows, 4, threads)[0], rtol=0, atol=0)


@needs_compiler
@pytest.mark.parametrize("activation", decode.ACTIVATIONS)
def test_every_activation_of_a_step(activation: str) -> None:
    assert_close(*decoded(Stack(Shape(24, 3, 8, 37, activation=activation)), 5, 3, 1), rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 5), (9, 31)])
@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_passes_are_those_of_the_formula(shape: Shape, batch: int, length: int, threads: int) -> None:
    decode.forget()
    assert_close(*read(Stack(shape), batch, length, threads), rtol=1e-4, atol=1e-4)


@needs_compiler
def test_threads_may_decode_at_once() -> None:
    """Each with a job of its own, and each sharing its work: what one learns of a busy machine is not another's."""
    stacks = [Stack(SHAPES[4], seed) for seed in range(8)]
    expected = [decoded(Stack(SHAPES[4], seed), 33, 5, 2)[0] for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda stack: decoded(stack, 33, 5, 2)[0], stacks))
    assert_close(found, expected, rtol=0, atol=0)


# Steps that do not fit


def a_step(**changed: int | None) -> tuple[DecodeStep, list[object]]:
    """A step of nothing, up to what C checks before it starts: no layers, one output per row."""
    depth = 0
    rows, width = 2, 4
    tensors = {
        "input": torch.randn(rows, width),
        "output": torch.empty(rows, width),
        "scratch": torch.empty(rows * 10 * panel()),
        "own": torch.empty(3 * panel()),
        "phases": torch.empty(8 * decode.phases(depth), dtype=torch.int64),
        "weights": torch.zeros(panel()),
    }
    job = DecodeStep(
        width=width, heads=1, groups=1, dim=4, hidden=4, depth=depth, rows=rows, all=rows, threads=1, places=panel(),
        cache_row=20, cache_head=20, work=1, **{name: x.data_ptr() for name, x in tensors.items()},
    )  # fmt: skip
    kept: list[object] = [tensors]
    for name, value in changed.items():
        if isinstance(value, Tensor):
            kept.append(value)
            value = value.data_ptr()
        setattr(job, name, value)
    return job, [tensors, kept]


@needs_compiler
def test_a_step_through_no_layers_gives_its_input() -> None:
    job, (tensors, _) = a_step()
    assert decode.step(job)
    assert_close(tensors["output"], tensors["input"])


MISFITS = {
    "lengths must lie": {"cross": 1, "source_length": 3, "lengths": torch.tensor([3, 4])},
    "lengths must lie in 0": {"cross": 1, "source_length": 3, "lengths": torch.tensor([-1, 3])},
    "lengths must lie in 0..length": {"length": 2, "lengths": torch.tensor([3])},
    "there must be room for them": {"length": 1000},
    "there must be room in the caches": {"filled": 5},
    "it must be written there": {"filled": 3, "written": 4, "writers": torch.zeros(4, 2, dtype=torch.int64)},
    "writers and homes must be rows": {"filled": 3, "written": 1, "writers": torch.tensor([0, 2])},
    "homes must be rows": {"filled": 3, "fills": torch.tensor([3, 0]), "homes": torch.tensor([1, 2])},
    "homes have places": {"filled": 3, "homes": torch.tensor([0, 1])},
    "up to the highest": {"filled": 3, "fills": torch.tensor([4, 0])},
    "writers and homes must be": {"filled": 3, "written": 1, "writers": torch.tensor([0, -1])},
    "entries must be rows": {"cross": 1, "source_length": 3, "source_count": 2, "entry": torch.tensor([0, 2])},
    "the activation must be": {"activation": 4},
    "heads must share groups": {"groups": 2},
    "pairs must lie in dim": {"turned": 6},
    "a bias must reach all places": {"biases": torch.zeros(1), "distances": 2, "filled": 2},
    "a pass takes none of them": {"length": 1, "windows": torch.zeros(1)},
    "must have a slot each": {"kept": torch.zeros(4), "slots": 1, "room": 0},
    "entries must be": {"cross": 1, "source_length": 3, "entry": torch.tensor([0, -1])},
}


@needs_compiler
@pytest.mark.parametrize(("expected", "changed"), MISFITS.items(), ids=MISFITS)
def test_a_step_that_does_not_fit_its_memory_is_not_taken(expected: str, changed: dict) -> None:
    job, _kept = a_step(**changed)
    with pytest.raises(ValueError, match=expected):
        decode.step(job)


@needs_compiler
@pytest.mark.parametrize("token", [-1, 5, 2**40])
def test_a_token_that_is_no_word_is_reported(token: int) -> None:
    job, _kept = a_step(tokens=torch.tensor([0, token]), vocab=5, words=torch.zeros(5, 4), input=None)
    assert not decode.step(job)


@needs_compiler
def test_a_step_of_no_rows_does_nothing() -> None:
    job, _kept = a_step(rows=0, threads=2)
    assert decode.step(job)
    assert ctypes.sizeof(job) % 8 == 0
