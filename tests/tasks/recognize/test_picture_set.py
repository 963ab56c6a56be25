"""Many pictures become one array: what is seen of each, at a size that suits them, within a bound."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mirada.data.image import fit_square, header_of, open_picture
from mirada.tasks.recognize.pictures import (
    Fitting,
    Picture,
    brightness,
    decode_all,
    default_size,
    describe_sizes,
    require_room,
    stack_pictures,
)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    Image.fromarray(noise(5, 9, 3)).save(tmp_path / "color.png")
    Image.fromarray(noise(6, 4)).save(tmp_path / "gray.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(noise(5, 9, 3)).save(tmp_path / "turned.jpg", exif=exif)
    (tmp_path / "cut.png").write_bytes((tmp_path / "color.png").read_bytes()[:-60])
    return tmp_path


def test_the_header_tells_sides_and_color_without_decoding(files: Path) -> None:
    found = {name: header_of(files / name) for name in ("color.png", "gray.png", "turned.jpg", "cut.png")}
    assert [(x.height, x.width, x.gray) for x in found.values()] == [
        (5, 9, False), (6, 4, True), (9, 5, False), (5, 9, False),
    ]  # fmt: skip


def test_a_picture_of_whatever_kind_is_seen_as_its_pixels_are(files: Path) -> None:
    path, pixels = str(files / "color.png"), noise(5, 9, 3)
    wanted = fit_square(pixels, 8)
    for given in (path, files / "color.png", pixels, Image.fromarray(pixels), pixels / 255):
        picture = Picture(given)
        assert (picture.height, picture.width, picture.gray) == (5, 9, False)
        np.testing.assert_array_equal(picture.seen(Fitting(8, 3)), wanted)
        assert picture.seen(Fitting(8, 3)) is picture.seen(Fitting(8, 3)), "decoded once"
    assert str(Picture(path)) == path
    assert str(Picture(pixels)) == "a picture of 5 x 9"
    assert str(Picture(pixels, "row 3")) == "row 3"


def test_gray_is_one_channel_or_three_and_colors_become_as_bright_as_pillow_makes_them(files: Path) -> None:
    gray, color = noise(6, 6), noise(6, 6, 3, seed=1)
    for given in (gray, gray[..., None], Image.fromarray(gray)):
        assert Picture(given).gray
        np.testing.assert_array_equal(Picture(given).seen(Fitting(6, 1))[..., 0], gray)
        np.testing.assert_array_equal(Picture(given).seen(Fitting(6, 3)), np.repeat(gray[..., None], 3, 2))
    bright = Picture(color).seen(Fitting(6, 1))[..., 0].astype(int)
    assert abs(bright - np.asarray(Image.fromarray(color).convert("L")).astype(int)).max() <= 1
    np.testing.assert_array_equal(brightness(np.repeat(gray[..., None], 3, 2))[..., 0], gray)


def test_identity_is_of_the_content_not_of_the_name(files: Path) -> None:
    (files / "copy.png").write_bytes((files / "color.png").read_bytes())
    assert Picture(files / "copy.png").identity == Picture(files / "color.png").identity
    assert Picture(noise(4, 6)).identity == Picture(noise(4, 6)).identity
    others = [Picture(noise(4, 6, seed=1)), Picture(noise(6, 4)), Picture(files / "gray.png")]
    assert len({Picture(noise(4, 6)).identity, *(other.identity for other in others)}) == 4


def of(*sides: tuple[int, int]) -> list[Picture]:
    return [Picture(np.zeros(side, np.uint8)) for side in sides]


@pytest.mark.parametrize(
    ("sides", "multiple", "wanted"),
    [
        ([(28, 28)] * 3, 0, 28),
        ([(32, 32)] * 3, 0, 32),
        ([(64, 64)], 0, 64),
        ([(8, 8)], 0, 8),
        ([(5, 4)], 0, 8),
        ([(9, 11)], 0, 12),
        ([(16, 16)], 0, 16),
        ([(20, 20)], 0, 20),
        ([(96, 96)], 0, 64),
        ([(45, 45)], 0, 48),
        ([(30, 20), (36, 10), (480, 640)], 0, 36),
        ([(500, 400), (480, 640), (20, 20)], 0, 64),
        ([(28, 28)] * 3, 7, 28),
        ([(33, 30)] * 3, 7, 35),
        ([(8, 8)], 100, 100),
    ],
)
def test_the_size_is_their_own_or_the_median_within_bounds(
    sides: list[tuple[int, int]], multiple: int, wanted: int
) -> None:
    assert default_size(of(*sides), multiple) == wanted


def test_what_becomes_of_them_is_reported() -> None:
    assert describe_sizes(of((28, 28), (28, 28)), Fitting(28, 1)) == "gray pictures of 28 x 28"
    assert (
        describe_sizes(of((8, 8), (9, 9)), Fitting(32, 3))
        == "pictures in color of 2 sizes, 8 x 8 to 9 x 9: scaled to 32 x 32"
    )
    for way, said in (
        ("pad", "padded at their borders"),
        ("crop", "cropped to their middle"),
        ("stretch", "stretched"),
    ):
        text = describe_sizes(of((10, 20)), Fitting(32, 3, way))
        assert text == f"pictures in color of 10 x 20: scaled to 32 x 32, those that are not square {said}"


def test_bad_pictures_are_told_by_their_number(files: Path) -> None:
    pictures = [Picture(files / name) for name in ("color.png", "cut.png", "gray.png")]
    faults = decode_all([*pictures, Picture(noise(3, 3))], Fitting(4, 3))
    assert list(faults) == [1]
    assert faults[1].startswith(f"{files / 'cut.png'}: the picture is damaged or cut short")


def test_they_are_kept_in_one_array(files: Path) -> None:
    pictures = [Picture(files / "color.png"), Picture(noise(4, 4))]
    whole = stack_pictures(pictures, Fitting(4, 3))
    assert whole.shape == (2, 4, 4, 3)
    np.testing.assert_array_equal(whole[0], fit_square(open_picture(files / "color.png"), 4))
    assert all(np.shares_memory(picture.seen(Fitting(4, 3)), whole) for picture in pictures)


def test_more_than_memory_holds_is_refused_with_the_way_out() -> None:
    require_room(1000, Fitting(100, 1), 0.01)
    with pytest.raises(
        ValueError,
        match=r"25,000 pictures of 224 x 224 take 3.8 GB, and at most 2 GB are kept. Give a smaller size=, fewer pictures, "
        r"or more memory=.",
    ):
        require_room(25_000, Fitting(224, 3), 2.0)


def test_a_fitting_that_makes_no_sense_is_refused() -> None:
    for changes, message in (
        ((0, 3), "got size=0, channels=3"),
        ((4, 2), "channels=2"),
        ((4, 3, "cut"), "fitted by pad, crop, stretch: got 'cut'"),
    ):
        with pytest.raises(ValueError, match=message):
            Fitting(*changes)
    with pytest.raises(ValueError, match=r"got ndarray of shape \(2, 3, 5\)"):
        Picture(np.zeros((2, 3, 5), np.uint8))
