"""Every kernel that accepts a request equals the float64 reference, forward and backward, over random parts and shapes."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import attend
from mirada.attention.kernels.plan import KERNELS
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Documents,
    Edges,
    Fixed,
    Grid,
    Monotonic,
    Neighborhood,
    Padding,
    PerHead,
    Strided,
    Window,
)
from mirada.attention.normalizers import Hard, Identity, Normalizer, Softmax, Sparsemax
from mirada.attention.positions import ALiBi, LocalGaussian, Position, Relative, Rotary
from mirada.attention.scores import (
    Additive,
    Bilinear,
    Concat,
    Dot,
    Graph,
    GraphV2,
    Location,
    Offset,
    Score,
    TanhSum,
)

TOLERANCE = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
    torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
    torch.float16: {"rtol": 2e-2, "atol": 2e-2},
}


@st.composite
def cases(draw: Callable) -> tuple[list[Tensor], Score, Neighborhood, Position | None, Normalizer, torch.dtype]:
    """Random parts of sizes that fit together: distinct primes, ones, and now and then nothing at all."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    batch, heads = draw(st.sampled_from([0, 1, 2, 3])), draw(st.sampled_from([1, 2, 3]))
    queries, keys = draw(st.sampled_from([0, 1, 2, 5, 13])), draw(st.sampled_from([0, 1, 3, 7, 11]))
    square = draw(st.booleans())
    queries = keys if square else queries
    dim, value_dim = draw(st.sampled_from([2, 4, 6])), draw(st.sampled_from([1, 4, 5]))
    kv_heads = draw(st.sampled_from([h for h in (1, 2, 3) if heads % h == 0]))
    q, k = torch.randn(batch, heads, queries, dim), torch.randn(batch, kv_heads, keys, dim)
    v = torch.randn(batch, kv_heads, keys, value_dim)

    shared = draw(st.sampled_from([1, heads]))
    scores = [
        Dot(),
        Dot(scale=0.3),
        Dot(scale="learned"),
        Bilinear(dim, dim, shared),
        Additive(dim, dim, 3, shared),
        Concat(dim, dim, 3, shared),
        Concat(dim, dim, None, shared),
        TanhSum(dim, scale="learned"),
        Location(dim, 11),
        Graph(dim, heads),
        GraphV2(dim, heads),
    ]
    if square and keys:
        scores.append(Offset(1, keys, radius=2, heads=shared))
    score = draw(st.sampled_from(scores))

    where = draw(neighborhoods(batch, heads, queries, keys, square))
    positions: list[Position | None] = [None, ALiBi(heads), LocalGaussian(dim, half=2)]
    if score.reads_keys:
        positions += [Rotary(dim), Rotary(dim, layout="interleaved")]
    if isinstance(score, Dot):
        positions += [Relative(dim, clip=2, values=False)]
        positions += [Relative(dim, clip=3)] if value_dim == dim else []
    position = draw(st.sampled_from(positions)) if "Edges" not in repr(where) else None
    normalizer = draw(st.sampled_from([Softmax(), Softmax(), Softmax(), Sparsemax(), Identity(), Hard().eval()]))
    for part in (score, position):
        for parameter in part.parameters() if part is not None else ():
            nn.init.normal_(parameter, std=0.7)
    dtype = draw(st.sampled_from([torch.float64, torch.float32, torch.float32, torch.bfloat16, torch.float16]))
    return [q, k, v], score, where, position, normalizer, dtype


