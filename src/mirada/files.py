"""Files that are whole or not there, and that are really in the folder they seem to be in.

A file is written beside its place, under a name that nobody can foresee, and then moved there at once. A link in that place is
replaced, never followed: whoever prepared the folder cannot make us write elsewhere.
"""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mirada.errors import require

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
MOST = 1 << 40  # bytes of a file
PART = re.compile(r"\..+\.[0-9a-f]{16}\.part")
LARGEST_JSON = 64 << 20  # bytes of a document
MOST_VALUES = 5_000_000  # in one document: each takes many times the memory of its letters


class TooManyValuesError(ValueError):
    """A JSON document that would fill the memory."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file at once: whoever looks finds the old one or the new one, also after a crash.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "words.txt")
    >>> write_whole(path, b"one"), write_whole(path, b"two"), path.read_bytes()
    (None, None, b'two')
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(os.open(beside, NEW | BINARY, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:  # also one who stops us leaves nothing behind
        beside.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ValueError(
            f"{path} cannot be written: {error.strerror or error}{room(path.parent, len(content), error)}. What was there before "
            "is untouched."
        ) from None
    settle_folder(path.parent)


def expanded(path: str | Path) -> Path:
    """A path with a ~ in it, as a shell understands it: a home that nobody knows of is left as it is written.

    >>> expanded("~nobody-here/run").name
    'run'
    """
    return Path(os.path.expanduser(path))


def room(folder: Path, needed: int, error: OSError) -> str:
    """How much room there is and would be needed, where that is what is wrong."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    try:
        return f" ({shutil.disk_usage(folder).free:,} bytes are free, {needed:,} are needed)"
    except OSError:
        return f" ({needed:,} bytes are needed)"


def settle_folder(folder: Path) -> None:
    """Bring the names in a folder safely to the disk, where a system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove what a crash left of files that were being written. For the owner of a folder."""
    for path in folder.glob(".*.part"):
        if PART.fullmatch(path.name):
            path.unlink(missing_ok=True)


def require_own(paths: Iterable[Path]) -> None:
    """Refuse links and special files in places that will be written: they lead out of the folder."""
    for path in paths:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue  # it is not there
        require(
            not stat.S_ISLNK(mode),
            f"{path} is a link, and a run writes into its own folder only. Put the file itself there, or choose another --out.",
        )
        require(
            stat.S_ISREG(mode) or stat.S_ISDIR(mode),
            f"{path} is no ordinary file. Remove it, or choose another --out.",
        )


def require_file(path: Path, most: int = MOST) -> None:
    """Require an ordinary file of a size that is read at once: a pipe may never have a writer, a device may never end."""
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    require(stat.S_ISREG(about.st_mode), f"{path} is no ordinary file")
    require(about.st_size <= most, f"{path} has {about.st_size:,} bytes, and at most {most:,} are read")


def read_whole(path: Path, most: int = MOST) -> bytes:
    """The bytes of an ordinary file of at most that size."""
    require_file(path, most)
    return path.read_bytes()


def parsed(content: str | bytes) -> Any:
    """The value of a JSON text that does not fill the memory: its values are counted before they are made.

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
