"""Pictures with labels, from wherever they are.

FOLDER/cat/1.jpg, ... | IMAGES,LABELS (idx) | FILE.npz | FILE.csv with a column per pixel
{"images": ..., "labels": ...} | [(picture, label), ...]
"""

import hashlib
import os
import re
import struct
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Num, UInt8
from PIL import Image

from mirada.data.files.forms import NPZ, PICTURES, form_of
from mirada.data.files.npz import ArrayError, read_arrays
from mirada.data.files.opening import near, opened
from mirada.data.image import GRAY, WAYS, Box, Pixels, Placement, fit_square, header_of, pixels_of, placed
from mirada.data.preprocessing import Preprocessing
from mirada.data.record import Found, Problem, Record
from mirada.errors import require
from mirada.files import expanded
from mirada.tasks.recognize.tables import PixelColumns, pixel_columns, pixel_row, read_pixel_table
from mirada.words import plural

# Many pictures of any kinds and sizes, brought to one form: decoded once, kept as bytes, with a bound on memory.


Square = UInt8[np.ndarray, "size size channels"]
Squares = UInt8[np.ndarray, "n size size channels"]
Numbers = Float[np.ndarray, "n channels size size"]
HALF = np.float32(127.5)  # of what a byte holds
SMALLEST, SMALL, FINE, LARGEST = 8, 16, 40, 64  # sizes that are chosen, in multiples of 2, 4 and 8: see `default_patch`
DECODERS = 4  # threads: most of the work is done outside of Python
LUMA = np.array([299, 587, 114], np.uint32)  # how bright red, green and blue are, in thousandths: Rec. 601, as Pillow


def scaled_pixels(squares: Squares) -> Numbers:
    """Bytes as numbers from -1 to 1, channels first.

    >>> scaled_pixels(np.array([[[[0], [255]], [[51], [204]]]], np.uint8)).round(2).tolist()
    [[[[-1.0, 1.0], [-0.6..., 0.6...]]]]
    """
    whole = np.empty((len(squares), squares.shape[3], *squares.shape[1:3]), np.float32)
    np.multiply(squares.transpose(0, 3, 1, 2), 1 / HALF, out=whole)
    whole -= 1
    return whole


@dataclass(frozen=True)
class Fitting:
    """What a model sees of a picture: a square of `size` pixels, gray (1 channel) or in color (3).

    Models from elsewhere see it as their `Preprocessing` says, which answers the same questions.

    Of arrays of other numbers than bytes, `scale` are those that are black and white; None: 0 and 1.
    """

    size: int
    channels: int
    way: str = "pad"
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        fits, got = self.size >= 1 and self.channels in (1, 3), f"size={self.size}, channels={self.channels}"
        require(fits, f"a picture is seen as a square of 1 or 3 channels: got {got}")
        require(self.way in WAYS, f"a picture is fitted by {', '.join(WAYS)}: got {self.way!r}")

    def of(self, pixels: Pixels) -> Square:
        """What is seen of these pixels."""
        square = fit_square(pixels, self.size, self.way)
        return square if self.channels == 3 else brightness(square)

    def bytes_of(
        self, numbers: Num[np.ndarray, "height width *channels"]
    ) -> UInt8[np.ndarray, "height width *channels"]:
        """Numbers as bytes, by the scale. Without one, bytes were learned from: whole numbers up to 255 are such.

        >>> Fitting(2, 1, scale=(0.0, 16.0)).bytes_of(np.array([[0, 4], [16, 20]])).tolist()
        [[0, 64], [255, 255]]
        >>> Fitting(2, 1).bytes_of(np.array([[0.0, 4.0], [16.0, 20.0]])).tolist()
        [[0, 4], [16, 20]]
        """
        low, high = (numbers.min(), numbers.max()) if numbers.size else (0, 0)
        if self.scale is None and low >= 0 and 1 < high <= 255 and np.array_equal(numbers, np.rint(numbers)):
            return numbers.astype(np.uint8)
        if self.scale is None:
            return pixels_of(numbers)
        low, high = self.scale
        return np.rint(np.clip((numbers - low) * (255 / max(high - low, 1e-12)), 0, 255)).astype(np.uint8)

    def numbers(self, squares: Squares) -> Numbers:
        """Bytes as the numbers that a model reads: from -1 to 1, channels first."""
        return scaled_pixels(squares)

    def of_unit(self, unit: Numbers) -> Numbers:
        """The same of numbers from -1 to 1, which pictures are that were changed."""
        return unit

    def placed(self, height: int, width: int) -> Placement:
        """Where the pixels of a picture went in what is seen of it."""
        return placed(height, width, self.size, self.way)

    def room(self, pictures: int) -> int:
        """The bytes that so many pictures take."""
        return pictures * self.size * self.size * self.channels


