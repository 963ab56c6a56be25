"""What has no end, or would fill the memory, is refused: a line, a pipe, a device, a bomb of gzip or JSON."""

import gzip
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mirada.data import record
from mirada.data.files import json as objects
from mirada.data.files import opening as text
from mirada.data.files.cells import read_cells
from mirada.data.files.json import flat
from mirada.data.files.opening import LONGEST_LINE, read_text, scan
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions
from mirada.tasks.answer.questions import read_questions
from mirada.tasks.label.files import from_npz

COLUMNS = ("source", "target")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds in small."""
    monkeypatch.setattr(text, "BLOCK", 64)
    monkeypatch.setattr(text.scan, "__defaults__", ("", text.nfc, 500))
    monkeypatch.setattr(text, "ENDLESS", 5000)
    monkeypatch.setattr(text, "LONGEST_LINE", 500)


@pytest.mark.parametrize("length", [480, 700, 2000])
def test_a_line_that_is_too_long_is_named_and_reading_continues(tmp_path: Path, small: None, length: int) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("one\tuno\n" + "x" * length + "\ttwo\nthree\ttres\n" + "y" * length)
    found = list(scan(path))
    assert [number for number, _, _ in found] == [1, 2, 3, 4]
    assert [text for _, text, _ in found][::2] == ["one\tuno", "three\ttres"]
    faults = [fault for _, _, fault in found]
    assert [bool(fault) for fault in faults] == [False, length > 600, False, length > 600]
    if length > 600:
        assert faults[1].startswith("longer than")


def test_a_line_without_end_ends_the_reading(tmp_path: Path, small: None) -> None:
    (tmp_path / "x.tsv").write_text("one\tuno\n" + "x" * 6000)
    with pytest.raises(ValueError, match=r"x\.tsv:2: a line of more than"):
        list(scan(tmp_path / "x.tsv"))


@pytest.mark.parametrize("text", ["ñandú " * 3000, "ñ" * 1500], ids=["words", "no words"])
def test_a_text_may_be_one_long_line(tmp_path: Path, small: None, text: str) -> None:
    (tmp_path / "x.txt").write_text(text, encoding="utf-8")
    assert read_text(tmp_path / "x.txt") == (text, [])


def test_an_endless_line_without_a_blank_is_not_text(tmp_path: Path, small: None) -> None:
    (tmp_path / "x.txt").write_text("one\ntwo\n" + "x" * 6000)
    with pytest.raises(ValueError, match=r"x\.txt:3: more than .* MB without a blank"):
        read_text(tmp_path / "x.txt")


def test_the_end_of_what_is_no_archive_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "x.npz", "wb") as file:
        file.write(bytes(100_000))

    def sought(file: gzip.GzipFile, offset: int, whence: int = 0) -> int:
        assert whence == 0
        return rewound(file, offset, whence)

    rewound = gzip.GzipFile.seek
    monkeypatch.setattr(gzip.GzipFile, "seek", sought)
    with pytest.raises(ValueError, match="not an npz file"):
        from_npz(str(tmp_path / "x.npz"))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def socket(path: Path) -> None:
    from socket import AF_UNIX, socket

    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket is short
    socket(AF_UNIX).bind(path.name)
    os.chdir(here)


@pytest.mark.parametrize("make", [pipe, device, socket])
@pytest.mark.parametrize("name", ["x.tsv", "x.csv", "x.jsonl", "x.json", "x.txt"])
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    make(tmp_path / name)
    for read in (
        lambda path: read_records(path, COLUMNS),
        lambda path: read_cells(path, ("source",), TableOptions()),
        read_text,
    ):
        with pytest.raises(ValueError, match=rf"{name}: (a pipe|a device|a socket), not a file"):
            read(str(tmp_path / name))


def peak() -> int:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10 if sys.platform == "linux" else 0


def in_a_process(task: Callable[[], object]) -> tuple[str, int, float]:
    """The error of a task, the memory it took beyond what was there, and its seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before, began, told = peak(), time.monotonic(), "no error"
        try:
            task()
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, f"{peak() - before}\n{time.monotonic() - began}\n{told[:3000]}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        memory, seconds, told = file.read().decode().split("\n", 2)
    os.waitpid(child, 0)
    return told, int(memory), float(seconds)


