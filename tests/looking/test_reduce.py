"""Reductions of weights that are never held at once: equal to the same computed from all weights, for every kind of layer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from mirada import (
    ALiBi,
    Attention,
    Causal,
    Edges,
    MultiHead,
    Padding,
    PerHead,
    Relative,
    Rotary,
    Seen,
    Sparsemax,
    T5Bias,
    Window,
    look,
)  # fmt: skip
from mirada.attention.kernels import reference
from mirada.looking import weights as exact
from mirada.looking.reduce import ColumnSums, Distance, Entropy, Sink, TopK
from mirada.looking.statistics import dense_statistics

BATCH, HEADS, DIM, N = 2, 3, 6, 29
HEADED = MultiHead(HEADS * DIM, HEADS)
LAYERS = {
    "plain": Attention(HEADED),
    "causal": Attention(HEADED, where=Causal()),
    "window": Attention(HEADED, where=Window(5, 2)),
    "per head": Attention(HEADED, where=PerHead(Window(2), Causal(), Window(3, 4))),
    "holes": Attention(HEADED, where=Causal() & ~Window(0)),  # the first row sees nothing
    "alibi": Attention(HEADED, where=Causal() & Window(6), position=ALiBi(HEADS)),
    "t5": Attention(HEADED, where=Window(4, 4), position=T5Bias(HEADS, 8, 5)),
    "relative": Attention(HEADED, where=Window(4, 1), position=Relative(DIM, clip=2)),
    "rotary": Attention(HEADED, where=Causal(), position=Rotary(6)),
    "sparsemax": Attention(HEADED, where=Window(4, 4), normalizer=Sparsemax()),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rows a tile, so that every input here has several."""
    monkeypatch.setattr(exact, "TILE", 4 * BATCH * HEADS * N)
    monkeypatch.setattr(exact, "LEAST_ROWS", 1)
    monkeypatch.setattr(reference, "NUMBERS_AT_ONCE", 4 * BATCH * HEADS * N)


def call_of(layer: Attention, where: Any = None) -> Any:
    with look(layer) as seen:
        layer(torch.randn(BATCH, N, HEADS * DIM), where=where)
    return seen[""]


def expected(call: Any) -> torch.Tensor:
    """The weights by the reference kernel, all at once."""
    request = call.restored()
    k, _ = request.visible()
    return reference.weigh(request, request.score.queries(request.q), request.score.keys(k), 0, request.queries).weights


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("head", [None, 1])
def test_they_are_those_of_all_weights(name: str, head: int | None) -> None:
    call = call_of(LAYERS[name], Padding([N, N - 6]))
    weights = expected(call).detach()
    assert_close(call.weights(), weights, rtol=1e-5, atol=1e-6)
    weights = weights if head is None else weights[:, [head]]
    assert_close(call.weights(head), weights if head is None else weights[:, 0], rtol=1e-5, atol=1e-6)
    results = call.reduce(Entropy(), TopK(3), ColumnSums(), Distance(), Sink(0.01), head=head)
    assert_close(results["Entropy"], torch.special.entr(weights).sum(-1), rtol=1e-4, atol=1e-5)
    apart = (torch.arange(N)[:, None] - torch.arange(N)).abs().float()
    assert_close(results["Distance"], (weights * apart).sum(-1), rtol=1e-4, atol=1e-5)
    assert_close(results["ColumnSums"], weights.sum(-2), rtol=1e-4, atol=1e-5)
    top, (keys, largest) = weights.topk(3), results["TopK"]
    assert_close(largest, top.values, rtol=1e-4, atol=1e-6)
    assert_close(weights.gather(-1, keys.clamp(min=0)) * (keys >= 0), largest, rtol=1e-4, atol=1e-6)
    mass = weights.sum(-2) / weights.sum((-2, -1)).unsqueeze(-1)
    assert_close(results["Sink"].weights, mass.amax(-1), rtol=1e-4, atol=1e-5)
    assert_close(mass.gather(-1, results["Sink"].keys.unsqueeze(-1)).squeeze(-1), mass.amax(-1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_statistics_of_tiles_are_those_of_whole_rows(name: str) -> None:
    call = call_of(LAYERS[name])
    for sample in range(BATCH):
        whole, checks = dense_statistics([(0, expected(call)[sample].detach())])
        for a, b in zip(call.statistics(sample), whole, strict=True):
            assert (a.sink is None) == (b.sink is None)
            assert {**vars(a), "sink": 0} == pytest.approx({**vars(b), "sink": 0}, rel=1e-4, abs=1e-6)
        assert vars(call.checks(sample)) == pytest.approx(vars(checks), rel=1e-5, abs=1e-6)


def test_steps_with_a_cache() -> None:
    layer, x = Attention(HEADED, where=Window(5)), torch.randn(1, N, HEADS * DIM)
    cache = layer.cache(batch=1, length=N)
    layer(x[:, :11], cache=cache)
    with look(layer) as seen:
        layer(x[:, 11:], cache=cache)
    weights, results = seen[""].weights(), seen[""].reduce(Distance(), ColumnSums())
    apart = (torch.arange(11, N)[:, None] - torch.arange(N)).abs().float()
    assert_close(results["Distance"], (weights * apart).sum(-1))
    assert_close(results["ColumnSums"], weights.sum(-2))


def test_a_file_is_reduced_too(tmp_path: Path) -> None:
    with look(LAYERS["causal"]) as seen:
        LAYERS["causal"](torch.randn(1, N, HEADS * DIM))
    seen.save(tmp_path / "x.attn")
    before, after = (one[""].reduce(Entropy(), head=2)["Entropy"] for one in (seen, Seen.load(tmp_path / "x.attn")))
    assert before.shape == (1, 1, N)
    assert_close(after, before, rtol=0.02, atol=0.02)


def test_one_head_of_many_takes_the_memory_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "TILE", 2**21)
    sizes: list[int] = []
    softmax = torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda x, *rest: sizes.append(x.numel()) or softmax(x, *rest))
    layer = Attention(MultiHead(32, 16), where=Causal())
    with look(layer) as seen:
        layer(torch.randn(1, 331, 32))
    assert seen[""].weights(head=5).shape == (1, 331, 331)
    assert sizes == [331 * 331]


def test_mistakes_are_named() -> None:
    call = call_of(LAYERS["plain"])
    with pytest.raises(ValueError, match="at least one reduction"):
        call.reduce()
    with pytest.raises(ValueError, match=r"begin, add and result.*Entropy"):
        call.reduce(Entropy)
    with pytest.raises(ValueError, match="class names: got Entropy, Entropy"):
        call.reduce(Entropy(), Entropy())
    with pytest.raises(ValueError, match=r"head must lie in 0\.\.2: got 3"):
        call.reduce(Entropy(), head=3)
    with pytest.raises(ValueError, match="TopK needs a whole number"):
        TopK(0)
    with look(LAYERS["plain"]) as seen:
        LAYERS["plain"](torch.randn(1, 3, HEADS * DIM), where=Edges(torch.tensor([[0, 1], [1, 2]]), 3))
    with pytest.raises(ValueError, match="one per edge"):
        seen[""].reduce(Entropy())
