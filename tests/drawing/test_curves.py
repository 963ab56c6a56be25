"""Curves: sorted, thinned without losing a peak."""

import math
import re

import pytest

from mirada.drawing import Chart, Curve
from mirada.drawing.charts import MOST, thinned
from tests.drawing.parsed import page_of, rows_of


def curve(*values: float) -> Curve:
    return Curve("loss", tuple(enumerate(values)))


def test_long_curves_are_thinned_without_losing_a_peak() -> None:
    values = [math.sin(i) for i in range(10_000)]
    values[4321], values[5678] = 50.0, -50.0
    kept = dict(thinned(tuple(enumerate(values)), MOST))
    assert len(kept) <= MOST + 4
    assert {0, 4321, 5678, 9999} <= set(kept)
    assert all(values[int(step)] == value for step, value in kept.items())
    root = page_of(Chart("Loss", (curve(*values),)))
    assert re.fullmatch(r"loss: 2\d\d of 10,000 points; every peak is kept\.", root.all(kind="remark")[0].text)
    assert page_of(Chart("Loss", (curve(*values[:MOST]),))).all(kind="remark") == []


def test_of_two_values_at_a_step_the_last_counts_and_steps_are_sorted() -> None:
    root = page_of(Chart("Loss", (Curve("loss", ((2, 5.0), (1, 3.0), (2, 4.0))),)))
    assert rows_of(root.all("table")[0])[1:] == [["1", "3"], ["2", "4"]]
    assert root.all(kind="now")[0].text == "4"


def test_curves_differ_by_more_than_color() -> None:
    root = page_of(Chart("Loss", tuple(Curve(str(i), ((0, i), (1, i))) for i in range(12))))
    looks = {(group.kinds[1], group.all("polyline")[0].attributes.get("stroke-dasharray")) for group in root.all("g")}
    assert len(looks) == 12
    first, second = root.all("polyline")[:2]
    assert first.attributes.get("stroke-dasharray") != second.attributes.get("stroke-dasharray")


def test_an_unknown_best_is_refused() -> None:
    with pytest.raises(ValueError, match=r"best of a curve 'lower'; known: highest, lowest\. Did you mean 'lowest'\?"):
        Curve("loss", (), "lower")
