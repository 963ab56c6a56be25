"""Every position against its formula, worked out with plain Python numbers or an explicit loop."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from mirada.attention.equation import Attention, attend
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Causal, Padding, Window
from mirada.attention.places import Places
from mirada.attention.positions import ALiBi, Learned, LocalGaussian, Position, Relative, Rotary, Sinusoidal, T5Bias
from mirada.attention.scores import Bilinear, Dot

BATCH, HEADS, QUERIES, KEYS, DIM = 2, 3, 5, 7, 6


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return (
        numbers(BATCH, HEADS, QUERIES, DIM, seed=1),
        numbers(BATCH, HEADS, KEYS, DIM, seed=2),
        numbers(BATCH, HEADS, KEYS, DIM, seed=3),
    )


# Sinusoidal


def test_sinusoidal_by_hand():
    expected = [
        [math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)]  # 10000^(2/4) = 100
        for p in (0, 1, 17)
    ]
    assert_close(Sinusoidal(4)(torch.tensor([0, 1, 17])), torch.tensor(expected))


@pytest.mark.parametrize("base", [10000, 500.0])
@pytest.mark.parametrize("width", [1, 2, 5, 7, 8])
def test_sinusoidal_of_any_width_and_base(width, base):
    def encode(p: int, column: int) -> float:
        angle = p / base ** (2 * (column // 2) / width)
        return math.sin(angle) if column % 2 == 0 else math.cos(angle)

    positions = [0, 1, 2, 41, 99991]
    expected = torch.tensor([[encode(p, column) for column in range(width)] for p in positions])
    assert_close(Sinusoidal(width, base)(torch.tensor(positions)), expected)


def test_sinusoidal_takes_positions_of_any_shape():
    assert Sinusoidal(7)(torch.zeros(2, 3, 5, dtype=torch.int64)).shape == (2, 3, 5, 7)
    assert_close(Sinusoidal(3)(torch.tensor(0)), torch.tensor([0.0, 1.0, 0.0]))


def test_sinusoidal_is_added_from_a_start():
    x = numbers(2, 3, 4).float()
    table = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in (11, 12, 13)]
    assert_close(Sinusoidal(4).add(x, start=11), x + torch.tensor(table))
    assert Sinusoidal(4).add(x.half()).dtype == torch.float16


def test_sinusoidal_errors():
    with pytest.raises(ValueError, match="width and base must be positive: got width=0, base=10000"):
        Sinusoidal(0)
    with pytest.raises(ValueError, match=r"positions must hold integers: got torch\.float32"):
        Sinusoidal(4)(torch.tensor([0.5]))
    with pytest.raises(ValueError, match=r"Sinusoidal\(4, base=10000\) needs width=4: got width=5"):
        Sinusoidal(4).add(torch.zeros(2, 3, 5))


# Learned


def test_learned_reads_its_table():
    learned = Learned(5, positions=11)
    learned.table.data.copy_(torch.arange(55.0).view(11, 5))
    assert_close(
        learned(torch.tensor([[0, 10], [3, 3]]))[:, 1], torch.tensor([[50.0, 51, 52, 53, 54], [15, 16, 17, 18, 19]])
    )
    x = torch.zeros(2, 3, 5)
    assert_close(learned.add(x, start=2)[1], torch.arange(10.0, 25.0).view(3, 5))


def test_learned_errors():
    learned = Learned(5, positions=11)
    with pytest.raises(
        ValueError, match=r"must lie in the table of 11: got 0 to 11\. Build Learned with more positions, or shorten"
    ):
        learned(torch.tensor([0, 11]))
    with pytest.raises(ValueError, match="must lie in the table of 11: got -1 to 3"):
        learned(torch.tensor([3, -1]))
    with pytest.raises(ValueError, match="must lie in the table of 11: got 9 to 13"):
        learned.add(torch.zeros(2, 5, 5), start=9)
    with pytest.raises(ValueError, match="needs width=5: got width=7"):
        learned.add(torch.zeros(2, 3, 7))
    with pytest.raises(ValueError, match="sizes must be positive: got width=5, positions=0"):
        Learned(5, positions=0)


def test_an_offset_reads_later_rows():
    learned = Learned(5, positions=11, offset=2)
    assert learned.table.shape == (13, 5)
    learned.table.data.copy_(torch.arange(65.0).view(13, 5))
    assert_close(learned(torch.tensor([0, 10]))[:, 0], torch.tensor([10.0, 60.0]))
    with pytest.raises(ValueError, match="must lie in the table of 11: got 0 to 11"):
        learned(torch.tensor([0, 11]))
    for wrong in (lambda: Learned(5, 11, offset=-1), lambda: Sinusoidal(5, offset=-1)):
        with pytest.raises(ValueError, match="offset must be at least 0: got -1"):
            wrong()
    places = torch.tensor([0, 1, 17])
    assert_close(Sinusoidal(6, layout="half", offset=3)(places), Sinusoidal(6, layout="half")(places + 3))


# Rotary


def pairs_of(layout: str, dim: int) -> list[tuple[int, int]]:
    half = dim // 2
    return [(m, m + half) if layout == "half" else (2 * m, 2 * m + 1) for m in range(half)]


def turned(vector: list[float], p: int, layout: str, base: float) -> list[float]:
    """One vector, turned with plain numbers."""
    out = list(vector)
    for m, (a, b) in enumerate(pairs_of(layout, len(vector))):
        angle = p * base ** (-2 * m / len(vector))
        out[a] = vector[a] * math.cos(angle) - vector[b] * math.sin(angle)
        out[b] = vector[a] * math.sin(angle) + vector[b] * math.cos(angle)
    return out


def plain(x: Tensor, positions: Tensor, layout: str, base: float = 10000) -> Tensor:
    """The formula in ordinary differentiable operations: x cos + (its partner, signed) sin."""
    dim = x.shape[-1]
    angle, partner, sign = torch.zeros(dim, dtype=torch.float64), list(range(dim)), torch.ones(dim, dtype=torch.float64)
    for m, (a, b) in enumerate(pairs_of(layout, dim)):
        angle[a] = angle[b] = base ** (-2 * m / dim)
        partner[a], partner[b], sign[a] = b, a, -1.0
    angles = positions.unsqueeze(-1) * angle
    angles = angles if angles.ndim == 2 else angles.unsqueeze(1)
    return x * angles.cos() + x[..., partner] * sign * angles.sin()


def test_rotary_by_hand_in_both_layouts():
    x = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]], dtype=torch.float64)
    c, s, c2, s2 = math.cos(3), math.sin(3), math.cos(0.03), math.sin(0.03)
    half = [1 * c - 3 * s, 2 * c2 - 4 * s2, 3 * c + 1 * s, 4 * c2 + 2 * s2]
    interleaved = [1 * c - 2 * s, 2 * c + 1 * s, 3 * c2 - 4 * s2, 4 * c2 + 3 * s2]
    assert_close(Rotary(4).rotate(x, torch.tensor([3])).flatten().tolist(), half)
    assert_close(Rotary(4, layout="interleaved").rotate(x, torch.tensor([3])).flatten().tolist(), interleaved)


@pytest.mark.parametrize("base", [10000, 97.0])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_of_every_vector(layout, base):
    x, positions = numbers(BATCH, HEADS, QUERIES, DIM), [0, 1, 3, 1009, 31]
    expected = [
        [[turned(x[b, h, n].tolist(), p, layout, base) for n, p in enumerate(positions)] for h in range(HEADS)]
        for b in range(BATCH)
    ]
    result = Rotary(DIM, base, layout).rotate(x, torch.tensor(positions))
    assert_close(result, torch.tensor(expected, dtype=torch.float64))


def llama3_rate(rate: float, factor: float, low: float, high: float, original: int) -> float:
    """The rate of one pair by the wavelengths that Llama 3 compares."""
    wavelength = 2 * math.pi / rate
    if wavelength > original / low:
        return rate / factor
    if wavelength < original / high:
        return rate
    smooth = (original / wavelength - low) / (high - low)
    return (1 - smooth) * rate / factor + smooth * rate


def test_rotary_slows_down_every_pair_or_the_slow_ones() -> None:
    rates = [50 ** (-m / 4) for m in range(4)]
    x, p = numbers(1, 1, 1, 8), 7
    for words, expected in (
        ({"factor": 8}, [rate / 8 for rate in rates]),
        ({"factor": 8, "low": 1, "high": 4, "original": 29}, [llama3_rate(r, 8, 1, 4, 29) for r in rates]),
        ({"factor": 1, "low": 1, "high": 4, "original": 29}, rates),
    ):
        result = Rotary(8, base=50, **words).rotate(x, torch.tensor([p])).flatten()
        pairs = x.flatten().view(2, 4)
        cos, sin = (torch.tensor([f(p * rate) for rate in expected], dtype=x.dtype) for f in (math.cos, math.sin))
        assert_close(result, torch.cat([pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin]))
    assert len({llama3_rate(r, 8, 1, 4, 29) / r for r in rates}) == 3  # kept, between, divided by 8


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_of_a_part_is_that_of_so_many_coordinates(layout: str) -> None:
    x, positions = numbers(BATCH, HEADS, QUERIES, 14), torch.tensor([0, 1, 3, 1009, 31])
    rotary = Rotary(14, layout=layout, part=3 / 7)
    rotated = rotary.rotate(x, positions)
    assert_close(rotated[..., :6], Rotary(6, layout=layout).rotate(x[..., :6], positions))
    assert_close(rotated[..., 6:], x[..., 6:], rtol=0, atol=0)
    assert_close(rotary.rotate(x, range(QUERIES)), rotary.rotate(x, torch.arange(QUERIES)))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_takes_positions_per_sample(layout):
    x, positions = numbers(BATCH, HEADS, QUERIES, DIM), torch.tensor([[0, 1, 2, 0, 1], [7, 5, 3, 2, 0]])
    result = Rotary(DIM, layout=layout).rotate(x, positions)
    for sample in range(BATCH):
        alone = Rotary(DIM, layout=layout).rotate(x[sample : sample + 1], positions[sample])
        assert_close(result[sample : sample + 1], alone)
    assert_close(result, plain(x, positions, layout))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_keeps_lengths_and_depends_on_distance_only(layout):
    rotary, q, k = Rotary(DIM, layout=layout), numbers(1, 1, 1, DIM, seed=1), numbers(1, 1, 1, DIM, seed=2)

    def score(i: int, j: int) -> Tensor:
        return (rotary.rotate(q, torch.tensor([i])) * rotary.rotate(k, torch.tensor([j]))).sum()

    assert_close(rotary.rotate(q, torch.tensor([41])).norm(), q.norm())
    assert_close(rotary.rotate(q, torch.tensor([0])), q)
    assert_close(score(3, 11), score(1003, 1011))
    assert (score(3, 11) - score(3, 13)).abs() > 1e-3


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),  # heads split off the width
        lambda x: torch.cat([x, x, x], dim=-1)[..., DIM : 2 * DIM],  # one of three projections made at once
        lambda x: torch.cat([x[..., :1], x, x[..., :1]], dim=-1)[..., 1:-1],  # an odd place in memory
        lambda x: torch.cat([x, x[..., :1]], dim=-1)[..., :-1],  # odd strides
        lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda x: x[:1, :1, :1].expand(BATCH, HEADS, QUERIES, DIM),
        lambda x: torch.stack([x, x], dim=-1)[..., 0],
    ],
    ids=["plain", "heads", "thirds", "odd-place", "odd-strides", "transposed", "expanded", "every-other"],
)
def test_rotary_of_views_has_the_gradient_of_the_plain_formula(view, layout):
    positions, rotary = torch.tensor([0, 1, 3, 1009, 31]), Rotary(DIM, layout=layout)
    ours, theirs = (numbers(BATCH, HEADS, QUERIES, DIM).requires_grad_() for _ in range(2))
    upstream = numbers(BATCH, HEADS, QUERIES, DIM, seed=5)
    result, expected = rotary.rotate(view(ours), positions), plain(view(theirs), positions, layout)
    assert_close(result, expected)
    (result * view(upstream)).sum().backward()
    (expected * view(upstream)).sum().backward()
    assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_has_second_derivatives(layout):
    x, positions = numbers(1, 1, 3, 4).requires_grad_(), torch.tensor([0, 2, 5])

    def squared(x: Tensor) -> Tensor:
        return Rotary(4, layout=layout).rotate(x, positions) ** 2

    assert torch.autograd.gradcheck(squared, x)
    assert torch.autograd.gradgradcheck(squared, x)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_is_compiled_without_a_break(layout):
    rotary, positions = Rotary(DIM, layout=layout), torch.arange(QUERIES)
    compiled = torch.compile(rotary.rotate, fullgraph=True, backend="aot_eager")
    ours, theirs = (numbers(BATCH, HEADS, QUERIES, DIM + 2).requires_grad_() for _ in range(2))
    result, expected = compiled(ours[..., 1:-1], positions), plain(theirs[..., 1:-1], positions, layout)
    assert_close(result, expected)
    (result**2 * 3).sum().backward()
    (expected**2 * 3).sum().backward()
    assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_of_half_precision_is_computed_in_single_precision(layout, dtype):
    x, positions = numbers(BATCH, HEADS, QUERIES, DIM).to(dtype), torch.tensor([0, 1, 30011, 1009, 65003])
    result = Rotary(DIM, layout=layout).rotate(x, positions)
    assert result.dtype == dtype
    # nothing but the last rounding is lost: no more than half a unit in the last place
    exact = plain(x.double(), positions, layout)
    assert_close(result.double(), exact, rtol=0.501 * torch.finfo(dtype).eps, atol=1e-7)


def test_rotary_angles_are_exact_far_away():
    x, p = torch.tensor([[[[1.0, 0.0, 1.0, 0.0]]]]), 16_000_057
    expected = turned([1.0, 0.0, 1.0, 0.0], p, "interleaved", 10000)
    result = Rotary(4, layout="interleaved").rotate(x, torch.tensor([p]))
    assert_close(result.flatten().tolist(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_turns_queries_and_keys_but_not_values(layout):
    q, k, v = inputs()
    i, j = torch.tensor([3, 4, 5, 6, 7]), torch.arange(KEYS)
    expected = attend(plain(q, i, layout), plain(k, j, layout), v)
    assert_close(attend(q, k, v, position=Rotary(DIM, layout=layout), positions=i, key_positions=j), expected)


def test_rotary_errors():
    for dim in (0, 7):
        with pytest.raises(ValueError, match=f"Rotary rotates pairs, so dim must be even: got dim={dim}"):
            Rotary(dim)
    with pytest.raises(ValueError, match="base must be positive: got 0"):
        Rotary(4, base=0)
    with pytest.raises(ValueError, match=r"unknown layout 'halves'; known: half, interleaved\. Did you mean 'half'\?"):
        Rotary(4, layout="halves")
    needs = r"Rotary\(4, base=10000, layout='half'\) needs queries and keys of dim=4: got dim=6"
    with pytest.raises(ValueError, match=needs):
        Attention(MultiHead(12, heads=2), position=Rotary(4))
    q, k, v = inputs()
    with pytest.raises(ValueError, match=needs):
        attend(q, k, v, position=Rotary(4))
    with pytest.raises(ValueError, match=needs):
        attend(q[..., :4], k, v, score=Bilinear(4, DIM).double(), position=Rotary(4))


# Relative


def relative_by_hand(q, k, v, relative, scale, start=0):
    """Shaw's two sums, pair by pair: the output of attention, and nothing shared with the code under test."""
    batch, heads, queries, dim = q.shape
    keys, clip = k.shape[2], relative.clip
    out = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                rows = [clip + max(-clip, min(clip, j - (start + i))) for j in range(keys)]
                scores = [
                    scale * sum(q[b, h, i, d] * (k[b, h, j, d] + relative.keys[rows[j], d]) for d in range(dim)).item()
                    for j in range(keys)
                ]
                for j, weight in enumerate(softmax(scores)):
                    added = v[b, h, j] if relative.values is None else v[b, h, j] + relative.values[rows[j]]
                    out[b, h, i] += weight * added.detach()
    return out


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("scale", [None, 1.0, 0.3])
def test_relative_keys_and_values_by_a_double_loop(scale, values):
    torch.manual_seed(0)
    (q, k, v), relative = inputs(), Relative(DIM, clip=2, values=values).double()
    factor = 1 / math.sqrt(DIM) if scale is None else scale
    expected = relative_by_hand(q, k, v, relative, factor)
    assert_close(attend(q, k, v, score=Dot(scale), position=relative), expected)


