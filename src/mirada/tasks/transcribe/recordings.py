"""Recordings and their texts: a folder of wav files with their transcripts, or rows in memory.

FOLDER with transcripts.tsv, .csv or .jsonl (name, text), or with a NAME.txt next to each NAME.wav
  -> every file decoded once, resampled to one rate and turned into frames, which are kept -> records and problems
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from math import gcd
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mirada.data.columns.header import is_file_header
from mirada.data.files.forms import FORMS, RECORDINGS, form_of
from mirada.data.files.json import text_of
from mirada.data.files.memory import plain, rows_of
from mirada.data.files.opening import names_in, near, read_text
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions
from mirada.data.record import Found, Problem, Record
from mirada.data.wav import FASTEST, SLOWEST, Samples, Sound, mixed, read_header, read_wav
from mirada.errors import require
from mirada.words import plural

# Sound at another rate: band-limited interpolation, so that nothing is mirrored into the band that is kept.


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
    filters, before = _bank(up, down)
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
def _bank(up: int, down: int) -> tuple[Tensor, int]:
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


# From sound to what a model hears: energies in bands as wide as the ear's, a hundred times a second.


WINDOW, HOP = 0.025, 0.010  # seconds that a frame hears, and from one frame to the next
REDUCED = 4  # frames that a model's convolutions make one of
FLOOR = 1e-6  # power of a band that counts as silence: about the rounding of 16 bits
LOWEST = 20.0  # hertz: below, there is only hum


@dataclass(frozen=True)
class MelBands:
    """So many bands of the sounds of one rate.

    >>> MelBands(8000, 40).frames(8000)
    98
    """

    kept: ClassVar[type[np.floating]] = np.float16  # the precision in which they are kept

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
        spectrum = torch.stft(x, size, self.hop, self.window, shape / shape.norm(), center=False, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
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


# A sound as a model hears it: frames of log-mel energies at one rate, made once and kept.


MOST_BYTES = 2 << 30  # of frames that are kept in memory


class Hearing(Protocol):
    """What a sound of one rate becomes: numbers at equal moments."""

    kept: ClassVar[type[np.floating]]

    @property
    def rate(self) -> int:
        """The rate of the sounds."""

    def __call__(self, sound: Sound) -> Float[Tensor, "frames numbers"]:
        """The numbers of a sound."""


@dataclass(frozen=True, eq=False)
class Recording:
    """A sound as a model hears it: energies in half precision to save memory, or samples."""

    name: str
    frames: NDArray[np.floating] = field(repr=False)  # frames x mels, or samples x 1
    seconds: float
    digest: bytes = field(default=b"", repr=False)  # of its samples

    def beginning(self, frames: int) -> "Recording":
        """Its first frames, at most so many."""
        return self if len(self.frames) <= frames else replace(self, frames=self.frames[:frames], seconds=frames * HOP)


class FeatureExtractor:
    """Turns sounds into recordings, and counts their rates, channels and lengths.

    >>> extract = FeatureExtractor(MelBands(8000, 40))
    >>> extract(Sound(np.zeros(16000, dtype=np.float32), 16000), "a.wav").frames.shape
    (98, 40)
    """

    def __init__(self, bands: Hearing) -> None:
        self.bands = bands
        self.rates = Counter[int]()
        self.several = self.silent = self.bytes = 0
        self.seconds: list[float] = []

    def __call__(self, sound: Sound, name: str) -> Recording:
        """The recording of a sound. What is kept may not grow beyond a bound."""
        frames = self.bands(resampled(sound, self.bands.rate)).numpy().astype(self.bands.kept)
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
        """A note on the recordings, for the user."""
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


COLUMNS = ("name", "text")
TABLES = tuple(f"transcripts{ending}" for form in FORMS if form.is_table for ending in form.endings)
OTHERS = (".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aiff", ".aif", ".wma", ".webm", ".mp4", ".aac")
SURVEYED = 5_000  # files whose headers tell what the others are like
BEST_RATE = 16_000  # above it, there is hardly any speech
FORM = "Beside the wav files there must be a transcripts.tsv, .csv or .jsonl (name, text), or a NAME.txt for every NAME.wav."

Spoken = tuple[Recording, str]  # a recording and its text
SpokenRecord = Record[Spoken]


def read_recordings(place: Any, extract: FeatureExtractor, options: TableOptions) -> Found[Spoken]:
    """The recordings of a folder (or of the table in it), or of rows in memory: (path or (samples, rate), text)."""
    records: list[SpokenRecord] = []
    problems: list[Problem] = []
    notes: list[str] = []
    if not isinstance(place, str):
        rows = _spoken_in_memory(place)
    else:
        folder, table = _folder_of(place)
        rows = _spoken_in_table(folder, table, options, notes) if table else _spoken_beside(folder, options.encoding)
    for row in rows:
        if isinstance(row, Problem):
            problems.append(row)
            continue
        where, name, source, text = row
        try:
            recording = extract(source if isinstance(source, Sound) else read_wav(source), name)
        except ValueError as error:
            problems.append(Problem(where, str(error).removeprefix(f"{where}: ")))
        else:
            records.append(Record(where, (recording, text)))
    return Found(records, problems, [*notes, extract.note(place if isinstance(place, str) else "in memory")])


Row = tuple[str, str, str | Sound, str] | Problem  # where it is, its name, its file or its sound, its text


def _folder_of(place: str) -> tuple[str, str]:
    """The folder that a path means, and the table of transcripts in it, where there is one."""
    whole = os.path.expanduser(place)
    if os.path.isfile(whole) and form_of(whole).is_table:
        return os.path.dirname(place) or ".", place
    require(os.path.exists(whole), f"{place}: no such folder. {near(whole)}")
    require(os.path.isdir(whole), f"{place}: a file, not a folder. {FORM}")
    tables = [os.path.join(place, name) for name in names_in(whole) if name.lower().removesuffix(".gz") in TABLES]
    require(len(tables) < 2, f"{place}: several tables of transcripts, {', '.join(tables)}. Leave one of them.")
    return place, tables[0] if tables else ""


def _spoken_in_table(folder: str, table: str, options: TableOptions, notes: list[str]) -> Iterator[Row]:
    """The rows of a table of transcripts; its names are those of files, with or without .wav."""
    read = read_records(table, COLUMNS, options)
    yield from read.problems
    notes.extend(read.notes)
    places: dict[str, str] = {}
    records = list(read.records)
    headed = is_file_header([record.value[0] for record in records], lambda name: find_wav(folder, name))
    if headed and not options.describes_table:
        name, text = records.pop(0).value
        notes.append(f"{table}: header: name is {name}, text is {text}")
    for record in records:
        name, text = record.value
        path = find_wav(folder, name)
        if not path:
            expected = os.path.join(folder, name if name.lower().endswith(".wav") else f"{name}.wav")
            what = f"no such recording: {expected}. Write its name as in the folder, or take the row out."
            yield Problem(record.where, what)
        elif path in places:
            what = f"a second transcript: the first of {name} is in {places[path]}. Leave one of them."
            yield Problem(record.where, what)
        else:
            places[path] = record.where
            yield path, path, path, text
    unused = len(set(wav_files(folder)) - set(places))
    if unused:
        notes.append(f"{folder}: {plural(unused, 'wav file')} without a transcript in {os.path.basename(table)}")


def find_wav(folder: str, name: str) -> str:
    """The path of a recording by its name; nothing where there is none."""
    return _existing(os.path.join(folder, name), ("", ".wav", ".WAV"))


def _existing(stem: str, endings: Iterable[str]) -> str:
    """The first file that a stem with one of some endings names; nothing where there is none."""
    return next((stem + end for end in endings if os.path.isfile(os.path.expanduser(stem + end))), "")


def _spoken_beside(folder: str, encoding: str) -> Iterator[Row]:
    """Every wav file with the text file of its name."""
    paths = wav_files(folder)
    if not paths:
        endings = sorted({os.path.splitext(name)[1].lower() for name in _all_files(folder)} & set(OTHERS))
        convert = f" It has {', '.join(endings)} files: convert them to wav (ffmpeg -i IN OUT.wav)." if endings else ""
        raise ValueError(f"{folder}: no wav file in this folder.{convert} {FORM}")
    texts = {path: _existing(os.path.splitext(path)[0], (".txt", ".TXT")) for path in paths}
    require(any(texts.values()), f"{folder}: {plural(len(paths), 'wav file')}, but no transcripts. {FORM}")
    for path, place in texts.items():
        if not place:
            name = os.path.splitext(os.path.basename(path))[0] + ".txt"
            yield Problem(path, f"no transcript: there is no {name} beside it. Write one, or take it out.")
            continue
        try:
            text, problems = read_text(place, encoding)
        except ValueError as error:
            yield Problem(path, f"no transcript: {error}")
            continue
        words = " ".join(text.split())
        yield from problems
        if words and not problems:
            yield path, path, path, words
        elif not problems:
            yield Problem(path, f"no transcript: {place} holds no text. Fill it in, or take it out.")


def _all_files(folder: str) -> list[str]:
    """The paths of all files in a folder and in the folders in it, in order."""
    paths = []
    for place, folders, names in os.walk(os.path.expanduser(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [os.path.join(place, name) for name in sorted(names) if not name.startswith(".")]
    return paths


def wav_files(folder: str) -> list[str]:
    """The paths of the recordings of a folder."""
    whole = os.path.expanduser(folder)
    paths = [path for path in _all_files(folder) if path.lower().endswith(RECORDINGS.endings)]
    return [os.path.join(folder, os.path.relpath(path, whole)) for path in paths]


def _spoken_in_memory(data: Any) -> Iterator[Row]:
    """Rows of (path or (samples, rate), text), a dict or a data frame with the columns `audio` and `text`."""
    columns = ("audio", "text")
    for number, row in enumerate(rows_of(data, columns, columns), 1):
        where = f"row {number}"
        if len(row) != 2:
            yield Problem(where, f"expected 2 values (audio, text), found {len(row)}.")
            continue
        text, fault = text_of(plain(row[1]))
        words = " ".join(text.split())
        if fault or not words:
            yield Problem(where, f"text is {fault or 'empty'}.")
            continue
        try:
            source = row[0] if isinstance(row[0], str | Path) else sound_in_memory(row[0])
        except ValueError as error:
            yield Problem(where, str(error))
        else:
            yield where, str(source) if isinstance(source, Path) else where, source, words  # type: ignore[misc]


# A quick look at what there is, before anything is decoded


@dataclass(frozen=True)
class Survey:
    """What the headers of some recordings tell: how many there are, how long they are, at which rates."""

    count: int = 0
    seconds: tuple[float, ...] = ()
    rates: Counter[int] = field(default_factory=Counter)

    @property
    def rate(self) -> int:
        """The rate that most of them have, unless it is more than speech needs.

        >>> Survey(rates=Counter({44100: 2, 8000: 1})).rate
        16000
        """
        commonest = max(self.rates, key=lambda rate: (self.rates[rate], -rate), default=BEST_RATE)
        return min(commonest, BEST_RATE)


def survey(place: Any) -> Survey:
    """What the recordings of a place are like; those that cannot be read are passed over here and named when they are."""
    if isinstance(place, str):
        whole = os.path.expanduser(place)
        folder = os.path.dirname(place) or "." if os.path.isfile(whole) else place
        sources: list[Any] = wav_files(folder) if os.path.isdir(os.path.expanduser(folder)) else []
    else:
        sources = [row[0] for row in rows_of(place, ("audio", "text"), ("audio", "text")) if len(row)]
    seconds, rates = [], Counter[int]()
    for source in sources[:: max(1, len(sources) // SURVEYED)]:
        try:
            if isinstance(source, str | Path):
                rate, length = read_header(source)
            else:
                sound = sound_in_memory(source)
                rate, length = sound.rate, sound.seconds
        except ValueError:
            continue
        rates[rate] += 1
        seconds.append(length)
    return Survey(len(sources), tuple(seconds), rates)
