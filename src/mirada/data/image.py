"""A picture as pixels: any format that Pillow reads, any size, and what cannot be read is named.

file, Pillow image or array -> RGB in 8 bits, upright -> scaled to a square of one size, in one of three ways
"""

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from mirada.data.files.opening import opened
from mirada.errors import require

Pixels = UInt8[np.ndarray, "height width 3"]
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels

MOST_PIXELS = 64_000_000  # 192 MB of numbers: a few bytes of a file can claim much more
THUMBNAIL = 16  # pixels of a side
WAYS = ("pad", "crop", "stretch")
WIDE = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # more than 8 bits for a gray pixel
GRAY = ("1", "L", "LA", *WIDE)  # modes without color
SIDEWAYS = (5, 6, 7, 8)  # orientations that exchange the sides


def open_picture(path: str | Path) -> Pixels:
    """The pixels of a file, turned upright; the first picture of an animation.

    Gray pictures have three equal channels. What is transparent becomes white. Gray of 16 bits keeps its upper 8.
    Whatever is wrong with the file is a ValueError that begins with its path.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "dot.png")
    >>> Image.new("L", (3, 2), 7).save(path)
    >>> open_picture(path).shape, open_picture(path)[0, 0].tolist()
    ((2, 3, 3), [7, 7, 7])
    """
    with opened(path) as file, _decoding(file, path) as image:
        return _pixels_of_image(image)


def sent_picture(name: str, content: bytes, most: int = MOST_PIXELS) -> Pixels:
    """The pixels of the content of a file, at most so many, whatever its name is: no file of that name is opened.

    >>> sent_picture("dot.png", b"no picture")
    Traceback (most recent call last):
    ValueError: dot.png: not a picture, or of an unknown format. Save it as PNG or JPEG.
    """
    require(bool(content), f"{name}: the file is empty. Send it again.")
    with _decoding(io.BytesIO(content), name) as image:
        wide, high = image.size
        if wide * high <= most:
            return _pixels_of_image(image)
    raise ValueError(
        f"{name}: the picture is too large: {wide:,} x {high:,} pixels, at most {most:,} in all. Shrink it."
    )