def test_relative_key_term_has_the_learned_scale_too():
    torch.manual_seed(0)
    (q, k, v), relative, score = inputs(), Relative(DIM, clip=3).double(), Dot("learned").double()
    score.scale.data.fill_(0.7)
    assert_close(attend(q, k, v, score=score, position=relative), relative_by_hand(q, k, v, relative, 0.7))


def test_relative_distances_are_those_of_the_positions():
    torch.manual_seed(0)
    (q, k, v), relative = inputs(), Relative(DIM, clip=1).double()
    expected = relative_by_hand(q, k, v, relative, 1.0, start=2)
    result = attend(q, k, v, score=Dot(1.0), position=relative, positions=torch.arange(2, 2 + QUERIES))
    assert_close(result, expected)


def test_relative_is_clipped_not_cut():
    relative = Relative(dim=1, clip=1).double()
    relative.keys.data.copy_(torch.tensor([[10.0], [20.0], [30.0]]))
    bias = relative.bias(torch.ones(1, 1, 2, 1, dtype=torch.float64), Places.count(2, 5, start=2))
    assert bias[0, 0].tolist() == [[10, 10, 20, 30, 30], [10, 10, 10, 20, 30]]
    weights = torch.tensor([[[[1.0, 2.0, 4.0, 8.0, 16.0]]]], dtype=torch.float64)
    relative.values.data.copy_(torch.tensor([[1.0], [100.0], [10000.0]]))
    spread = relative.spread(weights, Places.count(1, 5, start=2))
    assert spread.item() == (1 + 2) * 1 + 4 * 100 + (8 + 16) * 10000


