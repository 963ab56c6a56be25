"""Folders of recordings with their transcripts, and rows in memory: what is read, what is said, what is bad."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mirada.data.options import TableOptions
from mirada.data.record import Found
from mirada.data.wav import Sound, read_wav
from mirada.tasks.transcribe import recordings as recording_module
from mirada.tasks.transcribe.recordings import (
    FeatureExtractor,
    MelBands,
    Spoken,
    read_recordings,
    resampled,
    sound_in_memory,
    survey,
)
from tests.data.wav_bytes import FLOAT, tone, write_wav

BANDS = MelBands(8000, 40)


def read(place: Any, options: TableOptions | None = None) -> Found[Spoken]:
    return read_recordings(place, FeatureExtractor(BANDS), options or TableOptions())


def told(found: Found[Spoken]) -> list[str]:
    return [str(problem) for problem in found.problems]


def written(found: Found[Spoken]) -> dict[str, str]:
    return {Path(record.value[0].name).name: record.value[1] for record in found.records}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two recordings, named one and two."""
    for number, name in enumerate(("one", "two"), 1):
        write_wav(tmp_path / f"{name}.wav", tone(300.0 * number, 0.25 * number))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("transcripts.tsv", "one.wav\tuno\ntwo.wav\tdos tres\n"),
        ("transcripts.tsv", "one\tuno\ntwo\tdos tres\n"),
        ("transcripts.tsv", "name\ttext\none\tuno\ntwo\tdos tres\n"),
        ("transcripts.csv", 'file,transcript\none.wav,uno\ntwo.wav,"dos tres"\n'),
        ("transcripts.csv", "text;name\nuno;one.wav\ndos tres;two.wav\n"),
        ("transcripts.jsonl", '{"name": "one", "text": "uno"}\n{"name": "two.wav", "text": "dos tres"}\n'),
    ],
)
def test_tables_of_transcripts(folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    found = read(str(folder))
    assert told(found) == []
    assert written(found) == {"one.wav": "uno", "two.wav": "dos tres"}
    assert [record.where for record in found.records] == [str(folder / "one.wav"), str(folder / "two.wav")]
    assert [record.value[0].frames.shape for record in found.records] == [(23, 40), (48, 40)]
    assert [record.value[0].seconds for record in found.records] == [0.25, 0.5]
    assert written(read(str(folder / name))) == written(found), "the table itself may be given"


def test_a_text_next_to_every_recording(folder: Path) -> None:
    (folder / "one.txt").write_text("uno\n")
    (folder / "two.txt").write_text("dos\n  tres \n")
    (folder / "more").mkdir()
    write_wav(folder / "more" / "three.WAV", tone(500))
    (folder / "more" / "three.txt").write_text("cuatro")
    found = read(str(folder))
    assert written(found) == {"one.wav": "uno", "two.wav": "dos tres", "three.WAV": "cuatro"}
    assert told(found) == []


def test_the_encoding_of_texts_next_to_recordings_can_be_set(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / f"{name}.txt").write_bytes("mañana".encode("cp1252"))
    assert all("pass encoding=cp1252, which reads 'mañana'" in line for line in told(read(str(folder))))
    found = read(str(folder), TableOptions(encoding="cp1252"))
    assert written(found) == {"one.wav": "mañana", "two.wav": "mañana"}
    assert told(found) == []


def test_frames_are_those_of_the_sound_at_the_common_rate(folder: Path) -> None:
    write_wav(
        folder / "two.wav", np.stack([tone(600, 0.5, 44100), np.zeros(22050)], axis=1), 44100, kind=FLOAT, bits=32
    )
    (folder / "transcripts.tsv").write_text("one\tuno\ntwo\tdos\n")
    found = read(str(folder))
    for record in found.records:
        expected = BANDS(resampled(read_wav(record.value[0].name), 8000)).numpy()
        np.testing.assert_allclose(record.value[0].frames, expected, atol=0.01)
    (note,) = found.notes
    assert note == (
        f"{folder}: 2 recordings, 0.0 minutes in all, 0.25 to 0.50 s each; 2 rates; all are resampled to 8,000 Hz; "
        "1 recording with several channels mixed down to one; 0.0 MiB of frames in memory"
    )


def test_what_was_met_is_noted(folder: Path) -> None:
    write_wav(folder / "one.wav", np.zeros(16000), 16000)
    write_wav(folder / "two.wav", tone(300, 1.0, 16000), 16000)
    write_wav(folder / "three.wav", tone(300))
    (folder / "transcripts.tsv").write_text("one\tuno\ntwo\tdos\n")
    notes = read(str(folder)).notes
    assert notes[0] == f"{folder}: 1 wav file without a transcript in transcripts.tsv"
    assert "resampled from 16,000 to 8,000 Hz; 1 recording silent from beginning to end" in notes[1]


def test_a_header_over_names_of_files_has_no_ending(folder: Path) -> None:
    write_wav(folder / "two.wav", tone(300, 0.25))
    table = folder / "transcripts.tsv"
    table.write_text("Datei\tInhalt\none.wav\tuno\ntwo.wav\tdos\n")
    found = read(str(folder))
    assert (written(found), told(found)) == ({"one.wav": "uno", "two.wav": "dos"}, [])
    assert f"{table}: header: name is Datei, text is Inhalt" in found.notes
    table.write_text("three\ttres\none\tuno\ntwo\tdos\n")
    assert "no such recording" in told(read(str(folder)))[0], "a recording that is missing is no header"


def test_equal_samples_have_equal_digests(folder: Path) -> None:
    write_wav(folder / "two.wav", tone(300, 0.25))
    (folder / "transcripts.tsv").write_text("one\tuno\ntwo\tdos\n")
    one, two = (record.value[0] for record in read(str(folder)).records)
    assert one.digest == two.digest
    assert len(one.digest) == 16


def test_bad_rows_and_bad_files_are_named_and_the_others_read(folder: Path) -> None:
    (folder / "broken.wav").write_bytes(b"RIFF0000WAVEfmt ")
    (folder / "song.wav").write_bytes(b"ID3 and so on")
    rows = ["one\tuno", "three\ttres", "one.wav\totra vez", "two", "broken\tx", "song\tla la", "two\tdos"]
    (folder / "transcripts.tsv").write_text("\n".join(rows) + "\n")
    table = folder / "transcripts.tsv"
    found = read(str(folder))
    assert written(found) == {"one.wav": "uno", "two.wav": "dos"}
    assert sorted(told(found)) == sorted([
        f"{table}:2: no such recording: {folder / 'three.wav'}. Write its name as in the folder, or take the row "
        "out.",
        f"{table}:3: a second transcript: the first of one.wav is in {table}:1. Leave one of them.",
        f"{table}:4: expected 2 columns, found 1. Each line is name<TAB>text.",
        f"{folder / 'broken.wav'}: cut short or damaged: no chunk tells its format. Copy or download it again.",
        f"{folder / 'song.wav'}: not a WAV file but MP3. Convert it: ffmpeg -i FILE -c:a pcm_s16le NEW.wav",
    ])  # fmt: skip


def test_bad_texts_next_to_recordings_are_named(folder: Path) -> None:
    write_wav(folder / "three.wav", tone(300))
    write_wav(folder / "four.wav", tone(300))
    (folder / "one.txt").write_text("uno")
    (folder / "two.txt").write_text("")
    (folder / "three.txt").write_text(" \n")
    found = read(str(folder))
    assert written(found) == {"one.wav": "uno"}
    assert told(found) == [
        f"{folder / 'four.wav'}: no transcript: there is no four.txt beside it. Write one, or take it out.",
        f"{folder / 'three.wav'}: no transcript: {folder / 'three.txt'} holds no text. Fill it in, or take it out.",
        f"{folder / 'two.wav'}: no transcript: {folder / 'two.txt'}: the file is empty. Was it written or downloaded to "
        "its end?",
    ]
    (folder / "one.txt").write_bytes(b"caf\xe9")
    assert told(read(str(folder)))[1].startswith(f"{folder / 'one.txt'}:1: not UTF-8")


def test_a_bad_file_next_to_its_text_is_named_once(folder: Path) -> None:
    (folder / "one.wav").write_bytes(b"")
    (folder / "one.txt").write_text("uno")
    (folder / "two.txt").write_text("dos")
    assert told(read(str(folder))) == [
        f"{folder / 'one.wav'}: the file is empty. Was it written or downloaded to its end?"
    ]


def test_places_that_are_no_folder_of_recordings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere: no such folder\. "):
        read(str(tmp_path / "nowhere"))
    with pytest.raises(
        ValueError, match=r"no wav file in this folder\. Beside the wav files there must be a transcripts"
    ):
        read(str(tmp_path))
    (tmp_path / "a.mp3").write_bytes(b"ID3")
    with pytest.raises(ValueError, match=r"It has \.mp3 files: convert them to wav \(ffmpeg -i IN OUT\.wav\)"):
        read(str(tmp_path))
    path = write_wav(tmp_path / "a.wav", tone(300))
    with pytest.raises(ValueError, match=r"1 wav file, but no transcripts\. Beside the wav files"):
        read(str(tmp_path))
    with pytest.raises(ValueError, match=r"a\.wav: a file, not a folder\. Beside the wav files"):
        read(path)
    for name in ("transcripts.tsv", "transcripts.csv"):
        (tmp_path / name).write_text("a\tb\n")
    with pytest.raises(
        ValueError, match=r"several tables of transcripts, .*transcripts\.csv, .*transcripts\.tsv\. Leave"
    ):
        read(str(tmp_path))


# In memory


def test_rows_in_memory(folder: Path) -> None:
    samples = tone(300, 0.25)
    whole = (samples * 2**15).round().astype(np.int16)
    rows = [
        (str(folder / "one.wav"), "uno"),
        (folder / "one.wav", "uno"),
        ((samples, 8000), "uno"),
        ((samples.astype(np.float32), 8000.0), "uno"),
        ((whole, np.int64(8000)), "uno"),
        ((torch.from_numpy(samples), 8000), "uno"),
        ((np.stack([samples, samples]), 8000), "uno"),
        ((np.stack([samples, samples], axis=1), 8000), "uno"),
    ]
    found = read(rows)
    assert told(found) == []
    assert [record.where for record in found.records] == [f"row {number}" for number in range(1, 9)]
    first = found.records[0].value[0].frames
    for record in found.records:
        np.testing.assert_allclose(record.value[0].frames, first, atol=0.02)
    columns = {"audio": [row[0] for row in rows], "text": [row[1] for row in rows]}
    assert [r.value[0].digest for r in read(columns).records] == [r.value[0].digest for r in found.records]


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (((np.zeros(0), 8000), "x"), "a recording of no length: it has no samples"),
        (((np.zeros(9), 3), "x"), "the rate of a recording must be 1,000 to 768,000 samples a second: got 3"),
        (((np.zeros(9), "fast"), "x"), "the rate of a recording must be 1,000 to 768,000 samples a second: got 'fast'"),
        (((np.zeros(9, dtype=np.int64), 8000), "x"), "samples must be floats between -1 and 1, or int16, int32 or uint8: got"),
        (((np.zeros((2, 2, 2)), 8000), "x"), "samples must have the shape (samples,) or (samples, channels): got (2, 2, 2)"),
        (((np.array([0.0, np.inf]), 8000), "x"), "no sound: a sample is not a finite number"),
        ((np.zeros(9), "x"), "a recording in memory is (samples, rate): got ndarray"),
        ((("a.wav",)), "expected 2 values (audio, text), found 1."),
        (((np.zeros(9), 8000), ""), "text is empty."),
        (((np.zeros(9), 8000), None), "text is null, not text."),
        (("nowhere.wav", "x"), "nowhere.wav: no such file."),
    ],
)  # fmt: skip
def test_bad_rows_in_memory_are_named(row: tuple, what: str) -> None:
    found = read([((tone(300), 8000), "good"), row])
    assert len(found.records) == 1
    assert told(found)[0].startswith(f"row 2: {what}")


