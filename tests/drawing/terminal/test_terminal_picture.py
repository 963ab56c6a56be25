"""A picture and a graph in a terminal."""

import re

import numpy as np
import pytest

from mirada.drawing.attention.picture import png
from mirada.drawing.plots.view import AttentionView, PictureGrid
from mirada.drawing.terminal.attention import draw_graph, draw_picture, heated, thumbnail
from mirada.drawing.terminal.text import Terminal, cells, color_of

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
PICTURE = png(np.full((8, 8, 3), 200, np.uint8))


def view(picture: bytes = PICTURE, before: int = 0, **more) -> AttentionView:
    weights = np.zeros((2, 4 + before))
    weights[0, before], weights[1, before + 3] = 1.0, 1.0
    names = ("[class]",) * before + tuple("abcd")
    return AttentionView(weights, ("red", "box"), names, grid=PictureGrid(2, 2, before, picture), **more)


def test_ascii_cells_by_hand() -> None:
    lines = draw_picture(view(), Terminal(80)).splitlines()
    assert lines[0].split() == ["red", "box"]
    assert lines[1] == "@@"
    assert lines[2] == "        @@"


def test_half_blocks_are_lit_where_the_weight_is() -> None:
    lit = heated(np.array([[1.0, 0.0], [0.0, 0.0]]), None, 4)
    assert tuple(lit[0, 0]) == color_of(1.0)
    assert tuple(lit[3, 3]) == color_of(0.0)
    text = draw_picture(view(), Terminal(80, "truecolor"))
    assert max(cells(line) for line in ESCAPES.sub("", text).splitlines()) <= 80
    assert text.count("\u2580") == 2 * 24 * 12


def test_panels_wrap_and_name_what_is_outside_the_picture() -> None:
    text = draw_picture(view(before=1, shares=(0.5, None)), Terminal(40, "256"))
    assert "red 0.5" in text
    assert "[class] 0" in text
    assert len([line for line in ESCAPES.sub("", text).splitlines() if line.startswith("\u2580")]) == 24


@pytest.mark.parametrize("picture", [b"", b"no picture", PICTURE[:40]])
def test_a_picture_that_cannot_be_read_is_left_out(picture: bytes) -> None:
    assert thumbnail(picture, 4) is None
    assert draw_picture(view(picture), Terminal(80, "truecolor"))


def test_neighbors_by_weight() -> None:
    weights = np.array([[0.0, 0.0, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 0.0]])
    graph = AttentionView(weights, ("a", "b", "c"), ("a", "b", "c"), focus=1, graph=True)
    lines = draw_graph(graph, Terminal(80)).splitlines()
    assert lines[0] == "b looked at"
    assert [line.split()[0] for line in lines[1:4]] == ["b", "c", "a"]
    assert lines[1].split()[1:3] == ["(itself)", ".50"]
    assert lines[1].count("\u2588") > lines[2].count("\u2588") > lines[3].count("\u2588") > 0
    assert draw_graph(AttentionView(weights, ("a", "b", "c"), ("a", "b", "c"), graph=True), Terminal(80)).startswith(
        "b looked at"
    )
    many = AttentionView(np.full((1, 90), 1 / 90), ("x",), tuple(map(str, range(90))), focus=0, graph=True)
    assert "70 more with 78% of the weight" in draw_graph(many, Terminal(60))


@pytest.mark.parametrize("width", [28, 40, 47, 60])
@pytest.mark.parametrize("name", ["7", "a node with a rather long name", "\u732b" * 20])
def test_neighbors_fit_a_narrow_terminal(width: int, name: str) -> None:
    weights = np.zeros((3, 3))
    weights[0] = [1.0, 0.5, 0.25]
    text = draw_graph(AttentionView(weights, (name,) * 3, (name,) * 3, graph=True, focus=0), Terminal(width))
    drawn = [line for line in text.splitlines() if "\u2588" in line]
    assert len(drawn) == 3
    assert all(cells(line) <= width for line in drawn)


@pytest.mark.parametrize("side", [1, 3, 7, 13, 25])
def test_grids_of_any_side(side: int) -> None:
    weights = np.full((1, side * side), 1 / side**2)
    names = tuple(map(str, range(side * side)))
    grid = PictureGrid(side, side, 0, PICTURE)
    for terminal in (Terminal(80, "truecolor"), Terminal(80)):
        assert "even would be" in draw_picture(AttentionView(weights, ("a",), names, grid=grid), terminal)


@pytest.mark.parametrize("size", [(1, 30_000), (30_000, 1), (97, 2)])
def test_a_grid_that_no_terminal_shows_is_a_matrix(size: tuple[int, int]) -> None:
    count = size[0] * size[1]
    shown = AttentionView(
        np.full((1, count), 1 / count), ("a",), tuple(map(str, range(count))), grid=PictureGrid(*size)
    )
    assert "columns 1 to" in draw_picture(shown, Terminal(80, "truecolor"))
