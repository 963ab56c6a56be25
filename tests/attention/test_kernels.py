"""Every kernel that accepts a request equals the float64 reference, forward and backward, over random parts and shapes."""

import copy
import random
from collections import Counter

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend, look
from mirada.attention.heads import Grouped, Split
from mirada.attention.kernels.plan import KERNELS
from mirada.attention.neighborhoods import (
    Causal,
    Complete,
    Dense,
    Dilated,
    Documents,
    Edges,
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
)
from mirada.attention.normalizers import Hard, Identity, Normalizer, Sinks, Softmax, SoftmaxPlusOne, Sparsemax
from mirada.attention.positions import ALiBi, LocalGaussian, Position, Relative, Rotary, T5Bias
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
from mirada.native import library
from tests.ways import WAYS, take

TOLERANCE = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.float32: {"rtol": 2e-4, "atol": 2e-5},
    torch.bfloat16: {"rtol": 6e-2, "atol": 6e-2},
    torch.float16: {"rtol": 2e-2, "atol": 2e-2},
}


Case = tuple[list[Tensor], Score, Neighborhood, Position | None, Normalizer, torch.dtype]


def a_case(seed: int) -> Case:
    """Random parts of sizes that fit together: distinct primes, ones, and now and then nothing at all.

    Half of the cases stay with what fast kernels take, so that each of them is asked often.
    """
    rng = random.Random(seed)
    torch.manual_seed(seed)
    usual = rng.random() < 0.5
    batch, heads = rng.choice([1, 2, 3] if usual else [0, 1, 2, 3]), rng.choice([1, 2, 3])
    queries, keys = rng.choice([1, 2, 5, 13, 13, 0]), rng.choice([1, 3, 7, 11, 11, 0])
    square = rng.random() < 0.7
    keys = max(1, keys) if usual else keys
    queries = keys if square else max(1, queries) if usual else queries
    dim, value_dim = rng.choice([2, 4, 6]), rng.choice([1, 4, 4, 5])
    wide = rng.random() < 0.3
    if wide:  # what compiled C takes for short sequences, and what is just outside
        usual = rng.random() < 0.9
        queries, keys = rng.choice([2, 13, 33, 63, 64, 65]), rng.choice([1, 11, 17, 63, 64, 65])
        queries = keys if square else queries
        dim, value_dim = rng.choice([16, 32, 128, 144, 18]), rng.choice([16, 16, 48, 128, 144, 17])
    kv_heads = rng.choice([h for h in (1, 2, 3) if heads % h == 0])
    q, k = torch.randn(batch, heads, queries, dim), torch.randn(batch, kv_heads, keys, dim)
    v = torch.randn(batch, kv_heads, keys, value_dim)
    q, k = (x * (4 / dim) ** 0.25 if wide else x for x in (q, k))  # scores stay as large as those of small vectors
    if rng.random() < 0.3:  # the same numbers in another order of memory
        q, k, v = (x.transpose(2, 3).contiguous().transpose(2, 3) for x in (q, k, v))

    where = a_neighborhood(rng, batch, heads, queries, keys, square)
    score = rng.choice(products(rng, dim, heads) if usual and rng.random() < 0.6 else scores(rng, dim, heads))
    normalizer = Softmax() if usual else rng.choice([Softmax(), Softmax(), Sparsemax(), Identity(), Hard().eval()])
    if wide and rng.random() < 0.8:  # only these have a kernel of their own when they are short
        padding, score = Padding(torch.randint(0, keys + 1, (batch,))), rng.choice([Dot(), Dot(0.3), Dot("learned")])
        where = rng.choice([Complete(), Causal(), padding, Causal() & padding] if square else [Complete(), padding])
    elif usual and square and rng.random() < 0.2:
        where = Edges(torch.randint(0, keys, (2, 2 * keys)), keys)
    elif square and keys and rng.random() < 0.2:
        score, normalizer = (
            Offset(1, keys, radius=2, heads=rng.choice([1, heads])),
            rng.choice([Identity(), Identity(), Softmax()]),
        )
        where = rng.choice([Grid(1, keys), Grid(1, keys, radius=3), Complete(), where])
    if type(normalizer) is Softmax and type(where) in (Complete, Causal, Window, Dense) and seed % 5 == 0:
        normalizer = SoftmaxPlusOne() if seed % 2 else Sinks(heads)
    position = None if "Edges" in repr(where) else rng.choice(fitting(score, heads, dim, value_dim))
    position = rng.choice([None, position])
    if wide and isinstance(position, LocalGaussian):  # among so many, a window's end falls between two roundings
        position = None
    for part in (score, position):
        for parameter in part.parameters() if part is not None else ():
            nn.init.normal_(parameter, std=0.7)
    low = [torch.float32] if wide else [torch.bfloat16, torch.float16]  # sums over many numbers need their digits
    dtype = rng.choice([torch.float64, torch.float32, torch.float32, *low])
    return [q, k, v], score, where, position, normalizer, dtype


