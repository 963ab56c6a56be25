"""Heat over a picture: where the model looked while it wrote each word of a caption, or for the class it recognized."""

import struct
import zlib
from base64 import b64encode
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, UInt8

from mirada.drawing.attention.weights import (
    ColorScale,
    Rows,
    cautions,
    compared,
    head,
    line,
    pieces,
    text_of,
    total,
    verdict,
)
from mirada.drawing.page import Item, Markup, element, join
from mirada.errors import require
from mirada.words import number, plain, weight

# Pictures made of pixels, embedded into the page as PNG, without a library.


KINDS = {1: 0, 3: 2, 4: 6}  # channels: PNG's number for gray, RGB, RGBA
HEAT, COLD = (232, 89, 12), (37, 99, 235)  # of middle luminance: seen on white, on black and on any gray
STRENGTH = 0.82  # opacity of the largest weight: what was looked at must stay visible below it
# from dark to light without a step back in luminance, so that it reads the same in gray
LEVELS = ((10, 12, 28), (58, 28, 96), (150, 44, 104), (226, 104, 62), (250, 190, 90), (255, 250, 214))


def data_uri(pixels: UInt8[np.ndarray, "height width *channels"]) -> str:
    """The picture as an address that contains it."""
    return f"data:image/png;base64,{b64encode(png(pixels)).decode()}"


def png(pixels: UInt8[np.ndarray, "height width *channels"]) -> bytes:
    """A PNG file: gray (height, width), or with a last axis of 3 (RGB) or 4 (RGB and opacity).

    >>> png(np.zeros((2, 3), np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    lines = pixels.reshape(height, width * channels)
    # every line begins with the number of its filter: none
    data = zlib.compress(np.pad(lines, ((0, 0), (1, 0))).tobytes(), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, KINDS[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def shrunk(values: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Means of blocks of rows and columns.

    >>> shrunk(np.arange(8.0).reshape(2, 4), (2, 2))
    array([[2.5, 4.5]])
    """
    if block == (1, 1):
        return values
    # the last rows and columns of a picture that is no multiple of a block are repeated, not dropped
    room = [(0, -length % size) for length, size in zip(values.shape[:2], block, strict=True)]
    whole = np.pad(values, room + [(0, 0)] * (values.ndim - 2), mode="edge")
    height, width = whole.shape[0] // block[0], whole.shape[1] // block[1]
    blocks = whole.reshape(height, block[0], width, block[1], *values.shape[2:])
    return blocks.mean(axis=(1, 3)).astype(values.dtype)


def overlay(rows: Rows, scale: ColorScale) -> UInt8[np.ndarray, "rows columns 4"]:
    """A pixel for every weight, the more opaque the larger; negative weights have their own color."""
    full = 255 * STRENGTH
    colors = [[(*(COLD if x < 0 else HEAT), round(full * scale.share(x))) for x in row] for row in rows]
    return np.array(colors, dtype=np.uint8)


