"""Arrays in idx files, the format of MNIST: a header with the sizes, then one byte per number; plain or gzipped."""

import struct
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from mirada.data.text import opened
from mirada.errors import require

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
        known = len(start) == 4 and start[:2] == b"\0\0" and 1 <= start[3] <= MOST_AXES
        require(
            known,
            f"{path}: not an idx file: it begins with {start.hex(' ')}, not with 00 00 08. Is it of MNIST's form?",
        )
        require(start[2] == BYTES, f"{path}: an idx file of type 0x{start[2]:02x}: only bytes (0x08) are read.")
        header = file.read(4 * start[3])
        require(
            len(header) == 4 * start[3], f"{path}: the idx file is cut short: it ends within its header. Copy it again."
        )
        sizes = struct.unpack(f">{start[3]}I", header)
        wanted = int(np.prod(sizes, dtype=object))
        by = " x ".join(f"{size:,}" for size in sizes)
        require(wanted <= MOST_BYTES, f"{path}: the idx file claims {by} bytes, which is too much. Is it damaged?")
        content = file.read(wanted + 1)
    require(
        len(content) == wanted,
        f"{path}: the idx file must have {by} bytes after its header: it has "
        f"{'more' if len(content) > wanted else f'{len(content):,}'}. Copy or download it again.",
    )
    return np.frombuffer(content, np.uint8).reshape(sizes)