def products(rng: random.Random, dim: int, heads: int) -> list[Score]:
    shared = rng.choice([1, heads])
    return [Dot(), Dot(scale=0.3), Dot(scale="learned"), Bilinear(dim, dim, shared, scale=None if shared > 1 else 1.0)]


def scores(rng: random.Random, dim: int, heads: int) -> list[Score]:
    shared = rng.choice([1, heads])
    return [
        *products(rng, dim, heads),
        Additive(dim, dim, 3, shared),
        Concat(dim, dim, 3, shared),
        Concat(dim, dim, None, shared),
        TanhSum(dim, scale="learned"),
        Location(dim, 65),
        Graph(dim, heads),
        GraphV2(dim, heads),
    ]


def fitting(score: Score, heads: int, dim: int, value_dim: int) -> list[Position]:
    found: list[Position] = [ALiBi(heads), LocalGaussian(dim, half=2)]
    found += [T5Bias(heads, 8, 9), T5Bias(heads, 6, 5, bidirectional=False), T5Bias(heads, 6, 5) + ALiBi(heads)]
    if score.reads_keys:
        found += [Rotary(dim), Rotary(dim, layout="interleaved"), Rotary(dim) + T5Bias(heads, 8, 9)]
    if isinstance(score, Dot):
        found += [Relative(dim, clip=2, values=False), Relative(dim, clip=3, values=value_dim == dim)]
    return found


def a_neighborhood(rng: random.Random, batch: int, heads: int, queries: int, keys: int, square: bool) -> Neighborhood:
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
        Window(1, 2) | Global(2),
        (Window(2) | Global((1, 4))) & Causal(),
        Prefix(3) | Causal(),
        Dilated(2, 1, step=2),
        Strided(3) | Window(4, 1),
        Padding(lengths) | Causal(),
        Padding(lengths),
        Dense(torch.rand(batch, heads, queries, keys) < 0.6),
        Dense(torch.rand(queries, keys) < 0.5),
        PerHead(*(rng.choice([Causal(), Window(1, 1), Complete(), ~Causal()]) for _ in range(heads))),
    ]
    if square:
        unsorted = Documents(torch.randint(0, 2, (batch, keys)))
        packed = Documents(torch.randint(0, 4, (rng.choice([1, batch]), keys)).sort(-1).values)
        kinds += [unsorted, Causal() & Padding(lengths), packed, Causal() & packed, packed & (Prefix(2) | Causal())]
    else:
        kinds += [Documents(*(torch.randint(0, 3, (batch, n)).sort(-1).values for n in (queries, keys)))]
    if square and keys:
        graph = Edges(torch.randint(0, keys, (2, 2 * keys)), keys)
        kinds += [Grid(1, keys), graph, graph, Strided(3) & Padding(lengths), Fixed(3, 1) & Padding(lengths)]
    first, second = rng.choice(kinds), rng.choice(kinds)
    return rng.choice([first, first, first, first & second, first | second, ~first, first & ~second])


