"""What a model for pictures must know of its data: the classes, how a picture is brought to its form, how it is changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool

from mirada.data.augment import Augmentation
from mirada.data.class_weights import restored_weights, weight_facts
from mirada.data.picture_file import Box, placed
from mirada.data.picture_set import Fitting, Picture
from mirada.errors import require

KINDS = {  # as config.json holds them
    "labels": list, "size": int, "channels": int, "fit": str, "patch": int, "shift": int, "flip": bool, "light": float,
}  # fmt: skip
UNCHANGED = Augmentation()


@dataclass(frozen=True)
class PictureClasses:
    """The labels in their order, what is seen of a picture, the side of a patch of it, and what changes while one learns."""

    files: ClassVar[tuple[str, ...]] = ()

    labels: tuple[str, ...]
    fitting: Fitting
    patch: int
    augmentation: Augmentation = UNCHANGED
    weights: tuple[float, ...] = ()  # of the classes, where rare ones count as much as frequent ones

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
        return placed(picture.height, picture.width, self.fitting.size, self.fitting.way).box(box)

    def touched(self, picture: Picture, box: Box) -> Bool[np.ndarray, " patches"]:
        """The patches that a box touches, row by row.

        >>> known = PictureClasses(("cat", "dog"), Fitting(8, 3), patch=4)
        >>> known.touched(Picture(np.zeros((8, 8), np.uint8)), (0, 3, 4, 5)).tolist()
        [True, False, True, False]
        """
        left, top, right, bottom = self.seen_box(picture, box)
        starts = np.arange(self.grid) * self.patch
        rows, columns = (
            (starts < end) & (starts + self.patch > start) for start, end in ((top, bottom), (left, right))
        )
        return (rows[:, None] & columns[None, :]).reshape(-1)

    def facts(self) -> dict[str, Any]:
        """What config.json holds of it."""
        fitting, change = self.fitting, self.augmentation
        return {
            "labels": list(self.labels), "size": fitting.size, "channels": fitting.channels, "fit": fitting.way,
            "patch": self.patch, "shift": change.shift, "flip": change.flip, "light": change.light,
            **weight_facts(self.weights),
        }  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        return {}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        """What `facts` kept."""
        wrong = [name for name, kind in KINDS.items() if not isinstance(facts.get(name), kind)]
        require(not wrong, f"config.json does not say how pictures are read: {', '.join(wrong)} is missing or broken")
        labels = tuple(map(str, facts["labels"]))
        change = Augmentation(facts["shift"], facts["flip"], facts["light"])
        fitting = Fitting(facts["size"], facts["channels"], facts["fit"])
        return cls(labels, fitting, facts["patch"], change, restored_weights(facts))


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """Different labels in their order: numbers by their value.

    >>> in_order(["10", "9", "10"]), in_order(["b", "a", "10"])
    (('9', '10'), ('10', 'a', 'b'))
    """
    names = set(labels)
    return tuple(sorted(names, key=int) if all(name.isdecimal() for name in names) else sorted(names))


def chosen_patch(size: int) -> int:
    """The side of a patch that suits a size: a power of 2, so that there are up to 10 patches along a side.

    >>> chosen_patch(28), chosen_patch(48), chosen_patch(224)
    (4, 8, 32)
    """
    patch = 4
    while size > 10 * patch:
        patch *= 2
    divisors = [number for number in range(2, size + 1) if size % number == 0]
    require(
        size % patch == 0,
        f"size={size} does not divide into patches of {patch} x {patch}: take size={max(patch, size // patch * patch)}, or give "
        f"patch={', '.join(map(str, divisors[:4]))}.",
    )
    return patch
