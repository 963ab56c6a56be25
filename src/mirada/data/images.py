"""Pictures with labels, from wherever they are.

FOLDER/cat/1.jpg, ... | IMAGES,LABELS (idx) | FILE.npz | {"images": ..., "labels": ...} | [(picture, label), ...]
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirada.data.idx import read_idx
from mirada.data.npz import ArrayError, read_arrays
from mirada.data.picture_file import ENDINGS, Box
from mirada.data.picture_set import Picture
from mirada.data.record import Found, Problem, Record
from mirada.data.text import near, opened
from mirada.errors import require
from mirada.files import expanded

FORMS = "a folder with a folder per class, two idx files IMAGES,LABELS, or a FILE.npz with images and labels"
ARRAYS = ("images", "labels")  # of the npz form
NUMBERED = re.compile(r"(.+):(\d+)")  # one picture of a file with many


@dataclass(frozen=True, eq=False)
class LabelledPicture:
    """A picture, what it shows, and where in it that is, if that is known: left, top, right, bottom in its pixels."""

    picture: Picture
    label: str
    box: Box | None = None


Labelled = Record[LabelledPicture]


def read_images(place: Any) -> Found[LabelledPicture]:
    """The labelled pictures of a place: a path, or data in memory. Pictures are opened here, and decoded when looked at.

    >>> found = read_images({"images": np.zeros((2, 8, 8), np.uint8), "labels": ["cat", "dog"]})
    >>> [(record.where, record.value.label) for record in found.records]
    [('row 1', 'cat'), ('row 2', 'dog')]
    """
    if not isinstance(place, str):
        return in_memory(place)
    path = os.path.expanduser(place)
    if os.path.isdir(path):
        return from_folders(place)
    if "," in place and not os.path.exists(path):
        images, labels, path = idx_pair(place)
        return Found(numbered(images, labels, lambda row: f"{path}:{row}"))
    if place.lower().endswith(".npz"):
        return Found(numbered(*npz_arrays(place), lambda row: f"{place}:{row}"))
    require(os.path.exists(path), f"{place}: no such file or folder. {near(path)}")
    raise ValueError(f"{place}: a file whose form is unknown. Give {FORMS}.")


# folders


def from_folders(place: str) -> Found[LabelledPicture]:
    """A folder of class folders; whatever is in one of them, at any depth, is a picture of that class."""
    folder = expanded(place)
    classes = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    require(
        bool(classes),
        f"{place}: there is no folder in it. Pictures to learn from are in a folder per class, such as {place}/cat/1.jpg.",
    )
    loose = [path for path in files_in(folder, deep=False) if path.suffix.lower() in ENDINGS]
    records: list[Labelled] = []
    problems = [
        Problem(str(path), "a picture beside the class folders. Put it into the folder of its class.") for path in loose
    ]
    for home in classes:
        paths = files_in(home)
        if not paths:
            problems.append(Problem(str(home), "a class without pictures. Put some there, or remove the folder."))
        for path in paths:
            found = opened_picture(str(path))
            if isinstance(found, Problem):
                problems.append(found)
            else:
                records.append(Record(str(path), LabelledPicture(found, home.name)))
    return Found(records, problems)


def files_in(folder: Path, deep: bool = True) -> list[Path]:
    """The files of a folder, but for hidden ones and what file managers leave behind."""
    found = folder.rglob("*") if deep else folder.iterdir()
    return sorted(path for path in found if path.is_file() and not is_hidden(path.relative_to(folder)))


def is_hidden(path: Path) -> bool:
    return path.name.lower() in ("thumbs.db", "desktop.ini") or any(part.startswith(".") for part in path.parts)


def opened_picture(given: Any, where: str = "") -> Picture | Problem:
    """A picture, or what is wrong with it; the place is told once."""
    try:
        return Picture(given, where)
    except ValueError as error:
        if where in ("", str(given)):
            return Problem(str(given), str(error).removeprefix(f"{given}: "))
        return Problem(where, str(error))


def unlabelled(place: str) -> list[tuple[str, Picture | Problem]]:
    """The pictures of a place that needs no labels, each with a name: files of a folder, or all of an idx or npz file."""
    path = os.path.expanduser(place)
    if os.path.isdir(path):
        folder = Path(path)
        found = [(str(file.relative_to(folder)), opened_picture(str(file))) for file in files_in(folder)]
        require(bool(found), f"{place}: there is no file in it. Give a folder of pictures.")
        return found
    if place.lower().endswith(".npz"):
        images = read_npz(place, ARRAYS[:1])["images"]
    elif is_idx(place.split(",")[0].strip()):
        place = place.split(",")[0].strip()
        images = read_idx(place)
    else:
        return [(os.path.basename(place), opened_picture(place))]
    check_images(images, place)
    names = [f"{place}:{row}" for row in range(1, len(images) + 1)]
    return [(name, Picture(image, name)) for name, image in zip(names, images, strict=True)]


def numbered_picture(text: str) -> Picture | None:
    """Picture 17 of a file with many, for a text such as FILE.npz:17; None if it is no such text."""
    found = NUMBERED.fullmatch(text)
    place = found.group(1) if found else ""
    if (
        not found
        or not os.path.isfile(os.path.expanduser(place))
        or not (place.lower().endswith(".npz") or is_idx(place))
    ):
        return None
    images, number = (
        (read_npz(place, ARRAYS[:1])["images"] if place.lower().endswith(".npz") else read_idx(place)),
        int(found.group(2)),
    )
    check_images(images, place)
    require(1 <= number <= len(images), f"{place} has pictures 1 to {len(images):,}: there is no {number}")
    return Picture(images[number - 1], text)


def is_idx(place: str) -> bool:
    """Whether a file begins as an idx file does."""
    try:
        with opened(place) as file:
            return file.read(3) == b"\0\0\x08"
    except ValueError:
        return False


# arrays


def idx_pair(place: str) -> tuple[np.ndarray, list[str], str]:
    """The pictures and labels of two idx files, in whichever order they are given, and the file of the pictures."""
    paths = [part.strip() for part in place.split(",")]
    require(len(paths) == 2, f"{place}: two idx files have one comma between them: IMAGES,LABELS")
    (images, path), (labels, other) = sorted(((read_idx(p), p) for p in paths), key=lambda pair: -pair[0].ndim)
    require(labels.ndim == 1, f"{other}: labels have one axis, and it has {labels.ndim}. Give IMAGES,LABELS.")
    require(
        images.ndim in (3, 4),
        f"{path}: pictures have the axes (n, height, width), and it has {images.ndim}. Give IMAGES,LABELS.",
    )
    check_arrays(images, labels, path, f"{path} has", f"{other} has ")
    return images, [str(label) for label in labels.tolist()], path


def npz_arrays(path: str) -> tuple[np.ndarray, list[str]]:
    """The arrays of a file: images (n, height, width[, channels]) of bytes, and labels."""
    found = read_npz(path, ARRAYS)
    images, labels = (found[name] for name in ARRAYS)
    check_arrays(images, labels, path)
    return images, [str(label) for label in names_of(labels, path)]


def read_npz(path: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some arrays of an npz file."""
    try:
        return read_arrays(path, names)
    except ArrayError as error:
        raise ValueError(
            f"{path}: its arrays cannot be read: {error.name}: {error}. Save plain arrays of numbers and texts."
        ) from None


