"""Pictures as a checkpoint of Hugging Face wants them: what its preprocessor_config.json says, as a value.

RGB in 8 bits -> resize -> cut out the middle -> numbers, less the mean, over the deviation
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from mirada.data.image import Pixels, Placement
from mirada.errors import require, unknown

Square = UInt8[np.ndarray, "size size channels"]
Squares = UInt8[np.ndarray, "n size size channels"]
Numbers = Float[np.ndarray, "n channels size size"]

NAME = "preprocessor_config.json"
LARGEST = 8192  # pixels of a side, after which a file is not believed
FILTERS = tuple(Image.Resampling(code) for code in range(6))  # nearest, lanczos, bilinear, bicubic, box, hamming
HALF = 0.5, 0.5, 0.5
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
PLAIN = {"size": {"height": 224, "width": 224}, "resample": 2, "image_mean": HALF, "image_std": HALF}
CROPPED = {"crop_size": {"height": 224, "width": 224}, "do_center_crop": True, "resample": 3}
OF_CLIP = {**CROPPED, "size": {"shortest_edge": 224}, "image_mean": CLIP_MEAN, "image_std": CLIP_STD}
USUAL: dict[str, dict[str, Any]] = {  # what a kind of processor does where the file does not say
    "ViT": PLAIN,
    "DeiT": PLAIN | CROPPED | {"size": {"height": 256, "width": 256}},
    "Bit": OF_CLIP,
    "CLIP": OF_CLIP,
}
OF_FAMILIES = {"vit": "ViT", "deit": "DeiT", "dinov2": "Bit", "dinov2_with_registers": "Bit", "clip": "CLIP"}
STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")
KINDS = {  # as config.json holds them
    "resize": list, "resample": int, "crop": int, "scale": float, "mean": list, "std": list, "channels": int, "note": str,
}  # fmt: skip


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before a model reads it.

    number = (scale * byte - mean) / std

    Args:
        resize: no number (the sides stay), one (that of the shorter side), or two (height and width).
        resample: the filter of resizing, by Pillow's number.
        crop: the side of the square that is cut out of the middle; 0 for none. What is missing around it is black.
        scale: what a byte is multiplied by.
        mean: what is subtracted, for every channel.
        std: by what is divided, for every channel.
        note: what a person should know of it.

    >>> Preprocessing((4, 4), mean=HALF, std=HALF).of(np.zeros((6, 9, 3), np.uint8)).shape
    (4, 4, 3)
    """

    resize: tuple[int, ...]
    resample: int = 2
    crop: int = 0
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    note: str = ""

    def __post_init__(self) -> None:
        sides = [*self.resize, *([self.crop] if self.crop else [])]
        whole = all(type(side) is int and 1 <= side <= LARGEST for side in sides)
        require(whole, f"{NAME} must have sizes from 1 to {LARGEST} pixels: got {sides}")
        require(
            bool(self.crop) or (len(self.resize) == 2 and self.resize[0] == self.resize[1]),
            f"{NAME} must make all pictures squares of one size: it resizes to {list(self.resize)} and cuts nothing out. "
            "Add do_center_crop and crop_size.",
        )
        require(0 <= self.resample < len(FILTERS), f"{NAME}: resample must be 0 to 5: got {self.resample}")
        numbers = [self.scale, *self.mean, *self.std]
        require(
            all(math.isfinite(number) for number in numbers) and 0 not in self.std,
            f"{NAME} must have finite numbers, and no image_std of 0: got scale={self.scale}, mean={self.mean}, std={self.std}",
        )
        same = len(self.mean) == len(self.std) and self.channels in (1, 3)
        require(same, f"{NAME} must have image_mean and image_std for 1 or 3 channels: got {self.mean}, {self.std}")

    @property
    def size(self) -> int:
        """Pixels on a side of what a model reads."""
        return self.crop or self.resize[0]

    @property
    def channels(self) -> int:
        """Numbers in a pixel: 1 (gray) or 3."""
        return len(self.mean)

    def of(self, pixels: Pixels) -> Square:
        """What is seen of a picture: its pixels after resizing and cutting, still as bytes."""
        image = Image.fromarray(pixels)
        image = image if self.channels == 3 else image.convert("L")
        high, wide = self.resized(*pixels.shape[:2])
        if self.resize:
            image = image.resize((wide, high), FILTERS[self.resample])
        array = np.array(image).reshape(high, wide, self.channels)
        return _middle(array, self.crop) if self.crop else array

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """The sides of a picture after resizing.

        >>> Preprocessing((8,), crop=8).resized(100, 201)
        (8, 16)
        """
        if len(self.resize) != 1:
            return self.resize or (height, width)  # type: ignore[return-value]
        short, long = self.resize[0], int(self.resize[0] * max(height, width) / min(height, width))
        require(
            long <= LARGEST * 8, f"a picture of {height} x {width} is too narrow to be resized to a side of {short}"
        )
        return (long, short) if width <= height else (short, long)

    def placed(self, height: int, width: int) -> Placement:
        """Where the pixels of a picture went in what is seen of it."""
        high, wide = self.resized(height, width)
        left, top = (_start(side, self.crop or side) for side in (wide, high))
        return Placement(wide / width, high / height, -left, -top, self.size)

    def numbers(self, squares: Squares) -> Numbers:
        """Bytes as the numbers that a model reads, channels first.

        >>> Preprocessing((1, 1), mean=(0.5,), std=(0.5,)).numbers(np.array([[[[255]]]], np.uint8)).tolist()
        [[[[1.0]]]]
        """
        mean, std = (np.array(each, np.float32)[:, None, None] for each in (self.mean, self.std))
        scaled = (squares.astype(np.float64) * self.scale).astype(np.float32)
        return (np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)) - mean) / std

    def of_unit(self, unit: Numbers) -> Numbers:
        """The same of numbers from -1 (black) to 1 (white), which pictures are that were changed."""
        mean, std = (np.array(each, np.float32)[:, None, None] for each in (self.mean, self.std))
        return ((unit + 1) * np.float32(127.5 * self.scale) - mean) / std

    def room(self, pictures: int) -> int:
        """The bytes that so many pictures take."""
        return pictures * self.size * self.size * self.channels

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        return {
            "resize": list(self.resize), "resample": self.resample, "crop": self.crop, "scale": self.scale,
            "mean": list(self.mean), "std": list(self.std), "note": self.note,
        }  # fmt: skip

    @classmethod
    def restore(cls, facts: Any) -> Self:
        """What `facts` kept."""
        known = {key: kind for key, kind in KINDS.items() if key != "channels"}
        wrong = [
            key for key, kind in known.items() if not isinstance(facts, Mapping) or type(facts.get(key)) is not kind
        ]
        require(not wrong, f"config.json does not say how pictures are read: {', '.join(wrong)} is missing or broken")
        mean, std = (_numbers(facts[key], key) for key in ("mean", "std"))
        return cls(tuple(facts["resize"]), facts["resample"], facts["crop"], facts["scale"], mean, std, facts["note"])

    @classmethod
    def of_file(cls, theirs: Mapping[str, Any] | None, family: str, size: int, channels: int = 3) -> Self:
        """What a preprocessor_config.json says; without one, the size that a model's config.json names.

        Args:
            theirs: the file; None where there is none.
            family: the model_type, whose usual processor counts where the file does not say.
            size: pixels on a side of the pictures that the model names.
            channels: numbers in a pixel.

        >>> Preprocessing.of_file({"size": 6, "crop_size": 4}, "clip", 4)
        Preprocessing(resize=(6,), resample=3, crop=4, ...)
        >>> Preprocessing.of_file(None, "vit", 8).note
        'no preprocessor_config.json: pictures are resized to 8 x 8, the size in config.json, and scaled as is usual for vit'
        """
        usual = USUAL[OF_FAMILIES[family]]
        if theirs is None:
            note = f"no {NAME}: pictures are resized to {size} x {size}, the size in config.json, and scaled as is usual for "
            mean, std = (tuple(usual[key])[:channels] for key in ("image_mean", "image_std"))
            return cls((size, size), usual["resample"], mean=mean, std=std, note=note + family)
        kind = _kind(theirs, family)
        given = {**USUAL[kind], **{key: value for key, value in theirs.items() if value is not None}}
        for key, value in given.items():
            fine = not key.startswith("do_") or key in STEPS or not value
            require(fine, f"{NAME} asks for {key}, which is not done here. Set it to false if it changes nothing.")
        resize = _sides(given["size"], "size", kind != "CLIP" and kind != "Bit") if given.get("do_resize", True) else ()
        crop = _sides(given["crop_size"], "crop_size", True) if given.get("do_center_crop", False) else (0, 0)
        require(len(set(crop)) == 1, f"{NAME} must cut out squares: got crop_size={given.get('crop_size')}")
        normal = given.get("do_normalize", True)
        mean, std = (
            _numbers(given[key] if normal else usual, key, channels)
            for key, usual in (("image_mean", 0.0), ("image_std", 1.0))
        )
        scale, code = given.get("rescale_factor", 1 / 255), given["resample"]
        require(isinstance(scale, int | float), f"{NAME}: rescale_factor must be a number: got {str(scale)[:80]}")
        require(type(code) is int, f"{NAME}: resample must be 0 to 5: got {str(code)[:80]}")
        return cls(resize, code, crop[0], float(scale) if given.get("do_rescale", True) else 1.0, mean, std)


