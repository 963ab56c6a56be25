"""Files that are written completely or not at all, never through a link; JSON and checksums.

A file is written under a random name in the same folder and then renamed. A link at its path is replaced, never followed:
a folder prepared by someone else cannot redirect the writing.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

from mirada.errors import require, unknown

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
PLOT_ENDINGS = (".png", ".svg", ".pdf")  # of plots that are written
MOST = 1 << 40  # bytes of a file
PART = re.compile(r"\..+\.[0-9a-f]{16}\.part")
LARGEST_JSON = 64 << 20  # bytes of a document
MOST_TENSORS = 100_000  # in one file: each takes time by its name alone; models of thousands of layers have fewer
MOST_VALUES = 5_000_000  # in one document: each takes many times the memory of its characters


class TooManyValuesError(ValueError):
    """A JSON document that would fill the memory."""


def write_whole(path: Path, content: bytes, sync: bool = True) -> None:
    """Replace a file atomically: a reader sees the old content or the new, also after a crash.

    Without `sync`, nobody waits until the disk has it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "words.txt")
    >>> write_whole(path, b"one"), write_whole(path, b"two"), path.read_bytes()
    (None, None, b'two')
    """
    with replaced(path, len(content), sync) as file:
        file.write(content)


@contextmanager
def replaced(path: Path, size: int, sync: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when it is whole; `size` is what it will have, for the error.

    Without `sync`, nobody waits until the disk has it.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(temporary, NEW | BINARY, 0o666), "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:  # an interrupt, too, leaves no temporary file
        temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ValueError(
            f"{path} cannot be written: {error.strerror or error}{_room(path.parent, size, error)}. What was there "
            "before is untouched."
        ) from None
    if sync and os.name != "nt":  # flush the folder entry to the disk, too
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def expanded(path: str | Path) -> Path:
    """A path with its ~ expanded as by a shell; the ~ of an unknown user is kept.

    >>> expanded("~nobody-here/run").name
    'run'
    """
    return Path(os.path.expanduser(path))


def ending_to_write(out: str, known: Iterable[str]) -> str:
    """The ending of a file that a command will write; a path that cannot be written is refused before anything is computed.

    >>> ending_to_write("page.htm", [".html"])
    Traceback (most recent call last):
    ValueError: page.htm: unknown format '.htm'; known: .html. Did you mean '.html'?
    """
    ending, path = os.path.splitext(out)[1].lower(), expanded(out)
    if ending not in known:
        raise ValueError(f"{out}: {unknown('format', ending, known)}")
    require(path.parent.is_dir(), f"{out}: there is no folder {path.parent}. Make it first.")
    require(not path.is_dir(), f"{out} is a folder: give the name of a file in it")
    return ending


def _room(folder: Path, needed: int, error: OSError) -> str:
    """The free and the needed space, if the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    try:
        return f" ({shutil.disk_usage(folder).free:,} bytes are free, {needed:,} are needed)"
    except OSError:
        return f" ({needed:,} bytes are needed)"


def remove_parts(folder: Path) -> None:
    """Remove partly written files that a crash left. Only for the process that holds the lock of the folder."""
    for path in folder.glob(".*.part"):
        if PART.fullmatch(path.name):
            path.unlink(missing_ok=True)


def require_own(paths: Iterable[Path]) -> None:
    """Refuse links and special files at paths that will be written: they lead out of the folder."""
    for path in paths:
        link = f"{path} is a link, and a run writes into its own folder only. Put the file itself there"
        require(not os.path.islink(path), f"{link}, or choose another --out.")
        ordinary = os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)
        require(ordinary, f"{path} is no ordinary file. Remove it, or choose another --out.")


def require_file(path: Path, most: int = MOST) -> None:
    """Require a regular file of at most that size: reading a pipe may block for ever, a device may never end."""
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    require(stat.S_ISREG(about.st_mode), f"{path} is no ordinary file")
    require(about.st_size <= most, f"{path} has {about.st_size:,} bytes, and at most {most:,} are read")


