"""From a layer and its labels to pictures: what a plot or a terminal shows of it. `Seen` calls these functions."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mirada.drawing.plots.view import AttentionView, PictureGrid
from mirada.drawing.terminal.attention import draw_graph, draw_matrix, draw_picture
from mirada.drawing.terminal.text import Terminal, cut
from mirada.errors import require, unknown
from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, TimeLabels
from mirada.looking.stream import Stream, sample_note

MOST_CELLS = 16_000_000  # weights that a still picture is made of


def view(stream: Stream, labels: Labels, title: str = "", head: int | None = None) -> AttentionView:
    """One layer as a still picture shows it: one head, or the mean of all."""
    name = stream.name or "the layer"
    fits = stream.queries > 0 and stream.keys > 0
    require(fits, f"there is nothing to draw: {name} has {stream.queries} queries and {stream.keys} keys")
    fits = head is None or 0 <= head < stream.heads
    require(fits, f"{name} has {stream.heads} heads, 0 to {stream.heads - 1}: there is no head {head}")
    rows, columns = labels.rows_and_columns(stream.name, stream.queries, stream.keys)
    reading = f"rows: {_called(rows, 'query')}; columns: {_called(columns, 'key')}"
    if rows is columns:
        reading = f"rows: who looks; columns: what is looked at; both {_called(columns, 'key')}"
    grid = None
    if isinstance(columns, GridLabels):
        grid = PictureGrid(columns.height, columns.width, len(columns.before), columns.picture)
    who = "1 head" if stream.heads == 1 else f"mean of {stream.heads} heads" if head is None else f"head {head}"
    shown = AttentionView(
        _matrix(stream, head), rows.tokens, columns.tokens, title=title, layer=f"{stream.name or 'attention'}, {who}",
        reading=reading, grid=grid,
        values=columns.values if isinstance(columns, TimeLabels) else (), graph=stream.edges is not None,
        remarks=(*_changes(labels), *_remarks(stream, columns, head)), made={**labels.made, **sample_note([stream])},
        visible=tuple(stream.visible().tolist()),
    )  # fmt: skip
    return _with_steps(labels, shown, rows is not columns)


def _matrix(stream: Stream, head: int | None) -> np.ndarray:
    """The weights of one head or their mean, as a matrix; of a graph too."""
    require(
        stream.queries * stream.keys <= MOST_CELLS,
        f"{stream.name} has {stream.queries:,} x {stream.keys:,} weights: too many for a picture. Write a page "
        "(.html) or look at a shorter input.",
    )

    def of_head(weights: Tensor) -> Tensor:
        return weights.mean(0) if head is None else weights[head]

    if stream.edges is not None:
        matrix = torch.zeros(stream.queries, stream.keys)
        source, target = stream.edges.cpu()
        matrix[target, source] = of_head(stream.edge_weights())
        return matrix.double().numpy()
    pieces = [of_head(piece) for _, piece in stream.pieces()]
    return torch.cat(pieces).double().numpy() if pieces else np.zeros((0, stream.keys))


def _with_steps(labels: Labels, shown: AttentionView, across: bool) -> AttentionView:
    """With what was written: where a row looks at something else, it is named by what was written from it."""
    steps = {step.row: step for step in labels.outputs if step.row < len(shown.rows)}
    focus = next(iter(steps)) if len(steps) == 1 else None
    boxes = tuple((row, box) for row, box in labels.boxes if row in steps)
    if not across or len(steps) < max(1, len(shown.rows) - 1):
        return replace(shown, focus=focus)
    rows = sorted(steps)
    places = {row: place for place, row in enumerate(rows)}
    return replace(
        shown, weights=shown.weights[rows], rows=tuple(steps[row].text for row in rows),
        visible=tuple(shown.visible[row] for row in rows),
        focus=None if focus is None else places[focus],
        shares=tuple(steps[row].probability for row in rows), boxes=tuple((places[row], box) for row, box in boxes),
        reading=shown.reading.replace("rows: what was fed", "rows: what was written"),
    )  # fmt: skip


def title(labels: Labels, sample: int | None = None, samples: int = 1) -> str:
    """The question and the answer, as far as they are known; of several samples, which one."""
    given, answer = labels.made.get("input", ""), labels.answer
    words = [" ".join(text.split()) for text in (given, answer[0] if answer else "")]
    which = f"sample {sample or 0} of 0 to {samples - 1}" if samples > 1 else ""
    return " \u00b7 ".join(filter(None, (which, " \u2192 ".join(filter(None, words)))))


def _called(axis: AxisLabels, role: str) -> str:
    """What the places of an axis are, in words."""
    if axis.kind == "text":
        return "what was fed" if role == "query" else "what was read"
    return {"grid": "cells of the picture", "time": "times", "graph": "nodes"}.get(axis.kind, f"{role} places")


def _changes(labels: Labels) -> list[str]:
    """The what-ifs of a run, in words."""
    notes = []
    for change in labels.changes:
        places = ", ".join(f"{name} {value}" for name, value in change.items() if name not in ("layer", "do"))
        notes.append(f"What if: {change.get('do', 'a change')} in {change.get('layer', '')} ({places}).")
    return notes


def _remarks(stream: Stream, columns: AxisLabels, head: int | None) -> tuple[str, ...]:
    """What a reader should know from the statistics of the heads."""
    if isinstance(columns, NodeLabels):
        return ()
    statistics, checks = stream.statistics()
    remarks = []
    if checks.dropout:
        remarks.append(f"Dropout of {checks.dropout:g} was on: the model did not use these weights as they are.")
    sinks = [each.sink for each in statistics if each.sink is not None]
    if head is None and 0 < len(sinks) < len(statistics):  # if all have one, the matrix itself shows it
        names = ", ".join(dict.fromkeys(f"\u201c{columns.tokens[sink.key]}\u201d" for sink in sinks))
        remarks.append(
            f"{len(sinks)} of {len(statistics)} heads give most of their weight to one place, whatever the query: {names}."
        )
    return tuple(remarks)


# Output of a view: a plot, or a drawing for a terminal. Of a page: a cell of a notebook.


KINDS = ("matrix", "heads", "picture", "graph")
FRAME = 720  # pixels of a page in a notebook


def plot_kind(shown: AttentionView, kind: str = "") -> str:
    """The kind of plot that was asked for, if the layer can be drawn so; without one, what suits the layer."""
    kind = kind or _suited(shown)
    if kind not in KINDS:
        raise unknown("kind of plot", kind, KINDS)
    require(kind != "picture" or shown.grid is not None, f"{shown.layer} looks at no picture: try kind='matrix'")
    return kind


def _suited(shown: AttentionView) -> str:
    """The kind of plot that suits a layer best."""
    if shown.grid is not None and (shown.focus is not None or len(shown.rows) < len(shown.columns)):
        return "picture"
    return "graph" if shown.graph else "matrix"


def plot(path: Path, shown: AttentionView, heads: Sequence[Sequence[AttentionView]], kind: str) -> None:
    """Write a plot of a kind. matplotlib is imported only now: it takes its time."""
    from mirada.drawing.plots.attention import plot_graph, plot_heads, plot_matrix, plot_picture

    if kind == "heads":
        plot_heads(heads, path)
    else:
        {"matrix": plot_matrix, "picture": plot_picture, "graph": plot_graph}[kind](shown, path)


def in_terminal(shown: AttentionView, terminal: Terminal) -> str:
    """A drawing for a terminal: a picture, the neighbors of a node, or a matrix, as the layer is."""
    draw = {"picture": draw_picture, "graph": draw_graph, "matrix": draw_matrix}[_suited(shown)]
    title = cut(shown.title, 2 * terminal.width, "\u2026")
    lines = [terminal.strong(line) for line in terminal.wrapped(title)] if title else []
    lines += [*map(terminal.faint, terminal.wrapped(shown.layer)), "", draw(shown, terminal)]
    return "\n".join([*lines, *map(terminal.faint, terminal.wrapped(shown.origin))]).rstrip()


def in_notebook(page: str, samples: int) -> str:
    """A cell of a notebook: the page in a frame of its own, so that neither can touch the other."""
    note = f"<p>sample 0 of {samples}; seen.page(path, sample=1) writes another</p>" if samples > 1 else ""
    return (
        f'{note}<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="attention" '
        f'style="width:100%;height:{FRAME}px;border:1px solid #ccc;border-radius:8px"></iframe>'
    )
