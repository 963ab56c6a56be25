"""WAV files: every kind of sample by known numbers, and every way in which a file can be no WAV file."""

import gzip
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from mirada.data.wav import parse_wav, read_header, read_wav
from tests.data.wav_bytes import EXTENSIBLE, FLOAT, PCM, chunk, encoded, extensible, header, riff, tone, wav

KINDS = [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)]
STEPS = {8: 2.0**-7, 16: 2.0**-15, 24: 2.0**-23, 32: 2.0**-24, 64: 2.0**-24}  # a float has 24 bits


@pytest.mark.parametrize(("kind", "bits"), KINDS)
@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("long", [False, True])
def test_every_kind_of_sample_is_read(kind: int, bits: int, channels: int, long: bool) -> None:
    samples = np.random.default_rng(1).uniform(-1, 1, (101, channels))
    form = (extensible if long else header)(kind, channels, 11025, bits)
    found = parse_wav(riff(chunk(b"fmt ", form), chunk(b"data", encoded(samples.reshape(-1), kind, bits))))
    assert (found.rate, found.channels) == (11025, channels)
    assert found.samples.dtype == np.float32
    np.testing.assert_allclose(found.samples, samples.mean(axis=1), atol=STEPS[bits], rtol=0)


@pytest.mark.parametrize(
    ("bits", "raw", "expected"),
    [
        (8, [0, 128, 255], [-1.0, 0.0, 127 / 128]),
        (16, [0, 0x80, 0xFF, 0x7F, 0xFF, 0xFF], [-1.0, 32767 / 32768, -1 / 32768]),
        (24, [0, 0, 0x80, 0xFF, 0xFF, 0x7F, 1, 0, 0], [-1.0, 8388607 / 8388608, 1 / 8388608]),
        (32, [0, 0, 0, 0x80, 0, 0, 0, 0x40], [-1.0, 0.5]),
    ],
)
def test_whole_numbers_by_hand(bits: int, raw: list[int], expected: list[float]) -> None:
    content = riff(chunk(b"fmt ", header(PCM, 1, 8000, bits)), chunk(b"data", bytes(raw)))
    assert parse_wav(content).samples.tolist() == [np.float32(value) for value in expected]


def test_it_reads_what_the_standard_library_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    values = (tone(440) * 32767).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(values.tobytes())
    found = read_wav(path)
    assert found.seconds == 0.5
    assert (found.samples * 32768).tolist() == values.tolist()
    assert read_header(path) == (8000, 0.5)


def test_other_chunks_are_passed_over_also_those_of_odd_length() -> None:
    form, data = chunk(b"fmt ", header(PCM, 1, 8000, 16)), chunk(b"data", encoded(tone(440), PCM, 16))
    plain = parse_wav(riff(form, data)).samples
    more = riff(chunk(b"LIST", b"INFOabc"), form, chunk(b"fact", b"\1\2\3\4"), chunk(b"odd ", b"x"), data, b"tail")
    assert parse_wav(more).samples.tolist() == plain.tolist()


def test_a_file_that_was_written_to_a_pipe_goes_to_its_end() -> None:
    content = bytearray(wav(tone(440)))
    place = content.index(b"data") + 4
    for size in (0xFFFFFFFF, 0x7FFFFFFF - 36):
        content[place : place + 4] = struct.pack("<I", size)
        assert len(parse_wav(bytes(content)).samples) == 4000


def test_a_last_moment_that_is_not_whole_is_left_out() -> None:
    content = riff(chunk(b"fmt ", header(PCM, 2, 8000, 16)), chunk(b"data", bytes(10)))
    assert len(parse_wav(content).samples) == 2


def test_files_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.wav.gz"
    path.write_bytes(gzip.compress(wav(tone(440))))
    assert read_wav(path).seconds == 0.5


