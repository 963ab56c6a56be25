"""A terminal: which colors it has, how many cells a text takes, and texts that cannot do harm."""

import io
import re
from itertools import pairwise

import pytest

from mirada.drawing.terminal.text import (
    Terminal,
    cells,
    color_of,
    colors_of,
    cut,
    fitted,
    ink_on,
    luminance,
    nearest_256,
    shade,
)
from mirada.words import visible_line

HOSTILE = [
    "\x1b[31mred",
    "a\x07b",
    "\x1b]0;title\x07",
    "a\nb\rc",
    "a\u202eb",
    "\u2066x",
    "\ud800",
    "\x00",
    "\u200d",
    "\x9b31m",
]


class Screen(io.StringIO):
    """A stream that is a terminal, or not."""

    def __init__(self, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__()
        self.tty, self.code = tty, encoding

    def isatty(self) -> bool:
        return self.tty

    @property
    def encoding(self) -> str:
        return self.code


@pytest.mark.parametrize(
    ("tty", "environ", "wanted"),
    [
        (True, {"COLORTERM": "truecolor", "TERM": "xterm"}, "truecolor"),
        (True, {"COLORTERM": "24bit"}, "truecolor"),
        (True, {"TERM": "screen-256color"}, "256"),
        (True, {"TERM": "vt100"}, "none"),
        (True, {"TERM": "dumb", "COLORTERM": "truecolor"}, "none"),
        (True, {"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        (True, {"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),  # the convention: an empty one does not count
        (False, {"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "none"),
        (False, {"FORCE_COLOR": "1", "COLORTERM": "truecolor"}, "truecolor"),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, "none"),
    ],
)
def test_which_colors(tty: bool, environ: dict[str, str], wanted: str) -> None:
    assert colors_of(tty, environ) == wanted
    assert Terminal.of(Screen(tty), environ).colors == wanted


def test_the_width_of_a_stream() -> None:
    assert Terminal.of(Screen(False), {}).width == 80
    assert Terminal.of(Screen(True), {"COLUMNS": "133"}).width == 133
    assert Terminal.of(Screen(True), {"COLUMNS": "7"}).width == 28
    assert not Terminal.of(Screen(True, "ascii"), {}).unicode
    assert Terminal.of(Screen(True, "utf-8"), {}).unicode


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_moves_the_cursor_or_turns_the_line(text: str) -> None:
    for terminal in (Terminal(), Terminal(unicode=False), Terminal(colors="truecolor")):
        shown = terminal.shown(text)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\u200b-\u200f]", shown)
        shown.encode("utf-8")
    Terminal(unicode=False).shown(text).encode("ascii")


def test_cells_of_wide_combined_and_isolated_letters() -> None:
    assert [cells(text) for text in ("abc", "\u732b\u732b", "e\u0301", "\U0001f642", "\u05e9\u05dc\u05d5\u05dd")] == [
        3,
        4,
        1,
        2,
        4,
    ]
    for text in ("la casa", "\u732b\u732b\u732b", "\u05e9\u05dc\u05d5\u05dd", "e\u0301" * 9, "\U0001f642" * 5):
        for width in range(1, 12):
            assert cells(cut(text, width)) <= width
            for side in ("left", "right", "middle"):
                assert cells(fitted(text, width, side)) == width


def test_right_to_left_is_isolated() -> None:
    assert fitted("\u05e9\u05dc", 4) == "\u2068\u05e9\u05dc\u2069  "
    assert fitted("ab", 4) == "ab  "


def test_colors_grow_lighter_and_inks_can_be_read() -> None:
    ramp = [luminance(color_of(step / 100)) for step in range(101)]
    assert all(b > a for a, b in pairwise(ramp))
    for step in range(101):
        ground = color_of(step / 100)
        light, dark = sorted((luminance(ground), luminance(ink_on(ground))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 4.0
    assert color_of(float("nan")) == color_of(0.0)
    assert [shade(x) for x in (0.0, 1.0, 7.0, -1.0)] == [" ", "@", "@", " "]
    assert shade(float("nan")) == "?"


def test_256_colors_are_near() -> None:
    cube = (0, 95, 135, 175, 215, 255)

    def back(number: int) -> tuple[int, ...]:
        if number >= 232:
            return (8 + 10 * (number - 232),) * 3
        number -= 16
        return cube[number // 36], cube[number // 6 % 6], cube[number % 6]

    for step in range(0, 101, 5):
        color = color_of(step / 100)
        assert max(abs(a - b) for a, b in zip(back(nearest_256(color)), color, strict=True)) <= 48


def test_paint_is_closed_and_absent_without_colors() -> None:
    assert Terminal(colors="truecolor").paint("a", (1, 2, 3), (4, 5, 6)) == "\x1b[38;2;1;2;3;48;2;4;5;6ma\x1b[0m"
    assert Terminal(colors="256").paint("a", ground=(255, 255, 255)) == "\x1b[48;5;231ma\x1b[0m"
    assert Terminal().paint("a", (1, 2, 3)) == "a"
    assert Terminal().faint("a") + Terminal().strong("b") == "ab"
    assert visible_line("caf\u00e9 \u732b") == "caf\u00e9 \u732b"
