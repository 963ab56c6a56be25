"""From sound to what a model hears: energies in bands as wide as the ear's, a hundred times a second."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.data.wav import Sound
from mirada.errors import require

WINDOW, HOP = 0.025, 0.010  # seconds that a frame hears, and from one frame to the next
FLOOR = 1e-6  # power of a band that counts as silence: about the rounding of 16 bits
LOWEST = 20.0  # hertz: below, there is only hum


@dataclass(frozen=True)
class MelBands:
    """So many bands of the sounds of one rate.

    >>> MelBands(8000, 40).frames(8000)
    98
    """

    rate: int
    mels: int

    @property
    def window(self) -> int:
        """Samples of a frame."""
        return round(WINDOW * self.rate)

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return round(HOP * self.rate)

    def frames(self, samples: int) -> int:
        """How many frames so many samples have; a sound shorter than a frame is filled up."""
        return 1 + max(0, samples - self.window) // self.hop

    def __call__(self, sound: Sound) -> Float[Tensor, "frames mels"]:
        """The logarithms of the energies: log(floor + sum over f of filter(f) |STFT(f)|^2)."""
        require(sound.rate == self.rate, f"bands of {self.rate} Hz were given a sound of {sound.rate} Hz: resample it")
        x = torch.from_numpy(sound.samples)
        size = fft_size(self.window)
        around = (size - self.window) // 2  # torch puts the window into the middle of the transform
        short = max(0, self.window - len(x))
        x = torch.nn.functional.pad(x, (around, short + size - self.window - around))
        shape = torch.hann_window(self.window)
        turned = torch.stft(x, size, self.hop, self.window, shape / shape.norm(), center=False, return_complex=True)
        power = turned.real.square() + turned.imag.square()
        return torch.log(power.T @ filterbank(self.rate, size, self.mels) + FLOOR)


def fft_size(window: int) -> int:
    """The power of two that a window fits in.

    >>> fft_size(200), fft_size(256)
    (256, 256)
    """
    return 1 << (window - 1).bit_length()


def to_mel(hertz: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Pitch as it is heard: 1,000 Hz are 1,000 mel, 2,000 Hz only half as far above.

    >>> float(to_mel(1000.0).round())
    1000.0

    O'Shaughnessy (1987).
    """
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


def to_hertz(mel: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """The frequency of a pitch."""
    return 700.0 * np.expm1(np.asarray(mel) / 1127.0)


@lru_cache(maxsize=16)
def filterbank(rate: int, size: int, mels: int) -> Float[Tensor, "bins mels"]:
    """Triangles whose tops stand at equal distances of pitch; each reaches from the top below to the top above.

    A band narrower than the distance of two frequencies takes what lies nearest to its top.

    Davis and Mermelstein (1980).
    """
    edges = to_hertz(np.linspace(to_mel(min(LOWEST, rate / 8)), to_mel(rate / 2), mels + 2))
    bins = np.arange(size // 2 + 1) * rate / size
    low, top, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (bins[:, None] - low) / (top - low)
    falling = (high - bins[:, None]) / (high - top)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    for band in np.flatnonzero(weights.sum(axis=0) < 0.5):  # neighbors share what lies between two frequencies
        weights[:, band] = np.maximum(0.0, 1 - np.abs(bins - top[band]) * size / rate)
    return torch.from_numpy(weights.astype(np.float32))
