"""`seeds=N`: a run for every seed, their mean and deviation, and the best of them as the run."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from mirada.runs import train as training
from mirada.runs.load import load
from mirada.runs.report import details
from mirada.runs.train import execute
from tests.runs.small import QUICK, quiet, request, reviews, trained, write_rows

KEYS = (*QUICK, "seeds=3")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "reviews.tsv", reviews())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, data: str) -> Path:
    return trained("classify", data, tmp_path_factory.mktemp("runs") / "three", *KEYS, seed=4).folder


def told(folder: Path) -> dict:
    return json.loads((folder / "seeds.json").read_text(encoding="utf-8"))


def test_every_seed_is_the_run_it_would_be_alone(folder: Path, data: str, tmp_path: Path) -> None:
    alone = trained("classify", data, tmp_path / "alone", *QUICK, seed=5)
    assert (alone.folder / "model.safetensors").read_bytes() == (folder / "seed-5" / "model.safetensors").read_bytes()
    assert [one["seed"] for one in told(folder)["runs"]] == [4, 5, 6]
    assert told(folder)["runs"][1]["metrics"] == alone.measure()


def test_the_mean_and_the_deviation_by_hand(folder: Path) -> None:
    found = told(folder)
    for name, mean in found["mean"].items():
        values = [one["metrics"][name] for one in found["runs"]]
        assert mean == pytest.approx(sum(values) / 3)
        assert found["deviation"][name] == pytest.approx(statistics.stdev(values))


def test_what_validated_best_is_the_run(folder: Path) -> None:
    found = told(folder)
    best = min(found["runs"], key=lambda one: one["best"])
    assert found["chosen"] == best["seed"]
    run = load(folder)
    there = folder / f"seed-{best['seed']}"
    assert run.measure() == best["metrics"]
    assert (folder / "model.safetensors").read_bytes() == (there / "model.safetensors").read_bytes()
    assert (run.settings.recipe.seed, run.settings.recipe.seeds) == (4, 3)
    assert dict(details(run))["seed"] == str(best["seed"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"This page is about seed {best['seed']}, which validated best." in page


def test_all_is_printed(data: str, tmp_path: Path) -> None:
    lines: list[str] = []
    asked = request("classify", data, *QUICK, "seeds=2", out=str(tmp_path / "two"))
    execute(asked, quiet, lines.append)
    assert lines[0].startswith("seed 0: accuracy ")
    assert lines[1].startswith("seed 1: accuracy ")
    assert lines[2].startswith("on ")
    assert " validated best: it is the run in " in lines[-2]
    assert lines[-1].startswith("mean ± standard deviation of 2 seeds: accuracy ")


def test_a_command_that_was_stopped_resumes_with_the_remaining_seeds(
    folder: Path, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    whole = training.train_and_measure

    def stops(asked, *rest):
        begun.append(asked.seed)
        if begun == [4, 5]:
            raise KeyboardInterrupt
        return whole(asked, *rest)

    monkeypatch.setattr(training, "train_and_measure", stops)
    with pytest.raises(KeyboardInterrupt):
        trained("classify", data, tmp_path / "three", *KEYS, seed=4)
    with pytest.raises(ValueError, match=r"has no model yet: its training stopped too early. Go on with --resume."):
        load(tmp_path / "three")
    run = trained("classify", data, tmp_path / "three", resume=True)
    assert begun == [4, 5, 5, 6], "the first was done"
    assert told(run.folder) == told(folder)
    again = trained("classify", data, tmp_path / "three", *KEYS, seed=4, resume=True)
    assert begun == [4, 5, 5, 6], "all are done"
    assert again.measure() == run.measure()


def test_data_in_memory_has_seeds_too(tmp_path: Path) -> None:
    run = trained("classify", reviews(), tmp_path / "two", *QUICK, "seeds=2")
    assert len(told(run.folder)["runs"]) == 2


def test_minutes_are_shared(data: str, tmp_path: Path) -> None:
    keys = [key for key in QUICK if not key.startswith("steps=")]
    run = trained("classify", data, tmp_path / "two", *keys, "seeds=2", minutes=0.02)
    assert [load(run.folder / f"seed-{n}").settings.recipe.minutes for n in (0, 1)] == [0.01, 0.01]
    assert run.settings.recipe.minutes == 0.02


def test_a_mistake_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        trained("classify", str(tmp_path / "missing.tsv"), tmp_path / "run", *KEYS)
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match="seeds must be at least 1: got 0"):
        trained("classify", "", tmp_path / "run", "seeds=0")


@pytest.mark.parametrize(("keys", "wanted"), [(("epochs=1",), (0, 1)), (("steps=2",), (2, 5))])
def test_every_seed_is_as_long_as_was_asked_for(tmp_path: Path, data: str, keys: tuple, wanted: tuple) -> None:
    sizes = [key for key in QUICK if not key.startswith("steps=")]
    run = trained("classify", data, tmp_path / "run", *sizes, *keys, "seeds=2")
    for folder in (run.folder, run.folder / "seed-0", run.folder / "seed-1"):
        recipe = load(folder).settings.recipe
        assert (recipe.steps, recipe.epochs, recipe.minutes) == (*wanted, 0.0)


BROKEN = (
    '{"a": 1}', "[]", "no JSON", "[" * 100_000, '{"chosen": 0, "mean": {}, "deviation": {}, "runs": []}',
    '{"chosen": "0", "mean": {}, "deviation": {}, "runs": [{"seed": 0, "best": 1, "metrics": {}}]}',
    '{"chosen": 0, "mean": {"a": 1}, "deviation": {}, "runs": [{"seed": 0, "best": 1, "metrics": {}}]}',
    '{"chosen": 0, "mean": {}, "deviation": {}, "runs": [{"seed": 0, "best": "low", "metrics": {}}]}',
    '{"chosen": 0, "mean": {}, "deviation": {}, "runs": [7]}',
)  # fmt: skip


@pytest.mark.parametrize("content", BROKEN, ids=lambda content: content[:60])
def test_a_file_of_seeds_that_is_broken_is_reported_before_the_first_step(
    data: str, tmp_path: Path, content: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "seeds.json").write_text(content)
    steps: list[str] = []
    with pytest.raises(ValueError, match=r"seeds\.json (is not JSON|does not hold|must hold)"):
        execute(request("classify", data, *QUICK, out=str(run)), steps.append, quiet)
    assert not any("step" in line for line in steps)


def test_a_broken_file_of_seeds_is_written_again_where_there_are_seeds(folder: Path, data: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "seeds.json").write_text('{"a": 1}')
    trained("classify", data, copy, resume=True)
    assert told(copy) == told(folder)
