"""The page: everything given is on it, as text, inside its picture, and nothing else is."""

import re
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada import drawing, tasks
from mirada.drawing import (
    Chart,
    Confusion,
    Curve,
    DataTable,
    HeatPanel,
    Item,
    PictureHeat,
    Ranked,
    Report,
    Section,
    TextSample,
    Weighed,
    html,
)
from mirada.drawing.page import Markup, element
from mirada.tasks.answer.report import MarkedPassage
from mirada.tasks.forecast.report import ForecastChart
from mirada.tasks.label.report import NeighborGraph
from mirada.tasks.transcribe.report import SoundHeat
from mirada.tasks.translate.report import Aligned
from tests.drawing.parsed import NAN, page_of, parse

HOSTILE = "</script></style><img src=x onerror=\"alert('1')\"> <b>& &amp; -->"

PIXELS = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)


def panel(word: str) -> HeatPanel:
    return HeatPanel(word, ((0.5, 0.25), (0.25, 0.0)), ((0.0, 0.0, 2.0, 2.0),))


def marks(text: str) -> tuple[Any, ...]:
    """An answer, a wanted span and weights in a passage that begins with the text."""
    end = len(text)
    return (0, end), ((0, end),), ((0, end, 0.75), (end, end + 4, 0.25))


def everything(text: str) -> Report:
    """A report that has this text wherever a text can be."""
    items = (
        Chart(text, (Curve(text, ((1, 2.0), (2, 1.0)), "lowest"),), text, text),
        Aligned((text, text, "."), (text, "."), ((0.5, 0.25, 0.25), (0.0, 0.0, 1.0)), text, -0.5),
        Weighed((text, "b"), (0.25, 0.75), text, "other", text, 0.5),
        TextSample(text, text, text),
        Ranked(f"{text} ___", ((text, 0.75), ("b", 0.25)), "c", text),
        DataTable(text, (text, text), ((text, 1.5), ("b", text))),
        Confusion((text, "b"), ((3, 1), (0, 2))),
        PictureHeat(PIXELS, (panel(text), panel(".")), "", text, text, 0.5),
        PictureHeat(PIXELS, (panel(text),), text, "other", text, 0.5),
        SoundHeat(np.zeros((3, 2)), 1.5, (text, "."), ((0.5, 0.5), (0.0, 1.0)), text, text, 0.5, 4000.0, text),
        ForecastChart(text, (text, text), (1.0,), (1.5,), (1.75,), (1.0,), text, text),
        MarkedPassage(f"{text} end", text, *marks(text), 0.5),
        NeighborGraph(text, ((text, 0.5), ("b", 0.25), ("c", 0.25)), (text, text, text), text, "other", text, 0.5),
    )
    return Report(text, ((text, text),), (Section(text, text, items),), (text,), text, ((text, text),))


def test_a_full_page_is_well_formed_and_refers_to_nothing() -> None:
    page = html(everything("text"))
    root = parse(page)
    assert page.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"url\((?!data:image/png;base64,[A-Za-z0-9+/=]+\))", page)
    assert not re.search(r"@import|@font-face|fetch\(|XMLHttpRequest|innerHTML", page)
    identities = [node.attributes["id"] for node in root.all() if "id" in node.attributes]
    assert len(set(identities)) == len(identities)
    for node in root.all():
        assert re.fullmatch(
            r"data:image/png;base64,[A-Za-z0-9+/=]+", node.attributes.get("src") or "data:image/png;base64,0"
        )
        assert not any(name.startswith("on") for name in node.attributes)
        assert node.attributes.get("aria-labelledby", identities[0]) in identities
        if "href" in node.attributes:
            assert (node.attributes["href"] or "").removeprefix("#") in identities
    for region in root.all(kind="scroll"):
        assert region.attributes["aria-label"]
        assert region.attributes["tabindex"] == "0"


