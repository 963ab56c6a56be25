"""Pictures with captions from a user's folder: a captions file next to the pictures, and the bad lines named.

captions.txt (image,caption or name#k<TAB>caption), .tsv, .csv, .jsonl -> captions by picture -> pictures of one size
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from mirada.data.columns.header import is_file_header, key_columns
from mirada.data.columns.names import ALIASES, is_one_of, words_of
from mirada.data.files.forms import FORMS, JSONL, PICTURES, TEXT, form_of
from mirada.data.files.json import SAMPLE, flat, json_objects, plain_keys
from mirada.data.files.memory import rows_of
from mirada.data.files.records import read_records
from mirada.data.image import WAYS, Box, Pixels, fit_square, pixels_of, placed
from mirada.data.options import TextOptions
from mirada.data.record import Found, Problem, Record
from mirada.errors import require

# The pictures below a folder.


HINTS = 5  # missing pictures for which a similar name is looked for: among many names that takes long


class PictureFolder:
    """The pictures below a folder, located by the names that a captions file has for them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.paths: dict[str, list[str]] = {}  # by relative path, by name, by name without ending
        self.pictures: list[str] = []
        self.missing = 0
        for home, inner, names in os.walk(folder):
            inner.sort()  # the order on a disk is arbitrary
            for name in sorted(names):
                if name.lower().endswith(PICTURES.endings):
                    path = os.path.normpath(os.path.join(home, name))
                    self.pictures.append(path)
                    inside = os.path.relpath(path, folder).replace(os.sep, "/")
                    for key in {inside, name, os.path.splitext(inside)[0], os.path.splitext(name)[0]}:
                        self.paths.setdefault(key, []).append(path)

    def find(self, name: str) -> tuple[str, str]:
        """The path of a picture, or what is wrong with its name."""
        direct = os.path.normpath(os.path.join(self.folder, name))
        if os.path.isfile(direct):
            return direct, ""
        found = self.paths.get(name.removeprefix("./").replace(os.sep, "/"), [])
        if len(found) == 1:
            return found[0], ""
        if found:
            return "", f"several pictures have this name: {found[0]} and {found[1]}. Write the path of one."
        self.missing += 1
        near = get_close_matches(name, self.paths, n=1) if self.missing <= HINTS else []
        hint = f"Did you mean {near[0]!r}?" if near else "Copy it there, or take the line out."
        return "", f"no such picture: {name!r} is not in {self.folder}. {hint}"


def pictures_in(folder: str | Path) -> list[str]:
    """The paths of all pictures below a folder, in order."""
    return PictureFolder(os.path.expanduser(folder)).pictures


COLUMNS = ("name", "caption")
READ = dict.fromkeys((TEXT, *(form for form in FORMS if form.separator), JSONL))
CAPTION_FILES = tuple(f"captions{form.endings[0]}" for form in READ)
NUMBERED = re.compile(r"#\d+$")  # name.jpg#0, as Flickr8k counts the captions of a picture


@dataclass(frozen=True, kw_only=True)
class PictureOptions(TextOptions):
    """Pictures of one size with texts. `size` is the side in pixels, `resize` how others come to it (pad, crop, stretch),
    `memory` the gigabytes that all pictures may take.
    """

    of_files = (*TextOptions.of_files, "memory")
    fixed = (*TextOptions.fixed, "size", "resize")

    tokenizer: str = "word"
    vocab: int = 10_000
    lowercase: bool = True
    size: int = 64
    resize: str = "pad"
    memory: float = 2.0

    def check(self) -> None:
        super().check()
        self.at_least(8, "size")
        self.one_of("resize", *WAYS)
        if not 0 < self.memory < float("inf"):
            raise ValueError(f"memory must be a positive number of gigabytes: got {self.memory}")


