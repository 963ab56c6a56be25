"""Tables of pixels: a picture in every row, with a header or without one, the class in whichever column it is."""

from pathlib import Path

import numpy as np
import pytest

from mirada.tasks.recognize.pictures import (
    Fitting,
    Picture,
    brightness_scale,
    picture_of_archive,
    read_images,
    read_unlabelled,
)
from mirada.tasks.recognize.tables import pixel_columns

COUNT, SIDE = 30, 5
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, SIDE, SIDE))
IMAGES[:, [0, 0, -1, -1], [0, -1, 0, -1]] = 0  # corners are paper in most pictures
IMAGES[::7, -1, -1] = 9
LABELS = [str(row % 3) for row in range(COUNT)]
NAMES = [f"pixel{number}" for number in range(SIDE**2)]


def write(path: Path, images=IMAGES, labels=LABELS, place: int = 0, header=("label",), mark: str = ",") -> str:
    """A table with the classes in a column; `header` are the names next to those of the pixels."""
    rows = [[str(pixel) for pixel in image.ravel()] for image in images]
    lines = [NAMES[:], *rows] if header else rows
    for line, label in zip(lines, (*header, *labels) if header else labels, strict=bool(labels)):
        line.insert(place if place >= 0 else len(line), label)
    path.write_text("".join(mark.join(line) + "\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize(("place", "header"), [(0, ("label",)), (-1, ("digit",)), (0, ()), (-1, ()), (7, ("class",))])
def test_pictures_and_classes_are_those_of_the_rows(
    tmp_path: Path, mark: str, place: int, header: tuple[str, ...]
) -> None:
    found = read_images(write(tmp_path / "table.csv", place=place, header=header, mark=mark))
    assert found.problems == []
    assert [record.value.label for record in found.records] == LABELS
    for record, image in zip(found.records, IMAGES, strict=True):
        np.testing.assert_array_equal(record.value.picture.seen(Fitting(SIDE, 1))[..., 0], image)
    assert found.records[4].where == f"{tmp_path / 'table.csv'}:{5 + len(header)}", "the line of the file"
    assert picture_of_archive(found.records[4].where).identity == found.records[4].value.picture.identity
    (note,) = found.notes
    assert "5 x 5 pixels in every row, the class in column " in note


def test_classes_of_words_and_numbers_with_a_point(tmp_path: Path) -> None:
    words = read_images(write(tmp_path / "a.csv", labels=[f"kind {label}" for label in LABELS], place=-1, header=()))
    assert [record.value.label for record in words.records][:3] == ["kind 0", "kind 1", "kind 2"]
    pointed = read_images(write(tmp_path / "b.csv", labels=[f"{label}.0" for label in LABELS]))
    assert [record.value.label for record in pointed.records] == LABELS


def test_rare_classes_are_not_taken_for_paper(tmp_path: Path) -> None:
    rare = ["1" if row % 10 == 0 else "0" for row in range(COUNT)]
    images = IMAGES.copy()
    images[:, -1, -1] = 0
    images[0, -1, -1] = 3
    found = read_images(write(tmp_path / "a.csv", images, rare, header=()))
    assert [record.value.label for record in found.records] == rare


def test_bad_rows_are_named_with_their_line(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.csv"))
    lines = path.read_text().splitlines()
    lines[3] += ",7"
    lines[5] = lines[5].replace(",", ",x", 1)
    lines[6] = lines[6][lines[6].index(",") :]
    path.write_text("\n".join(lines))
    found = read_images(str(path))
    assert len(found.records) == COUNT - 3
    assert [problem.where.rpartition(":")[2] for problem in found.problems] == ["4", "6", "7"]
    assert found.problems[0].what == "expected 26 columns, found 27."
    assert found.problems[1].what.startswith("a pixel is a number: got 'x")
    assert found.problems[2].what == "there is no class in this row."
    names = [name for name, _ in read_unlabelled(str(path))]
    assert names == [f"{path}:{line}" for line in range(2, COUNT + 2)], "in the order of the file"


def test_without_classes_there_are_inputs_and_nothing_to_learn(tmp_path: Path) -> None:
    path = write(tmp_path / "test.csv", labels=[], header=())
    assert [picture.seen(Fitting(SIDE, 1)).sum() for _, picture in read_unlabelled(path)] == IMAGES.sum((1, 2)).tolist()
    with pytest.raises(ValueError, match="25 columns are 5 x 5 pixels and no class: add a column of classes"):
        read_images(path)


def test_other_tables_are_none_of_pixels(tmp_path: Path) -> None:
    for text in ("name\na.png\n", ",".join("abcdef") + "\n1,2,3,4,5,6\n", ",".join(str(n) for n in range(19)) + "\n"):
        (tmp_path / "a.csv").write_text(text)
        assert pixel_columns(str(tmp_path / "a.csv")) is None
    with pytest.raises(ValueError, match="a file whose form is unknown"):
        read_images(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("numbers", "scale"),
    [
        ([0, 0.5, 1], (0, 1)), ([0.2, 0.4], (0, 1)), ([0, 16], (0, 16)), ([3, 200.5], (0, 255)), ([0, 60_000], (0, 60_000)),
        ([-1, 0.3], (-1, 1)), ([-2.5, 4], (-2.5, 4)),
    ],
)  # fmt: skip
def test_which_numbers_are_black_and_white(numbers: list[float], scale: tuple[float, float]) -> None:
    picture = Picture(np.array([numbers]))
    assert brightness_scale([picture, Picture(np.zeros((2, 2), np.uint8))]) == scale
    low, high = scale
    seen = Fitting(len(numbers), 1, "stretch", scale).bytes_of(picture.given)
    np.testing.assert_array_equal(seen[0], np.rint([(x - low) * 255 / (high - low) for x in numbers]))
    assert brightness_scale([Picture(np.zeros((2, 2), np.uint8))]) is None


def test_a_dark_picture_of_a_table_of_bytes_is_one_of_bytes(tmp_path: Path) -> None:
    """A single row does not say what its numbers are; the table did, and the run has no scale of other numbers."""
    dark = IMAGES.copy()
    dark[3] //= 3
    place = write(tmp_path / "table.csv", dark)
    (record,) = [record for record in read_images(place).records if record.where == f"{place}:5"]
    again = picture_of_archive(f"{place}:5")
    assert again.has_numbers
    np.testing.assert_array_equal(again.seen(Fitting(SIDE, 1)), record.value.picture.seen(Fitting(SIDE, 1)))