@pytest.mark.parametrize("text", [HOSTILE, "\x00\x1b\x7f\x85 a", "\ud800 half", "\u202e rtl", "]]> <!-- x", "'\"`=/"])
def test_texts_stay_texts(text: str) -> None:
    page = html(everything(text))
    page.encode("utf-8")
    root, plain = parse(page), parse(html(everything("text")))
    assert [node.name for node in root.all()] == [node.name for node in plain.all()]
    shown = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)
    assert root.all("title")[0].text == shown
    assert root.all("h1")[0].text == shown
    assert [node.text for node in root.all("code")] == [shown]
    assert len(root.all("script")) == 1


@given(text=st.text(st.characters(), max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_text_is_well_formed(text: str) -> None:
    page = html(everything(text))
    page.encode("utf-8")
    assert {node.name for node in parse(page).all()} <= {node.name for node in parse(html(everything("x"))).all()} | {
        "mark"
    }


def test_what_is_empty_leaves_no_trace() -> None:
    nothing = (
        Chart("no chart", (Curve("no curve", ()),)),
        Aligned((), (), ()),
        Aligned(("a",), (), (), "no alignment"),
        Weighed((), (), "no answer"),
        TextSample("no sample", ""),
        Ranked("no ___", ()),
        DataTable("no table", ("a",), ()),
        PictureHeat(PIXELS, ()),
        PictureHeat(PIXELS[:0], (panel("no picture"),)),
        SoundHeat(np.zeros((0, 2)), 1.0, ("no sound",), ((1.0,),)),
        SoundHeat(np.zeros((3, 2)), 1.0, (), (), "no words"),
        ForecastChart("no forecast", ("a",), (1.0,), ()),
        MarkedPassage("", "no passage"),
        NeighborGraph("no neighbors", ()),
    )
    full = everything("text")
    extra = (Section("no section", "no text"), *full.sections, Section("no items", "no text", nothing))
    assert html(replace(full, sections=extra)) == html(full)
    (section,) = full.sections
    padded = replace(section, items=(*section.items, *nothing))
    assert html(replace(full, sections=(padded,))) == html(full)
    assert "<section" not in html(Report("run"))
    assert "<dl" not in html(Report("run"))
    assert "<nav" not in html(Report("run"))


def test_facts_and_commands() -> None:
    facts = (("BLEU", 34.2711), ("pairs", 12345), ("time", "4 min"), ("chrF", None), ("loss", NAN))
    root = parse(html(Report("run", facts, commands=('mirada run runs/a "x"',), details=(("seed", 7),))))
    assert [node.text for node in root.all("dd")] == ["34.27", "12,345", "4 min", "\u2013", "nan", "7"]
    assert [node.text for node in root.all("dt")] == ["BLEU", "pairs", "time", "chrF", "loss", "seed"]
    assert root.all("code")[0].text == 'mirada run runs/a "x"'


def test_the_caution_of_attention_stands_where_weights_are() -> None:
    assert len(page_of(Weighed(("a",), (1.0,), "yes")).all(kind="looked")) == 1
    assert page_of(TextSample("a", "b")).all(kind="looked") == []


def test_the_page_shows_items_that_it_does_not_know() -> None:
    @dataclass(frozen=True)
    class Quotation(Item):
        text: str
        shows_attention = True

        @property
        def empty(self) -> bool:
            return not self.text

        def draw(self) -> Markup:
            return element("blockquote", self.text)

    root = page_of(Quotation("a"), Quotation(""), Quotation("<b>"), TextSample("t", "x"))
    assert [node.text for node in root.all("blockquote")] == ["a", "<b>"]
    assert [node.kinds[-1] for node in root.all(kind="group")] == ["quotation-group", "textsample-group"]
    assert len(root.all(kind="looked")) == 1


def test_every_kind_of_item_is_tried_here() -> None:
    exported = [getattr(drawing, name) for name in drawing.__all__]
    for path in Path(tasks.__path__[0]).glob("*/report.py"):
        room = import_module(f"mirada.tasks.{path.parent.name}.report")
        exported += [value for value in vars(room).values() if getattr(value, "__module__", "") == room.__name__]
    kinds = {kind for kind in exported if isinstance(kind, type) and hasattr(kind, "draw") and kind is not Item}
    rooms = {Aligned, ForecastChart, MarkedPassage, NeighborGraph, SoundHeat}
    assert {type(item) for item in everything("x").sections[0].items} == kinds | rooms
