"""What Whisper hears, against the feature extractor of transformers."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mirada.tasks.transcribe.windows import LogMel


def sound(seconds: float, rate: int = 16_000, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=int(seconds * rate)) * 0.05
    times = np.arange(len(noise)) / rate
    return (noise + 0.4 * np.sin(2 * np.pi * 440 * times * (1 + times / 9))).astype(np.float32)


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.0003, 1.7, 30.0, 31.3])
def test_frames_are_those_of_transformers(mels: int, seconds: float) -> None:
    transformers = pytest.importorskip("transformers")
    theirs, samples = transformers.WhisperFeatureExtractor(feature_size=mels), sound(seconds)
    wanted = theirs(
        samples, sampling_rate=16_000, truncation=False, padding="longest" if seconds > 30 else "max_length",
        return_tensors="pt",
    ).input_features[0]  # fmt: skip
    assert_close(LogMel(mels=mels)(samples), wanted.T, atol=1e-4, rtol=0)


def test_other_sizes_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.WhisperFeatureExtractor(
        feature_size=20, n_fft=256, hop_length=100, chunk_length=2, sampling_rate=8_000
    )
    ours = LogMel.of(theirs.to_dict(), mels=20, places=80)
    samples = sound(1.3, 8_000)
    wanted = theirs(samples, sampling_rate=8_000, return_tensors="pt").input_features[0]
    assert_close(ours(samples), wanted.T, atol=1e-4, rtol=0)


def test_silence_is_even() -> None:
    frames = LogMel(mels=5, samples=16_000)(np.zeros(77, dtype=np.float32))
    assert_close(frames, torch.full((100, 5), -1.5))


def test_the_last_window_is_filled_up() -> None:
    hears = LogMel(mels=5, samples=16_000)
    frames = hears(sound(1.25))
    assert len(frames) == 125
    window = hears.window(frames, 60)
    assert_close(window[:65], frames[60:])
    assert not window[65:].any()


def test_without_a_processor_the_model_says_the_sizes() -> None:
    assert LogMel.of({}, mels=7, places=30) == LogMel(mels=7, samples=9_600)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"feature_size": 81}, "the processor makes 81 numbers a frame, the model reads 80"),
        ({"chunk_length": 20}, "a window of 20 s has 2000 frames, and the model hears 3000"),
        ({"chunk_length": 10**9}, r"chunk_length must be a whole number of seconds in 1\.\.120: got 1000000000"),
        ({"hop_length": 0}, r"hop_length must be a whole number in 1\.\.400: got 0"),
        ({"n_fft": "400"}, "n_fft must be a whole number in .*: got '400'"),
        ({"dither": 0.1}, "dither must be 0.0: got 0.1"),
    ],
)
def test_a_processor_that_does_not_fit_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LogMel.of(given, mels=80, places=1500)
