"""Plots of attention: labelled, the same file twice, with their origin inside, whatever the tokens say."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mirada.drawing.attention.picture import png
from mirada.drawing.plots.attention import (
    color_range,
    label,
    metadata,
    on_circle,
    overlay,
    plot_graph,
    plot_heads,
    plot_matrix,
    plot_picture,
)
from mirada.drawing.plots.view import AttentionView, PictureGrid
from tests.drawing.plots.test_embedded_picture import of_size

NASTY = (
    "$x^$",
    "\u05e9\u05dc\u05d5\u05dd",
    "\u732b",
    "\U0001f469\u200d\U0001f467",
    "</script>",
    "a\x00b",
    "\\frac{",
    "x" * 2000,
)
MADE = {"mirada": "0.1.0", "task": "translate", "model": "transformer", "run": "runs/x", "input": "the red house"}


def view(rows: int = 3, columns: int = 5, **more) -> AttentionView:
    weights = np.random.default_rng(5).dirichlet([0.3] * columns, rows)
    more = {"title": "the red house", "layer": "decoder.layers.0.cross, head 1", "made": MADE} | more
    return AttentionView(weights, tuple(f"r{n}" for n in range(rows)), tuple(f"c{n}" for n in range(columns)), **more)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_weights_are_the_same_file(ending: str, tmp_path: Path) -> None:
    one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
    plot_matrix(view(), one)
    plot_matrix(view(), other)
    assert one.read_bytes() == other.read_bytes()
    raw = one.read_bytes()
    if ending != "pdf":
        assert b"runs/x" in raw
    assert raw.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])


def test_the_file_says_where_it_comes_from(tmp_path: Path) -> None:
    plot_matrix(view(), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as image:
        assert image.info["Title"] == "the red house"
        assert "decoder.layers.0.cross, head 1" in image.info["Description"]
        assert "run: runs/x" in image.info["Description"]
    assert metadata(view(), ".svg")["Date"] is None
    assert metadata(view(), ".pdf")["CreationDate"] is None


def test_nasty_tokens_are_drawn_without_a_warning(tmp_path: Path) -> None:
    count = len(NASTY)
    nasty = AttentionView(np.eye(count), NASTY, NASTY, title=" ".join(NASTY), layer="$x", made={"run": "$y$"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_matrix(nasty, tmp_path / "x.png")
        plot_graph(nasty, tmp_path / "g.svg")
    assert (tmp_path / "x.png").stat().st_size > 1000
    assert len(label("x" * 2000)) == 24


@pytest.mark.parametrize("size", [(1, 1), (40, 3), (3, 200)], ids=str)
def test_any_size(size: tuple[int, int], tmp_path: Path) -> None:
    plot_matrix(view(*size), tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as image:
        assert max(image.size) <= 24 * 160


def test_not_a_number_is_no_reason_to_fail(tmp_path: Path) -> None:
    plot_matrix(AttentionView(np.array([[np.nan, 1.0], [0.0, 0.0]]), ("a", "b"), ("c", "d")), tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()


def test_heads_of_layers_that_have_not_the_same_number(tmp_path: Path) -> None:
    plot_heads([[view(), view()], [view()]], tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()


def test_a_picture_per_word(tmp_path: Path) -> None:
    grid = PictureGrid(2, 2, 1, png(np.zeros((8, 8, 3), np.uint8)))
    shown = view(7, 5, grid=grid, boxes=((0, (0.0, 0.0, 4.0, 4.0)),), shares=(0.5,) * 7)
    plot_picture(shown, tmp_path / "x.png")
    plot_picture(view(7, 5, grid=PictureGrid(2, 2, 1, b"broken"), focus=2), tmp_path / "y.png")
    with Image.open(tmp_path / "x.png") as several, Image.open(tmp_path / "y.png") as one:
        assert several.width > one.width
    heat = overlay(np.array([[0.0, 0.5], [1.0, 2.0]]), 1.0)
    assert heat[..., 3].round(3).tolist() == [[0.0, 0.41], [0.82, 0.82]]


def test_a_graph_needs_the_same_nodes_twice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the same nodes: got 3 rows, 5 columns"):
        plot_graph(view(), tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()
    plot_graph(view(5, 5, focus=2), tmp_path / "x.png")
    assert [round(y, 3) for _, y in on_circle([7, 8]).values()] == [1.0, -1.0]


def test_an_unknown_ending(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown format of a plot '\.bmp'; known: \.pdf, \.png, \.svg"):
        plot_matrix(view(), tmp_path / "x.bmp")


def test_no_row_is_said(tmp_path: Path) -> None:
    nothing = AttentionView(np.zeros((0, 4)), (), tuple("abcd"), grid=PictureGrid(2, 2))
    with pytest.raises(ValueError, match="nothing to draw: no row looked at the picture"):
        plot_picture(nothing, tmp_path / "x.png")


def test_a_picture_that_is_a_bomb_is_left_out(tmp_path: Path) -> None:
    grid = PictureGrid(2, 2, 0, of_size(30_000, 30_000))
    plot_picture(view(2, 4, grid=grid), tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def test_negative_weights_have_a_color_of_their_own(tmp_path: Path) -> None:
    """A weight of -1 is not drawn like one of 0, nor like one of 1."""
    positive = AttentionView(np.array([[1.0, 0.0, 0.0]]), ("a",), tuple("bcd"))
    signed = AttentionView(np.array([[1.0, 0.0, -1.0]]), ("a",), tuple("bcd"))
    assert (positive.negative, signed.negative) == (False, True)
    assert color_range(0.5, negative=False) == {"cmap": "Blues", "vmin": 0, "vmax": 0.5}
    for name, draw in (("matrix", plot_matrix), ("heads", lambda shown, path: plot_heads([[shown]], path))):
        draw(positive, tmp_path / f"{name}+.png")
        draw(signed, tmp_path / f"{name}-.png")
        purple = pixels_of(tmp_path / f"{name}-.png")
        orange = (purple[..., 0] - purple[..., 2]).max()
        assert orange > 60, name  # the weight of 1
        assert (purple[..., 2] - purple[..., 1]).max() > 60, name  # the weight of -1
    heat = overlay(np.array([[0.5, -0.5]]), 1.0)
    assert heat[0, 0, 3] == heat[0, 1, 3]
    assert heat[0, 0, 2] < heat[0, 1, 2]


def test_a_negative_edge_is_drawn(tmp_path: Path) -> None:
    nodes = tuple("ab")
    plot_graph(AttentionView(np.array([[0.0, -0.9], [0.0, 0.0]]), nodes, nodes), tmp_path / "x.png")
    plot_graph(AttentionView(np.zeros((2, 2)), nodes, nodes), tmp_path / "none.png")
    assert np.abs(pixels_of(tmp_path / "x.png") - pixels_of(tmp_path / "none.png")).max() > 60


def test_even_attention_is_even_over_what_a_row_may_see(tmp_path: Path) -> None:
    weights = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]
    causal = AttentionView(weights, tuple("abcde"), tuple("abcde"), visible=(1, 2, 3, 4, 5))
    assert causal.evens == (0.2, 1.0)
    assert causal.even_of(1) == 0.5
    assert causal.even_text == "0.2 to 1"
    plot_matrix(causal, tmp_path / "x.png")
    with pytest.raises(ValueError, match="a count per row: got 2 for 5 rows"):
        AttentionView(weights, tuple("abcde"), tuple("abcde"), visible=(1, 2))
