"""Pictures of other people's records: what cannot be read, or is larger than any picture, is left out."""

import struct
import warnings
import zlib

import numpy as np
import pytest

from mirada.drawing.attention.picture import png
from mirada.drawing.plots import view as embedded_picture
from mirada.drawing.plots.view import embedded_pixels
from mirada.drawing.terminal.attention import thumbnail


def of_size(width: int, height: int) -> bytes:
    """A PNG that says it is so large, and has almost nothing in it."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(64))), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.mark.parametrize("size", [(30_000, 30_000), (10_000, 10_000), (2**31 - 1, 2**31 - 1), (0, 5)])
def test_a_bomb_is_no_picture(size: tuple[int, int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert embedded_pixels(of_size(*size), "L") is None
        assert thumbnail(of_size(*size), 4) is None


def test_a_large_picture_is_shown_smaller_and_keeps_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.arange(35, dtype=np.uint8).reshape(5, 7)
    found = embedded_pixels(png(pixels), "L")
    assert found is not None
    np.testing.assert_array_equal(found.pixels, pixels)
    monkeypatch.setattr(embedded_picture, "SHARP", 4)
    smaller = embedded_pixels(png(pixels), "L")
    assert smaller is not None
    assert smaller.pixels.shape == (4, 4)
    assert (smaller.height, smaller.width) == (5, 7)
