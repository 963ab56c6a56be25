"""Series from files and memory: what is recognized, and every bad row named by its line."""

import gzip
import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from mirada.data.columns.times import Spacing, time_axis
from mirada.tasks.forecast.series import SeriesOptions, joined, named_in, read_series
from mirada.tasks.forecast.windows import RowRange, WindowSize, parts_of_series, require_rows, window_size, windows_in


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def daily(count: int, columns: int = 2) -> str:
    start = date(2024, 1, 1)
    rows = [
        ",".join([str(start + timedelta(days=n)), *(str(n * 10 + c) for c in range(columns))]) for n in range(count)
    ]
    return "\n".join(["day,A,B,C,D"[: 3 + 2 * columns], *rows]) + "\n"


# What is recognized


def test_a_header_times_and_numbers(tmp_path: Path) -> None:
    series = read_series(written(tmp_path / "a.csv", daily(9)), SeriesOptions())
    assert (series.time, series.inputs, series.targets) == ("day", ("A", "B"), ("A", "B"))
    assert series.values[2].tolist() == [20.0, 21.0]
    assert series.where[0] == f"{tmp_path}/a.csv:2"
    assert series.times.after(2) == ("2024-01-10", "2024-01-11")
    assert "1 day apart" in series.notes[0]


def test_a_packed_file_without_header_and_times(tmp_path: Path) -> None:
    path = tmp_path / "rates.txt.gz"
    path.write_bytes(gzip.compress(b"0.78,1.61\n0.77,1.62\n0.79,1.60\n"))
    series = read_series(str(path), SeriesOptions())
    assert (series.time, series.columns, len(series)) == ("", ("1", "2"), 3)
    assert series.where[0].endswith("rates.txt.gz:1")
    assert series.times.after(1) == ("4",)


def test_semicolons_decimal_commas_and_thousands(tmp_path: Path) -> None:
    text = "fecha;precio;volumen\n31/12/2023;3,5;1.234,5\n01/01/2024;4,25;999\n02/01/2024;4,5;1.000\n"
    series = read_series(written(tmp_path / "a.csv", text), SeriesOptions())
    assert series.values.tolist() == [[3.5, 1234.5], [4.25, 999.0], [4.5, 1000.0]]
    assert series.times.after(1) == ("03/01/2024",)


def test_columns_that_do_not_tell_their_mark_follow_the_others(tmp_path: Path) -> None:
    rows = "".join(f"{day:02}.01.2024;{day}.{day:03};{day},5\n" for day in range(1, 6))
    series = read_series(written(tmp_path / "a.csv", "Datum;Menge;Preis\n" + rows), SeriesOptions())
    assert series.values[1].tolist() == [2002.0, 2.5]
    rows = "".join(f"2024-01-0{day};{day},{day:03};{day}.5\n" for day in range(1, 6))
    series = read_series(written(tmp_path / "a.csv", "day;volume;price\n" + rows), SeriesOptions())
    assert series.values[1].tolist() == [2002.0, 2.5]


def test_money_and_shares(tmp_path: Path) -> None:
    text = 'Date,Close,Change\n12/30/2023,"$1,234.50",-0.5%\n12/31/2023,$999.25,1.25%\n01/01/2024,"$1,000.00",0.0%\n'
    series = read_series(written(tmp_path / "a.csv", text), SeriesOptions())
    assert series.values.tolist() == [[1234.5, -0.5], [999.25, 1.25], [1000.0, 0.0]]


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("Jan-49", "Feb-49", "Mar-49"),
        ("28 January 2024", "29 January 2024", "30 January 2024"),
        ("January 2024", "February 2024", "March 2024"),
        ("28-01-24", "29-01-24", "30-01-24"),
        ("28.01.24", "29.01.24", "30.01.24"),
        ("11/2023", "12/2023", "01/2024"),
    ],
)
def test_more_ways_to_write_a_date(tmp_path: Path, first: str, second: str, third: str) -> None:
    series = read_series(written(tmp_path / "a.csv", f"when,A\n{first},1\n{second},2\n"), SeriesOptions())
    assert (series.time, series.times.after(1)) == ("when", (third,))