CUT = wav(tone(440))[:-100]
FORM = chunk(b"fmt ", header(PCM, 1, 8000, 16))
CONVERT = r"Convert it: ffmpeg -i FILE -c:a pcm_s16le NEW\.wav"
BAD = {
    "mp3": (b"ID3\x04 and so on", f"not a WAV file but MP3. {CONVERT}"),
    "raw mp3": (b"\xff\xfb\x90\x64 and so on", f"not a WAV file but MP3. {CONVERT}"),
    "ogg": (b"OggS and so on", f"not a WAV file but Ogg. {CONVERT}"),
    "flac": (b"fLaC and so on", f"not a WAV file but FLAC. {CONVERT}"),
    "text": (b"hello there, hello", "not a WAV file: it begins with 'hello th', not with RIFF and WAVE"),
    "another riff": (b"RIFF\0\0\0\0AVI LIST", "not a WAV file: it begins with 'RIFF"),
    "only a beginning": (b"RIFF", "cut short: the file has 4 bytes and then ends"),
    "no format": (riff(chunk(b"LIST", b"INFO")), "cut short or damaged: no chunk tells its format. Copy or download it"),
    "no samples": (riff(FORM), "cut short or damaged: no chunk tells its samples. Copy or download it again"),
    "samples first": (riff(chunk(b"data", b"1234"), FORM), "damaged: its samples come before their format"),
    "no length": (riff(FORM, chunk(b"data", b"")), "a recording of no length: its data has no samples. Record it again"),
    "one byte": (riff(FORM, chunk(b"data", b"1")), "a recording of no length: 1 bytes are less than one sample"),
    "cut short": (CUT, "cut short: the header says 8,000 bytes of samples, 7,900 are there. Copy or download it again"),
    "short format": (riff(chunk(b"fmt ", b"12")), "damaged: its format has 2 of at least 16 bytes"),
    "short long format": (
        riff(chunk(b"fmt ", header(EXTENSIBLE, 1, 8000, 16) + bytes(8))), "damaged: its long format has 24 of 40 bytes"
    ),
    "foreign long format": (
        riff(chunk(b"fmt ", header(EXTENSIBLE, 1, 8000, 16) + bytes(24))), "not PCM: the name of its format is 0000"
    ),
    "mu-law": (riff(chunk(b"fmt ", header(7, 1, 8000, 8))), r"not PCM: its samples are compressed \(mu-law\)\. Convert"),
    "unknown": (riff(chunk(b"fmt ", header(999, 1, 8000, 8))), r"not PCM: its samples are compressed \(format 999\)"),
    "12 bits": (riff(chunk(b"fmt ", header(PCM, 1, 8000, 12))), "12 bits a sample: known are 8, 16, 24, 32. Convert"),
    "half floats": (riff(chunk(b"fmt ", header(FLOAT, 1, 8000, 16))), "16 bits a sample: known are 32, 64"),
    "no channel": (riff(chunk(b"fmt ", header(PCM, 0, 8000, 16))), "an impossible header: 0 channels, known are 1 to 256"),
    "no rate": (riff(chunk(b"fmt ", header(PCM, 1, 0, 16))), "an impossible header: 0 samples a second, known are 1,000"),
    "great rate": (riff(chunk(b"fmt ", header(PCM, 1, 2**32 - 1, 16))), "an impossible header: 4,294,967,295 samples a second"),
    "odd block": (
        riff(chunk(b"fmt ", header(PCM, 2, 8000, 16, block=7))), "an impossible header: 2 channels of 16 bits are 4 bytes, not 7"
    ),
    "not a number": (
        wav(np.array([0.0, 0.5, np.nan]), kind=FLOAT, bits=32), "no sound: sample 3 is nan. Export it again"
    ),
    "infinite": (
        wav(np.array([[0.0, 0.0], [0.0, 1e300]]), kind=FLOAT, bits=64), r"no sound: sample 2 is 1e\+300. Export it again"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_wav_file_is_named(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        read_wav(path)


def test_what_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(b"")
    with pytest.raises(ValueError, match=r"song\.wav: the file is empty\. Was it written or downloaded to its end\?"):
        read_wav(tmp_path / "song.wav")
    with pytest.raises(ValueError, match=r"sond\.wav: no such file\. Did you mean '.*song\.wav'\?"):
        read_wav(tmp_path / "sond.wav")
    with pytest.raises(ValueError, match="a folder, not a file"):
        read_wav(tmp_path)