@dataclass(frozen=True, eq=False)
class CaptionedPicture:
    """A picture in the model's size with all its captions; `boxes` say where its words are, in pixels of this size."""

    name: str  # the path of its file, where it has one
    pixels: UInt8[np.ndarray, "size size 3"] = field(repr=False)
    captions: tuple[str, ...]
    boxes: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same for the same pixels, whatever the name of the file."""
        return hashlib.blake2b(self.pixels.tobytes(), digest_size=8).hexdigest()

    @property
    def identity(self) -> bytes:
        """What tells it from another one: its pixels and captions."""
        return "\x1f".join((self.digest, *self.captions, repr(sorted(self.boxes.items())))).encode()


CaptionRecord = Record[CaptionedPicture]


@dataclass
class GatheredCaptions:
    """The captions of one picture, as they are read: the first line, the texts, and boxes in pixels of the file."""

    where: str
    captions: list[str] = field(default_factory=list)
    boxes: dict[str, list[Box]] = field(default_factory=dict)


def read_captions(place: Any, options: PictureOptions) -> Found[CaptionedPicture]:
    """The pictures of a folder (or of a captions file in it, or in memory) with their captions."""
    if not isinstance(place, str | os.PathLike):
        return _in_memory(place, options)
    path = captions_file(str(place))
    lines, problems, notes = _json_lines(path, options) if form_of(path) is JSONL else _table_lines(path, options)
    folder = PictureFolder(os.path.dirname(path) or ".")
    gathered: dict[str, GatheredCaptions] = {}
    for where, name, caption, boxes in lines:
        picture_path, fault = folder.find(name)
        if fault:
            problems.append(Problem(where, fault))
            continue
        entry = gathered.setdefault(picture_path, GatheredCaptions(where))
        entry.captions.append(caption)
        for word, more in boxes.items():
            known = entry.boxes.setdefault(word, [])
            known += [box for box in more if box not in known]
    _require_room(len(gathered), options)
    records = []
    for picture, entry in gathered.items():
        try:
            value = resized_picture(pixels_of(picture), tuple(entry.captions), entry.boxes, options, picture)
        except ValueError as error:
            what = str(error)
            problems.append(Problem(entry.where, f"unreadable picture: {what}" if what.startswith(picture) else what))
        else:
            records.append(Record(entry.where, value))
    problems.sort(key=lambda problem: int(problem.where.rpartition(":")[2]))
    unused = [picture for picture in folder.pictures if picture not in gathered]
    if unused:
        count = f"{len(unused):,} picture{'s have' if len(unused) > 1 else ' has'} no caption in {path}"
        notes.append(f"{count}, such as {os.path.relpath(unused[0], folder.folder)}")
    return Found(tuple(records), tuple(problems), tuple(notes))


def _in_memory(data: Any, options: PictureOptions) -> Found[CaptionedPicture]:
    """Rows of (picture, caption); a picture is a path, a Pillow image or an array. Equal pixels are one picture."""
    rows = list(rows_of(data, ("picture", "caption"), options.names or ("picture", "caption")))
    _require_room(len(rows), options)
    problems: list[Problem] = []
    pictures: dict[str, tuple[str, CaptionedPicture]] = {}
    for number, row in enumerate(rows, 1):
        where = f"row {number}"
        try:
            require(len(row) == 2, f"expected 2 values (picture, caption), found {len(row)}.")
            require(isinstance(row[1], str) and bool(row[1].strip()), "empty caption. Fill it in, or take the row out.")
            pixels = pixels_of(row[0])
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        name = os.fspath(row[0]) if isinstance(row[0], str | os.PathLike) else where
        picture = CaptionedPicture(name, fit_square(pixels, options.size, options.resize), (row[1].strip(),))
        first, before = pictures.setdefault(picture.digest, (where, picture))
        if before is not picture:
            whole = CaptionedPicture(before.name, before.pixels, (*before.captions, *picture.captions))
            pictures[picture.digest] = first, whole
    return Found(tuple(Record(*pair) for pair in pictures.values()), tuple(problems))


# The captions file


def captions_files(folder: str) -> list[str]:
    """The names of all captions files of a folder; none if it is no folder."""
    folder = os.path.expanduser(folder)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [name for name in names if name.lower().removesuffix(".gz") in CAPTION_FILES]


def captions_file(place: str) -> str:
    """The captions file of a folder; a file is taken as it is."""
    place = os.path.expanduser(place)
    if not os.path.isdir(place):
        return place  # whoever opens it says what is wrong with it
    names = captions_files(place)
    known = f"{', '.join(CAPTION_FILES[:-1])} or {CAPTION_FILES[-1]}"
    require(
        bool(names),
        f"{place}: no captions file. The folder must have pictures and {known} with a line name,caption for each.",
    )
    require(
        len(names) == 1,
        f"{place}: several captions files ({', '.join(names)}). Keep one, or give the file itself as --data.",
    )
    return os.path.join(place, names[0])


Line = tuple[str, str, str, Mapping[str, list[Box]]]  # where it is, the name, the caption, the boxes of its words


def _table_lines(path: str, options: PictureOptions) -> tuple[list[Line], list[Problem], list[str]]:
    """The lines of a table of names and captions, without its header, and what was recognized."""
    read = read_records(path, COLUMNS, options)
    records, notes = list(read.records), list(read.notes)
    if records and not options.names:  # a usual name of the column, or no file where all the others are
        names = [record.value[0] for record in records]
        words = words_of(names[0])
        usual = bool(words) and all(is_one_of(word, ALIASES["name"]) for word in words)
        home = os.path.dirname(path) or "."
        if usual or is_file_header(names, lambda name: PictureFolder(home).find(name)[0]):
            name, caption = records.pop(0).value
            notes.append(f"{path}: header: name is {name}, caption is {caption}")
    lines: list[Line] = [(r.where, NUMBERED.sub("", r.value[0]), r.value[1], {}) for r in records]
    problems = []
    for problem in read.problems:
        what = problem.what.replace("no text for caption", "empty caption")
        problems.append(Problem(problem.where, what.replace("no text for name", "no name of a picture")))
    return lines, problems, notes


def _json_lines(path: str, options: PictureOptions) -> tuple[list[Line], list[Problem], list[str]]:
    """The objects of a file: name, caption, and where words are: boxes, if it has any; and which keys these are."""
    lines: list[Line] = []
    problems: list[Problem] = []
    objects = json_objects(path, options.encoding)
    sample = list(islice(objects, SAMPLE))
    try:
        keys, note = key_columns(plain_keys(sample), COLUMNS, options.names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    for number, value, fault in chain(sample, objects):
        where = f"{path}:{number}"
        if value is None and not fault:
            continue
        try:
            require(not fault, fault)
            name, caption = (_text_at(value, key, word) for key, word in zip(keys, COLUMNS, strict=True))
            boxes = boxes_of(value.get("boxes") or {})
        except ValueError as error:
            problems.append(Problem(where, str(error)))
        else:
            lines.append((where, NUMBERED.sub("", name), caption, boxes))
    return lines, problems, [f"{path}: keys: {note}"] if note else []


def _text_at(value: dict[str, Any], key: str, word: str) -> str:
    """A text of an object."""
    known = flat(value)
    has = ", ".join(map(repr, value)) or "nothing"
    require(key in known, f"no {key!r} in the object. It has {has}. columns=NAME,CAPTION says which keys to read.")
    text = known[key]
    got = "a list" if isinstance(text, list) else repr(text)  # what a list holds is not kept
    require(type(text) is str, f"{word} must be a text: got {got}")
    kind = "empty caption" if word == "caption" else "no name of a picture"
    require(bool(text.strip()), f"{kind}. Fill it in, or take the record out.")
    return text.strip()


def boxes_of(value: Any) -> dict[str, list[Box]]:
    """The boxes of words: {word: [x0, y0, x1, y1]}, or a list of such boxes where a word is seen several times.

    >>> boxes_of({"Dog": [3, 4, 10, 12]})
    {'dog': [(3.0, 4.0, 10.0, 12.0)]}
    """
    require(isinstance(value, dict), f"boxes must be an object {{word: [x0, y0, x1, y1]}}: got {value!r}")
    boxes: dict[str, list[Box]] = {}
    for word, given in value.items():
        several = isinstance(given, list) and bool(given) and all(isinstance(box, list) for box in given)
        boxes[word.strip().lower()] = [_one_box(word, box) for box in (given if several else [given])]
    return boxes


def _one_box(word: str, given: Any) -> Box:
    """Four numbers, the smaller ones first."""
    try:
        require(isinstance(given, list) and not any(isinstance(x, bool | type(None)) for x in given), "")
        x0, y0, x1, y1 = map(float, given)
        require(x0 < x1 and y0 < y1 and all(map(isfinite, (x0, y0, x1, y1))), "")
    except (ValueError, TypeError):
        shown = "[" + ", ".join(map(str, given)) + "]" if isinstance(given, list) else repr(given)
        raise ValueError(
            f"the box of {word!r} must be [x0, y0, x1, y1] in pixels, with x0 < x1 and y0 < y1: got {shown}"
        ) from None
    return x0, y0, x1, y1


# The pictures


def _require_room(count: int, options: PictureOptions) -> None:
    """Require that all pictures fit into the memory that they may take."""
    needed = count * options.size**2 * 3 / 1e9
    require(
        needed <= options.memory,
        f"{count:,} pictures of {options.size} x {options.size} pixels take {needed:.1f} GB of memory, more than "
        f"memory={options.memory:g}. Give a smaller size=, or allow more with memory={needed + 0.1:.1f}",
    )


def resized_picture(
    pixels: Pixels, captions: tuple[str, ...], boxes: Mapping[str, list[Box]], options: PictureOptions, name: str
) -> CaptionedPicture:
    """A picture of any size, and boxes in its pixels, in the size that the model reads; what a crop cuts off is dropped."""
    square = fit_square(pixels, options.size, options.resize)
    height, width = pixels.shape[:2]
    place = placed(height, width, options.size, options.resize)
    moved_boxes: dict[str, tuple[Box, ...]] = {}
    for word, several in boxes.items():
        for x0, y0, x1, y1 in several:
            require(
                x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height,
                f"the box of {word!r} lies outside of the picture of {width} x {height} pixels: "
                f"got [{x0:g}, {y0:g}, {x1:g}, {y1:g}]",
            )
        moved = (place.box(box) for box in several)
        seen = tuple(box for box in moved if box[0] < box[2] and box[1] < box[3])
        if seen:
            moved_boxes[word] = seen
    return CaptionedPicture(name, square, captions, moved_boxes)


def repeated_in_training(train: Sequence[CaptionRecord], others: Sequence[CaptionRecord]) -> list[Problem]:
    """Pictures to be measured with that are learned from under other captions; others are reported elsewhere."""
    known = {record.value.digest: record for record in train}
    problems = []
    for record in others:
        there = known.get(record.value.digest)
        if there is not None and there.value.identity != record.value.identity:
            what = f"the same picture is in the training data: {there.where}. Take it out of one of them."
            problems.append(Problem(record.where, what))
    return problems
