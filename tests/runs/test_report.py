"""What decided a run, in the small print of its report."""

from pathlib import Path

from mirada.runs.report import details
from mirada.runs.train import preview
from tests.runs.small import QUICK, reviews, stories, trained, write_rows


def test_the_report_tells_how_the_data_was_read(tmp_path: Path) -> None:
    rows = [("n", "remark", "again"), *((str(n), *row) for n, row in enumerate(reviews()))]
    data = write_rows(tmp_path / "survey.tsv", rows)
    run = trained(
        "classify", data, tmp_path / "run", *QUICK, "columns=remark,again", "balance=yes", "split=0.7,0.1,0.2"
    )
    told = dict(details(run))["data settings"]
    assert set(told.split()) == {"columns=remark,again", "balance=True", "split=0.7,0.1,0.2", "beside=letters"}
    assert "columns=remark,again" in (run.folder / "report.html").read_text(encoding="utf-8")


def test_what_the_data_decided_is_reported_too(tmp_path: Path) -> None:
    rows = "\n".join(f"2024-01-{day:02},{day % 5}" for day in range(1, 32))
    (tmp_path / "days.csv").write_text(f"day,A\n{rows}\n", encoding="utf-8")
    keys = ("width=8", "hidden=8", "heads=2", "depth=1", "steps=2", "validate=1", "patch=2", "warmup=1", "threads=1")
    run = trained("forecast", str(tmp_path / "days.csv"), tmp_path / "run", *keys)
    told = dict(details(run))["data settings"]
    assert f"lookback={run.known.size.lookback}" in told
    assert "target=A" in told
    assert preview(run, [], run.splits().valid, {"loss": 0.25}).startswith("  mse 0.2500")


def test_a_validation_of_gaps_tells_how_many_are_filled(tmp_path: Path) -> None:
    run = trained("fill", write_rows(tmp_path / "stories.tsv", stories()), tmp_path / "run", *QUICK)
    assert preview(run, [], run.splits().valid, {"loss": 3.0}).startswith("  word_accuracy ")
