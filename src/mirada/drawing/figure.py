"""The frame of a plot of attention: fonts that have the letters, the cautions, where it comes from, and a file that repeats."""

import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mirada.drawing.attention_view import AttentionView
from mirada.drawing.terminal import safe
from mirada.errors import require, unknown

ENDINGS = (".png", ".svg", ".pdf")
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Emoji",
)
WRITINGS = ("Sans CJK", "Emoji", "Sans Symbols", "Fallback", "Unifont", "WenQuanYi", "Hiragino", "YaHei", "PingFang")
LETTERS_AN_INCH = 16  # of small type
LARGEST = 24.0  # inches
DPI = 160


@contextmanager
def figure(view: AttentionView, path: Path, width: float, height: float) -> Iterator[Any]:
    """A figure to draw on, whose file is written when all went well: labelled, with its origin below and in the file."""
    require(path.suffix.lower() in ENDINGS, str(unknown("format of a plot", path.suffix, ENDINGS)))
    import matplotlib
    from matplotlib.figure import Figure  # without pyplot: no window system, no state between plots

    settings: Any = {
        "svg.hashsalt": "mirada", "pdf.fonttype": 42, "font.family": known_fonts(), "axes.linewidth": 0.6,
        "text.parse_math": False,  # a dollar in a token is a dollar
    }  # fmt: skip
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that no font has becomes a box: that is no reason to warn
        width, height = min(width, LARGEST), min(height, LARGEST)
        drawn = Figure(figsize=(width, height), layout="constrained")
        yield drawn
        letters = int(width * LETTERS_AN_INCH)
        cut = textwrap.shorten(safe(view.title), 2 * letters, placeholder=" \u2026")
        head = "\n".join(textwrap.wrap(cut, letters)) if view.title else ""
        drawn.suptitle(f"{head}\n{view.layer}".strip(), fontsize=9, x=0.02, ha="left")
        told = [*(f"\u26a0 {text}" for text in view.cautions), view.reading, view.origin]
        lines = [line for text in told if text for line in textwrap.wrap(safe(text), int(1.3 * letters))]
        drawn.supxlabel("\n".join(lines), fontsize=6, x=0.02, ha="left", color="#555555")
        drawn.savefig(path, dpi=DPI, metadata=metadata(view, path.suffix.lower()))


@cache
def known_fonts() -> list[str]:
    """The fonts that are here, for letters of many writings."""
    from matplotlib.font_manager import fontManager

    here = sorted(set(fontManager.get_font_names()))
    more = [name for name in here if any(word in name for word in WRITINGS) and "Color" not in name]
    return [*dict.fromkeys(name for name in (*FONTS, *more) if name in here)] or ["sans-serif"]


def metadata(view: AttentionView, ending: str) -> dict[str, str | None]:
    """What the file says of itself. It has no date: the same weights are the same file."""
    said = {"Title": safe(view.title) or view.layer, "Creator": "mirada"}
    about = "; ".join(filter(None, (view.layer, *(f"{name}: {safe(value)}" for name, value in view.made.items()))))
    if ending == ".png":
        return {"Title": said["Title"], "Description": about, "Software": "mirada"}
    if ending == ".svg":
        return {**said, "Description": about, "Date": None}
    return {**said, "Subject": about, "CreationDate": None}


def label(text: str, most: int = 24) -> str:
    """The name of a row or a column."""
    text = safe(text)
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"