def shaded(levels: Float[np.ndarray, "rows columns"]) -> UInt8[np.ndarray, "rows columns 3"]:
    """Levels from dark (the lowest) to light. The few most extreme ones are cut, so that a click hides nothing else."""
    finite = levels[np.isfinite(levels)]
    low, high = np.percentile(finite, (1, 99.5)) if finite.size else (0.0, 1.0)
    shares = (np.clip(np.nan_to_num(levels, nan=low), low, high) - low) / max(high - low, 1e-12)
    anchors = np.linspace(0.0, 1.0, len(LEVELS))
    channels = [np.interp(shares, anchors, [color[channel] for color in LEVELS]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


Box: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom in pixels of the picture

MOST = 384  # pixels of a side: larger pictures are shrunk, a page must stay small
EVEN = 1e-3  # weights that differ by less than this share of the largest have no strongest place
COARSE = 96  # pixels of a side below which pixels are shown as squares


@dataclass(frozen=True)
class HeatPanel:
    """A word and its weights over the picture.

    Args:
        word: The word.
        weights: Their grid, row by row from the top left.
        boxes: Where the thing is, in pixels of the picture: left, top, right, bottom.
        note: A line below the panel, instead of the share of the weights inside the boxes.

    >>> HeatPanel("dot", ((0.5, 0.25), (0.25, 0.0))).flat
    (0.5, 0.25, 0.25, 0.0)
    """

    word: str
    weights: Rows
    boxes: tuple[Box, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.weights}
        require(
            len(widths) == 1 and 0 not in widths,
            f"weights of {self.word!r} must be a grid with a row or more, all of one length: got lengths {sorted(widths)}",
        )

    @property
    def flat(self) -> tuple[float, ...]:
        """All weights in a row."""
        return tuple(value for row in self.weights for value in row)


@dataclass(frozen=True, eq=False)
class PictureHeat(Item):
    """A picture and a panel of weights for each word of its caption, or one for its class.

    Args:
        picture: Its pixels, uint8: (height, width), or (height, width, 3).
        panels: The words with their weights.
        answer: The class that was recognized; without one, the panels' words are the caption that was written.
        wanted: The right class or caption, if it is known.
        note: A line above the picture.
        score: The probability of the class, or the score of the caption.

    >>> PictureHeat(np.zeros((4, 4), np.uint8), (HeatPanel("dot", ((0.5, 0.25), (0.25, 0.0))),)).empty
    False
    """

    picture: np.ndarray = field(repr=False)  # height x width, or height x width x 3
    panels: tuple[HeatPanel, ...]
    answer: str = ""
    wanted: str = ""
    note: str = ""
    score: float | None = None
    shows_attention = True

    def __post_init__(self) -> None:
        shape, kind = self.picture.shape, self.picture.dtype
        fits = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        require(
            fits and kind == np.uint8,
            f"a picture must be uint8 of shape (height, width) or (height, width, 3): got {kind} of shape {shape}",
        )

    @property
    def empty(self) -> bool:
        return not self.panels or not self.picture.size

    def draw(self) -> Markup:
        """The picture, then a copy in gray under each panel's weights, and all weights in a folded text."""
        words = pieces(tuple(panel.word for panel in self.panels))
        rows = tuple(panel.flat for panel in self.panels)
        scale = ColorScale.of(rows)
        height, width = self.picture.shape[:2]
        side = -(-max(height, width) // MOST)
        small = shrunk(self.picture, (side, side))
        whole = element("span", "picture", class_="word")
        views = [element("div", element("span", element("span", class_="base"), class_="view"), whole, class_="panel")]
        for panel, word in zip(self.panels, words, strict=True):
            views.append(_drawn(panel, word.shown, scale, (height, width)))
        kind = "panels coarse" if max(height, width) < COARSE else "panels"
        kind += " pair" if len(views) == 2 else ""
        cells = len(rows[0])
        return element(
            "figure",
            head(self.note, None if self.answer else self.score),
            # written once, shown in every panel
            element("div", *views, class_=kind, style=f"--picture:url({data_uri(small)});--ratio:{width}/{height}"),
            self.answered(),
            element("p", scale.key(cells, "ramp overlaid"), _legend(self.panels), class_="keys"),
            *(element("p", text, class_="caution") for text in self.warnings(rows)),
            element(
                "details",
                element("summary", "Values"),
                *(_values(panel, word.shown) for panel, word in zip(self.panels, words, strict=True)),
            ),
            class_="card picture-heat" if len(views) <= 3 else "card picture-heat wide",
        )

    def answered(self) -> Markup:
        """A class is right or wrong; of a caption, the wanted words that were not written are marked."""
        if self.answer:
            return element("p", *verdict(self.answer, self.wanted, self.score), class_="verdict")
        text = text_of(tuple(panel.word for panel in self.panels))
        written = line("written", element("span", text, dir="auto", lang="", translate="no"))
        wanted = line("wanted", compared(self.wanted, text)) if self.wanted else None
        return element("dl", written, wanted, class_="lines")

    def warnings(self, rows: Rows) -> list[str]:
        """Cautions about the weights; panels of different grids are judged one by one."""
        places = [_cell_name(index, panel) for panel in self.panels[:1] for index in range(len(panel.flat))]
        if len({len(row) for row in rows}) == 1:
            return cautions(rows, tuple(places), "place")
        return sorted({text for row in rows for text in cautions((row,), tuple(str(i) for i in range(len(row))))})


def _cell_name(index: int, panel: HeatPanel) -> str:
    row, column = divmod(index, len(panel.weights[0]))
    return f"row {row + 1}, column {column + 1}"


def _drawn(panel: HeatPanel, word: str, scale: ColorScale, size: tuple[int, int]) -> Markup:
    """One panel: the gray picture, the weights, the strongest cell outlined, the boxes, and the same in words."""
    finite = [(abs(value), index) for index, value in enumerate(panel.flat) if isfinite(value)]
    rows, columns = len(panel.weights), len(panel.weights[0])
    text, peak = "no weight is a number", None
    if finite and max(finite)[0] - min(finite)[0] <= EVEN * max(finite)[0]:
        text = f"even, {number(panel.flat[finite[0][1]])} at every place"
    elif finite:
        strongest = max(finite, key=lambda pair: pair[0])[1]
        text = f"{number(panel.flat[strongest])} at {_cell_name(strongest, panel)}"
        row, column = divmod(strongest, columns)
        peak = _framed((column / columns, row / rows, (column + 1) / columns, (row + 1) / rows), "peak")
    height, width = size
    boxes = [_framed((x0 / width, y0 / height, x1 / width, y1 / height), "box") for x0, y0, x1, y1 in panel.boxes]
    inside = _share_inside(panel, size) if boxes else None
    note = panel.note or (f"{inside:.0%} of the weight in the box" if inside is not None else "")
    seen = f"{word}: {text}"
    gray = element("span", class_="base gray")
    heat = element("img", class_="overlay", alt="", src=data_uri(overlay(panel.weights, scale)))
    view = element("span", gray, heat, *boxes, peak, class_="view weighted", role="img", aria_label=seen, title=seen)
    name = element("b", word, class_="word", dir="auto", lang="", translate="no")
    place = element("small", text, class_="at")
    return element("div", view, name, place, element("small", note) if note else None, class_="panel")


def _framed(box: Box, kind: str) -> Markup:
    """A frame around a part of a picture; the box is in shares of its sides, and what lies outside is cut."""
    left, top, right, bottom = (min(max(value, 0.0), 1.0) if isfinite(value) else 0.0 for value in box)
    places = {"left": left, "top": top, "width": max(right - left, 0.0), "height": max(bottom - top, 0.0)}
    return element("i", class_=kind, style=";".join(f"{name}:{plain(100 * x)}%" for name, x in places.items()))


def _share_inside(panel: HeatPanel, size: tuple[int, int]) -> float | None:
    """The part of the weights that lies in the boxes, cells on the border counted by their area."""
    if not all(isfinite(value) and value >= 0 for value in panel.flat) or not total(panel.flat):
        return None
    rows, columns = len(panel.weights), len(panel.weights[0])
    high, wide = size[0] / rows, size[1] / columns
    inside = 0.0
    for index, value in enumerate(panel.flat):
        row, column = divmod(index, columns)
        covered = 0.0
        for left, top, right, bottom in panel.boxes:
            across = min(right, (column + 1) * wide) - max(left, column * wide)
            down = min(bottom, (row + 1) * high) - max(top, row * high)
            covered += max(across, 0.0) * max(down, 0.0) / (wide * high)
        inside += value * min(covered, 1.0)
    return inside / total(panel.flat)


def _legend(panels: tuple[HeatPanel, ...]) -> Markup:
    """What the frames mean."""
    peak = element("span", element("i", class_="peak sign"), " strongest place")
    box = element("span", element("i", class_="box sign"), " where it is")
    return join([peak, box if any(panel.boxes for panel in panels) else None])


def _values(panel: HeatPanel, word: str) -> Markup:
    """All weights of a panel as text; the script reads the one under the pointer from here."""
    text = "\n".join(" ".join(weight(value, 4) for value in row) for row in panel.weights)
    return element("div", element("b", word, dir="auto"), element("pre", text, class_="weights", tabindex=0), lang="")
