"""Pictures made of pixels, written into the page itself as PNG: no file beside it, no library behind it."""

import struct
import zlib
from base64 import b64encode

import numpy as np
from jaxtyping import Float, UInt8

from mirada.drawing.weights import ColorScale, Rows

KINDS = {1: 0, 3: 2, 4: 6}  # channels: PNG's number for gray, RGB, RGBA
HEAT, COLD = (232, 89, 12), (37, 99, 235)  # of middle luminance: seen on white, on black and on any gray
STRENGTH = 0.82  # opacity of the largest weight: what was looked at must stay visible below it
# from dark to light without a step back in luminance, so that it reads the same in gray
LEVELS = ((10, 12, 28), (58, 28, 96), (150, 44, 104), (226, 104, 62), (250, 190, 90), (255, 250, 214))


def data_uri(pixels: UInt8[np.ndarray, "height width *channels"]) -> str:
    """The picture as an address that contains it."""
    return f"data:image/png;base64,{b64encode(png(pixels)).decode()}"


def png(pixels: UInt8[np.ndarray, "height width *channels"]) -> bytes:
    """A PNG file: gray (height, width), or with a last axis of 3 (RGB) or 4 (RGB and opacity).

    >>> png(np.zeros((2, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    lines = pixels.reshape(height, width * channels)
    # every line begins with the number of its filter: none
    data = zlib.compress(np.pad(lines, ((0, 0), (1, 0))).tobytes(), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, KINDS[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def shrunk(values: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Means of blocks of so many rows and columns.

    >>> shrunk(np.arange(8.0).reshape(2, 4), (2, 2))
    array([[2.5, 4.5]])
    """
    if block == (1, 1):
        return values
    # the last rows and columns of a picture that is no multiple of a block are repeated, not dropped
    room = [(0, -length % size) for length, size in zip(values.shape[:2], block, strict=True)]
    whole = np.pad(values, room + [(0, 0)] * (values.ndim - 2), mode="edge")
    height, width = whole.shape[0] // block[0], whole.shape[1] // block[1]
    blocks = whole.reshape(height, block[0], width, block[1], *values.shape[2:])
    return blocks.mean(axis=(1, 3)).astype(values.dtype)


def overlay(rows: Rows, scale: ColorScale) -> UInt8[np.ndarray, "rows columns 4"]:
    """A pixel for every weight, the more opaque the larger; negative weights have their own color."""
    colors = [
        [(*(COLD if value < 0 else HEAT), round(255 * STRENGTH * scale.share(value))) for value in row] for row in rows
    ]
    return np.array(colors, dtype=np.uint8)


def shaded(levels: Float[np.ndarray, "rows columns"]) -> UInt8[np.ndarray, "rows columns 3"]:
    """Levels from dark (the lowest) to light. The few most extreme ones are cut, so that a click hides nothing else."""
    finite = levels[np.isfinite(levels)]
    low, high = np.percentile(finite, (1, 99.5)) if finite.size else (0.0, 1.0)
    shares = (np.clip(np.nan_to_num(levels, nan=low), low, high) - low) / max(high - low, 1e-12)
    anchors = np.linspace(0.0, 1.0, len(LEVELS))
    channels = [np.interp(shares, anchors, [color[channel] for color in LEVELS]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)
