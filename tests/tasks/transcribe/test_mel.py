"""Log-mel frames: the filters by known numbers, a tone in its band, and the transform against a plain sum."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mirada.data.wav import Sound
from mirada.tasks.transcribe.recordings import FLOOR, MelBands, fft_size, filterbank, to_hertz, to_mel
from tests.data.wav_bytes import tone


def test_mel_by_known_numbers() -> None:
    """2595 log10(1 + f / 700), as in O'Shaughnessy (1987)."""
    hertz = np.array([0.0, 700.0, 1000.0, 4000.0])
    np.testing.assert_allclose(to_mel(hertz), 2595 * np.log10(1 + hertz / 700), rtol=2e-4)
    np.testing.assert_allclose(to_mel(700.0), 781.177, atol=1e-2)
    np.testing.assert_allclose(to_hertz(to_mel(hertz)), hertz, atol=1e-9)


@pytest.mark.parametrize(("rate", "mels"), [(8000, 40), (16000, 40), (4000, 40), (16000, 80), (8000, 3)])
def test_filters_are_triangles_on_the_mel_scale(rate: int, mels: int) -> None:
    size = fft_size(round(0.025 * rate))
    filters = filterbank(rate, size, mels).numpy()
    assert filters.shape == (size // 2 + 1, mels)
    assert (filters >= 0).all()
    assert (filters <= 1).all()
    assert (filters.sum(axis=0) > 0.3).all(), "no band is deaf"
    tops = to_hertz(np.linspace(to_mel(20.0), to_mel(rate / 2), mels + 2))[1:-1]
    bins = np.arange(size // 2 + 1) * rate / size
    centers = (filters * bins[:, None]).sum(axis=0) / filters.sum(axis=0)
    assert (np.diff(centers) > 0).all()
    assert np.abs(filters.argmax(axis=0) * rate / size - tops).max() <= rate / size


def test_wide_filters_by_hand() -> None:
    """With three bands over 0 to 4 kHz, each has many frequencies: a triangle between its neighbors' tops."""
    edges = to_hertz(np.linspace(to_mel(20.0), to_mel(4000.0), 5))
    filters = filterbank(8000, 256, 3).numpy()
    for band in range(3):
        low, top, high = edges[band : band + 3]
        for place in (5, 20, 40, 70, 100):
            hertz = place * 31.25
            expected = max(0.0, min((hertz - low) / (top - low), (high - hertz) / (high - top)))
            assert filters[place, band] == pytest.approx(expected, abs=1e-6)


def test_a_frame_is_the_transform_written_out() -> None:
    bands, rng = MelBands(8000, 7), np.random.default_rng(3)
    samples = rng.normal(size=1000).astype(np.float32)
    found = bands(Sound(samples, 8000))
    assert found.shape == (1 + (1000 - 200) // 80, 7) == (bands.frames(1000), 7)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(200) / 200)
    window /= np.sqrt((window**2).sum())
    filters = filterbank(8000, 256, 7).numpy().astype(np.float64)
    for frame in range(len(found)):
        piece = samples[80 * frame : 80 * frame + 200] * window
        spectrum = np.array([(piece * np.exp(-2j * np.pi * k * np.arange(200) / 256)).sum() for k in range(129)])
        expected = np.log(np.abs(spectrum) ** 2 @ filters + FLOOR)
        assert_close(found[frame], torch.from_numpy(expected.astype(np.float32)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rate", [4000, 8000, 16000])
def test_a_tone_is_loudest_in_its_band(rate: int) -> None:
    bands = MelBands(rate, 40)
    tops = to_hertz(np.linspace(to_mel(20.0), to_mel(rate / 2), 42))[1:-1]
    for band in (12, 20, 35):
        frames = bands(Sound(tone(tops[band], 0.2, rate).astype(np.float32), rate))
        assert frames.mean(0).argmax().item() == band
        assert (frames.amax(1) - frames.amin(1)).min() > 6


def test_short_and_silent_sounds() -> None:
    bands = MelBands(8000, 40)
    for size in (1, 199, 200, 279, 280, 360):
        assert bands(Sound(np.zeros(size, dtype=np.float32), 8000)).shape == (max(1, 1 + (size - 200) // 80), 40)
    silence = bands(Sound(np.zeros(800, dtype=np.float32), 8000))
    assert_close(silence, torch.full_like(silence, float(np.log(FLOOR))))
    with pytest.raises(ValueError, match="bands of 8000 Hz were given a sound of 16000 Hz: resample it"):
        bands(Sound(np.zeros(800, dtype=np.float32), 16000))
