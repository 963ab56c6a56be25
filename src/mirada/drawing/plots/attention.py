"""Plots of one matrix of attention, and of all heads of several layers."""

import io
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mirada.drawing.attention.picture import COLD, HEAT, STRENGTH
from mirada.drawing.plots.view import AttentionView, EmbeddedPixels, embedded_pixels
from mirada.errors import require, unknown
from mirada.files import PLOT_ENDINGS, write_whole
from mirada.words import number, shortened, visible_line, weight

# The frame of a plot of attention: fonts that have the letters, the cautions, where it comes from, and a file that
# repeats.


NOTO = ("Sans CJK JP", "Sans Arabic", "Sans Hebrew", "Sans Devanagari", "Emoji")
FONTS = ("DejaVu Sans", *(f"Noto {name}" for name in NOTO))
WRITINGS = ("Sans CJK", "Emoji", "Sans Symbols", "Fallback", "Unifont", "WenQuanYi", "Hiragino", "YaHei", "PingFang")
LETTERS_AN_INCH = 16  # of small type
LARGEST = 24.0  # inches
DPI = 160


@contextmanager
def _figure(view: AttentionView, path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, whose file is written when all went well: labelled, with its origin below and in the file."""
    require(path.suffix.lower() in PLOT_ENDINGS, str(unknown("format of a plot", path.suffix, PLOT_ENDINGS)))
    import matplotlib
    from matplotlib.figure import Figure  # without pyplot: no window system, no state between plots

    settings: Any = {
        "svg.hashsalt": "mirada", "pdf.fonttype": 42, "font.family": _known_fonts(), "axes.linewidth": 0.6,
        "text.parse_math": False,  # a dollar in a token is a dollar
    }  # fmt: skip
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that no font has becomes a box: that is no reason to warn
        width, height = min(width, LARGEST), min(height, LARGEST)
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        letters = int(width * LETTERS_AN_INCH)
        cut = textwrap.shorten(visible_line(view.title), 2 * letters, placeholder=" \u2026")
        head = "\n".join(textwrap.wrap(cut, letters)) if view.title else ""
        drawn.suptitle(f"{head}\n{view.layer}".strip(), fontsize=9, x=0.02, ha="left")
        notes = [*(f"\u26a0 {text}" for text in view.cautions), view.reading, view.origin]
        lines = [line for text in notes if text for line in textwrap.wrap(visible_line(text), int(1.3 * letters))]
        drawn.supxlabel("\n".join(lines), fontsize=6, x=0.02, ha="left", color="#555555")
        content, ending = io.BytesIO(), path.suffix.lower()
        drawn.savefig(content, dpi=DPI, format=ending[1:], metadata=metadata(view, ending))
    write_whole(path, content.getvalue())


@cache
def _known_fonts() -> list[str]:
    """The fonts that are here, for letters of many writings."""
    from matplotlib.font_manager import fontManager

    here = sorted(set(fontManager.get_font_names()))
    more = [name for name in here if any(word in name for word in WRITINGS) and "Color" not in name]
    return [*dict.fromkeys(name for name in (*FONTS, *more) if name in here)] or ["sans-serif"]


def metadata(view: AttentionView, ending: str) -> dict[str, str | None]:
    """The metadata of the file. It has no date: equal weights give equal files."""
    named = {"Title": visible_line(view.title) or view.layer, "Creator": "mirada"}
    provenance = [f"{name}: {visible_line(value)}" for name, value in view.made.items()]
    about = "; ".join(filter(None, (view.layer, *provenance)))
    if ending == ".png":
        return {"Title": named["Title"], "Description": about, "Software": "mirada"}
    if ending == ".svg":
        return {**named, "Description": about, "Date": None}
    return {**named, "Subject": about, "CreationDate": None}


def label(text: str, most: int = 24) -> str:
    """The name of a row or a column."""
    return shortened(visible_line(text), most, "\u2026")


COLORS = "Blues"  # from light to dark without a step back in luminance, and the same to all eyes
SIGNED = "PuOr_r"  # with weights below 0: two hues that all eyes tell apart, white between them
CELL = 0.36  # inches
MOST_NUMBERS = 400  # cells that have their number in them
MOST_NAMES, MOST_TIMES = 80, 12  # rows or columns that have names
LONG = 5  # letters; longer names of columns are rotated
LIGHT = 0.6  # share of the full color above which figures are light


def plot_matrix(view: AttentionView, path: Path) -> None:
    """Write a matrix: rows and columns with their names, numbers where there is room, the color of even attention marked."""
    rows, columns = view.weights.shape
    cell = min(CELL, 9 / max(rows, columns, 1))
    wide, high = (max(2.4, cell * count) for count in (columns, rows))
    with _figure(view, path, wide + 2.6, high + 2.2) as drawn:
        axes = drawn.subplots()
        colors = color_range(view.top, view.negative)
        shown = axes.imshow(view.weights, **colors, aspect="equal" if cell == CELL else "auto")
        _named(axes, view)
        if rows * columns <= MOST_NUMBERS and cell == CELL:
            _numbers(axes, view)
        bar = drawn.colorbar(shown, ax=axes, shrink=0.7, pad=0.02, aspect=24)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=7)
        if view.even <= view.top:
            _mark_even(bar.ax, view)


def color_range(top: float, negative: bool) -> dict[str, Any]:
    """The colors of weights up to `top`; of weights below 0 too, zero is in the middle.

    >>> color_range(0.5, negative=True)
    {'cmap': 'PuOr_r', 'vmin': -0.5, 'vmax': 0.5}
    """
    return {"cmap": SIGNED, "vmin": -top, "vmax": top} if negative else {"cmap": COLORS, "vmin": 0, "vmax": top}


def _mark_even(bar: Any, view: AttentionView) -> None:
    """Where even attention lies on the scale: a line, or a band where rows may see different numbers of columns."""
    low, high = view.evens
    bar.axhline(low, color="#d1480a", linewidth=1.2)
    if high > low:
        bar.axhspan(low, min(high, view.top), color="#d1480a", alpha=0.25, linewidth=0)
    bar.set_title(f"even:\n{view.even_text}", fontsize=6, color="#d1480a")


def _named(axes: Any, view: AttentionView) -> None:
    """Names next to rows and above columns; of many, at regular intervals."""
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


def _numbers(axes: Any, view: AttentionView) -> None:
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
    heads = [view for layer in views for view in layer]
    colors = color_range(max(view.top for view in heads), any(view.negative for view in heads))
    side = min(1.6, 14 / max(most, len(views)))
    with _figure(first, path, max(4.0, side * most + 1.4), side * len(views) + 1.8) as drawn:
        grid = drawn.subplots(len(views), most, squeeze=False)
        for layer, line in zip(views, grid, strict=True):
            for place, axes in enumerate(line):
                axes.set_axis_off() if place >= len(layer) else _small(axes, layer[place], place, colors)
            name = layer[0].layer.rpartition(",")[0]
            line[0].set_ylabel(label(name, 28), fontsize=6, rotation=0, ha="right", va="center")


def _small(axes: Any, view: AttentionView, head: int, colors: dict[str, Any]) -> None:
    """One head, without names."""
    axes.imshow(view.weights, **colors, aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"head {head}", fontsize=6, pad=2)
    for side in axes.spines.values():
        side.set_color("#bbbbbb")


# Plots of attention over a picture: a panel for every word, the picture in gray with the weights over it.


ACROSS = 6  # panels in a row
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
    with _figure(view, path, max(3.6, side * across), (side + 0.3) * down + 1.3) as drawn:
        grid = drawn.subplots(down, across, squeeze=False).reshape(-1)
        for axes in grid:
            axes.set_axis_off()
        for axes, row in zip(grid, rows, strict=False):
            _panel(axes, view, row, picture)


def _panel(axes: Any, view: AttentionView, row: int, picture: EmbeddedPixels | None) -> None:
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
        _frame(axes, (peak_column * cell_wide, peak_row * cell_high, cell_wide, cell_high), "#d1480a", "-")
    for where, (left, upper, right, lower) in view.boxes:
        if where == row and picture is not None:
            _frame(axes, (left, upper, right - left, lower - upper), "#1d4ed8", "--")
    share = view.shares[row] if view.shares else None
    caption = label(view.rows[row]) + ("" if share is None else f"  {number(share)}")
    rest = view.weights[row][: grid.before]
    caption += f"\n{view.columns[0]} {number(float(rest.sum()))}" if len(rest) else ""
    axes.set_title(caption, fontsize=8, pad=2)


def overlay(weights: Float[np.ndarray, "height width"], top: float) -> Float[np.ndarray, "height width 4"]:
    """The color of heat, the more opaque the larger the weight; negative weights have the color of cold."""
    color = np.where((weights < 0)[..., None], COLD, HEAT) / 255
    return np.dstack([color, STRENGTH * np.clip(np.abs(weights) / top, 0, 1)])


def _frame(axes: Any, box: tuple[float, float, float, float], color: str, style: str) -> None:
    from matplotlib.patches import Rectangle

    left, upper, wide, high = box
    axes.add_patch(Rectangle((left, upper), wide, high, fill=False, edgecolor=color, linestyle=style, linewidth=1.2))


# Plots of attention as a weighted graph: nodes on a circle, or around the one that was asked about.


MOST_AROUND = 24  # neighbors around a node
MOST_NODES = 60  # nodes of a circle
THICKEST = 6.0
FAINTEST = 0.02  # weights below are not drawn
POSITIVE, NEGATIVE = "#1d4ed8", "#c2410c"


def plot_graph(view: AttentionView, path: Path) -> None:
    """Write nodes and their edges: the thicker and darker, the larger the weight; negative ones are orange. An arrow
    points at who looks.
    """
    require(
        len(view.rows) == len(view.columns),
        f"a graph needs rows and columns that are the same nodes: got {len(view.rows)} rows, {len(view.columns)} columns",
    )
    signed = np.nan_to_num(view.weights)
    weights = np.abs(signed)
    if view.focus is not None:
        order = [int(n) for n in np.argsort(-weights[view.focus], kind="stable") if weights[view.focus, n]]
        around = [n for n in order if n != view.focus][:MOST_AROUND]
        places = {view.focus: (0.0, 0.0)} | on_circle(around)
        edges = [(view.focus, n) for n in (*around, *([view.focus] if weights[view.focus, view.focus] else []))]
        note = f"{len(edges)} of {np.count_nonzero(weights[view.focus])} edges"
    else:
        nodes = list(range(min(len(view.rows), MOST_NODES)))
        places = on_circle(nodes)
        edges = [(row, n) for row in nodes for n in nodes if weights[row, n] >= FAINTEST]
        rest = round(float(1 - sum(weights[edge] for edge in edges) / max(weights.sum(), 1e-12)), 3)
        note = f"drawn: {1 - rest:.0%} of all weight"
    with _figure(view, path, 6.4, 6.6) as drawn:
        axes = drawn.subplots()
        for row, column in sorted(edges, key=lambda edge: weights[edge]):
            _edge(axes, places[row], places[column], float(signed[row, column]), view.top)
        for node, (x, y) in places.items():
            _dot(axes, x, y, label(view.rows[node], 16), node == view.focus)
        axes.set_title(note, fontsize=7, color="#555555")
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.45, 1.45), aspect="equal")
        axes.set_axis_off()


def on_circle(nodes: list[int]) -> dict[int, tuple[float, float]]:
    """The first on top, the others clockwise."""
    angles = [pi / 2 - 2 * pi * place / max(1, len(nodes)) for place in range(len(nodes))]
    return {node: (cos(angle), sin(angle)) for node, angle in zip(nodes, angles, strict=True)}


def _edge(axes: Any, row: tuple[float, float], column: tuple[float, float], value: float, top: float) -> None:
    """From what is looked at to who looks; to itself, a ring."""
    from matplotlib.patches import Circle, FancyArrowPatch

    share = min(abs(value) / top, 1.0)
    look: dict[str, Any] = {"alpha": 0.15 + 0.75 * share, "linewidth": 0.4 + THICKEST * share}
    look["color"] = POSITIVE if value >= 0 else NEGATIVE
    if row == column:
        axes.add_patch(Circle((1.13 * row[0], 1.13 * row[1]), 0.09, fill=False, **look))
        return
    arrow = FancyArrowPatch(column, row, connectionstyle="arc3,rad=0.12", arrowstyle="-|>", shrinkA=9, shrinkB=9,
                            mutation_scale=6 + 6 * share, **look)  # fmt: skip
    axes.add_patch(arrow)
    if share > 0.25:
        x, y = (0.45 * a + 0.55 * b for a, b in zip(row, column, strict=True))
        axes.text(x, y, weight(value), fontsize=6.5, ha="center", va="center",
                  bbox={"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.8})  # fmt: skip


def _dot(axes: Any, x: float, y: float, name: str, central: bool) -> None:
    """A node and its name, on the side away from the middle."""
    axes.plot([x], [y], "o", markersize=10 if central else 8, color="#d1480a" if central else "#334155", zorder=3)
    far = 0.0 if central else 1.28
    side = "center" if abs(x) < 0.3 else "left" if x > 0 else "right"
    up = -0.2 if central else (0.0 if abs(x) >= 0.3 else 0.02)
    axes.text(x * far, y * far + up, name, fontsize=9, ha="center" if central else side, va="center")
