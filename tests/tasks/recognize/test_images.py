"""Labelled pictures from folders, idx, npz and memory; what is wrong is named with its place."""

import gzip
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mirada.data.record import Problem
from mirada.tasks.recognize.pictures import Fitting, Picture, picture_of_archive, read_images, read_unlabelled
from tests.tasks.recognize.test_idx import idx

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 7, 6), dtype=np.uint8)
LABELS = np.array([3, 1, 3, 10, 1], np.uint8)


def seen(picture: Picture | Problem) -> np.ndarray:
    assert isinstance(picture, Picture)
    return picture.seen(Fitting(7, 1, "stretch"))[..., 0]


def labels(found: object) -> list[str]:
    return [record.value.label for record in found.records]  # type: ignore[attr-defined]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with pets in it."""
    monkeypatch.chdir(tmp_path)
    for name, row in (("cat/1.png", 0), ("cat/more/2.jpg", 1), ("dog/1.png", 2), ("dog/.hidden.png", 3)):
        path = tmp_path / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(IMAGES[row]).save(path)
    (tmp_path / "pets" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "pets" / "dog" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "images").write_bytes(idx(IMAGES))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx(LABELS)))
    np.savez(tmp_path / "digits.npz", images=IMAGES, labels=LABELS)
    return tmp_path


# folders


def test_a_folder_per_class_at_any_depth(home: Path) -> None:
    found = read_images("pets")
    assert [record.where for record in found.records] == ["pets/cat/1.png", "pets/cat/more/2.jpg", "pets/dog/1.png"]
    assert labels(found) == ["cat", "cat", "dog"]
    assert found.problems == []
    np.testing.assert_array_equal(found.records[2].value.picture.seen(Fitting(7, 1, "stretch")).shape, (7, 7, 1))


def test_what_is_wrong_in_a_folder_is_named(home: Path) -> None:
    (home / "pets" / "bird").mkdir()
    (home / "pets" / "dog" / "notes.txt").write_text("a good dog")
    (home / "pets" / "cat" / "empty.png").write_bytes(b"")
    Image.fromarray(IMAGES[0]).save(home / "pets" / "loose.png")
    (home / "pets" / "README.md").write_text("my pets")
    found = read_images("pets")
    assert len(found.records) == 3
    assert [str(problem) for problem in found.problems] == [
        "pets/loose.png: a picture beside the class folders. Put it into the folder of its class.",
        "pets/bird: a class without pictures. Put some there, or remove the folder.",
        "pets/cat/empty.png: the file is empty. Was it written or downloaded to its end?",
        "pets/dog/notes.txt: not a picture, or of an unknown format. Save it as PNG or JPEG.",
    ]


