"""Plots as files: the format follows the name, and every line is named."""

import re
from pathlib import Path

import pytest
from matplotlib import rcParams

from mirada.drawing.plots.lines import plot, plot_bars

LINES = {"with attention": [("1-5", 41.0), ("6-10", 39.5)], "without <b>": [("1-5", 40.0), ("6-10", 21.25)], "none": []}


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_format_follows_the_name(tmp_path: Path, name: str, start: bytes) -> None:
    plot(LINES, tmp_path / name, x="words", y="BLEU")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_the_same_lines_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plot(LINES, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_plots_leave_nothing_open(tmp_path: Path) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()  # of other tests: a library that is compared with may have opened one
    plot(LINES, tmp_path / "a.png")
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_bars_are_drawn_in_the_same_formats(tmp_path: Path, name: str, start: bytes) -> None:
    plot_bars(LINES, tmp_path / name, x="BLEU", line=("by chance", 3.0))
    assert (tmp_path / name).read_bytes().startswith(start)


def test_every_bar_is_named_and_has_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")  # words as words, not as curves
    plot_bars(LINES, tmp_path / "a.svg", line=("by chance", 3.0))
    words = set(re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "a.svg").read_text()))
    assert {"1-5", "6-10", "41.0", "39.5", "40.0", "21.2", "with attention", "without &lt;b&gt;", "by chance"} <= words


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_note_says_where_the_numbers_come_from(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rcParams, "svg.fonttype", "none")
    monkeypatch.setitem(rcParams, "pdf.compression", 0)
    monkeypatch.setitem(rcParams, "svg.hashsalt", "same")
    for draw in (plot, plot_bars):
        for name in ("a", "b", "plain"):
            draw(
                LINES,
                tmp_path / f"{name}.{ending}",
                note="" if name == "plain" else "mirada 0.1.0, run runs/x, $1 \x00",
            )
        one, other, plain = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b", "plain"))
        assert b"runs/x" in one
        assert b"runs/x" not in plain
        assert one == other
