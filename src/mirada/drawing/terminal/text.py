"""What a terminal can show: the colors it has, and text of a known width without control characters.

| colors | when |
|---|---|
| truecolor | a terminal that says so (COLORTERM=truecolor or 24bit) |
| 256 | a terminal whose TERM names 256 colors, or that of a known one |
| none | NO_COLOR is set, TERM is dumb, or the output is a file or a pipe; then shades are letters |

FORCE_COLOR asks for colors where the output is no terminal.
"""

import os
import shutil
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from mirada.drawing.attention.picture import LEVELS
from mirada.words import visible_line

SHADES = " .:-=+*#%@"  # from nothing to all
BARS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
HALF = "\u2580"  # the upper half of a cell: its own color above, the background below
RESET, DIM, BOLD = "\x1b[0m", "\x1b[2m", "\x1b[1m"
CUBE = (0, 95, 135, 175, 215, 255)  # the levels of the 256 colors' cube
NARROWEST, WIDEST = 28, 200
ISOLATE, UNISOLATE = "\u2068", "\u2069"
PLAIN = str.maketrans(
    {"\u201c": '"', "\u201d": '"', "\u2192": "->", "\u2026": "~", "\u2013": "-", "\u21b5": "\\n", "\u21e5": "\\t"}
)

Color = tuple[int, ...]  # red, green and blue, from 0 to 255


@dataclass(frozen=True)
class Terminal:
    """How a picture is drawn: how wide, in which colors (truecolor, 256 or none), with letters beyond ASCII or not."""

    width: int = 80
    colors: str = "none"
    unicode: bool = True

    @classmethod
    def of(cls, stream: IO[str] | None = None, environ: Mapping[str, str] | None = None) -> "Terminal":
        """What a stream can show."""
        stream, environ = stream or sys.stdout, os.environ if environ is None else environ
        tty = stream.isatty()
        columns = environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() else shutil.get_terminal_size().columns if tty else 80
        encoding = (getattr(stream, "encoding", "") or "ascii").lower().replace("-", "")
        return cls(min(max(width, NARROWEST), WIDEST), colors_of(tty, environ), encoding.startswith("utf"))

    @property
    def colored(self) -> bool:
        """Whether it shows colors."""
        return self.colors != "none"

    def paint(self, text: str, ink: Color | None = None, ground: Color | None = None) -> str:
        """Text in a color, on a color."""
        if not self.colored or (ink is None and ground is None):
            return text
        codes = []
        for layer, color in ((38, ink), (48, ground)):
            if color:
                exact = self.colors == "truecolor"
                codes += [layer, 2, *color] if exact else [layer, 5, nearest_256(color)]
        return f"\x1b[{';'.join(map(str, codes))}m{text}{RESET}"

    def faint(self, text: str) -> str:
        """Text in faint letters."""
        return f"{DIM}{text}{RESET}" if self.colored and text else text

    def strong(self, text: str) -> str:
        """Text in bold letters."""
        return f"{BOLD}{text}{RESET}" if self.colored and text else text

    def cell(self, share: float, text: str) -> str:
        """Text on the color of a share of the full weight; without colors, the text, or a shade where there is none."""
        if not self.colored:
            return text if text.strip() else shade(share) * len(text)
        ground = color_of(share)
        return self.paint(text, ink_on(ground), ground)

    def shown(self, text: str) -> str:
        """A text of unknown origin as this terminal may print it."""
        line = visible_line(text)
        return line if self.unicode else line.translate(PLAIN).encode("ascii", "backslashreplace").decode()

    def wrapped(self, text: str) -> list[str]:
        """A text of unknown origin in lines that fit."""
        lines, now = [], ""
        for word in self.shown(text).split(" "):
            longer = f"{now} {word}" if now else word
            if cells(longer) > self.width and now:
                lines.append(now)
                longer = word
            now = cut(longer, self.width, "..")
        return [*lines, now]


