"""Captions files in all their forms lead to pictures of one size with their references; what is wrong is named."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mirada.data.record import Found
from mirada.tasks.caption.captions import CaptionedPicture, PictureOptions, boxes_of, pictures_in, read_captions

OPTIONS = PictureOptions(size=8)
COLORS = {"dog.png": (200, 10, 30), "cat.png": (0, 40, 250), "sub/bird.jpg": (20, 200, 20)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures of different sides."""
    (tmp_path / "sub").mkdir()
    for number, (name, color) in enumerate(COLORS.items()):
        Image.new("RGB", (10 + 10 * number, 20), color).save(tmp_path / name)
    return tmp_path


def read(folder: Path, name: str, text: str, **options: object) -> Found[CaptionedPicture]:
    (folder / name).write_text(text, encoding="utf-8")
    return read_captions(str(folder), PictureOptions(size=8, **options))  # type: ignore[arg-type]


def values(found: Found[CaptionedPicture]) -> list[tuple[str, tuple[str, ...]]]:
    return [(Path(record.value.name).name, record.value.captions) for record in found.records]


TWO = [("dog.png", ("a dog",)), ("cat.png", ("a cat, asleep", "the cat"))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.txt", 'image,caption\ndog.png,a dog\ncat.png,"a cat, asleep"\ncat.png,the cat\n'),
        ("captions.txt", 'dog.png,a dog\ncat.png,"a cat, asleep"\ncat.png,the cat\n'),
        ("captions.txt", "dog.png#0\ta dog\ncat.png#0\ta cat, asleep\ncat.png#1\tthe cat\n"),
        ("captions.tsv", "name\tcaption\ndog.png\ta dog\ncat.png\ta cat, asleep\ncat.png\tthe cat\n"),
        ("captions.tsv", "dog\ta dog\ncat\ta cat, asleep\ncat.png\tthe cat\n"),
        ("captions.csv", 'filename,caption\ndog.png,a dog\ncat.png,"a cat, asleep"\n./cat.png,the cat\n'),
        ("captions.csv", '"dog.png","a dog"\r\n"cat.png","a cat, asleep"\r\n"cat.png","the cat"\r\n'),
        ("CAPTIONS.TXT", "dog.png#0\ta dog\ncat.png#0\ta cat, asleep\ncat.png#1\tthe cat"),
    ],
)
def test_all_tables_say_the_same(folder: Path, name: str, text: str) -> None:
    found = read(folder, name, text)
    assert values(found) == TWO
    assert found.problems == ()
    assert found.records[0].where.startswith(f"{folder / name}:")
    assert found.records[0].value.pixels.shape == (8, 8, 3)
    assert found.notes[-1] == f"1 picture has no caption in {folder / name}, such as sub/bird.jpg"


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("captions.csv", "id;imagen;descripción\n1;dog.png;a dog\n2;cat.png;a cat\n",
         "header: name is imagen, caption is descripción; cells are divided by ;"),
        ("captions.csv", "image,said\ndog.png,a dog\ncat.png,a cat\n", "header: name is image, caption is said"),
        ("captions.csv", "Datei,Satz\ndog.png,a dog\ncat.png,a cat\n", "header: name is Datei, caption is Satz"),
        ("captions.jsonl", '{"image": "dog.png", "caption": "a dog"}\n{"image": "cat.png", "caption": "a cat"}\n',
         "keys: name is image, caption is caption"),
        ("captions.jsonl", '{"archivo": "dog.png", "descripción": "a dog"}\n{"archivo": "cat.png", "descripción": "a cat"}\n',
         "keys: name is archivo, caption is descripción"),
    ],
)  # fmt: skip
def test_usual_names_are_recognized_and_reported(folder: Path, name: str, text: str, note: str) -> None:
    found = read(folder, name, text)
    assert values(found) == [("dog.png", ("a dog",)), ("cat.png", ("a cat",))]
    assert found.problems == ()
    assert found.notes[0] == f"{folder / name}: {note}"


def test_a_picture_that_is_named_without_its_ending_is_no_header(folder: Path) -> None:
    found = read(folder, "captions.csv", "dog,a dog\ncat.png,a cat\n")
    assert values(found) == [("dog.png", ("a dog",)), ("cat.png", ("a cat",))]


def test_other_keys_can_be_named(folder: Path) -> None:
    text = '{"which": "dog.png", "what": "a dog"}\n'
    (problem,) = read(folder, "captions.jsonl", text).problems
    assert "It has 'which', 'what'. columns=NAME,CAPTION says which keys to read." in problem.what
    assert values(read(folder, "captions.jsonl", text, columns="which,what")) == TWO[:1]


