"""The picture inside a record, as pixels: somebody else's file, so it is opened with care and never at any size."""

import io
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

MOST_PIXELS = 2**26  # of a picture that is decoded
SHARP = 2048  # pixels of a side that a still picture can show


class EmbeddedPixels(NamedTuple):
    """Pixels, perhaps fewer than the picture has; `height` and `width` are the picture's own."""

    pixels: UInt8[np.ndarray, "rows columns *channels"]
    height: int
    width: int


def embedded_pixels(png: bytes, mode: str, size: tuple[int, int] | None = None) -> EmbeddedPixels | None:
    """The pixels of a PNG in a mode of PIL ("L", "RGB"), at a size (width, height) or its own, up to what can be seen.

    None where there is none, or it cannot be read, or it is larger than any picture a model looks at.

    >>> embedded_pixels(b"no picture", "L") is None
    True
    """
    if not png:
        return None
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # its size is checked here
            with Image.open(io.BytesIO(png)) as image:
                width, height = image.size
                if not 0 < width * height <= MOST_PIXELS:
                    return None
                found = image.convert(mode)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError, MemoryError):
        return None
    if size is None and max(width, height) > SHARP:
        size = (min(width, SHARP), min(height, SHARP))
    if size is not None:
        found = found.resize(size, Image.Resampling.BOX)
    return EmbeddedPixels(np.asarray(found), height, width)
