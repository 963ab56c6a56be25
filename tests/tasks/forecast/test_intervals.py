"""Intervals: as many of the new values within them as they say, and where a person sees them."""

import csv
import io
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from mirada.runs.run import Run
from mirada.tasks.forecast.intervals import PROBABILITIES, band, spread_of
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import trained
from tests.tasks.forecast.test_task import KEYS, waves, write


@pytest.mark.parametrize("percent", [50, 80, 95])
@pytest.mark.parametrize("windows", [40, 400])
def test_new_values_lie_within_as_often_as_is_said(percent: int, windows: int) -> None:
    random = np.random.default_rng(0)
    size = np.array([0.5, 1.0, 2.0])[:, None] * np.array([1.0, 10.0])
    held = []
    for _ in range(40):
        low, high = band(spread_of(random.normal(size=(windows, 3, 2)) * size, 1), percent)
        new = random.normal(size=(500, 3, 2)) * size
        held.append(((new >= low) & (new <= high)).mean())
    assert 100 * np.mean(held) == pytest.approx(percent, abs=4)


def test_few_windows_that_overlap_have_wider_intervals() -> None:
    errors = np.random.default_rng(1).normal(size=(30, 4, 1))
    alone, overlapping = (np.subtract(*band(spread_of(errors, horizon), 80)) for horizon in (1, 12))
    assert (overlapping < alone).all()  # low - high


def test_a_larger_share_has_a_wider_interval() -> None:
    spread = spread_of(np.random.default_rng(2).normal(size=(300, 2, 3)), 2)
    assert spread.shape == (len(PROBABILITIES), 2, 3)
    widths = [np.subtract(*band(spread, percent)[::-1]) for percent in (10, 50, 80, 90, 99)]
    assert all((b > a).all() for a, b in pairwise(widths))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("data") / "waves.csv", waves())


@pytest.fixture(scope="module")
def run(data: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained("forecast", data, tmp_path_factory.mktemp("runs") / "waves", *KEYS, "target=A,B")


def test_json_has_them_always_and_a_csv_where_they_are_asked_for(mirada: Command, run: Run, data: str) -> None:  # noqa: F811
    plain = list(csv.reader(io.StringIO(mirada("run", run.folder, data).out)))
    asked = list(csv.reader(io.StringIO(mirada("run", run.folder, data, "--interval", "80").out)))
    assert plain[0] == ["day", "A", "B"]
    assert asked[0] == ["day", "A", "A_low", "A_high", "B", "B_low", "B_high"]
    found = json.loads(mirada("run", run.folder, data, "--json").out)
    assert found["interval"] == 80
    shown = np.array(asked[1:-1])[:, 1:].astype(float).reshape(-1, 2, 3)
    for place, name in enumerate(("values", "low", "high")):
        np.testing.assert_allclose(shown[..., place], found[name], atol=1e-2)
    assert (np.array(found["low"]) < np.array(found["high"])).all()
    wider = json.loads(mirada("run", run.folder, data, "--json", "--interval", "95").out)
    assert (np.array(wider["high"]) - wider["low"] > np.array(found["high"]) - found["low"]).all()


def test_how_many_are_held_is_measured_and_said(mirada: Command, run: Run) -> None:  # noqa: F811
    found = json.loads(mirada("eval", run.folder, "--json").out)
    assert 0 <= found["coverage_80"] <= 100
    assert f"The interval of 80 % holds {found['coverage_80']:.0f} % of the true values." in found["verdict"]


def test_the_report_begins_with_what_comes_next(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert (
        page.index("standard deviations on average") < page.index("Next values") < page.index("Beside plain forecasts")
    )
    assert 'class="interval"' in page
    assert "80 % interval" in page


def test_an_interval_is_a_share(mirada: Command, run: Run, data: str) -> None:  # noqa: F811
    assert "99" in mirada("run", run.folder, data, "--interval", "100").err


def test_a_run_from_before_has_none(mirada: Command) -> None:  # noqa: F811
    before = Path(__file__).parents[2] / "runs" / "written_by_0_1"
    done = mirada("run", before / "forecast", before / "data" / "waves.csv", "--interval", "80")
    assert (done.code, "this run knows no intervals: train it again" in done.err) == (1, True)


def test_the_forecast_is_within_its_interval() -> None:
    low, high = band(spread_of(np.full((50, 2, 1), 3.0), 2), 80)
    assert (low == 0).all()
    assert (high > 2.9).all()
