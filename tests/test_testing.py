"""`mirada.testing.check` passes our own parts, and finds parts that are wrong on purpose, each by the law that it breaks."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mirada.attention import (
    ALiBi,
    Causal,
    Complete,
    Dot,
    Edges,
    Fixed,
    Grid,
    Identity,
    Learned,
    LocalGaussian,
    MultiHead,
    Neighborhood,
    Normalized,
    Normalizer,
    Padding,
    PerHead,
    Position,
    Product,
    Relative,
    Rotary,
    Score,
    Sinusoidal,
    Softmax,
    Sparsemax,
    Strided,
    T5Bias,
    Tied,
    Window,
)
from mirada.attention.neighborhoods import Dense, Documents, Monotonic
from mirada.attention.normalizers import Hard
from mirada.attention.scores import Additive, Bilinear, Concat, Graph, Location, Offset, TanhSum
from mirada.testing import LAWS, LawError, check
from mirada.testing.case import KINDS
from tests.sampling import slow

OURS = [
    Dot(), Window(2, 1), Rotary(8), Sparsemax(), Tied(12, 3, 4), Padding([3, 7, 5]), Learned(8, 20),
    Edges([[0, 3, 3], [1, 2, 3]], 5), Bilinear(6, 4, 3), Additive(4, 4, 3),
    Concat(4, 4, None), TanhSum(4), Location(4, 20), Graph(4, 3), Offset(1, 11), Complete(),
    Causal(), Strided(3), Strided(2, part="stride"), Fixed(3, 1, part="summary"), Grid(3, 5), Monotonic(2), ~Causal(),
    Documents([[0, 0, 1, 1, 1, 2, 2]]), Dense(torch.eye(7) < 1), PerHead(Causal(), Window(2)), Causal() & Window(2),
    Window(1) | Strided(3), Relative(6, 2), ALiBi(4), T5Bias(3), LocalGaussian(6, 2), Sinusoidal(8), Softmax(), Identity(),
    Hard(), MultiHead(12, 3, qk_norm=1e-6),
]  # fmt: skip


@pytest.mark.parametrize("part", slow(OURS, but=range(8)), ids=lambda part: type(part).__name__)
def test_our_own_parts_keep_every_law(part: Any) -> None:
    checked = check(part, skip=["compile"])
    assert checked.held
    kind = next(kind for kind, each in KINDS.items() if isinstance(part, each))
    assert {*checked.held, *checked.skipped} == {name for name, law in LAWS.items() if kind in law.kinds} | {"compile"}


@pytest.mark.slow
@pytest.mark.parametrize("part", [Dot(), Window(2), Rotary(8), Sparsemax(), MultiHead(12, 3)], ids=repr)
def test_our_own_parts_can_be_compiled(part: Any) -> None:
    assert "compile" in check(part).held


# Parts that are wrong on purpose.


class Forward(Causal):
    causal = True

    def sees(self, places):
        return places.j <= places.i + 1


@dataclass(frozen=True, eq=False, repr=False)
class Wider(Neighborhood):
    reach: int = 3
    reflexive = True
    band = (2, 0)

    def sees(self, places):
        return (places.j <= places.i) & (places.i - places.j <= self.reach)


class FromZero(Neighborhood):
    def sees(self, places):
        rows = torch.arange(places.queries).view(1, 1, -1, 1)
        return torch.arange(places.keys).view(1, 1, 1, -1) <= rows


class Counting(Neighborhood):
    def __init__(self):
        self.calls = 0

    def sees(self, places):
        self.calls += 1
        return places.j <= places.i


class Alike(Neighborhood):
    def __init__(self, reach=2):
        self.reach = reach

    def _identity(self):
        return (type(self),)

    def sees(self, places):
        return places.i - places.j <= self.reach


class Otherwise(Score):
    def compare(self, q, k):
        return q @ k.mT

    def aligned(self, q, k):
        return (q * k).mean(-1)


class AcrossTheBatch(Product):
    def queries(self, q):
        return q - q.mean(0, keepdim=True)


class ByHead(Product):
    heads = 1

    def queries(self, q):
        return q * torch.arange(1, q.shape[1] + 1, dtype=q.dtype).view(1, -1, 1, 1)


class TwiceTheGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class FirstGradientOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0].detach()


class WrongGradient(Product):
    def queries(self, q):
        return TwiceTheGradient.apply(q)


class WrongSecondGradient(Product):
    def queries(self, q):
        return FirstGradientOnly.apply(q)


class Remembers(Product):
    def __init__(self):
        super().__init__()
        self.mean = None

    def keys(self, k):
        self.mean = k.mean() if self.mean is None else self.mean
        return k * (1 + self.mean)


class SinglePrecision(Score):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()), persistent=False)

    def compare(self, q, k):
        return (q.float() @ k.float().mT).to(q.dtype)


class WrongDtype(Score):
    def compare(self, q, k):
        return q @ k.mT @ torch.eye(k.shape[2], dtype=torch.float64)


class NotConstant(Position):
    acts = frozenset({"bias"})
    constant = True

    def bias(self, q, places):
        return -(torch.arange(places.queries).view(1, 1, -1, 1) - places.j).abs().to(q.dtype)


class OwnRows(Position):
    acts = frozenset({"bias"})

    def bias(self, q, places):
        return -torch.arange(q.shape[2]).view(1, 1, -1, 1) * places.j.to(q.dtype)


class Silent(Position):
    def bias(self, q, places):
        return (places.i - places.j).to(q.dtype)


class PlainSoftmax(Normalizer):
    def normalize(self, scores, mask):
        return Normalized(scores.masked_fill(~mask, -torch.inf).softmax(-1))


class Leaking(Normalizer):
    def normalize(self, scores, mask):
        return Normalized(scores.masked_fill(~mask, -5.0).softmax(-1))


class CountsAll(Normalizer):
    def normalize(self, scores, mask):
        return Normalized((scores / scores.shape[-1]).masked_fill(~mask, 0))


class Sums(MultiHead):
    def keys(self, memory):
        return super().keys(memory).cumsum(2)

    def project_next(self, x, before):  # it forgets what was before
        return self.project(x, x, x)


class WrongSize(MultiHead):
    def queries(self, x):
        return super().queries(x).repeat(1, 2, 1, 1)

    def merge(self, h):
        return super().merge(h[:, : self.heads])


class Sloped(Product):
    """Right, but with a parameter that has no gradient."""

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(()))

    def queries(self, q):
        return q * self.slope.detach()


WRONG = [
    (Forward(), "declarations", r"declares causal = True"), (Wider(), "declarations", r"declares band = \(2, 0\)"),
    (FromZero(), "start", "dense from start="), (Counting(), "equality", "after it was used"),
    (Alike(), "equality", "equal to a set with reach=3"), (Otherwise(), "pairs", "aligned and the diagonal of compare"),
    (AcrossTheBatch(), "samples", "a sample alone and in its batch"), (ByHead(), "heads alike", "a head scores otherwise"),
    (WrongGradient(), "gradients", "gradient of q"), (WrongSecondGradient(), "gradients twice", "second derivative by q"),
    (Remembers(), "no trace", ""), (SinglePrecision(), "gradients", "gradient of q"),
    (WrongDtype(), "kernels|no trace|samples|dtypes", ""), (NotConstant(), "kernels", "banded and reference"),
    (OwnRows(), "rows", "in chunks of rows"),
    (Silent(), "places", "does not name"), (PlainSoftmax(), "empty rows", "sees nothing"), (Leaking(), "empty rows|unseen", ""),
    (CountsAll(), "masked keys|cache", ""), (Sums(12, 3), "cache", "steps of"),
    (WrongSize(12, 3), "shapes", "queries have the shape"),
    (Sloped(), "gradients", "gradient of slope"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "law", "how"), WRONG, ids=lambda value: type(value).__name__ if not isinstance(value, str) else ""
)
def test_a_wrong_part_is_found(part: Any, law: str, how: str) -> None:
    with pytest.raises(
        LawError, match=rf"^{type(part).__name__}\(.*\) breaks the law '({law})' .*: .*{how}.*\(batch [12], heads 3, "
    ):
        check(part, skip=["compile"])


def test_what_is_given_is_named() -> None:
    with pytest.raises(ValueError, match=r"check takes a score, .*: got the class Dot; add \(\)"):
        check(Dot)
    with pytest.raises(ValueError, match=r"unknown law 'cahce'; known: .*Did you mean 'cache'"):
        check(Dot(), skip=["cahce"])

    class Never(Score):
        def compare(self, q: Tensor, k: Tensor) -> Tensor:
            raise ValueError("it needs 5 heads")

    with pytest.raises(
        LawError, match=r"no sizes were found that Never\(\) takes: with batch 2, .* ValueError: it needs 5 heads"
    ):
        check(Never())


def test_sizes_that_only_the_author_knows() -> None:
    class Seven(Product):
        def check(self, q: Tensor, k: Tensor) -> None:
            if (q.shape[1], q.shape[2], q.shape[3]) != (7, 13, 17) and q.numel():
                raise ValueError("seven heads, thirteen places, dim seventeen")

    rest = ["compile", "rows", "no trace", "cache", "samples"]
    assert "batch 3, heads 7, queries 13, keys 13, dim 17" in str(
        check(Seven(), batch=3, heads=7, length=13, dim=17, skip=rest)
    )