def read_whole(path: Path, most: int = MOST) -> bytes:
    """The bytes of a regular file of at most that size."""
    require_file(path, most)
    return path.read_bytes()


def parsed(content: str | bytes) -> Any:
    """The value of a JSON text. Its values are counted before parsing, so that a huge one cannot fill the memory.

    >>> parsed('{"a": [1, 2]}')
    {'a': [1, 2]}
    """
    signs = (b",", b"[", b"{") if isinstance(content, bytes) else (",", "[", "{")
    if sum(map(content.count, signs)) > MOST_VALUES:  # type: ignore[arg-type]
        raise TooManyValuesError(f"more than {MOST_VALUES:,} values, which do not fit into memory")
    return json.loads(content)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = parsed(read_whole(path, LARGEST_JSON).decode())
    except RecursionError:
        raise ValueError(f"{path} is not JSON of ours: it is nested too deeply") from None
    except OSError:
        raise ValueError(f"{path} cannot be read. Is this the folder of a saved model?") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    require(isinstance(value, dict), f"{path} must hold a JSON object: got {type(value).__name__}")
    return value


# Checksums inside the files they belong to: a file and its checksum are written together and cannot get separated.


NAME = "checksum"
METADATA = "__metadata__"
BLOCK = 1 << 20
SUMS = "sums"  # how the checksum of a large file begins
DIGEST = 16  # bytes of a checksum
ALIGNED = 8  # bytes: where the numbers begin


def checksum_of(content: bytes) -> str:
    """The checksum of some bytes, in hexadecimal.

    >>> checksum_of(b"mirada")
    '5f4d04e1a50025a9843cf4ca894d75a0'
    """
    return str(digest_of(content).hexdigest())


def digest_of(content: bytes = b"") -> Any:
    """A hash object for checksums, to be updated with more bytes."""
    return hashlib.blake2b(content, digest_size=DIGEST)


