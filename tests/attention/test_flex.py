"""FlexAttention: forward on the CPU equal to the reference over all parts that can be said pair by pair; the plan on a GPU."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend
from mirada.attention.kernels import flex
from mirada.attention.kernels.plan import plan
from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Dilated,
    Documents,
    Fixed,
    Global,
    Grid,
    Monotonic,
    Neighborhood,
    Padding,
    PerHead,
    Prefix,
    Strided,
    Window,
)  # fmt: skip
from mirada.attention.normalizers import Softmax, Sparsemax
from mirada.attention.places import Pair, Places, place
from mirada.attention.positions import ALiBi, Position, Relative, T5Bias
from mirada.attention.scores import Additive, Bilinear, Dot
from tests.attention.test_kernels import TOLERANCE, a_case

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
BATCH, HEADS, LENGTH, DIM = 2, 3, 13, 5
IDS = torch.tensor([[0] * 5 + [1] * 8, [3] * 7 + [2] * 6])
WHERES: dict[str, Neighborhood] = {
    "complete": Complete(),
    "causal": Causal(),
    "window": Window(2, 3),
    "strided": Strided(3) & Padding([13, 7]),
    "fixed": Fixed(4, 2),
    "grid": Grid(1, 13, radius=2),
    "monotonic": Monotonic(2) & Padding([11, 0]),
    "padding": Padding([0, 9]),
    "documents": Documents(IDS) & Causal(),
    "dense": Dense(torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(1)) < 0.4),
    "per head": PerHead(Causal(), Window(3), Complete()) & Padding([13, 4]),
    "union": Window(1, 1) | Strided(5, part="stride"),
    "complement": ~Causal() & ~Window(4, 4),
    "dilated": Dilated(2, 1, step=3),
    "global": Window(1, 1) | Global((0, 7)),
    "prefix": Prefix(4) | Causal(),
    "rows of one": Dense(torch.rand(LENGTH, LENGTH, generator=torch.Generator().manual_seed(2)) < 0.5),
}
POSITIONS: list[Position] = [Position(), ALiBi(HEADS), T5Bias(HEADS, 8, 9), T5Bias(HEADS, 6, 5, bidirectional=False)]


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel run here, without a compiler: all pairs, forward only."""
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@torch.no_grad()
def both(*tensors: Tensor, **parts: object) -> tuple[Tensor, Tensor]:
    """What `flex` computes, and the reference."""
    return attend(*tensors, kernel="flex", **parts), attend(*tensors, kernel="reference", **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WHERES)
def test_every_neighborhood_and_bias_is_that_of_the_reference(name: str) -> None:
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, DIM) for _ in range(3))
    for position in POSITIONS:
        ours, theirs = both(q, k[:, :1], v[:, :1], where=WHERES[name], position=position, score=Dot(0.7))
        assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_queries_in_the_middle_and_positions_of_their_own() -> None:
    q, k, v = (
        torch.randn(BATCH, HEADS, 3, DIM),
        torch.randn(BATCH, HEADS, LENGTH, DIM),
        torch.randn(BATCH, HEADS, LENGTH, 4),
    )
    far = torch.randint(0, 40, (BATCH, LENGTH))
    own = torch.randint(0, 40, (BATCH, 3))
    for given in ({"positions": torch.arange(7, 10)}, {"positions": own, "key_positions": far}):
        for position in (ALiBi(HEADS), T5Bias(HEADS, 8, 9)):
            where = Causal() & Window(19)
            assert_close(*both(q, k, v, where=where, position=position, score=Bilinear(DIM, DIM), **given))


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 900), marks=pytest.mark.slow)], ids=["some", "many"]
)
@torch.no_grad()
def test_all_parts_that_it_takes(seeds: range) -> None:
    refused: Counter[bool] = Counter()
    for seed in seeds:
        tensors, score, where, position, normalizer, dtype = a_case(seed)
        dtype = torch.float32 if dtype == torch.float64 else dtype
        q, k, v = (x.to(dtype) for x in tensors)
        position = Position() if position is None else position
        places = place(len(q), q.shape[2], k.shape[2], q.device)
        q, k = position.rotate(q, range(q.shape[2])), position.rotate(k, range(k.shape[2]))
        request = Request(q, k, v, score.to(dtype), where, position.to(dtype), normalizer, places)
        reason = flex.Flex().refuses(request)
        refused[reason is not None] += 1
        if reason is None:
            wide = replace(request, q=q.double(), k=k.double(), v=v.double())
            expected = plan_reference(wide)
            assert_close(flex.Flex().run(request).output, expected.to(dtype), **TOLERANCE[dtype], msg=f"seed {seed}")
    assert refused[False] > len(seeds) // 10


