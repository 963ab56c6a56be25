"""Attention over any axes of an n-d input."""

import pytest
import torch
from torch.testing import assert_close

from mirada import Attention, MultiHead, look
from mirada.attention.neighborhoods import Causal, Dense, Documents, Padding
from mirada.layers.axes import Axes

BATCH, TIME, HEIGHT, WIDTH, CHANNELS = 2, 5, 3, 7, 6


@pytest.fixture
def attention() -> Attention:
    return Attention(MultiHead(CHANNELS, heads=2))


@pytest.fixture
def video() -> torch.Tensor:
    return torch.randn(BATCH, TIME, HEIGHT, WIDTH, CHANNELS)


def test_time_alone_is_one_sequence_per_pixel(attention: Attention, video: torch.Tensor) -> None:
    y = Axes(attention, axes=1)(video)
    assert_close(y[1, :, 2, 4], attention(video[1:, :, 2, 4])[0])


def test_space_alone_is_one_sequence_per_frame(attention: Attention, video: torch.Tensor) -> None:
    y = Axes(attention, axes=(2, 3))(video)
    assert_close(y[1, 3].flatten(0, 1), attention(video[1:, 3].flatten(1, 2))[0])


def test_space_and_time_are_one_sequence(attention: Attention, video: torch.Tensor) -> None:
    y = Axes(attention, axes=(1, 2, 3))(video)
    assert_close(y.flatten(1, 3), attention(video.flatten(1, 3)))


def test_the_order_of_axes_is_the_order_of_the_sequence(attention: Attention, video: torch.Tensor) -> None:
    causal = Attention(attention.heads, where=Causal())
    y = Axes(causal, axes=(3, 2))(video)
    assert_close(y[0, 0].transpose(0, 1).flatten(0, 1), causal(video[:1, 0].transpose(1, 2).flatten(1, 2))[0])


def test_negative_axes(attention: Attention, video: torch.Tensor) -> None:
    assert_close(Axes(attention, axes=-2)(video), Axes(attention, axes=3)(video))


def test_another_width_comes_out(video: torch.Tensor) -> None:
    layer = Axes(Attention(MultiHead(CHANNELS, heads=2, out=11)), axes=1)
    assert layer(video).shape == (BATCH, TIME, HEIGHT, WIDTH, 11)


def test_memory_with_its_own_length(attention: Attention, video: torch.Tensor) -> None:
    memory = torch.randn(BATCH, 11, HEIGHT, WIDTH, CHANNELS)
    y = Axes(attention, axes=1)(video, memory=memory)
    assert_close(y[0, :, 1, 2], attention(video[:1, :, 1, 2], memory=memory[:1, :, 1, 2])[0])


def test_a_neighborhood_speaks_of_samples(attention: Attention, video: torch.Tensor) -> None:
    layer = Axes(attention, axes=1)
    documents = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 2, 3, 4]])
    mask = torch.rand(BATCH, TIME, TIME) < 0.7
    cases = (
        (Padding([2, 4]), Padding([4])),
        (Documents(documents), Documents(documents[1:])),
        (Dense(mask), Dense(mask[1:])),
        (Causal() & Padding([2, 4]), Causal() & Padding([4])),
        (~Padding([2, 4]) | Causal(), ~Padding([4]) | Causal()),
    )
    for where, second in cases:
        assert_close(layer(video, where=where)[1, :, 2, 5], attention(video[1:, :, 2, 5], where=second)[0])


def test_looking_through_axes(attention: Attention, video: torch.Tensor) -> None:
    layer = Axes(attention, axes=1)
    with look(layer) as seen:
        layer(video)
    assert seen.names == ["attention"]
    assert seen["attention"].weights().shape == (BATCH * HEIGHT * WIDTH, 2, TIME, TIME)


@pytest.mark.parametrize("axes", [0, 4, -1, 9, (1, 1), (1, -4)])
def test_axes_that_are_not_there_are_refused(attention: Attention, video: torch.Tensor, axes: object) -> None:
    with pytest.raises(ValueError, match="between batch and width"):
        Axes(attention, axes)(video)


def test_memory_must_agree_on_the_other_axes(attention: Attention, video: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="memory must agree with x"):
        Axes(attention, axes=1)(video, memory=video[:, :, :2])
    with pytest.raises(ValueError, match="at least one axis"):
        Axes(attention, axes=())