def json_checksum(described: Mapping[str, Any]) -> str:
    """The checksum of a JSON object, independent of its layout and of a checksum in it."""
    plain = {key: value for key, value in described.items() if key != NAME}
    return checksum_of(json.dumps(plain, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode())


def with_checksum(content: bytes) -> bytes:
    """A safetensors file with its checksum in its metadata."""
    (length,) = struct.unpack("<Q", content[:8])
    header, numbers = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.get(METADATA, {}).pop(NAME, None)
    _, digest = safetensors_start(header)
    digest.update(numbers)
    about = {**header.pop(METADATA, {}), NAME: digest.hexdigest()}
    return safetensors_start({METADATA: about, **header})[0] + numbers


def safetensors_start(header: Mapping[str, Any]) -> tuple[bytes, Any]:
    """The bytes before the numbers of a safetensors file, and the hash that its numbers have to be added to.

    Where the checksum is not known yet, its place is kept free.
    """
    about = {NAME: "0" * 2 * DIGEST, **header.get(METADATA, {})}
    ordered = {
        METADATA: dict(sorted(about.items())),
        **{name: each for name, each in header.items() if name != METADATA},
    }
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()  # equal content gives equal files
    text += b" " * (-len(text) % ALIGNED)
    return struct.pack("<Q", len(text)) + text, _started(header)


def _started(header: Mapping[str, Any]) -> Any:
    """The hash of a header, to be updated with the numbers."""
    about = {key: value for key, value in header.get(METADATA, {}).items() if key != NAME}
    plain = {**header, METADATA: about}
    return digest_of(json.dumps(plain, sort_keys=True, ensure_ascii=True).encode())


def checksum_in(content: bytes) -> str:
    """The checksum in the metadata of a safetensors file; empty if it has none."""
    (length,) = struct.unpack("<Q", content[:8])
    return str(json.loads(content[8 : 8 + length]).get(METADATA, {}).get(NAME, ""))


def damage(path: Path, wanted: str = "") -> str:
    """What is wrong with a safetensors file, judged by its own checksum; empty if it is intact or has none.

    The file is read block by block. A file of another format is not judged here: the library that reads it will refuse it.
    If a checksum is `wanted`, the file must have that one.
    """
    try:
        header = safetensors_header(path)
    except ValueError as error:
        return str(error)
    about = header.get(METADATA, {}) if header else {}
    stored = about.get(NAME) if isinstance(about, dict) else None
    if wanted and stored != wanted:
        return f"its checksum is {str(stored)[:40]}, and the checkpoint was written together with weights with {wanted}"
    if stored is None or header is None:
        return ""
    digest = Sums(header) if str(stored).startswith(SUMS) else _started(header)
    with open(path, "rb") as file:
        file.seek(8 + struct.unpack("<Q", file.read(8))[0])
        for size in _pieces(header) if isinstance(digest, Sums) else repeat(BLOCK):
            if not (block := file.read(size)):
                break
            digest.update(block)
        if file.read(1):
            digest.update(b"more")
    actual = digest.hexdigest()
    return "" if actual == stored else f"its checksum is {actual}, and was {str(stored)[:40]} when it was written"


class Sums:
    """The hash of a large file: of the sums of its pieces, each a product of 64-bit words with odd weights, at the speed of
    reading. A piece that differs in one word has another sum; one that differs otherwise has the same by a chance of 2^-64.

    >>> one, other = Sums({}), Sums({})
    >>> one.update(b"12345678abcdefgh"), other.update(b"abcdefgh12345678")
    (None, None)
    >>> one.hexdigest() == other.hexdigest()
    False
    """

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.digest = _started(header)

    def update(self, piece: bytes | memoryview) -> None:
        """Add a piece: a tensor, or at most `BLOCK` bytes of it."""
        import numpy as np  # most commands read no weights

        whole = len(piece) // 8 * 8
        words = np.frombuffer(piece[:whole], "<u8")
        total = int(np.dot(words, _weights()[: len(words)]))
        self.digest.update(struct.pack("<QQ", len(piece), total) + bytes(piece[whole:]))

    def hexdigest(self) -> str:
        """The hash in hexadecimal, after a mark that says how it was made."""
        return SUMS + str(self.digest.hexdigest())[len(SUMS) :]


@cache
def _weights() -> Any:
    """Odd numbers without a pattern (splitmix64), one for each word of a piece."""
    import numpy as np

    words = np.arange(1, BLOCK // 8 + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words | np.uint64(1)


def _pieces(header: Mapping[str, Any]) -> Iterator[int]:
    """The sizes of the pieces that a file with this header is hashed in, tensor by tensor."""
    spans = (each.get("data_offsets") for name, each in header.items() if name != METADATA and isinstance(each, dict))
    known = sorted(span for span in spans if isinstance(span, list) and [type(end) for end in span] == [int, int])
    for first, end in known:
        yield from pieces_of(end - first)


def pieces_of(size: int) -> Iterator[int]:
    """The sizes of the pieces of a tensor of so many bytes.

    >>> list(pieces_of(BLOCK + 5))
    [1048576, 5]
    """
    for place in range(0, size, BLOCK):
        yield min(BLOCK, size - place)


def safetensors_header(path: Path) -> dict[str, Any] | None:
    """The header of a safetensors file; None where it has none, a ValueError where it is too large to be read."""
    require_file(path)
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        message = f"its header has {length:,} bytes, and at most {LARGEST_JSON:,} are read"
        require(length <= LARGEST_JSON, message)
        content = file.read(length)
    tensors = content.count(b'"data_offsets"')
    require(tensors <= MOST_TENSORS, f"its header names {tensors:,} tensors, and at most {MOST_TENSORS:,} are read")
    try:
        header = parsed(content)
    except TooManyValuesError as error:
        raise ValueError(f"its header has {error}") from None
    except (ValueError, RecursionError):
        return None  # it is not a safetensors file
    return header if isinstance(header, dict) else None


# The machine.


def physical_memory() -> int:
    """The bytes of memory of the machine; 0 if the system does not report them (Windows).

    >>> physical_memory() == 0 or physical_memory() > 2**24
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
