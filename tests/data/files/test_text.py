"""Lines of text files: ends, encodings, packing, and what cannot be read."""

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirada.data.files import opening as text
from mirada.data.files.opening import Line, as_written, read_lines, read_text, scan, whole_lines
from mirada.data.record import Problem

BOM = b"\xef\xbb\xbf"


def lines_of(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    lines = list(read_lines(path))
    assert all(isinstance(line, Line) for line in lines), lines
    assert [line.where for line in lines] == [f"{path}:{number}" for number in range(1, len(lines) + 1)]
    return [line.text for line in lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.txt"


# characters


def test_accents_are_composed_unless_characters_are_counted(path: Path) -> None:
    path.write_bytes("cafe\u0301\nna\xefve".encode() + b"\n\xff\n")
    assert [row[1] for row in scan(path)][:2] == ["caf\xe9", "na\xefve"]
    assert [row[1] for row in scan(path, form=as_written)][:2] == ["cafe\u0301", "na\xefve"]
    assert [bool(row[2]) for row in scan(path, form=as_written)] == [False, False, True]


# line ends


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_is_read(path: Path, end: bytes) -> None:
    assert lines_of(path, end.join([b"one", b"", b" two ", b""])) == ["one", "", " two "]


def test_line_ends_may_be_mixed_and_the_last_may_be_missing(path: Path) -> None:
    assert lines_of(path, b"a\nb\r\nc\rd") == ["a", "b", "c", "d"]
    assert lines_of(path, b"a\n\r\nb\n") == ["a", "", "b"]
    assert lines_of(path, b"\n") == [""]
    assert lines_of(path, b"a\r") == ["a"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\x1c", "\x1d", "\x1e"])
def test_no_other_character_ends_a_line(path: Path, mark: str) -> None:
    assert lines_of(path, f"a{mark}b\nc{mark}\n".encode()) == [f"a{mark}b", f"c{mark}"]


@given(st.lists(st.lists(st.sampled_from([b"\n", b"x", b"\xc3\xa9"])).map(b"".join)))
def test_where_a_block_ends_makes_no_difference(parts: list[bytes]) -> None:
    blocks = list(whole_lines(parts))
    assert b"".join(blocks) == b"".join(parts)
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert b"" not in blocks


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"\r", b"\n", b"x", b"\xc3\xa9"]), min_size=1).map(b"".join), st.integers(1, 5))
def test_line_ends_at_the_end_of_a_block(path: Path, content: bytes, block: int) -> None:
    plain = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK", block)
        assert lines_of(path, content) == plain.removesuffix("\n").split("\n")


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7])
def test_lines_longer_than_a_block(path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    expected = ["una línea larga", "", "y otra más: ñandú", "fin"]
    for end in ("\n", "\r\n", "\r"):
        monkeypatch.setattr(text, "BLOCK", block + len(BOM))  # the mark comes in the first block, and not alone
        assert lines_of(path, BOM + end.join(expected).encode()) == expected
        monkeypatch.setattr(text, "BLOCK", block)
        assert lines_of(path, end.join(expected).encode()) == expected


def test_lines_are_read_one_by_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(gzip.compress(b"one\ntwo\n" * 10_000)[:-20])  # cut: whoever reads to the end sees an error
    monkeypatch.setattr(text, "BLOCK", 8)
    assert next(read_lines(path)) == Line(f"{path}:1", "one")


# encodings


def test_a_byte_order_mark_is_no_text(path: Path) -> None:
    assert lines_of(path, BOM + "año\n".encode()) == ["año"]


def test_accents_are_written_in_one_way(path: Path) -> None:
    assert lines_of(path, "cafe\u0301\tan\u0303o\n\u0301x\n".encode()) == ["café\taño", "\u0301x"]


def test_a_bad_line_is_named_and_reading_goes_on(path: Path) -> None:
    path.write_bytes("uno\nseñor\n".encode() + b"se\xf1or\nd\0s\n" + "mañana\n".encode())
    assert list(read_lines(path)) == [
        Line(f"{path}:1", "uno"),
        Line(f"{path}:2", "señor"),
        Problem(
            f"{path}:3",
            "not UTF-8: byte 3 of the line is 0xf1. Save the file as UTF-8, or pass "
            "encoding=cp1252, which reads 'señor'.",
        ),
        Problem(f"{path}:4", "a NUL character: byte 2 of the line. Is it a text file in UTF-8?"),
        Line(f"{path}:5", "mañana"),
    ]


@pytest.mark.parametrize("raw", [b"\xed\xa0\x80", b"\xc0\xaf", b"ab\xc3", b"\xf4\x90\x80\x80"])
def test_half_characters_and_overlong_forms_are_not_utf8(path: Path, raw: bytes) -> None:
    path.write_bytes(b"good\n" + raw + b"\ngood\n")
    kinds = [type(line) for line in read_lines(path)]
    assert kinds == [Line, Problem, Line]


def test_line_numbers_go_on_after_a_block_with_a_bad_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 4)
    path.write_bytes(b"a\nb\n\xff\nc\nd\n\0\ne")
    wheres = [(line.where.rsplit(":", 1)[1], type(line)) for line in read_lines(str(path))]
    assert wheres == [(str(number), Problem if number in (3, 6) else Line) for number in range(1, 8)]