Seeing = Fitting | Preprocessing  # what a model sees of a picture


@dataclass(eq=False)
class Picture:
    """A picture of a file or in memory: its sides, and what is seen of it, which is kept as it was asked for last.

    A path is opened when this is made, and decoded when it is looked at; either is a ValueError if it cannot be read.

    >>> picture = Picture(np.zeros((4, 6), np.uint8))
    >>> picture
    Picture(name='a picture of 4 x 6', height=4, width=6, gray=True)
    >>> picture.seen(Fitting(2, 1)).shape
    (2, 2, 1)
    """

    given: Any = field(repr=False)  # a path, an array, or a Pillow image
    name: str = ""
    height: int = 0
    width: int = 0
    gray: bool = False
    _kept: tuple[Seeing, Square] | None = field(default=None, repr=False)
    _identity: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.given, str | Path):
            header, self.name = header_of(self.given), self.name or str(self.given)
            self.height, self.width, self.gray = header.height, header.width, header.gray
            return
        gray = self.given.mode in GRAY if isinstance(self.given, Image.Image) else None
        plain = isinstance(self.given, np.ndarray) and self.given.ndim > 1 and self.given.dtype.kind in "uif"
        if not plain or 0 in self.given.shape or self.given.shape[2:] not in ((), (1,), (3,)):
            self.given = pixels_of(self.given)
        elif self.has_numbers and not np.isfinite(self.given).all():
            raise ValueError(f"{self.name or 'the picture'}: a pixel is NaN or infinite. Replace it by a number.")
        self.height, self.width = self.given.shape[:2]
        self.gray = self.given.shape[2:] in ((), (1,)) if gray is None else gray
        self.name = self.name or f"a picture of {self.height} x {self.width}"

    def __str__(self) -> str:
        return self.name

    @property
    def has_numbers(self) -> bool:
        """Whether it is an array of other numbers than bytes, which have to be scaled."""
        return isinstance(self.given, np.ndarray) and self.given.dtype != np.uint8

    def seen(self, fitting: Seeing) -> Square:
        """What a model sees of it."""
        if self._kept is None or self._kept[0] != fitting:
            self._kept = (fitting, self._fitted(fitting))
        return self._kept[1]

    def _fitted(self, fitting: Seeing) -> Square:
        """The pixels as a model sees them."""
        if isinstance(fitting, Preprocessing):
            return fitting.of(pixels_of(self.given))
        given = fitting.bytes_of(self.given) if self.has_numbers else self.given
        array = given[..., None] if getattr(given, "ndim", 0) == 2 else given
        fits = getattr(array, "shape", ()) == (fitting.size, fitting.size, fitting.channels)
        return array if fits else fitting.of(pixels_of(given))

    def keep(self, fitting: Seeing, square: Square) -> None:
        """Keep pixels that are in a larger array, and release the old ones."""
        self._kept = (fitting, square)

    @property
    def identity(self) -> bytes:
        """What tells it from other pictures: the bytes of its file, or its pixels."""
        if not self._identity:
            digest = hashlib.blake2b(digest_size=16)
            if isinstance(self.given, np.ndarray):
                digest.update(repr(self.given.shape).encode() + self.given.tobytes())
            else:
                with opened(self.given) as file:
                    digest.update(file.read())
            self._identity = digest.digest()
        return self._identity


