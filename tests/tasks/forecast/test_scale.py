"""What a run knows of its series, written to files and read back; changes in the files are named."""

import json
import os
from datetime import date, timedelta
from pathlib import Path

import pytest

from mirada.tasks.forecast.scale import BASELINE, LATEST, SeriesScale
from mirada.tasks.forecast.series import SeriesOptions, read_series
from mirada.tasks.forecast.windows import DividedSeries, RowRange, WindowSize


@pytest.fixture(params=["day", ""])
def scale(tmp_path: Path, request: pytest.FixtureRequest) -> SeriesScale:
    path, days = tmp_path / "a.csv", [date(2024, 1, 1) + timedelta(days=n) for n in range(30)]
    head = "day,A,B\n" if request.param else "A,B\n"
    rows = [f"{f'{day},' if request.param else ''}{n * 3 % 11},{n * n % 7}\n" for n, day in enumerate(days)]
    path.write_text(head + "".join(rows))
    series = read_series(str(path), SeriesOptions())
    return SeriesScale.learn(DividedSeries((series,), (RowRange(0, 30),), WindowSize(5, 2)))


def kept(scale: SeriesScale, folder: Path) -> tuple[dict, dict[str, Path]]:
    for name, content in scale.contents().items():
        (folder / name).write_bytes(content)
    return json.loads(json.dumps(scale.facts())), {name: folder / name for name in SeriesScale.files}


def test_it_is_restored_as_it_was(scale: SeriesScale, tmp_path: Path) -> None:
    after = SeriesScale.restore(*kept(scale, tmp_path))
    assert (after.facts(), after.contents()) == (scale.facts(), scale.contents())


@pytest.mark.parametrize("name", [BASELINE, LATEST])
def test_a_pipe_does_not_block(scale: SeriesScale, tmp_path: Path, name: str) -> None:
    facts, paths = kept(scale, tmp_path)
    paths[name].unlink()
    os.mkfifo(paths[name])
    with pytest.raises(ValueError, match=rf"{name} is no ordinary file"):
        SeriesScale.restore(facts, paths)


ODD = [
    {"inputs": "AB"}, {"inputs": []}, {"inputs": [1, 2]}, {"inputs": ["A", "A"]}, {"targets": None}, {"lookback": 2**40},
    {"lookback": 0}, {"lookback": "5"}, {"horizon": True}, {"horizon": 3}, {"time": 7}, {"pattern": None}, {"mean": [1.0]},
    {"mean": ["a", "b"]}, {"mean": 3}, {"std": [0.0, 1.0]}, {"std": [float("nan"), 1.0]}, {"std": [10**400, 1.0]},
    {"spacing": {}}, {"spacing": 7}, {"spacing": {"kind": "days", "step": "x"}}, {"shares": [1]}, {"shares": [10**400, 0, 0]},
    {"spacing": {"kind": "seconds", "step": 1.0, "more": 2}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_facts_of_no_series_are_reported(scale: SeriesScale, tmp_path: Path, odd: dict) -> None:
    facts, paths = kept(scale, tmp_path)
    with pytest.raises(ValueError, match=r"config\.json does not hold the scale of the series|has weights of"):
        SeriesScale.restore(facts | odd, paths)
    for name in odd:
        facts.pop(name)
    if "shares" not in odd:  # runs from before have none
        with pytest.raises(ValueError, match=r"config\.json does not hold the scale of the series"):
            SeriesScale.restore(facts, paths)
