"""Convolution stems against torch's functions, and padded batches against each sample alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from mirada.layers.convolution import PooledStem2d, Stem1d, Stem2d

BATCH, TIME, CHANNELS, WIDTH = 3, 13, 2, 5

every_form = pytest.mark.parametrize(
    ("size", "stride", "padding"),
    [
        (size, stride, padding)
        for size in (1, 2, 3, 5)
        for stride in (1, 2, 3)
        for padding in ("same", "valid")
    ],
)  # fmt: skip


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def seeded(module: nn.Module) -> nn.Module:
    module = module.double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(*parameter.shape, seed=100 + place))
    return module


# Stem1d


@every_form
def test_it_is_torchs_convolution_and_an_activation(size: int, stride: int, padding: str) -> None:
    stem = seeded(Stem1d(CHANNELS, WIDTH, 1, size, stride, padding, activation="gelu"))
    x, layer = numbers(BATCH, TIME, CHANNELS), stem.layers[0]
    y, lengths = stem(x)
    margin = size // 2 if padding == "same" else 0
    wanted = F.gelu(F.conv1d(x.transpose(1, 2), layer.weight, layer.bias, stride, margin)).transpose(1, 2)
    assert layer.weight.shape == (WIDTH, CHANNELS, size)
    assert_close(y, wanted)
    assert lengths is None


def test_a_number_by_hand() -> None:
    stem, x = seeded(Stem1d(CHANNELS, WIDTH, size=3, stride=2)), numbers(BATCH, TIME, CHANNELS)
    kernel, y = stem.layers[0].weight, stem(x)[0]
    inside = sum(kernel[4, c, k] * x[1, 2 * 3 + k - 1, c] for c in range(CHANNELS) for k in range(3))
    assert_close(y[1, 3, 4], torch.relu(inside + stem.layers[0].bias[4]))
    at_the_border = sum(kernel[4, c, k] * x[1, k - 1, c] for c in range(CHANNELS) for k in (1, 2))
    assert_close(y[1, 0, 4], torch.relu(at_the_border + stem.layers[0].bias[4]))


def test_layers_come_one_after_the_other() -> None:
    stem, x = seeded(Stem1d(CHANNELS, WIDTH, depth=3, stride=2, activation="silu")), numbers(BATCH, TIME, CHANNELS)
    wanted = x.transpose(1, 2)
    for layer in stem.layers:
        wanted = F.silu(F.conv1d(wanted, layer.weight, layer.bias, 2, 1))
    assert_close(stem(x)[0], wanted.transpose(1, 2))
    assert [layer.weight.shape[1] for layer in stem.layers] == [CHANNELS, WIDTH, WIDTH]


@every_form
def test_lengths_are_shortened_as_the_sequence_is(size: int, stride: int, padding: str) -> None:
    stem = Stem1d(1, 1, 1, size, stride, padding)
    for length in range(1, 12):
        if length + 2 * stem.margin < size:
            assert stem.shorten(torch.tensor([length])).item() == 0
            continue
        y, lengths = stem(torch.zeros(1, length, 1), torch.tensor([length]))
        assert lengths.tolist() == [y.shape[1]], f"length {length}"


def test_a_stride_of_one_with_an_odd_size_keeps_the_length() -> None:
    for size in (1, 3, 5, 7):
        assert Stem1d(1, 1, 2, size)(torch.zeros(1, 11, 1))[0].shape == (1, 11, 1)


@every_form
@pytest.mark.parametrize("depth", [1, 2])
def test_a_padded_batch_is_each_sample_alone(depth: int, size: int, stride: int, padding: str) -> None:
    stem, x = seeded(Stem1d(CHANNELS, WIDTH, depth, size, stride, padding)), numbers(BATCH, 29, CHANNELS)
    lengths = torch.tensor([23, 29, 19])
    padded = (torch.arange(29) >= lengths.unsqueeze(1)).unsqueeze(-1)
    y, shorter = stem(x.masked_fill(padded, torch.nan), lengths)
    for sample, length in enumerate(lengths.tolist()):
        alone, _ = stem(x[sample : sample + 1, :length])
        assert shorter[sample] == alone.shape[1]
        assert_close(y[sample, : alone.shape[1]], alone[0])


def test_padding_gets_no_gradient() -> None:
    stem, x, lengths = seeded(Stem1d(CHANNELS, WIDTH, 2)), numbers(BATCH, TIME, CHANNELS), torch.tensor([4, 13, 1])
    x.requires_grad_()
    y, shorter = stem(x, lengths)
    real = torch.arange(y.shape[1]) < shorter.unsqueeze(1)
    (y[real] ** 2).sum().backward()
    padded = torch.arange(TIME) >= lengths.unsqueeze(1)
    assert_close(x.grad[padded], torch.zeros_like(x.grad[padded]))
    assert x.grad[~padded].any()


def test_a_sample_too_short_for_a_valid_convolution_has_no_place_left() -> None:
    y, lengths = Stem1d(CHANNELS, WIDTH, size=5, padding="valid")(torch.zeros(2, TIME, CHANNELS), torch.tensor([13, 3]))
    assert lengths.tolist() == [9, 0]
    assert y.shape == (2, 9, WIDTH)


def test_the_given_lengths_stay_as_they_are() -> None:
    lengths = torch.tensor([13, 4, 1])
    Stem1d(CHANNELS, WIDTH, depth=2, stride=2)(torch.zeros(BATCH, TIME, CHANNELS), lengths)
    assert lengths.tolist() == [13, 4, 1]


def test_gradients_of_a_stem() -> None:
    stem, lengths = seeded(Stem1d(2, 3, depth=2, stride=2, activation="silu")), torch.tensor([5, 3])
    assert torch.autograd.gradcheck(lambda x: stem(x, lengths)[0], numbers(2, 5, 2).requires_grad_())


def test_a_sequence_shorter_than_a_valid_convolution_is_refused() -> None:
    with pytest.raises(ValueError, match="a convolution of size 5 needs at least 5 places: got 4"):
        Stem1d(CHANNELS, WIDTH, size=5, padding="valid")(torch.zeros(1, 4, CHANNELS))
    with pytest.raises(ValueError, match="a convolution of size 5 needs at least 5 places: got 3"):
        Stem1d(CHANNELS, WIDTH, depth=2, size=5, padding="valid")(torch.zeros(1, 7, CHANNELS))


# Stem2d


def test_pictures_are_halved_and_read_row_by_row() -> None:
    stem, pictures = seeded(Stem2d(3, WIDTH, depth=2, activation="gelu")), numbers(BATCH, 3, 11, 17)
    wanted = pictures
    for layer in stem.layers:
        wanted = F.gelu(F.conv2d(wanted, layer.weight, layer.bias, stride=2, padding=1))
    y = stem(pictures)
    assert wanted.shape == (BATCH, WIDTH, 3, 5)
    assert_close(y[1, 1 * 5 + 4], wanted[1, :, 1, 4])
    assert_close(y, wanted.flatten(2).transpose(1, 2))


@pytest.mark.parametrize(("side", "left"), [(1, 1), (2, 1), (3, 2), (7, 4), (8, 4), (13, 7)])
def test_odd_sides_are_rounded_up(side: int, left: int) -> None:
    assert Stem2d(1, 2, depth=1)(torch.zeros(1, 1, side, 3)).shape == (1, left * 2, 2)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (torch.zeros(2, 1, 8, 8), r"pictures must have 3 channels: got shape \(2, 1, 8, 8\)"),
        (torch.zeros(3, 8, 8), r"pictures must have the axes \(batch channels height width\): got shape \(3, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), "pictures must hold floating-point numbers: got torch.uint8"),
    ],
)
def test_pictures_that_do_not_fit_are_refused(pictures: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stem2d(3, WIDTH)(pictures)


# Errors of both


@pytest.mark.parametrize("sizes", [(0, 5), (2, 0), (2, 5, 0), (2, 5, 1, 0), (2, 5, 1, 3, 0)], ids=str)
def test_sizes_are_at_least_one(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="sizes of a stem must be at least 1"):
        Stem1d(*sizes)
    if len(sizes) <= 3:
        with pytest.raises(ValueError, match="sizes of a stem must be at least 1"):
            Stem2d(*sizes)


def test_an_unknown_padding_is_refused() -> None:
    with pytest.raises(ValueError, match="padding must be 'same' or 'valid': got 'causal'"):
        Stem1d(CHANNELS, WIDTH, padding="causal")


@pytest.mark.parametrize("kind", [Stem1d, Stem2d])
def test_an_unknown_activation_is_refused_at_once(kind: type) -> None:
    with pytest.raises(ValueError, match=r"unknown activation 'rleu'; known: .* Did you mean 'relu'\?"):
        kind(CHANNELS, WIDTH, activation="rleu")


@pytest.mark.parametrize("shape", [(BATCH, TIME, CHANNELS + 1), (TIME, CHANNELS)], ids=str)
def test_a_series_that_does_not_fit_is_a_value_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Stem1d(CHANNELS, WIDTH)(torch.zeros(shape))


# PooledStem2d


@pytest.mark.parametrize(("pools", "depth"), [(1, 1), (2, 2), (2, 4)])
def test_pools_halve_and_norms_are_of_the_batch(pools: int, depth: int) -> None:
    stem, x = seeded(PooledStem2d(3, 40, pools, depth)), numbers(2, 3, 9, 14)
    wanted = x
    for number, (layer, norm) in enumerate(zip(stem.layers, stem.norms, strict=True)):
        wanted = F.conv2d(wanted, layer.weight, layer.bias, padding=1)
        if number < pools:
            wanted = F.max_pool2d(wanted, 2)
        mean, variance = wanted.mean((0, 2, 3), keepdim=True), wanted.var((0, 2, 3), correction=0, keepdim=True)
        scale, shift = norm.weight[:, None, None], norm.bias[:, None, None]
        wanted = torch.relu((wanted - mean) / (variance + norm.eps).sqrt() * scale + shift)
    assert wanted.shape[2:] == (9 >> pools, 14 >> pools)
    assert_close(stem(x), wanted.flatten(2).mT)


def test_channels_double_up_to_the_width() -> None:
    widths = lambda *sizes: [layer.out_channels for layer in PooledStem2d(1, *sizes).layers]  # noqa: E731
    assert widths(128, 3, 3) == [32, 64, 128]
    assert widths(64, 2, 3) == [32, 32, 64], "not below 32"
    assert widths(16, 2) == [16, 16, 16]
    assert len(widths(64, 5)) == 5


@pytest.mark.parametrize(
    ("sizes", "message"), [((1, 8, 3, 2), "cannot halve a picture 3 times: give depth=3"), ((1, 8, 0), "at least 1")]
)
def test_a_pooled_stem_that_cannot_be_is_refused(sizes: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PooledStem2d(*sizes)
