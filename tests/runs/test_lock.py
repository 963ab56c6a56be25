"""A folder has one owner at a time, and a crash leaves nothing to clear away."""

import errno
import os
import signal
from pathlib import Path

import pytest

from mirada.runs.folder import LOCK, is_owned, owned
from mirada.training.distributed import ProcessGroup
from tests.runs.small import QUICK, pairs, request, trained, write_rows

ALONE = ProcessGroup()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


def other_owner(folder: Path) -> int:
    """Another process that owns the folder until it is killed."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with owned(folder, ALONE):
                os.write(told, b"!")
                signal.pause()
        finally:
            os._exit(1)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    os.close(told)
    return child


def test_the_second_owner_learns_who_the_first_is(tmp_path: Path) -> None:
    child = other_owner(tmp_path)
    try:
        assert is_owned(tmp_path)
        with pytest.raises(ValueError, match=rf"is being written by process {child} on .* since \d{{4}}-"):
            owned(tmp_path, ALONE).__enter__()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (tmp_path / LOCK).exists(), "it was killed"
    assert not is_owned(tmp_path)
    with owned(tmp_path, ALONE):
        assert is_owned(tmp_path)
    assert not (tmp_path / LOCK).exists()


def test_a_removed_lock_does_not_protect(tmp_path: Path) -> None:
    """A process that opens the file just before its owner removes it must not own a file that others cannot see."""
    with owned(tmp_path, ALONE):
        (tmp_path / LOCK).unlink()
        with owned(tmp_path, ALONE):
            assert is_owned(tmp_path)


def test_a_lock_is_not_written_through_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(precious)
    with pytest.raises(ValueError, match="remove it, or choose another folder"):
        owned(tmp_path / "run", ALONE).__enter__()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("before", [b"", b"precious"])
def test_a_lock_is_not_written_through_a_hard_link(tmp_path: Path, before: bytes) -> None:
    (tmp_path / "precious").write_bytes(before)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).hardlink_to(tmp_path / "precious")
    with owned(tmp_path / "run", ALONE):
        assert is_owned(tmp_path / "run")
    assert (tmp_path / "precious").read_bytes() == before


def test_a_pipe_in_the_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(ValueError, match="no ordinary file"):
        owned(tmp_path, ALONE).__enter__()


def test_a_training_that_has_settings_is_listed_too(tmp_path: Path, data: str) -> None:
    child = other_owner(tmp_path)
    try:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ValueError, match=f"written by process {child}"):
            trained("translate", data, tmp_path, *QUICK)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with pytest.raises(ValueError, match="holds a run already"):
        trained("translate", data, tmp_path, *QUICK)


def test_a_folder_that_was_taken_in_the_meantime_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="was taken by another training at this moment"):
        owned(tmp_path, ALONE, (), True).__enter__()
    assert not is_owned(tmp_path)


def test_two_trainings_into_one_folder(tmp_path: Path, data: str) -> None:
    child = other_owner(tmp_path)
    try:
        for words in ({}, {"resume": True}):
            with pytest.raises(ValueError, match=f"written by process {child}"):
                trained("translate", data, tmp_path, *QUICK, **words)
        with pytest.raises(ValueError, match=f"written by process {child}"):
            trained("translate", data, tmp_path, *QUICK, "seeds=2")
        assert [path.name for path in tmp_path.iterdir()] == [LOCK], "nothing was written"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    run = trained("translate", data, tmp_path, *QUICK)
    assert run("I see a cat.").text is not None
    child = other_owner(tmp_path)
    try:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        with pytest.raises(ValueError, match=f"written by process {child}"):
            trained("translate", data, tmp_path, *QUICK, resume=True)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_without_a_name_the_next_free_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = request("translate").folder()
    first.mkdir(parents=True)
    with owned(first, ALONE):
        assert request("translate").folder() == Path("runs/translate-2")
    assert request("translate").folder() == first


def test_a_refused_training_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        trained("translate", str(tmp_path / "nothing.tsv"), tmp_path / "new" / "run", *QUICK)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A folder on a network, for example."""

    def refused(handle: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("mirada.runs.folder.flock", refused)
    with pytest.raises(ValueError, match=rf"\.lock cannot be locked: {os.strerror(number)}\. .*Choose another --out"):
        owned(tmp_path, ALONE).__enter__()
    assert list(tmp_path.iterdir()) == []
    assert not is_owned(tmp_path)
    (tmp_path / LOCK).touch()
    assert not is_owned(tmp_path)