def test_a_problem_prints_as_place_and_reason() -> None:
    assert (
        str(Problem("pairs.tsv:418", "expected 2 columns, found 1.")) == "pairs.tsv:418: expected 2 columns, found 1."
    )


# the file as one text


@pytest.mark.parametrize("data", [b"a\n\nb", b"a\n\nb\n", b"a\n\nb\n\n"])
def test_a_whole_text_keeps_its_lines_and_its_end(path: Path, data: bytes) -> None:
    path.write_bytes(BOM + data.replace(b"\n", b"\r\n"))
    assert read_text(path) == (data.decode(), [])


def test_a_whole_text_leaves_out_bad_lines(path: Path) -> None:
    path.write_bytes("e\u0301l\n".encode() + b"\xff\nb\n")
    assert read_text(path) == (
        "él\nb\n",
        [
            Problem(
                f"{path}:2",
                "not UTF-8: byte 1 of the line is 0xff. Save the file as UTF-8, or pass encoding=cp1252, "
                "which reads 'ÿ'.",
            )
        ],
    )


# packed files


@pytest.mark.parametrize("name", ["words.txt.gz", "words.txt", "WORDS.GZ"])
def test_gzip_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    assert lines_of(tmp_path / name, gzip.compress(BOM + b"a\r\nb")) == ["a", "b"]


def test_several_gzip_files_in_one(path: Path) -> None:
    assert lines_of(path, gzip.compress(b"a\nb") + gzip.compress(b"c\n")) == ["a", "bc"]


def test_a_gzip_file_cut_in_half(tmp_path: Path) -> None:
    path = tmp_path / "words.gz"
    packed = gzip.compress(os.urandom(5000).hex().encode())
    for cut in (len(packed) // 2, 5, len(packed) - 3):
        path.write_bytes(packed[:cut])
        with pytest.raises(ValueError, match=r"words.gz: the gzip file is cut short or damaged .* Copy or download it"):
            list(read_lines(path))


def test_a_gzip_file_with_a_wrong_byte(path: Path) -> None:
    packed = bytearray(gzip.compress(os.urandom(5000).hex().encode()))
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(bytes(packed))
    with pytest.raises(ValueError, match="cut short or damaged"):
        list(read_lines(path))


def test_a_name_that_promises_gzip(tmp_path: Path) -> None:
    path = tmp_path / "words.gz"
    path.write_text("plain\n")
    with pytest.raises(ValueError, match=r"words.gz: not gzip, although its name says so. Rename it."):
        list(read_lines(path))


def zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("words.txt", "one\n")
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        item = tarfile.TarInfo("words.txt")
        item.size = 4
        archive.addfile(item, io.BytesIO(b"one\n"))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (zipped(), "zip archive or a spreadsheet"),
        (tarred(), "tar archive"),
        (bz2.compress(b"one\n"), "bzip2"),
        (lzma.compress(b"one\n"), "xz"),
        (gzip.compress(gzip.compress(b"one\n", mtime=0), mtime=0), "gzip twice"),
    ],
)
def test_what_is_packed_in_another_way_is_named(path: Path, data: bytes, word: str) -> None:
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"words.txt: the file is .*{word}"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.xlsx", zipped(), "a spreadsheet. Save its sheet as CSV (UTF-8) and give that file."),
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1", "a spreadsheet. Save its sheet as CSV (UTF-8) and give that file."),
        ("a.zip", zipped(), "a zip archive. Unpack it and give a file of it."),
        ("a.csv", b"\n <!DOCTYPE html><html>", "a web page, not the data. Download the file itself (often a link called raw)."),
        ("a.csv", b"version https://git-lfs.github.com/spec/v1\n", "Get the file itself: git lfs pull."),
        ("a.csv", b"PAR1\x15\x04", "a Parquet file. Rename it: its name must end in .parquet."),
        ("a.txt", b"%PDF-1.4", "a PDF. Save its text as a text file."),
        ("a.csv", "text,label\nbueno,1\n".encode("utf-16-le"), "UTF-16. Save it as UTF-8, or pass encoding=utf-16-le."),
        ("a.csv", "text,label\nbueno,1\n".encode("utf-16-be"), "UTF-16. Save it as UTF-8, or pass encoding=utf-16-be."),
    ],
)  # fmt: skip
def test_what_people_take_for_a_table_is_told_from_one(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(message)):
        list(read_lines(tmp_path / name))