@pytest.mark.parametrize("clock", ["{:02}:00:00", "{:02}:00", "{}:00", "{:02}.00.00"])
def test_dates_and_clocks_in_two_columns_are_one_time(tmp_path: Path, clock: str) -> None:
    rows = "".join(f"{day}/12/2006;{clock.format(hour)};{day},{hour}\n" for day in (16, 17) for hour in range(24))
    series = read_series(written(tmp_path / "a.txt", "Date;Time;Power\n" + rows), SeriesOptions())
    assert (series.time, len(series), series.problems) == ("Date", 48, []), "as it can be named: time=Date"
    assert read_series(str(tmp_path / "a.txt"), SeriesOptions(time="Date")).times.texts == series.times.texts
    assert "1:00:00 apart" in series.notes[0]
    assert series.times.after(1)[0].startswith("18/12/2006 00:00")


def test_prices_are_no_clocks(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-0{day},{shop},1{day}.5{day}\n" for day in range(1, 6) for shop in "AB")
    series = read_series(written(tmp_path / "a.csv", "day,shop,price\n" + rows), SeriesOptions())
    assert series.targets == ("price",)
    assert "the same time twice" in series.problems[0].what


def test_an_index_without_a_name_is_under_a_header(tmp_path: Path) -> None:
    for names in ("A", "A,B"):
        rows = "".join(f"2024-01-0{day}" + ",1.5" * len(names.split(",")) + "\n" for day in range(1, 6))
        series = read_series(written(tmp_path / "a.csv", f",{names}\n{rows}"), SeriesOptions())
        assert (series.targets, len(series), series.problems) == (tuple(names.split(",")), 5, [])


def test_numbers_with_decimal_commas_alone_are_one_column(tmp_path: Path) -> None:
    series = read_series(written(tmp_path / "a.csv", "100,00\n100,75\n99,05\n"), SeriesOptions())
    assert series.values.tolist() == [[100.0], [100.75], [99.05]]


def test_a_header_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(("Día;Precio €\n" + "".join(f"0{day}/01/2024;{day},5\n" for day in range(1, 6))).encode("cp1252"))
    with pytest.raises(ValueError, match=r"a.csv:1: not UTF-8: .* pass encoding=cp1252, which reads 'Día;Precio'"):
        read_series(str(path), SeriesOptions())
    assert read_series(str(path), SeriesOptions(encoding="cp1252")).targets == ("Precio €",)


def test_a_table_whose_rows_are_all_longer_than_its_header_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"0{day}.01.2024,{day},5\n" for day in range(1, 6))
    with pytest.raises(ValueError, match=r"a.csv:2: expected 2 columns, found 3.* is a comma decimal"):
        read_series(written(tmp_path / "a.csv", "Datum,Preis\n" + rows), SeriesOptions())


def test_a_separator_line_titles_and_remarks_above_the_header(tmp_path: Path) -> None:
    rows = "fecha;precio\n2024-01-01;3,5\n2024-01-02;4,25\n2024-01-03;4,5\n"
    for above, lines in (
        ("sep=;\n", 0),
        ("Ventas de enero\n\n", 1),
        ("sep=;\nVentas;\n", 1),
        ("# de la caja; 2024\n", 1),
    ):
        series = read_series(written(tmp_path / "a.csv", above + rows), SeriesOptions())
        assert (series.columns, series.values.tolist(), series.problems) == (("precio",), [[3.5], [4.25], [4.5]], [])
        assert series.times.after(1) == ("2024-01-04",)
        assert any(note.endswith(f"{lines} line at the top left out") for note in series.notes) == bool(lines)
    first = read_series(
        written(tmp_path / "a.csv", rows.replace("3,5", "").removeprefix("fecha;precio\n")), SeriesOptions()
    )
    assert "no number in a column of numbers" in first.problems[0].what, "a row with a gap is no title"


