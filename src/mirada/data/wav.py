"""WAV files: RIFF chunks of PCM or floating-point samples, at any rate, with any number of channels, mixed down to one.

| bits | samples                         | a sample becomes         |
|------|---------------------------------|--------------------------|
| 8    | whole numbers from 0 to 255     | (x - 128) / 128          |
| 16   | whole numbers, signed           | x / 2^15                 |
| 24   | whole numbers, signed           | x / 2^23                 |
| 32   | whole numbers, signed; or float | x / 2^31; as it is       |
| 64   | float                           | as it is                 |
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirada.data.files.opening import opened
from mirada.errors import require

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
COMPRESSED = {2: "ADPCM", 6: "A-law", 7: "mu-law", 17: "IMA ADPCM", 49: "GSM", 80: "MPEG", 85: "MP3"}
SUBFORMAT = bytes.fromhex("000000001000800000aa00389b71")  # how the long name of PCM and float ends
SLOWEST, FASTEST = 1_000, 768_000  # samples per second that a sound can have
MOST_CHANNELS = 256
ENDLESS = 0x7FFFF000  # sizes from here on are written by programs that did not know the end
HUGE = 1 << 30  # bytes of one file
HEADER = 1 << 16  # bytes in which the samples have begun, unless pictures stand before them
FOREIGN = {  # how other files of sound begin
    b"ID3": "MP3", b"\xff\xfb": "MP3", b"\xff\xf3": "MP3", b"\xff\xf2": "MP3", b"OggS": "Ogg", b"fLaC": "FLAC",
    b"FORM": "AIFF", b"caff": "CAF", b".snd": "AU", b"RIFX": "big-endian WAV", b"RF64": "RF64", b"#!AMR": "AMR",
    b"\x1aE\xdf\xa3": "Matroska or WebM",
}  # fmt: skip
CONVERT = "Convert it: ffmpeg -i FILE -c:a pcm_s16le NEW.wav"

Samples = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Sound:
    """Samples of one channel, mostly between -1 and 1, and how many there are in a second.

    >>> Sound(np.zeros(4000, dtype=np.float32), 8000).seconds
    0.5
    """

    samples: Samples = field(repr=False)
    rate: int
    channels: int = 1  # that it was mixed from

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class WavFormat:
    """What the header of a WAV file states about its samples."""

    kind: int
    channels: int
    rate: int
    bits: int

    @property
    def block(self) -> int:
        """The bytes of one moment: a sample of every channel."""
        return self.channels * self.bits // 8


def read_wav(path: str | Path) -> Sound:
    """The sound of a WAV file (packed by gzip or not); whatever is wrong with it is a ValueError with the way out.

    >>> read_wav("song.mp3")
    Traceback (most recent call last):
    ValueError: song.mp3: no such file. Check the path.
    """
    with opened(path) as file:
        content = file.read(HUGE + 1)
    require(len(content) <= HUGE, f"{path}: more than {HUGE >> 30} GiB. Cut the recording into shorter ones.")
    try:
        return parse_wav(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_header(path: str | Path) -> tuple[int, float]:
    """The rate and the seconds of a WAV file, as its header states them."""
    with opened(path) as file:
        header, _, size = _find_chunks(file.read(HEADER))
    return header.rate, size / header.block / header.rate


def parse_wav(content: bytes) -> Sound:
    """The sound of the bytes of a WAV file. Microsoft and IBM (1991), RIFF; Microsoft (2007), WAVEFORMATEXTENSIBLE."""
    header, start, size = _find_chunks(content)
    data = content[start : start + size]
    if size >= ENDLESS and len(data) < size:
        size = len(data)
    require(size > 0, "a recording of no length: its data has no samples. Record it again, or take it out.")
    require(
        len(data) == size,
        f"cut short: the header says {size:,} bytes of samples, {len(data):,} are there. Copy or download it again.",
    )
    moments = len(data) // header.block
    require(moments > 0, f"a recording of no length: {len(data)} bytes are less than one sample. Take it out.")
    return Sound(mixed(_decoded(data[: moments * header.block], header), header.channels), header.rate, header.channels)


def _find_chunks(content: bytes) -> tuple[WavFormat, int, int]:
    """The format, and where the samples begin and how many bytes they should have; other chunks are skipped."""
    for sign, kind in FOREIGN.items():
        require(not content.startswith(sign), f"not a WAV file but {kind}. {CONVERT}")
    cut = content[:4] == b"RIFF" and len(content) < len(b"RIFF....WAVE")
    require(not cut, f"cut short: the file has {len(content)} bytes and then ends. Copy or download it again.")
    if not (content[:4] == b"RIFF" and content[8:12] == b"WAVE"):
        raise ValueError(f"not a WAV file: it begins with {repr(content[:8])[1:]}, not with RIFF and WAVE. {CONVERT}")
    header, place = None, 12
    while place + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, place)
        place += 8
        if name == b"fmt ":
            header = _read_format(content[place : place + size], size)
        elif name == b"data":
            if header is None:
                raise ValueError(f"damaged: its samples come before their format. {CONVERT}")
            return header, place, size
        place += size + size % 2  # chunks begin at even places
    missing = "samples" if header else "format"
    raise ValueError(f"cut short or damaged: no chunk tells its {missing}. Copy or download it again.")


def _read_format(chunk: bytes, size: int) -> WavFormat:
    """The chunk that describes the samples; impossible numbers are refused."""
    require(len(chunk) >= 16, f"damaged: its format has {len(chunk)} of at least 16 bytes. Copy or download it again.")
    kind, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == EXTENSIBLE:
        require(len(chunk) >= 40, f"damaged: its long format has {len(chunk)} of 40 bytes. Copy or download it again.")
        require(chunk[26:40] == SUBFORMAT, f"not PCM: the name of its format is {chunk[24:40].hex()}. {CONVERT}")
        (kind,) = struct.unpack_from("<H", chunk, 24)
    name = COMPRESSED.get(kind, f"format {kind}")
    require(kind in (PCM, FLOAT), f"not PCM: its samples are compressed ({name}). {CONVERT}")
    known = (8, 16, 24, 32) if kind == PCM else (32, 64)
    require(bits in known, f"{bits} bits a sample: known are {', '.join(map(str, known))}. {CONVERT}")
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(f"an impossible header: {channels} channels, known are 1 to {MOST_CHANNELS}. Export it again.")
    require(
        SLOWEST <= rate <= FASTEST,
        f"an impossible header: {rate:,} samples a second, known are 1,000 to 768,000. Export it again.",
    )
    header = WavFormat(kind, channels, rate, bits)
    require(
        block == header.block,
        f"an impossible header: {channels} channels of {bits} bits are {header.block} bytes, not {block}. {CONVERT}",
    )
    return header


def _decoded(data: bytes, header: WavFormat) -> Samples:
    """The samples of all channels, one moment after the other, as numbers between -1 and 1."""
    if header.kind == FLOAT:
        values: NDArray[Any] = np.frombuffer(data, dtype=f"<f{header.bits // 8}")
        with np.errstate(over="ignore"):
            narrow = values.astype(np.float32)
        wrong = np.flatnonzero(~np.isfinite(narrow))
        if len(wrong):
            where = wrong[0] // header.channels + 1
            raise ValueError(f"no sound: sample {where:,} is {values[wrong[0]]}. Export it again.")
        return narrow
    if header.bits == 8:
        return ((np.frombuffer(data, dtype=np.uint8) - 128.0) / 128).astype(np.float32)
    if header.bits == 24:  # the three bytes are the upper ones of four
        wide = np.zeros((len(data) // 3, 4), dtype=np.uint8)
        wide[:, 1:] = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3)
        return (wide.view("<i4")[:, 0] / 2**31).astype(np.float32)
    return (np.frombuffer(data, dtype=f"<i{header.bits // 8}") / 2 ** (header.bits - 1)).astype(np.float32)


def mixed(samples: Samples, channels: int) -> Samples:
    """The mean of all channels.

    >>> mixed(np.array([1.0, 0.0, 0.5, 0.5], dtype=np.float32), channels=2).tolist()
    [0.5, 0.5]
    """
    return samples if channels == 1 else samples.reshape(-1, channels).mean(axis=1, dtype=np.float32)
