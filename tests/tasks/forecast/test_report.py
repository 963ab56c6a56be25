"""Forecasts: known, true and predicted values at their times, and the weights under the past."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.tasks.forecast.report import ForecastChart
from tests.drawing.parsed import NAN, Node, assert_inside, page_of, rows_of

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri")
CHART = ForecastChart("price", DAYS, (1.0, 2.0, 3.0), (3.5, 4.0), (3.0, None), (0.1, 0.3, 0.6), "EUR", "mse 0.5")


def points(node: Node) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in (node.attributes["points"] or "").split())]


def test_every_value_and_weight_is_in_the_table() -> None:
    root = page_of(CHART)
    assert rows_of(root.all("table")[0]) == [
        ["time", "known", "truth", "forecast", "weight"],
        ["Mon", "1", "", "", "0.1"],
        ["Tue", "2", "", "", "0.3"],
        ["Wed", "3", "", "", "0.6"],
        ["Thu", "", "3", "3.5", ""],
        ["Fri", "", "\u2013", "4", ""],
    ]
    assert [node.text for node in root.all(kind="now")] == ["3", "3", "4", "0.6"]
    assert "Looked most at Wed (0.6), Tue (0.3), Mon (0.1); even would be 0.3333." in root.text


def test_the_forecast_follows_the_past_on_one_axis_of_time() -> None:
    root = page_of(CHART)
    known, forecast = (points(node) for node in root.all("polyline"))
    steps = [x for x, _ in [*known, *forecast]]
    assert [b - a for a, b in pairwise(steps)] == pytest.approx([steps[1] - steps[0]] * 4, abs=0.01)
    (present,) = root.all(kind="present")
    assert known[-1][0] < float(present.attributes["x1"] or "nan") < forecast[0][0]
    assert [node.text for node in root.all("text") if node.text in DAYS] == list(DAYS)


def test_bars_of_weights_stand_under_their_steps() -> None:
    root = page_of(CHART)
    outline = points(root.all("polygon")[0])
    base = outline[0][1]
    heights = [base - y for _, y in outline[1:-1]]
    assert heights == pytest.approx([40 / 6, 40 / 6, 20, 20, 40, 40], abs=0.01)
    (present,) = root.all(kind="present")
    assert outline[-1] == (float(present.attributes["x1"] or "nan"), base)
    assert page_of(ForecastChart("p", DAYS, (1.0, 2.0, 3.0), (3.5, 4.0))).all("polygon") == []


def test_long_pasts_share_bars_and_lose_no_peak() -> None:
    weights = [0.0] * 5000
    weights[1234] = 1.0
    times = tuple(str(i) for i in range(5010))
    root = page_of(ForecastChart("p", times, tuple(map(float, range(5000))), (1.0,) * 10, weights=tuple(weights)))
    outline = points(root.all("polygon")[0])
    assert len(outline) < 1000
    assert outline[0][1] - min(y for _, y in outline) == pytest.approx(40)


def test_other_columns_have_strips_of_their_own_on_one_scale() -> None:
    chart = ForecastChart(
        "A", DAYS, (1.0, 2.0, 3.0), (3.5, 4.0), weights=(0.1, 0.0, 0.1), others=(("B", (0.0, 0.2, 0.6)),)
    )
    root = page_of(chart)
    first, second = (points(node) for node in root.all("polygon"))
    assert first[0][1] < second[0][1]
    assert second[0][1] - min(y for _, y in second) == pytest.approx(40)
    assert first[0][1] - min(y for _, y in first) == pytest.approx(40 / 6, abs=0.01)
    assert rows_of(root.all("table")[0])[0] == ["time", "known", "forecast", "weight of A", "weight of B"]
    assert (
        "Looked most at B Wed (0.6), B Tue (0.2), A Mon (0.1); even would be 0.1667. In all: A 20 %, B 80 %."
        in root.text
    )
    assert_inside(root)


def test_the_caution_stands_only_where_weights_are() -> None:
    assert len(page_of(CHART).all(kind="looked")) == 1
    assert page_of(ForecastChart("p", DAYS, (1.0, 2.0, 3.0), (3.5, 4.0))).all(kind="looked") == []


NUMBERS = st.none() | st.floats()


@given(
    past=st.lists(st.tuples(NUMBERS, st.floats()), max_size=9),
    future=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9),
    name=st.text(max_size=30),
)
@settings(max_examples=200, deadline=None)
def test_a_forecast_of_anything_stays_in_its_picture(
    past: list[tuple[float | None, float]], future: list[tuple[float | None, float | None]], name: str
) -> None:
    chart = ForecastChart(
        "p",
        tuple(f"{name}{i}" for i in range(len(past) + len(future))),
        tuple(value for value, _ in past),
        tuple(value for value, _ in future),
        tuple(value for _, value in future),
        tuple(weight for _, weight in past),
    )
    root = page_of(chart)
    assert_inside(root)
    assert len(rows_of(root.all("table")[0])) == 1 + len(past) + len(future)


def test_a_forecast_without_a_number_says_so() -> None:
    root = page_of(ForecastChart("p", DAYS, (NAN, None, None), (None, NAN)))
    assert root.all(kind="caution")[0].text == "There is no finite value to draw."


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a time per step: got 5 for 3 steps"):
        ForecastChart("p", DAYS, (1.0,), (1.0, 2.0))
    with pytest.raises(ValueError, match="the truth must have a value per predicted step, or none: got 1 for 2"):
        ForecastChart("p", DAYS, (1.0, 2.0, 3.0), (1.0, 2.0), (1.0,))
    with pytest.raises(ValueError, match="a weight per known step, or none: got 2 for 3 steps"):
        ForecastChart("p", DAYS, (1.0, 2.0, 3.0), (1.0, 2.0), weights=(0.5, 0.5))