def test_relative_tables_are_separate_shared_by_heads_and_trained():
    torch.manual_seed(0)
    (q, k, v), relative = inputs(), Relative(DIM, clip=2).double()
    assert relative.keys.shape == relative.values.shape == (5, DIM)
    attend(q, k, v, position=relative).sum().backward()
    assert (relative.keys.grad.abs().amax(-1) > 0).all()
    # every query hands a total weight of one to the rows of the value table
    assert_close(relative.values.grad.sum(0), torch.full((DIM,), float(BATCH * HEADS * QUERIES), dtype=torch.float64))
    assert relative.acts == {"bias", "value"}
    assert Relative(DIM, clip=2, values=False).acts == {"bias"}
    assert Relative(DIM, clip=2, values=False).values is None


def test_relative_errors():
    with pytest.raises(ValueError, match="Relative needs dim >= 1 and clip >= 0: got dim=4, clip=-1"):
        Relative(4, clip=-1)
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"Relative\(4, clip=2, values=True\) needs queries of dim=4: got dim=6"):
        attend(q, k, v, position=Relative(4, clip=2))
    with pytest.raises(ValueError, match=r"adds vectors of dim=6 to the values: got value dim=5\. Use values=False\."):
        attend(q, k, v[..., :5], position=Relative(6, clip=2))


