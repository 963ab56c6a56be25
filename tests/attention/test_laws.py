"""Laws of attention: statements that hold whatever the numbers are."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from mirada import Attention, MultiHead, attend, look
from mirada.attention.heads import Collaborative, Grouped, Heads, Split, Tied
from mirada.attention.neighborhoods import Causal, Complete, Edges, Grid, Neighborhood, Padding, Window
from mirada.attention.normalizers import Identity
from mirada.attention.positions import ALiBi, Relative, Rotary, T5Bias
from mirada.attention.scores import Bilinear, Dot, Graph, Offset

BATCH, N, M, WIDTH, HEADS = 3, 7, 11, 20, 5
DIM = WIDTH // HEADS


@pytest.mark.parametrize("where", [Complete(), Causal(), Window(2, 1)], ids=repr)
@pytest.mark.parametrize(
    "heads",
    [MultiHead(WIDTH, HEADS), Grouped(WIDTH, HEADS, 1), Collaborative(WIDTH, HEADS, 13)],
    ids=lambda h: type(h).__name__,
)
def test_outputs_lie_in_the_convex_hull_of_the_values(heads: Heads, where: Neighborhood) -> None:
    attention = Attention(heads, where=where)
    with look(attention) as seen:
        attention(torch.randn(BATCH, N, WIDTH))
    weights, values, output = seen[""].weights(), seen[""].values(), seen[""].output()
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(BATCH, HEADS, N))
    # in a hull, no direction sees the output beyond the farthest value
    directions = torch.randn(97, DIM)
    assert ((output @ directions.T).amax(2) <= (values @ directions.T).amax(2) + 1e-5).all()


def test_a_complete_graph_is_dense_self_attention() -> None:
    attention = Attention(Tied(WIDTH, HEADS, dim=3), score=Graph(3, HEADS))
    x = torch.randn(BATCH, N, WIDTH)
    pairs = torch.cartesian_prod(torch.arange(N), torch.arange(N)).T
    assert_close(attention(x, where=Edges(pairs, N)), attention(x))


def test_encoder_decoder_attention_is_a_bipartite_graph() -> None:
    q, k, v = torch.randn(1, 2, N, 3), torch.randn(1, 2, M, 3), torch.randn(1, 2, M, 3)
    # nodes 0..N-1 are the decoder's, the others the encoder's; every edge goes from encoder to decoder
    pairs = torch.cartesian_prod(torch.arange(N, N + M), torch.arange(N)).T
    nodes = [torch.cat([torch.zeros(1, 2, before, 3), x, torch.zeros(1, 2, after, 3)], 2)
             for x, before, after in ((q, 0, M), (k, N, 0), (v, N, 0))]  # fmt: skip
    joined = attend(*nodes, where=Edges(pairs, N + M))
    assert_close(joined[:, :, :N], attend(q, k, v))
    assert_close(joined[:, :, N:], torch.zeros(1, 2, M, 3))


@pytest.mark.parametrize("radius", [0, 1, 2])
def test_a_convolution_is_attention_on_a_grid(radius: int) -> None:
    height, width, channels = 5, 7, 3
    attention = Attention(
        Split(channels, heads=channels, bias=True),
        score=Offset(height, width, radius, heads=channels),
        where=Grid(height, width, radius),
        normalizer=Identity(),
    )
    nn.init.normal_(attention.heads.bias)
    picture = torch.randn(BATCH, channels, height, width, requires_grad=True)
    expected = F.conv2d(
        picture, attention.score.weight.unsqueeze(1), attention.heads.bias, padding=radius, groups=channels
    )
    got = attention(picture.flatten(2).transpose(1, 2)).transpose(1, 2).view_as(expected)
    assert_close(got, expected)
    probe = torch.randn_like(expected)
    inputs = (picture, attention.score.weight, attention.heads.bias)
    assert_close(*(torch.autograd.grad((y * probe).sum(), inputs) for y in (got, expected)))


def test_a_window_as_long_as_the_sequence_is_causal() -> None:
    q, k, v = torch.randn(3, BATCH, 2, N, 5).unbind()
    for left in (N - 1, N, 10 * N):
        assert_close(attend(q, k, v, where=Window(left)), attend(q, k, v, where=Causal()))


def test_without_position_the_order_does_not_matter() -> None:
    attention = Attention(MultiHead(WIDTH, HEADS))
    x, order = torch.randn(BATCH, N, WIDTH), torch.randperm(N)
    assert_close(attention(x[:, order]), attention(x)[:, order])


@pytest.mark.parametrize(
    "position", [Rotary(DIM), Relative(DIM, clip=2), ALiBi(HEADS), T5Bias(HEADS, 8, 5)], ids=lambda p: type(p).__name__
)
def test_with_a_position_the_order_matters(position: nn.Module) -> None:
    attention = Attention(MultiHead(WIDTH, HEADS), position=position)
    x, order = torch.randn(BATCH, N, WIDTH), torch.arange(N).flip(0)
    assert (attention(x[:, order]) - attention(x)[:, order]).abs().max() > 1e-3


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary_depends_on_distance_only(layout: str) -> None:
    q, k, v = torch.randn(3, BATCH, 2, N, 6).unbind()
    rotary, places = Rotary(6, layout=layout), torch.arange(N)
    near = attend(q, k, v, position=rotary, positions=places, key_positions=places)
    far = attend(q, k, v, position=rotary, positions=places + 101, key_positions=places + 101)
    assert_close(near, far, rtol=1e-4, atol=1e-5)


def test_the_two_rotary_layouts_are_one_up_to_the_order_of_coordinates() -> None:
    x, places = torch.randn(BATCH, 2, N, 6), torch.arange(N)
    order = torch.arange(6).view(2, 3).T.flatten()  # half layout (a a a b b b) to interleaved (a b a b a b)
    interleaved = Rotary(6, layout="interleaved").rotate(x[..., order], places)
    assert_close(interleaved, Rotary(6).rotate(x, places)[..., order])


def test_a_dot_product_of_projections_is_bilinear() -> None:
    x, y, v = torch.randn(BATCH, 1, N, 5), torch.randn(BATCH, 1, M, 3), torch.randn(BATCH, 1, M, 2)
    w_q, w_k = torch.randn(4, 5), torch.randn(4, 3)
    bilinear = Bilinear(5, 3)
    bilinear.weight.data.copy_((w_q.T @ w_k).unsqueeze(0))
    assert_close(attend(x, y, v, score=bilinear), attend(x @ w_q.T, y @ w_k.T, v, score=Dot(scale=1.0)))


def test_heads_side_by_side_times_w_are_a_sum_over_heads() -> None:
    attention = Attention(MultiHead(WIDTH, HEADS))
    nn.init.normal_(attention.heads.out.bias)
    with look(attention) as seen:
        y = attention(torch.randn(BATCH, N, WIDTH))
    head = seen[""].output()
    sections = attention.heads.out.weight.T.view(HEADS, DIM, WIDTH)
    assert_close(sum(head[:, i] @ sections[i] for i in range(HEADS)) + attention.heads.out.bias, y)


def test_collaborative_heads_start_as_multi_head() -> None:
    ours, plain = Attention(Collaborative(WIDTH, HEADS, shared=WIDTH)), Attention(MultiHead(WIDTH, HEADS))
    for name in ("query", "key", "value", "out"):
        getattr(ours.heads, name).load_state_dict(getattr(plain.heads, name).state_dict())
    x = torch.randn(BATCH, N, WIDTH)
    assert_close(ours(x), plain(x))


def test_one_query_at_a_position_is_that_row_of_the_whole() -> None:
    q, k, v = torch.randn(3, BATCH, 2, N, 6).unbind()
    for where in (Causal(), Window(2), Causal() & Padding([7, 3, 5])):
        for position in (None, Rotary(6), Relative(6, clip=2), ALiBi(2), T5Bias(2, 8, 5)):
            whole = attend(q, k, v, where=where, position=position)
            for i in (0, 4, N - 1):
                row = attend(q[:, :, i : i + 1], k, v, where=where, position=position, positions=torch.tensor([i]))
                assert_close(row, whole[:, :, i : i + 1])


def test_padding_is_the_same_as_a_shorter_source() -> None:
    q, k, v = torch.randn(1, 2, N, 5), torch.randn(1, 2, M, 5), torch.randn(1, 2, M, 5)
    assert_close(attend(q, k, v, where=Padding([4])), attend(q, k[:, :, :4], v[:, :, :4]))
