"""What is known beside the numbers: calendars, holidays, names of series, columns of kinds; learned, saved, and read again."""

import csv
import io
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirada.data.columns.holidays import holidays_in
from mirada.data.columns.times import time_axis
from mirada.runs.load import load
from mirada.tasks.forecast.context import SeriesContext, calendar_codes
from mirada.tasks.forecast.series import SeriesOptions, series_in
from tests.runs.small import trained
from tests.tasks.forecast.test_task import write

SETTINGS = ("steps=120", "lr=5e-3", "warmup=10", "threads=1", "width=16", "heads=2", "hidden=32", "depth=1")
SETTINGS += ("lookback=16", "horizon=5", "patch=4", "batch_size=32", "dropout=0")
READ = SeriesOptions(series="auto", calendar="auto", categories="auto")


def days(count: int, first: date = date(2021, 1, 1)) -> list[date]:
    return [first + timedelta(days=n) for n in range(count)]


def test_peaks_on_days_of_the_month_are_forecast_by_the_calendar_alone(tmp_path: Path) -> None:
    """No plain forecast sees it: months differ in length."""
    noise = np.random.default_rng(0).normal(0, 0.3, 896)
    paid = [round(6 * (d.day in (1, 12, 18)) + x, 3) for d, x in zip(days(896), noise, strict=True)]
    data = {"day": days(896), "paid": paid}
    place = write(tmp_path / "paid.csv", data)
    run = load(trained("forecast", place, tmp_path / "run", *SETTINGS).folder)
    assert run.known.context.calendar == ("day",), "no month was seen twice, and 16 rows show all weekdays"
    metrics = run.measure()
    assert metrics["mse"] < 0.6 * metrics["mse_plain"]
    rows = list(csv.DictReader(io.StringIO(run(str(run.folder / "latest.csv")).text)))
    first = date.fromisoformat(rows[0]["day"])
    assert first == date(2021, 1, 1) + timedelta(days=896)
    assert [float(row["paid"]) > 3 for row in rows] == [
        (first + timedelta(days=n)).day in (1, 12, 18) for n in range(5)
    ]


def shops(rows: int = 60) -> dict[str, list[Any]]:
    """Three shops in two towns, with a size each, and a word that changes from row to row."""
    sizes = {"north": ("Oslo", 12, "x"), "south": ("Rome", 30, "y"), "west": ("Rome", 18, "x")}
    table: dict[str, list[Any]] = {name: [] for name in ("town", "shop", "size", "day", "offer", "sold")}
    for shop, (town, size, _) in sizes.items():
        for n, day in enumerate(days(rows)):
            cells = (town, shop, size, day, ("none", "soap", "tea")[(n + n // 4) % 3], size + n % 7)
            for column, cell in zip(table.values(), cells, strict=True):
                column.append(cell)
    return table


def test_words_and_numbers_that_never_change_in_a_series_are_kinds_not_targets() -> None:
    several = series_in(shops(), READ)
    assert [one.name for one in several] == ["north", "south", "west"]
    assert {one.column for one in several} == {"shop"}  # the town would do it for two of three
    assert several[0].targets == several[0].inputs == ("sold",)
    context = SeriesContext.learn(several, [40, 40, 40], calendar=True)
    assert [(one.name, one.size, one.fixed) for one in context.categories] == [
        ("town", 2, True), ("size", 3, True), ("offer", 3, False),
    ]  # fmt: skip
    assert context.series == ("north", "south", "west")
    codes = context.codes(several[1], more=4)
    assert codes.shape == (64, context.kinds)
    assert len({*codes[:, -1].tolist()}) == 1  # which series it is, in rows to come as well
    town, size, offer = (codes[:, len(context.calendar) + place] for place in range(3))
    assert len({*town.tolist()}) == len({*size.tolist()}) == 1
    assert town[0] > 0
    assert offer[-4:].tolist() == [0] * 4  # nobody knows it yet
    assert codes.max() < context.size
    assert SeriesContext.restore(context.facts()) == context


def test_what_a_run_reads_beside_the_numbers_is_asked_of_other_files(tmp_path: Path) -> None:
    run = load(
        trained("forecast", write(tmp_path / "shops.csv", shops()), tmp_path / "run", *SETTINGS[1:], "steps=3").folder
    )
    latest = run.folder / "latest.csv"
    assert latest.read_text().splitlines()[0] == "shop,day,town,size,offer,sold"
    answer = run(str(latest)).text
    assert answer == run(write(tmp_path / "again.csv", shops())).text
    rows = list(csv.DictReader(io.StringIO(latest.read_text())))
    strange = {name: [row[name] for row in rows] for name in rows[0]}
    assert run(write(tmp_path / "new.csv", strange | {"town": ["Lima"] * len(rows)})).text  # a kind that nobody knows
    del strange["town"]
    with pytest.raises(ValueError, match="unknown column 'town'"):
        run(write(tmp_path / "less.csv", strange))


def test_two_columns_name_series_together() -> None:
    places = [(a, b, day) for a in "12" for b in "123" for day in days(9)]
    data = {name: [row[n] for row in places] for n, name in enumerate(("store", "item", "day"))}
    several = series_in(data | {"sold": list(range(len(places)))}, READ)
    assert [one.name for one in several] == ["1,1", "1,2", "1,3", "2,1", "2,2", "2,3"]
    assert several[0].column == "store,item"
    given = series_in(data | {"sold": list(range(len(places)))}, SeriesOptions(series="store,item", time="day"))
    assert [one.name for one in given] == [one.name for one in several]
    with pytest.raises(ValueError, match="unknown column 'shelf'"):
        series_in(data | {"sold": list(range(len(places)))}, SeriesOptions(series="store,shelf", time="day"))


# holidays


def weekdays(first: date, last: date, closed: set[date]) -> list[date]:
    return [d for d in days((last - first).days + 1, first) if d.weekday() < 5 and d not in closed]


THANKSGIVING = {date(2017, 11, 23), date(2018, 11, 22), date(2019, 11, 28)}
GOOD_FRIDAY = {date(2017, 4, 14), date(2018, 3, 30), date(2019, 4, 19)}
CHRISTMAS = {date(year, 12, 25) for year in (2017, 2018, 2019)}


def test_holidays_are_found_as_rules_and_a_day_that_was_missing_once_is_none() -> None:
    there = weekdays(date(2017, 1, 3), date(2019, 12, 31), THANKSGIVING | GOOD_FRIDAY | CHRISTMAS | {date(2018, 12, 5)})
    assert holidays_in(there) == ("date 12-25", "easter -2", "weekday 11-4-3")
    assert holidays_in(weekdays(date(2017, 1, 3), date(2019, 12, 31), set())) == ()


def test_forecasts_skip_holidays_to_come_and_the_day_after_is_marked() -> None:
    closed = THANKSGIVING | GOOD_FRIDAY | CHRISTMAS
    axis = time_axis([d.isoformat() for d in weekdays(date(2017, 1, 3), date(2020, 4, 8), closed)])
    assert axis.spacing.kind == "business days"
    assert axis.after(3) == ("2020-04-09", "2020-04-13", "2020-04-14")  # the 10th is Good Friday
    codes = calendar_codes(("after a holiday",), axis.spacing.after(axis.moments[-1], 3), axis.spacing)
    assert codes.ravel().tolist() == [1, 2, 1]
