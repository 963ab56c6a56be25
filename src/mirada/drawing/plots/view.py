"""What a still picture of attention shows: a matrix of weights, its rows and columns, and cautions."""

import io
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from mirada.drawing.attention.weights import cautions
from mirada.errors import require
from mirada.words import number

# The picture inside a record, as pixels. It is untrusted: its size is checked before it is decoded.


MOST_PIXELS = 2**26  # of a picture that is decoded
SHARP = 2048  # pixels of a side that a still picture can show


class EmbeddedPixels(NamedTuple):
    """Pixels, perhaps fewer than the picture has; `height` and `width` are the picture's own."""

    pixels: UInt8[np.ndarray, "rows columns *channels"]
    height: int
    width: int


def embedded_pixels(png: bytes, mode: str, size: tuple[int, int] | None = None) -> EmbeddedPixels | None:
    """The pixels of a PNG in a mode of PIL ("L", "RGB"), at a size (width, height) or its own, up to what can be seen.

    None where there is none, or it cannot be read, or it is larger than any picture a model looks at.

    >>> embedded_pixels(b"no picture", "L") is None
    True
    """
    if not png:
        return None
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # its size is checked here
            with Image.open(io.BytesIO(png)) as image:
                width, height = image.size
                if not 0 < width * height <= MOST_PIXELS:
                    return None
                converted = image.convert(mode)
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError, MemoryError):
        return None
    if size is None and max(width, height) > SHARP:
        size = (min(width, SHARP), min(height, SHARP))
    if size is not None:
        converted = converted.resize(size, Image.Resampling.BOX)
    return EmbeddedPixels(np.asarray(converted), height, width)


MOST_CHECKED = 250_000  # weights in which a picture looks for what misleads
ORIGIN = ("mirada", "torch", "task", "model", "run", "kernel", "sample")


@dataclass(frozen=True)
class PictureGrid:
    """Columns that are cells of a picture, row by row, after `before` columns that are not; `picture` is a PNG."""

    height: int
    width: int
    before: int = 0
    picture: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, eq=False)
class AttentionView:
    """Weights of one layer: of one head, or the mean of several.

    `values` draws a series next to columns that are times; `focus` is the row that was asked about, where there is one;
    `boxes` are known places in the picture, by row; `shares` is how likely each row was written; `visible` is how many
    columns each row may see, where that is not all of them.

    >>> AttentionView(np.eye(2), ("a", "b"), ("c", "d")).strongest(1)
    1
    """

    weights: Float[np.ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str = ""
    layer: str = ""
    reading: str = ""  # what a row and a column are, in words
    grid: PictureGrid | None = None
    values: tuple[float, ...] = ()
    focus: int | None = None
    graph: bool = False
    boxes: tuple[tuple[int, tuple[float, float, float, float]], ...] = ()
    shares: tuple[float | None, ...] = ()
    remarks: tuple[str, ...] = ()
    made: Mapping[str, str] = field(default_factory=dict)
    visible: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(
            self.weights.shape == (len(self.rows), len(self.columns)),
            f"a picture needs a name per row and column: got {len(self.rows)} x {len(self.columns)} names for "
            f"{self.weights.shape[0]} x {self.weights.shape[1]} weights",
        )
        fits = len(self.visible) in (0, len(self.rows))
        require(fits, f"visible needs a count per row: got {len(self.visible)} for {len(self.rows)} rows")

    @property
    def top(self) -> float:
        """The weight that has the full color: the largest, but no less than twice what even attention would give, so that
        attention that looks nowhere in particular does not shine.
        """
        finite = np.abs(self.weights[np.isfinite(self.weights)])
        return max(float(finite.max(initial=0.0)), min(1.0, 2 * self.even))

    @property
    def negative(self) -> bool:
        """Whether some weight is below 0."""
        return bool((self.weights < 0).any())

    @property
    def even(self) -> float:
        """What every weight of the row that sees most would be if attention were even."""
        return self.evens[0]

    @property
    def evens(self) -> tuple[float, float]:
        """The smallest and the largest weight of even attention: larger in rows that may see fewer columns."""
        counts = [count for count in self.visible if count] or [max(1, len(self.columns))]
        return 1 / max(counts), 1 / min(counts)

    def even_of(self, row: int) -> float:
        """What every weight of a row would be if attention were even."""
        return 1 / max(1, self.visible[row] if self.visible else len(self.columns))

    @property
    def even_text(self) -> str:
        """Even attention in words."""
        low, high = map(number, self.evens)
        return low if low == high else f"{low} to {high}"

    def strongest(self, row: int) -> int:
        """The column that a row looked at most; -1 where there is none."""
        if not len(self.columns):
            return -1
        return int(np.nan_to_num(np.abs(self.weights[row]), nan=-1.0).argmax())

    @property
    def cautions(self) -> tuple[str, ...]:
        """What would mislead a reader, and the remarks."""
        if self.graph or self.weights.size > MOST_CHECKED or not self.weights.size:
            return self.remarks
        rows = tuple(tuple(row) for row in self.weights.tolist() if any(row))
        kind = "place" if self.grid else "token"
        return (*cautions(rows, self.columns, kind), *self.remarks) if rows else self.remarks

    @property
    def origin(self) -> str:
        """Where it comes from, in a line."""
        return ", ".join(f"{name} {self.made[name]}" for name in ORIGIN if self.made.get(name))
