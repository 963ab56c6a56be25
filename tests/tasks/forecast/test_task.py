"""forecast: from a table to the next rows, through Python and the commands, with every error on the way."""

import csv
import io
import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Source
from mirada.tasks.forecast.series import SeriesOptions, read_series
from mirada.tasks.forecast.task import Forecast
from mirada.tasks.forecast.windows import in_order_of_time
from mirada.training.loop import Interrupted, Training
from tests.cli.conftest import Command, mirada  # noqa: F401
from tests.runs.small import request, trained

ROWS, LOOKBACK, HORIZON = 160, 12, 4
QUICK = ("width=8", "hidden=8", "heads=2", "depth=1", "steps=6", "validate=3", "patch=4", "warmup=2", "batch_size=16")
KEYS = (*QUICK, f"lookback={LOOKBACK}", f"horizon={HORIZON}")


def waves(rows: int = ROWS) -> dict[str, list[Any]]:
    """Two waves, a constant and a word, on business days."""
    days = [date(2024, 1, 1) + timedelta(days=n) for n in range(2 * rows)]
    time = np.arange(rows)
    return {
        "day": [day.isoformat() for day in days if day.weekday() < 5][:rows],
        "A": (50 + 9 * np.sin(time / 5)).round(3).tolist(),
        "B": (7 + 2 * np.cos(time / 3)).round(3).tolist(),
        "flat": [3.0] * rows,
        "name": ["x"] * rows,
    }


def write(path: Path, table: dict[str, list[Any]]) -> str:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(table), *zip(*table.values(), strict=True)])
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("data") / "waves.csv", waves())


