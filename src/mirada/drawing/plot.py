"""Plots for papers and slides, through matplotlib: PNG, SVG or PDF by the name of the file."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mirada.files import write_whole

Points: TypeAlias = Sequence[tuple[str | float, float]]

MARKERS = "osD^vPX*"


def plot(lines: Mapping[str, Points], path: Path, *, x: str = "", y: str = "") -> None:
    """Draw named lines over one axis of numbers or names, and write the figure. Values start at zero.

    Lines differ by marker as well as by color.

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
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=150, format=path.suffix.removeprefix(".") or "png")
    write_whole(path, drawn.getvalue())
