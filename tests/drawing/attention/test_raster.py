"""Pixels: what is written is what is read back, and colors follow values."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mirada.drawing.attention.picture import HEAT, LEVELS, data_uri, overlay, png, shaded, shrunk
from mirada.drawing.attention.weights import ColorScale
from tests.drawing.parsed import NAN


@pytest.mark.parametrize(("shape", "mode"), [((3, 5), "L"), ((3, 5, 3), "RGB"), ((3, 5, 4), "RGBA"), ((1, 1), "L")])
def test_a_picture_is_read_back_as_it_was(shape: tuple[int, ...], mode: str) -> None:
    pixels = np.random.default_rng(7).integers(0, 256, shape, dtype=np.uint8)
    read = Image.open(BytesIO(png(pixels)))
    assert read.mode == mode
    np.testing.assert_array_equal(np.asarray(read), pixels)


def test_views_of_a_picture_are_written_in_their_own_order() -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    flipped = pixels[::-1, :, ::-1]
    np.testing.assert_array_equal(np.asarray(Image.open(BytesIO(png(flipped)))), flipped)


def test_an_address_contains_the_picture() -> None:
    head, data = data_uri(np.zeros((2, 3), np.uint8)).split(",")
    assert head == "data:image/png;base64"
    assert Image.open(BytesIO(b64decode(data))).size == (3, 2)


def test_blocks_are_averaged_and_ends_are_repeated() -> None:
    pixels = np.array([[0, 10, 20], [10, 20, 40]], np.uint8)
    np.testing.assert_array_equal(shrunk(pixels, (2, 2)), np.array([[10, 30]], np.uint8))
    np.testing.assert_array_equal(shrunk(pixels, (1, 3)), np.array([[10], [23]], np.uint8))
    assert shrunk(pixels, (1, 1)) is pixels
    assert shrunk(np.zeros((7, 11, 3), np.uint8), (3, 3)).shape == (3, 4, 3)


def test_the_larger_a_weight_the_more_opaque_its_pixel() -> None:
    rows = ((0.0, 0.25, 0.5), (NAN, -0.5, -0.25))
    pixels = overlay(rows, ColorScale.of(rows))
    assert pixels.shape == (2, 3, 4)
    opaque = pixels[..., 3].tolist()
    assert opaque == [[0, 105, 209], [0, 209, 105]]
    assert tuple(pixels[0, 2, :3].tolist()) == HEAT
    assert tuple(pixels[1, 1, :3].tolist()) != HEAT


def test_levels_go_from_dark_to_light_without_a_step_back() -> None:
    shades = shaded(np.linspace(-3.0, 5.0, 257)[None]).astype(np.float64)[0]
    luminance = shades @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(luminance) >= -0.5).all()
    assert luminance[-1] - luminance[0] > 200
    assert tuple(shades[0]) == LEVELS[0]


def test_levels_of_anything_can_be_drawn() -> None:
    assert shaded(np.full((2, 3), 4.0)).shape == (2, 3, 3)
    odd = shaded(np.array([[NAN, np.inf, 1.0, -np.inf]]))
    assert tuple(odd[0, 0].tolist()) == LEVELS[0]
    assert shaded(np.full((1, 1), NAN)).shape == (1, 1, 3)
