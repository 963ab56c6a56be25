"""Parts of the field: numbers by hand, the formulas of their papers, what they cost a cache, and what they refuse."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import mirada
from mirada.attention import (
    ALiBi,
    Attention,
    Causal,
    Differential,
    Dot,
    Entmax15,
    Forgetting,
    GatedHeads,
    Graph,
    Heads,
    Latent,
    MultiHead,
    Padding,
    QKNorm,
    Relative,
    Rotary,
    Sigmoid,
    Sinks,
    Softcap,
    Softmax,
    SoftmaxPlusOne,
    SoftmaxTopK,
    Window,
    attend,
)
from mirada.attention.cache import Cache
from mirada.testing import check
from tests.sampling import slow

BATCH, N, WIDTH, HEADS = 2, 11, 12, 3
PARTS = [
    Sinks(3), Latent(12, 3, 5, rotary=2), Forgetting(12, 3), Entmax15(), SoftmaxTopK(3), Sigmoid(), Sigmoid(-1.0),
    SoftmaxPlusOne(), QKNorm(), Softcap(2.0), Softcap(3.0, Graph(4, 3)), GatedHeads(12, 3), GatedHeads(12, 3, gate="head"),
    Differential(12, 3),
    Latent(12, 3, 4),
]  # fmt: skip


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("part", slow(PARTS, but=range(3)), ids=lambda part: type(part).__name__)
def test_every_law_holds(part: nn.Module) -> None:
    check(part, skip=["compile"])


def test_entmax_solves_its_own_equation() -> None:
    """alpha = max(z / 2 - tau, 0)^2 with sum 1: tau by bisection, gradients by differences of that."""
    scores = (3 * numbers(1, 2, 7, 13)).requires_grad_()
    mask = torch.rand(1, 1, 7, 13, generator=torch.Generator().manual_seed(1)) < 0.7
    half = (scores.detach() / 2).masked_fill(~mask, -torch.inf)
    high = half.amax(-1, keepdim=True)
    low = high - 1
    for _ in range(100):
        middle = (low + high) / 2
        more = (half - middle).clamp(min=0).square().sum(-1, keepdim=True) >= 1
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    expected = (half - low).clamp(min=0).square()
    weights = Entmax15()(scores, mask)
    assert_close(weights, expected, rtol=1e-8, atol=1e-9)
    assert (weights == 0).sum() > (~mask).sum() * 2
    # the derivative of entmax: diag(s) - s s^T / sum(s), s = sqrt(alpha)
    probe = numbers(1, 2, 7, 13, seed=3)
    (gradient,) = torch.autograd.grad((weights * probe).sum(), scores)
    root = expected.sqrt()
    by_hand = root * (probe - (root * probe).sum(-1, keepdim=True) / root.sum(-1, keepdim=True))
    assert_close(gradient, by_hand, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("equal", [1, 2, 5, 17])
def test_entmax_of_equal_scores_is_uniform_with_gradients(equal: int) -> None:
    scores = torch.full((1, 1, 1, equal), 3.0, requires_grad=True)
    weights = Entmax15()(scores)
    assert_close(weights, torch.full_like(weights, 1 / equal))
    weights[..., 0].sum().backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_top_k_keeps_k_keys() -> None:
    scores = numbers(1, 1, 1, 7)
    kept = scores.topk(3).indices
    expected = torch.zeros_like(scores).scatter(-1, kept, scores.gather(-1, kept).softmax(-1))
    assert_close(SoftmaxTopK(3)(scores), expected)
    assert_close(SoftmaxTopK(3)(scores, torch.arange(7).view(1, 1, 1, 7) < 2)[..., :2], scores[..., :2].softmax(-1))


def test_sigmoid_by_hand() -> None:
    scores = torch.tensor([[[[0.0, 1.0, 9.0]]]])
    mask = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    wanted = [1 / (1 + math.exp(math.log(2))), 1 / (1 + math.exp(math.log(2) - 1)), 0]
    assert_close(Sigmoid()(scores, mask), torch.tensor(wanted).view(1, 1, 1, 3))
    assert_close(Sigmoid(-1.0)(scores, mask)[..., 1].item(), 0.5)


@pytest.mark.parametrize("where", [Causal(), Window(3, 1), Causal() & Padding([11, 4])], ids=repr)
@pytest.mark.parametrize("score", [Dot(), QKNorm()], ids=lambda score: type(score).__name__)
def test_a_sink_is_one_more_key(where: mirada.attention.Neighborhood, score: mirada.attention.Score) -> None:
    score, sinks = score.double(), Sinks(HEADS).double()
    sinks.scores.data.copy_(torch.tensor([-1.0, 0.5, 2.0]))
    q, k, v = (numbers(BATCH, HEADS, N, 4, seed=s).requires_grad_() for s in range(3))
    logits = score(q, k).masked_fill(~where.dense(N, N), -torch.inf)
    logits = torch.cat([logits, sinks.scores.view(1, -1, 1, 1).expand(BATCH, -1, N, 1)], -1)
    expected = logits.softmax(-1)[..., :-1] @ v
    got = attend(q, k, v, score=score, where=where, normalizer=sinks, kernel="sinks")
    assert_close(got, expected)
    inputs = (q, k, v, sinks.scores)
    assert_close(*(torch.autograd.grad((y * expected.detach().cos()).sum(), inputs) for y in (got, expected)))


def test_sinks_take_the_fast_kernel_and_refuse_other_heads() -> None:
    layer = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Sinks(HEADS))
    assert layer.plan(torch.randn(BATCH, N, WIDTH)).kernel == "sinks"
    assert (
        Attention(MultiHead(WIDTH, HEADS), normalizer=SoftmaxPlusOne()).plan(torch.randn(1, 3, WIDTH)).kernel == "sinks"
    )
    biased = Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Sinks(HEADS), position=ALiBi(HEADS))
    assert biased.plan(torch.randn(1, 3, WIDTH)).kernel == "reference"
    with pytest.raises(ValueError, match="Sinks has a score per head: got heads=4, made for heads=3"):
        attend(*(torch.randn(1, 4, 3, 2) for _ in "qkv"), normalizer=Sinks(3))


def test_a_capped_score() -> None:
    q, k = numbers(BATCH, HEADS, 5, 4), numbers(BATCH, HEADS, 7, 4, seed=1)
    assert_close(Softcap(2.0)(q, k), 2 * torch.tanh(Dot()(q, k) / 2))
    collaborative = Attention(mirada.Collaborative(WIDTH, HEADS, 8), Softcap(5.0))
    assert collaborative.score.score.scale == pytest.approx((8 / 3) ** -0.5)


def test_gated_heads() -> None:
    heads = GatedHeads(WIDTH, HEADS).double()
    x = numbers(BATCH, N, WIDTH)
    plain = MultiHead(WIDTH, HEADS).double()
    plain.load_state_dict({name: value for name, value in heads.state_dict().items() if not name.startswith("gate")})
    h = attend(*plain.project(x, x, x))
    gated = h.transpose(1, 2).flatten(2) * torch.sigmoid(x @ heads.gate.weight.T)
    assert_close(Attention(heads)(x), heads.out(gated))
    with pytest.raises(ValueError, match=r"unknown gate 'elements'; known: element, head. Did you mean 'element'"):
        GatedHeads(WIDTH, HEADS, gate="elements")  # type: ignore[arg-type]


def test_differential_heads_are_the_formula() -> None:
    heads = Differential(WIDTH, HEADS, initial=0.7).double()
    x, where = numbers(BATCH, N, WIDTH), Causal()
    q, k = (f(x).unflatten(-1, (HEADS, 2, 2)).permute(3, 0, 2, 1, 4) for f in (heads.query, heads.key))
    v = heads.value(x).unflatten(-1, (HEADS, 4)).transpose(1, 2)
    a, b, c, d = heads.factors
    share = torch.exp(a @ b) - torch.exp(c @ d) + 0.7
    first, second = ((q[i] @ k[i].mT / 2**0.5).masked_fill(~where.dense(N, N), -torch.inf).softmax(-1) for i in (0, 1))
    difference = (first - share * second) @ v
    normed = difference / (difference.square().mean(-1, keepdim=True) + 1e-5).sqrt() * heads.norm.weight
    expected = heads.out((0.3 * normed).transpose(1, 2).flatten(2))
    layer = Attention(heads, where=where)
    assert_close(layer(x), expected)
    assert layer.float().plan(x.float()).kernel == "fused"


def test_latent_heads_are_ordinary_heads_with_keys_and_values_made_from_the_latent() -> None:
    heads = Latent(WIDTH, HEADS, latent=5, dim=6, rotary=4).double()
    rotary = Rotary(9, part=4 / 9)
    x = numbers(BATCH, N, WIDTH)
    got = Attention(heads, where=Causal(), position=rotary)(x)
    down = heads.down(x)
    c = heads.norm(down[..., 4:].unsqueeze(1)).squeeze(1)
    turn = Rotary(4)
    k = torch.einsum("bnl,hdl->bhnd", c, heads.key_up)
    r = turn.rotate(down[..., :4].unsqueeze(1), range(N)).expand(-1, HEADS, -1, -1)
    v = torch.einsum("bnl,hdl->bhnd", c, heads.value_up)
    q = heads.query(x).unflatten(-1, (HEADS, 10)).transpose(1, 2)
    q = torch.cat([turn.rotate(q[..., :4], range(N)), q[..., 4:]], -1)
    h = attend(q, torch.cat([r, k], -1), v, where=Causal())
    assert_close(got, heads.out(h.transpose(1, 2).flatten(2)))


def test_forgetting_is_a_bias() -> None:
    heads = Forgetting(WIDTH, HEADS).double()
    x = numbers(BATCH, N, WIDTH)
    logs = nn.functional.logsigmoid(heads.forget(x)).transpose(1, 2)
    sums = torch.stack([torch.stack([logs[..., j + 1 : i + 1].sum(-1) for j in range(N)], -1) for i in range(N)], -2)
    q, k, v = (f(x).unflatten(-1, (HEADS, 4)).transpose(1, 2) for f in (heads.query, heads.key, heads.value))
    weights = (q @ k.mT / 2 + sums).masked_fill(~Causal().dense(N, N), -torch.inf).softmax(-1)
    layer = Attention(heads, where=Causal())
    assert_close(layer(x), heads.out((weights @ v).transpose(1, 2).flatten(2)))
    assert layer.float().plan(x.float()).kernel in ("fused", "short")


@pytest.mark.parametrize(
    ("heads", "parts", "message"),
    [
        (Forgetting(WIDTH, HEADS), {}, r"its neighborhood is causal: AND it with Causal\(\)"),
        (Forgetting(WIDTH, HEADS), {"where": Causal(), "score": Dot(0.3)}, r"over sqrt\(dim\): use Dot\(\)"),
        (
            Forgetting(WIDTH, HEADS),
            {"where": Causal(), "normalizer": Sigmoid()},
            "must not change when the same number",
        ),
        (
            Forgetting(WIDTH, HEADS, dim=5),
            {"where": Causal(), "position": Rotary(6)},
            r"rotate the first 5 of 6 numbers only",
        ),
        (
            Latent(WIDTH, HEADS, 4, rotary=2),
            {"position": Rotary(6)},
            r"first 2 of 6 numbers only: Rotary\(dim=6, part=2 / 6\)",
        ),
    ],
)
def test_what_heads_do_not_fit_is_refused(heads: Heads, parts: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{type(heads).__name__} does not fit: .*{message}"):
        Attention(heads, **parts)(torch.randn(BATCH, N, WIDTH))


def test_forgetting_needs_digits() -> None:
    layer = Attention(Forgetting(WIDTH, HEADS), where=Causal()).bfloat16()
    with pytest.raises(ValueError, match=r"need more digits than torch\.bfloat16"):
        layer(torch.randn(BATCH, N, WIDTH, dtype=torch.bfloat16))


CACHED = {
    "forgetting": lambda: Attention(Forgetting(WIDTH, HEADS), where=Causal()),
    "forgetting-rotary": lambda: Attention(Forgetting(WIDTH, HEADS), where=Causal(), position=Rotary(5, part=4 / 5)),
    "latent": lambda: Attention(Latent(WIDTH, HEADS, 5), where=Causal()),
    "latent-rotary": lambda: Attention(
        Latent(WIDTH, HEADS, 4, rotary=2), where=Window(4), position=Rotary(6, part=1 / 3)
    ),
    "differential": lambda: Attention(
        Differential(WIDTH, HEADS), where=Causal(), position=Relative(2, 3, values=False)
    ),
    "gated": lambda: Attention(GatedHeads(WIDTH, HEADS), where=Causal()),
    "sinks": lambda: Attention(MultiHead(WIDTH, HEADS), where=Window(3), normalizer=Sinks(HEADS)),
    "entmax": lambda: Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Entmax15()),
    "sigmoid": lambda: Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=Sigmoid()),
    "top-k": lambda: Attention(MultiHead(WIDTH, HEADS), where=Causal(), normalizer=SoftmaxTopK(3)),
    "softcap": lambda: Attention(MultiHead(WIDTH, HEADS), Softcap(2.0), where=Causal()),
}


@pytest.mark.parametrize("name", CACHED)
def test_steps_reorders_and_rewinds_are_the_whole(name: str) -> None:
    layer, x = CACHED[name]().double(), numbers(BATCH, N, WIDTH)
    order = torch.tensor([1, 0, 1])
    longer = torch.cat([x[order, :5], numbers(3, 6, WIDTH, seed=4)], 1)
    with torch.no_grad():
        cache = layer.cache(BATCH, 13)
        got = [layer(piece, cache=cache) for piece in x[:, :5].split([3, 2], 1)]
        assert_close(torch.cat(got, 1), layer(x[:, :5]))
        cache.reorder(order)
        after = torch.cat([layer(piece, cache=cache) for piece in longer[:, 5:].split([4, 1, 1], 1)], 1)
        whole = layer(longer)
        assert_close(after, whole[:, 5:])
        twin = cache.copy()
        cache.rewind(7)
        assert_close(layer(longer[:, 7:], cache=cache), whole[:, 7:])
        twin.rewind(7)
        assert_close(layer(longer[:, 7:9], cache=twin), whole[:, 7:9])
    tracked = layer.cache(BATCH, 5)
    stepped = torch.cat([layer(piece, cache=tracked) for piece in x[:, :5].split([2, 3], 1)], 1)
    parameters = list(layer.parameters())
    gradients = (
        torch.autograd.grad((y * x[:, :5].cos()).sum(), parameters, allow_unused=True)
        for y in (stepped, layer(x[:, :5]))
    )
    for one, other in zip(*gradients, strict=True):
        assert_close(one, other)


def test_a_latent_cache_stores_once() -> None:
    layer = Attention(Latent(WIDTH, HEADS, 5, rotary=2), where=Causal(), position=Rotary(7, part=2 / 7))
    cache = layer.cache(BATCH, N)
    assert cache.keys.numel() == BATCH * N * 7
    assert cache.values.untyped_storage().data_ptr() == cache.keys.untyped_storage().data_ptr()
    with pytest.raises(ValueError, match="a cache rewinds to at most filled=0 places: got 3"):
        cache.rewind(3)
    assert isinstance(cache, Cache)


@pytest.mark.parametrize(
    "words",
    [
        {"projection": "gated:gate=head"},
        {"projection": "differential"},
        {"projection": "latent:5"},
        {"projection": "forgetting"},
        {"normalizer": "entmax15"},
        {"normalizer": "softmax-top-k:3"},
        {"normalizer": "sigmoid:bias=-2.0"},
        {"normalizer": "softmax-plus-one"},
        {"normalizer": "sinks"},
        {"score": "softcap:50"},
        {"score": "qk-norm:5"},
    ],
    ids=str,
)
def test_each_is_spelled_in_a_configuration_and_no_engine_takes_it_for_another(words: dict[str, str]) -> None:
    from dataclasses import replace

    config = replace(mirada.models.GPTConfig.tiny(), **words)
    model = mirada.models.GPT(config).eval()
    assert mirada.engine.fast(model).reason is not None
    ids = torch.randint(0, 7, (2, 5))
    with torch.no_grad(), mirada.look(model) as seen:
        assert model(ids).isfinite().all()
    assert seen[seen.names[0]].weights().isfinite().all()


def test_a_softmax_of_wide_scores_stays_softmax() -> None:
    """Parts that are new change nothing for the old ones."""
    assert Attention(MultiHead(WIDTH, HEADS), normalizer=Softmax()).plan(torch.randn(1, 3, WIDTH)).kernel == "fused"
