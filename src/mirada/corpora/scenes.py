"""Drawn scenes: two things on a light background, their caption, and their boxes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from random import Random

import numpy as np
from jaxtyping import Bool, Float, UInt8

from mirada.data.batching import drawn
from mirada.data.record import in_hash_order

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels
Plane = Float[np.ndarray, "side side"]

SIDE = 48  # pixels
SIZES = (5000, 300, 600)
HELD_OUT = 6  # one in so many sentences is only in the test split
COLORS = {
    "red": (216, 40, 36), "green": (40, 150, 60), "blue": (36, 84, 216), "yellow": (244, 200, 40),
    "purple": (140, 60, 170), "black": (40, 40, 44),
}  # fmt: skip
SHAPES: dict[str, Callable[[Plane, Plane], Bool[np.ndarray, "side side"]]] = {  # in a frame from -1 to 1
    "circle": lambda u, v: u * u + v * v <= 0.95,
    "square": lambda u, v: np.maximum(abs(u), abs(v)) <= 0.84,
    "triangle": lambda u, v: (v <= 0.8) & (2 * abs(u) <= 1.1 * (v + 0.95)),
    "diamond": lambda u, v: abs(u) + abs(v) <= 1.0,
    "cross": lambda u, v: (np.minimum(abs(u), abs(v)) <= 0.3) & (np.maximum(abs(u), abs(v)) <= 0.92),
    "ring": lambda u, v: (u * u + v * v <= 0.95) & (u * u + v * v >= 0.3),
}
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
SMALL, LARGE = (5.0, 6.5), (8.5, 11.0)  # half a side, in pixels
FINE = 3  # sample points along each side of a pixel
JITTER, GRAIN = 14, 6  # the largest deviation of a color, and of a pixel


@dataclass(frozen=True)
class Thing:
    """A shape with a color; `half` is half its side."""

    color: str
    shape: str
    x: float
    y: float
    half: float


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture, its caption, and the boxes of the words that name something in it."""

    pixels: UInt8[np.ndarray, "side side 3"] = field(repr=False)
    caption: str
    boxes: Mapping[str, Box]


@dataclass(frozen=True, eq=False)
class Scenes:
    """No sentence of `test` occurs in the other splits: memorizing the training set does not help there."""

    train: tuple[Scene, ...]
    valid: tuple[Scene, ...]
    test: tuple[Scene, ...]


@cache
def scenes(seed: int = 0) -> Scenes:
    """Scenes of a small thing and a large one, of different colors and shapes; the small one is named first.

    >>> data = scenes()
    >>> len(data.train), len(data.valid), len(data.test)
    (5000, 300, 600)
    >>> data.valid[0].caption, data.valid[0].pixels.shape
    ('a green diamond above a purple triangle', (48, 48, 3))
    """
    known, new = (islice(drawn_scenes(2 * seed + held, bool(held)), sum(SIZES)) for held in (0, 1))
    train, valid = (tuple(islice(known, size)) for size in SIZES[:2])
    return Scenes(train, valid, tuple(islice(new, SIZES[2])))


def drawn_scenes(seed: int, held_out: bool) -> Iterator[Scene]:
    """Endless scenes whose sentences are held out for the test, or are not."""
    rng, number = Random(seed), 0
    while True:
        relation = _pick(rng, tuple(RELATIONS))
        first, second = _things(rng, RELATIONS[relation])
        caption = f"a {first.color} {first.shape} {relation} a {second.color} {second.shape}"
        if is_held_out(caption) == held_out:
            yield Scene(_painted((second, first), seed, number), caption, _boxes(first) | _boxes(second))
            number += 1


def is_held_out(caption: str) -> bool:
    """Whether a sentence is only in the test split: a function of its text."""
    return in_hash_order(caption)[0] % HELD_OUT == 0


def _pick(rng: Random, names: tuple[str, ...]) -> str:
    """One of some names. Only `random()` is guaranteed to return the same numbers in every version of Python."""
    return names[int(rng.random() * len(names))]


def _things(rng: Random, direction: tuple[int, int]) -> tuple[Thing, Thing]:
    """A small thing clearly in a direction from a large one: they do not touch, and the angle is small."""
    (color, other), (shape, another) = (_two(rng, tuple(names)) for names in (COLORS, SHAPES))
    small, large = (low + rng.random() * (high - low) for low, high in (SMALL, LARGE))
    while True:
        x0, y0, x1, y1 = (half + 1 + rng.random() * (SIDE - 2 * half - 2) for half in (small, small, large, large))
        dx, dy = x0 - x1, y0 - y1
        along, across = (dx * direction[0], abs(dy)) if direction[0] else (dy * direction[1], abs(dx))
        if along > small + large and across < along / 2:
            return Thing(color, shape, x0, y0, small), Thing(other, another, x1, y1, large)


def _two(rng: Random, names: tuple[str, ...]) -> tuple[str, str]:
    """Two different names."""
    first = _pick(rng, names)
    return first, _pick(rng, tuple(name for name in names if name != first))


def _boxes(thing: Thing) -> dict[str, Box]:
    """Where a thing is, under both words that name it."""
    box = (thing.x - thing.half, thing.y - thing.half, thing.x + thing.half, thing.y + thing.half)
    return {thing.color: box, thing.shape: box}


def _painted(things: tuple[Thing, ...], seed: int, number: int) -> UInt8[np.ndarray, "side side 3"]:
    """The picture of some things: edges are smooth, colors and background vary a little."""
    noise = drawn(SIDE * SIDE * 3 // 8 + 2, seed, number).view(np.uint8)
    tones, grain = noise[:16].astype(int), noise[16:].reshape(SIDE, SIDE, 3).astype(int)
    picture = np.empty((SIDE, SIDE, 3))
    picture[:] = 225 + tones[:3] % 24
    for place, thing in enumerate(things):
        color = np.array(COLORS[thing.color]) + tones[3 * place + 3 : 3 * place + 6] % (2 * JITTER + 1) - JITTER
        top, left = int(thing.y - thing.half), int(thing.x - thing.half)
        side = min(int(2 * thing.half) + 2, SIDE - top, SIDE - left)
        steps = (np.arange(side * FINE) + 0.5) / FINE
        u, v = np.meshgrid((left + steps - thing.x) / thing.half, (top + steps - thing.y) / thing.half)
        covered = SHAPES[thing.shape](u, v).reshape(side, FINE, side, FINE).mean((1, 3))[..., None]
        part = picture[top : top + len(covered), left : left + len(covered)]
        part += covered * (color - part)
    return np.clip(np.rint(picture) + grain % (2 * GRAIN + 1) - GRAIN, 0, 255).astype(np.uint8)