def test_a_header_of_one_cell_means_one_column_of_decimal_commas(tmp_path: Path) -> None:
    series = read_series(written(tmp_path / "a.csv", "valor\n3,5\n4,2\n-\n1.234,5\n"), SeriesOptions(bad="skip"))
    assert (series.columns, series.values[:2].tolist(), series.values[-1].tolist()) == (
        ("valor",),
        [[3.5], [4.2]],
        [1234.5],
    )
    assert [problem.where for problem in series.problems] == [f"{tmp_path / 'a.csv'}:4"]
    assert read_series(written(tmp_path / "a.csv", "valor\n3.5\n4.2\n"), SeriesOptions()).values.tolist() == [
        [3.5],
        [4.2],
    ]
    two = read_series(written(tmp_path / "a.csv", "3,5\n4,2\n"), SeriesOptions())
    assert two.values.tolist() == [[3, 5], [4, 2]], "nothing tells that these are fractions"


def test_columns_of_text_are_left_out_and_named(tmp_path: Path) -> None:
    text = "Date,Close,Name\n2012-08-13,90.0,AAPL\n2012-08-14,90.2,AAPL\n"
    series = read_series(written(tmp_path / "a.csv", text), SeriesOptions())
    assert series.columns == ("Close",)
    assert "Name has no numbers and is not read" in series.notes[1]


