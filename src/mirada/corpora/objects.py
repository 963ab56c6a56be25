"""Drawn objects in clutter: a few pixels decide what a picture shows."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from jaxtyping import Float, Int, UInt8
from numpy.typing import NDArray

from mirada.data.batching import drawn

# Shapes as signed distances: below 0 inside, above 0 outside, approximately the distance to the edge.


Field = NDArray[np.float32]  # a number for every pixel
Distance = Callable[[Field, Field], Field]

# the corners of a regular pentagon, the first one above: (sin, -cos) of 0, 72, ... degrees
PENTAGON = (
    (0.0, -1.0), (0.95105652, -0.30901699), (0.58778525, 0.80901699), (-0.58778525, 0.80901699),
    (-0.95105652, -0.30901699),
)  # fmt: skip


def _circle(x: Field, y: Field, radius: float = 0.95) -> Field:
    """A disc around the center.

    >>> _circle(np.float32(0.0), np.float32(1.0), radius=0.75)
    np.float32(0.25)
    """
    return np.sqrt(x * x + y * y) - np.float32(radius)


def _box(x: Field, y: Field, wide: float, high: float) -> Field:
    """A rectangle around the center with these half sides."""
    return np.maximum(np.abs(x) - np.float32(wide), np.abs(y) - np.float32(high))


def _roof(x: Field, y: Field, top: float, bottom: float, half: float) -> Field:
    """A triangle on a base of 2 x `half`, its tip above the center."""
    rise, length = bottom - top, (half * half + (bottom - top) ** 2) ** 0.5
    sides = (np.abs(x) * np.float32(rise / length)) - (y - np.float32(top)) * np.float32(half / length)
    return np.maximum(sides, y - np.float32(bottom))


def _heart(x: Field, y: Field) -> Field:
    lobes = _circle(np.abs(x) - np.float32(0.45), y + np.float32(0.4), 0.52)
    return np.minimum(lobes, _roof(x, -y, -1.0, 0.32, 0.98))


def _house(x: Field, y: Field) -> Field:
    door = _box(x, y - np.float32(0.7), 0.2, 0.3)
    return np.minimum(_roof(x, y, -1.0, -0.1, 1.0), np.maximum(_box(x, y - np.float32(0.4), 0.72, 0.55), -door))


def _star(x: Field, y: Field) -> Field:
    """A five-pointed star: all points that lie beyond at most one side of the inner pentagon."""
    first = second = np.full_like(x, -9)  # how far a point lies beyond the two sides that it is farthest from
    for a, b in PENTAGON:
        beyond = np.float32(-0.31) - x * np.float32(a) - y * np.float32(b)
        first, second = np.maximum(first, beyond), np.maximum(second, np.minimum(first, beyond))
    return second


SHAPES: dict[str, Distance] = {
    "arrow": lambda x, y: np.minimum(_roof(x, y, -1.0, 0.1, 0.95), _box(x, y - np.float32(0.45), 0.3, 0.5)),
    "cross": lambda x, y: np.minimum(_box(x, y, 0.3, 0.95), _box(x, y, 0.95, 0.3)),
    "heart": _heart,
    "house": _house,
    "moon": lambda x, y: np.maximum(_circle(x, y), -_circle(x - np.float32(0.55), y, 0.8)),
    "ring": lambda x, y: np.abs(_circle(x, y, 0.68)) - np.float32(0.27),
    "star": _star,
    "triangle": lambda x, y: _roof(x, y, -1.0, 0.85, 1.0),
}


def covered(distance: Field, scale: Field | float) -> Field:
    """How much of each pixel a shape covers, 0 to 1; `scale` is how many pixels one unit of distance is."""
    return np.clip(np.float32(0.5) - distance * scale, 0, 1)


SIDE = 32  # pixels
LABELS = tuple(SHAPES)
SIZES = (8000, 500, 1000)
AT_ONCE = 200  # pictures drawn together: their pixels fit into the cache
RADIUS = (4.0, 4.9)  # of the object, in pixels
GRAIN = 8.0  # amplitude of the noise, in levels
STROKES, BLOBS, FRAGMENTS = 4, 3, 4
COLORS = np.array(
    [(235, 64, 52), (250, 150, 40), (250, 220, 60), (90, 200, 80), (60, 180, 220), (80, 110, 240), (190, 90, 230),
     (245, 130, 190), (240, 240, 240)], np.float32,
)  # fmt: skip
DARK = np.float32(20)
Canvas = Float[np.ndarray, "3 n side side"]  # channels first


@dataclass(frozen=True, eq=False)
class DrawnObjects:
    """Pictures, the name of the one complete object in each, and its box: left, top, right, bottom in pixels."""

    pictures: UInt8[np.ndarray, "n side side 3"]
    labels: tuple[str, ...]
    boxes: Int[np.ndarray, "n 4"]


@dataclass(frozen=True, eq=False)
class Objects:
    """The splits, drawn independently of each other."""

    train: DrawnObjects
    valid: DrawnObjects
    test: DrawnObjects


class PictureChance:
    """Random numbers for every picture of a part, a function of the key, drawn one after the other."""

    def __init__(self, pictures: int, *key: int) -> None:
        self.pictures, self.key, self.turn = pictures, key, count()

    def __call__(self, low: float = 0.0, high: float = 1.0) -> Float[np.ndarray, "n 1 1"]:
        raw = drawn(self.pictures, *self.key, next(self.turn))
        return (low + (high - low) * (raw >> np.uint64(11)) * 2.0**-53).astype(np.float32).reshape(-1, 1, 1)

    def among(self, number: int) -> Int[np.ndarray, " n"]:
        """A random choice from 0 to number - 1."""
        return (self() * number).astype(np.int64).reshape(-1)

    def grain(self) -> Float[np.ndarray, "n 3 side side"]:
        """A little noise for every pixel, one random byte each."""
        raw = drawn(self.pictures * 3 * SIDE * SIDE // 8, *self.key, next(self.turn)).astype("<u8").view(np.uint8)
        noise = (raw.astype(np.float32) - np.float32(127.5)) * np.float32(GRAIN / 127.5)
        return noise.reshape(-1, 3, SIDE, SIDE)


def objects(seed: int = 0) -> Objects:
    """Pictures of 32 x 32 pixels with one complete object: an arrow, a cross, a heart, a house, a moon, a ring, a star or a
    triangle, in any color and slightly rotated. Around it are strokes, blobs and pieces of other shapes in the same colors,
    so that neither a color nor a corner alone identifies it.

    >>> data = objects()
    >>> data.train.pictures.shape, data.test.labels[:3]
    ((8000, 32, 32, 3), (...))
    """
    return Objects(*(drawn_objects(size, seed, part) for part, size in enumerate(SIZES)))


def drawn_objects(size: int, *key: int) -> DrawnObjects:
    """That many pictures, a function of the key; the classes alternate."""
    parts = [_some(range(first, min(first + AT_ONCE, size)), *key, first) for first in range(0, size, AT_ONCE)]
    pictures, boxes = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return DrawnObjects(pictures, tuple(LABELS[row % len(LABELS)] for row in range(size)), boxes)


def _some(rows: range, *key: int) -> tuple[UInt8[np.ndarray, "n side side 3"], Int[np.ndarray, "n 4"]]:
    """The pictures of some rows, and the boxes of their objects."""
    chance = PictureChance(len(rows), *key)
    y, x = (grid[None].astype(np.float32) + np.float32(0.5) for grid in np.mgrid[:SIDE, :SIDE])
    canvas = _background(chance, x, y)
    for _ in range(BLOBS):
        _paint(canvas, _blob(chance, x, y), _color(chance))
    for _ in range(STROKES):
        _paint(canvas, _stroke(chance, x, y), _color(chance))
    for _ in range(FRAGMENTS):
        cover = _fragment(chance, x, y)
        _paint(canvas, _shadow(cover), DARK)
        _paint(canvas, cover, _color(chance))
    classes = np.array([row % len(LABELS) for row in rows])
    far = RADIUS[1] + 1  # from the border, so that the object is complete
    cover = _shape(chance, x - chance(far, SIDE - far), y - chance(far, SIDE - far), chance(*RADIUS), classes)
    _paint(canvas, _shadow(cover), DARK)
    _paint(canvas, cover, _color(chance))
    canvas += chance.grain().transpose(1, 0, 2, 3)
    pixels = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    columns, lines = (
        cover.max(axis) >= 0.25 for axis in (1, 2)
    )  # where the object covers a quarter of a pixel or more
    left, top = columns.argmax(1), lines.argmax(1)
    right, bottom = SIDE - columns[:, ::-1].argmax(1), SIDE - lines[:, ::-1].argmax(1)
    return np.ascontiguousarray(pixels.transpose(1, 2, 3, 0)), np.stack([left, top, right, bottom], -1)


def _background(chance: PictureChance, x: Field, y: Field) -> Canvas:
    """A gradient from one dark color to another."""
    along = (x * chance(-1, 1) + y * chance(-1, 1)) / SIDE
    return np.stack([chance(20, 90) + along * chance(-25, 25) for _ in range(3)])


def _color(chance: PictureChance) -> Float[np.ndarray, "3 n 1 1"]:
    """A random color, slightly lighter or darker."""
    shade = np.stack([chance(0.85, 1.05) for _ in range(3)])
    return COLORS[chance.among(len(COLORS))].T[:, :, None, None] * shade


def _paint(canvas: Canvas, cover: Field, color: Float[np.ndarray, "3 n 1 1"] | np.float32) -> None:
    canvas += cover * (color - canvas)


def rotated(chance: PictureChance, x: Field, y: Field, most: float) -> tuple[Field, Field]:
    """Coordinates rotated by a small random angle: `most` is the tangent of half the largest angle."""
    t = chance(-most, most)
    cosine, sine = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    return x * cosine + y * sine, y * cosine - x * sine


def _blob(chance: PictureChance, x: Field, y: Field) -> Field:
    """A soft ellipse."""
    u, v = rotated(chance, x - chance(0, SIDE), y - chance(0, SIDE), 1.0)
    u, v = u / chance(2, 7), v / chance(2, 7)
    return np.clip(np.float32(1.2) - u * u - v * v, 0, 1) * chance(0.25, 0.7)


def _stroke(chance: PictureChance, x: Field, y: Field) -> Field:
    """A straight line of random length."""
    u, v = rotated(chance, x - chance(0, SIDE), y - chance(0, SIDE), 1.0)
    return covered(np.maximum(np.abs(u) - chance(3, 12), np.abs(v) - chance(0.4, 1.1)), 1.0)


def _fragment(chance: PictureChance, x: Field, y: Field) -> Field:
    """Less than half of a shape, cut along a line."""
    x, y, radius = x - chance(0, SIDE), y - chance(0, SIDE), chance(*RADIUS)
    cover = _shape(chance, x, y, radius, chance.among(len(LABELS)))
    along, _ = rotated(chance, x, y, 1.0)
    sign = np.where(chance() < 0.5, np.float32(1), np.float32(-1))
    return np.minimum(cover, covered(along * sign + radius * chance(0.1, 0.4), 1.0))


def _shape(
    chance: PictureChance, x: Field, y: Field, radius: Float[np.ndarray, "n 1 1"], classes: Int[np.ndarray, " n"]
) -> Field:
    """How much of every pixel a slightly rotated shape covers."""
    u, v = (along / radius for along in rotated(chance, x, y, 0.13))
    cover = np.empty(u.shape, np.float32)
    for number, distance in enumerate(SHAPES.values()):
        mine = classes == number
        cover[mine] = covered(distance(u[mine], v[mine]), radius[mine])
    return cover


def _shadow(cover: Field) -> Field:
    """A soft dark border around a shape, so that overlapping shapes stay distinct."""
    wide = np.pad(cover, ((0, 0), (1, 1), (1, 1)))
    across = np.maximum(np.maximum(wide[:, :, :-2], wide[:, :, 2:]), wide[:, :, 1:-1])
    return np.maximum(np.maximum(across[:, :-2], across[:, 2:]), across[:, 1:-1]) * np.float32(0.75)
