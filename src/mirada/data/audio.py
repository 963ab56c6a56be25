"""Recordings and what is said in them: a folder of wav files with their transcripts, or rows in memory.

FOLDER with transcripts.tsv, .csv or .jsonl (name, text), or with a NAME.txt beside each NAME.wav
  -> every file decoded once, resampled to one rate and turned into frames, which are kept -> records and problems
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from mirada.data.memory import plain, rows_of
from mirada.data.names import names_files
from mirada.data.options import TableOptions
from mirada.data.record import Found, Problem, Record
from mirada.data.recording import FeatureExtractor, Recording, plural, sound_in_memory
from mirada.data.records import read_records, text_of
from mirada.data.text import names_in, near, read_text
from mirada.data.wav import Sound, read_header, read_wav
from mirada.errors import require

COLUMNS = ("name", "text")
TABLES = ("transcripts.tsv", "transcripts.csv", "transcripts.jsonl")
OTHERS = (".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aiff", ".aif", ".wma", ".webm", ".mp4", ".aac")
SURVEYED = 5_000  # files whose headers tell what the others are like
BEST_RATE = 16_000  # above it, there is hardly any speech
FORM = "Beside the wav files there must be a transcripts.tsv, .csv or .jsonl (name, text), or a NAME.txt for every NAME.wav."

Spoken = tuple[Recording, str]  # a recording and its text


class GatheredRecordings(NamedTuple):
    """What is gathered while a place is read."""

    records: list[Record[Spoken]]
    problems: list[Problem]
    notes: list[str]


def read_recordings(place: Any, extract: FeatureExtractor, options: TableOptions) -> Found[Spoken]:
    """The recordings of a folder (or of the table in it), or of rows in memory: (path or (samples, rate), text)."""
    gathered = GatheredRecordings([], [], [])
    if not isinstance(place, str):
        rows = spoken_in_memory(place, gathered)
    else:
        folder, table = folder_of(place)
        rows = spoken_beside(folder, options.encoding, gathered)
        if table:
            rows = spoken_in_table(folder, table, options, gathered)
    for where, name, source, text in rows:
        try:
            recording = extract(source if isinstance(source, Sound) else read_wav(source), name)
        except ValueError as error:
            gathered.problems.append(Problem(where, str(error).removeprefix(f"{where}: ")))
        else:
            gathered.records.append(Record(where, (recording, text)))
    gathered.notes.append(extract.note(place if isinstance(place, str) else "in memory"))
    return Found(*gathered)


Row = tuple[str, str, str | Sound, str]  # where it is, its name, its file or its sound, its text


def folder_of(place: str) -> tuple[str, str]:
    """The folder that a path means, and the table of transcripts in it, where there is one."""
    whole = os.path.expanduser(place)
    if os.path.isfile(whole) and whole.lower().endswith((".tsv", ".csv", ".jsonl", ".gz")):
        return os.path.dirname(place) or ".", place
    require(os.path.exists(whole), f"{place}: no such folder. {near(whole)}")
    require(os.path.isdir(whole), f"{place}: a file, not a folder. {FORM}")
    tables = [os.path.join(place, name) for name in names_in(whole) if name.lower().removesuffix(".gz") in TABLES]
    require(len(tables) < 2, f"{place}: several tables of transcripts, {', '.join(tables)}. Leave one of them.")
    return place, tables[0] if tables else ""


def spoken_in_table(folder: str, table: str, options: TableOptions, gathered: GatheredRecordings) -> Iterator[Row]:
    """The rows of a table of transcripts; its names are those of files, with or without .wav."""
    read = read_records(table, COLUMNS, options)
    gathered.problems.extend(read.problems)
    gathered.notes.extend(read.notes)
    taken: dict[str, str] = {}
    records = list(read.records)
    headed = names_files([record.value[0] for record in records]) and not wav_named(folder, records[0].value[0])
    if headed and not options.tells_a_table:
        name, text = records.pop(0).value
        gathered.notes.append(f"{table}: header: name is {name}, text is {text}")
    for record in records:
        name, text = record.value
        path = wav_named(folder, name)
        if not path:
            expected = os.path.join(folder, name if name.lower().endswith(".wav") else f"{name}.wav")
            what = f"no such recording: {expected}. Write its name as in the folder, or take the row out."
            gathered.problems.append(Problem(record.where, what))
        elif path in taken:
            what = f"a second transcript: the first of {name} is in {taken[path]}. Leave one of them."
            gathered.problems.append(Problem(record.where, what))
        else:
            taken[path] = record.where
            yield path, path, path, text
    unused = len(set(wav_files(folder)) - set(taken))
    if unused:
        gathered.notes.append(
            f"{folder}: {plural(unused, 'wav file')} without a transcript in {os.path.basename(table)}"
        )


def wav_named(folder: str, name: str) -> str:
    """The path of a recording by its name; nothing where there is none."""
    for ending in ("", ".wav", ".WAV"):
        path = os.path.join(folder, name + ending)
        if os.path.isfile(os.path.expanduser(path)):
            return path
    return ""


def spoken_beside(folder: str, encoding: str, gathered: GatheredRecordings) -> Iterator[Row]:
    """Every wav file with the text file of its name."""
    paths = wav_files(folder)
    if not paths:
        found = sorted({os.path.splitext(name)[1].lower() for name in all_files(folder)} & set(OTHERS))
        convert = f" It has {', '.join(found)} files: convert them to wav (ffmpeg -i IN OUT.wav)." if found else ""
        raise ValueError(f"{folder}: no wav file in this folder.{convert} {FORM}")
    texts = {path: beside(path) for path in paths}
    require(any(texts.values()), f"{folder}: {plural(len(paths), 'wav file')}, but no transcripts. {FORM}")
    for path, place in texts.items():
        if not place:
            name = os.path.splitext(os.path.basename(path))[0] + ".txt"
            gathered.problems.append(
                Problem(path, f"no transcript: there is no {name} beside it. Write one, or take it out.")
            )
            continue
        try:
            text, problems = read_text(place, encoding)
        except ValueError as error:
            gathered.problems.append(Problem(path, f"no transcript: {error}"))
            continue
        words = " ".join(text.split())
        gathered.problems.extend(problems)
        if words and not problems:
            yield path, path, path, words
        elif not problems:
            gathered.problems.append(
                Problem(path, f"no transcript: {place} holds no text. Fill it in, or take it out.")
            )


def beside(path: str) -> str:
    """The text file of a recording; nothing where there is none."""
    stem = os.path.splitext(path)[0]
    return next((stem + end for end in (".txt", ".TXT") if os.path.isfile(os.path.expanduser(stem + end))), "")


def all_files(folder: str) -> list[str]:
    """The paths of all files in a folder and in the folders in it, in order."""
    found = []
    for place, folders, names in os.walk(os.path.expanduser(folder)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(place, name) for name in sorted(names) if not name.startswith(".")]
    return found


def wav_files(folder: str) -> list[str]:
    """The paths of the recordings of a folder."""
    whole = os.path.expanduser(folder)
    paths = [path for path in all_files(folder) if path.lower().endswith(".wav")]
    return [os.path.join(folder, os.path.relpath(path, whole)) for path in paths]


def spoken_in_memory(data: Any, gathered: GatheredRecordings) -> Iterator[Row]:
    """Rows of (path or (samples, rate), text), a dict or a data frame with the columns `audio` and `text`."""
    columns = ("audio", "text")
    for number, row in enumerate(rows_of(data, columns, columns), 1):
        where = f"row {number}"
        if len(row) != 2:
            gathered.problems.append(Problem(where, f"expected 2 values (audio, text), found {len(row)}."))
            continue
        text, fault = text_of(plain(row[1]))
        words = " ".join(text.split())
        if fault or not words:
            gathered.problems.append(Problem(where, f"text is {fault or 'empty'}."))
            continue
        try:
            source = row[0] if isinstance(row[0], str | Path) else sound_in_memory(row[0])
        except ValueError as error:
            gathered.problems.append(Problem(where, str(error)))
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
            rate, length = header_of(source)
        except ValueError:
            continue
        rates[rate] += 1
        seconds.append(length)
    return Survey(len(sources), tuple(seconds), rates)


def header_of(source: Any) -> tuple[int, float]:
    """The rate and the seconds of a recording."""
    if isinstance(source, str | Path):
        return read_header(source)
    sound = sound_in_memory(source)
    return sound.rate, sound.seconds