@pytest.fixture(scope="module")
def run(data: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "waves"
    return load(trained("forecast", data, folder, *KEYS, "target=A", "split=100,20,40").folder)


# Windows, scale, metrics


def test_the_split_by_hand(run: Run) -> None:
    splits = run.splits()
    train, valid, test = ([record.value.first for record in part] for part in (splits.train, splits.valid, splits.test))
    assert train == list(range(LOOKBACK, 100 - HORIZON + 1))
    assert valid == list(range(100, 120 - HORIZON + 1))
    assert test == list(range(120, 160 - HORIZON + 1))
    assert splits.test[0].where.endswith("waves.csv:122")  # a header, then rows from 2


def test_the_scale_is_that_of_the_training_rows(run: Run) -> None:
    table = waves()
    assert run.known.columns == ("A", "B", "flat")
    expected = np.array([table[name][:100] for name in run.known.columns])
    np.testing.assert_allclose(run.known.mean, expected.mean(1))
    np.testing.assert_allclose(run.known.std, [expected[0].std(), expected[1].std(), 1.0])


def test_metrics_are_means_over_all_windows_and_repeat_is_by_hand(run: Run) -> None:
    metrics = run.measure()
    assert list(metrics)[:6] == ["mse", "mae", "mse_repeat", "mae_repeat", "mse_linear", "mae_linear"]
    a = (np.array(waves()["A"]) - run.known.mean[0]) / run.known.std[0]
    errors = [a[first + step] - a[first - 1] for first in range(120, 157) for step in range(HORIZON)]
    assert metrics["mse_repeat"] == pytest.approx(np.square(errors).mean())
    assert metrics["mae_repeat"] == pytest.approx(np.abs(errors).mean())
    assert metrics["mse_linear"] < 0.01 < metrics["mse_repeat"]  # a wave is linear in its past


def test_our_error_is_that_of_the_answers(run: Run) -> None:
    """The error of one window by hand, in standardized units."""
    table, records = waves(), run.splits().test
    latest = {name: cells[108:120] for name, cells in table.items()}
    values = np.array(run(latest).more["values"])[:, 0]
    _, answers = run.task.measure(run, records)
    expected = np.square((values - table["A"][120:124]) / run.known.std[0]).mean()
    assert answers[0].score == pytest.approx(expected, rel=1e-2)  # the answer is written with few digits


def test_a_batch_has_the_rows_of_its_windows(run: Run) -> None:
    examples = run.examples(run.splits().valid)
    part = examples.part([0, 3], 0)
    a = torch.tensor((np.array(waves()["A"]) - run.known.mean[0]) / run.known.std[0]).float()
    torch.testing.assert_close(part.inputs["series"][1, :, 0], a[91:103])
    torch.testing.assert_close(part.inputs["first"][1], a[102:103])
    torch.testing.assert_close(part.inputs["wanted"][1, :, 0], a[103:107])
    assert part.counts == (2 * HORIZON,)


def test_validation_batches_are_made_when_asked_for(run: Run) -> None:
    task, examples = Forecast(), run.examples(run.splits().train)
    batches = task.in_order(examples, run.settings.recipe)
    assert sum(len(batch.inputs["series"]) for batch in batches) == len(examples)
    assert len(batches[0:1]) == 1


def test_a_resumed_run_ends_with_the_same_bits(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (*KEYS, "target=A", "dropout=0.3")
    whole = trained("forecast", data, tmp_path / "whole", *keys)
    step = Training.step

    def stopped(self: Training, state: Any, stop: bool) -> Any:
        if state.step == 4 and state.steps == 6:
            raise KeyboardInterrupt
        return step(self, state, stop)

    monkeypatch.setattr(Training, "step", stopped)
    with pytest.raises(Interrupted):
        trained("forecast", data, tmp_path / "parts", *keys)
    monkeypatch.undo()
    parts = trained("forecast", data, tmp_path / "parts", *keys, resume=True)
    for name in ("model.safetensors", "baseline.safetensors", "latest.csv"):
        assert (parts.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_eval_of_another_file_has_the_training_scale_and_all_its_windows(run: Run, tmp_path: Path) -> None:
    other = waves(40)
    path = write(tmp_path / "other.csv", other)
    splits = run.splits(path)
    assert len(splits.test) == 40 - LOOKBACK - HORIZON + 1
    a = (np.array(other["A"]) - run.known.mean[0]) / run.known.std[0]
    errors = [a[first + step] - a[first - 1] for first in range(LOOKBACK, 37) for step in range(HORIZON)]
    assert run.measure(path)["mse_repeat"] == pytest.approx(np.square(errors).mean())


def test_parts_with_a_file_each(tmp_path: Path) -> None:
    for name, rows in (("train", 90), ("valid", 40), ("test", 30)):
        write(tmp_path / f"{name}.csv", waves(rows))
    run = trained("forecast", str(tmp_path), tmp_path / "run", *KEYS, "target=A")
    splits = run.splits()
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [75, 25, 15]
    again = trained(
        "forecast", str(tmp_path / "train.csv"), tmp_path / "two", *KEYS, "target=A", valid=str(tmp_path / "valid.csv")
    )
    assert [len(part) for part in (again.splits().train, again.splits().valid)] == [75, 25]
    with pytest.raises(ValueError, match="split= divides one file, and here the parts are given"):
        trained("forecast", str(tmp_path), tmp_path / "three", *KEYS, "split=0.8,0.1,0.1")


# Answers


def test_the_answer_goes_on_with_business_days(run: Run, data: str) -> None:
    answer = run(data)
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["day", "A"]
    last = date.fromisoformat(waves()["day"][-1])
    following = [last + timedelta(days=n) for n in range(1, 10)]
    assert [row[0] for row in rows[1:]] == [day.isoformat() for day in following if day.weekday() < 5][:HORIZON]
    assert answer.more["columns"] == ["A"]
    np.testing.assert_allclose([float(row[1]) for row in rows[1:]], np.array(answer.more["values"])[:, 0], atol=1e-3)


def test_weights_have_labels_and_the_answer_can_be_looked_at(run: Run, data: str) -> None:
    answer = run(data)
    assert answer.written == ("A",)
    assert len(answer.read) == 9  # three patches of three columns
    assert answer.read[0].startswith("A 2024-")
    assert answer.weights is not None
    assert answer.weights.shape == (1, 9)
    torch.testing.assert_close(answer.weights.sum(-1), torch.ones(1))
    assert answer.look().names == ["body.encoder.layers.0.self"]


def test_rows_in_memory_and_in_files_have_the_same_answer(run: Run, data: str) -> None:
    assert run(waves()).text == run(Path(data)).text == run(data).text


@pytest.mark.parametrize("keys", [(), ("channels=apart",), ("channels=across",), ("kind=encoder-decoder",)])
def test_every_kind_of_model_without_times(tmp_path: Path, keys: tuple[str, ...]) -> None:
    values = np.stack([np.sin(np.arange(90) / 4), np.cos(np.arange(90) / 4)], axis=1)
    run = trained("forecast", values, tmp_path / "run", *KEYS, *keys)
    answer = run(values)
    assert answer.text.splitlines()[0] == "1,2"
    assert answer.more["times"] == ["91", "92", "93", "94"]
    assert answer.weights is not None
    assert answer.weights.shape == (len(answer.written), len(answer.read))


def test_an_lstm_looks_from_every_time_to_come(data: str, tmp_path: Path) -> None:
    run = trained("forecast", data, tmp_path / "run", *KEYS[:-2], "lookback=12", "horizon=4", model="lstm-attention")
    answer = run(data)
    assert answer.weights is not None
    assert answer.weights.shape == (HORIZON, LOOKBACK)
    assert answer.written == tuple(answer.more["times"])
    torch.testing.assert_close(answer.weights.sum(-1), torch.ones(HORIZON))


def test_a_target_that_is_not_read(data: str, tmp_path: Path) -> None:
    run = trained("forecast", data, tmp_path / "run", *KEYS, "target=A", "inputs=B")
    latest = {"day": waves()["day"], "B": waves()["B"]}  # A is not needed
    assert run(latest).more["columns"] == ["A"]
    assert run.known.own == 0


# The commands


def test_the_commands(mirada: Command, run: Run, data: str, tmp_path: Path) -> None:  # noqa: F811
    done = mirada("run", run.folder, data, "--json")
    told = json.loads(done.out)
    assert set(told) == {"input", "text", "score", "times", "columns", "values", "low", "high", "interval"}
    assert (done.code, told["score"], len(told["times"])) == (0, None, HORIZON)
    done = mirada("run", run.folder, data)
    assert done.out.strip() == told["text"].strip()
    out = tmp_path / "next.csv"
    done = mirada("run", run.folder, "--data", data, "-o", out)
    assert (done.code, out.read_text()) == (0, told["text"])
    assert f"{HORIZON} rows written to {out}" in done.err
    done = mirada("eval", run.folder, "--json")
    metrics = json.loads(done.out)
    assert {"mse", "mae", "mse_repeat", "mae_repeat", "mse_linear", "mae_linear", "verdict"} <= set(metrics)
    assert metrics["windows"] == 37
    assert mirada("eval", run.folder, "--data", data, "--json").code == 0
    done = mirada("check", "forecast", "--data", data, *KEYS)
    assert (done.code, "0 bad" in done.out) == (0, True)


def test_how_the_latest_rows_are_read_can_be_said(mirada: Command, run: Run, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "new.csv"
    path.write_text((run.folder / "latest.csv").read_text().replace(",", "#"))
    before = mirada("run", run.folder, run.folder / "latest.csv").out
    assert mirada("run", run.folder, path, "separator=#").out == before != ""


def test_too_few_latest_rows(mirada: Command, run: Run, tmp_path: Path) -> None:  # noqa: F811
    path = write(tmp_path / "short.csv", waves(7))
    done = mirada("run", run.folder, path)
    assert done.code == 1
    assert f"{path}: a forecast reads the last 12 rows, and there are 7." in done.err


def test_a_header_that_was_forgotten(mirada: Command, run: Run, data: str, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "latest.csv"
    path.write_text("\n".join(Path(data).read_text(encoding="utf-8").splitlines()[-20:]), encoding="utf-8")
    done = mirada("run", run.folder, path)
    assert done.code == 1
    assert "unknown column 'A'; known: 2, 3, 4, 5. The first line names no columns: add a header" in done.err


def test_a_target_that_never_changes_is_said(mirada: Command, data: str) -> None:  # noqa: F811
    told = mirada("check", "forecast", "--data", data, *KEYS).out
    assert f"{data}: flat never changes in the rows to learn from" in told
    assert "never changes" not in mirada("check", "forecast", "--data", data, *KEYS, "target=A,B").out


def broken(change: Callable[[list[str]], None]) -> str:
    file = io.StringIO()
    table = waves()
    csv.writer(file, lineterminator="\n").writerows([list(table), *zip(*table.values(), strict=True)])
    lines = file.getvalue().splitlines()
    change(lines)
    return "\n".join(lines) + "\n"


def with_cell(row: int, column: int, text: str) -> Callable[[list[str]], None]:
    """Another text in one cell."""

    def change(lines: list[str]) -> None:
        cells = lines[row].split(",")
        cells[column] = text
        lines[row] = ",".join(cells)

    return change


CHANGES: dict[str, Callable[[list[str]], None]] = {
    "no number in a column of numbers: B": with_cell(30, 2, ""),
    "text 'oops' in a column of numbers: A": with_cell(30, 1, "oops"),
    "an infinite number 'inf' in a column of numbers: A": with_cell(30, 1, "inf"),
    "expected 5 columns, found 1": lambda lines: lines.__setitem__(30, "2024-02-09"),
    "time goes back": lambda lines: lines.__setitem__(30, lines[10]),
    "the same time twice": lambda lines: lines.__setitem__(30, lines[29]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_bad_rows_stop_a_training_and_may_be_skipped(mirada: Command, tmp_path: Path, what: str) -> None:  # noqa: F811
    path = tmp_path / "bad.csv"
    path.write_text(broken(CHANGES[what]))
    done = mirada("train", "forecast", "--data", path, "--out", tmp_path / "run", *KEYS, "target=A")
    assert done.code == 2
    assert f"{path}:31: {what}" in done.err
    assert "bad=skip" in done.err
    done = mirada("check", "forecast", "--data", path, *KEYS, "target=A")
    assert (done.code, f"{path}:31: {what}" in done.out) == (1, True)
    done = mirada("train", "forecast", "--data", path, "--out", tmp_path / "run", *KEYS, "target=A", "bad=skip")
    assert done.code == 0
    assert "1 bad record" in done.err
    assert "what a bad row would say is carried on from the row before it, and no window has to predict it" in done.err


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (("target=C",), "unknown column 'C'; known: A, B, flat, name"),
        (("time=dayy",), "unknown column 'dayy'; known: A, B, day, flat, name. Did you mean 'day'?"),
        (("lookback=200",), "112 rows to learn from are too few: lookback=200 and horizon=4 need at least 204"),
        (("horizon=20",), "16 rows to validate on are too few: lookback=12 and horizon=20 need at least 20"),
        (("split=100,50,50",), "waves.csv has 160 rows, and split=100,50,50 asks for 200"),
        (("split=0.5,0.1",), "split must be shares of train, valid and test that add up to 1"),
        (("target=name",), "the column name holds no numbers but text 'x'"),
    ],
)
def test_what_cannot_be_trained(mirada: Command, data: str, tmp_path: Path, keys: tuple[str, ...], what: str) -> None:  # noqa: F811
    given = [key for key in KEYS if key.split("=")[0] not in {word.split("=")[0] for word in keys}]
    done = mirada("train", "forecast", "--data", data, "--out", tmp_path / "run", *given, *keys)
    assert done.code == 2
    assert what in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "run").exists()


def test_a_bad_row_among_the_latest_is_named(mirada: Command, run: Run, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "latest.csv"
    path.write_text(broken(with_cell(158, 1, "oops")))
    done = mirada("run", run.folder, path)
    assert (done.code, f"{path}:159: text 'oops'" in done.err) == (1, True)
    path.write_text(broken(CHANGES["text 'oops' in a column of numbers: A"]))  # long before what is read
    assert mirada("run", run.folder, path).code == 0


def test_a_run_that_starts_from_another_reads_the_same_columns(run: Run, data: str, tmp_path: Path) -> None:
    again = trained("forecast", data, tmp_path / "again", *QUICK, "split=100,20,40", start=str(run.folder))
    assert again.known.targets == ("A",)
    other = write(tmp_path / "other.csv", {name: cells for name, cells in waves().items() if name != "flat"})
    with pytest.raises(ValueError, match="a run that starts from another reads the same columns: A, B, flat with"):
        trained("forecast", other, tmp_path / "other", *QUICK, start=str(run.folder))


def test_the_report_has_the_truth_next_to_plain_forecasts(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Beside plain forecasts" in page
    assert "repeating the last value" in page
    assert "Worst errors" in page


@pytest.mark.slow
def test_embedded_prices_beat_both_baselines(tmp_path: Path) -> None:
    run = trained("forecast", "", tmp_path / "run")
    found = run.measure()
    assert found["mse"] < 0.6 * min(found["mse_repeat"], found["mse_linear"])
    answer = run(str(run.folder / "latest.csv"))
    by_column = {name: sum(w for w, label in zip(answer.weights[0].tolist(), answer.read, strict=True)
                           if label.startswith(f"{name} ")) for name in "ABC"}  # fmt: skip
    assert by_column["B"] > by_column["C"]


def test_builtin_windows_are_the_same_every_time() -> None:
    task, settings = Forecast(), request("forecast").settings()
    once, again = (task.read(Source(), settings.data) for _ in range(2))
    assert [task.identity(r.value) for r in once.test] == [task.identity(r.value) for r in again.test]
    assert once.whole.series[0].targets == ("A",)


def test_validation_says_how_much_attention_counts_next_to_plain_forecasts(run: Run) -> None:
    """A wave is linear in its past, and six steps teach a model nothing: the answer is all but linear."""
    model, *plain = run.known.shares
    assert model + sum(plain) == pytest.approx(1.0)
    assert model < 0.1
    metrics = run.measure()
    best = min(value for name, value in metrics.items() if name.startswith("mse_"))
    assert metrics["mse"] <= 1.5 * best
    again = load(run.folder)
    assert again.known.shares == run.known.shares
    assert "attention does not help on this data" in again.measured(again.splits()).details["verdict"]


@pytest.mark.parametrize("monthly", [False, True])
def test_dates_to_the_end_of_the_calendar_are_refused_before_the_training(tmp_path: Path, monthly: bool) -> None:
    table = waves()
    last = date(9999, 12, 31 if not monthly else 1)
    days = [last - timedelta(days=n) for n in range(ROWS)]
    if monthly:
        days = [date(9999 - n // 12, 12 - n % 12, 1) for n in range(ROWS)]
    table["day"] = [day.isoformat() for day in reversed(days)]
    path = write(tmp_path / "end.csv", table)
    with pytest.raises(ValueError, match=f"the times end at {last}, and there are no dates for the 4 rows after it"):
        trained("forecast", path, tmp_path / "run", *KEYS, "target=A")
    assert not (tmp_path / "run").exists()


# What data and minutes decide


def test_more_minutes_afford_the_larger_model_and_short_windows_have_short_patches() -> None:
    values = np.sin(np.arange(3000.0)[:, None] / np.array([3.0, 5.0]))
    options = SeriesOptions(lookback=96, horizon=24)
    splits = in_order_of_time([read_series(values, options)], options)
    task = Forecast()
    little, much = (task.choose("transformer", splits, options, minutes) for minutes in (0.01, 20.0))
    assert [choice.model["width"] for choice in (little, much)] == [32, 64]
    assert much.model["patch"] == 8
    assert "minutes" not in much.recipe
    alone = task.choose("transformer", splits, options, 0.0)
    assert alone == task.choose("transformer", splits, options, 0.0)
    assert {"epochs", "minutes"} & set(alone.recipe)
    assert task.choose("lstm-attention", splits, options, 0.0).model == {}


def test_a_tiny_series_has_a_small_model_and_many_steps() -> None:
    options = SeriesOptions(season=0)
    months = 100 + np.arange(144.0) + 30 * np.sin(2 * np.pi * np.arange(144) / 12)
    splits = in_order_of_time([read_series(months[:, None], options)], options)
    assert (splits.whole.size.lookback, splits.whole.size.horizon) == (36, 3)
    choice = Forecast().choose("transformer", splits, options, 0.0)
    steps = choice.recipe["epochs"] * -(-len(splits.train) // choice.recipe["batch_size"])
    assert (choice.model["width"], choice.model["patch"]) == (32, 4)
    assert steps > 1000
    assert choice.why == "62 windows of 1 column"


def test_an_old_run_reads_windows_as_it_did() -> None:
    """What a new run finds in the data is an option that runs from before do not have."""
    months = 100 + 30 * np.sin(2 * np.pi * np.arange(144) / 12)
    options = SeriesOptions()
    assert in_order_of_time([read_series(months[:, None], options)], options).whole.size.lookback == 12
    usual = Forecast().defaults("transformer", Source("a.csv"), 0.0)["data"]
    assert (usual["series"], usual["season"]) == ("auto", 0)
    assert (options.series, options.season) == ("no", 1)


def test_a_series_to_the_end_of_the_calendar_is_refused_before_the_training(tmp_path: Path) -> None:
    days = [date(9999, 12, 31) - timedelta(days=n) for n in reversed(range(ROWS))]
    path = write(tmp_path / "end.csv", {**waves(), "day": [day.isoformat() for day in days]})
    with pytest.raises(ValueError, match="the times end at 9999-12-31, and there are no dates for the 4 rows after it"):
        trained("forecast", path, tmp_path / "run", *KEYS, "target=A")
    assert not (tmp_path / "run" / "config.json").exists()
