"""What C may work on, what it is handed, and what Python and C agree on."""

import ctypes
import math
import threading

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.native import library
from mirada.native.edges import edges_forward
from mirada.native.passes import activate_, activate_backward, cross_entropy_backward_, dropout
from mirada.native.short import short_backward, short_forward
from mirada.native.structures import (
    ACTIVATIONS,
    DEFINED,
    SHORT_LANES,
    SHORT_LONGEST,
    SHORT_WIDEST,
    DecodeStep,
    ShortAttention,
    layout,
)

needs_compiler = pytest.mark.skipif(library.library() is None, reason=f"nothing is compiled here: {library.reason()}")


# Whether C may work on this


class Own(Tensor):
    """A tensor subclass of another library, whose numbers may mean something else."""


ODD = {
    "another dtype": lambda: torch.zeros(3, dtype=torch.float64),
    "integers": lambda: torch.zeros(3, dtype=torch.int32),
    "no memory": lambda: torch.zeros(3, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "a subclass": lambda: torch.zeros(3).as_subclass(Own),
    "a negative view": lambda: torch.zeros(3, dtype=torch.complex64).conj().imag,
    "zeros without memory": lambda: torch._efficientzerotensor(3),
}


@needs_compiler
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_tensors_are_not_served(make: object) -> None:
    assert library.serves(torch.zeros(3), nn.Parameter(torch.zeros(3)))
    assert not library.serves(torch.zeros(3), make())


@needs_compiler
def test_more_dtypes_may_be_allowed() -> None:
    assert library.serves(torch.zeros(3, dtype=torch.float64), dtypes=(torch.float32, torch.float64))


@needs_compiler
def test_what_is_traced_or_mapped_is_not_served() -> None:
    x, seen = torch.zeros(2, 3), []
    torch.func.vmap(lambda row: (seen.append(library.serves(row)), row)[1])(x)
    torch.func.grad(lambda row: (seen.append(library.serves(x)), row.sum())[1])(x)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        seen.append(library.serves(x))
    torch.compile(lambda row: row + library.serves(row), backend="eager")(x)
    assert seen == [False, False, False]
    assert_close(torch.compile(lambda row: row + library.serves(row), backend="eager")(x), x)


def test_without_a_library_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "search_once", lambda: library.FoundLibrary(None, "a test turned it off"))
    assert not library.serves(torch.zeros(3))
    assert (library.library(), library.reason()) == (None, "a test turned it off")


def test_more_work_is_worth_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    unit = library.WORTH_A_THREAD
    assert [library.threads_for(work) for work in (0, unit - 1, 2 * unit, 3 * unit, 99 * unit)] == [1, 1, 2, 3, 3]


# Python and C agree


@needs_compiler
@pytest.mark.parametrize(("report", "structure"), [("decode_layout", DecodeStep), ("short_layout", ShortAttention)])
def test_structures_are_described_as_c_reads_them(report: str, structure: type[ctypes.Structure]) -> None:
    function = getattr(library.library(), report)
    offsets = (ctypes.c_int64 * function(None))()
    function(offsets)
    assert list(offsets) == layout(structure)


@needs_compiler
def test_another_structure_is_noticed_when_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(library.LAYOUTS, "decode_layout", ShortAttention)
    with pytest.raises(AssertionError, match="ShortAttention differs from that of C"):
        library.declared(ctypes.CDLL(str(library.search_once().built[1])))


def test_c_is_told_of_every_constant() -> None:
    told = dict(flag.removeprefix("-D").split("=") for flag in DEFINED)
    assert {told[name.upper().replace("-", "_")] for name in ACTIVATIONS} == {"0", "1", "2", "3"}
    shared = {"SHORT_LONGEST": SHORT_LONGEST, "SHORT_WIDEST": SHORT_WIDEST, "SHORT_LANES": SHORT_LANES}
    assert {name: int(told[name]) for name in shared} == shared


# What C is handed


def attended(**changed: Tensor) -> dict[str, Tensor]:
    tensors = {name: torch.zeros(2, 3, 5, 16) for name in "qkv"}
    return tensors | changed