def test_targets_that_are_read_come_first(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", daily(9, columns=3))
    series = read_series(path, SeriesOptions(target="C"))
    assert (series.inputs, series.targets) == (("C", "A", "B"), ("C",))
    series = read_series(path, SeriesOptions(target="C", inputs="A,B"))
    assert (series.inputs, series.targets, series.columns) == (("A", "B"), ("C",), ("A", "B", "C"))


def test_what_is_in_memory() -> None:
    array = np.arange(12.0).reshape(6, 2)
    assert read_series(array, SeriesOptions()).values.tolist() == array.tolist()
    days = [date(2024, 1, day) for day in (1, 2, 3)]
    series = read_series({"when": days, "A": [1, 2, 3]}, SeriesOptions())
    assert (series.time, series.times.after(1), series.where[1]) == ("when", ("2024-01-04",), "row 2")
    numpy_days = np.array(["2024-01-31", "2024-02-29", "2024-03-31"], dtype="datetime64[ns]")
    assert read_series({"t": numpy_days, "A": [1, 2, 3]}, SeriesOptions()).times.spacing == Spacing("months", 1)
    with pytest.raises(ValueError, match="columns must be equally long: got 2, 1"):
        read_series({"A": [1, 2], "B": [1]}, SeriesOptions())
    with pytest.raises(ValueError, match=r"a series in memory is a dict of columns.*got int"):
        read_series(7, SeriesOptions())


@pytest.mark.parametrize(
    ("texts", "then"),
    [
        (["2016-07-01 00:00:00", "2016-07-01 01:00:00"], "2016-07-01 02:00:00"),
        (["2016-07-01T00:15Z", "2016-07-01T00:30Z"], "2016-07-01T00:45Z"),
        (["2016-07-01T00:00:00+02:00", "2016-07-01T01:00:00+02:00"], "2016-07-01T02:00:00+02:00"),
        (["2016/07/01", "2016/07/02"], "2016/07/03"),
        (["30/12/2019", "31/12/2019"], "01/01/2020"),
        (["12/30/2019", "12/31/2019"], "01/01/2020"),
        (["20240130", "20240131"], "20240201"),
        (["1949-11", "1949-12"], "1950-01"),
        (["2023-12-31", "2024-01-31"], "2024-02-29"),
        (["1467331200", "1467334800"], "1467338400"),
        (["0.25", "0.50"], "0.75"),
        (["2012-08-15", "2012-08-16", "2012-08-17", "2012-08-20", "2012-08-21", "2012-08-22", "2012-08-23", "2012-08-24"],
         "2012-08-27"),
    ],
)  # fmt: skip
def test_times_go_on_as_they_are_written(texts: list[str], then: str) -> None:
    assert time_axis(texts).after(1) == (then,)


def test_dates_are_read_so_that_their_steps_are_even(tmp_path: Path) -> None:
    """Months written with the month first are no days of January."""
    months = [f"{month:02}/01/{year}" for year in (2012, 2013, 2014) for month in range(1, 13)]
    text = "".join(f"{month},{number}\n" for number, month in enumerate(months))
    series = read_series(written(tmp_path / "a.csv", "month,A\n" + text), SeriesOptions())
    assert series.times.spacing == Spacing("months", 1)
    assert series.times.after(2) == ("01/01/2015", "02/01/2015")
    days = [f"{day:02}/{month:02}/2012" for month in (1, 2, 3) for day in range(1, 13)]
    assert time_axis(days).pattern == "%d/%m/%Y", "steps of a day, but for two"
    assert time_axis([day.replace("/", ".") for day in days]).pattern == "%d.%m.%Y"


def test_years_with_months_or_quarters_are_dates(tmp_path: Path) -> None:
    rows = "".join(f"{year},{quarter},{year - 1900}\n" for year in (1999, 2000, 2001) for quarter in (1, 2, 3, 4))
    series = read_series(written(tmp_path / "a.csv", "year,quarter,gdp\n" + rows), SeriesOptions())
    assert (series.time, series.columns, series.problems) == ("year", ("gdp",), [])
    assert series.times.after(2) == ("2002-01", "2002-04")
    rows = "".join(f"2001,{month},{day},{day}\n" for month in (1, 2) for day in range(1, 29))
    series = read_series(written(tmp_path / "b.csv", "Year,Month,Day,A\n" + rows), SeriesOptions())
    assert series.times.texts[:2] == ["2001-01-01", "2001-01-02"]


@pytest.mark.parametrize(
    "texts", [["9999-12-28", "9999-12-29"], ["9999-11-30", "9999-12-31"], ["9998-12-31", "9999-12-31"]]
)
def test_the_end_of_the_calendar_is_named(texts: list[str]) -> None:
    with pytest.raises(
        ValueError, match=f"the times end at {texts[-1]}, and there are no dates for the 3 rows after it"
    ):
        time_axis(texts).after(3)


def test_a_number_that_is_rounded_is_not_a_gap(tmp_path: Path) -> None:
    rows = "".join(f"{1949 + month / 12:.6f},{month}\n" for month in range(40))
    notes = read_series(written(tmp_path / "a.csv", "time,A\n" + rows), SeriesOptions()).notes
    assert not any("farther apart" in note for note in notes)


def test_a_known_pattern_and_spacing_stay() -> None:
    axis = time_axis(["01/02/2024", "02/02/2024"], "%d/%m/%Y", Spacing("business days", 1))
    assert axis.after(1) == ("05/02/2024",)


def test_rows_that_are_farther_apart_are_noted(tmp_path: Path) -> None:
    text = "t,A\n2024-01-01,1\n2024-01-02,2\n2024-01-05,3\n2024-01-06,3\n"
    notes = read_series(written(tmp_path / "a.csv", text), SeriesOptions()).notes
    assert f"1 row is farther apart, the first at {tmp_path}/a.csv:4" in notes[1]


def test_names_with_commas() -> None:
    assert named_in(joined(["price, EUR", "B"])) == ("price, EUR", "B")


# What is wrong


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("2024-01-03,,1", "no number in a column of numbers: A"),
        ("2024-01-03,NaN,1", "no number in a column of numbers: A"),
        ("2024-01-03,many,1", "text 'many' in a column of numbers: A"),
        ("2024-01-03,1,inf", "an infinite number 'inf' in a column of numbers: B"),
        ("2024-01-03,1", "expected 3 columns, found 2. Fix the row."),
        ("2024-01-03,1,2,3", "expected 3 columns, found 4. Fix the row."),
        ("", "empty line. Take it out."),
        ("2024-01-02,1,2", "the same time twice: 2024-01-02 after 2024-01-02 in {path}:3"),
        ("2023-12-30,1,2", "time goes back: 2023-12-30 after 2024-01-02 in {path}:3"),
        ("soon,1,2", "no time: 'soon' is not written as YYYY-MM-DD"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, row: str, what: str) -> None:
    lines = daily(20).splitlines()
    path = written(tmp_path / "a.csv", "\n".join([*lines[:3], row, *lines[4:]]) + "\n")
    (problem,) = read_series(path, SeriesOptions()).problems
    assert problem.where == f"{path}:4"
    assert problem.what.startswith(what.format(path=path))


@pytest.mark.parametrize("absurd", ["-3.4028e38", "1.797e308", "-9999", "99999", "1e20", "7e12"])
def test_a_number_that_stands_for_no_data_is_named(tmp_path: Path, absurd: str) -> None:
    lines = daily(40).replace("2024-01-09,80,81", f"2024-01-09,80,{absurd}")
    path = written(tmp_path / "a.csv", lines)
    (problem,) = read_series(path, SeriesOptions()).problems
    assert problem.where == f"{path}:10"
    assert problem.what == (
        f"'{float(absurd):g}', far from all others (1 to 391), in a column of numbers: B. "
        "Fix it, or carry the row before on with bad=skip."
    )
    assert read_series(path, SeriesOptions(bad="skip")).values[8].tolist() == [70.0, 71.0]


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 30 + [5.0] + [0.0] * 30,
        [float(n % 7) for n in range(50)] + [999.0] + [float(n % 990) for n in range(0, 50_000, 990)] + [980.0],
        [10.0 ** (n / 10) for n in range(100)],
        [9999.0, 9998.0, 10001.0] * 9,
        [-999.0] * 20,
    ],
)
def test_what_may_have_been_measured_is_no_problem(values: list[float]) -> None:
    assert read_series({"A": values}, SeriesOptions()).problems == []