def colors_of(tty: bool, environ: Mapping[str, str]) -> str:
    """Which colors an output has.

    >>> colors_of(True, {"COLORTERM": "truecolor"}), colors_of(True, {"TERM": "xterm-256color"})
    ('truecolor', '256')
    >>> colors_of(True, {"TERM": "xterm-256color", "NO_COLOR": "1"}), colors_of(False, {"COLORTERM": "truecolor"})
    ('none', 'none')
    """
    term, forced = environ.get("TERM", ""), environ.get("FORCE_COLOR", "") not in ("", "0")
    if environ.get("NO_COLOR") or not (tty or forced) or (term == "dumb" and not forced):
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if "256" in term or forced or term.startswith(("xterm", "screen", "tmux")) else "none"


def nearest_256(color: Color) -> int:
    """The number of the nearest of the 256 colors: of the cube, or of its grays.

    >>> nearest_256((255, 255, 255)), nearest_256((95, 0, 0)), nearest_256((10, 10, 10))
    (231, 52, 232)
    """
    steps = [min(range(6), key=lambda step: abs(CUBE[step] - channel)) for channel in color]
    gray = min(range(24), key=lambda step: abs(8 + 10 * step - sum(color) / 3))
    cube = sum((CUBE[step] - channel) ** 2 for step, channel in zip(steps, color, strict=True))
    grays = sum((8 + 10 * gray - channel) ** 2 for channel in color)
    return 232 + gray if grays < cube else 16 + 36 * steps[0] + 6 * steps[1] + steps[2]


def color_of(share: float) -> Color:
    """The color of a share of the full weight: from dark to light without a step back in luminance."""
    place = min(max(share, 0.0), 1.0) * (len(LEVELS) - 1) if share == share else 0.0
    low = min(int(place), len(LEVELS) - 2)
    part = place - low
    return tuple(round(a + part * (b - a)) for a, b in zip(LEVELS[low], LEVELS[low + 1], strict=True))


def ink_on(ground: Color) -> Color:
    """The one of two inks that can be read better on a color."""
    light, dark = (232, 232, 240), (20, 20, 28)
    bright = luminance(ground) + 0.05
    return light if (luminance(light) + 0.05) / bright > bright / (luminance(dark) + 0.05) else dark


def luminance(color: Color) -> float:
    """How bright a color is, from 0 to 1."""
    red, green, blue = ((channel / 255) ** 2.2 for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def shade(share: float) -> str:
    """A letter as dark as a share."""
    return SHADES[min(round(min(max(share, 0.0), 1.0) * (len(SHADES) - 1)), len(SHADES) - 1)] if share == share else "?"


def cells(text: str) -> int:
    """How many cells of a terminal a text takes: none for combining accents, two for wide letters.

    >>> cells("casa"), cells("\u732b"), cells("e\u0301")
    (4, 2, 1)
    """
    return sum(
        0 if letter in (ISOLATE, UNISOLATE) or unicodedata.category(letter) in ("Mn", "Me")
        else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )  # fmt: skip


def cut(text: str, most: int, ellipsis: str = "\u2026") -> str:
    """A text in at most that many cells; a cut text ends in an ellipsis.

    >>> cut("translation", 6), cut("\u732b\u732b\u732b", 4)
    ('trans…', '猫…')
    """
    if cells(text) <= most:
        return text
    kept = ""
    for letter in text:
        if cells(kept + letter) > most - cells(ellipsis):
            break
        kept += letter
    return kept + ellipsis if most >= cells(ellipsis) else ""


def fitted(text: str, width: int, side: str = "left", ellipsis: str = "\u2026") -> str:
    """A text in exactly `width` cells. Right-to-left text is isolated, so that its neighbors keep their order.

    >>> fitted("la", 4), fitted("la", 4, "right"), fitted("la", 5, "middle")
    ('la  ', '  la', ' la  ')
    """
    text = cut(text, width, ellipsis)
    space = width - cells(text)
    before = {"left": 0, "right": space, "middle": space // 2}[side]
    if any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in text):
        text = f"{ISOLATE}{text}{UNISOLATE}"
    return " " * before + text + " " * (space - before)