def test_places_that_hold_no_classes(home: Path) -> None:
    for place, message in (
        ("pets/dog", "pets/dog: there is no folder in it. Pictures to learn from are in a folder per class, such as"),
        ("pest", r"pest: no such file or folder. Did you mean 'pets'\?"),
        ("labels.gz", "labels.gz: a file whose form is unknown. Give a folder with a folder per class, two idx files"),
        ("pets/cat/1.png", "pets/cat/1.png: a file whose form is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            read_images(place)


# idx


@pytest.mark.parametrize("place", ["images,labels.gz", "labels.gz,images", "images, labels.gz"])
def test_two_idx_files_in_whichever_order(home: Path, place: str) -> None:
    found = read_images(place)
    assert labels(found) == ["3", "1", "3", "10", "1"]
    np.testing.assert_array_equal(found.records[1].value.picture.given, IMAGES[1])
    assert found.records[1].where == "images:2"


def test_idx_files_that_do_not_fit(home: Path) -> None:
    (home / "four").write_bytes(idx(LABELS[:4]))
    (home / "flat").write_bytes(idx(IMAGES[0]))
    for place, message in (
        ("images,four", "every picture needs a label: images has 5 pictures and four has 4"),
        ("images,images", "images: labels have one axis, and it has 3. Give IMAGES,LABELS."),
        ("labels.gz,four", r"labels.gz: pictures have the axes \(n, height, width\), and it has 1"),
        ("flat,four", "flat: pictures have the axes"),
        ("images,labels.gz,four", "two idx files have one comma between them: IMAGES,LABELS"),
        ("images,lables.gz", r"lables.gz: no such file. Did you mean 'labels.gz'\?"),
    ):
        with pytest.raises(ValueError, match=message):
            read_images(place)


# npz


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (LABELS, ["3", "1", "3", "10", "1"]),
        (np.array(["a", "b", "a", "ü", "b"]), ["a", "b", "a", "ü", "b"]),
        (np.array([b"a", b"b", b"a", b"c", b"b"]), ["a", "b", "a", "c", "b"]),
        (np.array([True, False, True, False, True]), ["True", "False", "True", "False", "True"]),
    ],
)
def test_npz_labels_are_numbers_or_texts(home: Path, given: np.ndarray, wanted: list[str]) -> None:
    for pixels in (IMAGES, IMAGES[..., None], np.repeat(IMAGES[..., None], 3, 3)):
        np.savez_compressed("a.npz", images=pixels, labels=given)
        found = read_images("a.npz")
        assert labels(found) == wanted
        assert found.records[3].where == "a.npz:4"
        np.testing.assert_array_equal(found.records[3].value.picture.seen(Fitting(6, 1, "crop")).shape, (6, 6, 1))


def arrays(**changes: object) -> dict[str, np.ndarray]:
    return {"images": IMAGES, "labels": LABELS} | changes  # type: ignore[dict-item]


BAD: list[tuple[dict[str, object], str]] = [
    ({"images": IMAGES.astype(complex)}, "images must be numbers, such as uint8: got complex128"),
    ({"images": np.full((5, 2, 2), np.nan)}, r"5 pictures with NaN or infinite numbers, first 1, 2, 3\. Replace them"),
    ({"images": IMAGES[0]}, r"\(n, height, width\) .* got shape \(7, 6\)"),
    ({"images": np.zeros((5, 4, 4, 2), np.uint8)}, r"1, 3 or 4 channels: got shape \(5, 4, 4, 2\)"),
    ({"images": np.zeros((5, 0, 4), np.uint8)}, r"got shape \(5, 0, 4\)"),
    ({"images": IMAGES[:0], "labels": LABELS[:0]}, "there are no pictures"),
    ({"labels": LABELS[:3]}, "every picture needs a label: there are 5 pictures and 3 labels"),
    ({"labels": LABELS / 2}, r"labels must be whole numbers or texts: got float64. Convert them, such as labels.astype\(int\)"),
    ({"labels": LABELS[:, None]}, r"labels must have one axis: got shape \(5, 1\)"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), BAD, ids=[row[1] for row in BAD])
def test_arrays_that_do_not_fit_from_a_file_and_from_memory(
    home: Path, changes: dict[str, object], message: str
) -> None:
    np.savez("bad.npz", **arrays(**changes))
    with pytest.raises(ValueError, match=f"^bad.npz: .*{message}"):
        read_images("bad.npz")
    with pytest.raises(ValueError, match=f"^the data: .*{message}"):
        read_images(arrays(**changes))


