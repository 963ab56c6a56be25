"""Plots of one matrix of attention, and of all heads of several layers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.figure import figure, label
from mirada.drawing.numerals import weight

COLORS = "Blues"  # from light to dark without a step back in luminance, and the same to all eyes
SIGNED = "PuOr_r"  # with weights below 0: two hues that all eyes tell apart, white between them
CELL = 0.36  # inches
MOST_NUMBERS = 400  # cells that have their number in them
MOST_NAMES, MOST_TIMES = 80, 12  # rows or columns that have names
LONG = 5  # letters from which a name stands upright above its column
LIGHT = 0.6  # share of the full color above which figures are light


def plot_matrix(view: AttentionView, path: Path) -> None:
    """Write a matrix: rows and columns with their names, numbers where there is room, the color of even attention marked."""
    rows, columns = view.weights.shape
    cell = min(CELL, 9 / max(rows, columns, 1))
    wide, high = (max(2.4, cell * count) for count in (columns, rows))
    with figure(view, path, wide + 2.6, high + 2.2) as drawn:
        axes = drawn.subplots()
        colors = color_range(view.top, view.negative)
        shown = axes.imshow(view.weights, **colors, aspect="equal" if cell == CELL else "auto")
        named(axes, view)
        if rows * columns <= MOST_NUMBERS and cell == CELL:
            numbers(axes, view)
        bar = drawn.colorbar(shown, ax=axes, shrink=0.7, pad=0.02, aspect=24)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7)
        if view.even <= view.top:
            mark_even(bar.ax, view)


def color_range(top: float, negative: bool) -> dict[str, Any]:
    """The colors of weights up to `top`; of weights below 0 too, zero is in the middle.

    >>> color_range(0.5, negative=True)
    {'cmap': 'PuOr_r', 'vmin': -0.5, 'vmax': 0.5}
    """
    return {"cmap": SIGNED, "vmin": -top, "vmax": top} if negative else {"cmap": COLORS, "vmin": 0, "vmax": top}


def mark_even(bar: Any, view: AttentionView) -> None:
    """Where even attention lies on the scale: a line, or a band where rows may see different numbers of columns."""
    low, high = view.evens
    bar.axhline(low, color="#d1480a", linewidth=1.2)
    if high > low:
        bar.axhspan(low, min(high, view.top), color="#d1480a", alpha=0.25, linewidth=0)
    bar.set_title(f"even:\n{view.even_text}", fontsize=6, color="#d1480a")


def named(axes: Any, view: AttentionView) -> None:
    """Names beside rows and above columns; of many, every so many."""
    axes.xaxis.tick_top()
    for axis, names in ((axes.yaxis, view.rows), (axes.xaxis, view.columns)):
        most = MOST_TIMES if view.values and axis is axes.xaxis else MOST_NAMES
        places = list(range(0, len(names), max(1, -(-len(names) // most))))
        shown = [label(names[place]) for place in places]
        long = max(map(len, shown), default=0) > LONG and axis is axes.xaxis
        axis.set_ticks(places, shown)
        axis.set_tick_params(length=0, labelsize=8 if len(places) <= 40 else 5, labelrotation=90 if long else 0)
    for side in axes.spines.values():
        side.set_visible(False)


def numbers(axes: Any, view: AttentionView) -> None:
    """The weights in their cells; those below one percent would only be noise."""
    for (row, column), value in np.ndenumerate(view.weights):
        if not np.isfinite(value) or abs(value) >= 0.005:
            strong = np.isfinite(value) and abs(value) / view.top > LIGHT
            color = "white" if strong else "#333333"
            axes.text(column, row, weight(float(value)), ha="center", va="center", fontsize=6.5, color=color)


def plot_heads(views: Sequence[Sequence[AttentionView]], path: Path) -> None:
    """Write all heads of several layers, small, in one scale: a row of the figure is a layer, a column a head."""
    first = replace(views[0][0], layer="every head, in one scale")
    most = max(len(layer) for layer in views)
    colors = color_range(
        max(view.top for layer in views for view in layer), any(view.negative for layer in views for view in layer)
    )
    side = min(1.6, 14 / max(most, len(views)))
    with figure(first, path, max(4.0, side * most + 1.4), side * len(views) + 1.8) as drawn:
        grid = drawn.subplots(len(views), most, squeeze=False)
        for layer, line in zip(views, grid, strict=True):
            for place, axes in enumerate(line):
                axes.set_axis_off() if place >= len(layer) else small(axes, layer[place], place, colors)
            name = layer[0].layer.rpartition(",")[0]
            line[0].set_ylabel(label(name, 28), fontsize=6, rotation=0, ha="right", va="center")


def small(axes: Any, view: AttentionView, head: int, colors: dict[str, Any]) -> None:
    """One head, without names."""
    axes.imshow(view.weights, **colors, aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"head {head}", fontsize=6, pad=2)
    for side in axes.spines.values():
        side.set_color("#bbbbbb")