def bomb(path: Path, piece: bytes, count: int) -> str:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(count):
            file.write(piece)
    return str(path)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")
@pytest.mark.parametrize(
    ("name", "piece", "count", "wanted"),
    [
        ("nul.tsv.gz", b"\0ab" * (1 << 18), 90, "a line of more than 48 MB"),
        ("line.csv.gz", b"word " * (1 << 18), 50, "a line of more than 48 MB"),
        ("blank.tsv.gz", b"\n" * (1 << 20), 3, "bad record 1,000,001"),
        pytest.param("bad.tsv.gz", b"\xff\n" * (1 << 19), 4, "bad record 1,000,001", marks=pytest.mark.slow),
        ("list.json.gz", b"[1," * (1 << 18), 20, "more than 5,000,000 values"),
        ("lines.jsonl.gz", b'{"a":[' + b"1," * 7_900_000 + b"1]}\n", 2, "more than 5,000,000 values"),
    ],
)
def test_a_small_file_cannot_fill_the_memory(
    tmp_path: Path, name: str, piece: bytes, count: int, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "ENDLESS", 48 << 20)
    path = bomb(tmp_path / name, piece, count)

    def read() -> None:
        found = read_records(path, COLUMNS)
        raise ValueError(found.problems[0].what)

    told, memory, seconds = in_a_process(read)
    assert wanted in told
    assert memory < 700, f"{memory} MB in {seconds:.1f} s"


LIST = b'{"source":"a","target":"b","x":[' + b"1," * 4_900_000 + b"1]}\n"
INNER = b'{"source":"a","target":"b","x":{' + b",".join(b'"%d":1' % place for place in range(1_500_000)) + b"}}\n"
LONG = b'{"source":"a","target":"b","x":"' + b"word " * 3_000_000 + b'"}\n'


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured on Linux")
@pytest.mark.parametrize(
    ("piece", "count", "most"),
    [
        pytest.param(LIST, 2, 800, id="list", marks=pytest.mark.slow),
        pytest.param(INNER, 2, 800, id="object", marks=pytest.mark.slow),
        pytest.param(LONG, 25, 250, id="text"),
    ],
)
def test_what_stands_next_to_good_records_takes_no_memory(tmp_path: Path, piece: bytes, count: int, most: int) -> None:
    path = bomb(tmp_path / "x.jsonl.gz", piece, count)

    def read() -> None:
        found = read_records(path, COLUMNS)
        raise ValueError(f"{len(found.records)} good, {len(found.problems)} bad")

    told, memory, seconds = in_a_process(read)
    assert told == f"ValueError: {count} good, 0 bad"
    assert memory < most, f"{memory} MB in {seconds:.1f} s"


def test_huge_objects_tell_their_keys_before_there_are_500(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "SAMPLE_SIZE", 1000)
    path = tmp_path / "x.jsonl"
    path.write_text('{"en": "a", "es": "b", "x": "' + "y" * 900 + '"}\n' * 1 + '{"en": "c", "es": "d"}\n' * 700)
    found = read_records(str(path), COLUMNS, TableOptions(columns="en,es"))
    assert (len(found.records), found.problems) == (701, ())


def test_json_that_is_nested_deeply(tmp_path: Path) -> None:
    deep: dict = {}
    for _ in range(900):
        deep = {"a": deep}
    assert len(flat(deep)) == objects.DEEPEST + 1
    for name in ("x.json", "x.jsonl"):
        path = tmp_path / name
        for depth in (500, 990, 1500, 100_000):
            path.write_text('{"question": "a", "context": ' + '{"a": ' * depth + "1" + "}" * depth + "}\n")
            for read in (lambda path: read_records(path, COLUMNS), read_questions):
                told, problems = "", ()
                try:
                    problems = read(str(path)).problems
                except ValueError as error:
                    told = str(error)
                assert problems or name in told


def test_the_bounds_are_those_that_are_reported() -> None:
    assert (LONGEST_LINE, text.ENDLESS, record.MOST_PROBLEMS) == (16 << 20, 256 << 20, 1_000_000)
