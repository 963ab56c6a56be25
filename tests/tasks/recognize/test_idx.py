"""idx files: what MNIST is kept in, and every way in which one can be broken."""

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from mirada.tasks.recognize.pictures import read_idx


def idx(array: np.ndarray) -> bytes:
    """The bytes of a file, written by hand."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("shape", [(5,), (2, 3, 7), (2, 3, 5, 3)])
def test_the_array_that_was_written_is_read_plain_and_packed(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    (tmp_path / "plain").write_bytes(idx(array))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(array)))
    for name in ("plain", "packed.gz"):
        np.testing.assert_array_equal(read_idx(tmp_path / name), array)


GOOD = idx(np.zeros((2, 3), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x00\x00", "not an idx file: it begins with 00 00, not with 00 00 08. Is it of MNIST's form?"),
        (b"\x89PNG\r\n", "not an idx file: it begins with 89 50 4e 47"),
        (bytes([0, 0, 8, 9]) + b"x" * 40, "not an idx file: it begins with 00 00 08 09"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]) + b"abcd", "an idx file of type 0x0d: only bytes (0x08) are read."),
        (GOOD[:9], "the idx file is cut short: it ends within its header. Copy it again."),
        (GOOD[:-1], "the idx file must have 2 x 3 bytes after its header: it has 5. Copy or download it again."),
        (GOOD + b"x", "the idx file must have 2 x 3 bytes after its header: it has more."),
        (bytes([0, 0, 8, 2]) + b"\xff" * 8, "claims 4,294,967,295 x 4,294,967,295 bytes, which is too much"),
        (gzip.compress(GOOD, mtime=0)[:-6], "the gzip file is cut short or damaged"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(f'{path}: ')}.*{re.escape(message)}"):
        read_idx(path)
