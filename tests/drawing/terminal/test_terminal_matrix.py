"""A matrix in a terminal: numbers that are there, columns that stay below their names, lines that fit."""

import re
from itertools import product

import numpy as np
import pytest

from mirada.drawing.plots.view import AttentionView
from mirada.drawing.terminal.attention import draw_matrix
from mirada.drawing.terminal.text import Terminal, cells
from tests.sampling import pairs_first

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
TERMINALS = [
    Terminal(width, colors, unicode)
    for width, colors, unicode in product((28, 40, 80), ("none", "256", "truecolor"), (True, False))
]
NAMES = ["w", "\u732b\u732b", "\u05e9\u05dc\u05d5\u05dd", "a\x1b[31m", "\U0001f469\u200d\U0001f467", "x" * 2000]


def view(rows: int, columns: int, name: str = "word", **more) -> AttentionView:
    weights = np.random.default_rng(3).dirichlet([0.2] * columns, rows)
    return AttentionView(
        weights, tuple(f"{name}{n}" for n in range(rows)), tuple(f"{name}{n}" for n in range(columns)), **more
    )


def test_numbers_by_hand() -> None:
    shown = AttentionView(np.array([[0.75, 0.25], [0.004, 0.996]]), ("la", "casa"), ("the", "house"))
    lines = draw_matrix(shown, Terminal(80)).splitlines()
    assert lines[0].split() == ["the", "house"]
    assert lines[1].split() == ["la", "[75]", "25"]
    assert lines[2].split() == ["casa", "[100]"]
    assert lines[4:6] == ["even would be 0.5", "numbers are percent, [] the largest of a row"]
    shades = draw_matrix(view(2, 60), Terminal(80))  # no room for numbers
    assert "0 [ .:-=+*#%@] " in shades
    assert "percent" not in shades


def test_cells_carry_the_color_of_their_weight() -> None:
    shown = AttentionView(np.array([[1.0, 0.0]]), ("a",), ("b", "c"))
    text = draw_matrix(shown, Terminal(80, "truecolor"))
    assert "48;2;255;250;214" in text  # all of it
    assert "48;2;10;12;28" in text  # nothing


@pytest.mark.parametrize(
    ("terminal", "name", "size"), pairs_first(TERMINALS, NAMES, [(1, 1), (3, 7), (5, 60), (2, 500)])
)
def test_lines_fit_whatever_the_words(terminal: Terminal, name: str, size: tuple[int, int]) -> None:
    text = draw_matrix(view(*size, name), terminal)
    bare = ESCAPES.sub("", text)
    assert terminal.colored or bare == text
    for line in bare.splitlines():
        assert cells(line) <= terminal.width, line
    if not terminal.unicode:
        assert bare.replace("\u2068", "").replace("\u2069", "").isascii()


def test_long_sentences_come_in_pieces_and_the_others_are_counted() -> None:
    text = draw_matrix(view(2, 60), Terminal(40))
    assert "columns 1 to" in text
    assert "of 60" in text
    text = draw_matrix(view(2, 500), Terminal(40))
    assert re.search(r"\d+ columns more:\n-o look.html shows all", text)
    assert "rows more" in draw_matrix(view(200, 3), Terminal(80))


def test_a_series_is_drawn_above_its_times() -> None:
    shown = view(2, 20, "2024-", values=tuple(float(n) for n in range(20)))
    lines = draw_matrix(shown, Terminal(80)).splitlines()
    assert lines[0].strip()[0] == "\u2581"
    assert lines[0].strip()[-1] == "\u2588"
    assert lines[1].split() == ["2024-0", "2024-19"]


def test_misleading_features_are_named() -> None:
    even = AttentionView(np.full((3, 4), 0.25), tuple("abc"), tuple("defg"), remarks=("Dropout was on.",))
    text = draw_matrix(even, Terminal(80))
    assert "Every row is the same" in text
    assert "Dropout was on." in text
    assert "nan" in draw_matrix(AttentionView(np.array([[np.nan, 1.0]]), ("a",), ("b", "c")), Terminal(80))


def test_even_attention_does_not_shine() -> None:
    even = AttentionView(np.full((3, 4), 0.25), tuple("abc"), tuple("defg"))
    assert even.top == 0.5
    assert AttentionView(np.array([[1.0]]), ("a",), ("b",)).top == 1.0


def test_even_attention_differs_where_rows_see_different_columns() -> None:
    weights = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    text = draw_matrix(AttentionView(weights, tuple("abc"), tuple("abc"), visible=(1, 2, 3)), Terminal(80))
    assert "even would be 0.3333 to 1" in text
    assert "not every row may see every column" in text


def test_negative_weights_are_said_and_no_column_is_no_reason_to_fail() -> None:
    text = draw_matrix(AttentionView(np.array([[0.2, -0.9]]), ("a",), ("b", "c")), Terminal(80))
    assert "some are below 0" in text
    assert "[-90]" in text
    assert draw_matrix(AttentionView(np.zeros((2, 0)), ("a", "b"), ()), Terminal(80))


@pytest.mark.parametrize("width", [28, 40, 80])
def test_a_series_with_long_times_fits(width: int) -> None:
    shown = view(2, 24, "column A 2025-02-04 to 2025-02-13, ", values=tuple(float(n) for n in range(24)))
    assert all(cells(line) <= width for line in draw_matrix(shown, Terminal(width)).splitlines())