def test_a_bad_row_carries_the_row_before_it_and_one_out_of_order_is_dropped(tmp_path: Path) -> None:
    lines = daily(6).splitlines()
    lines[3], lines[5] = "2024-01-03,,7", "2024-01-01,5,5"
    series = read_series(written(tmp_path / "a.csv", "\n".join(lines)), SeriesOptions(bad="skip"))
    assert series.values.tolist() == [[0, 1], [10, 11], [10, 11], [30, 31], [50, 51]]
    assert series.good.tolist() == [True, True, False, True, True]


def test_a_file_with_the_newest_row_first_is_turned_around(tmp_path: Path) -> None:
    head, *lines = daily(9).splitlines()
    lines[2] = "2024-01-03,,21"  # its place stays the one in the file
    forward, turned = (
        read_series(written(tmp_path / name, "\n".join([head, *rows]) + "\n"), SeriesOptions())
        for name, rows in (("a.csv", lines), ("b.csv", lines[::-1]))
    )
    assert turned.values.tolist() == forward.values.tolist()
    assert turned.times.after(1) == forward.times.after(1)
    assert [problem.where for problem in turned.problems] == [f"{tmp_path / 'b.csv'}:8"]
    assert any("the newest row comes first" in note for note in turned.notes)
    assert not any("the newest row comes first" in note for note in forward.notes)


def test_a_gap_in_a_column_that_nobody_reads_is_no_problem(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", daily(9).replace("2024-01-03,20,21", "2024-01-03,20,"))
    assert len(read_series(path, SeriesOptions()).problems) == 1
    assert not read_series(path, SeriesOptions(target="A", inputs="A")).problems


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"target": "a"}, "unknown column 'a'; known: A, B"),
        ({"inputs": "A,Bb"}, "unknown column 'Bb'; known: A, B. Did you mean 'B'?"),
        ({"time": "dya"}, "unknown column 'dya'; known: A, B, day. Did you mean 'day'?"),
        ({"columns": "A,E"}, "unknown column 'E'"),
        ({"target": "A,A"}, "the column A is named twice"),
        ({"time": "no", "target": "day"}, "the column day holds no numbers but text '2024-01-01'"),
    ],
)
def test_names_that_are_not_there(tmp_path: Path, options: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=re.escape(what)):
        read_series(written(tmp_path / "a.csv", daily(9)), SeriesOptions(**options))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,a\n1,2\n3,4\n", "several columns are named 'a'. Rename all but one."),
        ("name,kind\nx,y\nz,w\n", "no column holds numbers (1 has 'name', 2 has 'kind')."),
        ("name#kind\n1#2\n3#4\n", "If its cells are divided by something else, say separator=."),
        ("day,A\n2024-01-01,5 kg\n2024-01-02,6 kg\n", "no column holds numbers (A has '5 kg')."),
        ("when,A\nsoon,1\nlater,2\n", "the times in when cannot be read: 'soon'"),
    ],
)
def test_tables_that_are_no_series(tmp_path: Path, text: str, what: str) -> None:
    path = written(tmp_path / "a.csv", text)
    with pytest.raises(ValueError, match=re.escape(what)):
        read_series(path, SeriesOptions(time="when") if "when" in text else SeriesOptions())


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a series is a CSV or TSV file"):
        read_series(written(tmp_path / "a.jsonl", "{}\n"), SeriesOptions())


