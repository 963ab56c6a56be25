"""Plots for papers and slides, through matplotlib: PNG, SVG or PDF by the name of the file."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from mirada.files import write_whole
from mirada.words import visible_line

Points: TypeAlias = Sequence[tuple[str | float, float]]

MARKERS = "osD^vPX*"
NOTE_LETTERS = 110  # of small type, below a figure
ABOUT = ("Description", "Subject")  # the fields in which formats describe a file
SAYS = {"png": ("Description",), "svg": ("Description", "Date"), "pdf": ("Subject", "CreationDate")}


def plot(lines: Mapping[str, Points], path: Path, *, x: str = "", y: str = "", note: str = "") -> None:
    """Draw named lines over one axis of numbers or names, and write the figure. Values start at zero.

    Lines differ by marker as well as by color. `note` says where the numbers come from, below them and in the file.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "by-length.png"
    >>> plot({"attention": [("1-5", 41.0), ("6-10", 39.5)]}, path, x="words of the input", y="BLEU")
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    from matplotlib.figure import Figure  # without pyplot: no window system, no state between plots

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for index, (name, points) in enumerate(lines.items()):
        places, values = zip(*points, strict=True) if points else ((), ())
        axes.plot(places, values, marker=MARKERS[index % len(MARKERS)], label=name)
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    _write_figure(figure, path, note)


def plot_bars(
    bars: Mapping[str, Points], path: Path, *, x: str = "", line: tuple[str, float] | None = None, note: str = ""
) -> None:
    """Draw named series of bars, grouped by name, the first on top, each with its number, and write the figure.

    `line` is a value to compare with, and what it is called; `note` says where the numbers come from.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "models.png"
    >>> plot_bars({"soft": [("BLEU", 98.8)], "hard": [("BLEU", 98.9)]}, path, line=("nearest picture", 39.6))
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(str(name) for points in bars.values() for name, _ in points))
    thick = 0.8 / max(1, len(bars))
    figure = Figure(figsize=(6, 0.9 + len(names) * (0.2 + 0.22 * len(bars))), layout="constrained")
    axes = figure.subplots()
    for index, (name, points) in enumerate(bars.items()):
        places = [names.index(str(at)) + (index - (len(bars) - 1) / 2) * thick for at, _ in points]
        drawn = axes.barh(places, [value for _, value in points], 0.9 * thick, label=name)
        over = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # the line does not cross numbers
        axes.bar_label(drawn, fmt="%.1f", padding=4, fontsize="small", bbox=over, zorder=4)
    if line:
        axes.axvline(line[1], color="black", linestyle=":", label=line[0])
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel=x)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    if len(bars) > 1 or line:
        figure.legend(loc="outside upper right", frameon=False, ncols=len(bars) + bool(line))
    _write_figure(figure, path, note)


def _write_figure(figure: Any, path: Path, note: str = "") -> None:
    """Write a matplotlib figure as its file's name says, whole or not at all.

    `note` is where its numbers come from: it stands below the figure and in the file, which then has no date.
    """
    drawn, kind = io.BytesIO(), path.suffix.removeprefix(".").lower() or "png"
    more: dict[str, Any] = {}
    if note:
        note = visible_line(note)
        below = "\n".join(textwrap.wrap(note, NOTE_LETTERS))
        figure.supxlabel(below, fontsize=6, x=0.01, ha="left", color="#555555", parse_math=False)
        more = {"metadata": {field: note if field in ABOUT else None for field in SAYS.get(kind, ())}}
    figure.savefig(drawn, dpi=150, format=kind, **more)
    write_whole(path, drawn.getvalue())
