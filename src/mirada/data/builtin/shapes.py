"""Plain shapes as signed distances: below 0 inside, above 0 outside, about as far as the edge is away.

A shape fills the square from -1 to 1; y grows downwards. Only sums, products and roots are used, so that the same numbers
come out on every machine.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]  # a number for every pixel
Distance = Callable[[Field, Field], Field]

# the corners of a regular pentagon, the first one above: (sin, -cos) of 0, 72, ... degrees
PENTAGON = (
    (0.0, -1.0), (0.95105652, -0.30901699), (0.58778525, 0.80901699), (-0.58778525, 0.80901699),
    (-0.95105652, -0.30901699),
)  # fmt: skip


def circle(x: Field, y: Field, radius: float = 0.95) -> Field:
    """A disc around the middle.

    >>> circle(np.float32(0.0), np.float32(1.0), radius=0.75)
    np.float32(0.25)
    """
    return np.sqrt(x * x + y * y) - np.float32(radius)


def box(x: Field, y: Field, wide: float, high: float) -> Field:
    """A rectangle around the middle, of these half sides."""
    return np.maximum(np.abs(x) - np.float32(wide), np.abs(y) - np.float32(high))


def roof(x: Field, y: Field, top: float, bottom: float, half: float) -> Field:
    """A triangle that stands on a line of 2 x `half`, its tip above the middle."""
    rise, length = bottom - top, (half * half + (bottom - top) ** 2) ** 0.5
    sides = (np.abs(x) * np.float32(rise / length)) - (y - np.float32(top)) * np.float32(half / length)
    return np.maximum(sides, y - np.float32(bottom))


def ring(x: Field, y: Field) -> Field:
    return np.abs(circle(x, y, 0.68)) - np.float32(0.27)


def square(x: Field, y: Field) -> Field:
    return box(x, y, 0.82, 0.82)


def triangle(x: Field, y: Field) -> Field:
    return roof(x, y, -1.0, 0.85, 1.0)


def cross(x: Field, y: Field) -> Field:
    return np.minimum(box(x, y, 0.3, 0.95), box(x, y, 0.95, 0.3))


def heart(x: Field, y: Field) -> Field:
    lobes = circle(np.abs(x) - np.float32(0.45), y + np.float32(0.4), 0.52)
    return np.minimum(lobes, roof(x, -y, -1.0, 0.32, 0.98))


def moon(x: Field, y: Field) -> Field:
    return np.maximum(circle(x, y), -circle(x - np.float32(0.55), y, 0.8))


def arrow(x: Field, y: Field) -> Field:
    return np.minimum(roof(x, y, -1.0, 0.1, 0.95), box(x, y - np.float32(0.45), 0.3, 0.5))


def house(x: Field, y: Field) -> Field:
    door = box(x, y - np.float32(0.7), 0.2, 0.3)
    return np.minimum(roof(x, y, -1.0, -0.1, 1.0), np.maximum(box(x, y - np.float32(0.4), 0.72, 0.55), -door))


def star(x: Field, y: Field) -> Field:
    """Five points: all that lies beyond at most one side of the pentagon inside."""
    first = second = np.full_like(x, -9)  # how far it lies beyond the two sides that it is farthest from
    for a, b in PENTAGON:
        beyond = np.float32(-0.31) - x * np.float32(a) - y * np.float32(b)
        first, second = np.maximum(first, beyond), np.maximum(second, np.minimum(first, beyond))
    return second


SHAPES: dict[str, Distance] = {
    "arrow": arrow, "cross": cross, "heart": heart, "house": house, "moon": moon, "ring": ring, "star": star,
    "triangle": triangle,
}  # fmt: skip


def covered(distance: Field, scale: Field | float) -> Field:
    """How much of each pixel a shape covers, 0 to 1; `scale` is how many pixels one unit of distance is."""
    return np.clip(np.float32(0.5) - distance * scale, 0, 1)
