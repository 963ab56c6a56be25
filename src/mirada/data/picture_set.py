"""Many pictures of any kinds and sizes, brought to one form: decoded once, kept as bytes, with a bound on memory."""

import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from mirada.data.picture_file import GRAY, WAYS, Pixels, fit, header_of, pixels_of
from mirada.data.text import opened
from mirada.errors import require

Square = UInt8[np.ndarray, "size size channels"]
Squares = UInt8[np.ndarray, "n size size channels"]
SMALLEST, FINE, LARGEST = 32, 40, 64  # sizes that are chosen: up to FINE they are multiples of 4, above of 8
EXACT = 28  # squares from here on keep their size
DECODERS = 4  # threads: most of the work is done outside of Python
LUMA = np.array([299, 587, 114], np.uint32)  # how bright red, green and blue are, in thousandths: Rec. 601, as Pillow


@dataclass(frozen=True)
class Fitting:
    """What a model sees of a picture: a square of `size` pixels, gray (1 channel) or in color (3)."""

    size: int
    channels: int
    way: str = "pad"

    def __post_init__(self) -> None:
        fits = self.size >= 1 and self.channels in (1, 3)
        require(
            fits, f"a picture is seen as a square of 1 or 3 channels: got size={self.size}, channels={self.channels}"
        )
        require(self.way in WAYS, f"a picture is fitted by {', '.join(WAYS)}: got {self.way!r}")

    def of(self, pixels: Pixels) -> Square:
        """What is seen of these pixels."""
        square = fit(pixels, self.size, self.way)
        return square if self.channels == 3 else brightness(square)

    def room(self, pictures: int) -> int:
        """The bytes that so many pictures take."""
        return pictures * self.size * self.size * self.channels


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
    _kept: tuple[Fitting, Square] | None = field(default=None, repr=False)
    _identity: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.given, str | Path):
            header, self.name = header_of(self.given), self.name or str(self.given)
            self.height, self.width, self.gray = header.height, header.width, header.gray
            return
        gray = self.given.mode in GRAY if isinstance(self.given, Image.Image) else None
        if gray is not None or not is_plain(self.given):
            self.given = pixels_of(self.given)
        self.height, self.width = self.given.shape[:2]
        self.gray = self.given.shape[2:] in ((), (1,)) if gray is None else gray
        self.name = self.name or f"a picture of {self.height} x {self.width}"

    def __str__(self) -> str:
        return self.name

    def seen(self, fitting: Fitting) -> Square:
        """What a model sees of it."""
        if self._kept is None or self._kept[0] != fitting:
            self._kept = (fitting, self._fitted(fitting))
        return self._kept[1]

    def keep(self, fitting: Fitting, square: Square) -> None:
        """Keep pixels that are in a larger array, and let go of our own."""
        self._kept = (fitting, square)

    def _fitted(self, fitting: Fitting) -> Square:
        array = self.given if isinstance(self.given, np.ndarray) else None
        if array is not None and array.shape[:2] == (fitting.size, fitting.size):
            array = array[..., None] if array.ndim == 2 else array
            if array.shape[2] == fitting.channels:
                return array
        return fitting.of(pixels_of(self.given))

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


def is_plain(given: Any) -> bool:
    """Whether it is an array of bytes that needs no conversion."""
    plain = isinstance(given, np.ndarray) and given.dtype == np.uint8 and min(given.shape, default=0) > 0
    return plain and (given.ndim == 2 or (given.ndim == 3 and given.shape[2] in (1, 3)))


def brightness(pixels: UInt8[np.ndarray, "*places 3"]) -> UInt8[np.ndarray, "*places 1"]:
    """How bright colors are; gray stays what it is.

    >>> brightness(np.array([[7, 7, 7], [255, 0, 0]], np.uint8)).tolist()
    [[7], [76]]
    """
    return ((pixels @ LUMA + 500) // 1000).astype(np.uint8)[..., None]


def chosen_size(pictures: Sequence[Picture], multiple: int = 0) -> int:
    """The side of the square that suits some pictures: their own, or the median of their longer sides, 32 to 64 pixels.

    It is a multiple of `multiple`, or else of what divides it into few patches.

    >>> chosen_size([Picture(np.zeros((28, 28), np.uint8))]), chosen_size([Picture(np.zeros((480, 600), np.uint8))])
    (28, 64)
    """
    sides = {(picture.height, picture.width) for picture in pictures}
    longest = sorted(max(each.height, each.width) for each in pictures)
    middle = longest[len(longest) // 2]
    own = sides == {(middle, middle)} and EXACT <= middle <= LARGEST
    wanted = middle if own else min(max(middle, SMALLEST), LARGEST)
    step = multiple or (4 if wanted <= FINE else 8)
    return max(1, round(wanted / step)) * step


def described(pictures: Sequence[Picture], fitting: Fitting) -> str:
    """How many sizes there are, and what becomes of them, in words.

    >>> described([Picture(np.zeros((9, 16), np.uint8)), Picture(np.zeros((8, 8), np.uint8))], Fitting(32, 1))
    'gray pictures of 2 sizes, 8 x 8 to 9 x 16: scaled to 32 x 32, those that are not square padded at their borders'
    """
    sides = sorted({(each.height, each.width) for each in pictures}, key=lambda pair: (pair[0] * pair[1], pair))
    kind = "gray pictures" if fitting.channels == 1 else "pictures in color"
    least, most = (f"{high} x {wide}" for high, wide in (sides[0], sides[-1]))
    kind += f" of {least}" if len(sides) == 1 else f" of {len(sides):,} sizes, {least} to {most}"
    if sides == [(fitting.size, fitting.size)]:
        return kind
    done = f"{kind}: scaled to {fitting.size} x {fitting.size}"
    if all(high == wide for high, wide in sides):
        return done
    how = {"pad": "padded at their borders", "crop": "cropped to their middle", "stretch": "stretched"}[fitting.way]
    return f"{done}, those that are not square {how}"


def require_room(pictures: int, fitting: Fitting, gigabytes: float) -> None:
    """Require pictures that fit into so much memory."""
    needed = fitting.room(pictures) / 1e9
    require(
        needed <= gigabytes,
        f"{pictures:,} pictures of {fitting.size} x {fitting.size} take {needed:.1f} GB, and at most {gigabytes:g} GB are kept. "
        "Give a smaller size=, fewer pictures, or more memory=.",
    )


def decode(pictures: Sequence[Picture], fitting: Fitting) -> dict[int, str]:
    """Let pictures be decoded and kept; those that cannot be are told by their number, with the reason."""

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


def stacked(pictures: Sequence[Picture], fitting: Fitting) -> Squares:
    """What is seen of some pictures, as one array, in which they keep it from now on."""
    whole = np.empty((len(pictures), fitting.size, fitting.size, fitting.channels), np.uint8)
    for square, picture in zip(whole, pictures, strict=True):
        square[:] = picture.seen(fitting)
        picture.keep(fitting, square)
    return whole
