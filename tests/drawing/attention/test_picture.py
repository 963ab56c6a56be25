"""Heat over pictures: the picture once, a panel per word, boxes and peaks at their places, all values as text."""

import re
from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from mirada.drawing import HeatPanel, PictureHeat
from mirada.drawing.attention.picture import MOST
from tests.drawing.parsed import NAN, Node, page_of

PIXELS = np.random.default_rng(3).integers(0, 256, (6, 9, 3), dtype=np.uint8)
GRID = ((0.1, 0.2, 0.0), (0.0, 0.6, 0.1))


def pixels_of(address: str) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(b64decode(address.split(",")[1]))))


def picture_of(root: Node) -> np.ndarray:
    (panels,) = root.all(kind="panels")
    found = re.search(r"url\((data:[^)]+)\)", panels.attributes["style"] or "")
    assert found
    return pixels_of(found.group(1))


def test_the_picture_is_embedded_once_and_whole() -> None:
    root = page_of(PictureHeat(PIXELS, (HeatPanel("a", GRID), HeatPanel("b", GRID))))
    np.testing.assert_array_equal(picture_of(root), PIXELS)
    assert len(root.all(kind="base")) == 3
    assert "--ratio:9/6" in (root.all(kind="panels")[0].attributes["style"] or "")


def test_one_panel_is_next_to_its_picture() -> None:
    one, two = (page_of(PictureHeat(PIXELS, (HeatPanel("a", GRID),) * count)) for count in (1, 2))
    assert len(one.all(kind="pair")) == 1
    assert two.all(kind="pair") == []


def test_every_panel_has_its_weights_in_colors_and_in_text() -> None:
    other = ((0.0, 0.3, 0.0), (0.7, 0.0, 0.0))
    root = page_of(PictureHeat(PIXELS, (HeatPanel("\u2581red", GRID), HeatPanel("\u2581ball", other))))
    first, second = root.all("img")
    np.testing.assert_array_equal(pixels_of(second.attributes["src"] or "")[..., 3], [[0, 90, 0], [209, 0, 0]])
    assert pixels_of(first.attributes["src"] or "").shape == (2, 3, 4)
    assert [node.text for node in root.all("pre")] == [
        ".1000 .2000 .0000\n.0000 .6000 .1000", ".0000 .3000 .0000\n.7000 .0000 .0000",
    ]  # fmt: skip
    assert [node.text for node in root.all(kind="at")] == ["0.6 at row 2, column 2", "0.7 at row 2, column 1"]
    assert root.all(kind="lines")[0].all("dd")[0].text == "red ball"
    peak = root.all(kind="peak")[0].attributes["style"]
    assert peak == "left:33.333%;top:50%;width:33.333%;height:50%"


def test_boxes_stand_at_their_places_with_the_share_inside() -> None:
    boxes = ((3.0, 3.0, 6.0, 6.0),)  # exactly the middle cell of the lower row
    root = page_of(PictureHeat(PIXELS, (HeatPanel("ball", GRID, boxes),)))
    assert root.all(kind="box")[0].attributes["style"] == "left:33.333%;top:50%;width:33.333%;height:50%"
    assert "60% of the weight in the box" in root.text
    half = page_of(PictureHeat(PIXELS, (HeatPanel("ball", GRID, ((3.0, 4.5, 6.0, 6.0),)),)))
    assert "30% of the weight in the box" in half.text
    outside = page_of(PictureHeat(PIXELS, (HeatPanel("ball", GRID, ((-9.0, -9.0, 99.0, 99.0),)),)))
    assert outside.all(kind="box")[0].attributes["style"] == "left:0%;top:0%;width:100%;height:100%"
    assert "100% of the weight in the box" in outside.text
    noted = page_of(PictureHeat(PIXELS, (HeatPanel("ball", GRID, boxes, "90% on what it touches"),)))
    assert "90% on what it touches" in noted.text
    assert "in the box" not in noted.all(kind="panels")[0].text
    unknown = page_of(PictureHeat(PIXELS, (HeatPanel("ball", ((NAN, 1.0),), boxes),)))
    assert "of the weight" not in unknown.all(kind="panels")[0].text


def test_even_weights_have_no_strongest_place() -> None:
    root = page_of(PictureHeat(PIXELS, (HeatPanel("a", ((0.25, 0.25), (0.25, 0.25))),)))
    assert root.all(kind="panel")[1].all(kind="peak") == []
    assert root.all(kind="at")[0].text == "even, 0.25 at every place"


def test_a_class_is_right_or_wrong_and_a_caption_is_compared() -> None:
    wrong = page_of(PictureHeat(PIXELS, (HeatPanel("cat", GRID),), "cat", "dog", score=0.75))
    assert [node.text for node in wrong.all(kind="verdict")[0].all("span")] == [
        "answer cat", "score 0.75", "\u2717 wrong", "wanted dog",
    ]  # fmt: skip
    caption = page_of(PictureHeat(PIXELS, (HeatPanel("a", GRID), HeatPanel("cat", GRID)), wanted="a dog"))
    assert [node.text for node in caption.all("mark")] == ["dog"]


def test_large_pictures_are_shrunk_and_boxes_stay() -> None:
    large = np.zeros((3 * MOST, MOST), np.uint8)
    root = page_of(PictureHeat(large, (HeatPanel("a", GRID, ((0.0, 0.0, float(MOST), 1.5 * MOST),)),)))
    assert picture_of(root).shape == (MOST, MOST // 3)
    assert root.all(kind="box")[0].attributes["style"] == "left:0%;top:0%;width:100%;height:50%"


def test_misleading_features_are_reported() -> None:
    def told(*grids: tuple[tuple[float, ...], ...]) -> list[str]:
        root = page_of(PictureHeat(PIXELS, tuple(HeatPanel("a", grid) for grid in grids)))
        return [node.text for node in root.all(kind="caution")]

    assert told(GRID) == []
    assert told(((NAN, 0.5),)) == ["1 weight is not a number."]
    assert told(((0.25, 0.25),), ((0.5,),)) == ["The weights sum to 0.5, not to 1."]
    assert "One place, \u201crow 2, column 2\u201d, takes 60% of all weight." in told(GRID, GRID, GRID)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"uint8 of shape .height, width. or .*: got float64 of shape \(2, 3\)"):
        PictureHeat(np.zeros((2, 3)), ())
    with pytest.raises(ValueError, match=r"got uint8 of shape \(2, 3, 4\)"):
        PictureHeat(np.zeros((2, 3, 4), np.uint8), ())
    with pytest.raises(ValueError, match=r"weights of 'a' must be a grid .* got lengths \[1, 2\]"):
        HeatPanel("a", ((1.0,), (0.5, 0.5)))
    with pytest.raises(ValueError, match="must be a grid"):
        HeatPanel("a", ())
