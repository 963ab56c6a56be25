"""One owner of a run's folder at a time, by a lock that dies with its process: a crash leaves nothing to clear away."""

import json
import os
import secrets
import shutil
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import remove_parts, require_own
from mirada.runs.settings import CONFIG
from mirada.training.distributed import ProcessGroup
from mirada.training.loop import CHECKPOINTS
from mirada.training.state import check_room
from mirada.words import is_utf8

LOCK = ".lock"
BY_SOME = ("seeds.json", "samples", ".torchrun")  # what some runs write besides
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
MOST = 4096  # bytes of a lock that are read
TRIES = 100  # of a lock whose owner lets go of it at that moment

if sys.platform == "win32":
    import msvcrt

    FAR, ALONE = 1 << 30, 0  # the byte that is locked: others may read what stands before it

    def flock(handle: int, operation: int) -> None:
        """Lock an open file, as on other systems."""
        os.lseek(handle, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            raise BlockingIOError from None
else:
    from fcntl import LOCK_EX, LOCK_NB, flock

    ALONE = LOCK_EX | LOCK_NB


@contextmanager
def owned(folder: Path, group: ProcessGroup, files: Sequence[str] = (), is_new: bool = False) -> Iterator[None]:
    """Own a folder, or say who does. Of several processes the leader owns it, for all of them.

    A folder that is not there is made, and removed again if nothing was written to it. `files` are those that a run writes,
    besides its settings and checkpoints: none of these may be a link. Where the run `is_new`, the folder must not hold one.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with owned(folder, ProcessGroup()), owned(folder, ProcessGroup()):
    ...     pass
    Traceback (most recent call last):
    ValueError: ... is being written by process ... Wait for it, or choose another --out.
    """
    places, handle = (folder / CHECKPOINTS, folder, *folder.parents), -1
    new = [place for place in places if group.leads and not place.exists()]
    try:
        if group.leads:
            check_room(folder, 0)
            handle = _locked(folder / LOCK)
        if group.total([float(group.leads and handle < 0)])[0] > 0:  # all processes wait for each other here
            raise _being_written(folder)
        try:
            inside = [path for pattern in (f"{CHECKPOINTS}/*", "seed-*") for path in folder.glob(pattern)]
            require_own([*(folder / name for name in (CONFIG, CHECKPOINTS, *BY_SOME, *files)), *inside])
            for place in places[:2] if group.leads else ():
                remove_parts(place)
            taken = is_new and (folder / CONFIG).exists()
            require(not taken, f"{folder} was taken by another training at this moment. Choose another --out.")
            yield
        finally:
            if group.leads:  # the file goes while it is still locked, so that nobody locks one that is about to go
                if sys.platform == "win32":
                    os.close(handle)  # an open file cannot be removed there
                with suppress(OSError):
                    (folder / LOCK).unlink()
                if sys.platform != "win32":
                    os.close(handle)
    except BaseException:
        for place in new:
            with suppress(OSError):  # it holds something
                place.rmdir()
        raise


def _locked(path: Path) -> int:
    """The open file that holds the lock, or -1 where another process has it."""
    for _ in range(TRIES):
        try:
            handle = os.open(path, FLAGS, 0o644)
        except OSError as error:
            raise ValueError(
                f"{path} cannot be written: {error.strerror or error}. It tells who writes to the folder: remove it, or choose "
                "another folder with --out."
            ) from None
        status = os.fstat(handle)
        try:
            require(stat.S_ISREG(status.st_mode), f"{path} is no ordinary file. Remove it, or choose another --out.")
            flock(handle, ALONE)
        except (OSError, ValueError) as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return -1
            if isinstance(error, ValueError):
                raise
            if status.st_size == 0:  # it was made here
                with suppress(OSError):
                    path.unlink()
            raise ValueError(
                f"{path} cannot be locked: {error.strerror or error}. A run needs a folder that nobody else can write to at "
                "the same time, and this file system has no locks (over a network, its lock service may not run). Choose "
                "another --out."
            ) from None
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


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of `folder` when all is written: that must not be there, or be empty.

    >>> import tempfile
    >>> new = Path(tempfile.mkdtemp(), "new")
    >>> with written_whole(new) as part:
    ...     _ = (part / "one").write_text("1")
    >>> [path.name for path in new.iterdir()]
    ['one']
    """
    require_new(folder)
    check_room(folder.parent, 0)
    part = folder.parent / f".{folder.name}.{secrets.token_hex(8)}.part"
    try:
        part.mkdir()
        yield part
        if folder.exists():
            folder.rmdir()  # it is empty
        part.rename(folder)
    except BaseException as error:  # an interrupt, too, leaves nothing
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError):
            raise ValueError(f"{folder} cannot be written: {error.strerror or error}") from None
        raise


def require_new(folder: Path) -> None:
    """Require the place of a folder that is not there, or empty."""
    require(is_utf8(str(folder)), f"{str(folder)!r} is no name in UTF-8. Choose another one.")
    other = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    require(not other, f"{folder} is there and is no folder. Choose another one.")
    used = folder.is_dir() and next(folder.iterdir(), None) is not None
    require(not used, f"{folder} is there and is not empty. Choose another one.")


def refuse_owned(folder: Path) -> None:
    """Say who owns a folder, if some process does."""
    if is_owned(folder):
        raise _being_written(folder)


def is_owned(folder: Path) -> bool:
    """Whether some process owns the folder now."""
    try:
        handle = os.open(folder / LOCK, FLAGS & ~os.O_CREAT)
    except OSError:
        return False
    try:
        flock(handle, ALONE)
    except OSError as error:  # any other than that it is locked: without locks nobody owns anything
        return isinstance(error, BlockingIOError)
    finally:
        os.close(handle)
    return False
