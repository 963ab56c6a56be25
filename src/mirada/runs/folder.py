"""One owner of a run's folder at a time, by a lock that dies with its process: a crash leaves nothing to clear away."""

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from mirada.training.distributed import ProcessGroup

LOCK = ".lock"
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
MOST = 4096  # bytes of a lock that are read
TRIES = 100  # of a lock whose owner lets go of it at that moment

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30  # the byte that is locked: others may read what stands before it

    def claim(handle: int) -> bool:
        """Lock an open file, unless another process has."""
        os.lseek(handle, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def claim(handle: int) -> bool:
        """Lock an open file, unless another process has."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextmanager
def owned(folder: Path, group: ProcessGroup) -> Iterator[None]:
    """Own a folder that is there, or say who does. Of several processes the leader owns it, for all of them.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with owned(folder, ProcessGroup()), owned(folder, ProcessGroup()):
    ...     pass
    Traceback (most recent call last):
    ValueError: ... is being written by process ... Wait for it, or choose another --out.
    """
    handle = _taken(folder) if group.leads else -1
    refused = group.agree(float(group.leads and handle < 0)) > 0
    if refused:
        raise _being_written(folder)
    try:
        yield
    finally:
        if group.leads:  # the file goes while it is still locked, so that nobody locks one that is about to go
            if sys.platform == "win32":
                os.close(handle)  # an open file cannot be removed there
            with suppress(OSError):
                (folder / LOCK).unlink()
            if sys.platform != "win32":
                os.close(handle)


def _taken(folder: Path) -> int:
    """The open file that holds the lock, or -1 where somebody else has it."""
    path = folder / LOCK
    for _ in range(TRIES):
        try:
            handle = os.open(path, FLAGS, 0o644)
        except OSError as error:
            raise ValueError(
                f"{path} cannot be written: {error.strerror or error}. It tells who writes to the folder: remove it, or choose "
                "another folder with --out."
            ) from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe or a device, which nobody could read to its end
            os.close(handle)
            raise ValueError(f"{path} is no ordinary file. Remove it, or choose another --out.")
        if not _claimed(handle, path):
            os.close(handle)
            return -1
        here = False  # whether the open file is still the one in its place
        with suppress(OSError):
            here = os.path.samestat(os.fstat(handle), os.lstat(path))
        if here and os.fstat(handle).st_nlink == 1:
            about = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
            with suppress(OSError):  # a full disk: the lock holds all the same
                os.ftruncate(handle, 0)
                os.lseek(handle, 0, os.SEEK_SET)
                os.write(handle, json.dumps(about).encode())
            return handle
        if here:  # a hard link: what is written to it would stand elsewhere, too
            path.unlink(missing_ok=True)
        os.close(handle)  # its owner removed it between the two: what is locked is no file of the folder
    return -1


def _claimed(handle: int, path: Path) -> bool:
    """Lock an open file, unless another process has. A file system that cannot lock is named."""
    try:
        return claim(handle)
    except OSError as error:
        fresh = os.fstat(handle).st_size == 0
        os.close(handle)
        if fresh:
            with suppress(OSError):
                path.unlink()
        raise ValueError(
            f"{path} cannot be locked: {error.strerror or error}. A run needs a folder that nobody else can write to at the same "
            "time, and this file system has no locks (over a network, its lock service may not run). Choose another --out."
        ) from None


def _being_written(folder: Path) -> ValueError:
    """The error that says who has the lock."""
    about: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        handle = os.open(folder / LOCK, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        try:
            written = json.loads(os.read(handle, MOST))
        finally:
            os.close(handle)
        about = written if isinstance(written, dict) else {}
    pid, host, since = (str(about.get(key, "?"))[:80] for key in ("pid", "host", "since"))
    return ValueError(
        f"{folder} is being written by process {pid} on {host} since {since}. Wait for it, or choose another --out."
    )


def refuse_owned(folder: Path) -> None:
    """Say who owns a folder, if somebody does."""
    if is_owned(folder):
        raise _being_written(folder)


def is_owned(folder: Path) -> bool:
    """Whether some process owns the folder now."""
    try:
        handle = os.open(folder / LOCK, FLAGS & ~os.O_CREAT)
    except OSError:
        return False
    try:
        return not claim(handle)
    except OSError:  # without locks nobody owns anything
        return False
    finally:
        os.close(handle)
