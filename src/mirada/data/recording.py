"""A sound as a model hears it: frames of log-mel energies at one rate, made once and kept."""

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirada.data.mel import HOP, MelBands
from mirada.data.resample import resampled
from mirada.data.wav import FASTEST, SLOWEST, Sound, mixed
from mirada.errors import require

MOST_BYTES = 2 << 30  # of frames that are kept in memory


@dataclass(frozen=True, eq=False)
class Recording:
    """A sound as a model hears it, in half precision to save memory."""

    name: str
    frames: NDArray[np.float16] = field(repr=False)  # frames x mels
    seconds: float
    digest: bytes = field(default=b"", repr=False)  # of its samples

    def beginning(self, frames: int) -> "Recording":
        """Its first frames, at most so many."""
        return self if len(self.frames) <= frames else replace(self, frames=self.frames[:frames], seconds=frames * HOP)


def plural(count: int, word: str) -> str:
    """A number and what it counts.

    >>> plural(1, "recording"), plural(2000, "recording")
    ('1 recording', '2,000 recordings')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


class FeatureExtractor:
    """Turns sounds into recordings, and counts what it meets on the way.

    >>> extract = FeatureExtractor(MelBands(8000, 40))
    >>> extract(Sound(np.zeros(16000, dtype=np.float32), 16000), "a.wav").frames.shape
    (98, 40)
    """

    def __init__(self, bands: MelBands) -> None:
        self.bands = bands
        self.rates = Counter[int]()
        self.several = self.silent = self.bytes = 0
        self.seconds: list[float] = []

    def __call__(self, sound: Sound, name: str) -> Recording:
        """The recording of a sound. What is kept may not grow beyond a bound."""
        frames = self.bands(resampled(sound, self.bands.rate)).numpy().astype(np.float16)
        self.bytes += frames.nbytes
        self.rates[sound.rate] += 1
        self.several += sound.channels > 1
        self.silent += not sound.samples.any()
        self.seconds.append(sound.seconds)
        require(
            self.bytes <= MOST_BYTES,
            f"{sum(self.seconds) / 3600:.0f} hours of sound fill {MOST_BYTES >> 30} GiB of memory, and there is more. "
            "Take fewer recordings, or fewer mels=.",
        )
        return Recording(name, frames, sound.seconds, blake2b(sound.samples.tobytes(), digest_size=16).digest())

    def note(self, place: str) -> str:
        """What was met, for the person."""
        if not self.seconds:
            return f"{place}: no recording can be used"
        total, rate = sum(self.seconds), f"{self.bands.rate:,} Hz"
        amount = f"{total / 60:.1f} minutes" if total < 7200 else f"{total / 3600:.1f} hours"
        parts = [
            f"{place}: {plural(len(self.seconds), 'recording')}, {amount} in all, "
            f"{min(self.seconds):.2f} to {max(self.seconds):.2f} s each"
        ]
        if len(self.rates) > 1:
            parts.append(f"{len(self.rates)} rates; all are resampled to {rate}")
        elif self.bands.rate not in self.rates:
            parts.append(f"resampled from {next(iter(self.rates)):,} to {rate}")
        if self.several:
            parts.append(f"{plural(self.several, 'recording')} with several channels mixed down to one")
        if self.silent:
            parts.append(f"{plural(self.silent, 'recording')} silent from beginning to end")
        return "; ".join([*parts, f"{self.bytes / 2**20:.1f} MiB of frames in memory"])


def sound_in_memory(value: Any) -> Sound:
    """A sound that a program has: (samples, rate). Several channels stand side by side or one under the other.

    Whole numbers are scaled by what their type can hold.

    >>> sound_in_memory((np.array([0, 2**14], dtype=np.int16), 8000)).samples.tolist()
    [0.0, 0.5]
    """
    require(
        isinstance(value, tuple | list) and len(value) == 2,
        f"a recording in memory is (samples, rate): got {type(value).__name__}",
    )
    samples, rate = np.asarray(value[0]), value[1].item() if hasattr(value[1], "item") else value[1]
    require(
        isinstance(rate, int | float) and SLOWEST <= rate <= FASTEST and rate == int(rate),
        f"the rate of a recording must be {SLOWEST:,} to {FASTEST:,} samples a second: got {rate!r}",
    )
    require(
        samples.dtype.kind == "f" or samples.dtype in (np.uint8, np.int16, np.int32),
        f"samples must be floats between -1 and 1, or int16, int32 or uint8: got {samples.dtype}",
    )
    require(
        samples.ndim in (1, 2), f"samples must have the shape (samples,) or (samples, channels): got {samples.shape}"
    )
    require(samples.size > 0, "a recording of no length: it has no samples")
    if samples.ndim == 2 and samples.shape[0] < samples.shape[1]:
        samples = samples.T
    values = samples.astype(np.float64)
    if samples.dtype.kind != "f":
        half = 2.0 ** (8 * samples.dtype.itemsize - 1)
        values = values / half - (samples.dtype.kind == "u")
    require(bool(np.isfinite(values).all()), "no sound: a sample is not a finite number")
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    return Sound(mixed(values.astype(np.float32).reshape(-1), channels), int(rate), channels)