@contextmanager
def _decoding(file: BinaryIO, path: str | Path) -> Iterator[Image.Image]:
    """The bytes of a picture as a Pillow image; `path` is what errors call it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of large pictures and odd headers: the first are refused here
        try:
            with Image.open(file) as image:
                wide, high = image.size
                if wide * high <= MOST_PIXELS:
                    yield image
                    return
        except UnidentifiedImageError:
            raise ValueError(f"{path}: not a picture, or of an unknown format. Save it as PNG or JPEG.") from None
        except Image.DecompressionBombError as error:
            raise ValueError(f"{path}: the picture is too large: {error} Shrink it.") from None
        except Exception as error:  # the decoders of damaged files raise almost anything
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"{path}: the picture is damaged or cut short: {reason}. Copy it again.") from None
    size = f"{wide:,} x {high:,} pixels, at most {MOST_PIXELS:,} in all"
    raise ValueError(f"{path}: the picture is too large: {size}. Shrink it.")


@dataclass(frozen=True)
class PictureHeader:
    """What the header of a file states before it is decoded: its sides as it stands upright, and whether it has color."""

    height: int
    width: int
    gray: bool


def header_of(path: str | Path) -> PictureHeader:
    """The header of a file; a ValueError if it is no picture."""
    with opened(path) as file, _decoding(file, path) as image:
        wide, high = image.size
        in_header = image.format != "PNG" or "exif" in image.info  # elsewhere in a PNG, only decoding would find it
        if in_header and image.getexif().get(ExifTags.Base.Orientation) in SIDEWAYS:
            wide, high = high, wide
        return PictureHeader(high, wide, image.mode in GRAY)


def pixels_of(given: Any) -> Pixels:
    """The pixels of a path, a Pillow image, or an array: (height, width[, channels]), 8-bit, or floats from 0 to 1.

    >>> pixels_of(np.ones((2, 3)))[0, 0].tolist()
    [255, 255, 255]
    """
    if isinstance(given, str | os.PathLike):
        return open_picture(os.fspath(given))
    if isinstance(given, Image.Image):
        return _pixels_of_image(given)
    array = np.asarray(given)
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    require(
        fits and array.size > 0,
        f"a picture must be a path, a Pillow image or an array (height, width[, channels]): "
        f"got {type(given).__name__} of shape {array.shape}",
    )
    if array.dtype == bool or np.issubdtype(array.dtype, np.floating):
        array = np.asarray(array, np.float64)
        low, high = float(array.min()), float(array.max())
        require(
            low >= 0 and high <= 1,  # NaN compares as False
            f"a picture of floats must lie between 0 and 1: got {low:g} to {high:g}. Divide by 255, or give uint8.",
        )
        array = np.rint(255 * array).astype(np.uint8)
    require(array.dtype == np.uint8, f"a picture must be uint8, or floats from 0 to 1: got {array.dtype}")
    return _pixels_of_image(Image.fromarray(array[..., 0] if array.shape[2:] == (1,) else array))


def _pixels_of_image(image: Image.Image) -> Pixels:
    """The pixels of a Pillow image of any mode."""
    image = ImageOps.exif_transpose(image)
    if image.mode in WIDE:
        gray = _eight_bits(np.asarray(image, np.float64))
        return np.repeat(gray[..., None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))


def _eight_bits(gray: Float[np.ndarray, "height width"]) -> UInt8[np.ndarray, "height width"]:
    """Gray of more than 8 bits: numbers up to 1 are shares, up to 255 pixels, up to 65,535 the 16 bits of a pixel."""
    gray = np.nan_to_num(gray)
    most = float(gray.max(initial=0.0))
    if 0 < most <= 1 and np.any(gray != np.rint(gray)):
        gray = 255 * gray
    elif most > 255:
        gray = gray / 257 if most <= 65_535 else 255 * gray / most
    return np.rint(np.clip(gray, 0, 255)).astype(np.uint8)


@dataclass(frozen=True)
class Placement:
    """Where a picture went in its square: a pixel (x, y) is at (x * across + left, y * down + top)."""

    across: float
    down: float
    left: float
    top: float
    size: int

    def box(self, box: Box) -> Box:
        """Where a box of the picture went, as far as it lies in the square.

        >>> placed(100, 200, 50, "pad").box((0, 0, 200, 100))
        (0.0, 12.5, 50.0, 37.5)
        """
        x0, x1 = (min(max(x * self.across + self.left, 0.0), float(self.size)) for x in (box[0], box[2]))
        y0, y1 = (min(max(y * self.down + self.top, 0.0), float(self.size)) for y in (box[1], box[3]))
        return x0, y0, x1, y1


def placed(height: int, width: int, size: int, way: str = "pad") -> Placement:
    """How a picture is brought to a square of `size` pixels: `pad` shows all of it, `crop` its middle, `stretch` distorts."""
    require(way in WAYS, f"a picture is fitted by {', '.join(WAYS)}: got {way!r}")
    across, down = size / width, size / height
    if way != "stretch":
        across = down = (min if way == "pad" else max)(across, down)
    return Placement(across, down, (size - across * width) / 2, (size - down * height) / 2, size)


def fit_square(pixels: Pixels, size: int, way: str = "pad") -> UInt8[np.ndarray, "size size 3"]:
    """A picture of any sides in a square of `size` pixels.

    `pad` keeps the aspect and shows the whole picture, with the mean color of its border around it; `crop` keeps the aspect
    and fills the square with the middle of the picture; `stretch` fills it with all of the picture and changes the aspect.
    A square of the right size comes back as it is.

    >>> fit_square(np.zeros((4, 8, 3), np.uint8), 2).shape
    (2, 2, 3)
    """
    height, width = pixels.shape[:2]
    if height == width == size:
        return pixels
    place = placed(height, width, size, way)
    x0, y0, x1, y1 = (round(x) for x in place.box((0, 0, width, height)))
    x1, y1 = max(x1, min(x0, size - 1) + 1), max(y1, min(y0, size - 1) + 1)  # a line of pixels is still seen
    x0, y0 = min(x0, size - 1), min(y0, size - 1)
    # the part of the picture that is seen: all of it, unless it is cropped
    seen = (
        max(0.0, -place.left / place.across), max(0.0, -place.top / place.down),
        min(width, (size - place.left) / place.across), min(height, (size - place.top) / place.down),
    )  # fmt: skip
    part = Image.fromarray(pixels).resize((x1 - x0, y1 - y0), Image.Resampling.BILINEAR, box=seen)
    if part.size == (size, size):
        return np.array(part)
    square = np.empty((size, size, 3), np.uint8)
    square[:] = border_color(pixels)
    square[y0:y1, x0:x1] = np.asarray(part)
    return square


def border_color(pixels: Pixels) -> UInt8[np.ndarray, " 3"]:
    """The mean color of the outermost pixels."""
    sides = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    return np.rint(np.concatenate(sides).mean(0)).astype(np.uint8)


def as_numbers(pictures: Sequence[UInt8[np.ndarray, "height width 3"]]) -> Float[Tensor, "batch 3 height width"]:
    """Pictures of one size as models read them: from -1 to 1, the channels first.

    >>> as_numbers([np.zeros((4, 5, 3), np.uint8)]).shape
    torch.Size([1, 3, 4, 5])
    """
    pixels = torch.from_numpy(np.ascontiguousarray(np.stack(pictures).transpose(0, 3, 1, 2)))
    return pixels.float().div_(127.5).sub_(1.0)


def thumbnails(pictures: Sequence[UInt8[np.ndarray, "height width 3"]]) -> Float[Tensor, "pictures features"]:
    """Small copies of pictures as rows of numbers, to be compared.

    >>> thumbnails([np.zeros((40, 50, 3), np.uint8)] * 2).shape
    torch.Size([2, 768])
    """
    return torch.cat([adaptive_avg_pool2d(as_numbers([picture]), THUMBNAIL).flatten(1) for picture in pictures])