def test_an_encoding_that_is_told_is_taken(path: Path) -> None:
    for encoding in ("cp1252", "latin-1", "utf-16-le", "utf-16-be", "UTF-8", "utf-8-sig", "mac-roman"):
        path.write_bytes("señor\nniño".encode(encoding))
        assert [line.text for line in read_lines(path, encoding)] == ["señor", "niño"]
    path.write_bytes(b"a\n\x81\n")
    assert "or pass its encoding=." in list(read_lines(path))[1].what
    with pytest.raises(
        ValueError, match=r"words.txt: not cp1252: .* Pass another encoding=, or save the file as UTF-8."
    ):
        list(read_lines(path, "cp1252"))


def test_an_address_is_no_path() -> None:
    with pytest.raises(
        ValueError, match=r"^https://a.b/c.csv: an address, not a file. Download it first \(curl -LO https"
    ):
        list(read_lines("https://a.b/c.csv"))


# files that cannot be read


@pytest.mark.parametrize("data", [b"", BOM, gzip.compress(b"", mtime=0), gzip.compress(BOM, mtime=0)])
def test_an_empty_file(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for read in (lambda: list(read_lines(path)), lambda: read_text(path)):
        with pytest.raises(
            ValueError, match=r"words.txt: the file is empty. Was it written or downloaded to its end\?"
        ):
            read()


def test_a_missing_file_with_a_similar_name_next_to_it(tmp_path: Path, path: Path) -> None:
    path.write_text("one")
    with pytest.raises(ValueError, match=r"wrods.txt: no such file. Did you mean '.*words.txt'\?"):
        list(read_lines(tmp_path / "wrods.txt"))
    with pytest.raises(ValueError, match=r"other: no such file. Check the path."):
        list(read_lines(tmp_path / "other"))
    with pytest.raises(ValueError, match=r"There is no folder '.*nowhere' either"):
        list(read_lines(tmp_path / "nowhere" / "words.txt"))


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r": a folder, not a file. Give the path of a file."):
        list(read_lines(tmp_path))
    for name in "dcba":
        (tmp_path / name).write_text("one")
    with pytest.raises(ValueError, match=r": a folder, not a file. Give a file of it: a, b, c, ...\."):
        list(read_lines(tmp_path))


def test_a_file_that_may_not_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path.write_text("one")
    monkeypatch.setattr(text, "open", refuse, raising=False)  # the superuser may read everything
    with pytest.raises(ValueError, match=r"words.txt: no permission to read the file. Change its permissions"):
        list(read_lines(path))


def test_other_failures_say_what_the_system_said(path: Path) -> None:
    path.symlink_to(path)
    with pytest.raises(ValueError, match=r"words.txt: cannot be read: .*symbolic links.* Check the path and the disk."):
        list(read_lines(path))


def test_an_empty_path() -> None:
    with pytest.raises(ValueError, match="the path of the file is empty"):
        list(read_lines(""))


def test_the_home_folder_may_be_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("one\n")
    monkeypatch.setenv("HOME", str(path.parent))
    assert list(read_lines("~/words.txt")) == [Line("~/words.txt:1", "one")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_tells_the_encoding(path: Path, encoding: str) -> None:
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b"\xfe\xff"
    path.write_bytes(mark + "caf\u00e9\r\nma\u00f1ana\n".encode(encoding))
    assert read_text(path) == ("caf\u00e9\nma\u00f1ana\n", [])


def test_an_encoding_can_be_said(path: Path) -> None:
    path.write_bytes("ni\u00f1o\n".encode("latin-1"))
    assert [problem.what[:9] for problem in read_text(path)[1]] == ["not UTF-8"]
    assert read_text(path, "latin-1") == ("ni\u00f1o\n", [])
    with pytest.raises(ValueError, match=r"words.txt: not ascii: .*Pass another encoding="):
        read_text(path, "ascii")