def _kind(theirs: Mapping[str, Any], family: str) -> str:
    """The kind of processor that a file names, or else the usual one of a family."""
    named = str(theirs.get("image_processor_type") or theirs.get("feature_extractor_type") or OF_FAMILIES[family])
    kind = named
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        kind = kind.removesuffix(ending)
    if kind not in USUAL:
        raise unknown("image_processor_type", named[:80], [f"{known}ImageProcessor" for known in USUAL])
    return kind


def _sides(value: Any, key: str, square: bool) -> tuple[int, ...]:
    """A size: one number is that of a square, or of the shorter side."""
    if isinstance(value, Mapping) and set(value) == {"shortest_edge"}:
        return (value["shortest_edge"],)
    if isinstance(value, Mapping) and set(value) == {"height", "width"}:
        return value["height"], value["width"]
    if type(value) is int:
        return (value, value) if square else (value,)
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    raise ValueError(f"{NAME}: {key} must have height and width, or shortest_edge: got {str(value)[:80]}")


def _numbers(value: Any, key: str, count: int = 0) -> tuple[float, ...]:
    """Numbers for the channels; one number is that of all."""
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else [value] * max(1, count)
    fits = all(type(number) in (int, float) for number in listed) and (not count or len(listed) == count)
    require(fits, f"{NAME}: {key} must have a number for each of {count or 'the'} channels: got {str(value)[:80]}")
    return tuple(float(number) for number in listed)


def _start(side: int, crop: int) -> int:
    """Where the middle begins: below 0 where there are fewer pixels."""
    return (side - crop) // 2


def _middle(array: UInt8[np.ndarray, "height width channels"], crop: int) -> Square:
    """The square in the middle, with black around a picture that is smaller.

    >>> _middle(np.ones((1, 4, 1), np.uint8), 2)[..., 0].tolist()
    [[0, 0], [1, 1]]
    """
    square = np.zeros((crop, crop, array.shape[2]), np.uint8)
    top, left = (_start(side, crop) for side in array.shape[:2])
    part = array[max(top, 0) : max(top, 0) + crop, max(left, 0) : max(left, 0) + crop]
    row, column = max(-top, 0), max(-left, 0)
    square[row : row + part.shape[0], column : column + part.shape[1]] = part
    return square
