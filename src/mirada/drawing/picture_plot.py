"""Plots of attention over a picture: a panel for every word, the picture in gray with the weights over it."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.embedded_picture import EmbeddedPixels, embedded_pixels
from mirada.drawing.figure import figure, label
from mirada.drawing.numerals import number
from mirada.drawing.raster import COLD, HEAT, STRENGTH
from mirada.errors import require

ACROSS = 6  # panels beside each other
MOST = 60  # panels
SIDE = 1.7  # inches


def plot_picture(view: AttentionView, path: Path) -> None:
    """Write a panel for every row; of one that was asked about, for that one. The strongest cell is framed."""
    assert view.grid is not None
    rows = [view.focus] if view.focus is not None else list(range(len(view.rows)))[:MOST]
    require(bool(rows), "there is nothing to draw: no row looked at the picture")
    picture = embedded_pixels(view.grid.picture, "L")
    across = min(ACROSS, len(rows))
    down = -(-len(rows) // across)
    side = SIDE if len(rows) > 1 else 3.4
    with figure(view, path, max(3.6, side * across), (side + 0.3) * down + 1.3) as drawn:
        grid = drawn.subplots(down, across, squeeze=False).reshape(-1)
        for axes in grid:
            axes.set_axis_off()
        for axes, row in zip(grid, rows, strict=False):
            panel(axes, view, row, picture)


def panel(axes: Any, view: AttentionView, row: int, picture: EmbeddedPixels | None) -> None:
    """The picture with the weights of one row."""
    assert view.grid is not None
    grid = view.grid
    inside = np.nan_to_num(view.weights[row][grid.before :]).reshape(grid.height, grid.width)
    high, wide = inside.shape if picture is None else (picture.height, picture.width)
    place = (0, wide, high, 0)
    if picture is not None:
        axes.imshow(picture.pixels, cmap="gray", vmin=0, vmax=255, extent=place)
    axes.imshow(overlay(inside, view.top), extent=place, interpolation="nearest")
    cell_high, cell_wide = high / grid.height, wide / grid.width
    peak_row, peak_column = divmod(int(inside.argmax()), grid.width)
    if inside.max() > 2 * view.even_of(row):  # elsewhere the strongest cell means nothing
        frame(axes, (peak_column * cell_wide, peak_row * cell_high, cell_wide, cell_high), "#d1480a", "-")
    for where, (left, upper, right, lower) in view.boxes:
        if where == row and picture is not None:
            frame(axes, (left, upper, right - left, lower - upper), "#1d4ed8", "--")
    share = view.shares[row] if view.shares else None
    told = label(view.rows[row]) + ("" if share is None else f"  {number(share)}")
    rest = view.weights[row][: grid.before]
    told += f"\n{view.columns[0]} {number(float(rest.sum()))}" if len(rest) else ""
    axes.set_title(told, fontsize=8, pad=2)


def overlay(
    weights: Float[np.ndarray, "height width"], top: float
) -> Float[np.ndarray, "height width 4"]:  # fmt: skip
    """The color of heat, the more opaque the larger the weight; negative weights have the color of cold."""
    found = np.empty((*weights.shape, 4))
    found[..., :3] = np.where((weights < 0)[..., None], COLD, HEAT) / 255
    found[..., 3] = STRENGTH * np.clip(np.abs(weights) / top, 0, 1)
    return found


def frame(axes: Any, box: tuple[float, float, float, float], color: str, style: str) -> None:
    from matplotlib.patches import Rectangle

    left, upper, wide, high = box
    axes.add_patch(Rectangle((left, upper), wide, high, fill=False, edgecolor=color, linestyle=style, linewidth=1.2))
