"""What a run remembers of its pictures."""

import json

import numpy as np
import pytest

from mirada.data.preprocessing import Preprocessing
from mirada.tasks.recognize.examples import Augmentation, PictureClasses, default_patch, sorted_labels
from mirada.tasks.recognize.pictures import Fitting, Picture

KNOWN = PictureClasses(("cat", "dog"), Fitting(12, 3, "crop"), 4, Augmentation(1, True, 0.25))


def test_facts_bring_it_back() -> None:
    assert PictureClasses.restore(KNOWN.facts(), {}) == KNOWN
    assert KNOWN.contents() == {}
    assert "scale" not in KNOWN.facts(), "bytes are not scaled: as before"
    scaled = PictureClasses(("cat", "dog"), Fitting(12, 1, "pad", (0.0, 16.0)), 4)
    assert PictureClasses.restore(json.loads(json.dumps(scaled.facts())), {}) == scaled


@pytest.mark.parametrize(
    ("name", "value"), [("labels", "cat"), ("size", "12"), ("light", None), ("flip", 1), ("scale", [1])]
)
def test_broken_facts_are_named(name: str, value: object) -> None:
    with pytest.raises(
        ValueError, match=f"config.json does not say how pictures are read: {name} is missing or broken"
    ):
        PictureClasses.restore(KNOWN.facts() | {name: value}, {})


def test_patches_have_names_row_by_row() -> None:
    assert KNOWN.grid == 3
    assert KNOWN.places[5] == "row 2, column 3"
    assert len(KNOWN.places) == 9


def test_a_box_touches_the_patches_that_it_overlaps() -> None:
    square = Picture(np.zeros((12, 12, 3), np.uint8))
    assert np.flatnonzero(KNOWN.touched(square, (4, 4, 8, 8))).tolist() == [4]
    assert np.flatnonzero(KNOWN.touched(square, (3, 4, 8, 9))).tolist() == [3, 4, 6, 7]
    wide = Picture(np.zeros((24, 48, 3), np.uint8))  # cropped to its middle, and halved
    assert KNOWN.seen_box(wide, (12, 0, 20, 8)) == (0.0, 0.0, 4.0, 4.0)
    assert np.flatnonzero(KNOWN.touched(wide, (12, 0, 20, 8))).tolist() == [0]
    assert not KNOWN.touched(wide, (0, 0, 12, 24)).any(), "it was cropped away"


@pytest.mark.parametrize(
    ("size", "patch"), [(8, 2), (16, 2), (20, 4), (28, 4), (32, 4), (40, 4), (48, 8), (64, 8), (96, 16), (224, 32)]
)
def test_a_size_has_patches_that_suit_it(size: int, patch: int) -> None:
    assert default_patch(size) == patch


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (50, r"size=50 does not divide into patches of 8 x 8: take size=48, or give patch=2, 5, 10, 25."),
        (30, r"size=30 does not divide into patches of 4 x 4: take size=28, or give patch=2, 3, 5, 6."),
        (3, r"size=3 does not divide into patches of 2 x 2: take size=2, or give patch=3."),
    ],
)
def test_a_size_that_has_none_is_refused_with_the_way_out(size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        default_patch(size)


def test_numbers_are_in_their_order() -> None:
    assert sorted_labels(map(str, range(12)))[-2:] == ("10", "11")
    assert sorted_labels(["dog", "cat", "dog"]) == ("cat", "dog")


def test_an_imported_model_keeps_how_it_reads_pictures() -> None:
    """Its facts are what a family makes of a folder: the names of the classes and what is done to a picture."""
    seen = Preprocessing((8, 8), mean=(0.5,) * 3, std=(0.25,) * 3)
    facts = {"labels": ["crane", "crane", "tabby, Tabby cat"], "pictures": seen.facts(), "patch": 4}
    known = PictureClasses.restore(facts, {})
    assert known.labels == ("crane", "crane (2)", "tabby, Tabby cat")
    assert (known.fitting, known.grid, known.augmentation) == (seen, 2, Augmentation())
    assert PictureClasses.restore(known.facts(), {}) == known
    names = ["tabby", "Tabby_cat", "TABBY, tabby cat", "crane (2)", "bird"]
    assert [known.named(name) for name in names] == ["tabby, Tabby cat"] * 3 + ["crane (2)", "bird"]
    with pytest.raises(ValueError, match="pictures have 1 or 3 channels, and this model reads 5"):
        PictureClasses.restore({"labels": ["a", "b"], "patch": 4, "channels": 5}, {})
