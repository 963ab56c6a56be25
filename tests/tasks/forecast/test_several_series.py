"""Several series in one file: noticed or named, divided in time each, with scales of their own, and forecast together."""

import csv
import io
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.tasks.forecast.series import SeriesOptions, read_series, series_in
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import trained
from tests.tasks.forecast.test_task import KEYS, QUICK, write

LENGTHS = {"north": 90, "south": 80, "west": 70}
LEVELS = {"north": 1.0, "south": 100.0, "west": 10_000.0}


def shops(lengths: dict[str, int] = LENGTHS) -> dict[str, list[Any]]:
    """A wave of every shop, each with a level of its own, one below the other."""
    rows = [
        (shop, date(2024, 1, 1) + timedelta(days=day), round(LEVELS[shop] * (5 + np.sin(day / 3 + place)), 4))
        for place, (shop, count) in enumerate(lengths.items())
        for day in range(count)
    ]
    return dict(zip(("shop", "day", "sold"), map(list, zip(*rows, strict=True)), strict=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("data") / "shops.csv", shops())


@pytest.fixture(scope="module")
def run(data: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load(trained("forecast", data, tmp_path_factory.mktemp("runs") / "shops", *KEYS).folder)


def test_they_are_noticed_and_each_is_divided_in_time(run: Run, mirada: Command, data: str) -> None:  # noqa: F811
    told = mirada("check", "forecast", "--data", data, *KEYS).out
    assert "shops.csv: 3 series, named by shop: north, south, west (series=no: one series)" in told
    splits = run.splits()
    for name, rows in LENGTHS.items():
        first = {
            part: [record.value.first for record in getattr(splits, part) if record.value.series.name == name]
            for part in ("train", "valid", "test")
        }
        assert max(first["train"]) < min(first["valid"]) <= max(first["valid"]) < min(first["test"])
        assert max(first["test"]) == rows - 4


def test_each_has_a_scale_of_its_own(run: Run) -> None:
    known = run.known
    assert list(known.scales) == list(LENGTHS)
    for series in run.splits().whole.series:
        values = known.standardized(series, ("sold",))[: int(0.7 * len(series))]
        assert abs(values.mean()) < 0.2
        assert 0.8 < values.std() < 1.2


def test_the_answer_has_the_rows_of_each(run: Run, data: str, mirada: Command) -> None:  # noqa: F811
    rows = list(csv.reader(io.StringIO(mirada("run", run.folder, data).out.strip())))
    assert rows[0] == ["shop", "day", "sold"]
    assert [row[0] for row in rows[1:]] == [name for name in LENGTHS for _ in range(4)]
    for number, (name, count) in enumerate(LENGTHS.items()):
        assert rows[1 + 4 * number][1] == str(date(2024, 1, 1) + timedelta(days=count))
        assert all(3 < float(row[2]) / LEVELS[name] < 7 for row in rows[1 + 4 * number : 5 + 4 * number])
    found = json.loads(mirada("run", run.folder, data, "--json").out)
    assert found["series"] == [row[0] for row in rows[1:]]
    assert found["times"] == [row[1] for row in rows[1:]]
    assert len(found["values"]) == len(found["low"]) == 12


def test_a_series_alone_and_one_that_is_new_are_answered(run: Run, tmp_path: Path) -> None:
    every = run(write(tmp_path / "all.csv", shops())).value
    one = {name: cells[90:170] for name, cells in shops().items()}
    np.testing.assert_allclose(run(one).value.values, every.values[4:8], rtol=1e-6)
    new = {**one, "shop": ["east"] * 80}
    values = run(new).value.values / LEVELS["south"]
    assert ((values > 3) & (values < 7)).all()
    assert run(str(run.folder / "latest.csv")).value.names == every.names


def test_one_with_too_few_rows_is_left_out_and_said(tmp_path: Path, mirada: Command) -> None:  # noqa: F811
    path = write(tmp_path / "short.csv", shops({"north": 90, "south": 9, "west": 70}))
    told = mirada("check", "forecast", "--data", path, *KEYS).out
    assert "1 series with too few rows for lookback=12 and horizon=4 left out: south" in told


def test_a_bad_row_is_named_in_whichever_series(tmp_path: Path, mirada: Command) -> None:  # noqa: F811
    table = shops()
    table["sold"][100] = "many"
    path = write(tmp_path / "bad.csv", table)
    done = mirada("train", "forecast", "--data", path, "--out", tmp_path / "run", *KEYS)
    assert (done.code, f"{path}:102: text 'many' in a column of numbers: sold" in done.err) == (2, True)


def test_the_column_may_hold_numbers_or_be_named() -> None:
    table = shops()
    numbers = {**table, "shop": [list(LENGTHS).index(shop) for shop in table["shop"]]}
    named = {"store_id": numbers["shop"], **{name: cells for name, cells in numbers.items() if name != "shop"}}
    assert [one.name for one in series_in(named, SeriesOptions(series="auto"))] == ["0", "1", "2"]
    assert [len(one) for one in series_in(numbers, SeriesOptions(series="shop"))] == list(LENGTHS.values())
    with pytest.raises(ValueError, match="unknown column 'sho'; known: shop, sold"):
        series_in(table, SeriesOptions(series="sho"))
    alone = {name: cells[:90] for name, cells in table.items()}
    assert [one.name for one in series_in(alone, SeriesOptions(series="auto"))] == [""], "times that are not repeated"


def test_repeated_times_that_nothing_explains_offer_to_name_the_column() -> None:
    table = shops({"north": 30, "south": 30})
    problem = read_series({**table, "kind": ["a", "b"] * 30}, SeriesOptions()).problems[0]
    assert "Where a column names several series, say series=shop; else sort the rows." in problem.what
    assert "bad=skip" not in problem.what


def test_parts_with_a_file_each_have_several_series_too(tmp_path: Path) -> None:
    for name, less in (("train", 0), ("valid", 7), ("test", 11)):
        write(tmp_path / f"{name}.csv", shops({shop: count - less for shop, count in LENGTHS.items()}))
    run = trained("forecast", str(tmp_path), tmp_path / "run", *QUICK, "lookback=12", "horizon=4")
    splits = run.splits()
    for part, less in ((splits.train, 0), (splits.valid, 7), (splits.test, 11)):
        assert len(part) == sum(count - less - 15 for count in LENGTHS.values())