# ALiBi


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (3, [2**-4, 2**-8, 2**-2]),
        (5, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1]),
        (8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]),
        (12, [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_alibi_slopes(heads, slopes):
    assert_close(ALiBi(heads).slopes.flatten(), torch.tensor(slopes))


def test_alibi_by_hand():
    bias = ALiBi(2).bias(torch.zeros(1, 2, 2, 3), Places.count(2, 4, start=2))
    far = torch.tensor([[-2.0, -1.0, 0.0, 1.0], [-3.0, -2.0, -1.0, 0.0]])
    assert_close(bias, torch.stack([far / 16, far / 256])[None])


def test_alibi_is_added_to_the_scores():
    (q, k, v), alibi = inputs(), ALiBi(HEADS)
    slopes, positions = [2**-4, 2**-8, 2**-2], torch.arange(2, 2 + QUERIES)
    out = torch.zeros(BATCH, HEADS, QUERIES, DIM, dtype=torch.float64)
    for b in range(BATCH):
        for h in range(HEADS):
            for r in range(QUERIES):
                i = r + 2
                scores = [(q[b, h, r] @ k[b, h, j]).item() - slopes[h] * (i - j) for j in range(i + 1)]
                out[b, h, r] = sum(w * v[b, h, j] for j, w in enumerate(softmax(scores)))
    assert_close(attend(q, k, v, score=Dot(1.0), where=Causal(), position=alibi, positions=positions), out)


def test_alibi_errors_and_state():
    with pytest.raises(ValueError, match="heads must be at least 1: got 0"):
        ALiBi(0)
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"ALiBi\(heads=5\) has a slope per head: got heads=3"):
        attend(q, k, v, position=ALiBi(5))
    assert ALiBi(3).state_dict() == {}


# T5Bias


def bucket_by_hand(distance: int, buckets: int, farthest: int, bidirectional: bool) -> int:
    """In whole numbers: the first bucket b of those that grow with distance < exact (farthest / exact)^((b + 1) / growing)."""
    side = buckets // 2 if bidirectional else buckets
    later = side if bidirectional and distance > 0 else 0
    away, exact = abs(distance) if bidirectional else max(0, -distance), side // 2
    if away < exact:
        return later + away
    growing = side - exact
    passed = (b for b in range(1, growing) if away**growing * exact**b >= farthest**b * exact**growing)
    return later + exact + max(passed, default=0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (7, 9), (4, 3)])
