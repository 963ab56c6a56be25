"""Attention in a terminal: a row per query, a column per key, lighter for larger weights."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8

from mirada.drawing.plots.view import AttentionView, embedded_pixels
from mirada.drawing.terminal.text import BARS, HALF, SHADES, Terminal, cells, color_of, cut, fitted, shade
from mirada.words import number, weight

LABEL_CELLS = 16  # cells for the name of a row, and at most a third of a line
NARROW, WIDE = 4, 10  # cells of a column that has its name above it
TALLEST = 8  # letters of a vertical name
MOST_ROWS = 120
ROOMY = 60  # cells from which the key of the colors fits in one line
MOST_BLOCKS = 4  # pieces that a long line is cut into


def draw_matrix(view: AttentionView, terminal: Terminal) -> str:
    """The weights, with the names of rows and columns; in pieces, where they are wider than the terminal."""
    names = [terminal.shown(name) for name in view.columns]
    room = min(LABEL_CELLS, terminal.width // 3)
    label = min(room, max((cells(terminal.shown(name)) for name in view.rows), default=1))
    widths = _column_widths(names, terminal.width - label - 2, bool(view.values))
    named = min(widths, default=2) > 2
    pieces = _blocks(widths, terminal.width - label - 2)
    lines: list[str] = []
    for part in pieces[:MOST_BLOCKS]:
        if len(pieces) > 1:
            lines.append(terminal.faint(f"columns {part.start + 1} to {part.stop} of {len(names)}"))
        if view.values:
            lines += _above(view, terminal, part, label, widths[0])
        else:
            lines += (_written if named else _upright)(names[part], widths[part], label, terminal)
        lines += [_line(view, terminal, row, part, label, widths) for row in range(min(len(view.rows), MOST_ROWS))]
        lines.append("")
    marked = not terminal.colored and max(widths, default=0) > NARROW
    percents = ["numbers are percent" + (", [] the largest of a row" if marked else "")] if named else []
    return "\n".join([*lines, *_left_out(view, pieces), *_legend(view, terminal, percents)])


def _column_widths(names: list[str], room: int, narrow: bool) -> list[int]:
    """The cells of every column: room for its name, if all fit; else the same for all; else two, and names are vertical.

    >>> _column_widths(["la", "translation"], 40, False), _column_widths(["abcdefg"] * 4, 20, False)
    ([5, 10], [5, 5, 5, 5])
    >>> _column_widths(["abcdefg"] * 9, 20, False)
    [2, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    wanted = [max(NARROW + 1, min(WIDE, cells(name) + 2)) for name in names]
    if narrow or len(names) * NARROW > room:
        return [1 if narrow and 2 * len(names) > room else 2] * len(names)
    if sum(wanted) <= room:
        return wanted
    return [min(WIDE, room // max(1, len(names)))] * len(names)


def _blocks(widths: list[int], room: int) -> list[slice]:
    """Groups of columns that fit into a line."""
    blocks, first, used = [], 0, 0
    for place, width in enumerate(widths):
        if used + width > room and place > first:
            blocks.append(slice(first, place))
            first, used = place, 0
        used += width
    return [*blocks, slice(first, len(widths))]


def _line(view: AttentionView, terminal: Terminal, row: int, part: slice, label: int, widths: list[int]) -> str:
    """One row: its name, and a cell for every column."""
    name = fitted(terminal.shown(view.rows[row]), label, "right", _ellipsis(terminal))
    best, top = view.strongest(row), view.top
    parts = []
    for column in range(part.start, part.stop):
        value, width = float(view.weights[row, column]), widths[column]
        share = abs(value) / top if np.isfinite(value) else float("nan")
        if width <= 2:
            parts.append(terminal.cell(share, " " * width))
        else:
            text = _percent(value, width, column == best and not terminal.colored)
            parts.append(terminal.cell(share, text) if terminal.colored else text)
    mark = terminal.strong if row == view.focus else str
    return f"{mark(name)}  {''.join(parts)}".rstrip()


def _percent(value: float, width: int, marked: bool) -> str:
    """A weight in percent, in the middle of a cell; nothing below one percent."""
    if not np.isfinite(value):
        return f"{'nan':^{width}}"
    text = f"{100 * value:.0f}" if abs(value) >= 0.005 else "." if marked else ""
    return f"{f'[{text}]' if marked and width > 4 else text:^{width}}"


def _written(names: list[str], widths: list[int], label: int, terminal: Terminal) -> list[str]:
    """The names of columns above them."""
    ends = _ellipsis(terminal)
    texts = (fitted(f" {name}", width, "middle", ends) for name, width in zip(names, widths, strict=True))
    return [(" " * (label + 2) + "".join(texts)).rstrip()]


def _upright(names: list[str], widths: list[int], label: int, terminal: Terminal) -> list[str]:
    """The names of narrow columns, letter below letter; a longer name ends in an ellipsis."""
    columns = [_letters(name) for name in names]
    tall = min(TALLEST, max(map(len, columns), default=0))
    end = _ellipsis(terminal)[:1]
    columns = [[*c[: tall - 1], end] if len(c) > tall else [""] * (tall - len(c)) + c for c in columns]
    lines = ["".join(fitted(column[place], 2, "left", "") for column in columns) for place in range(tall)]
    return [(" " * (label + 2) + line).rstrip() for line in lines]


def _letters(text: str) -> list[str]:
    """The letters of a text, each with its combining accents."""
    letters: list[str] = []
    for letter in text:
        if cells(letter) == 0 and letters:
            letters[-1] += letter
        else:
            letters.append(letter)
    return letters


def _above(view: AttentionView, terminal: Terminal, part: slice, label: int, width: int) -> list[str]:
    """A series above its times: bars of its values, and the first and last time."""
    values = np.array(view.values[part])
    low, high = float(np.nanmin(view.values)), float(np.nanmax(view.values))
    steps = np.nan_to_num((values - low) / max(high - low, 1e-12)) * (len(BARS) - 2) + 1
    bars = BARS if terminal.unicode else SHADES
    drawn = "".join(width * bars[min(round(step), len(bars) - 1)] for step in steps)
    first, last = (terminal.shown(view.columns[part][place]) for place in (0, -1))
    wide = width * len(values)
    spaces = max(1, wide - cells(first) - cells(last))
    short = wide < cells(first) + cells(last) + 1
    ends = cut(first, wide, _ellipsis(terminal)) if short else f"{first}{' ' * spaces}{last}"
    indent = " " * (label + 2)
    return [f"{indent}{terminal.faint(drawn)}", f"{indent}{terminal.faint(ends)}"]


def _left_out(view: AttentionView, pieces: list[slice]) -> list[str]:
    """What there was no room for, and how to see it."""
    missing = []
    if len(pieces) > MOST_BLOCKS:
        missing.append(f"{len(view.columns) - pieces[MOST_BLOCKS].start:,} columns")
    if len(view.rows) > MOST_ROWS:
        missing.append(f"{len(view.rows) - MOST_ROWS:,} rows")
    return [f"{' and '.join(missing)} more:", "-o look.html shows all", ""] if missing else []


def _legend(view: AttentionView, terminal: Terminal, percents: Sequence[str] = ()) -> list[str]:
    """How to read the colors or numbers, what to beware of, and where the weights come from."""
    steps = [step / 11 for step in range(12)]
    ramp = "".join(terminal.paint(" ", ground=color_of(step)) for step in steps) if terminal.colored else f"[{SHADES}]"
    even, close = f"even would be {view.even_text}", "  " if terminal.width >= ROOMY else "\n"
    shades = terminal.colored or not percents  # else there are none to explain
    lines = [f"0 {ramp} {number(view.top)}{close}{terminal.faint(even)}" if shades else even]
    low, high = view.evens
    notes = list(percents)
    notes += ["even attention differs by row: not every row may see every column"] if low < high else []
    notes += ["colors show the size of a weight: some are below 0"] if view.negative else []
    for text in (*notes, *([view.reading] if view.reading else []), *view.cautions):
        lines += [terminal.faint(part) for part in terminal.wrapped(text)]
    return lines


def _ellipsis(terminal: Terminal) -> str:
    return "\u2026" if terminal.unicode else "~"


# Attention over a picture in a terminal: the picture for every word, lit where the model looked, two pixels to a
# cell.


SIDE = 24  # pixels of a drawn picture
LONGEST = 96  # cells of a side; a longer grid is no picture that a terminal could show
MOST_PANELS = 24
LIT, SOFT = 0.85, 0.6  # how much the heat covers where the weight is largest, and how it fades
DARK = 0.5  # how bright the picture stays below it


def draw_picture(view: AttentionView, terminal: Terminal) -> str:
    """A panel for every row, as many in a line as fit."""
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
        panels = [_panel(view, terminal, row, pixels, wide) for row in chosen[first : first + across]]
        lines += ["  ".join(parts).rstrip() for parts in zip(*panels, strict=True)]
        lines.append("")
    if len(chosen) > MOST_PANELS:
        lines += [f"{len(chosen) - MOST_PANELS} words more: -o look.html shows all", ""]
    return "\n".join([*lines, *_legend(view, terminal)])


def _panel(view: AttentionView, terminal: Terminal, row: int, pixels: np.ndarray | None, wide: int) -> list[str]:
    """The word with its probability, and the picture below it."""
    assert view.grid is not None
    share = view.shares[row] if view.shares else None
    caption = f"{terminal.shown(view.rows[row])}{'' if share is None else f' {number(share)}'}"
    inside = view.weights[row][view.grid.before :].reshape(view.grid.height, view.grid.width)
    rest = view.weights[row][: view.grid.before]
    outside = f"{view.columns[0]} {number(float(rest.sum()))}" if len(rest) else ""
    head = [fitted(caption, wide, "left", _ellipsis(terminal))]
    head += [fitted(terminal.shown(outside), wide, "left", _ellipsis(terminal))] if outside else []
    shares = np.nan_to_num(np.abs(inside)) / view.top
    if not terminal.colored:
        return [*head, *("".join(2 * shade(float(value)) for value in line) for line in shares)]
    lit, half = heated(shares, pixels, wide).tolist(), HALF if terminal.unicode else " "
    pairs = zip(lit[0::2], lit[1::2], strict=True)
    return [*head, *("".join(terminal.paint(half, *both) for both in zip(*pair, strict=True)) for pair in pairs)]


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
    """The picture in side x side pixels; None if there is none or it cannot be read."""
    embedded = embedded_pixels(png, "RGB", (side, side))
    return None if embedded is None else embedded.pixels


# Attention over a graph in a terminal: the neighbors that a node looked at, the strongest first.


MOST = 20  # neighbors of a node
NODES = 8  # nodes, where none was asked about
NEIGHBOR_CELLS = 33  # cells for the name of a neighbor
ITSELF = " (itself)"
AROUND = 9  # cells of a line for spaces and the weight


def draw_graph(view: AttentionView, terminal: Terminal) -> str:
    """A table of neighbors: of the node that was asked about, or of the first nodes that have some."""
    some = [row for row in range(len(view.rows)) if view.weights[row].any()][:NODES]
    rows = some if view.focus is None else [view.focus]
    lines: list[str] = []
    for row in rows:
        lines += [f"{terminal.strong(terminal.shown(view.rows[row]))} looked at", *_neighbors(view, terminal, row), ""]
    lines += [terminal.faint(part) for text in view.cautions for part in terminal.wrapped(text)]
    return "\n".join(lines).rstrip()


def _neighbors(view: AttentionView, terminal: Terminal, row: int) -> list[str]:
    """The neighbors of a node with their weights as bars."""
    weights = np.nan_to_num(view.weights[row])
    order = [int(place) for place in np.argsort(-np.abs(weights), kind="stable") if weights[place]]
    longest = max((cells(terminal.shown(view.columns[place])) for place in order[:MOST]), default=1)
    label = min(longest + len(ITSELF), NEIGHBOR_CELLS, terminal.width // 2)
    room, top = max(1, min(40, terminal.width - label - AROUND)), float(np.abs(weights).max()) or 1.0
    lines = []
    for place in order[:MOST]:
        share = abs(weights[place]) / top
        itself = place == row and len(view.rows) == len(view.columns)
        name = terminal.shown(view.columns[place]) + (ITSELF if itself else "")
        bar = ("\u2588" if terminal.unicode else "#") * max(1, round(room * share))
        lines.append(f"  {fitted(name, label, 'left', _ellipsis(terminal))} {weight(float(weights[place]))}  "
                     f"{terminal.paint(bar, ink=color_of(0.35 + 0.55 * share))}")  # fmt: skip
    if len(order) > MOST:
        rest = float(weights[order[MOST:]].sum())
        lines.append(terminal.faint(f"  {len(order) - MOST} more with {rest:.0%} of the weight"))
    lines.append(terminal.faint(f"  even would be {weight(1 / max(1, len(order)))}"))
    return lines
