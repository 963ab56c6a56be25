"""What a run learned from, read again for its plain baselines: when it can be, and what is said when not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mirada.runs import run as running
from mirada.runs.load import load
from mirada.runs.run import NoTrainingDataError, Run, learned_from
from mirada.runs.sources import embedded
from mirada.tasks.classify import task as classify
from mirada.training.metrics import accuracy
from tests.cli.conftest import Command
from tests.cli.conftest import mirada as command  # noqa: F401 (a fixture)
from tests.runs.small import QUICK, questions, reviews, trained, write_questions, write_rows

OTHERS = [("the opera was lovely", "good"), ("a sad opera", "bad"), ("an awful opera", "bad")]


@pytest.fixture
def mirada(request: pytest.FixtureRequest) -> Command:
    return request.getfixturevalue("command")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(write_rows(tmp_path / "reviews.tsv", [*reviews(), ("one column",)]))


@pytest.fixture
def run(tmp_path: Path, data: Path) -> Run:
    return load(trained("classify", str(data), tmp_path / "run", *QUICK, "bad=skip").folder)


@pytest.fixture
def others(tmp_path: Path) -> str:
    return write_rows(tmp_path / "others.tsv", OTHERS)


def test_exactly_the_records_of_the_training(run: Run) -> None:
    assert [record.where for record in learned_from(run)] == [record.where for record in run.splits().train]


def test_other_data_has_the_same_baselines_next_to_its_metrics(run: Run, others: str) -> None:
    found = run.measure(others)
    assert set(found) == {"accuracy", "macro_f1", "accuracy_linear", "accuracy_majority"}
    labels = [record.value[1] for record in run.splits().train]
    often = max(sorted(set(labels)), key=labels.count)
    assert found["accuracy_majority"] == accuracy([often] * 3, [label for _, label in OTHERS])
    assert run.measured(run.splits(others)).note == ""


def test_where_the_data_is_gone_or_changed_that_is_said_and_the_figures_stay(
    mirada: Command, run: Run, data: Path, others: str
) -> None:
    whole = run.measure(others)
    data.write_text(data.read_text(encoding="utf-8") + "new\tgood\n", encoding="utf-8")
    done = mirada("eval", run.folder, "--data", others, "--json")
    assert done.code == 0
    assert {"accuracy": whole["accuracy"]}.items() <= json.loads(done.out).items()
    assert "accuracy_majority" not in json.loads(done.out)
    assert done.err == (
        f"mirada: no plain baseline beside these figures: {data} has changed since this run was trained\n"
    )
    data.unlink()
    with pytest.raises(NoTrainingDataError, match="no such file"):
        learned_from(run)
    assert set(run.measure(others)) == {"accuracy", "macro_f1"}


def test_builtin_data_is_read_again_and_must_be_the_same(
    tmp_path: Path, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = embedded("sentiment")
    some = replace(whole, train=whole.train[:200], valid=whole.valid[:20], test=whole.test[:20], probes={})
    monkeypatch.setattr(classify, "embedded", lambda corpus: some)
    run = load(trained("classify", "", tmp_path / "builtin", *QUICK).folder)
    rows = write_rows(tmp_path / "rows.tsv", [("a lovely film", run.known.labels[0]), ("sad", run.known.labels[1])])
    assert "accuracy_linear" in run.measure(rows)
    run.settings = replace(run.settings, fingerprint="of another version")
    found = run.measured(run.splits(rows))
    assert (
        found.note == "no plain baseline beside these figures: the builtin data has changed since this run was trained"
    )


def test_a_baseline_that_learns_nothing_needs_no_data(tmp_path: Path) -> None:
    data = Path(write_questions(tmp_path / "questions.jsonl", questions()))
    run = load(trained("answer", str(data), tmp_path / "run", *QUICK, "length=64").folder)
    others = data.rename(tmp_path / "others.jsonl")
    assert set(run.measure(str(others))) == {"exact", "f1", "exact_window", "f1_window"}


def test_quality_by_length_reads_no_training_data(
    mirada: Command, run: Run, others: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "learned_from", lambda run: 1 / 0)
    assert mirada("eval", run.folder, "--data", others, "--by", "length").code == 0
