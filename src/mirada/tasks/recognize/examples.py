"""What tasks share whose inputs are pictures: which of them can be used, and batches of them, changed whenever they come."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8, UInt64

from mirada.data.batching import Microbatch, drawn
from mirada.data.image import Box
from mirada.data.options import DataOptions
from mirada.data.preprocessing import Preprocessing
from mirada.data.record import Problem, Record
from mirada.errors import require
from mirada.runs.classes import every_class_learned, likeness, restored_weights, weight_facts
from mirada.runs.sources import Source, Splits, parts_held_out, parts_of, splits_of
from mirada.tasks.recognize.pictures import (
    SMALL,
    Fitting,
    LabelledPicture,
    Numbers,
    Picture,
    Seeing,
    Squares,
    decode_all,
    read_images,
    scaled_pixels,
)
from mirada.tasks.recognize.readers import READERS, PlainPictures

# Pictures as a model reads them, and the small changes that let it see each one anew: shifted, mirrored, in other
# light.


@dataclass(frozen=True)
class Augmentation:
    """What may be changed: a shift by up to so many pixels both ways, a mirror image, how light it is and how much contrast.

    What is shifted in at a border is the border itself, repeated. The light changes by up to `light` of the whole range.
    """

    shift: int = 0
    flip: bool = False
    light: float = 0.0

    def __call__(self, squares: Squares, chance: UInt64[np.ndarray, " n"]) -> Numbers:
        """Changed pictures as numbers; what happens to each is decided by its 64 random bits alone.

        >>> row = np.arange(4, dtype=np.uint8).reshape(1, 1, 4, 1).repeat(4, 1)
        >>> shifted = Augmentation(shift=1)(row, np.array([0], np.uint64))  # to the right, and down
        >>> ((shifted + 1) * 127.5).round()[0, 0, 0].tolist()
        [0.0, 0.0, 1.0, 2.0]
        """
        parts = np.ascontiguousarray(chance).astype("<u8").view("<u2").reshape(-1, 4)
        down, right, mirror, light = parts.T.astype(np.int64)
        if self.shift or self.flip:  # each in its own way, by one gather
            size, every = squares.shape[1], np.arange(squares.shape[1])
            rows = np.clip(every + self.places(down)[:, None], 0, size - 1)
            columns = np.clip(every + self.places(right)[:, None], 0, size - 1)
            mirrored = (mirror & 1 & self.flip).astype(bool)
            columns = np.where(mirrored[:, None], columns[:, ::-1], columns)
            squares = squares[np.arange(len(squares))[:, None, None], rows[:, :, None], columns[:, None, :]]
        changed = scaled_pixels(squares)
        if self.light:
            # the upper byte decides the contrast, the lower one the light
            gain, offset = (((part & 255) / 127.5 - 1) * self.light for part in (light >> 8, light))
            changed *= (1 + gain).astype(np.float32)[:, None, None, None]
            changed += offset.astype(np.float32)[:, None, None, None]
        return changed

    def places(self, bits: np.ndarray) -> np.ndarray:
        """16 bits as a shift: -shift, ..., shift, all alike."""
        return (bits * (2 * self.shift + 1) >> 16) - self.shift


# What a model for pictures must know of its data: the classes, how a picture is brought to its form, how it is
# changed.


KINDS = {  # as config.json holds them
    "labels": list, "size": int, "channels": int, "fit": str, "patch": int, "shift": int, "flip": bool, "light": float,
}  # fmt: skip
UNCHANGED = Augmentation()


@dataclass(frozen=True)
class PictureClasses:
    """The labels in their order, what is seen of a picture, the side of a patch of it, and what changes while one learns."""

    files: ClassVar[tuple[str, ...]] = (READERS,)
    optional: ClassVar[tuple[str, ...]] = (READERS,)

    labels: tuple[str, ...]
    fitting: Seeing
    patch: int
    augmentation: Augmentation = UNCHANGED
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count as much as frequent ones
    plain: PlainPictures | None = None  # readers that are mixed with attention; runs of before have none

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """The class that a name means, without case and underscores, whole or between the commas of a class."""
        meant: dict[str, set[str]] = {}
        for label in self.labels:
            for part in label.split(","):
                meant.setdefault(likeness(part), set()).add(label)
        clear = {part: min(labels) for part, labels in meant.items() if part and len(labels) == 1}
        return clear | {likeness(label): label for label in self.labels}

    def named(self, label: str) -> str:
        """The class that a label of other data means; the label itself if it is none.

        An imported model has classes such as "tench, Tinca tinca", whose folders are called otherwise.

        >>> known = PictureClasses(("tabby, Tabby cat", "dog"), Preprocessing((8, 8)), patch=4)
        >>> known.named("tabby_cat"), known.named("bird")
        ('tabby, Tabby cat', 'bird')
        """
        if label in self.labels or not isinstance(self.fitting, Preprocessing):
            return label
        return self._by_name.get(likeness(label.replace("_", " ")), label)

    def label_of(self, value: LabelledPicture) -> str:
        """The class of a labelled picture."""
        return self.named(value.label)

    @property
    def grid(self) -> int:
        """Patches along a side."""
        return self.fitting.size // self.patch

    @property
    def places(self) -> tuple[str, ...]:
        """The names of the patches, row by row.

        >>> PictureClasses(("cat", "dog"), Fitting(8, 3), patch=4).places[1]
        'row 1, column 2'
        """
        numbers = range(1, self.grid + 1)
        return tuple(f"row {row}, column {column}" for row in numbers for column in numbers)

    def seen_box(self, picture: Picture, box: Box) -> Box:
        """Where a box of a picture is in what is seen of it."""
        return self.fitting.placed(picture.height, picture.width).box(box)

    def touched(self, picture: Picture, box: Box) -> Bool[np.ndarray, " patches"]:
        """The patches that a box touches, row by row.

        >>> known = PictureClasses(("cat", "dog"), Fitting(8, 3), patch=4)
        >>> known.touched(Picture(np.zeros((8, 8), np.uint8)), (0, 3, 4, 5)).tolist()
        [True, False, True, False]
        """
        left, top, right, bottom = self.seen_box(picture, box)
        starts = np.arange(self.grid) * self.patch
        sides = ((top, bottom), (left, right))
        rows, columns = ((starts < end) & (starts + self.patch > start) for start, end in sides)
        return (rows[:, None] & columns[None, :]).reshape(-1)

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        fitting, change = self.fitting, self.augmentation
        seen: dict[str, Any] = (
            {"pictures": fitting.facts()} if isinstance(fitting, Preprocessing) else
            {"size": fitting.size, "channels": fitting.channels, "fit": fitting.way}
            | ({} if fitting.scale is None else {"scale": list(fitting.scale)})
        )  # fmt: skip
        return {
            "labels": list(self.labels), **seen, "patch": self.patch, "shift": change.shift, "flip": change.flip,
            "light": change.light, **weight_facts(self.weights),
            **({"readers": dict(self.plain.scales)} if self.plain else {}),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """The file of the plain readers, where there are any: all else is in config.json."""
        return {READERS: self.plain.content()} if self.plain else {}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` kept; those of an imported model say how it wants its pictures."""
        foreign, channels = "pictures" in facts, facts.get("channels", 3)
        require(foreign or channels in (1, 3), f"pictures have 1 or 3 channels, and this model reads {channels}")
        facts = (
            {"shift": 0, "flip": False, "light": 0.0, "size": 0, "channels": 0, "fit": "", **facts}
            if foreign
            else facts
        )
        wrong = [name for name, kind in KINDS.items() if not isinstance(facts.get(name), kind)]
        scale = facts.get("scale")  # of other numbers than bytes
        if scale is not None and not (isinstance(scale, list) and [type(end) for end in scale] == [float, float]):
            wrong.append("scale")
        require(not wrong, f"config.json does not say how pictures are read: {', '.join(wrong)} is missing or broken")
        labels = distinct(tuple(map(str, facts["labels"])))
        change = Augmentation(facts["shift"], facts["flip"], facts["light"])
        ends = None if scale is None else (scale[0], scale[1])
        fitting: Seeing = (
            Preprocessing.restore(facts["pictures"])
            if foreign
            else Fitting(facts["size"], facts["channels"], facts["fit"], ends)
        )
        plain = (
            PlainPictures.restore(facts["readers"], paths[READERS], fitting, len(labels))
            if "readers" in facts
            else None
        )
        return cls(labels, fitting, facts["patch"], change, restored_weights(facts), plain)


