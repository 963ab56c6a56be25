"""Attention over a picture in a terminal: the picture for every word, lit where the model looked, two pixels to a cell."""

import numpy as np
from jaxtyping import Float, UInt8

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.embedded_picture import embedded_pixels
from mirada.drawing.numerals import number
from mirada.drawing.terminal import HALF, Color, Terminal, color_of, fitted, shade
from mirada.drawing.terminal_matrix import draw_matrix, ellipsis, legend

SIDE = 24  # pixels of a drawn picture
LONGEST = 96  # cells of a side; a longer grid is no picture that a terminal could show
MOST_PANELS = 24
LIT, SOFT = 0.85, 0.6  # how much the heat covers where the weight is largest, and how it fades
DARK = 0.5  # how bright the picture stays below it


def draw_picture(view: AttentionView, terminal: Terminal) -> str:
    """A panel for every row, as many beside each other as fit."""
    assert view.grid is not None
    grid = view.grid
    longest = max(grid.height, grid.width)
    if longest > LONGEST:
        return draw_matrix(view, terminal)
    chosen = [view.focus] if view.focus is not None else list(range(len(view.rows)))
    side = max(SIDE // longest, 1) * longest
    side += side % 2  # two pixels to a cell
    pixels = thumbnail(grid.picture, side)
    wide = side if terminal.colored else 2 * grid.width
    across = max(1, (terminal.width + 2) // (wide + 2))
    lines: list[str] = []
    for first in range(0, min(len(chosen), MOST_PANELS), across):
        panels = [panel(view, terminal, row, pixels, wide) for row in chosen[first : first + across]]
        lines += ["  ".join(parts).rstrip() for parts in zip(*panels, strict=True)]
        lines.append("")
    if len(chosen) > MOST_PANELS:
        lines += [f"{len(chosen) - MOST_PANELS} words more: -o look.html shows all", ""]
    return "\n".join([*lines, *legend(view, terminal)])


def panel(view: AttentionView, terminal: Terminal, row: int, pixels: np.ndarray | None, wide: int) -> list[str]:
    """The word with its probability, and the picture below it."""
    assert view.grid is not None
    share = view.shares[row] if view.shares else None
    told = f"{terminal.shown(view.rows[row])}{'' if share is None else f' {number(share)}'}"
    inside = view.weights[row][view.grid.before :].reshape(view.grid.height, view.grid.width)
    rest = view.weights[row][: view.grid.before]
    outside = f"{view.columns[0]} {number(float(rest.sum()))}" if len(rest) else ""
    head = [fitted(told, wide, "left", ellipsis(terminal))]
    head += [fitted(terminal.shown(outside), wide, "left", ellipsis(terminal))] if outside else []
    shares = np.nan_to_num(np.abs(inside)) / view.top
    if not terminal.colored:
        return [*head, *("".join(2 * shade(float(value)) for value in line) for line in shares)]
    lit = heated(shares, pixels, wide)
    pairs = zip(lit[0::2], lit[1::2], strict=True)
    return [*head, *("".join(half(terminal, a, b) for a, b in zip(up, low, strict=True)) for up, low in pairs)]


def half(terminal: Terminal, upper: np.ndarray, lower: np.ndarray) -> str:
    return terminal.paint(HALF if terminal.unicode else " ", ink=as_color(upper), ground=as_color(lower))


def as_color(values: np.ndarray) -> Color:
    red, green, blue = (int(value) for value in values)
    return red, green, blue


def heated(
    shares: Float[np.ndarray, "height width"], pixels: UInt8[np.ndarray, "side side 3"] | None, side: int
) -> UInt8[np.ndarray, "side side 3"]:
    """The picture in gray, with the colors of the weights over it; without a picture, the colors alone."""
    rows, columns = (np.arange(side) * count // side for count in shares.shape)
    large = shares[rows][:, columns]
    colors = np.array([[color_of(float(value)) for value in line] for line in large], dtype=np.float64)
    if pixels is None:
        return colors.round().astype(np.uint8)
    gray = np.repeat((pixels @ np.array([0.299, 0.587, 0.114]))[..., None], 3, axis=-1) * DARK
    cover = (LIT * large**SOFT)[..., None]
    return (gray * (1 - cover) + colors * cover).round().astype(np.uint8)


def thumbnail(png: bytes, side: int) -> UInt8[np.ndarray, "side side 3"] | None:
    """The picture in so many pixels; None where there is none or it cannot be read."""
    found = embedded_pixels(png, "RGB", (side, side))
    return None if found is None else found.pixels