def test_json_lines_and_gzip(folder: Path) -> None:
    lines = [{"name": "dog.png", "caption": "a dog"}, {"name": "cat", "caption": " a cat, asleep "},
             {"name": "cat.png#3", "caption": "the cat", "boxes": None}]  # fmt: skip
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    assert values(read(folder, "captions.jsonl", text)) == TWO
    (folder / "captions.jsonl").unlink()
    (folder / "captions.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert values(read_captions(str(folder), OPTIONS)) == TWO
    assert values(read_captions(str(folder / "captions.jsonl.gz"), OPTIONS)) == TWO


def test_pictures_are_found_below_the_folder_and_columns_can_be_named(folder: Path) -> None:
    found = read(folder, "captions.csv", "id,said,picture\n1,a bird,bird.jpg\n2,a bird,sub/bird.jpg\n",
                 columns="picture,said")  # fmt: skip
    assert values(found) == [("bird.jpg", ("a bird", "a bird"))]
    assert [Path(path).name for path in pictures_in(folder)] == ["cat.png", "dog.png", "bird.jpg"]
    (folder / "bird.jpg").write_bytes((folder / "sub/bird.jpg").read_bytes())
    (folder / "more").mkdir()
    (folder / "more/dog.png").write_bytes((folder / "dog.png").read_bytes())
    (folder / "dog.png").rename(folder / "sub/dog.png")
    found = read(folder, "captions.csv", "bird.jpg,a bird\ndog.png,a dog\n")
    assert values(found) == [("bird.jpg", ("a bird",))]
    assert "several pictures have this name: " in found.problems[0].what


def test_boxes_come_in_pixels_of_the_model(folder: Path) -> None:
    """cat.png is 20 x 20, dog.png 10 x 20: padded, its columns come to the middle."""
    lines = [
        {
            "name": "cat.png",
            "caption": "a cat",
            "boxes": {"Cat": [0, 5, 10, 20], "left": [[0, 0, 5, 20], [5, 0, 10, 20]]},
        },
        {"name": "cat.png", "caption": "the cat", "boxes": {"cat": [0, 5, 10, 20]}},
        {"name": "dog.png", "caption": "a dog", "boxes": {"dog": [0, 0, 10, 20]}},
    ]
    text = "\n".join(map(json.dumps, lines))
    cat, dog = (record.value.boxes for record in read(folder, "captions.jsonl", text).records)
    assert cat == {"cat": ((0, 2, 4, 8),), "left": ((0, 0, 2, 8), (2, 0, 4, 8))}
    assert dog == {"dog": ((2, 0, 6, 8),)}
    cropped = read(folder, "captions.jsonl", text, resize="crop").records[1].value.boxes
    assert cropped == {"dog": ((0, 0, 8, 8),)}
    lines[2]["boxes"] = {"ear": [0, 0, 5, 4]}  # above what a crop shows
    cropped = read(folder, "captions.jsonl", "\n".join(map(json.dumps, lines)), resize="crop").records[1].value.boxes
    assert cropped == {}


BOX = "must be [x0, y0, x1, y1] in pixels, with x0 < x1 and y0 < y1: got "


@pytest.mark.parametrize(
    ("name", "line", "what"),
    [
        ("captions.txt", "dgo.png,a dog", "no such picture: 'dgo.png' is not in {}. Did you mean 'dog.png'?"),
        ("captions.txt", "zebra,a zebra", "no such picture: 'zebra' is not in {}. Copy it there, or take the line out."),
        ("captions.txt", "dog.png,", "empty caption. Fill it in, or take the record out."),
        ("captions.txt", "dog.png#0\t ", "empty caption. Fill it in, or take the record out."),
        ("captions.csv", ",a dog", "no name of a picture. Fill it in, or take the record out."),
        ("captions.tsv", "dog.png a dog", "expected 2 columns, found 1. Each line is name<TAB>caption."),
        ("captions.csv", "dog.png,a dog,old", "expected 2 columns, found 3."),
        ("captions.txt", "bad.png,bad", "unreadable picture: {}/bad.png: not a picture, or of an unknown format."),
        ("captions.txt", "empty.png,bad", "unreadable picture: {}/empty.png: the file is empty."),
        ("captions.jsonl", '{"name": "dog.png"}', "no 'caption' in the object. It has 'name'."),
        ("captions.jsonl", '{"name": "dog.png", "caption": ["a"]}', "caption must be a text: got a list"),
        ("captions.jsonl", '{"name": "dog.png", "caption": " "}', "empty caption. Fill it in, or take the record out."),
        ("captions.jsonl", '{"name": "", "caption": "a"}', "no name of a picture. Fill it in"),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a"', "not JSON: "),
        ("captions.jsonl", '["dog.png", "a dog"]', "expected an object, found a list."),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": [1]}', "boxes must be an object {{word: [x0,"),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": {"a": [1, 2, 3]}}', f"the box of 'a' {BOX}[1, 2, 3]"),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": {"a": [3, 2, 1, 4]}}', f"{BOX}[3, 2, 1, 4]"),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": {"a": [1, 2, 3, "x"]}}', f"{BOX}[1, 2, 3, x]"),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": {"a": [1, 2, 3, null]}}', BOX),
        ("captions.jsonl", '{"name": "dog.png", "caption": "a", "boxes": {"a": 7}}', BOX),
        (
            "captions.jsonl",
            '{"name": "dog.png", "caption": "a", "boxes": {"a": [1, 2, 11, 4]}}',
            "the box of 'a' lies outside of the picture of 10 x 20 pixels: got [1, 2, 11, 4]",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_line(folder: Path, name: str, line: str, what: str) -> None:
    (folder / "bad.png").write_text("no picture")
    (folder / "empty.png").touch()
    good = '{"name": "cat.png", "caption": "a cat"}' if name.endswith("jsonl") else "cat.png,a cat"
    good = good.replace(",", "\t") if "\t" in line or name.endswith("tsv") else good
    found = read(folder, name, f"{good}\n{line}\n{good}\n")
    assert values(found) == [("cat.png", ("a cat", "a cat"))]
    (problem,) = found.problems
    assert problem.where == f"{folder / name}:2"
    assert what.format(folder) in problem.what


def test_a_folder_needs_one_captions_file(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no captions file. The folder must have pictures and captions.txt, captions.c"
    ):
        read_captions(str(folder), OPTIONS)
    for name in ("captions.csv", "captions.txt"):
        (folder / name).write_text("dog.png,a dog\n")
    with pytest.raises(ValueError, match=r"several captions files \(captions.csv, captions.txt\). Keep one, or give"):
        read_captions(str(folder), OPTIONS)
    assert values(read_captions(str(folder / "captions.csv"), OPTIONS)) == TWO[:1]
    with pytest.raises(ValueError, match="nowhere: no such file"):
        read_captions(str(folder / "nowhere"), OPTIONS)


def test_memory_has_a_bound(folder: Path) -> None:
    text = "dog.png,a dog\ncat.png,a cat\n"
    assert len(read(folder, "captions.csv", text, memory=4e-7).records) == 2  # 2 x 8 x 8 x 3 = 384 bytes
    with pytest.raises(ValueError, match=r"2 pictures of 8 x 8 pixels take 0.0 GB of memory, more than memory=3e-07"):
        read(folder, "captions.csv", text, memory=3e-7)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"size": 7}, "size must be at least 8: got 7"),
        ({"resize": "padd"}, "Did you mean 'pad'"),
        ({"memory": 0.0}, "memory must be a positive number of gigabytes: got 0.0"),
        ({"memory": float("nan")}, "memory must be a positive number of gigabytes: got nan"),
    ],
)
def test_options_are_checked(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PictureOptions(**options)


def test_rows_in_memory(folder: Path) -> None:
    array = np.full((8, 8, 3), 9, np.uint8)
    rows = [(folder / "dog.png", "a dog"), (array, "dark"), (Image.fromarray(array), " black "),
            (str(folder / "dog.png"), "the dog"), (array, ""), ("nowhere.png", "x"), (array,)]  # fmt: skip
    found = read_captions(rows, OPTIONS)
    assert [record.value.captions for record in found.records] == [("a dog", "the dog"), ("dark", "black")]
    assert [record.where for record in found.records] == ["row 1", "row 2"]
    assert [problem.where for problem in found.problems] == ["row 5", "row 6", "row 7"]
    assert "empty caption" in found.problems[0].what
    assert "no such file" in found.problems[1].what
    assert "expected 2 values (picture, caption), found 1." in found.problems[2].what
    same = read_captions({"picture": [array], "caption": ["dark"]}, OPTIONS)
    assert same.records[0].value.captions == ("dark",)


def test_identities(folder: Path) -> None:
    pixels, other = np.zeros((8, 8, 3), np.uint8), np.ones((8, 8, 3), np.uint8)
    one, renamed, said, changed = (
        CaptionedPicture("a", pixels, ("x",)), CaptionedPicture("b", pixels, ("x",)),
        CaptionedPicture("a", pixels, ("y",)), CaptionedPicture("a", other, ("x",)),
    )  # fmt: skip
    assert one.digest == renamed.digest == said.digest != changed.digest
    assert one.identity == renamed.identity
    assert len({one.identity, said.identity, changed.identity}) == 3
    assert boxes_of({}) == {}
