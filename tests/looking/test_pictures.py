"""From what was seen to pages, plots, terminals and notebooks."""

import re
from base64 import b64decode
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch

from mirada import Attention, MultiHead, look
from mirada.attention.neighborhoods import Causal, Edges, Padding
from mirada.drawing.terminal.text import Terminal
from mirada.looking.black_cat import VALUES, WANTED, WORDS, black_cat
from mirada.looking.labels import AxisLabels, GridLabels, Labels, NodeLabels, TextLabels, WrittenStep
from mirada.looking.record import Seen


@pytest.fixture
def seen() -> Seen:
    """Two layers: one that looks across, 3 rows at 5 places, with two heads; then one that looks at itself."""
    torch.manual_seed(0)
    model = torch.nn.ModuleDict({"cross": Attention(MultiHead(8, 2)), "self": Attention(MultiHead(8, 2))})
    with torch.no_grad(), look(model) as found:
        model["cross"](torch.randn(1, 3, 8), memory=torch.randn(1, 5, 8))
        model["self"](torch.randn(1, 3, 8))
    return found


def translated() -> Labels:
    return Labels(
        {"source": TextLabels(tuple("abcde"), "abcde"), "target": TextLabels(("<s>", "x", "y"), "xy")},
        {"cross": ("target", "source"), "self": ("target", "target")},
        {"input": "abcde", "task": "translate"},
        ("xy", -0.1),
        (WrittenStep(0, "x", 0.9), WrittenStep(1, "y", 0.8), WrittenStep(2, "</s>", 0.7)),
    )


def test_the_layer_that_looks_across_is_shown(seen: Seen) -> None:
    assert seen.layer() == "cross"
    assert seen.layer("self") == "self"
    with pytest.raises(ValueError, match=r"unknown layer 'sel'; known: cross, self\. Did you mean 'self'\?"):
        seen.layer("sel")
    with pytest.raises(ValueError, match="has 2 heads, 0 to 1: there is no head 2"):
        seen.view(head=2)
    with pytest.raises(ValueError, match="there is no head -1"):
        seen.view(head=-1)


def test_weights_are_those_that_were_used(seen: Seen) -> None:
    exact = seen["cross"].weights()[0].double().numpy()
    np.testing.assert_allclose(seen.view().weights, exact.mean(0), atol=1e-7)
    np.testing.assert_allclose(seen.view(head=1).weights, exact[1], atol=1e-7)
    assert seen.view().rows == ("0", "1", "2")


def test_a_row_across_is_named_by_what_was_written_from_it(seen: Seen) -> None:
    shown = seen.labelled(translated()).view()
    assert shown.rows == ("x", "y", "</s>")
    assert shown.columns == tuple("abcde")
    assert shown.shares == (0.9, 0.8, 0.7)
    assert shown.title == "abcde \u2192 xy"
    assert shown.layer == "cross, mean of 2 heads"
    assert seen.view("self").rows == ("<s>", "x", "y")


def test_a_picture_a_graph_and_a_single_row() -> None:
    layer = Attention(MultiHead(8, 2))
    with torch.no_grad(), look(layer) as found:
        layer(torch.randn(1, 5, 8))
    grid = GridLabels.of(2, 2, ("[class]",))
    found.labelled(Labels({"cells": grid}, {"*": ("cells", "cells")}, outputs=(WrittenStep(0, "cat", 0.5),)))
    shown = found.view()
    assert (shown.grid.height, shown.grid.before, shown.focus) == (2, 1, 0)
    assert "[cl\u2026\n" in found.text(terminal=Terminal())
    found.labelled(Labels({"n": NodeLabels(tuple("abcde"))}, {"*": ("n", "n")}))
    assert found.view().columns == tuple("abcde")
    found.labelled(Labels({"n": AxisLabels(tuple("abc"))}, {"*": ("n", "n")}))
    assert found.view().columns == tuple("01234")  # labels that do not fit are not shown


def test_a_page_holds_the_record(seen: Seen, tmp_path: Path) -> None:
    seen.labelled(translated()).page(tmp_path / "x.html", language="es")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    (record,) = re.findall(r'data-record="0">([^<]*)<', text)
    stored = Seen.from_bytes(b64decode(record))
    assert stored.names == ["cross", "self"]
    assert 'data-language="es"' in text
    seen.page(tmp_path / "two.html", stored)
    assert (tmp_path / "two.html").read_text(encoding="utf-8").count("data-record=") == 2


def test_a_notebook_shows_the_page_in_a_frame(seen: Seen) -> None:
    markup = seen.labelled(translated())._repr_html_()
    assert markup.startswith("<iframe srcdoc=")
    inside = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" .*</iframe>', markup, re.DOTALL)
    assert unescape(inside[1]).startswith("<!doctype html>")
    assert Seen({})._repr_html_() == "<p>nothing was seen</p>"


