"""Recordings as they might have been: faster or slower, later, higher or deeper, louder, in noise, with parts hidden.

All is done to frames of log-mel energies, a batch at a time, as a function of the numbers that were drawn for every row: so an
epoch, a seed and a row decide what a model hears, and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from mirada.data.batching import drawn
from mirada.data.options import TextOptions
from mirada.data.text.tokenize import TOKENIZER, Tokenizer, Vocabulary
from mirada.errors import require, unknown
from mirada.tasks.transcribe.whisper import WhisperVocabulary

Frames = Float[Tensor, "batch frames mels"]
Changed = Float[Tensor, "batch longer mels"]
Lengths = Int[Tensor, " batch"]
Numbers = Float[Tensor, "batch draws"]  # from 0 to 1

TIME_MASKS, BAND_MASKS = 2, 2
DRAWS = 7 + 2 * (TIME_MASKS + BAND_MASKS)
NOISE_FRAMES = 4096  # of noise that is drawn once, then cut from anywhere
LOUDER = 6.0  # between the energies of a recording and the loudest noise added to it, in e-folds; 2.3 are 10 dB
QUIETEST = 8.0  # how much lower the faintest noise is


@dataclass(frozen=True)
class SpecAugment:
    """By how much recordings are changed. All zeros change nothing.

    Park et al. (2019), arXiv:1904.08779; Jaitly and Hinton (2013), "Vocal tract length perturbation".
    """

    speed: float = 0.0  # the share by which a recording may be faster or slower
    later: int = 0  # frames of silence that may stand before and after it
    pitch: float = 0.0  # the share by which bands may lie higher or lower
    gain: float = 0.0  # e-folds of energy
    noise: float = 0.0  # the share of recordings with noise
    time: float = 0.0  # the share of frames that one mask may hide
    bands: float = 0.0  # the share of bands that one mask may hide

    def __call__(self, frames: Frames, lengths: Lengths, draws: Numbers) -> tuple[Changed, Lengths]:
        """The changed recordings with their new lengths; `frames` are filled up with anything."""
        speed, before, after, pitch, gain, *noise = draws[:, :7].T
        quiet = lowest_energy(frames, lengths)
        real = _real(lengths, frames.shape[1]).unsqueeze(-1)
        level = frames.masked_fill(~real, 0).sum((1, 2)) / (lengths * frames.shape[-1])  # the mean energy
        frames, lengths = change_speed(
            frames, lengths, 1 + self.speed * (2 * speed - 1), (before * self.later).long(), (after * self.later).long(), quiet
        )  # fmt: skip
        if self.pitch:
            frames = frames @ frequency_warp(frames.shape[-1], 1 + self.pitch * (2 * pitch - 1))
        if self.noise:
            loud, start = noise
            rows = (loud < self.noise).nonzero().squeeze(1)
            frames[rows] = add_noise(frames[rows], level[rows], loud[rows] / self.noise, start[rows])
        frames += (self.gain * (2 * gain - 1)).view(-1, 1, 1)  # `change_speed` has made them ours
        mask = draws[:, 7:]
        bands = torch.full_like(lengths, frames.shape[-1])
        hidden = masked(bands, self.bands, frames.shape[-1], mask[:, 2 * TIME_MASKS :])
        # by arithmetic, and below by the number of a frame: choosing number by number takes several times as long
        frames.mul_((~hidden).unsqueeze(1)).add_((hidden * level.unsqueeze(1)).unsqueeze(1))
        rows, places = masked(lengths, self.time, frames.shape[1], mask[:, : 2 * TIME_MASKS]).nonzero().T
        frames[rows, places] = level[rows].unsqueeze(1)
        return frames, lengths


STRENGTHS = {
    "no": SpecAugment(),
    "light": SpecAugment(speed=0.1, later=8, pitch=0.0, gain=0.5, noise=0.0, time=0.05, bands=0.1),
    "strong": SpecAugment(speed=0.2, later=16, pitch=0.1, gain=1.0, noise=0.5, time=0.15, bands=0.2),
}


def named_augmentation(name: str) -> SpecAugment:
    """A strength by name.

    >>> named_augmentation("no")(torch.zeros(1, 3, 2), torch.tensor([3]), torch.zeros(1, DRAWS))[0].shape
    torch.Size([1, 3, 2])
    """
    if name not in STRENGTHS:
        raise unknown("augment", name, STRENGTHS)
    return STRENGTHS[name]


@lru_cache(maxsize=2)
def random_draws(rows: int, seed: int, epoch: int) -> NDArray[np.float32]:
    """The numbers that decide how the recordings of an epoch are changed, for every row."""
    raw = drawn(rows * DRAWS, seed, epoch, 5) >> np.uint64(40)
    return (raw.astype(np.float32) * np.float32(2.0**-24)).reshape(rows, DRAWS)


def _real(lengths: Lengths, frames: int) -> Bool[Tensor, "batch frames"]:
    """Which frames are not filling."""
    return torch.arange(frames) < lengths.unsqueeze(1)


def lowest_energy(frames: Frames, lengths: Lengths) -> Float[Tensor, "batch mels"]:
    """The lowest energy of every band."""
    return frames.masked_fill(~_real(lengths, frames.shape[1]).unsqueeze(-1), torch.inf).amin(1)


def change_speed(
    frames: Frames, lengths: Lengths, speed: Tensor, before: Lengths, after: Lengths, quiet: Tensor
) -> tuple[Changed, Lengths]:
    """Recordings at another speed, with silence around them: frame t hears what was at (t - before) x speed."""
    longer = (lengths / speed).ceil().long().clamp(min=1)
    new = longer + before + after
    places = (torch.arange(int(new.max())) - before.unsqueeze(1)) * speed.unsqueeze(1)
    last = (lengths - 1).unsqueeze(1)
    silent = (places < 0) | (places >= longer.unsqueeze(1) * speed.unsqueeze(1))
    places = places.clamp(min=0).minimum(last)
    low = places.long()
    high = (low + 1).minimum(last)
    share = (places - low).unsqueeze(-1)
    rows = torch.arange(len(frames)).unsqueeze(1) * frames.shape[1]
    flat, shape = frames.flatten(0, 1), (*low.shape, frames.shape[-1])  # whole frames are copied, not single numbers
    stretched, next_ones = (flat.index_select(0, (rows + at).flatten()).view(shape) for at in (low, high))
    stretched.lerp_(next_ones, share)
    rows, at = silent.nonzero().T
    stretched[rows, at] = quiet[rows]
    return stretched, new


def frequency_warp(mels: int, factor: Tensor) -> Float[Tensor, "batch mels mels"]:
    """Matrices that put what was in band m / factor into band m, between bands by weight."""
    places = (torch.arange(mels) / factor.unsqueeze(1)).clamp(max=mels - 1)
    away = torch.arange(mels).view(1, -1, 1) - places.unsqueeze(1)
    return (1 - away.abs()).clamp(min=0)


@lru_cache(maxsize=4)
def _noise_table(mels: int) -> Float[Tensor, "frames mels"]:
    """The logarithms of the energies of white noise: each is the sum of a few squares."""
    raw = (drawn(4 * NOISE_FRAMES * mels, 11) >> np.uint64(11)) * 2.0**-53
    energies = -np.log(1 - raw).reshape(4, NOISE_FRAMES, mels).mean(0)
    return torch.from_numpy(np.log(energies).astype(np.float32))


def add_noise(frames: Frames, level: Tensor, loud: Tensor, start: Tensor) -> Frames:
    """Recordings with noise of the same loudness in all bands: log(e^x + e^n)."""
    places = (start * NOISE_FRAMES).long().unsqueeze(1) + torch.arange(frames.shape[1])
    noise = _noise_table(frames.shape[-1])[places % NOISE_FRAMES]
    return torch.logaddexp(frames, noise + (level + 2 - QUIETEST * (1 - loud)).view(-1, 1, 1))


def masked(sizes: Lengths, share: float, length: int, draws: Numbers) -> Bool[Tensor, "batch length"]:
    """Stretches of up to a share of each row, each from two draws: how long, and where."""
    hidden = torch.zeros(len(sizes), length, dtype=torch.bool)
    places = torch.arange(length)
    for size, start in draws.T.reshape(-1, 2, len(sizes)):
        long = (size * (share * sizes + 1) * (share > 0)).floor()
        first = (start * (sizes - long + 1)).floor()
        hidden |= (places >= first.unsqueeze(1)) & (places < (first + long).unsqueeze(1))
    return hidden


# What is learned from spoken texts before a model learns: their tokens, and how loud every band of the recordings
# is.


LEAST = 1e-2  # of a deviation: a band that is always silent stays as it is


@dataclass(frozen=True)
class SpeechVocabulary:
    """A tokenizer, and the mean and the standard deviation of the log energies of every band.

    `pace` is how many frames a token takes; `augment` says how much recordings are changed while they are learned from.
    """

    files: ClassVar[tuple[str, ...]] = (TOKENIZER,)

    vocabulary: Vocabulary
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    pace: float
    augment: str = "no"

    @classmethod
    def learn(
        cls, texts: Sequence[str], frames: Sequence[NDArray[np.float16]], options: TextOptions, start: Self | None
    ) -> Self:
        """The tokens of these texts and the scale of these frames; those of the run to start from, where there is one."""
        if start is not None:
            return start
        count = sum(map(len, frames))
        mean = sum(each.sum(axis=0, dtype=np.float64) for each in frames) / count
        squares = sum(np.square(each - mean).sum(axis=0) for each in frames) / count
        deviation = np.maximum(np.sqrt(squares), LEAST)
        vocabulary = Vocabulary.learn(texts, options, None)
        tokens = sum(len(text) + 1 for text in vocabulary.tokenizer.encode_all(list(texts)))
        mean, deviation = (tuple(each.round(6).tolist()) for each in (mean, deviation))
        return cls(vocabulary, mean, deviation, round(count / tokens, 3))

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts."""
        return self.vocabulary.tokenizer

    def scaled(self, frames: Float[Tensor, "*batch mels"]) -> Float[Tensor, "*batch mels"]:
        """Frames whose bands have mean 0 and deviation 1, in the data that was learned from."""
        return (frames - torch.tensor(self.mean)) / torch.tensor(self.deviation)

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {"mean": list(self.mean), "deviation": list(self.deviation), "pace": self.pace, "augment": self.augment}

    def contents(self) -> dict[str, bytes]:
        """Its files, by name."""
        return self.vocabulary.contents()

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` and the files kept; those of a Whisper name its processor."""
        if "processor" in facts:
            return WhisperVocabulary.restore(facts, paths)  # type: ignore[return-value]
        rows = [facts.get(name) for name in ("mean", "deviation")]
        require(
            all(isinstance(row, list) and row and all(isinstance(x, int | float) for x in row) for row in rows),
            "mean and deviation in config.json must be lists of numbers",
        )
        pace, augment = facts.get("pace"), facts.get("augment")
        require(
            isinstance(pace, int | float) and pace > 0 and isinstance(augment, str),
            "pace and augment in config.json must be a number above 0 and a word",
        )
        mean, deviation = (tuple(map(float, row)) for row in rows)  # type: ignore[arg-type]
        return cls(Vocabulary.restore({}, paths), mean, deviation, float(pace), augment)  # type: ignore[arg-type]
