"""Arrays from an npz file: a ZIP of arrays, read within limits. Nothing in it is executed."""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from numpy.lib import format as npy
from numpy.typing import NDArray

from mirada.data.files.opening import opened
from mirada.errors import require
from mirada.files import physical_memory

MOST_BYTES = 16 << 30  # of all arrays that are read, or what the machine has: a few bytes of a ZIP can claim much more
MOST_ENTRIES = 1 << 16
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
ZIP = b"PK"
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, NotImplementedError, RuntimeError,
    OverflowError, MemoryError,
)  # fmt: skip
# what the text that describes an array may raise
ODD = (TypeError, KeyError, IndexError, AttributeError, SyntaxError, tokenize.TokenError)


class ArrayError(ValueError):
    """An array that is not read. `name` is the array, `objects` says that only running code would make it."""

    def __init__(self, name: str, reason: str, objects: bool = False) -> None:
        super().__init__(reason)
        self.name, self.objects = name, objects


def read_arrays(path: str, needed: Sequence[str], others: Sequence[str] = ()) -> dict[str, NDArray]:
    """The arrays that are needed, and those of the others that are there."""
    with _opened_archive(path) as archive:
        entries = _entries_of(archive)
        for name in needed:
            require(name in entries, f"there is no array {name!r}; it has {', '.join(entries) or 'none'}.")
        wanted = {name: entries[name] for name in (*needed, *others) if name in entries}
        _check_entries(wanted)
        return {name: _read_array(archive, name, entry) for name, entry in wanted.items()}


def array_names(path: str) -> list[str]:
    """The names of all arrays."""
    with _opened_archive(path) as archive:
        return list(_entries_of(archive))


def is_archive(file: BinaryIO) -> bool:
    """Whether an open file begins as a ZIP does. Its end is not looked for: something packed may be far from it."""
    start = file.read(len(ZIP))
    file.seek(0)
    return start == ZIP


def _entries_of(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()[:MOST_ENTRIES]}


@contextmanager
def _opened_archive(path: str) -> Iterator[zipfile.ZipFile]:
    """The ZIP of a file. Whatever fails, also while reading, is a ValueError that names it; an `ArrayError` is left alone."""
    with opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except ArrayError:
            raise
        except BROKEN as error:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise ValueError(
                f"{path}: not a whole npz file ({reason}). Copy or download it again, or write it with numpy.savez."
            ) from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def _check_entries(wanted: dict[str, zipfile.ZipInfo]) -> None:
    """Refuse what would be unpacked for ever, or not at all, before anything is."""
    for name, entry in wanted.items():
        require(not entry.flag_bits & 1, f"{name} is encrypted. Save the arrays without a password.")
        require(
            entry.compress_type in METHODS,
            f"{name} is packed by method {entry.compress_type}: only stored and deflated are read. Write it with numpy.savez.",
        )
    size, most = sum(entry.file_size for entry in wanted.values()), min(MOST_BYTES, physical_memory() or MOST_BYTES)
    require(size <= most, f"its arrays claim {size:,} bytes, and at most {most:,} are read.")


def _read_array(archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> NDArray:
    """One array, whose description must be that of its bytes."""
    try:
        with archive.open(entry) as file:
            version = npy.read_magic(file)
            require(version in HEADERS, f"its format is of version {version}")
            shape, _, kind = HEADERS[version](file)
            if kind.hasobject:
                raise ArrayError(name, "it holds Python objects", objects=True)
            size, there = math.prod(shape) * kind.itemsize, entry.file_size - file.tell()
            require(kind.itemsize > 0 and min(shape, default=0) >= 0, f"it is of {kind} and shape {shape}")
            require(size == there, f"its shape {shape} of {kind} needs {size:,} bytes, and it has {there:,}")
        with archive.open(entry) as file:
            return npy.read_array(file, allow_pickle=False)
    except ArrayError:
        raise
    except (ValueError, *ODD) as error:
        raise ArrayError(name, " ".join(str(error).split()).split(". ")[0][:200]) from None