WRONG = {
    "short: a longer sequence": lambda: short_forward(
        **attended(k=torch.zeros(2, 3, 129, 16), v=torch.zeros(2, 3, 129, 16)), lengths=None, causal=False, scale=1.0
    ),
    "short: an odd dim": lambda: short_forward(
        **attended(v=torch.zeros(2, 3, 5, 17)), lengths=None, causal=False, scale=1.0
    ),
    "short: fewer heads": lambda: short_forward(
        **attended(k=torch.zeros(2, 1, 5, 16)), lengths=None, causal=False, scale=1.0
    ),
    "short: float64": lambda: short_forward(
        **attended(v=torch.zeros(2, 3, 5, 16).double()), lengths=None, causal=False, scale=1.0
    ),
    "short: few lengths": lambda: short_forward(**attended(), lengths=torch.ones(1).long(), causal=False, scale=1.0),
    "short: int32 lengths": lambda: short_forward(**attended(), lengths=torch.ones(2).int(), causal=False, scale=1.0),
    "short: another gradient": lambda: short_backward(
        torch.zeros(2, 3, 4, 16), **attended(), lengths=None, causal=False, scale=1.0, weights=torch.zeros(2, 3, 5, 16)
    ),
    "short: other weights": lambda: short_backward(
        torch.zeros(2, 3, 5, 16), **attended(), lengths=None, causal=False, scale=1.0, weights=torch.zeros(2, 3, 5, 5)
    ),
    "cross-entropy: a short bias": lambda: cross_entropy_backward_(
        torch.zeros(3, 7), torch.zeros(6), torch.zeros(3).long(), 0.0
    ),
    "cross-entropy: few targets": lambda: cross_entropy_backward_(torch.zeros(3, 7), None, torch.zeros(2).long(), 0.0),
    "cross-entropy: int32 targets": lambda: cross_entropy_backward_(torch.zeros(3, 7), None, torch.zeros(3).int(), 0.0),
    "cross-entropy: float64": lambda: cross_entropy_backward_(
        torch.zeros(3, 7).double(), None, torch.zeros(3).long(), 0.0
    ),
    "cross-entropy: a view": lambda: cross_entropy_backward_(torch.zeros(7, 3).T, None, torch.zeros(3).long(), 0.0),
    "dropout: float64": lambda: dropout(torch.zeros(3).double(), None, 1, 128, 2.0),
    "dropout: another base": lambda: dropout(torch.zeros(3), torch.zeros(2), 1, 128, 2.0),
    "activation: a short bias": lambda: activate_(torch.zeros(3, 7), torch.zeros(6), "relu"),
    "activation: a view": lambda: activate_(torch.zeros(7, 3).T, torch.zeros(7), "relu"),
    "activation: another gradient": lambda: activate_backward(torch.zeros(3, 6), torch.zeros(3, 7), "gelu"),
    "edges: few offsets": lambda: edges_forward(
        torch.zeros(4, 2), torch.zeros(3, 2, 5), None, torch.zeros(3).long(), torch.zeros(4).long(), 3
    ),
    "edges: two dtypes": lambda: edges_forward(
        torch.zeros(4, 2).double(), torch.zeros(3, 2, 5), None, torch.zeros(4).long(), torch.zeros(4).long(), 3
    ),
    "edges: few weights kept": lambda: edges_forward(
        torch.zeros(4, 2), torch.zeros(3, 2, 5), torch.ones(3, 2), torch.zeros(4).long(), torch.zeros(4).long(), 3
    ),
}


@needs_compiler
@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_c_is_handed_nothing_of_another_size(call: object) -> None:
    with pytest.raises(ValueError, match=r"must be a contiguous|takes float32"):
        call()


@needs_compiler
@pytest.mark.parametrize("length", [-5, 0, 6, 1000])
def test_lengths_beyond_the_keys_reach_no_other_memory(length: int) -> None:
    q, k, v = (torch.randn(1, 2, 5, 16) for _ in "qkv")
    output, weights = short_forward(q, k, v, torch.tensor([length]), False, 0.25)
    seen = min(max(length, 0), 5)
    exact = torch.softmax(q @ k[:, :, :seen].mT / 4, -1) @ v[:, :, :seen] if seen else torch.zeros_like(v)
    assert_close(output, exact)
    assert_close(weights[..., seen:], torch.zeros_like(weights[..., seen:]))


# Several at once


@needs_compiler
def test_threads_may_call_at_once() -> None:
    x = torch.randn(64, 1000)
    expected, found = dropout(x, None, 7, 100, 1.6), []
    threads = [threading.Thread(target=lambda: found.append(dropout(x, None, 7, 100, 1.6))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(torch.equal(each, expected) for each in found)
    assert math.isclose((expected == 0).float().mean().item(), 100 / 256, rel_tol=0.05)
