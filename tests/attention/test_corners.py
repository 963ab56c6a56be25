"""Corners where a fast path, a cache or a recording once went wrong."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend, look
from mirada.attention.heads import Collaborative, Split, Tied
from mirada.attention.kernels import reference
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
from mirada.attention.normalizers import Sparsemax
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Position, Relative, Rotary, Sinusoidal
from mirada.attention.scores import Additive, Bilinear, Dot, Graph, GraphV2, Product, Score

BATCH, HEADS, N, DIM, WIDTH = 2, 3, 5, 4, 12


@pytest.fixture
def qkv() -> list[Tensor]:
    return [torch.randn(BATCH, HEADS, N, DIM) for _ in "qkv"]


def plain(q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2)) * scale).masked_fill(~seen, -torch.inf).softmax(-1) @ v


@pytest.mark.parametrize("scale", [0.0, -1.0, 0.5])
@pytest.mark.parametrize("where", [Causal(), Causal() & Padding([5, 3]), Window(2)], ids=repr)
def test_any_scale(qkv: list[Tensor], scale: float, where: object) -> None:
    q, k, v = (x.requires_grad_() for x in qkv)
    got, expected = attend(q, k, v, score=Dot(scale), where=where), plain(q, k, v, scale, where.dense(N, N))
    assert_close(got, expected)
    assert_close(*(torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (got, expected)))


def test_a_score_or_position_of_one_s_own_is_not_bypassed(qkv: list[Tensor]) -> None:
    class Cosine(Dot):
        def queries(self, q: Tensor) -> Tensor:
            return nn.functional.normalize(q, dim=-1)

        def keys(self, k: Tensor) -> Tensor:
            return nn.functional.normalize(k, dim=-1)

    class Squared(Product):
        def compare(self, q: Tensor, k: Tensor) -> Tensor:
            return super().compare(q, k) ** 2

    class Nearby(Position):
        def bias(self, q: Tensor, places: Places) -> Tensor:
            return -(places.i - places.j).abs().to(q.dtype)

    q, k, v = qkv
    for parts in ({"score": Cosine()}, {"score": Squared()}, {"position": Nearby()}):
        assert_close(attend(q, k, v, **parts), attend(q, k, v, **parts, kernel="reference"))
    cosine = torch.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)
    assert_close(attend(q, k, v, score=Cosine()), cosine.softmax(-1) @ v)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_reference_and_look_are_precise_in_low_precision(dtype: torch.dtype) -> None:
    q, k, v = ((6 * torch.randn(1, 2, 31, 64)).to(dtype) for _ in "qkv")
    exact = plain(q.double(), k.double(), v.double(), 1.0, torch.tensor(True))
    got = attend(q, k, v, score=Dot(1.0), kernel="reference")
    assert_close(got.double(), exact, rtol=1e-2, atol=1e-2)
    layer = Attention(Split(128, 2), score=Dot(1.0))
    x = (6 * torch.randn(1, 31, 128)).to(dtype)
    with look(layer) as seen:
        layer(x)
    pieces = x.view(1, 31, 2, 64).transpose(1, 2).double()
    assert_close(seen[""].weights().double(), (pieces @ pieces.mT).softmax(-1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "layer",
    [
        Attention(MultiHead(WIDTH, HEADS), Bilinear(DIM, DIM)),
        Attention(MultiHead(WIDTH, HEADS), Additive(DIM, DIM, 5)),
        Attention(MultiHead(WIDTH, HEADS), position=Relative(DIM, 2)),
        Attention(Collaborative(WIDTH, HEADS, 8)),
        Attention(Tied(WIDTH, HEADS, 5), Graph(5, HEADS)),
    ],
    ids=lambda layer: f"{type(layer.heads).__name__}-{type(layer.score).__name__}",
)
def test_looking_at_a_run_under_autocast(layer: Attention) -> None:
    x = torch.randn(BATCH, N, WIDTH)
    with torch.autocast("cpu", torch.bfloat16), look(layer) as seen:
        layer(x)
    with look(layer) as exact:
        layer(x)
    assert_close(seen[""].weights(), exact[""].weights(), rtol=5e-2, atol=5e-2)


def test_look_keeps_the_parts_as_they_were() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    with look(layer) as seen:
        outputs = [layer(x)]
        layer.score.scale = 5.0
        outputs.append(layer(x))
        layer.normalizer = Sparsemax()
        outputs.append(layer(x))
    for call, output in zip(seen[""].calls, outputs, strict=True):
        assert_close(layer.heads.merge(call.output()), output)
    biased = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=ALiBi(HEADS))
    with look(biased) as seen:
        y = biased(x)
    biased.position.slopes.mul_(10)
    assert_close(biased.heads.merge(seen[""].output()), y)


def test_positions_changed_in_place_are_noticed() -> None:
    layer, positions = Attention(MultiHead(WIDTH, HEADS), position=ALiBi(HEADS)), torch.arange(N)
    with look(layer) as seen:
        layer(torch.randn(BATCH, N, WIDTH), positions=positions)
    positions.mul_(7)
    with pytest.raises(ValueError, match="changed in place"):
        seen[""].weights()


def test_a_cache_that_starts_again_is_seen_right() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(2, BATCH, N, WIDTH)
    cache = layer.cache(BATCH, N)
    with torch.no_grad(), look(layer) as seen:
        for sequence in x:
            cache.reset()
            for t in range(N):
                layer(sequence[:, t : t + 1], cache=cache)
        index = torch.tensor([1, 0])
    for number, sequence in enumerate(x):
        with look(layer) as whole:
            layer(sequence)
        for t in range(N):
            call = seen[""].calls[number * N + t]
            assert_close(call.weights()[:, :, 0], whole[""].weights()[:, :, t, : t + 1])
    cache.reset()
    with torch.no_grad(), look(layer) as seen:
        layer(x[0][:, :2], cache=cache)
        cache.reorder(index)
        index.zero_()
        layer(x[0][:, 2:3], cache=cache)
    with look(layer) as whole:
        layer(torch.cat([x[0].flip(0)[:, :2], x[0][:, 2:3]], dim=1))
    assert_close(seen[""].weights()[:, :, 0], whole[""].weights()[:, :, 2])


def test_rows_that_positions_do_not_tell_are_refused(qkv: list[Tensor]) -> None:
    q, k, v = qkv
    apart = torch.tensor([1, 3])
    for where in (Documents(torch.zeros(BATCH, N).long()), Grid(1, N)):
        with pytest.raises(ValueError, match="positions that are not consecutive"):
            attend(q[:, :, :2], k, v, where=where, positions=apart)
    packed = torch.tensor([0, 1, 2, 0, 1])
    documents = Documents(torch.tensor([[0, 0, 0, 1, 1]]))
    whole = attend(q, k, v, where=documents & Causal(), position=Rotary(DIM), positions=packed, key_positions=packed)
    second = attend(q[:, :, 3:], k[:, :, 3:], v[:, :, 3:], where=Causal(), position=Rotary(DIM))
    assert_close(whole[:, :, 3:], second)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_positions_of_any_integer_type(qkv: list[Tensor], dtype: torch.dtype) -> None:
    q, k, v = qkv
    for parts in ({"where": Window(2)}, {"position": Relative(DIM, 2)}, {"position": Rotary(DIM)}):
        narrow = attend(q, k, v, **parts, positions=torch.arange(N).to(dtype), key_positions=torch.arange(N).to(dtype))
        assert_close(narrow, attend(q, k, v, **parts))


def test_a_nan_in_the_padding_of_a_cached_prefix() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    x[1, 3:] = torch.nan
    y = layer(x, where=Padding([5, 3]), cache=layer.cache(BATCH, N))
    assert y.isfinite().all()
    y.sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad.isfinite().all()


def test_inputs_of_any_memory_layout() -> None:
    q, k, v = (torch.randn(BATCH, HEADS, DIM, 7).transpose(-1, -2) for _ in "qkv")
    where = Causal() & Padding([7, 4])
    expected = attend(q.contiguous(), k.contiguous(), v.contiguous(), where=where, kernel="reference")
    assert_close(attend(q, k, v, where=where), expected)
    with sdpa_kernel(SDPBackend.MATH):
        assert_close(attend(q.contiguous(), k.contiguous(), v.contiguous(), where=where), expected)


def test_a_step_that_fails_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal())
    cache = layer.cache(BATCH, N)
    monkeypatch.setattr("mirada.attention.equation.run", lambda *_: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        layer(torch.randn(BATCH, 2, WIDTH), cache=cache)
    assert cache.filled == 0


def test_planning_takes_the_call_s_arguments_and_leaves_the_cache_alone() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    cache = layer.cache(BATCH, 2 * N)
    y = layer(x, cache=cache)
    assert layer.plan(x, None, None, None, None, None, cache).kernel == "fused"
    assert cache.filled == N
    y.sum().backward()
    assert layer.heads.key.weight.grad.isfinite().all()


def test_caches_across_gradient_modes() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), where=Causal()), torch.randn(BATCH, N, WIDTH)
    with torch.inference_mode():
        cache = layer.cache(BATCH, N)
        layer(x[:, :1], cache=cache)
    with torch.no_grad():
        layer(x[:, 1:2], cache=cache)
    y = layer(x[:, 2:3], cache=cache)
    with torch.no_grad():
        last = layer(x[:, 3:4], cache=cache)
    y.sum().backward()
    assert_close(last, layer(x[:, :4])[:, 3:])


def test_functional_calls_and_transforms() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS), Bilinear(DIM, DIM), position=Rotary(DIM)), torch.randn(1, N, WIDTH)
    weights = {name: p * 2 for name, p in layer.named_parameters()}
    with look(layer) as seen:
        torch.func.functional_call(layer, weights, (x,))
    assert seen[""].weights().shape == (1, HEADS, N, N)
    parameters = dict(layer.named_parameters())
    got = torch.func.grad(lambda p: torch.func.functional_call(layer, p, (x,)).square().sum())(parameters)
    layer(x).square().sum().backward()
    assert_close(got["heads.query.weight"], layer.heads.query.weight.grad)


def test_a_dry_run_leaves_nothing_behind() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    rotary, x = Rotary(DIM), torch.randn(1, 1, 17, DIM)
    with FakeTensorMode() as mode:
        rotary.rotate(mode.from_tensor(x), range(17))
    assert type(rotary.rotate(x, range(17))) is Tensor


def test_a_graph_takes_no_positions() -> None:
    layer, edges = Attention(Tied(WIDTH, HEADS, 5), Graph(5, HEADS)), Edges(torch.tensor([[0, 1], [1, 2]]), N)
    with pytest.raises(ValueError, match="Edges takes no positions"):
        layer(torch.randn(1, N, WIDTH), where=edges, positions=torch.arange(N).flip(0))


MISTAKES = {
    "a name for a score": (lambda: Attention(MultiHead(8, 2), score="dot"), r"score must be a value such as Dot\(\)"),
    "a class for a score": (lambda: Attention(MultiHead(8, 2), score=Dot), r"got the class Dot; add \(\)"),
    "a function for a normalizer": (lambda: Attention(MultiHead(8, 2), normalizer=torch.softmax), "normalizer must be"),
    "a number for a position": (lambda: attend(*[torch.ones(1, 1, 2, 2)] * 3, position=5), "position must be a value"),
    "a list of positions": (lambda: attend(*[torch.ones(1, 1, 2, 2)] * 3, positions=[0, 1]), "tensor of integers: got list"),
    "another dtype": (lambda: Attention(MultiHead(8, 2))(torch.ones(1, 2, 8).double()), "must have the layer's dtype"),
    "a dict for a cache": (lambda: Attention(MultiHead(8, 2))(torch.ones(1, 2, 8), cache={}), "got dict"),
    "no lengths": (lambda: Padding(), "padding needs a length per sample: got NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str) -> None:
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        make()


LONG = 600


@pytest.mark.parametrize("where", [Window(40), Window(9, 3) & Padding([600, 77]), Strided(23), Fixed(16, 2)], ids=repr)
def test_fast_kernels_take_any_memory_layout(where: Neighborhood) -> None:
    q, k, v = (torch.randn(BATCH, 2, 16, LONG).transpose(2, 3).requires_grad_() for _ in "qkv")
    outputs = [attend(q, k, v, where=where, kernel=kernel) for kernel in (None, "reference")]
    assert_close(*outputs)
    assert_close(*(torch.autograd.grad(y.sum(), (q, k, v)) for y in outputs))


@pytest.mark.parametrize("score", [GraphV2(16, 2), Graph(16, 2), Additive(16, 16, 5), Bilinear(16, 16)], ids=repr)
def test_graphs_under_autocast(score: Score) -> None:
    graph = Edges(torch.randint(0, 400, (2, 1500)), 400)
    q, k, v = (torch.randn(BATCH, 2, 400, 16) for _ in "qkv")
    with torch.autocast("cpu", torch.bfloat16):
        low = attend(q, k, v, score=score, where=graph)
    assert_close(low.float(), attend(q, k, v, score=score, where=graph), rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("where", [Complete(), Window(40), Strided(23)], ids=repr)
def test_products_under_autocast(where: Neighborhood) -> None:
    q, k, v = (torch.randn(1, 2, LONG, 16) for _ in "qkv")
    with torch.autocast("cpu", torch.bfloat16):
        low = attend(q, k, v, score=Bilinear(16, 16), where=where)
    assert low.dtype == torch.bfloat16


def test_many_tiles_add_up_in_low_precision() -> None:
    exact = [torch.randn(1, 1, 2048, 8).bfloat16().double().requires_grad_() for _ in "qkv"]
    low = [x.detach().bfloat16().requires_grad_() for x in exact]
    where = Fixed(16, 2)
    expected = torch.autograd.grad(attend(*exact, where=where, kernel="reference").sum(), exact)
    got = torch.autograd.grad(attend(*low, where=where, kernel="strided").sum(), low)
    for ours, right in zip(got, expected, strict=True):
        assert (ours.double() - right).abs().max() < 2e-2 * right.abs().max()


def test_one_length_for_the_whole_batch() -> None:
    q, k, v = (torch.randn(BATCH, 2, LONG, 16) for _ in "qkv")
    for where in (Strided(23), Fixed(16, 2), Window(40)):
        one = where & Padding([100])
        assert_close(attend(q, k, v, where=one), attend(q, k, v, where=one, kernel="reference"))


def test_training_on_a_graph_after_evaluating_on_it() -> None:
    graph = Edges(torch.randint(0, 101, (2, 300)), 101)
    layer, x = Attention(MultiHead(WIDTH, HEADS), Graph(DIM, HEADS), where=graph), torch.randn(1, 101, WIDTH)
    with torch.inference_mode():
        before = layer(x)
    after = layer(x)
    after.sum().backward()
    assert_close(after, before.clone())


def test_a_padding_of_one_head_stays_its_own(qkv: list[Tensor]) -> None:
    q, k, v = (x[:, :2] for x in qkv)
    where = PerHead(Padding([3, 5]), Padding([3, 5])) & Monotonic(1)
    assert_close(attend(q, k, v, where=where), attend(q, k, v, where=where, kernel="reference"))


def test_lengths_changed_before_the_backward_pass_are_noticed() -> None:
    q, k, v = (torch.randn(BATCH, 2, LONG, 16, requires_grad=True) for _ in "qkv")
    lengths = torch.tensor([600, 500])
    y = attend(q, k, v, where=Window(40) & Padding(lengths))
    lengths.fill_(10)
    with pytest.raises(ValueError, match="changed in place before the backward pass"):
        y.sum().backward()


@pytest.mark.parametrize("what", ["mask", "lengths", "positions", "parameters"])
def test_what_a_chunk_is_computed_again_from_is_as_it_was(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(reference, "NUMBERS_AT_ONCE", 40)
    q, k, v = (torch.randn(BATCH, HEADS, N, DIM, requires_grad=True) for _ in "qkv")
    mask, lengths, positions, score = torch.rand(N, N) < 0.5, torch.tensor([5, 3]), torch.arange(N), Additive(4, 4, 3)
    where = {"mask": Dense(mask), "lengths": Padding(lengths)}.get(what, Causal())
    y = attend(q, k, v, score=score, where=where, positions=positions, key_positions=torch.arange(N))
    y.sum().backward(retain_graph=True)
    changed = {"mask": mask, "lengths": lengths, "positions": positions, "parameters": score.v.detach()}[what]
    changed.zero_()
    with pytest.raises(ValueError, match="changed in place before the backward pass"):
        y.sum().backward()


def test_decoding_with_a_window_reads_the_end_of_the_cache_only() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Window(40))
    x, cache = torch.randn(1, LONG + 1, WIDTH), layer.cache(1, LONG + 1)
    with torch.no_grad():
        layer(x[:, :LONG], cache=cache)
        assert layer.plan(x[:, LONG:], cache=cache).kernel == "banded"
        cache.keys[:, :, : LONG - 100] = torch.nan  # beyond the window's reach
        cache.values[:, :, : LONG - 100] = torch.nan
        last = layer(x[:, LONG:], cache=cache)
        assert_close(last, layer(x)[:, LONG:])


@pytest.mark.parametrize("huge", [3e38, 1e30, -3e38])
@pytest.mark.parametrize("where", [Padding([5, 2]), Padding([5, 2]) & Causal()], ids=str)
def test_huge_numbers_that_no_query_sees_change_nothing(huge, where):
    q, k, v = (torch.randn(2, 1, 5, 4) for _ in range(3))
    wanted = None
    for hidden in (0.0, huge):
        k[1, 0, 3, 0] = v[1, 0, 3, 0] = hidden
        inputs = [x.clone().requires_grad_() for x in (q, k, v)]
        output = attend(*inputs, where=where)
        found = (output, *torch.autograd.grad(output.square().sum(), inputs))
        wanted = wanted or found
        assert_close(found, wanted)


class TrainedDistance(Position):
    """A bias per distance that says it is constant, and is trained."""

    acts = frozenset({"bias"})
    constant = True

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def bias(self, q: Tensor, places: Places) -> Tensor:
        return -self.weight.to(q.dtype) * (places.i - places.j).abs()


@pytest.mark.parametrize("length", [5, 300])
def test_a_trained_bias_has_its_gradient_whatever_its_class_says(length: int) -> None:
    position, x = TrainedDistance(), torch.randn(1, length, WIDTH)
    layer = Attention(MultiHead(WIDTH, HEADS), where=Window(9, 9), position=position)
    [found] = torch.autograd.grad(layer(x).square().sum(), [position.weight])
    heads = layer.heads
    dense = Window(9, 9).dense(length, length)
    bias = -position.weight * (torch.arange(length)[:, None] - torch.arange(length)).abs()
    scores = heads.queries(x) @ heads.keys(x).mT * DIM**-0.5 + bias
    weights = scores.masked_fill(~dense, -torch.inf).softmax(-1)
    [expected] = torch.autograd.grad(heads.merge(weights @ heads.values(x)).square().sum(), [position.weight])
    assert_close(found, expected, rtol=1e-3, atol=1e-4)
    position.requires_grad_(False)
    assert layer.plan(x).kernel != "reference"


class Nearest(Dot):
    """A subclass of a product that compares its own way."""

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k)


class Shifted(Bilinear):
    """The same for a score that prepares keys."""

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return -torch.cdist(q, k)


def test_a_subclass_compares_pairs_of_a_graph_as_it_compares_all() -> None:
    graph = Edges(torch.stack([torch.arange(40), (torch.arange(40) * 7 + 1) % 40]), 40).with_self_loops()
    q, k, v = (torch.randn(1, HEADS, 40, DIM) for _ in range(3))
    for score in (Nearest(), Shifted(DIM, DIM)):
        whole = attend(q, k, v, score=score, where=graph, kernel="reference")
        assert_close(attend(q, k, v, score=score, where=graph), whole)
        assert_close(attend(q, k, v, score=score, where=graph, kernel="edges"), whole)


def test_a_subclass_compares_a_remembered_memory_as_it_compares_all() -> None:
    cross, x, memory = (
        Attention(MultiHead(WIDTH, HEADS), Shifted(DIM, DIM)),
        torch.randn(1, 2, WIDTH),
        torch.randn(1, 7, WIDTH),
    )
    assert_close(cross(x, memory=cross.remember(memory)), cross(x, memory=memory))


class Odd(Strided):
    """A subclass of a pattern that sees something else."""

    def sees(self, places: Places) -> Tensor:
        return (places.column % 2 == 1) & (places.column <= places.row)


def test_a_subclass_of_a_pattern_is_computed_by_what_it_sees() -> None:
    q, k, v = (torch.randn(1, HEADS, 520, DIM) for _ in range(3))
    assert_close(attend(q, k, v, where=Odd(9)), attend(q, k, v, where=Odd(9), kernel="reference"))


EXCHANGED = {
    "position": (Sinusoidal(WIDTH), "attention and an input position"),
    "score": (Bilinear(DIM + 1, DIM), "needs queries of dim 5"),
    "where": (PerHead(Causal(), Causal()), "PerHead lists 2 neighborhoods: got heads=3"),
    "normalizer": ("softmax", "normalizer must be a Normalizer: got 'softmax'"),
    "heads": (MultiHead(WIDTH, 2), "has a slope per head: got heads=2"),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_a_part_that_is_exchanged_is_checked(name: str) -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=ALiBi(HEADS))
    part, message = EXCHANGED[name]
    before = getattr(layer, name)
    with pytest.raises(ValueError, match=message):
        setattr(layer, name, part)
    assert getattr(layer, name) is before
    layer(torch.randn(1, N, WIDTH))


def test_a_part_that_fits_can_be_exchanged() -> None:
    layer, x = Attention(MultiHead(WIDTH, HEADS)), torch.randn(BATCH, N, WIDTH)
    layer.where, layer.position, layer.score = Causal(), ALiBi(HEADS), Additive(DIM, DIM, 3)
    twin = Attention(layer.heads, layer.score, Causal(), ALiBi(HEADS))
    assert_close(layer(x), twin(x))


def test_an_exchanged_score_or_heads_has_the_scale_of_a_built_layer() -> None:
    x = torch.randn(BATCH, N, WIDTH)
    shared, plain_heads = Collaborative(WIDTH, HEADS, 6), MultiHead(WIDTH, HEADS)
    layer = Attention(shared, Additive(6, 6, 3))
    layer.score = Dot()
    assert_close(layer(x), Attention(shared)(x))
    layer.heads = plain_heads
    assert layer.score.scale is None
    assert_close(layer(x), Attention(plain_heads)(x))
    layer.heads = Collaborative(WIDTH, HEADS, 9)
    assert layer.score.scale == 3**-0.5
    layer.heads = shared
    assert_close(layer(x), Attention(shared)(x))
    with pytest.raises(ValueError, match="needs queries and keys of dim=4"):
        layer.position = Rotary(DIM)
    assert_close(layer(x), Attention(shared)(x))


def test_a_scale_that_was_chosen_stays_with_other_heads() -> None:
    layer = Attention(Collaborative(WIDTH, HEADS, 6), Dot(0.25))
    layer.heads = MultiHead(WIDTH, HEADS)
    assert layer.score.scale == 0.25
    layer = Attention(Collaborative(WIDTH, HEADS, 6))
    layer.score.scale = 5.0
    layer.heads = MultiHead(WIDTH, HEADS)
    assert layer.score.scale == 5.0


def test_heads_that_do_not_fit_leave_the_score_as_it_was() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), position=ALiBi(HEADS))
    score = layer.score
    with pytest.raises(ValueError, match="has a slope per head: got heads=2"):
        layer.heads = Collaborative(WIDTH, 2, 6)
    assert layer.score is score
    assert layer.heads.heads == HEADS


def test_slopes_survive_an_empty_start_and_a_cast() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=ALiBi(HEADS))
    with torch.device("meta"):
        empty = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=ALiBi(HEADS))
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(layer.state_dict())
    x = torch.randn(BATCH, N, WIDTH)
    assert_close(empty(x), layer(x))
    q = torch.zeros(1, 12, 4, 2, dtype=torch.float64)
    slopes = -ALiBi(12).double().bias(q, Places.count(4, 4))[0, :, 1, 0]
    exact = [2.0**-h for h in range(1, 9)] + [2 ** -(h + 0.5) for h in range(4)]
    assert_close(slopes, torch.tensor(exact, dtype=torch.float64), rtol=1e-15, atol=0)


def test_collaborative_heads_under_a_float64_default() -> None:
    torch.set_default_dtype(torch.float64)
    layer = Attention(Collaborative(WIDTH, HEADS, 6))
    assert layer(torch.randn(BATCH, N, WIDTH)).dtype == torch.float64


@pytest.mark.parametrize("position", [None, Rotary(DIM), Relative(DIM, 2), ALiBi(HEADS)], ids=str)
@pytest.mark.parametrize("where", [Complete(), Causal(), Window(1, 1), Strided(2), Padding([0, 0])], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("per_sample", [False, True])
def test_no_queries_or_no_keys_with_positions(
    position: Position | None, where: Neighborhood, queries: int, keys: int, per_sample: bool
) -> None:
    q, k, v = (torch.randn(BATCH, HEADS, n, DIM) for n in (queries, keys, keys))
    places = [torch.arange(4, 4 + n) for n in (queries, keys)]
    places = [x.expand(BATCH, -1) for x in places] if per_sample else places
    out = attend(q, k, v, where=where, position=position, positions=places[0], key_positions=places[1])
    assert_close(out, torch.zeros(BATCH, HEADS, queries, DIM))


@pytest.mark.parametrize("score", [Dot(), Dot("learned"), Bilinear(DIM, DIM), Additive(DIM, DIM, 3)], ids=str)
@pytest.mark.parametrize("where", [Complete(), Causal(), Padding([2, 3]), Window(2, 1)], ids=str)
@pytest.mark.parametrize("length", [N, 300])
def test_the_meta_device_computes_shapes(score: Score, where: Neighborhood, length: int) -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), score, where).to("meta")
    x = torch.empty(BATCH, length, WIDTH, device="meta")
    assert layer(x).shape == (BATCH, length, WIDTH)
    assert layer(x).device.type == "meta"


def on_meta(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="meta")


INDEX = torch.stack([torch.arange(70) % N, torch.arange(70) % 3])
META_CALLS = {
    "lengths": {"where": Padding(on_meta(BATCH))},
    "lengths and order": {"where": Padding(on_meta(BATCH)) & Causal()},
    "documents": {"where": Documents(on_meta(BATCH, N))},
    "known documents": {"where": Documents(torch.zeros(BATCH, N).long())},
    "a mask": {"where": Dense(torch.empty(N, N, dtype=torch.bool, device="meta"))},
    "a graph": {"where": Edges(on_meta(2, 70), N)},
    "a known graph": {"where": Edges(INDEX, N)},
    "a graph with loops": {"where": Edges(on_meta(2, 70), N).with_self_loops() & Padding([N, 2])},
    "a graph per head": {"where": PerHead(Edges(on_meta(2, 70), N), Edges(INDEX, N), Complete())},
    "positions": {"positions": on_meta(N)},
    "positions per sample": {"positions": on_meta(BATCH, N), "key_positions": on_meta(BATCH, N)},
    "known positions": {"positions": torch.arange(N)},
}


@pytest.mark.parametrize(
    "position", [None, Rotary(DIM), Relative(DIM, 2), ALiBi(HEADS), LocalGaussian(DIM, 2)], ids=str
)
@pytest.mark.parametrize("score", [Dot(), Graph(DIM, HEADS), Additive(DIM, DIM, 3)], ids=str)
@pytest.mark.parametrize("name", META_CALLS)
def test_the_meta_device_computes_shapes_of_any_call(name: str, score: Score, position: Position | None) -> None:
    call = META_CALLS[name]
    if ("graph" in name and position is not None) or (isinstance(position, Relative) and not isinstance(score, Dot)):
        pytest.skip("a rule excludes this combination")
    with torch.device("meta"):
        layer = Attention(MultiHead(WIDTH, HEADS), score, position=position)
    x = torch.empty(BATCH, N, WIDTH, device="meta")
    assert layer.to("meta")(x, **call).shape == (BATCH, N, WIDTH)
    if "graph" not in name:
        across = {"positions": on_meta(N), "key_positions": on_meta(N)} | call
        assert layer(x, memory=x, **across).shape == (BATCH, N, WIDTH)


def test_a_large_graph_on_the_meta_device() -> None:
    nodes = 10**6
    layer = Attention(Tied(WIDTH, HEADS, DIM), GraphV2(DIM, HEADS)).to("meta")
    x = torch.empty(1, nodes, WIDTH, device="meta")
    assert layer(x, where=Edges(on_meta(2, 10**7), nodes)).shape == (1, nodes, WIDTH)
    graph = Edges(on_meta(2, 5), 3)
    assert [x.shape for x in (graph.pairs, graph.offsets, *graph.outgoing)] == [(2, 5), (4,), (4,), (5,)]
    assert graph.dense(3, 3).shape == (1, 1, 3, 3)
    assert Edges(INDEX, N).to(torch.device("meta")).pairs.is_meta


def test_a_cache_and_a_table_on_the_meta_device() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), position=Rotary(DIM)).to("meta")
    cache, x = layer.cache(BATCH, N), torch.empty(BATCH, 1, WIDTH, device="meta")
    for _ in range(2):
        assert layer(x, cache=cache).shape == (BATCH, 1, WIDTH)
        cache.reorder(on_meta(BATCH))
    assert Learned(WIDTH, 9).to("meta")(on_meta(BATCH, N)).shape == (BATCH, N, WIDTH)