def check_images(images: np.ndarray, where: str) -> None:
    """Require pictures of bytes."""
    if images.dtype != np.uint8:
        bad = ", with NaN" if images.dtype.kind == "f" and np.isnan(images).any() else ""
        raise ValueError(
            f"{where}: images must be uint8, 0 to 255: got {images.dtype}{bad}. "
            "Convert them, such as (255 * images).round().astype('uint8') for shares of 1."
        )
    fits = images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3, 4))
    require(
        fits and min(images.shape[1:]) > 0,
        f"{where}: images must be (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels: "
        f"got shape {images.shape}",
    )
    require(len(images) > 0, f"{where}: there are no pictures")


def check_arrays(
    images: np.ndarray, labels: np.ndarray, where: str, images_have: str = "there are", labels_have: str = ""
) -> None:
    """Require pictures of bytes, and a label for each."""
    check_images(images, where)
    require(labels.ndim > 0, f"{where}: labels must have one axis: got shape {labels.shape}")
    require(
        len(images) == len(labels),
        f"{where}: every picture needs a label: {images_have} {len(images):,} pictures and "
        f"{labels_have}{len(labels):,} labels",
    )


def names_of(labels: np.ndarray, where: str) -> list[Any]:
    """Labels as an array holds them: whole numbers or texts."""
    require(labels.ndim == 1, f"{where}: labels must have one axis: got shape {labels.shape}")
    require(
        labels.dtype.kind in "iubUS",
        f"{where}: labels must be whole numbers or texts: got {labels.dtype}. Convert them, such as labels.astype(int).",
    )
    names = labels.tolist()
    return [name.decode(errors="replace") for name in names] if labels.dtype.kind == "S" else names


def numbered(images: np.ndarray, labels: Iterable[str], where: Any) -> list[Labelled]:
    """A record for each picture of an array, numbered from 1."""
    names = [where(row) for row in range(1, len(images) + 1)]
    rows = zip(names, images, labels, strict=True)
    return [Record(name, LabelledPicture(Picture(image, name), label)) for name, image, label in rows]


# memory


def in_memory(data: Any) -> Found[LabelledPicture]:
    """Arrays by name as in an npz file, or rows (picture, label): a path, an array or a Pillow image, and its label."""
    if isinstance(data, Mapping):
        missing = [name for name in ARRAYS if name not in data]
        require(not missing, f"data in memory needs images and labels: there is no {' and no '.join(missing)}")
        images, labels = np.asarray(data["images"]), np.asarray(data["labels"])
        check_arrays(images, labels, "the data")
        return Found(numbered(images, map(str, names_of(labels, "the data")), lambda row: f"row {row}"))
    require(
        isinstance(data, Iterable) and not isinstance(data, bytes | np.ndarray),
        f"data in memory must be rows of (picture, label), or a dict with images and labels: got {type(data).__name__}",
    )
    records: list[Labelled] = []
    problems: list[Problem] = []
    for number, row in enumerate(data, 1):
        found = labelled_row(row, f"row {number}")
        if isinstance(found, Problem):
            problems.append(found)
        else:
            records.append(found)
    return Found(records, problems)


def labelled_row(row: Any, where: str) -> Labelled | Problem:
    """A record of (picture, label), or what is wrong with it."""
    values = row if isinstance(row, list | tuple) else (row,)
    if len(values) != 2:
        return Problem(where, f"expected 2 values (picture, label), found {len(values)}.")
    given, label = values
    if not isinstance(label, str | int | np.integer) or not str(label).strip():
        return Problem(where, f"a label is a text or a whole number: got {label!r}.")
    found = opened_picture(given, where)
    return found if isinstance(found, Problem) else Record(where, LabelledPicture(found, str(label)))