def with_plain(known: PictureClasses, records: Sequence[Record[LabelledPicture]]) -> PictureClasses:
    """A copy with plain readers that learned from these records."""
    numbers = {label: number for number, label in enumerate(known.labels)}
    classes = np.array([numbers[known.label_of(record.value)] for record in records], np.int64)
    pictures = [record.value.picture for record in records]
    plain = PlainPictures.fit(pictures, classes, known.fitting, len(known.labels), known.weights)
    return replace(known, plain=plain)


def distinct(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels of which no two are the same: the second of a name gets a number.

    >>> distinct(("crane", "cat", "crane"))
    ('crane', 'cat', 'crane (2)')
    """
    if len(set(labels)) == len(labels):
        return labels
    found: dict[str, int] = {}
    for label in labels:
        name, count = label, 1
        while name in found:
            count += 1
            name = f"{label} ({count})"
        found[name] = count
    return tuple(found)


def sorted_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Different labels in their order: numbers by their value.

    >>> sorted_labels(["10", "9", "10"]), sorted_labels(["b", "a", "10"])
    (('9', '10'), ('10', 'a', 'b'))
    """
    names = set(labels)
    return tuple(sorted(names, key=int) if all(name.isdecimal() for name in names) else sorted(names))


def default_patch(size: int) -> int:
    """The side of a patch that suits a size: a power of 2, so that there are up to 10 patches along a side, of small pictures 8.

    >>> default_patch(8), default_patch(28), default_patch(48), default_patch(224)
    (2, 4, 8, 32)
    """
    patch = 2 if size <= SMALL else 4
    while size > 10 * patch:
        patch *= 2
    divisors = [number for number in range(2, size + 1) if size % number == 0]
    require(
        size % patch == 0,
        f"size={size} does not divide into patches of {patch} x {patch}: take size={max(patch, size // patch * patch)}, or give "
        f"patch={', '.join(map(str, divisors[:4]))}.",
    )
    return patch


LabelledRecord = Record[LabelledPicture]
Rows = Sequence[int] | Int[np.ndarray, " some"]
FEW = 2000  # records: of fewer than these, a larger share is held out
EPOCH = 6400  # pictures of an epoch at least: where there are fewer, each comes several times, changed in other ways
EPOCH_TUNED = 640  # the same for a model that knows pictures already
AUGMENTED = 1  # sets these random numbers apart from those that order an epoch


@dataclass(frozen=True, eq=False)
class PictureExamples:
    """Pictures as bytes, the numbers of their classes, and how many places a model makes of one."""

    squares: UInt8[np.ndarray, "n size size channels"]
    classes: Int[np.ndarray, " n"]
    places: int
    augmentation: Augmentation
    fitting: Seeing
    problems: tuple[Problem, ...] = ()
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count as much as frequent ones

    def __len__(self) -> int:
        return len(self.squares)

    def part(self, rows: Rows, epoch: int) -> Microbatch:
        """The batch of some rows, the same in every epoch."""
        return self.batch(self.fitting.numbers(self.squares[rows]), rows)

    def batch(self, pictures: Float[np.ndarray, "n channels size size"], rows: Rows) -> Microbatch:
        """A batch of pictures that were made numbers, with the classes of their rows."""
        given = {"pictures": torch.from_numpy(pictures), "classes": torch.from_numpy(self.classes[rows])}
        if self.weights:
            given["weights"] = torch.tensor(self.weights)[given["classes"]]
        return Microbatch(given, (len(rows),), len(rows) * self.places)

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the pictures."""
        return replace(self, squares=self.squares[rows], classes=self.classes[rows])


class AugmentedExamples:
    """The same pictures, changed in another way whenever they come: a function of (seed, epoch, row).

    Where there are few, each comes several times in an epoch.
    """

    def __init__(self, examples: PictureExamples, seed: int) -> None:
        self.examples, self.seed = examples, seed
        least = EPOCH_TUNED if isinstance(examples.fitting, Preprocessing) else EPOCH
        self.times = max(1, least // max(1, len(examples)))
        self.chance: tuple[int, Any] = (-1, None)  # of one epoch: its steps come together

    def __len__(self) -> int:
        return self.times * len(self.examples)

    def part(self, rows: Rows, epoch: int) -> Microbatch:
        """The batch of some rows, changed as this epoch changes them."""
        if self.chance[0] != epoch:
            self.chance = (epoch, drawn(len(self), self.seed, epoch, AUGMENTED))
        turns, examples = np.asarray(rows), self.examples
        mine = turns % len(examples)
        changed = examples.augmentation(examples.squares[mine], self.chance[1][turns])
        return examples.batch(examples.fitting.of_unit(changed), mine)

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the pictures; each is changed as before."""
        return type(self)(self.examples.take([row for row in rows if row < len(self.examples)]), self.seed)


label_of = attrgetter("label")  # of a picture


def labelled_splits(source: Source, options: DataOptions) -> Splits[LabelledPicture]:
    """The records of a source, divided; of few of them, more are held out than of many."""
    read = cache(read_images) if isinstance(source.data, str) else read_images
    group = lambda value: value.picture.identity.hex()  # noqa: E731  the same picture twice stays together
    splits = splits_of(source, read, options, group)
    given = source.measured or source.has_valid or options.split or parts_of(source.data)
    count = len(splits.train) + len(splits.valid)
    if not given and 2 < count < FEW:
        share = 0.2 if count < FEW / 5 else 0.1
        splits = splits_of(source, read, replace(options, split=f"{1 - share},{share}"), group)
    return every_class_learned(splits, label_of, parts_held_out(source))


def unreadable(records: Sequence[LabelledRecord], fitting: Seeing) -> list[Problem]:
    """The records whose pictures cannot be decoded."""
    faults = decode_all([record.value.picture for record in records], fitting)
    return [Problem(records[row].where, text.removeprefix(f"{records[row].where}: ")) for row, text in faults.items()]