def test_t5_buckets_of_every_distance(buckets, farthest, bidirectional):
    bias = T5Bias(1, buckets, farthest, bidirectional)
    distances = range(-3 * farthest, 3 * farthest)
    expected = [bucket_by_hand(d, buckets, farthest, bidirectional) for d in distances]
    assert bias.bucket(torch.tensor(distances)).tolist() == expected
    assert set(expected) <= set(range(buckets))


def test_t5_buckets_by_hand():
    distances = torch.tensor([0, 1, -1, -7, -8, -11, -12, -16, -127, -128, -9999, 12, 9999])
    assert T5Bias(1).bucket(distances).tolist() == [0, 17, 1, 7, 8, 8, 9, 10, 15, 15, 15, 25, 31]
    one_way = T5Bias(1, bidirectional=False).bucket(distances)
    assert one_way.tolist() == [0, 0, 1, 7, 8, 11, 12, 16, 31, 31, 31, 0, 0]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_bias_is_added_to_the_scores(bidirectional):
    (q, k, v), bias = inputs(), T5Bias(HEADS, 8, 5, bidirectional).double()
    torch.nn.init.normal_(bias.table)
    out = torch.zeros(BATCH, HEADS, QUERIES, DIM, dtype=torch.float64)
    for b in range(BATCH):
        for h in range(HEADS):
            for r in range(QUERIES):
                rows = [bucket_by_hand(j - r - 2, 8, 5, bidirectional) for j in range(KEYS)]
                scores = [(q[b, h, r] @ k[b, h, j]).item() + bias.table[row, h].item() for j, row in enumerate(rows)]
                out[b, h, r] = sum(w * v[b, h, j] for j, w in enumerate(softmax(scores)))
    places = torch.arange(2, 2 + QUERIES)
    assert_close(attend(q, k, v, score=Dot(1.0), position=bias, positions=places), out)
    per_sample = {
        "positions": places + torch.tensor([[9], [4]]),
        "key_positions": torch.arange(KEYS) + torch.tensor([[9], [4]]),
    }
    assert_close(attend(q, k, v, score=Dot(1.0), position=bias, **per_sample), out)


