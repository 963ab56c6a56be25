"""Attention over a graph in a terminal: the neighbors that a node looked at, the strongest first."""

import numpy as np

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.numerals import weight
from mirada.drawing.terminal import Terminal, cells, color_of, fitted
from mirada.drawing.terminal_matrix import ellipsis

MOST = 20  # neighbors of a node
NODES = 8  # nodes, where none was asked about
LABEL = 33  # cells for the name of a neighbor
ITSELF = " (itself)"
AROUND = 9  # cells of a line beside the name and the bar: spaces and the weight


def draw_graph(view: AttentionView, terminal: Terminal) -> str:
    """A table of neighbors: of the node that was asked about, or of the first nodes that have some."""
    rows = (
        [view.focus]
        if view.focus is not None
        else [row for row in range(len(view.rows)) if view.weights[row].any()][:NODES]
    )
    lines: list[str] = []
    for row in rows:
        lines += [f"{terminal.strong(terminal.shown(view.rows[row]))} looked at", *neighbors(view, terminal, row), ""]
    return "\n".join(
        [*lines, *(terminal.faint(part) for text in view.cautions for part in terminal.wrapped(text))]
    ).rstrip()


def neighbors(view: AttentionView, terminal: Terminal, row: int) -> list[str]:
    """The neighbors of a node with their weights as bars."""
    weights = np.nan_to_num(view.weights[row])
    order = [int(place) for place in np.argsort(-np.abs(weights), kind="stable") if weights[place]]
    longest = max((cells(terminal.shown(view.columns[place])) for place in order[:MOST]), default=1)
    label = min(longest + len(ITSELF), LABEL, terminal.width // 2)
    room, top = max(1, min(40, terminal.width - label - AROUND)), float(np.abs(weights).max()) or 1.0
    lines = []
    for place in order[:MOST]:
        share = abs(weights[place]) / top
        name = terminal.shown(view.columns[place]) + (
            ITSELF if place == row and len(view.rows) == len(view.columns) else ""
        )
        bar = ("\u2588" if terminal.unicode else "#") * max(1, round(room * share))
        lines.append(f"  {fitted(name, label, 'left', ellipsis(terminal))} {weight(float(weights[place]))}  "
                     f"{terminal.paint(bar, ink=color_of(0.35 + 0.55 * share))}")  # fmt: skip
    if len(order) > MOST:
        rest = float(weights[order[MOST:]].sum())
        lines.append(terminal.faint(f"  {len(order) - MOST} more with {rest:.0%} of the weight"))
    lines.append(terminal.faint(f"  even would be {weight(1 / max(1, len(order)))}"))
    return lines