# Parts and windows


@pytest.mark.parametrize("split", ["0.7,0.2", "0.7,0.2,0.2", "10", "8,x,9", "0,5,5", "100,0.1,0.2"])
def test_a_split_is_shares_or_rows(split: str) -> None:
    with pytest.raises(ValueError, match="split must be shares of train, valid and test that add up to 1"):
        SeriesOptions(split=split)


def test_parts_by_hand() -> None:
    assert parts_of_series(7588, SeriesOptions(), "") == [RowRange(0, 5311), RowRange(5311, 6071), RowRange(6071, 7588)]
    parts = parts_of_series(17420, SeriesOptions(split="8640,2880,2880"), "")
    assert parts == [RowRange(0, 8640), RowRange(8640, 11520), RowRange(11520, 14400)]
    assert parts_of_series(10, SeriesOptions(split="0.8,0.2"), "") == [RowRange(0, 8), RowRange(8, 10)]
    with pytest.raises(
        ValueError, match=r"a.csv has 17 rows, and split=10,5,5 asks for 20. Ask for fewer, or for shares"
    ):
        parts_of_series(17, SeriesOptions(split="10,5,5"), "a.csv")


def test_n_rows_have_n_less_horizon_plus_one_windows() -> None:
    series = read_series(np.arange(97.0), SeriesOptions())
    size = WindowSize(11, 5)
    assert len(windows_in(series, RowRange(0, 60), size)) == 60 - 11 - 5 + 1
    test = windows_in(series, RowRange(60, 97), size)
    assert len(test) == 37 - 5 + 1
    assert (test[0].value.first, test[0].where, test[-1].value.first) == (60, "row 61", 92)


def test_no_window_has_to_predict_a_bad_row() -> None:
    values = [float(n) for n in range(40)]
    values[20] = float("nan")
    series = read_series({"A": values}, SeriesOptions(bad="skip"))
    firsts = [record.value.first for record in windows_in(series, RowRange(0, 40), WindowSize(4, 3))]
    assert firsts == [*range(4, 18), *range(21, 38)]


@pytest.mark.parametrize(("rows", "lookback", "horizon"), [(8640, 336, 96), (880, 96, 24), (60, 8, 2), (7, 4, 1)])
def test_short_series_have_short_windows(rows: int, lookback: int, horizon: int) -> None:
    assert window_size(SeriesOptions(), rows, [rows // 7, rows // 3]) == WindowSize(lookback, horizon)


def test_too_few_rows_are_reported_with_the_way_out() -> None:
    series = read_series(np.arange(30.0), SeriesOptions())
    what = (
        "the data: 20 rows to learn from are too few: lookback=18 and horizon=3 need at least 21. "
        "Give more rows, another split=, or a smaller lookback= and horizon=."
    )
    with pytest.raises(ValueError, match=re.escape(what)):
        require_rows(series, [RowRange(0, 20), RowRange(20, 30)], WindowSize(18, 3))
    with pytest.raises(
        ValueError, match="10 rows to validate on are too few: lookback=4 and horizon=11 need at least 11"
    ):
        require_rows(series, [RowRange(0, 20), RowRange(20, 30)], WindowSize(4, 11))