def test_t5_bias_has_the_gradient_of_a_plain_lookup():
    bias = T5Bias(HEADS, 8, 5).double()
    places, direction = Places.count(QUERIES, KEYS, start=2), numbers(1, HEADS, QUERIES, KEYS)
    (bias.bias(numbers(1, HEADS, QUERIES, DIM), places) * direction).sum().backward()
    expected = torch.zeros(8, HEADS, dtype=torch.float64)
    for r in range(QUERIES):
        for j in range(KEYS):
            expected[bucket_by_hand(j - r - 2, 8, 5, True)] += direction[0, :, r, j]
    assert_close(bias.table.grad, expected)


def test_t5_bias_is_fused_where_no_gradient_is_asked():
    attention, x = Attention(MultiHead(HEADS * DIM, HEADS), position=T5Bias(HEADS)), numbers(2, 7, HEADS * DIM).float()
    assert "T5Bias is trained" in attention.plan(x).refused["fused"]
    trained = attention(x)
    with torch.no_grad():
        assert attention.plan(x).kernel == "fused"
        assert_close(attention(x), trained)


def test_t5_errors():
    with pytest.raises(ValueError, match="heads must be at least 1: got 0"):
        T5Bias(0)
    with pytest.raises(ValueError, match="T5Bias needs at least 2 buckets: got 1"):
        T5Bias(3, buckets=1, bidirectional=False)
    with pytest.raises(ValueError, match=r"distance must lie in 9\.\.65536 for buckets=32: got 8"):
        T5Bias(3, distance=8)
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"T5Bias\(heads=5, .*\) has numbers per head: got heads=3"):
        attend(q, k, v, position=T5Bias(5))


