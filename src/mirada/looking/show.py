"""From what was seen to what a still picture shows: which layer, which heads, the names of rows and columns."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor

from mirada.drawing.page import Markup
from mirada.drawing.plots.view import AttentionView, PictureGrid
from mirada.drawing.terminal.attention import draw_graph, draw_matrix, draw_picture
from mirada.drawing.terminal.text import Terminal, cut
from mirada.drawing.viewer.page import attention_page, base64_block, file_block
from mirada.errors import require, unknown
from mirada.looking.attn.write import whole
from mirada.looking.labels import AxisLabels, GridLabels, NodeLabels, TimeLabels
from mirada.looking.stream import Stream, sample_told

if TYPE_CHECKING:
    from mirada.looking.record import Seen


MOST_CELLS = 16_000_000  # weights that a still picture is made of


def chosen_layer(seen: "Seen", layer: str = "") -> str:
    """A layer by name or by its end; without one, the last that looks from what is written at what was read."""
    names = seen.names
    require(len(names) > 0, "there is nothing to see: no layer was called inside look")
    if layer in names:
        return layer
    if layer:
        near = [name for name in names if name.endswith(f".{layer}")]
        if len(near) != 1:
            raise unknown("layer", layer, names)
        return near[0]
    across = [name for name in names if seen[name].kind == "cross"]
    return (across or names)[-1]


def view(seen: "Seen", layer: str = "", head: int | None = None, sample: int | None = None) -> AttentionView:
    """One layer as a picture shows it: one head, or the mean of all; of several samples, the one that is asked for."""
    name = chosen_layer(seen, layer)
    stream = seen.stream(name, sample)
    require(
        stream.queries > 0 and stream.keys > 0,
        f"there is nothing to draw: {name or 'the layer'} has {stream.queries} queries and {stream.keys} keys",
    )
    require(
        head is None or 0 <= head < stream.heads,
        f"{name or 'the layer'} has {stream.heads} heads, 0 to {stream.heads - 1}: there is no head {head}",
    )
    rows, columns = axes(seen, stream)
    who = "1 head" if stream.heads == 1 else f"mean of {stream.heads} heads" if head is None else f"head {head}"
    shown = AttentionView(
        _matrix(stream, head), rows.tokens, columns.tokens, title=_title(seen, sample), layer=f"{name or 'attention'}, {who}",
        reading=_reading(rows, columns), grid=_grid_of(columns),
        values=columns.values if isinstance(columns, TimeLabels) else (), graph=stream.edges is not None,
        remarks=(*_changes(seen), *_remarks(stream, columns, head)), made={**seen.labels.made, **sample_told([stream])},
        visible=tuple(stream.visible().tolist()),
    )  # fmt: skip
    return _with_steps(seen, shown, rows is not columns)


def axes(seen: "Seen", stream: Stream) -> tuple[AxisLabels, AxisLabels]:
    """What the rows and columns of a layer are; numbers, where nobody said."""
    labels = seen.labels
    names = labels.axes_of(stream.name, stream.queries, stream.keys)
    if names is None:
        return AxisLabels.numbered(stream.queries), AxisLabels.numbered(stream.keys)
    return labels.axes[names[0]], labels.axes[names[1]]


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
        found = torch.zeros(stream.queries, stream.keys)
        source, target = stream.edges.cpu()
        found[target, source] = of_head(stream.edge_weights())
        return found.double().numpy()
    pieces = [of_head(piece) for _, piece in stream.pieces()]
    return torch.cat(pieces).double().numpy() if pieces else np.zeros((0, stream.keys))


def _with_steps(seen: "Seen", shown: AttentionView, across: bool) -> AttentionView:
    """With what was written: where a row looks at something else, it is named by what was written from it."""
    steps = {step.row: step for step in seen.labels.outputs if step.row < len(shown.rows)}
    focus = next(iter(steps)) if len(steps) == 1 else None
    boxes = tuple((row, box) for row, box in seen.labels.boxes if row in steps)
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


def _title(seen: "Seen", sample: int | None = None) -> str:
    """The question and the answer, as far as they are known; of several samples, which one."""
    given, answer = seen.labels.made.get("input", ""), seen.labels.answer
    words = [" ".join(text.split()) for text in (given, answer[0] if answer else "")]
    told, many = " \u2192 ".join(filter(None, words)), _samples(seen)
    return " \u00b7 ".join(filter(None, (f"sample {sample or 0} of 0 to {many - 1}" if many > 1 else "", told)))


def _reading(rows: AxisLabels, columns: AxisLabels) -> str:
    """What the rows and columns are, in words."""
    if rows is columns:
        return f"rows: who looks; columns: what is looked at; both {_called(columns, 'key')}"
    return f"rows: {_called(rows, 'query')}; columns: {_called(columns, 'key')}"


def _called(axis: AxisLabels, role: str) -> str:
    """What the places of an axis are, in words."""
    if axis.kind == "text":
        return "what was fed" if axis.tokens[:1] == ("<s>",) and role == "query" else "what was read"
    return {"grid": "cells of the picture", "time": "times", "graph": "nodes"}.get(axis.kind, f"{role} places")


def _grid_of(axis: AxisLabels) -> PictureGrid | None:
    if not isinstance(axis, GridLabels):
        return None
    return PictureGrid(axis.height, axis.width, len(axis.before), axis.picture)


def _changes(seen: "Seen") -> list[str]:
    """The what-ifs of a run, in words."""
    told = []
    for change in seen.labels.changes:
        places = ", ".join(f"{name} {value}" for name, value in change.items() if name not in ("layer", "do"))
        told.append(f"What if: {change.get('do', 'a change')} in {change.get('layer', '')} ({places}).")
    return told


def _remarks(stream: Stream, columns: AxisLabels, head: int | None) -> tuple[str, ...]:
    """What the statistics of the heads say that a reader should know."""
    if isinstance(columns, NodeLabels):
        return ()
    statistics, checks = stream.statistics()
    told = []
    if checks.dropout:
        told.append(f"Dropout of {checks.dropout:g} was on: the model did not use these weights as they are.")
    sinks = [found.sink for found in statistics if found.sink is not None]
    if head is None and 0 < len(sinks) < len(statistics):  # if all have one, the matrix itself shows it
        names = ", ".join(dict.fromkeys(f"\u201c{columns.tokens[sink.key]}\u201d" for sink in sinks))
        told.append(
            f"{len(sinks)} of {len(statistics)} heads give most of their weight to one place, whoever looks: {names}."
        )
    return tuple(told)


def _grid_views(seen: "Seen", layers: Sequence[str] = (), sample: int | None = None) -> list[list[AttentionView]]:
    """Every head of every layer whose rows and columns are the same as those of the chosen layer."""
    names = list(layers) or _like(seen, chosen_layer(seen), sample)
    return [[view(seen, name, head, sample) for head in range(seen[name].heads)] for name in names]


def _like(seen: "Seen", layer: str, sample: int | None = None) -> list[str]:
    """The layers with the same axes as this one."""
    wanted = axes(seen, seen.stream(layer, sample))
    return [name for name in seen.names if axes(seen, seen.stream(name, sample)) == wanted]


def _samples(seen: "Seen") -> int:
    """How many samples were seen at once."""
    return max((seen[name].batch for name in seen.names), default=1)


# What can be made of what was seen: a page, a plot, a drawing for a terminal, a cell of a notebook.


KINDS = ("matrix", "heads", "picture", "graph")
FRAME = 720  # pixels of a page in a notebook


class SeenPictures:
    """The part of `Seen` that draws. Where several samples were seen at once, `sample` chooses the one that is shown."""

    def view(self, layer: str = "", head: int | None = None, sample: int | None = None) -> AttentionView:
        """One layer as still pictures show it: one head, or the mean of all."""
        return view(self._seen, layer, head, sample)

    def text(
        self, layer: str = "", head: int | None = None, terminal: Terminal | None = None, sample: int | None = None
    ) -> str:
        """A drawing for a terminal: this one, unless another is given."""
        return _in_terminal(self.view(layer, head, sample), terminal or Terminal.of())

    def plot(
        self,
        path: str | os.PathLike[str],
        layer: str = "",
        head: int | None = None,
        kind: str = "",
        sample: int | None = None,
    ) -> None:
        """Write a plot, PNG, SVG or PDF by the name of the file: a matrix, all `heads` small, a `picture` or a `graph`.

        Without a `kind` it is what suits the layer.
        """
        shown = self.view(layer, head, sample)
        kind = kind or _suited(shown)
        if kind not in KINDS:
            raise unknown("kind of plot", kind, KINDS)
        require(kind != "picture" or shown.grid is not None, f"{shown.layer} looks at no picture: try kind='matrix'")
        chosen = [chosen_layer(self._seen, layer)] if layer else []
        heads = _grid_views(self._seen, chosen, sample) if kind == "heads" else []
        with _whole_plot(Path(path)) as beside:
            _draw_plot(shown, heads, kind, beside)

    def html(
        self,
        other: "Seen | None" = None,
        language: str = "",
        layers: Sequence[str] | None = None,
        sample: int | None = None,
        block: Callable[[bytes, int], Markup] = base64_block,
    ) -> str:
        """The page as text; with another, both and their difference. `block` is how records stand in it."""
        records = [self._seen.to_bytes(sample, layers)]
        if other is not None:
            records.append(other.to_bytes(sample if _samples(other) > 1 else None, layers))
        return _page(records, _title(self._seen, sample), language, self._seen.labels.opening, block)

    def page(
        self,
        path: str | os.PathLike[str],
        other: "Seen | None" = None,
        language: str = "",
        layers: Sequence[str] | None = None,
        sample: int | None = None,
    ) -> None:
        """Write one HTML file that shows all of it or some layers, offline; with another, both and their difference."""
        content = self.html(other, language, layers, sample, file_block).encode()
        with whole(Path(path)) as file:
            file.write(content)

    def _repr_html_(self) -> str:
        """A cell of a notebook: the page in a frame of its own, so that neither can touch the other.

        Of several samples it shows the first, and says so.
        """
        if not self._seen.names:
            return "<p>nothing was seen</p>"
        many = _samples(self._seen)
        note = f"<p>sample 0 of {many}; seen.page(path, sample=1) writes another</p>" if many > 1 else ""
        return note + _framed(self.html(sample=0))

    @property
    def _seen(self) -> "Seen":
        return cast("Seen", self)


def _suited(shown: AttentionView) -> str:
    """The kind of plot that says most about a layer."""
    if shown.grid is not None and (shown.focus is not None or len(shown.rows) < len(shown.columns)):
        return "picture"
    return "graph" if shown.graph else "matrix"


def _draw_plot(shown: AttentionView, heads: Sequence[Sequence[AttentionView]], kind: str, path: Path) -> None:
    """Write a plot of a kind. matplotlib is imported only now: it takes its time."""
    from mirada.drawing.plots.attention import plot_graph, plot_heads, plot_matrix, plot_picture

    if kind == "heads":
        plot_heads(heads, path)
    else:
        {"matrix": plot_matrix, "picture": plot_picture, "graph": plot_graph}[kind](shown, path)


@contextmanager
def _whole_plot(path: Path) -> Iterator[Path]:
    """A path to write a plot to, which takes the place of the file when all went well."""
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        beside.unlink(missing_ok=True)


def _in_terminal(shown: AttentionView, terminal: Terminal) -> str:
    """A drawing for a terminal: a picture, the neighbors of a node, or a matrix, as the layer is."""
    draw = {"picture": draw_picture, "graph": draw_graph, "matrix": draw_matrix}[_suited(shown)]
    title = cut(shown.title, 2 * terminal.width, "\u2026")
    lines = [terminal.strong(line) for line in terminal.wrapped(title)] if title else []
    lines += [*map(terminal.faint, terminal.wrapped(shown.layer)), "", draw(shown, terminal)]
    return "\n".join([*lines, *map(terminal.faint, terminal.wrapped(shown.origin))]).rstrip()


def _page(
    records: Sequence[bytes], title: str, language: str, opening: str, block: Callable[[bytes, int], Markup]
) -> str:
    """The page of some records, titled by what was asked and answered."""
    return attention_page(records, f"{title[:100]} \u00b7 mirada" if title else "mirada", language, opening, block)


def _framed(content: str) -> str:
    """A page in a frame: its own document, without access to what is around it."""
    return (
        f'<iframe srcdoc="{escape(content)}" sandbox="allow-scripts" title="attention" '
        f'style="width:100%;height:{FRAME}px;border:1px solid #ccc;border-radius:8px"></iframe>'
    )
