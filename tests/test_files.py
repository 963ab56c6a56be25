"""Files are whole or not there, and lie where they seem to lie."""

import os
from pathlib import Path

import pytest

from mirada import files
from mirada.files import (
    TooManyValuesError,
    expanded,
    parsed,
    read_json,
    read_whole,
    remove_parts,
    require_own,
    write_whole,
)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    precious, path = tmp_path / "precious", tmp_path / "file"
    precious.write_text("precious")
    path.symlink_to(precious)
    write_whole(path, b"new")
    assert (path.read_bytes(), path.is_symlink(), precious.read_text()) == (b"new", False, "precious")


def test_nobody_can_foresee_the_name_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever name is taken is not written to, be it a file or a link to one."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "0" * 16)
    (tmp_path / f".file.{'0' * 16}.part").symlink_to(precious)
    with pytest.raises(ValueError, match="cannot be written: File exists"):
        write_whole(tmp_path / "file", b"new")
    assert precious.read_text() == "precious"


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(handle: int) -> None:
        raise KeyboardInterrupt

    write_whole(tmp_path / "file", b"old")
    monkeypatch.setattr(files.os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_parts_that_a_crash_left_are_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (f".config.json.{'a1' * 8}.part", "config.json.part", ".hidden.part", "config.json"):
        (tmp_path / name).touch()
    remove_parts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden.part", "config.json", "config.json.part"]


@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a folder", "pipe"])
def test_what_leads_out_of_a_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path, elsewhere = tmp_path / "metrics.jsonl", tmp_path / "elsewhere"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        elsewhere.mkdir() if "folder" in kind else elsewhere.touch() if kind == "link" else None
        path.symlink_to(elsewhere)
    with pytest.raises(ValueError, match=r"metrics\.jsonl is (a link|no ordinary file).*choose another --out"):
        require_own([path])
    require_own([tmp_path / "nothing"])


def test_reading_is_bounded_and_never_blocks(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_whole(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match=r"file has 5 bytes, and at most 4 are read"):
        read_whole(tmp_path / "file", 4)
    os.mkfifo(tmp_path / "pipe")
    for read in (read_whole, read_json):
        with pytest.raises(ValueError, match="no ordinary file"):
            read(tmp_path / "pipe")


@pytest.mark.parametrize("content", ["[" * 6_000_000, "{" * 6_000_000, "1," * 6_000_000])
def test_values_are_counted_before_they_are_made(content: str) -> None:
    for one in (content, content.encode()):
        with pytest.raises(TooManyValuesError, match="more than 5,000,000 values"):
            parsed(one)


def test_an_unknown_home_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    assert (str(expanded("~/run")), str(expanded("~nobody-here/run"))) == ("/home/ana/run", "~nobody-here/run")
