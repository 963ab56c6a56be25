"""Resampling against sines, whose samples at any rate are known."""

import numpy as np
import pytest

from mirada.data.wav import Sound
from mirada.tasks.transcribe.recordings import ratio, resampled
from tests.data.wav_bytes import tone

EDGE = 300  # samples at both ends, where the sound begins and stops


def at(hertz: float, old: int, new: int, seconds: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """A tone that was resampled, and the same tone made at that rate."""
    found = resampled(Sound(tone(hertz, seconds, old, 1.0).astype(np.float32), old), new)
    assert found.rate == new
    return found.samples, tone(hertz, seconds, new, 1.0)


@pytest.mark.parametrize(
    ("old", "new"), [(44100, 8000), (48000, 16000), (8000, 16000), (16000, 8000), (22050, 16000), (8000, 11025), (11025, 4000)]
)  # fmt: skip
def test_a_tone_inside_the_band_is_the_same_tone(old: int, new: int) -> None:
    band = min(old, new) / 2
    for hertz in (0.02 * band, 0.3 * band, 0.85 * band):
        found, expected = at(hertz, old, new)
        assert len(found) == len(expected) == new
        np.testing.assert_allclose(found[EDGE:-EDGE], expected[EDGE:-EDGE], atol=2e-4)


@pytest.mark.parametrize(("old", "new"), [(44100, 8000), (48000, 16000), (16000, 8000), (11025, 4000)])
def test_a_tone_above_the_band_is_gone_and_not_mirrored_into_it(old: int, new: int) -> None:
    for share in (1.06, 1.3, 1.9):
        if share * new < old:
            found, _ = at(share * new / 2, old, new)
            assert np.abs(found[EDGE:-EDGE]).max() < 2e-4


def test_a_constant_stays_and_an_equal_rate_changes_nothing() -> None:
    ones = Sound(np.ones(4410, dtype=np.float32), 44100)
    np.testing.assert_allclose(resampled(ones, 16000).samples[EDGE:-EDGE], 1.0, atol=1e-5)
    assert resampled(ones, 44100).samples is ones.samples


def test_it_is_linear_and_short_sounds_have_at_least_one_sample() -> None:
    noise = np.random.default_rng(2).normal(size=(2, 999)).astype(np.float32)
    one, other, both = (resampled(Sound(x, 16000), 11025).samples for x in (*noise, noise.sum(axis=0)))
    np.testing.assert_allclose(one + other, both, atol=1e-5)
    for size in (1, 2, 7):
        assert len(resampled(Sound(np.ones(size, dtype=np.float32), 48000), 8000).samples) == -(-size // 6)


def test_rates_with_little_in_common_are_taken_as_their_neighbors() -> None:
    assert ratio(16000, 44101) == (2000, round(2000 * 44101 / 16000))
    found, expected = at(500.0, 44101, 16000)
    assert abs(len(found) - 16000) <= 1
    np.testing.assert_allclose(found[EDGE : EDGE + 400], expected[EDGE : EDGE + 400], atol=0.05)
    with pytest.raises(ValueError, match="rate must be at least 1: got 0"):
        resampled(Sound(np.ones(9, dtype=np.float32), 8000), 0)