def differentiate(
    tensors: list[Tensor], parts: tuple, where: Neighborhood, dtype: torch.dtype, kernel: str
) -> tuple[Tensor, list[Tensor]]:
    """The output and the gradients of every tensor and parameter, for a fixed random direction of the output."""
    inputs = [x.to(dtype, copy=True, memory_format=torch.preserve_format).requires_grad_() for x in tensors]
    score, position, normalizer = (copy.deepcopy(part).to(dtype) if part is not None else None for part in parts)
    output = attend(*inputs, score=score, where=where, position=position, normalizer=normalizer, kernel=kernel)
    parameters = [p for part in (score, position) if part is not None for p in part.parameters()]
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(dtype)
    gradients = torch.autograd.grad((output * probe).sum(), inputs + parameters, allow_unused=True)
    everything = [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, inputs + parameters, strict=True)]
    return output.detach(), everything


@pytest.fixture(autouse=True)
def eager_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel takes what it can compute, however small: what pays is not the question here."""
    from mirada.attention.kernels import banded, edges, strided

    monkeypatch.setattr(banded, "SMALLEST", 0)
    monkeypatch.setattr(banded, "WIDEST", 1000)
    monkeypatch.setattr(banded, "LONG", 4)
    monkeypatch.setattr(banded, "MOST_ROWS", 7)
    monkeypatch.setattr(banded, "FEWEST_ROWS", 3)
    monkeypatch.setattr(strided, "SMALLEST", 0)
    monkeypatch.setattr(edges, "DENSEST", 1000)
    monkeypatch.setattr(edges, "DENSEST_PRODUCT", 1000)


def kernels_that_agree(seed: int) -> list[str]:
    """The kernels that take a random case, each compared with the reference."""
    tensors, score, where, position, normalizer, dtype = a_case(seed)
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
        return []  # a last digit decides which key is chosen
    accepted = []
    for kernel in KERNELS:
        try:
            output, gradients = differentiate(tensors, parts, where, dtype, kernel.name)
        except ValueError as refusal:
            assert "refuses this request" in str(refusal)  # noqa: PT017
            continue
        accepted.append(kernel.name)
        assert output.dtype == dtype
        assert_close(output.double(), expected, **TOLERANCE[dtype])
        scale = max([1.0] + [float(g.abs().max()) for g in expected_gradients if g.numel()])
        for got, right in zip(gradients, expected_gradients, strict=True):
            near = TOLERANCE[dtype]
            if got.numel() == 1 and dtype in (torch.bfloat16, torch.float16):  # the sum of many rounded numbers
                near = near | {"atol": 4 * near["atol"]}
            assert_close(got.double() / scale, right / scale, **near)
    return accepted


def test_every_kernel_equals_the_reference() -> None:
    """Also that every kernel was asked often: a kernel that no case reaches would pass unseen."""
    accepted: Counter[str] = Counter()

    @settings(max_examples=900, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.integers(0, 2**31))
    def compare(seed: int) -> None:
        accepted.update(kernels_that_agree(seed))

    compare()
    compiled = set() if library.library() is None else {"short"}
    assert set(accepted) == {kernel.name for kernel in KERNELS} - {"short", "flex"} | compiled  # flex is for GPUs
    assert min(accepted.values()) >= 10, accepted


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


@pytest.mark.parametrize(
    "where",
    [
        Strided(3, part="stride") & Padding([4, 0, 7]),
        Fixed(3, 1) & Padding([4, 0, 7]),
        Padding([4, 0, 7]),
        Causal() & Padding([4, 2, 7]),
        Window(1, 1) & Padding([4, 2, 7]),
        Dense((torch.arange(7) < 4).expand(7, 7)),
        Edges(torch.tensor([[0, 1, 2, 3], [6, 5, 4, 4]]), 7),
        Fixed(4, 1, part="summary") & Padding([3, 3, 3]),
        ~Window(0) & Padding([1, 3, 3]),
        Dilated(1, step=2) & Prefix(3),
        Documents.of([[2, 2, 3], [1, 6], [7]]) & Padding([4, 1, 6]),
        Causal() & Documents(torch.arange(7).view(1, 7) // 3, torch.arange(7).view(1, 7) // 2),
    ],
    ids=repr,
)
def test_a_nan_that_nobody_may_see_reaches_nothing(where: Neighborhood) -> None:
    unseen = ~where.dense(7, 7).expand(3, 2, 7, 7).any(2)
    assert unseen.any()
    q, k, v = (torch.randn(3, 2, 7, 5) for _ in "qkv")
    clean = [x.clone().requires_grad_() for x in (q, k, v)]
    expected = attend(*clean, where=where, kernel="reference")
    expected.square().sum().backward()
    tried = []
    for kernel in KERNELS:
        for poison in (torch.nan, torch.inf):
            dirty = [q.clone(), *(x.masked_fill(unseen.unsqueeze(-1), poison) for x in (k, v))]
            dirty = [x.requires_grad_() for x in dirty]
            try:
                output = attend(*dirty, where=where, kernel=kernel.name)
            except ValueError:
                continue  # it refuses
            tried.append(kernel.name)
            assert_close(output, expected)
            output.square().sum().backward()
            assert_close([x.grad for x in dirty], [x.grad for x in clean])
    assert {"reference", "fused"} <= set(tried)


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


@pytest.mark.parametrize("kv_heads", [4, 1])
def test_heads_with_neighborhoods_of_their_own_are_grouped(kv_heads: int) -> None:
    attention = Attention(Grouped(8, 4, kv_heads), where=PerHead(Window(2), Causal(), Window(2), Complete()))
    x, where = torch.randn(3, 11, 8, requires_grad=True), Padding([11, 0, 6])
    plan = attention.plan(x, where=where)
    assert [(heads, chosen.kernel) for _, heads, chosen in plan.groups] == [
        ((0, 2), "banded"),
        ((1,), "fused"),
        ((3,), "fused"),
    ]
    assert plan.kernel == "fused"
    assert "heads (0, 2), Window(left=2, right=0) & Padding(lengths=(3,)): banded" in str(plan)
    y = attention(x, where=where)
    q, k, v = attention.heads.project(x, x, x)
    expected = attention.heads.merge(attend(q, k, v, where=attention.where & where, kernel="reference"))
    assert_close(y, expected)
    assert_close(*(torch.autograd.grad(out.square().sum(), x) for out in (y, expected)))


def test_graphs_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Edges(torch.randint(0, 11, (2, 40)), 11)
    tensors, parts = [torch.randn(2, 3, 11, 4) for _ in "qkv"], (Graph(4, 3), None, Softmax())
    expected = differentiate(tensors, parts, graph, torch.float64, "reference")
    assert_close(differentiate(tensors, parts, graph, torch.float64, "edges"), expected)
    take("torch", monkeypatch)
    assert_close(differentiate(tensors, parts, graph, torch.float64, "edges"), expected)


def test_graphs_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    if library.library() is None:
        pytest.skip(f"nothing is compiled here: {library.reason()}")
    monkeypatch.setattr(library, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    graph = Edges(torch.randint(0, 101, (2, 400)), 101)
    tensors, parts = [torch.randn(1, 2, 101, 3) for _ in "qkv"], (Dot(), None, Softmax())
    expected = differentiate(tensors, parts, graph, torch.float64, "reference")
    assert_close(differentiate(tensors, parts, graph, torch.float64, "edges"), expected)


@pytest.mark.parametrize(
    ("kernel", "layer", "where"),
    [
        ("banded", Attention(MultiHead(8, 2), where=Window(3, 1), position=ALiBi(2)), Padding([11, 4])),
        ("strided", Attention(MultiHead(8, 2), where=Strided(3), position=Rotary(4)), Padding([11, 4])),
        ("strided", Attention(MultiHead(8, 2), where=Fixed(4, 1, part="summary")), Complete()),
        ("edges", Attention(MultiHead(8, 2)), Edges(torch.randint(0, 11, (2, 30)), 11)),
        ("convolution", Attention(Split(8, 8), Offset(1, 11, heads=8), normalizer=Identity()), Grid(1, 11)),
    ],
    ids=["band", "strided", "summary", "edges", "convolution"],
)
def test_looking_is_exact_for_every_kernel(kernel: str, layer: Attention, where: Neighborhood) -> None:
    x = torch.randn(2, 11, 8)
    before = layer(x, where=where)
    with look(layer) as seen:
        y = layer(x, where=where)
    assert seen[""].plan.kernel == kernel
    assert torch.equal(y, before)
    assert_close(layer.heads.merge(seen[""].output()), y, rtol=1e-5, atol=1e-5)
    if kernel == "edges":
        source, target = seen[""].edges
        dense = torch.zeros(2, 2, 11, 11)
        dense[:, :, target, source] = seen[""].weights()
        assert_close(dense @ seen[""].values(), seen[""].output())


@pytest.mark.parametrize("way", WAYS)
def test_edges_drop_weights_as_the_formula_says(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values are unit vectors, so the output reads the weights that met them; their gradients follow from it."""
    take(way, monkeypatch)
    nodes, heads = 13, 2
    pairs = torch.randint(0, nodes, (2, 61))
    where = Edges(pairs, nodes)
    q = torch.randn(1, heads, nodes, 5, dtype=torch.float64, requires_grad=True)
    k = torch.randn(1, heads, nodes, 5, dtype=torch.float64, requires_grad=True)
    v = torch.eye(nodes, dtype=torch.float64).expand(1, heads, -1, -1).contiguous().requires_grad_()
    parts = {"score": GraphV2(5, heads).double(), "where": where}
    seen = attend(q, k, v, **parts, kernel="reference")
    torch.manual_seed(0)
    dropped = attend(q, k, v, **parts, normalizer=Softmax(dropout=0.5), kernel="edges")
    factor = (dropped / seen.clamp(min=1e-30)).detach().round(decimals=6)
    assert set(factor[seen > 0].unique().tolist()) == {0.0, 2.0}
    goal = torch.randn_like(seen)
    found = torch.autograd.grad((dropped * goal).sum(), (q, k, v))
    # the same by the reference's weights, with the same ones dropped
    wanted = torch.autograd.grad((seen * factor * goal).sum(), (q, k))
    assert_close(found[:2], wanted)
    assert_close(found[2], (seen * factor).detach().transpose(-2, -1) @ goal)


