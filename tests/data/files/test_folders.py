"""Text files in folders: classes, and texts."""

import gzip
from pathlib import Path

import pytest

from mirada.data.files.cells import read_cells
from mirada.data.files.folders import texts_at
from mirada.data.files.records import read_records
from mirada.data.options import TableOptions
from mirada.tasks.fill.passages import read_passages

CLASSES = ("text", "label")


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    files = {"pos/1_9.txt": "A fine\nfilm.\n", "pos/0_8.txt": "Good!", "neg/0_1.txt": "Dull.", "unsup/0_0.txt": "Who knows?",
             "README": "about", "neg/.hidden": "x", "pos/urls.url": "http://"}  # fmt: skip
    found = read_records(write(tmp_path, files), CLASSES)
    assert [record.value for record in found.records] == [("Dull.", "neg"), ("Good!", "pos"), ("A fine film.", "pos")]
    assert [record.where for record in found.records][:2] == [f"{tmp_path}/neg/0_1.txt", f"{tmp_path}/pos/0_8.txt"]
    assert found.notes == [
        f"{tmp_path}: a folder for each class, with files: neg (1), pos (2)", f"{tmp_path}: not used: unsup"
    ]  # fmt: skip


def test_files_without_endings_as_in_newsgroups(tmp_path: Path) -> None:
    found = read_records(write(tmp_path, {"sci.space/60779": "Orbit", "alt.atheism/49960": "Text"}), CLASSES)
    assert [record.value for record in found.records] == [("Text", "alt.atheism"), ("Orbit", "sci.space")]


def test_files_that_cannot_be_read_are_named_each(tmp_path: Path) -> None:
    bad = {
        "pos/a.txt": b"a\nse\xf1or\n",
        "pos/b.txt": b"",
        "pos/c.txt": " \n",
        "neg/d.txt": "fine",
        "neg/e.txt": b"PK\x03\x04",
    }
    found = read_records(write(tmp_path, bad), CLASSES)
    assert [str(problem).removeprefix(f"{tmp_path}/") for problem in found.problems] == [
        "neg/e.txt: the file is a zip archive or a spreadsheet. Unpack it, or save the table as CSV.",
        "pos/a.txt: not UTF-8: byte 3 of the line is 0xf1. Save the file as UTF-8, or pass encoding=cp1252, which reads "
        "'señor' (line 2).",
        "pos/b.txt: the file is empty. Was it written or downloaded to its end?",
        "pos/c.txt: no text for text. Fill it in, or take the record out.",
    ]
    again = read_records(tmp_path, CLASSES, TableOptions(encoding="cp1252"))
    assert ("a señor", "pos") in [record.value for record in again.records]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.txt": "x", "b.txt": "y"}, r"no folder of text files for each class in it, such as pos/1.txt, neg/1.txt. Give a "
         r"file of it: a.txt, b.txt."),
        ({"pos/.keep": ""}, r"no folder of text files for each class in it, such as pos/1.txt, neg/1.txt. Give a file."),
        ({"cat/1.png": b"\x89PNG"}, r"no text files, but pictures: `mirada train recognize` reads them."),
        ({"one/1.wav": b"RIFF"}, r"no text files, but recordings: `mirada train transcribe` reads them."),
    ],
)  # fmt: skip
def test_folders_of_something_else(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_records(write(tmp_path, files), CLASSES)


def test_folders_are_no_tables_of_pairs(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": "a\tb\n"})
    with pytest.raises(ValueError, match=r": a folder, not a file. Give a file of it: a.tsv."):
        read_records(tmp_path, ("source", "target"))


def test_texts_of_files_and_folders(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"b/2.txt": "two", "b/10.txt": "ten", "b/deep/3.md": "three", "a.txt.gz": gzip.compress(b"a"), "b/x.pdf": "%"},
    )
    inside = [f"{tmp_path}/b/10.txt", f"{tmp_path}/b/2.txt", f"{tmp_path}/b/deep/3.md"]
    assert texts_at(f"{tmp_path}/b") == inside
    assert texts_at(f"{tmp_path}/a.txt.gz, {tmp_path}/b") == [f"{tmp_path}/a.txt.gz", *inside]
    write(tmp_path, {"c,d.txt": "x"})
    assert texts_at(f"{tmp_path}/c,d.txt") == [f"{tmp_path}/c,d.txt"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match=r"none: no text files in this folder. Put files that end in .txt there."):
        texts_at(f"{tmp_path}/none")


def test_passages_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "Ana lee. Luis duerme.\n", "b.txt": "El gato come. La casa es roja.\n"})
    found = read_passages(str(tmp_path))
    assert [record.value for record in found.records] == [
        ("Ana lee.", "Luis duerme."), ("El gato come.", "La casa es roja.")
    ]  # fmt: skip
    assert found.notes == (f"{tmp_path}: 2 text files",)


def test_questions_of_a_folder(tmp_path: Path) -> None:
    found = read_cells(str(write(tmp_path, {"b/2.txt": "two\nlines", "1.txt": b"\xff"})), ("text",), TableOptions())
    assert (found.columns, found.input) == (("name", "text"), 1)
    assert [(where, cells) for where, cells, _ in found.rows] == [
        (f"{tmp_path}/1.txt", ("1.txt", "")), (f"{tmp_path}/b/2.txt", ("b/2.txt", "two lines"))
    ]  # fmt: skip
    assert [bool(fault) for _, _, fault in found.rows] == [True, False]
