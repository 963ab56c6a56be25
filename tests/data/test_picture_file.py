"""Pictures of every kind become the same pixels; what cannot be read is named."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mirada.data.image import MOST_PIXELS, border_color, fit_square, open_picture, pixels_of, placed

RED, BLUE = (200, 10, 30), (0, 40, 250)


def two_colors(height: int = 5, width: int = 7) -> np.ndarray:
    """Red on the left, blue on the right."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:], pixels[:, width // 2 :] = RED, BLUE
    return pixels


@pytest.mark.parametrize("ending", ["png", "bmp", "gif", "webp", "tif", "ppm", "tga"])
def test_formats_without_loss_give_the_pixels_that_were_saved(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"picture.{ending}"
    more = {"lossless": True} if ending == "webp" else {}
    Image.fromarray(two_colors()).save(path, **more)
    np.testing.assert_array_equal(open_picture(path), two_colors())


def test_jpeg_is_near(tmp_path: Path) -> None:
    Image.fromarray(np.full((16, 16, 3), RED, np.uint8)).save(tmp_path / "picture.jpg", quality=95)
    np.testing.assert_allclose(open_picture(tmp_path / "picture.jpg"), np.full((16, 16, 3), RED), atol=6)


def test_gray_palette_and_one_bit(tmp_path: Path) -> None:
    for mode in ("L", "P", "1"):
        Image.fromarray(two_colors()).convert(mode).save(tmp_path / f"{mode}.png")
        wanted = np.array(Image.fromarray(two_colors()).convert(mode).convert("RGB"))
        found = open_picture(tmp_path / f"{mode}.png")
        assert found.shape == (5, 7, 3)
        np.testing.assert_array_equal(found, wanted)


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    image = Image.fromarray(two_colors()).convert("RGBA")
    image.putpixel((0, 0), (9, 9, 9, 0))
    image.putpixel((1, 0), (0, 0, 0, 51))  # a fifth of black on white
    image.save(tmp_path / "clear.png")
    found = open_picture(tmp_path / "clear.png")
    assert found[0, 0].tolist() == [255, 255, 255]
    assert found[0, 1].tolist() == [204, 204, 204]
    assert found[0, 2].tolist() == list(RED)
    palette = Image.new("P", (2, 1))
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "palette.png", transparency=1)
    assert open_picture(tmp_path / "palette.png").tolist() == [[[10, 20, 30], [255, 255, 255]]]


def test_sixteen_bits_keep_the_upper_eight(tmp_path: Path) -> None:
    numbers = np.array([[0, 257, 32_896, 65_535]], np.uint16)
    Image.fromarray(numbers).save(tmp_path / "deep.png")
    assert open_picture(tmp_path / "deep.png")[0, :, 0].tolist() == [0, 1, 128, 255]
    Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)).save(tmp_path / "shares.tif")
    assert open_picture(tmp_path / "shares.tif")[0, :, 0].tolist() == [0, 128, 255]
    Image.fromarray(np.array([[0, 9, 255]], np.int32)).save(tmp_path / "whole.tif")
    assert open_picture(tmp_path / "whole.tif")[0, :, 0].tolist() == [0, 9, 255]


def test_the_picture_is_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 270 degrees to see it upright
    Image.fromarray(two_colors(4, 6)).save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(open_picture(tmp_path / "turned.png"), np.rot90(two_colors(4, 6), -1))


def test_the_first_picture_of_an_animation(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (3, 2), color) for color in (RED, BLUE))
    first.save(tmp_path / "moves.gif", save_all=True, append_images=[second])
    assert open_picture(tmp_path / "moves.gif")[0, 0].tolist() == list(RED)


