"""Pictures changed a little: each by its own chance, nothing lost that is not moved out, and nothing when nothing is asked."""

import numpy as np
import pytest

from mirada.data.batching import drawn
from mirada.tasks.recognize.examples import Augmentation, scaled_pixels

PIXELS = np.random.default_rng(0).integers(0, 256, (50, 9, 9, 3), dtype=np.uint8)


def bits(down: int, right: int, mirror: int = 0, light: int = 0) -> np.ndarray:
    """The 64 bits that ask for this, the first number in the lowest ones."""
    return np.array([down | right << 16 | mirror << 32 | light << 48], np.uint64)


def test_bytes_become_numbers_from_minus_one_to_one_with_channels_first() -> None:
    found = scaled_pixels(PIXELS)
    assert found.shape == (50, 3, 9, 9)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[7, 2, 3, 5], PIXELS[7, 3, 5, 2] / 127.5 - 1, atol=1e-6)
    assert scaled_pixels(np.array([[[[0, 255]]]], np.uint8)).reshape(-1).tolist() == [-1.0, 1.0]


def test_nothing_asked_nothing_changed() -> None:
    np.testing.assert_array_equal(Augmentation()(PIXELS, drawn(50, 1)), scaled_pixels(PIXELS))


@pytest.mark.parametrize(("down", "right"), [(-2, -2), (0, 0), (2, 1), (-1, 2)])
def test_a_shift_repeats_the_border(down: int, right: int) -> None:
    chance = bits(*(int((shift + 2.5) / 5 * 65536) for shift in (-down, -right)))
    found = Augmentation(shift=2)(PIXELS[:1], chance)
    wide = np.pad(PIXELS[0], ((2, 2), (2, 2), (0, 0)), mode="edge")
    np.testing.assert_array_equal(found, scaled_pixels(wide[None, 2 - down : 11 - down, 2 - right : 11 - right]))


def test_images_are_mirrored_only_on_request() -> None:
    chance = drawn(50, 3)
    mirrored = (chance >> np.uint64(32)) & np.uint64(1) == 1
    assert 10 < mirrored.sum() < 40
    found = Augmentation(flip=True)(PIXELS, chance)
    np.testing.assert_array_equal(found[mirrored], scaled_pixels(PIXELS[mirrored, :, ::-1]))
    np.testing.assert_array_equal(found[~mirrored], scaled_pixels(PIXELS[~mirrored]))
    np.testing.assert_array_equal(Augmentation()(PIXELS, chance), scaled_pixels(PIXELS))


def test_light_and_contrast_by_hand() -> None:
    brightest = Augmentation(light=0.1)(PIXELS[:1], bits(0, 0, light=0xFFFF))
    np.testing.assert_allclose(brightest, 1.1 * scaled_pixels(PIXELS[:1]) + 0.1, atol=1e-6)
    darkest = Augmentation(light=0.1)(PIXELS[:1], bits(0, 0, light=0x0000))
    np.testing.assert_allclose(darkest, 0.9 * scaled_pixels(PIXELS[:1]) - 0.1, atol=1e-6)


def test_every_shift_is_as_likely_as_any_other() -> None:
    change = Augmentation(shift=2)
    shifts, counts = np.unique(change.places(np.arange(1 << 16)), return_counts=True)
    assert shifts.tolist() == [-2, -1, 0, 1, 2]
    assert counts.max() - counts.min() <= 1


def test_a_row_is_augmented_independently_of_the_others() -> None:
    change, chance = Augmentation(shift=2, flip=True, light=0.2), drawn(50, 5)
    together = change(PIXELS, chance)
    np.testing.assert_array_equal(change(PIXELS[7:8], chance[7:8])[0], together[7])
    assert not np.array_equal(change(PIXELS, drawn(50, 6)), together)
