"""Sound as Whisper hears it: log-mel frames of a whole recording, cut into windows of one length."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.data.wav import Sound
from mirada.errors import require

FLOOR = 1e-10  # power that counts as silence
RANGE = 8.0  # decades below the loudest that are heard
HIGHEST = 8_000.0  # hertz: the upper end of the highest band
STRAIGHT, FROM = 200 / 3, 1_000.0  # hertz per mel, and from where on pitch is logarithmic
PER_MEL = float(np.log(6.4)) / 27  # of the logarithm of hertz, there
MOST_SECONDS = 120  # of a window: checkpoints have 30


@dataclass(frozen=True)
class LogMel:
    """How a checkpoint of Whisper hears: the sizes of its frames and of its window.

    Args:
        rate: samples in a second.
        mels: numbers in a frame.
        fft: samples that a frame hears.
        hop: samples from one frame to the next.
        samples: those of a window.

    >>> LogMel(16_000, 80).frames
    3000
    """

    rate: int = 16_000
    mels: int = 80
    fft: int = 400
    hop: int = 160
    samples: int = 480_000

    def __post_init__(self) -> None:
        sizes = {
            "sampling_rate": (self.rate, 1_000, 768_000), "feature_size": (self.mels, 1, 1024),
            "n_fft": (self.fft, 2, 16_384), "hop_length": (self.hop, 1, self.fft),
            "samples of a window": (self.samples, self.fft, MOST_SECONDS * self.rate),
        }  # fmt: skip
        for name, (value, low, high) in sizes.items():
            right = type(value) is int and low <= value <= high
            require(right, f"preprocessor_config.json: {name} must be a whole number in {low}..{high}: got {value!r}")

    @classmethod
    def of(cls, theirs: Mapping[str, Any], mels: int, places: int) -> Self:
        """What a preprocessor_config.json says, or where there is none, the sizes of the model.

        >>> LogMel.of({}, mels=80, places=1500) == LogMel.of({"feature_size": 80, "chunk_length": 30}, 80, 1500)
        True
        """
        names = {"rate": "sampling_rate", "mels": "feature_size", "fft": "n_fft", "hop": "hop_length"}
        sizes = {"mels": mels} | {ours: theirs[name] for ours, name in names.items() if name in theirs}
        usual = cls(**sizes)
        seconds = theirs.get("chunk_length")
        whole = seconds is None or (type(seconds) is int and 0 < seconds <= MOST_SECONDS)
        message = f"chunk_length must be a whole number of seconds in 1..{MOST_SECONDS}: got {str(seconds)[:40]}"
        require(whole, f"preprocessor_config.json: {message}")
        samples = 2 * places * usual.hop if seconds is None else seconds * usual.rate
        made = cls(**sizes, samples=samples)
        for name, only in {"padding_value": 0.0, "dither": 0.0, "do_normalize": False}.items():
            value = theirs.get(name, only)
            require(value == only, f"preprocessor_config.json: {name} must be {only}: got {value!r}")
        require(made.mels == mels, f"the processor makes {made.mels} numbers a frame, the model reads {mels}")
        require(
            made.frames == 2 * places,
            f"a window of {made.seconds:g} s has {made.frames} frames, and the model hears {2 * places}: the "
            "preprocessor_config.json is not that of the model",
        )
        return made

    @property
    def frames(self) -> int:
        """Frames of a window."""
        return self.samples // self.hop

    @property
    def seconds(self) -> float:
        """How long a window lasts."""
        return self.samples / self.rate

    @property
    def place(self) -> float:
        """Seconds of a place of the encoder: of two frames."""
        return 2 * self.hop / self.rate

    def __call__(self, samples: NDArray[np.float32]) -> Float[Tensor, "frames mels"]:
        """The frames of a recording, which is filled up with silence to a window.

        x = log10(max(filters . |STFT|^2, 1e-10)),  y = (max(x, max x - 8) + 4) / 4

        >>> LogMel()(np.zeros(8000, dtype=np.float32)).shape
        torch.Size([3000, 80])
        """
        x = torch.from_numpy(np.ascontiguousarray(samples))
        x = F.pad(x, (0, max(0, self.samples - len(x))))
        spectrum = torch.stft(x, self.fft, self.hop, window=torch.hann_window(self.fft), return_complex=True)
        power = spectrum[:, :-1].abs().square()
        logs = (slaney_filters(self.rate, self.fft, self.mels) @ power).clamp(min=FLOOR).log10()
        return ((logs.maximum(logs.max() - RANGE) + 4) / 4).T.contiguous()

    def window(self, frames: Float[Tensor, "frames mels"], start: int) -> Float[Tensor, "window mels"]:
        """The window that begins with a frame; what is missing at the end is filled with zeros."""
        part = frames[start : start + self.frames]
        return F.pad(part, (0, 0, 0, self.frames - len(part)))


@dataclass(frozen=True)
class Waveform:
    """Recordings that are kept as they sound: samples of one rate. Windows are made of them when they are needed."""

    kept: ClassVar[type[np.floating]] = np.float32

    rate: int

    def __call__(self, sound: Sound) -> Float[Tensor, "samples one"]:
        """The samples of a sound of this rate."""
        require(sound.rate == self.rate, f"a sound of {sound.rate} Hz must be resampled to {self.rate} Hz")
        return torch.from_numpy(sound.samples).unsqueeze(1)


def _to_mel(hertz: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Pitch: straight up to 1,000 hertz, then logarithmic.

    >>> _to_mel(np.array([1000.0, 6400.0])).round(6).tolist()
    [15.0, 42.0]
    """
    hertz = np.asarray(hertz, dtype=np.float64)
    logarithmic = FROM / STRAIGHT + np.log(np.maximum(hertz, FROM) / FROM) / PER_MEL
    return np.where(hertz < FROM, hertz / STRAIGHT, logarithmic)


def _to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    """The frequency of a pitch."""
    bend = FROM / STRAIGHT
    return np.where(mel < bend, mel * STRAIGHT, FROM * np.exp(PER_MEL * (np.maximum(mel, bend) - bend)))


@lru_cache(maxsize=8)
def slaney_filters(rate: int, fft: int, mels: int) -> Float[Tensor, "mels bins"]:
    """Triangles over frequencies whose tops stand at equal distances of pitch, each of the same area.

    Slaney (1998), "Auditory Toolbox", technical report 1998-010.
    """
    edges = _to_hertz(np.linspace(_to_mel(0.0), _to_mel(HIGHEST), mels + 2))
    bins = np.linspace(0, rate // 2, fft // 2 + 1)
    low, top, high = (edges[first : first + mels, None] for first in range(3))
    triangles = np.maximum(0.0, np.minimum((bins - low) / (top - low), (high - bins) / (high - top)))
    return torch.from_numpy((triangles * 2 / (high - low)).astype(np.float32))
