"""What can be made of what was seen: a page, a plot, a drawing for a terminal, a cell of a notebook."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mirada.drawing.attention_page import attention_page
from mirada.drawing.attention_view import AttentionView
from mirada.drawing.markup import Markup
from mirada.drawing.record_blocks import base64_block, file_block
from mirada.drawing.terminal import Terminal, cut
from mirada.drawing.terminal_graph import draw_graph
from mirada.drawing.terminal_matrix import draw_matrix
from mirada.drawing.terminal_picture import draw_picture
from mirada.errors import require, unknown
from mirada.looking import views
from mirada.looking.file import whole

if TYPE_CHECKING:
    from mirada.looking.record import Seen

KINDS = ("matrix", "heads", "picture", "graph")
FRAME = 720  # pixels of a page in a notebook


class SeenPictures:
    """The part of `Seen` that draws. Where several samples were seen at once, `sample` chooses the one that is shown."""

    def view(self, layer: str = "", head: int | None = None, sample: int | None = None) -> AttentionView:
        """One layer as still pictures show it: one head, or the mean of all."""
        return views.view(self._seen, layer, head, sample)

    def text(
        self, layer: str = "", head: int | None = None, terminal: Terminal | None = None, sample: int | None = None
    ) -> str:
        """A drawing for a terminal: this one, unless another is given."""
        return in_terminal(self.view(layer, head, sample), terminal or Terminal.of())

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
        kind = kind or suited(shown)
        if kind not in KINDS:
            raise unknown("kind of plot", kind, KINDS)
        require(kind != "picture" or shown.grid is not None, f"{shown.layer} looks at no picture: try kind='matrix'")
        chosen = [views.chosen_layer(self._seen, layer)] if layer else []
        heads = views.grid_views(self._seen, chosen, sample) if kind == "heads" else []
        with whole_plot(Path(path)) as beside:
            draw_plot(shown, heads, kind, beside)

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
            records.append(other.to_bytes(sample if views.samples(other) > 1 else None, layers))
        return page(records, views.title(self._seen, sample), language, self._seen.labels.opening, block)

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
        many = views.samples(self._seen)
        note = f"<p>sample 0 of {many}; seen.page(path, sample=1) writes another</p>" if many > 1 else ""
        return note + framed(self.html(sample=0))

    @property
    def _seen(self) -> "Seen":
        return cast("Seen", self)


def suited(shown: AttentionView) -> str:
    """The kind of plot that says most about a layer."""
    if shown.grid is not None and (shown.focus is not None or len(shown.rows) < len(shown.columns)):
        return "picture"
    return "graph" if shown.graph else "matrix"


def draw_plot(shown: AttentionView, heads: Sequence[Sequence[AttentionView]], kind: str, path: Path) -> None:
    """Write a plot of a kind. matplotlib is imported only now: it takes its time."""
    from mirada.drawing.graph_plot import plot_graph
    from mirada.drawing.matrix_plot import plot_heads, plot_matrix
    from mirada.drawing.picture_plot import plot_picture

    if kind == "heads":
        plot_heads(heads, path)
    else:
        {"matrix": plot_matrix, "picture": plot_picture, "graph": plot_graph}[kind](shown, path)


@contextmanager
def whole_plot(path: Path) -> Iterator[Path]:
    """A path to write a plot to, which takes the place of the file when all went well."""
    beside = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        beside.unlink(missing_ok=True)


def in_terminal(shown: AttentionView, terminal: Terminal) -> str:
    """A drawing for a terminal: a picture, the neighbors of a node, or a matrix, as the layer is."""
    draw = {"picture": draw_picture, "graph": draw_graph, "matrix": draw_matrix}[suited(shown)]
    title = cut(shown.title, 2 * terminal.width, "\u2026")
    lines = [terminal.strong(line) for line in terminal.wrapped(title)] if title else []
    lines += [*map(terminal.faint, terminal.wrapped(shown.layer)), "", draw(shown, terminal)]
    return "\n".join([*lines, *map(terminal.faint, terminal.wrapped(shown.origin))]).rstrip()


def page(
    records: Sequence[bytes], title: str, language: str, opening: str, block: Callable[[bytes, int], Markup]
) -> str:
    """The page of some records, titled by what was asked and answered."""
    return attention_page(records, f"{title[:100]} \u00b7 mirada" if title else "mirada", language, opening, block)


def framed(content: str) -> str:
    """A page in a frame: its own document, without access to what is around it."""
    return (
        f'<iframe srcdoc="{escape(content)}" sandbox="allow-scripts" title="attention" '
        f'style="width:100%;height:{FRAME}px;border:1px solid #ccc;border-radius:8px"></iframe>'
    )