# LocalGaussian


def gaussian_weights(q, k, local, half, lengths, scale):
    """Luong's local-p weights, query by query: softmax inside the window, then the Gaussian, and nothing after it."""
    weights = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b, length in enumerate(lengths):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                hidden = torch.tanh(local.weight @ q[b, h, i])
                p = length / (1 + math.exp(-(local.v @ hidden).item()))
                inside = [s for s in range(length) if math.floor(p) - half <= s <= math.floor(p) + half]
                scores = [scale * (q[b, h, i] @ k[b, h, s]).item() for s in inside]
                for s, weight in zip(inside, softmax(scores) if scores else [], strict=True):
                    weights[b, h, i, s] = weight * math.exp(-((s - p) ** 2) / (2 * (half / 2) ** 2))
    return weights


@pytest.mark.parametrize("half", [1, 2, 3])
@pytest.mark.parametrize("lengths", [None, [3, 7]])
def test_local_gaussian_by_a_loop(lengths, half):
    torch.manual_seed(0)
    (q, k, v), local = inputs(), LocalGaussian(DIM, half).double()
    local.v.data.mul_(3)  # spread the predicted places over the source
    where = None if lengths is None else Padding(lengths)
    expected = gaussian_weights(q, k, local, half, lengths or [KEYS] * BATCH, 1 / math.sqrt(DIM))
    assert_close(attend(q, k, v, where=where, position=local), expected @ v)


def test_local_gaussian_weights_are_not_normalized_again():
    torch.manual_seed(0)
    (q, k, _), local = inputs(), LocalGaussian(DIM, 2).double()
    totals = attend(q, k, torch.ones(BATCH, HEADS, KEYS, 1, dtype=torch.float64), position=local)[..., 0]
    assert_close(totals, gaussian_weights(q, k, local, 2, [KEYS] * BATCH, 1 / math.sqrt(DIM)).sum(-1))
    assert (totals < 1).all()
    assert (totals > 0).all()


def test_local_gaussian_by_hand():
    local = LocalGaussian(1, half=2).double()
    local.weight.data.fill_(1)
    local.v.data.fill_(0)  # p = length / 2
    q, k = torch.zeros(2, 1, 1, 1, dtype=torch.float64), torch.zeros(2, 1, 7, 1, dtype=torch.float64)
    inside, factor = local.narrow(q, replace(Places.count(1, 7), lengths=torch.tensor([3, 7])))
    assert inside[:, 0, 0].int().tolist() == [
        [1, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0],
    ]  # around floor(1.5), floor(3.5)
    expected = [[math.exp(-((s - p) ** 2) / 2) for s in range(7)] for p in (1.5, 3.5)]
    assert_close(factor[:, 0, 0], torch.tensor(expected, dtype=torch.float64))
    # equal scores: a third each of the three real keys, 1/5 each of the five in the window
    out = attend(q, k, torch.ones_like(k), where=Padding([3, 7]), position=local).flatten()
    first = sum(expected[0][s] / 3 for s in range(3))
    second = sum(expected[1][s] / 5 for s in range(1, 6))
    assert_close(out.tolist(), [first, second])


class Narrow(torch.nn.Module):
    """What `narrow` gives, as a module's call: the factor inside the window."""

    def __init__(self, local: LocalGaussian) -> None:
        super().__init__()
        self.local = local

    def forward(self, q: Tensor) -> Tensor:
        inside, factor = self.local.narrow(q, Places.count(q.shape[2], KEYS))
        return factor * inside