def test_npz_files_that_are_not_whole(home: Path) -> None:
    whole = Path("digits.npz").read_bytes()
    Path("cut.npz").write_bytes(whole[: len(whole) // 2])
    Path("text.npz").write_text("images and labels")
    Path("empty.npz").write_bytes(b"")
    np.savez("one.npz", pictures=IMAGES, labels=LABELS)
    np.savez("objects.npz", images=IMAGES, labels=np.array([{"a": 1}, 2, 3, 4, 5], dtype=object))
    with zipfile.ZipFile("odd.npz", "w") as archive:
        archive.writestr("images.npy", b"no array")
        archive.writestr("labels.npy", b"no array")
    for name, message in (
        ("cut.npz", "not a whole npz file"),
        ("text.npz", "not a whole npz file"),
        ("empty.npz", "the file is empty"),
        ("one.npz", "there is no array 'images'; it has pictures, labels."),
        ("objects.npz", "its arrays cannot be read: labels: it holds Python objects. Save plain arrays"),
        ("odd.npz", "its arrays cannot be read: images: the magic string is not correct"),
        ("gone.npz", "no such file"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: .*({message})"):
            read_images(name)


# memory


def test_rows_in_memory(home: Path) -> None:
    rows = [
        (IMAGES[0], "a"),
        ["pets/cat/1.png", 7],
        (Image.fromarray(IMAGES[2]), np.int64(3)),
        (home / "pets/dog/1.png", "b"),
    ]
    found = read_images(rows)
    assert labels(found) == ["a", "7", "3", "b"]
    assert [record.where for record in found.records] == ["row 1", "row 2", "row 3", "row 4"]
    np.testing.assert_array_equal(seen(found.records[1].value.picture), seen(found.records[0].value.picture))


def test_bad_rows_in_memory_are_named(home: Path) -> None:
    found = read_images(
        [(IMAGES[0],), (IMAGES[0], None), (IMAGES[0], " "), ("gone.png", "a"), (IMAGES / 1.0, "a"), 5, (IMAGES[1], "b")]
    )
    assert labels(found) == ["b"]
    told = [str(problem) for problem in found.problems]
    assert told[:3] == [
        "row 1: expected 2 values (picture, label), found 1.",
        "row 2: a label is a text or a whole number: got None.",
        "row 3: a label is a text or a whole number: got ' '.",
    ]
    assert told[3].startswith("row 4: gone.png: no such file")
    assert "row 5: a picture must be a path" in told[4]
    assert told[5] == "row 6: expected 2 values (picture, label), found 1."


def test_other_things_in_memory_are_refused() -> None:
    for data, message in (
        (5, r"must be rows of \(picture, label\), or a dict with images and labels: got int"),
        (IMAGES, "got ndarray"),
        ({"images": IMAGES}, "data in memory needs images and labels: there is no labels"),
        ({}, "there is no images and no labels"),
    ):
        with pytest.raises(ValueError, match=message):
            read_images(data)


# without labels


def test_pictures_without_labels(home: Path) -> None:
    (home / "pets" / "notes.txt").write_text("not a picture")
    found = dict(read_unlabelled("pets"))
    assert list(found) == ["cat/1.png", "cat/more/2.jpg", "dog/1.png", "notes.txt"]
    assert isinstance(found["notes.txt"], Problem)
    assert found["notes.txt"].what.startswith("not a picture")
    np.savez("plain.npz", images=IMAGES)
    for place, first in (("plain.npz", "plain.npz:1"), ("images", "images:1"), ("images,labels.gz", "images:1")):
        rows = read_unlabelled(place)
        assert len(rows) == 5
        assert rows[0][0] == first
        np.testing.assert_array_equal(seen(rows[4][1]), seen(Picture(IMAGES[4])))
    assert [name for name, _ in read_unlabelled("pets/dog/1.png")] == ["1.png"]
    Path("nothing").mkdir()
    with pytest.raises(ValueError, match=r"nothing: there is no file in it. Give a folder of pictures."):
        read_unlabelled("nothing")
    ((_, gone),) = read_unlabelled("gone.png")
    assert isinstance(gone, Problem)
    with pytest.raises(ValueError, match=r"images must be .* got shape \(5,\)"):
        read_unlabelled("labels.gz")


def test_one_picture_of_many_by_its_number(home: Path) -> None:
    for place in ("images:3", "digits.npz:3"):
        picture = picture_of_archive(place)
        assert picture is not None
        assert picture.name == place
        np.testing.assert_array_equal(seen(picture), seen(Picture(IMAGES[2])))
    for text in ("pets/cat/1.png", "gone.npz:3", "a:b", "pets/cat/1.png:3"):
        assert picture_of_archive(text) is None
    for text in ("digits.npz:0", "images:6"):
        with pytest.raises(ValueError, match=re.escape("has pictures 1 to 5: there is no")):
            picture_of_archive(text)
