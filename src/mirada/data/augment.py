"""Pictures as a model reads them, and the small changes that let it see each one anew: shifted, mirrored, in other light."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8, UInt64

Squares = UInt8[np.ndarray, "n size size channels"]
Numbers = Float[np.ndarray, "n channels size size"]

HALF = np.float32(127.5)  # of what a byte holds


def numbers(squares: Squares) -> Numbers:
    """Bytes as numbers from -1 to 1, channels first.

    >>> numbers(np.array([[[[0], [255]], [[51], [204]]]], np.uint8)).round(2).tolist()
    [[[[-1.0, 1.0], [-0.6..., 0.6...]]]]
    """
    whole = np.empty((len(squares), squares.shape[3], *squares.shape[1:3]), np.float32)
    np.multiply(squares.transpose(0, 3, 1, 2), 1 / HALF, out=whole)
    whole -= 1
    return whole


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
        down, right, mirror, light = (
            np.ascontiguousarray(chance).astype("<u8").view("<u2").reshape(-1, 4).T.astype(np.int64)
        )
        if self.shift or self.flip:
            squares = moved(squares, self.places(down), self.places(right), (mirror & 1 & self.flip).astype(bool))
        found = numbers(squares)
        if self.light:
            # the upper byte decides the contrast, the lower one the light
            gain, offset = (((part & 255) / 127.5 - 1) * self.light for part in (light >> 8, light))
            found *= (1 + gain).astype(np.float32)[:, None, None, None]
            found += offset.astype(np.float32)[:, None, None, None]
        return found

    def places(self, bits: np.ndarray) -> np.ndarray:
        """16 bits as a shift: -shift, ..., shift, all alike."""
        return (bits * (2 * self.shift + 1) >> 16) - self.shift


def moved(squares: Squares, down: np.ndarray, right: np.ndarray, mirrored: np.ndarray) -> Squares:
    """All pictures shifted, each in its own way, by one gather."""
    size = squares.shape[1]
    rows = np.clip(np.arange(size) + down[:, None], 0, size - 1)
    columns = np.clip(np.arange(size) + right[:, None], 0, size - 1)
    columns = np.where(mirrored[:, None], columns[:, ::-1], columns)
    return squares[np.arange(len(squares))[:, None, None], rows[:, :, None], columns[:, None, :]]