@pytest.mark.parametrize("way", WAYS)
def test_many_gradients_of_a_graph_at_once(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take(way, monkeypatch)
    graph, tensors = (
        Edges(torch.randint(0, 11, (2, 40)), 11),
        [torch.randn(2, 3, 11, 4, requires_grad=True) for _ in "qkv"],
    )
    output = attend(*tensors, where=graph, kernel="edges")
    grads = torch.randn(3, *output.shape)
    found = torch.autograd.grad(output, tensors, grads, is_grads_batched=True, retain_graph=True)
    for place, grad in enumerate(grads):
        each = torch.autograd.grad(output, tensors, grad, retain_graph=True)
        assert_close(tuple(x[place] for x in found), each)


HEAD_MASK = torch.rand(1, 3, 5, 5, generator=torch.Generator().manual_seed(5)) < 0.6


@pytest.mark.parametrize(
    "other",
    [
        Dense(HEAD_MASK),
        ~PerHead(Causal(), Window(1), Window(2)),
        PerHead(Window(0), Window(1), Window(2)) | Dense(HEAD_MASK),
        ~(PerHead(Window(1), Causal(), Window(3)) & Window(4, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [True, False])
def test_own_heads_next_to_another_set_that_differs_by_head(other: Neighborhood, first: bool) -> None:
    own = PerHead(Causal(), Window(2, 1), Causal())
    where = own & other if first else other & own
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    mask = own.dense(5, 5) & other.dense(5, 5)
    expected = attend(q, k, v, where=Dense(mask.expand(1, 3, 5, 5)), kernel="reference")
    assert_close(attend(q, k, v, where=where), expected)