def claimed(width: int, height: int) -> bytes:
    """A PNG file of a few bytes that claims to be large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10)), (b"IEND", b"")]
    chunks = (struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_bad_files_are_named(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    good = BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(good, "PNG")
    jpeg = BytesIO()
    Image.fromarray(noise).save(jpeg, "JPEG")
    cases = {
        "empty.png": (b"", "the file is empty"),
        "text.png": (b"a red circle", "not a picture, or of an unknown format. Save it as PNG or JPEG."),
        "cut.png": (good.getvalue()[:5000], "the picture is damaged or cut short: .*Copy it again."),
        "cut.jpg": (jpeg.getvalue()[:900], "the picture is damaged or cut short: .*Copy it again."),
        "head.png": (good.getvalue()[:20], "not a picture, or of an unknown format|the picture is damaged"),
        "large.png": (claimed(10_000, 9_000), r"too large: 10,000 x 9,000 pixels, at most 64,000,000 in all. Shrink it."),
        "huge.png": (claimed(60_000, 60_000), "the picture is too large: .* Shrink it."),
    }  # fmt: skip
    for name, (content, text) in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=text) as found:
            open_picture(tmp_path / name)
        assert str(found.value).startswith(f"{tmp_path / name}: ")
    with pytest.raises(ValueError, match=r"no such file. Did you mean .*cut.png"):
        open_picture(tmp_path / "cutt.png")
    with pytest.raises(ValueError, match="a folder, not a file"):
        open_picture(tmp_path)
    assert MOST_PIXELS < 10_000 * 9_000
    assert list(recwarn) == []


def test_damage_anywhere_is_an_error_or_a_picture(tmp_path: Path) -> None:
    """No byte that is flipped leads to anything but pixels or a ValueError."""
    draw = np.random.default_rng(1)
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP"):
        whole = BytesIO()
        Image.fromarray(two_colors(20, 30)).save(whole, kind)
        for _ in range(60):
            content = bytearray(whole.getvalue())
            for place in draw.integers(0, len(content), 3):
                content[place] = draw.integers(0, 256)
            (tmp_path / "damaged").write_bytes(content[: draw.integers(1, len(content) + 1)])
            assert outcome(tmp_path / "damaged") == "as it should be"


def outcome(path: Path) -> str:
    try:
        found = open_picture(path)
    except ValueError as error:
        return "as it should be" if str(error).startswith(f"{path}: ") else str(error)
    return "as it should be" if found.ndim == 3 and found.dtype == np.uint8 else str(found.shape)


def test_images_and_arrays_in_memory() -> None:
    pixels = two_colors()
    np.testing.assert_array_equal(pixels_of(Image.fromarray(pixels)), pixels)
    np.testing.assert_array_equal(pixels_of(pixels), pixels)
    np.testing.assert_array_equal(pixels_of(pixels / 255), pixels)
    assert pixels_of(np.full((2, 3, 1), 7, np.uint8)).tolist() == [[[7, 7, 7]] * 3] * 2
    assert pixels_of(np.full((1, 1, 4), 0, np.uint8)).tolist() == [[[255, 255, 255]]]
    for wrong, text in (
        (np.zeros((2, 3, 5), np.uint8), r"got ndarray of shape \(2, 3, 5\)"),
        (np.zeros((0, 3), np.uint8), r"got ndarray of shape \(0, 3\)"),
        (np.full((2, 2), 200.0), "between 0 and 1: got 200 to 200. Divide by 255"),
        (np.full((2, 2), np.nan), "between 0 and 1: got nan to nan"),
        (np.zeros((2, 2), np.int64), "must be uint8, or floats from 0 to 1: got int64"),
        (None, r"got NoneType of shape \(\)"),
    ):
        with pytest.raises(ValueError, match=text):
            pixels_of(wrong)


def test_a_square_of_the_size_is_not_touched() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (11, 11, 3), dtype=np.uint8)
    for way in ("pad", "crop", "stretch"):
        np.testing.assert_array_equal(fit_square(pixels, 11, way), pixels)


@pytest.mark.parametrize("sides", [(4, 8), (8, 4), (100, 30), (3, 3), (1, 500), (500, 1), (7, 5)])
@pytest.mark.parametrize("way", ["pad", "crop", "stretch"])
def test_every_shape_fits_and_a_plain_picture_stays_plain(sides: tuple[int, int], way: str) -> None:
    found = fit_square(np.full((*sides, 3), RED, np.uint8), 16, way)
    assert found.shape == (16, 16, 3)
    np.testing.assert_array_equal(found, np.full((16, 16, 3), RED))


def test_pad_shows_all_and_crop_the_middle() -> None:
    wide = np.zeros((4, 8, 3), np.uint8)
    wide[:, 2:6] = 255
    padded = fit_square(wide, 8, "pad")
    assert (padded[:2] == border_color(wide)).all()
    assert (padded[6:] == border_color(wide)).all()
    np.testing.assert_array_equal(padded[2:6], wide)
    np.testing.assert_array_equal(fit_square(wide, 4, "crop"), np.full((4, 4, 3), 255))
    assert border_color(wide).tolist() == [85] * 3  # 4 of 8 above and below, none of 4 at the sides: 8 of 24
    stretched = fit_square(wide, 4, "stretch")
    assert stretched[:, 0].max() < 64
    assert stretched[:, 1].min() > 192
    with pytest.raises(ValueError, match="fitted by pad, crop, stretch: got 'cut'"):
        fit_square(wide, 3, "cut")


def test_a_box_goes_where_its_pixels_go() -> None:
    """The box of a white square in a black picture, fitted, holds the white pixels of the fitted picture and no others."""
    for sides in ((40, 80), (80, 40), (64, 64)):
        pixels = np.zeros((*sides, 3), np.uint8)
        y, x = sides[0] // 2 - 4, sides[1] // 2 - 8
        pixels[y : y + 8, x : x + 16] = 255
        for way in ("pad", "crop", "stretch"):
            x0, y0, x1, y1 = placed(*sides, 32, way).box((x, y, x + 16, y + 8))
            rows, columns = np.nonzero(fit_square(pixels, 32, way)[..., 0] > 127)
            assert abs(columns.min() - x0) <= 0.5
            assert abs(columns.max() + 1 - x1) <= 0.5
            assert abs(rows.min() - y0) <= 0.5
            assert abs(rows.max() + 1 - y1) <= 0.5
