"""Charts: every value at its place, and in the table."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.drawing import Chart, Curve
from tests.drawing.parsed import INF, NAN, assert_inside, page_of, rows_of


def curve(*values: float | None, best: str = "") -> Curve:
    return Curve("loss", tuple(enumerate(values)), best)


def test_every_value_of_a_curve_is_in_its_table() -> None:
    train = Curve("train", ((1, 2.5), (2, 1.25), (3, 0.012345)))
    valid = Curve("valid", ((2, 1.5), (1234, None)), "lowest")
    root = page_of(Chart("Loss", (train, valid)))
    assert rows_of(root.all("table")[0]) == [
        ["step", "train", "valid"],
        ["1", "2.5", ""],
        ["2", "1.25", "1.5"],
        ["3", "0.0123", ""],
        ["1,234", "", "\u2013"],
    ]
    assert [node.text for node in root.all(kind="now")] == ["0.0123", "1.5"]
    assert "lowest 1.5 at 2" in root.all(kind="legend")[0].text
    label = root.all("svg")[-1].attributes["aria-label"]
    assert label == "Loss. train: 2.5 at step 1, 0.0123 at 3. valid: 1.5 at step 2, 1.5 at 2, lowest 1.5 at 2."


VALUES = st.none() | st.floats() | st.integers(-(10**9), 10**9) | st.just(0.3)


@given(
    values=st.lists(st.tuples(st.floats() | st.integers(0, 10**6), VALUES), max_size=12),
    scale=st.sampled_from(["linear", "from zero", "log"]),
    best=st.sampled_from(["", "lowest", "highest"]),
)
@settings(max_examples=300, deadline=None)
def test_a_chart_of_anything_stays_in_its_picture(
    values: list[tuple[float, float | None]], scale: str, best: str
) -> None:
    given = Curve("a", tuple(values), best)
    for curves in ((given, curve(1.0, 2.0)), (given,)):
        root = page_of(Chart("Loss", curves, scale=scale))
        assert_inside(root)
        assert len(root.all("figure")) == (0 if all(one.empty for one in curves) else 1)


def test_one_point_is_a_dot_with_a_ring() -> None:
    root = page_of(Chart("Loss", (curve(1.25, best="highest"),)))
    assert [node.name for node in root.all("g")[0].all() if node.name != "title"] == ["circle"]
    dot, ring = root.all("circle")
    assert (dot.attributes["cx"], dot.attributes["cy"]) == (ring.attributes["cx"], ring.attributes["cy"])
    assert ring.text == "loss, highest: 1.25 at 0"


def test_missing_values_leave_gaps_and_are_reported() -> None:
    root = page_of(Chart("Loss", (curve(1.0, 2.0, NAN, 3.0, None, 2.0, 1.0, INF),)))
    lines = [len((node.attributes["points"] or "").split()) for node in root.all("polyline")]
    assert lines == [2, 2]
    assert len(root.all("circle")) == 5
    assert [node.text for node in root.all(kind="caution")] == ["loss: 3 values are missing or not finite."]


def test_a_chart_without_a_number_says_so() -> None:
    root = page_of(Chart("Loss", (curve(NAN, None),)))
    assert root.all("polyline") == []
    assert root.all(kind="caution")[0].text == "There is no finite value to draw."
    assert rows_of(root.all("table")[0])[1:] == [["0", "nan"], ["1", "\u2013"]]


def test_heights_follow_values() -> None:
    root = page_of(Chart("Loss", (curve(0.0, 1.0, 4.0, 2.0),)))
    points = [tuple(map(float, p.split(","))) for p in (root.all("polyline")[0].attributes["points"] or "").split()]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    assert (y0 - y1, y0 - y2) == pytest.approx(((y0 - y3) / 2, 2 * (y0 - y3)), abs=0.01)
    assert (x1 - x0, x2 - x1) == pytest.approx((x3 - x2, x3 - x2), abs=0.01)
    assert x0 < x1
    assert y2 < y0


@pytest.mark.parametrize(("steps", "labels"), [((5,), ["5"]), ((0, 1), ["0", "1"]), ((0, 0.5), ["0", "0.1", "0.2"])])
def test_whole_steps_have_whole_ticks(steps: tuple[float, ...], labels: list[str]) -> None:
    root = page_of(Chart("Loss", (Curve("loss", tuple((step, 1.0) for step in steps)),)))
    feet = [node.text for node in root.all("text") if node.attributes["y"] == "229"]
    assert feet[:3] == labels


def test_a_log_scale_makes_ratios_equal_and_needs_positive_values() -> None:
    def heights(*values: float) -> list[float]:
        root = page_of(Chart("Loss", (curve(*values),), scale="log"))
        path = root.all("polyline")[0].attributes["points"] or ""
        return [float(point.split(",")[1]) for point in path.split()]

    a, b, c = heights(1.0, 10.0, 100.0)
    assert a - b == pytest.approx(b - c, abs=0.01)
    a, b, c = heights(0.0, 10.0, 100.0)
    assert 9 * (a - b) == pytest.approx(b - c, abs=0.02)


def test_from_zero_starts_at_zero() -> None:
    def first_label(scale: str) -> str:
        return page_of(Chart("Speed", (curve(21000.0, 22000.0),), scale=scale)).all("text")[0].text

    assert first_label("from zero") == "0"
    assert first_label("linear") == "21k"


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown scale of a chart 'logg'.*Did you mean 'log'\?"):
        Chart("Loss", (), scale="logg")
