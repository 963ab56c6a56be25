"""Pictures as transformers' processors of Pillow make them, from the same preprocessor_config.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from mirada.data.image import pixels_of  # noqa: E402
from mirada.data.preprocessing import Preprocessing  # noqa: E402

SIDES = [(30, 41), (41, 30), (17, 17), (9, 33), (64, 12), (200, 333)]  # height, width
MODES = ["RGB", "L", "RGBA", "P", "LA", "1"]
SMALL = {"height": 24, "width": 24}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("ViTImageProcessor", {"size": SMALL}),
    "vit, nearest": ("ViTImageProcessor", {"size": SMALL, "resample": 0, "image_mean": [0.1, 0.2, 0.3]}),
    "vit, lanczos": ("ViTImageProcessor", {"size": SMALL, "resample": 1, "image_std": [0.1, 0.2, 0.3]}),
    "vit, box": ("ViTImageProcessor", {"size": SMALL, "resample": 4, "do_normalize": False}),
    "vit, hamming": ("ViTImageProcessor", {"size": SMALL, "resample": 5, "rescale_factor": 1 / 127.5}),
    "deit": ("DeiTImageProcessor", {"size": {"height": 27, "width": 27}, "crop_size": SMALL}),
    "dinov2": ("BitImageProcessor", {"size": {"shortest_edge": 29}, "crop_size": SMALL, "image_mean": [0.4, 0.5, 0.6]}),
    "clip": ("CLIPImageProcessor", {"size": {"shortest_edge": 24}, "crop_size": SMALL}),
    "clip, larger crop": ("CLIPImageProcessor", {"size": {"shortest_edge": 17}, "crop_size": {"height": 25, "width": 25}}),
    "clip, crop alone": ("CLIPImageProcessor", {"do_resize": False, "crop_size": {"height": 31, "width": 31}}),
    "clip, old file": ("CLIPFeatureExtractor", {"size": 24, "crop_size": 23}),
    "vit, old file": ("ViTFeatureExtractor", {"size": 24}),
    "raw bytes": ("ViTImageProcessor", {"size": SMALL, "do_rescale": False, "do_normalize": False}),
}  # fmt: skip


def picture(height: int, width: int, mode: str = "RGB") -> Image.Image:
    """Smooth colors with noise; transparent at the left where the mode can be."""
    chance = np.random.default_rng(height * width)
    ramp = np.linspace(0, 255, width)[None, :, None] * np.ones((height, 1, 4))
    image = Image.fromarray((0.7 * ramp + 0.3 * chance.integers(0, 256, (height, width, 4))).astype(np.uint8), "RGBA")
    return image if mode == "RGBA" else image.convert(mode)


def theirs(kind: str, settings: dict[str, Any], image: Image.Image) -> torch.Tensor:
    name = kind.replace("FeatureExtractor", "ImageProcessor")
    processor = getattr(transformers, f"{name}Pil")(**settings | {"do_convert_rgb": True})
    return processor(image, return_tensors="pt")["pixel_values"]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_pixel_values_are_those_of_their_processor(name: str, sides: tuple[int, int]) -> None:
    kind, settings = CASES[name]
    image, wanted = picture(*sides), theirs(kind, settings, picture(*sides)).float()
    ours = Preprocessing.of_file({"image_processor_type": kind, **settings}, "vit", 24)
    square = ours.of(pixels_of(image))
    assert_close(torch.from_numpy(ours.numbers(square[None])), wanted, atol=1e-5, rtol=1e-5)
    unit = square.transpose(2, 0, 1)[None].astype(np.float32) / np.float32(127.5) - 1
    assert_close(torch.from_numpy(ours.of_unit(unit)), wanted, atol=1e-4, rtol=1e-4)
    assert Preprocessing.restore(json.loads(json.dumps(ours.facts()))) == ours


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["vit", "clip"])
def test_pictures_of_all_modes(name: str, mode: str, tmp_path: Path) -> None:
    kind, settings = CASES[name]
    picture(30, 41, mode).save(tmp_path / "picture.png")
    ours = Preprocessing.of_file({"image_processor_type": kind, **settings}, "vit", 24)
    got = ours.numbers(ours.of(pixels_of(tmp_path / "picture.png"))[None])
    with Image.open(tmp_path / "picture.png") as image:
        assert_close(torch.from_numpy(got), theirs(kind, settings, image), atol=1e-5, rtol=1e-5)


def test_gray_for_a_model_of_gray() -> None:
    settings = {"size": SMALL, "image_mean": [0.3], "image_std": [0.2]}
    image = picture(30, 41, "L")
    processor = transformers.ViTImageProcessorPil(**settings)
    ours = Preprocessing.of_file(settings, "vit", 24, channels=1)
    got = ours.numbers(ours.of(pixels_of(image))[None])
    assert_close(torch.from_numpy(got), processor(image, return_tensors="pt")["pixel_values"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["ViT", "DeiT", "Bit", "CLIP"])
def test_what_a_file_does_not_say_is_as_in_their_class(kind: str) -> None:
    ours = Preprocessing.of_file({"image_processor_type": f"{kind}ImageProcessorFast"}, "vit", 224)
    wanted = theirs(f"{kind}ImageProcessor", {}, picture(90, 70))
    assert_close(
        torch.from_numpy(ours.numbers(ours.of(pixels_of(picture(90, 70)))[None])), wanted, atol=1e-5, rtol=1e-5
    )


def test_a_folder_without_the_file_takes_the_sizes_of_the_model() -> None:
    ours = Preprocessing.of_file(None, "clip", 24, channels=3)
    assert (ours.resize, ours.crop, ours.size, ours.channels) == ((24, 24), 0, 24, 3)
    assert ours.note.startswith("no preprocessor_config.json: pictures are resized to 24 x 24, the size in config.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_processor_type": "ConvNextImageProcessor"}, "unknown image_processor_type 'ConvNextImageProcessor'; known: Bit"),
        ({"do_pad": True}, "asks for do_pad, which is not done here"),
        ({"size": {"longest_edge": 24}}, "size must have height and width, or shortest_edge: got"),
        ({"size": {"shortest_edge": 24}}, r"must make all pictures squares of one size: it resizes to \[24\]"),
        ({"size": {"height": 24, "width": 48}}, r"must make all pictures squares of one size: it resizes to \[24, 48\]"),
        ({"size": {"height": "24", "width": 24}}, "must have sizes from 1 to 8192 pixels: got"),
        ({"size": 10**9}, "must have sizes from 1 to 8192 pixels: got"),
        ({"do_center_crop": True, "crop_size": {"height": 2, "width": 3}}, "must cut out squares: got crop_size="),
        ({"resample": 6}, "resample must be 0 to 5: got 6"),
        ({"resample": "bicubic"}, "resample must be 0 to 5: got bicubic"),
        ({"image_mean": [0.5]}, "image_mean must have a number for each of 3 channels"),
        ({"image_std": [0.5, 0, 0.5]}, "no image_std of 0"),
        ({"image_mean": [0.5, float("nan"), 0.5]}, "must have finite numbers"),
        ({"rescale_factor": "1/255"}, "rescale_factor must be a number: got 1/255"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(changes: dict[str, Any], message: str) -> None:
    plain = {"size": SMALL, "do_center_crop": False, "crop_size": SMALL}
    with pytest.raises(ValueError, match=message):
        Preprocessing.of_file(plain | changes, "vit", 24)


def test_facts_that_are_broken_are_said() -> None:
    facts = Preprocessing((8, 8)).facts()
    for broken in (None, [], facts | {"mean": 3}, {key: facts[key] for key in facts if key != "crop"}):
        with pytest.raises(ValueError, match=r"config\.json does not say how pictures are read"):
            Preprocessing.restore(broken)


def test_where_a_box_went() -> None:
    place = Preprocessing((10,), crop=10).placed(20, 40)
    assert place.box((10, 0, 30, 20)) == (0.0, 0.0, 10.0, 10.0)
    assert place.box((20, 10, 40, 20)) == (5.0, 5.0, 10.0, 10.0)