def plan_reference(request: Request) -> Tensor:
    """The reference in float64."""
    from mirada.attention.kernels.reference import Reference

    request = replace(request, score=request.score.double(), position=request.position.double())
    return Reference().run(request).output


def test_blocks_are_kept_until_the_data_change() -> None:
    flex._kept_block_mask.cache_clear()
    lengths = torch.tensor([13, 7])
    q, where = torch.randn(BATCH, HEADS, LENGTH, DIM), Padding(lengths) & Causal()
    for _ in range(3):
        assert_close(*both(q, q, q, where=where))
    assert flex._kept_block_mask.cache_info()[:2] == (2, 1)
    lengths.sub_(3)
    assert_close(*both(q, q, q, where=Padding(lengths) & Causal()))
    assert_close(*both(q, q, q, where=where))


class Even(Neighborhood):
    """A set of somebody else's, which says nothing of one pair."""

    def sees(self, places: Places) -> Tensor:
        return places.column % 2 == 0


class EvenPair(Even):
    """The same, which does."""

    def sees(self, places: Places) -> Tensor:
        return places.column % 2 == 0

    def pair(self, at: Pair) -> Tensor:
        return at.column % 2 == 0


def test_what_cannot_be_said_of_one_pair_is_refused() -> None:
    layer, x = Attention(MultiHead(6, 2)), torch.randn(1, 5, 6)
    reasons = {
        "Even() does not say `pair`": {"where": Even()},
        "Relative does not say `pairwise`": {"position": Relative(3, 2)},
        "Additive is not a product": {"score": Additive(3, 3, 2)},
        "a softmax inside, not Sparsemax": {"normalizer": Sparsemax()},
        "cannot drop weights": {"normalizer": Softmax(0.3)},
    }
    for reason, parts in reasons.items():
        layer = Attention(MultiHead(6, 2), **parts)  # type: ignore[arg-type]
        assert reason in str(flex.Flex().refuses(layer.request(x)))
    q = torch.randn(1, 2, 5, 3)
    assert_close(*both(q, q, q, where=EvenPair() & Causal()))


def test_the_plan_on_a_gpu_takes_it_where_fused_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "DEVICES", ("meta",))  # a stand-in
    x = torch.empty(1, 2**15, 32, device="meta")
    for where, position in ((Window(2**14, 2**14), None), (Causal(), T5Bias(2))):
        layer = Attention(MultiHead(32, 2), where=where, position=position).to("meta")
        chosen = plan(layer.request(x))
        assert chosen.kernel == "flex"
        assert "fused" in chosen.refused
    assert Attention(MultiHead(32, 2), where=Causal()).to("meta").plan(x).kernel == "fused"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", WHERES)
def test_forward_and_backward_on_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "DEVICES", ("cuda",))
    where = WHERES[name]
    for position in POSITIONS:
        position = position.to("cuda")
        outputs = []
        for kernel in ("flex", "reference"):
            torch.manual_seed(1)
            q, k, v = (torch.randn(BATCH, HEADS, LENGTH, 16, device="cuda", requires_grad=True) for _ in range(3))
            output = attend(q, k, v, where=where, position=position, kernel=kernel)
            wanted = [q, k, v, *position.parameters()]
            outputs.append((output, *torch.autograd.grad(output.square().sum(), wanted)))
        for ours, theirs in zip(*outputs, strict=True):
            assert_close(ours, theirs, atol=1e-3, rtol=1e-3)
