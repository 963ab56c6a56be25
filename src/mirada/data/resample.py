"""Sound at another rate: band-limited interpolation, so that nothing is mirrored into the band that is kept."""

from functools import lru_cache
from math import gcd

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from mirada.data.wav import Samples, Sound
from mirada.errors import require

ZEROS = 32  # zero crossings of the filter to each side: the steeper its edge, the more it costs
ROLLOFF = 0.94  # the end of the band that is kept, as a share of half the lower rate
BETA = 10.0  # of Kaiser's window: beyond its edge, the filter lets through less than -95 dB
MOST_PHASES = 2_000  # filters between two rates; rates with less in common are taken as the nearest that have it


def resampled(sound: Sound, rate: int) -> Sound:
    """The same sound with `rate` samples a second: a polyphase filter, one convolution.

    y(t) = sum over n of x(n) h(t - n),  h a sinc with the band of the lower rate under Kaiser's window

    >>> resampled(Sound(np.ones(44100, dtype=np.float32), 44100), 8000).samples.shape
    (8000,)

    Smith (2002), "Digital audio resampling"; Crochiere and Rabiner (1983).
    """
    require(rate >= 1, f"rate must be at least 1: got {rate}")
    up, down = ratio(rate, sound.rate)
    if up == down:
        return Sound(sound.samples, rate)
    filters, before = bank(up, down)
    count = -(-len(sound.samples) * up // down)
    x = torch.from_numpy(np.ascontiguousarray(sound.samples))
    moments = -(-count // up)  # every filter once: so many new samples lie between `down` old ones
    end = max(0, (moments - 1) * down + filters.shape[1] - before - len(x))
    y = F.conv1d(F.pad(x, (before, end))[None, None], filters[:, None], stride=down)[0]
    samples: Samples = y.T.reshape(-1)[:count].contiguous().numpy()
    return Sound(samples, rate)


def ratio(new: int, old: int) -> tuple[int, int]:
    """The rates as a fraction in lowest terms; where that takes too many filters, the nearest that takes fewer.

    >>> ratio(8000, 44100), ratio(16000, 8000), ratio(16000, 16001)
    ((80, 441), (2, 1), (2000, 2000))
    """
    up, down = new // gcd(new, old), old // gcd(new, old)
    if up > MOST_PHASES:
        up, down = MOST_PHASES, round(MOST_PHASES * old / new)
    return up, down


@lru_cache(maxsize=32)
def bank(up: int, down: int) -> tuple[Tensor, int]:
    """A filter for each of the `up` places that new samples take between old ones, and how far they reach back.

    Row p weighs the old samples around the moment p down / up.
    """
    cutoff = ROLLOFF * min(1.0, up / down)  # as a share of half the old rate
    reach = int(np.ceil(ZEROS / cutoff))
    moments = np.arange(up)[:, None] * down / up
    old = np.arange(-reach, reach + down + 1)[None]
    away = moments - old
    inside = np.abs(away) <= reach
    window = np.where(inside, np.i0(BETA * np.sqrt(np.clip(1 - (away / reach) ** 2, 0, 1))) / np.i0(BETA), 0.0)
    filters = cutoff * np.sinc(cutoff * away) * window
    filters /= filters.sum(axis=1, keepdims=True)  # a constant stays what it is
    return torch.from_numpy(filters.astype(np.float32)), reach