def brightness(pixels: UInt8[np.ndarray, "*places 3"]) -> UInt8[np.ndarray, "*places 1"]:
    """How bright colors are; gray stays what it is.

    >>> brightness(np.array([[7, 7, 7], [255, 0, 0]], np.uint8)).tolist()
    [[7], [76]]
    """
    return ((pixels @ LUMA + 500) // 1000).astype(np.uint8)[..., None]


def brightness_scale(pictures: Sequence[Picture]) -> tuple[float, float] | None:
    """Which numbers are black and white in the arrays among some pictures that hold other numbers than bytes.

    From 0 to 1 or 255 where these are what such numbers usually mean, else from the smallest (or 0) to the largest.

    >>> brightness_scale([Picture(np.array([[0.0, 7.0], [16.0, 2.0]]))]), brightness_scale([Picture(np.ones((2, 2)))])
    ((0.0, 16.0), (0.0, 1.0))
    """
    arrays = [picture.given for picture in pictures if picture.has_numbers]
    if not arrays:
        return None
    low, high = float(min(map(np.min, arrays))), float(max(map(np.max, arrays)))
    if low < 0:
        return (-1.0, 1.0) if low >= -1 and high <= 1 else (low, high)
    return 0.0, 1.0 if high <= 1 else 255.0 if 128 <= high <= 255 else high


def default_size(pictures: Sequence[Picture], multiple: int = 0) -> int:
    """The side of the square that suits some pictures: the median of their longer sides, 8 to 64 pixels.

    It is a multiple of `multiple`, or else of what divides it into few patches: 2 up to 16 pixels, 4 up to 40, then 8.

    >>> default_size([Picture(np.zeros((8, 8), np.uint8))]), default_size([Picture(np.zeros((480, 600), np.uint8))])
    (8, 64)
    """
    longest = sorted(max(each.height, each.width) for each in pictures)
    wanted = min(max(longest[len(longest) // 2], SMALLEST), LARGEST)
    step = multiple or (2 if wanted <= SMALL else 4 if wanted <= FINE else 8)
    return max(1, round(wanted / step)) * step


def describe_sizes(pictures: Sequence[Picture], fitting: Fitting | None) -> str:
    """How many sizes there are, and what becomes of them, in words; None: what the model to start from wants.

    >>> describe_sizes([Picture(np.zeros((9, 16), np.uint8)), Picture(np.zeros((8, 8), np.uint8))], Fitting(32, 1))
    'gray pictures of 2 sizes, 8 x 8 to 9 x 16: scaled to 32 x 32, those that are not square padded at their borders'
    """
    sides = sorted({(each.height, each.width) for each in pictures}, key=lambda pair: (pair[0] * pair[1], pair))
    gray = all(picture.gray for picture in pictures) if fitting is None else fitting.channels == 1
    kind = "gray pictures" if gray else "pictures in color"
    least, most = (f"{high} x {wide}" for high, wide in (sides[0], sides[-1]))
    kind += f" of {least}" if len(sides) == 1 else f" of {len(sides):,} sizes, {least} to {most}"
    if fitting is None:
        return f"{kind}: read as the model to start from reads them"
    if fitting.scale is not None:
        kind += f", numbers from {fitting.scale[0]:g} (black) to {fitting.scale[1]:g} (white)"
    if sides == [(fitting.size, fitting.size)]:
        return kind
    done = f"{kind}: scaled to {fitting.size} x {fitting.size}"
    if all(high == wide for high, wide in sides):
        return done
    how = {"pad": "padded at their borders", "crop": "cropped to their middle", "stretch": "stretched"}[fitting.way]
    return f"{done}, those that are not square {how}"


def require_room(pictures: int, fitting: Seeing, gigabytes: float) -> None:
    """Require pictures that fit into so much memory."""
    needed = fitting.room(pictures) / 1e9
    require(
        needed <= gigabytes,
        f"{pictures:,} pictures of {fitting.size} x {fitting.size} take {needed:.1f} GB, and at most {gigabytes:g} GB are kept. "
        "Give a smaller size=, fewer pictures, or more memory=.",
    )


def decode_all(pictures: Sequence[Picture], fitting: Seeing) -> dict[int, str]:
    """Decode pictures and keep them; returns the reasons why some cannot be decoded, by their number."""

    def fault(picture: Picture) -> str:
        try:
            picture.seen(fitting)
        except ValueError as error:
            return str(error)
        return ""

    files = [row for row, picture in enumerate(pictures) if not isinstance(picture.given, np.ndarray)]
    with warnings.catch_warnings(), ThreadPoolExecutor(DECODERS) as pool:  # threads would restore each other's filters
        faults = pool.map(lambda row: fault(pictures[row]), files)
        return {row: text for row, text in zip(files, faults, strict=True) if text}


def stack_pictures(pictures: Sequence[Picture], fitting: Seeing) -> Squares:
    """What is seen of some pictures, as one array, in which they keep it from now on."""
    whole = np.empty((len(pictures), fitting.size, fitting.size, fitting.channels), np.uint8)
    for square, picture in zip(whole, pictures, strict=True):
        square[:] = picture.seen(fitting)
        picture.keep(fitting, square)
    return whole


# Arrays in idx files, the format of MNIST: a header with the sizes, then one byte per number; plain or gzipped.


BYTES = 0x08  # the type that pictures and labels have; others are numbers of several bytes
MOST_AXES = 4
MOST_BYTES = 16 << 30  # a damaged header may ask for anything


def read_idx(path: str | Path) -> UInt8[np.ndarray, "*axes"]:
    """The array of a file: two zero bytes, the type, the number of axes, their sizes as 32-bit numbers, then the bytes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "labels")
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + b"abc")
    >>> read_idx(path)
    array([97, 98, 99], dtype=uint8)

    LeCun, Cortes and Burges, http://yann.lecun.com/exdb/mnist.
    """
    with opened(path) as file:
        start = file.read(4)
        known, begins = len(start) == 4 and start[:2] == b"\0\0" and 1 <= start[3] <= MOST_AXES, start.hex(" ")
        require(known, f"{path}: not an idx file: it begins with {begins}, not with 00 00 08. Is it of MNIST's form?")
        require(start[2] == BYTES, f"{path}: an idx file of type 0x{start[2]:02x}: only bytes (0x08) are read.")
        header = file.read(4 * start[3])
        complete = len(header) == 4 * start[3]
        require(complete, f"{path}: the idx file is cut short: it ends within its header. Copy it again.")
        sizes = struct.unpack(f">{start[3]}I", header)
        wanted = int(np.prod(sizes, dtype=object))
        by = " x ".join(f"{size:,}" for size in sizes)
        require(wanted <= MOST_BYTES, f"{path}: the idx file claims {by} bytes, which is too much. Is it damaged?")
        content = file.read(wanted + 1)
    has = "more" if len(content) > wanted else f"{len(content):,}"
    require(
        len(content) == wanted,
        f"{path}: the idx file must have {by} bytes after its header: it has {has}. Copy or download it again.",
    )
    return np.frombuffer(content, np.uint8).reshape(sizes)


FORMS = (
    "a folder with a folder per class, two idx files IMAGES,LABELS, a FILE.npz with images and labels, or a table with a column "
    "for every pixel"
)
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
        return _in_memory(place)
    path = os.path.expanduser(place)
    if os.path.isdir(path):
        return _from_folders(place)
    if "," in place and not os.path.exists(path):
        images, labels, path = _idx_pair(place)
        return Found(_labelled_array(images, labels, path, lambda row: f"{path}:{row}"))
    if form_of(place) is NPZ:
        arrays = _read_npz(place, ARRAYS)
        return Found(_labelled_array(arrays["images"], arrays["labels"], place, lambda row: f"{place}:{row}"))
    require(os.path.exists(path), f"{place}: no such file or folder. {near(path)}")
    if columns := pixel_columns(place):
        return _from_table(place, columns)
    raise ValueError(f"{place}: a file whose form is unknown. Give {FORMS}.")


def _from_table(place: str, columns: PixelColumns) -> Found[LabelledPicture]:
    """The labelled pictures of a table of pixels."""
    require(
        columns.label >= 0,
        f"{place}: {columns.count} columns are {columns.side} x {columns.side} pixels and no class: add a column of classes.",
    )
    table = read_pixel_table(place, columns)
    rows = zip(table.where, table.images, table.labels, strict=True)
    records = [Record(where, LabelledPicture(Picture(image, where), label)) for where, image, label in rows]
    name = repr(columns.name) if columns.name else f"number {columns.label + 1}"
    note = f"{place}: {columns.side} x {columns.side} pixels in every row, the class in column {name}"
    return Found(records, table.problems, [note])


# folders


def _from_folders(place: str) -> Found[LabelledPicture]:
    """A folder of class folders; whatever is in one of them, at any depth, is a picture of that class."""
    folder = expanded(place)
    classes = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    require(
        bool(classes),
        f"{place}: there is no folder in it. Pictures to learn from are in a folder per class, such as {place}/cat/1.jpg.",
    )
    loose = [path for path in _files_in(folder, deep=False) if path.suffix.lower() in PICTURES.endings]
    what = "a picture beside the class folders. Put it into the folder of its class."
    rows: list[Labelled | Problem] = [Problem(str(path), what) for path in loose]
    for home in classes:
        paths = _files_in(home)
        if not paths:
            rows.append(Problem(str(home), "a class without pictures. Put some there, or remove the folder."))
        rows += [_labelled(_opened_picture(str(path)), home.name, str(path)) for path in paths]
    return _found(rows)


def _labelled(picture: Picture | Problem, label: str, where: str) -> Labelled | Problem:
    """The record of a picture that could be opened."""
    return picture if isinstance(picture, Problem) else Record(where, LabelledPicture(picture, label))


def _found(rows: Sequence[Labelled | Problem]) -> Found[LabelledPicture]:
    """The good records, and the problems."""
    return Found([row for row in rows if isinstance(row, Record)], [row for row in rows if isinstance(row, Problem)])


def _files_in(folder: Path, deep: bool = True) -> list[Path]:
    """The files of a folder, but for hidden ones and what file managers leave behind."""
    files = (path for path in (folder.rglob("*") if deep else folder.iterdir()) if path.is_file())
    shown = (path for path in files if path.name.lower() not in ("thumbs.db", "desktop.ini"))
    return sorted(path for path in shown if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _opened_picture(given: Any, where: str = "") -> Picture | Problem:
    """A picture, or what is wrong with it; the message names its place once."""
    try:
        return Picture(given, where)
    except ValueError as error:
        if where in ("", str(given)):
            return Problem(str(given), str(error).removeprefix(f"{given}: "))
        return Problem(where, str(error))


def read_unlabelled(place: str) -> list[tuple[str, Picture | Problem]]:
    """The pictures of a place that needs no labels, each with a name: files of a folder, or all of an idx or npz file, or of
    a table of pixels.
    """
    path = os.path.expanduser(place)
    if os.path.isdir(path):
        folder = Path(path)
        pictures = [(str(file.relative_to(folder)), _opened_picture(str(file))) for file in _files_in(folder)]
        require(bool(pictures), f"{place}: there is no file in it. Give a folder of pictures.")
        return pictures
    if columns := pixel_columns(place):
        table = read_pixel_table(place, columns)
        rows = {where: Picture(image, where) for where, image in zip(table.where, table.images, strict=True)}
        every = rows | {problem.where: problem for problem in table.problems}
        return sorted(every.items(), key=lambda row: int(row[0].rpartition(":")[2]))  # as they stand in the file
    archive = place if form_of(place) is NPZ else place.split(",")[0].strip()
    images = _images_of_archive(archive)
    if images is None:
        return [(os.path.basename(place), _opened_picture(place))]
    names = [f"{archive}:{row}" for row in range(1, len(images) + 1)]
    return [(name, Picture(image, name)) for name, image in zip(names, images, strict=True)]


def picture_of_archive(text: str) -> Picture | None:
    """Picture 17 of a file with many, for a text such as FILE.npz:17; of a table that in line 17. None if it is no such text."""
    match = NUMBERED.fullmatch(text)
    if not match or not os.path.isfile(os.path.expanduser(match.group(1))):
        return None
    place, number = match.group(1), int(match.group(2))
    if columns := pixel_columns(place):
        return Picture(pixel_row(place, columns, number), text)
    images = _images_of_archive(place)
    if images is None:
        return None
    require(1 <= number <= len(images), f"{place} has pictures 1 to {len(images):,}: there is no {number}")
    return Picture(images[number - 1], text)


def _images_of_archive(place: str) -> np.ndarray | None:
    """The pictures of an npz or idx file; None if it is neither."""
    if form_of(place) is NPZ:
        images = _read_npz(place, ARRAYS[:1])["images"]
    else:
        try:
            with opened(place) as file:
                if file.read(3) != b"\0\0\x08":
                    return None
        except ValueError:
            return None
        images = read_idx(place)
    _check_images(images, place)
    return images


# arrays


def _idx_pair(place: str) -> tuple[np.ndarray, np.ndarray, str]:
    """The pictures and labels of two idx files, in whichever order they are given, and the file of the pictures."""
    paths = [part.strip() for part in place.split(",")]
    require(len(paths) == 2, f"{place}: two idx files have one comma between them: IMAGES,LABELS")
    (images, path), (labels, other) = sorted(((read_idx(p), p) for p in paths), key=lambda pair: -pair[0].ndim)
    require(labels.ndim == 1, f"{other}: labels have one axis, and it has {labels.ndim}. Give IMAGES,LABELS.")
    require(
        images.ndim in (3, 4),
        f"{path}: pictures have the axes (n, height, width), and it has {images.ndim}. Give IMAGES,LABELS.",
    )
    _check_arrays(images, labels, path, f"{path} has", f"{other} has ")
    return images, labels, path


def _read_npz(path: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some arrays of an npz file."""
    try:
        return read_arrays(path, names)
    except ArrayError as error:
        raise ValueError(
            f"{path}: its arrays cannot be read: {error.name}: {error}. Save plain arrays of numbers and texts."
        ) from None


def _check_images(images: np.ndarray, where: str) -> None:
    """Require pictures of numbers."""
    require(images.dtype.kind in "uif", f"{where}: images must be numbers, such as uint8: got {images.dtype}.")
    bad = np.flatnonzero(~np.isfinite(images).reshape(len(images), -1).all(1)) if images.dtype.kind == "f" else ()
    some = ", ".join(str(number + 1) for number in bad[:3])
    require(
        not len(bad),
        f"{where}: {plural(len(bad), 'picture')} with NaN or infinite numbers, first {some}. Replace them.",
    )
    fits = images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3, 4))
    require(
        fits and min(images.shape[1:]) > 0,
        f"{where}: images must be (n, height, width) or (n, height, width, channels) with 1, 3 or 4 channels: "
        f"got shape {images.shape}",
    )
    require(len(images) > 0, f"{where}: there are no pictures")


def _check_arrays(
    images: np.ndarray, labels: np.ndarray, where: str, images_have: str = "there are", labels_have: str = ""
) -> None:
    """Require pictures of numbers, and a label for each."""
    _check_images(images, where)
    require(labels.ndim > 0, f"{where}: labels must have one axis: got shape {labels.shape}")
    require(
        len(images) == len(labels),
        f"{where}: every picture needs a label: {images_have} {len(images):,} pictures and "
        f"{labels_have}{len(labels):,} labels",
    )


def _labelled_array(images: np.ndarray, labels: np.ndarray, place: str, name: Callable[[int], str]) -> list[Labelled]:
    """A record for each picture of an array, numbered from 1; labels are whole numbers or texts."""
    _check_arrays(images, labels, place)
    require(labels.ndim == 1, f"{place}: labels must have one axis: got shape {labels.shape}")
    require(
        labels.dtype.kind in "iubUS",
        f"{place}: labels must be whole numbers or texts: got {labels.dtype}. Convert them, such as labels.astype(int).",
    )
    texts = [label.decode(errors="replace") if isinstance(label, bytes) else str(label) for label in labels.tolist()]
    rows = zip(map(name, range(1, len(images) + 1)), images, texts, strict=True)
    return [Record(where, LabelledPicture(Picture(image, where), text)) for where, image, text in rows]


# memory


def _in_memory(data: Any) -> Found[LabelledPicture]:
    """Arrays by name as in an npz file, or rows (picture, label): a path, an array or a Pillow image, and its label."""
    if isinstance(data, Mapping):
        missing = [name for name in ARRAYS if name not in data]
        require(not missing, f"data in memory needs images and labels: there is no {' and no '.join(missing)}")
        images, labels = (np.asarray(data[name]) for name in ARRAYS)
        return Found(_labelled_array(images, labels, "the data", lambda row: f"row {row}"))
    require(
        isinstance(data, Iterable) and not isinstance(data, bytes | np.ndarray),
        f"data in memory must be rows of (picture, label), or a dict with images and labels: got {type(data).__name__}",
    )
    return _found([_labelled_row(row, f"row {number}") for number, row in enumerate(data, 1)])


def _labelled_row(row: Any, where: str) -> Labelled | Problem:
    """A record of (picture, label), or what is wrong with it."""
    values = row if isinstance(row, list | tuple) else (row,)
    if len(values) != 2:
        return Problem(where, f"expected 2 values (picture, label), found {len(values)}.")
    given, label = values
    if not isinstance(label, str | int | np.integer) or not str(label).strip():
        return Problem(where, f"a label is a text or a whole number: got {label!r}.")
    return _labelled(_opened_picture(given, where), str(label), where)