@st.composite
def neighborhoods(draw: Callable, batch: int, heads: int, queries: int, keys: int, square: bool) -> Neighborhood:
    """A random expression over everything that fits the sizes."""
    lengths = torch.randint(0, keys + 1, (batch,))
    kinds: list[Neighborhood] = [
        Complete(),
        Causal(),
        Window(2),
        Window(1, 2),
        Strided(3),
        Strided(2, part="stride"),
        Strided(2, part="local"),
        Fixed(3, 1),
        Fixed(3, 1, part="summary"),
        Fixed(4, 2, part="local"),
        Monotonic(1),
        Padding(lengths),
        Dense(torch.rand(batch, heads, queries, keys) < 0.6),
        Dense(torch.rand(queries, keys) < 0.5),
        PerHead(*(draw(st.sampled_from([Causal(), Window(1, 1), Complete(), ~Causal()])) for _ in range(heads))),
    ]
    if square:
        kinds += [Documents(torch.randint(0, 2, (batch, keys))), Causal() & Padding(lengths)]
    if square and keys:
        kinds += [Grid(1, keys), Edges(torch.randint(0, keys, (2, 2 * keys)), keys)]
    first, second = draw(st.sampled_from(kinds)), draw(st.sampled_from(kinds))
    return draw(st.sampled_from([first, first, first & second, first | second, ~first, first & ~second]))


def differentiate(
    tensors: list[Tensor], parts: tuple, where: Neighborhood, dtype: torch.dtype, kernel: str
) -> tuple[Tensor, list[Tensor]]:
    """The output and the gradients of every tensor and parameter, for a fixed random direction of the output."""
    inputs = [x.to(dtype, copy=True).requires_grad_() for x in tensors]
    score, position, normalizer = (copy.deepcopy(part).to(dtype) if part is not None else None for part in parts)
    output = attend(*inputs, score=score, where=where, position=position, normalizer=normalizer, kernel=kernel)
    parameters = [p for part in (score, position) if part is not None for p in part.parameters()]
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    gradients = torch.autograd.grad((output * probe).sum(), inputs + parameters, allow_unused=True)
    everything = [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs + parameters, strict=True)]
    return output.detach(), everything


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(cases())
def test_every_kernel_equals_the_reference(case: tuple) -> None:
    tensors, score, where, position, normalizer, dtype = case
    parts = (score, position, normalizer)
    # the exact meaning, of the numbers that the low precision can hold
    tensors = [x.to(dtype).double() for x in tensors]
    for part in (score, position):
        for parameter in part.parameters() if part is not None else ():
            parameter.data = parameter.data.to(dtype).float()
    expected, expected_gradients = differentiate(tensors, parts, where, torch.float64, "reference")
    for tensor in (expected, *expected_gradients):
        assert tensor.isfinite().all()
    choosy = isinstance(normalizer, Hard | Sparsemax) or isinstance(position, LocalGaussian)
    if choosy and dtype not in (torch.float64, torch.float32):
        return  # a last digit decides which key is chosen
    for kernel in KERNELS:
        try:
            output, gradients = differentiate(tensors, parts, where, dtype, kernel.name)
        except ValueError as refusal:
            assert "refuses this request" in str(refusal)  # noqa: PT017
            continue
        assert output.dtype == dtype
        assert_close(output.double(), expected, **TOLERANCE[dtype])
        scale = max([1.0] + [float(g.abs().max()) for g in expected_gradients if g.numel()])
        for got, right in zip(gradients, expected_gradients, strict=True):
            assert_close(got.double() / scale, right / scale, **TOLERANCE[dtype])