def test_local_gaussian_learns_where_to_look():
    torch.manual_seed(0)
    (q, k, v), local = inputs(), LocalGaussian(DIM, 2).double()
    narrow = Narrow(local)

    def factors(q: Tensor, weight: Tensor, vector: Tensor) -> Tensor:
        return torch.func.functional_call(narrow, {"local.weight": weight, "local.v": vector}, (q,))

    arguments = [x.detach().clone().requires_grad_() for x in (q[:1, :1, :2], local.weight, local.v)]
    assert torch.autograd.gradcheck(factors, arguments)
    attend(q, k, v, position=local).sum().backward()
    assert local.v.grad.abs().amin() > 0


def test_local_gaussian_errors():
    with pytest.raises(ValueError, match="LocalGaussian needs dim_q, half >= 1: got dim_q=4, half=0"):
        LocalGaussian(4, half=0)
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"LocalGaussian\(5, half=2\) needs queries of dim=5: got dim=6"):
        attend(q, k, v, position=LocalGaussian(5, half=2).double())


# All of them


def test_where_each_position_acts():
    acts = {
        "input": [Sinusoidal(4), Learned(4, 7)],
        "rotate": [Rotary(4)],
        "bias": [ALiBi(3), T5Bias(3), Relative(4, 2, values=False)],
        "reweight": [LocalGaussian(4, 2)],
    }
    for place, positions in acts.items():
        assert [position.acts for position in positions] == [{place}] * len(positions)
    assert Position().acts == frozenset()


def test_a_position_is_neutral_where_it_does_not_act():
    q, places = numbers(1, 1, 3, 4), Places.count(3, 5)
    for position in (Position(), Rotary(4), ALiBi(1), T5Bias(1), LocalGaussian(4, 2), Relative(4, 2)):
        if "rotate" not in position.acts:
            assert position.rotate(q, torch.arange(3)) is q
        if "bias" not in position.acts:
            assert position.bias(q, places) is None
        if "reweight" not in position.acts:
            assert position.narrow(q, places) is None
        if "value" not in position.acts:
            assert position.spread(numbers(1, 1, 3, 5), places) is None


def test_positions_print_what_they_were_made_of():
    assert repr(Sinusoidal(4)) == "Sinusoidal(4, base=10000)"
    assert repr(Learned(4, 7)) == "Learned(4, positions=7)"
    assert repr(Rotary(4, layout="interleaved")) == "Rotary(4, base=10000, layout='interleaved')"
    scaled = Rotary(4, factor=8, low=1, high=4, original=16, part=0.5)
    assert repr(scaled) == "Rotary(4, base=10000, layout='half', factor=8, low=1, high=4, original=16, part=0.5)"
    assert repr(Relative(4, 2)) == "Relative(4, clip=2, values=True)"
    assert repr(ALiBi(3)) == "ALiBi(heads=3)"
    assert repr(Learned(4, 7, offset=2)) == "Learned(4, positions=7, offset=2)"
    assert repr(Sinusoidal(4, offset=2)) == "Sinusoidal(4, base=10000, offset=2)"
    assert repr(T5Bias(3)) == "T5Bias(heads=3, buckets=32, distance=128)"
    assert repr(T5Bias(3, 8, 9, bidirectional=False)) == "T5Bias(heads=3, buckets=8, distance=9, bidirectional=False)"
    assert repr(LocalGaussian(4, 2)) == "LocalGaussian(4, half=2)"


@pytest.mark.parametrize(
    "position", [Rotary(DIM), ALiBi(HEADS), T5Bias(HEADS, 8, 5), Relative(DIM, 2), LocalGaussian(DIM, 2)], ids=repr
)
def test_positions_in_pieces_of_queries(position):
    """A query at position p is row p: computing some rows alone gives those rows."""
    (q, k, v), position = inputs(), position.double()
    where = Window(3, 2)
    whole = attend(q, k, v, where=where, position=position)
    part = attend(q[:, :, 2:], k, v, where=where, position=position, positions=torch.arange(2, QUERIES))
    assert_close(part, whole[:, :, 2:])
