"""What data and budget decide: between the task's defaults and the user's keys, once, said in a line."""

import pytest

import mirada
from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.tasks.classify.task import Classify

ROWS = [(f"{a} {b} film", b) for a in ("a", "the", "one", "that", "this", "my") for b in ("good", "bad")]
QUICK = {"heads": 2, "depth": 1, "threads": 1, "steps": 2}


@pytest.fixture
def asked(monkeypatch):
    """What `choose` was asked with; it chooses a width by the number of records."""
    calls = []

    def choose(self, model, splits, options, minutes):
        calls.append((model, len(splits.train), minutes))
        return BudgetChoice({"width": 24}, {"lr": 0.005, "minutes": 3.0}, why=f"{len(splits.train)} texts")

    monkeypatch.setattr(Classify, "choose", choose)
    return calls


def test_a_choice_stands_between_defaults_and_keys(asked, tmp_path, capsys):
    run = mirada.train("classify", ROWS, out=tmp_path / "run", **QUICK)
    assert (run.settings.config.width, run.settings.recipe.lr) == (24, 0.005)
    assert run.settings.recipe.minutes == 0  # steps=2 says how long
    assert asked == [("transformer", asked[0][1], 0.0)]
    assert f"chosen for {asked[0][1]} texts: width=24 lr=0.005\n" in capsys.readouterr().err


def test_what_the_user_sets_wins_and_is_not_listed(asked, tmp_path, capsys):
    run = mirada.train("classify", ROWS, out=tmp_path / "run", width=16, **QUICK)
    assert (run.settings.config.width, run.settings.recipe.lr) == (16, 0.005)
    assert "texts: lr=0.005\n" in capsys.readouterr().err


def test_a_choice_is_saved_and_not_made_again(asked, tmp_path, monkeypatch):
    mirada.train("classify", ROWS, out=tmp_path / "run", **QUICK)
    monkeypatch.setattr(Classify, "choose", lambda *_: pytest.fail("a resumed run chooses nothing"))
    assert mirada.train("classify", ROWS, out=tmp_path / "run", resume=True).settings.config.width == 24


def test_all_seeds_have_the_choice_of_the_whole(asked, tmp_path):
    mirada.train("classify", ROWS, out=tmp_path / "run", seeds=2, **QUICK)
    widths = [mirada.load(tmp_path / "run" / name).settings.config.width for name in ("", "seed-0", "seed-1")]
    assert widths == [24, 24, 24]


def test_a_run_that_starts_from_another_keeps_its_sizes(asked, tmp_path):
    mirada.train("classify", ROWS, out=tmp_path / "first", width=16, **QUICK)
    quick = {key: value for key, value in QUICK.items() if key not in ("heads", "depth")}
    assert (
        mirada.train("classify", ROWS, out=tmp_path / "second", start=tmp_path / "first", **quick).settings.config.width
        == 16
    )


def test_more_minutes_afford_the_larger_model():
    table = [ModelCost({"width": 64}, 1.0, 0), ModelCost({"width": 128}, 4.0, 8), ModelCost({"width": 256}, 16.0, 8)]
    chosen = [largest_affordable(table, 10_000, minutes)[0].settings["width"] for minutes in (0.1, 5, 6, 21, 22)]
    assert chosen == [64, 64, 128, 128, 256]