def test_numbers_in_memory_by_hand() -> None:
    assert sound_in_memory((np.array([0, 128, 255], dtype=np.uint8), 8000)).samples.tolist() == [-1.0, 0.0, 127 / 128]
    assert sound_in_memory((np.array([-(2**31), 2**30], dtype=np.int32), 8000)).samples.tolist() == [-1.0, 0.5]
    several = sound_in_memory((np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 0.5]]), 8000))
    assert (several.samples.tolist(), several.channels) == ([0.5, 0.5, 0.25], 2)


# Bounds, and a first look


def test_frames_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    extract, second = FeatureExtractor(BANDS), Sound(tone(300, 1.0).astype(np.float32), 8000)
    kept = extract(second, "a").frames.nbytes
    assert kept == 98 * 40 * 2
    monkeypatch.setattr(recording_module, "MOST_BYTES", 2 * kept + 1)
    extract(second, "b")
    with pytest.raises(ValueError, match=r"and there is more\. Take fewer recordings, or fewer mels="):
        extract(second, "c")


def test_a_survey_tells_rates_and_seconds_and_passes_over_what_it_cannot_read(folder: Path) -> None:
    write_wav(folder / "deep" / "three.wav", tone(300, 2.0, 44100), 44100)
    (folder / "broken.wav").write_bytes(b"no")
    found = survey(str(folder))
    assert (found.count, sorted(found.seconds), dict(found.rates)) == (4, [0.25, 0.5, 2.0], {8000: 2, 44100: 1})
    assert found.rate == 8000
    assert survey([((tone(300), 44100), "x")]).rate == 16000
    assert survey(str(folder / "nowhere")).rate == 16000
    (folder / "transcripts.jsonl").write_text(json.dumps({"name": "one", "text": "x"}))
    assert survey(str(folder / "transcripts.jsonl")).count == 4