@pytest.mark.parametrize("score", [Dot(), Additive(4, 4, 3), Graph(4, 2)], ids=lambda s: type(s).__name__)
def test_chunks_of_queries_change_nothing(score: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    from mirada.attention.kernels import reference

    q, k, v = (torch.randn(3, 2, n, 4) for n in (13, 7, 7))
    parts, where = (
        (score, Relative(4, clip=2) if isinstance(score, Dot) else None, Softmax()),
        Window(2, 1) & Padding([7, 0, 4]),
    )
    whole = differentiate([q, k, v], parts, where, torch.float64, "reference")
    monkeypatch.setattr(reference, "NUMBERS_AT_ONCE", 3 * 2 * 7 * score.pair_width * 2)  # two queries at once
    pieces = differentiate([q, k, v], parts, where, torch.float64, "reference")
    assert_close(pieces, whole)


def test_hard_choices_are_one_draw_even_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirada.attention.kernels import reference
    from mirada.attention.normalizers import draws

    monkeypatch.setattr(reference, "NUMBERS_AT_ONCE", 1)
    q, k, v = (torch.randn(2, 3, n, 5, requires_grad=True) for n in (7, 11, 11))
    with draws() as d:
        output = attend(q, k, v, normalizer=Hard())
    assert [draw.index.shape for draw in d] == [(2, 3, 7)]
    assert_close(output, v.gather(2, d[0].index.unsqueeze(-1).expand(-1, -1, -1, 5)))
    d.log_probability().sum().backward()
    assert q.grad.abs().sum() > 0


@pytest.mark.parametrize("kernel", ["reference", "fused"])
@pytest.mark.parametrize(
    "where",
    [
        Padding([4, 0, 7]),
        Causal() & Padding([4, 2, 7]),
        Window(1, 1) & Padding([4, 2, 7]),
        Dense((torch.arange(7) < 4).expand(7, 7)),
        Edges(torch.tensor([[0, 1, 2, 3], [6, 5, 4, 4]]), 7),
        Fixed(4, 1, part="summary") & Padding([3, 3, 3]),
        ~Window(0) & Padding([1, 3, 3]),
    ],
    ids=repr,
)
def test_a_nan_that_nobody_may_see_reaches_nothing(kernel: str, where: Neighborhood) -> None:
    unseen = ~where.dense(7, 7).expand(3, 2, 7, 7).any(2)
    assert unseen.any()
    q, k, v = (torch.randn(3, 2, 7, 5) for _ in "qkv")
    clean = [x.clone().requires_grad_() for x in (q, k, v)]
    attend(*clean, where=where, kernel=kernel).square().sum().backward()
    for poison in (torch.nan, torch.inf):
        dirty = [q.clone(), *(x.masked_fill(unseen.unsqueeze(-1), poison) for x in (k, v))]
        dirty = [x.requires_grad_() for x in dirty]
        output = attend(*dirty, where=where, kernel=kernel)
        assert_close(output, attend(*clean, where=where, kernel=kernel))
        output.square().sum().backward()
        assert_close([x.grad for x in dirty], [x.grad for x in clean])


@pytest.mark.parametrize("kernel", ["reference", "fused"])
def test_keys_after_the_last_query_are_not_read(kernel: str) -> None:
    q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 11, 4), torch.randn(2, 3, 11, 4)
    expected = attend(q, k[:, :, :5], v[:, :, :5], where=Causal(), kernel=kernel)
    k[:, :, 5:], v[:, :, 5:] = torch.nan, torch.nan
    assert_close(attend(q, k, v, where=Causal(), kernel=kernel), expected)


def test_the_usual_requests_are_fused_without_a_mask() -> None:
    from mirada.attention.kernels.fused import masking
    from mirada.attention.kernels.request import Request
    from mirada.attention.places import place

    x = torch.randn(2, 3, 5, 4)

    def of(where: Neighborhood, queries: int = 5, start: int = 0) -> tuple[Tensor | None, bool]:
        places = place(2, queries, 5, x.device, start=start)
        request = Request(x[:, :, :queries], x, x, Dot(), where, Position(), Softmax(), places)
        return masking(request, 5)

    assert of(Complete()) == (None, False)
    assert of(Causal()) == (None, True)
    assert of(Causal(), queries=1, start=4) == (None, False)
    mask, is_causal = of(Causal() & Padding([5, 3]))
    assert is_causal
    assert mask is not None
    assert mask.untyped_storage().nbytes() == 2 * 5  # one row per sample, never queries x keys
    mask, is_causal = of(Causal(), queries=2, start=3)
    assert not is_causal
    assert mask is not None
