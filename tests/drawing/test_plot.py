"""Plots as files: the format follows the name, and every line is named."""

from pathlib import Path

import pytest

from mirada.drawing.plot import plot

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

    plot(LINES, tmp_path / "a.png")
    assert pyplot.get_fignums() == []
