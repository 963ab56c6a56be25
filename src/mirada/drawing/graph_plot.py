"""Plots of attention as a weighted graph: nodes on a circle, or around the one that was asked about."""

from math import cos, pi, sin
from pathlib import Path
from typing import Any

import numpy as np

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.figure import figure, label
from mirada.drawing.numerals import weight
from mirada.errors import require

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
    else:
        nodes = list(range(min(len(view.rows), MOST_NODES)))
        places = on_circle(nodes)
        edges = [(row, n) for row in nodes for n in nodes if weights[row, n] >= FAINTEST]
    left = round(float(1 - sum(weights[edge] for edge in edges) / max(weights.sum(), 1e-12)), 3)
    with figure(view, path, 6.4, 6.6) as drawn:
        axes = drawn.subplots()
        for row, column in sorted(edges, key=lambda edge: weights[edge]):
            edge(axes, places[row], places[column], float(signed[row, column]), view.top)
        for node, (x, y) in places.items():
            dot(axes, x, y, label(view.rows[node], 16), node == view.focus)
        shown = (
            f"drawn: {1 - left:.0%} of all weight"
            if view.focus is None
            else f"{len(edges)} of {np.count_nonzero(weights[view.focus])} edges"
        )
        axes.set_title(shown, fontsize=7, color="#555555")
        axes.set(xlim=(-1.5, 1.5), ylim=(-1.45, 1.45), aspect="equal")
        axes.set_axis_off()


def on_circle(nodes: list[int]) -> dict[int, tuple[float, float]]:
    """The first on top, the others clockwise."""
    angles = [pi / 2 - 2 * pi * place / max(1, len(nodes)) for place in range(len(nodes))]
    return {node: (cos(angle), sin(angle)) for node, angle in zip(nodes, angles, strict=True)}


def edge(axes: Any, row: tuple[float, float], column: tuple[float, float], value: float, top: float) -> None:
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


def dot(axes: Any, x: float, y: float, name: str, central: bool) -> None:
    """A node and its name, on the side away from the middle."""
    axes.plot([x], [y], "o", markersize=10 if central else 8, color="#d1480a" if central else "#334155", zorder=3)
    far = 0.0 if central else 1.28
    side = "center" if abs(x) < 0.3 else "left" if x > 0 else "right"
    up = -0.2 if central else (0.0 if abs(x) >= 0.3 else 0.02)
    axes.text(x * far, y * far + up, name, fontsize=9, ha="center" if central else side, va="center")