def test_plots_by_kind(seen: Seen, tmp_path: Path) -> None:
    for kind in ("", "matrix", "heads"):
        seen.plot(tmp_path / f"x{kind}.png", kind=kind)
    assert len(list(tmp_path.glob("*.png"))) == 3
    assert len(list(tmp_path.iterdir())) == 3  # nothing is left beside them
    with pytest.raises(ValueError, match=r"unknown kind of plot 'matrx'.*Did you mean 'matrix'"):
        seen.plot(tmp_path / "x.png", kind="matrx")
    with pytest.raises(ValueError, match="looks at no picture"):
        seen.plot(tmp_path / "x.png", kind="picture")
    with pytest.raises(ValueError, match="cannot be written"):
        seen.plot(tmp_path / "nowhere" / "x.png")
    (tmp_path / "old.png").write_bytes(b"old")
    with pytest.raises(ValueError, match="the same nodes"):
        seen.plot(tmp_path / "old.png", kind="graph")
    assert (tmp_path / "old.png").read_bytes() == b"old"


def test_what_was_seen_prints_plainly(seen: Seen) -> None:
    lines = seen.labelled(translated()).text(terminal=Terminal()).splitlines()
    assert lines[0] == "abcde \u2192 xy"
    assert lines[-1] == "task translate"
    assert "\x1b" not in "".join(lines)


def test_changes_are_reported(seen: Seen) -> None:
    seen.labelled(Labels(changes=({"layer": "cross", "do": "DropHead", "head": 1},)))
    assert "What if: DropHead in cross (head 1)." in seen.view().cautions


def test_black_cat_has_the_lectures_weights_and_lies_in_the_hull() -> None:
    seen = black_cat()
    torch.testing.assert_close(seen["attention"].weights(head=0)[0], torch.tensor(WANTED))
    torch.testing.assert_close(seen["attention"].output()[0, 0], torch.tensor(WANTED) @ torch.tensor(VALUES))
    assert seen.view().columns == WORDS
    stored = Seen.from_bytes(seen.to_bytes())
    torch.testing.assert_close(stored["attention"].values()[0, 0], torch.tensor(VALUES))


@pytest.fixture
def several() -> Seen:
    """A layer that saw three samples at once."""
    torch.manual_seed(0)
    layer = Attention(MultiHead(8, 2), where=Causal())
    with torch.no_grad(), look(layer) as found:
        layer(torch.randn(3, 5, 8))
    return found


def test_one_of_several_samples_is_chosen_everywhere(several: Seen, tmp_path: Path) -> None:
    for draw in (several.view, several.text, several.html, lambda: several.page(tmp_path / "x.html")):
        with pytest.raises(ValueError, match=r"saw 3 samples.*sample=0, 1"):
            draw()
    exact = several[""].weights()[2].double().numpy()
    np.testing.assert_allclose(several.view(sample=2).weights, exact.mean(0), atol=1e-7)
    np.testing.assert_allclose(several.view(head=1, sample=2).weights, exact[1], atol=1e-7)
    assert "sample 2 of 0 to 2" in several.text(terminal=Terminal(), sample=2)
    for kind in ("matrix", "heads"):
        several.plot(tmp_path / f"{kind}.png", kind=kind, sample=1)
        assert (tmp_path / f"{kind}.png").exists()
    several.page(tmp_path / "x.html", sample=1)
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "<title>sample 1 of 0 to 2 \u00b7 mirada</title>" in text
    (record,) = re.findall(r'data-record="0">([^<]*)<', text)
    stored = Seen.from_bytes(b64decode(record))
    torch.testing.assert_close(stored[""].weights()[0], several[""].weights()[1], atol=0.004, rtol=0)
    assert stored.labels.made["sample"] == "1 of 0 to 2"
    several.page(tmp_path / "two.html", stored, sample=2)  # one sample beside one of several
    with pytest.raises(ValueError, match=r"sample must lie in 0\.\.2: got 3"):
        several.text(sample=3)


def test_a_notebook_shows_the_first_of_several_and_says_so(several: Seen) -> None:
    markup = several._repr_html_()
    assert markup.startswith("<p>sample 0 of 3;")
    assert "&lt;title&gt;sample 0 of 0 to 2" in markup


def test_even_attention_is_that_of_what_may_be_seen(several: Seen, seen: Seen) -> None:
    assert several.view(sample=0).visible == (1, 2, 3, 4, 5)
    assert several.view(sample=0).evens == (0.2, 1.0)
    assert Seen.from_bytes(several.to_bytes(sample=0)).view().visible == (1, 2, 3, 4, 5)
    assert seen.view().visible == (5, 5, 5)
    assert seen.labelled(translated()).view().evens == (0.2, 0.2)
    layer = Attention(MultiHead(8, 2))
    with torch.no_grad(), look(layer) as found:
        layer(torch.randn(2, 3, 8), where=Padding(torch.tensor([3, 2])))
    assert found.view(sample=1).visible == (2, 2, 2)
    assert Seen.from_bytes(found.to_bytes(sample=1)).view().visible == (2, 2, 2)
    with torch.no_grad(), look(layer) as found:
        layer(torch.randn(1, 3, 8), where=Edges(torch.tensor([[0, 1, 2], [1, 1, 2]]), 3))
    assert found.view().visible == (0, 2, 1)
    assert found.view().evens == (0.5, 1.0)
