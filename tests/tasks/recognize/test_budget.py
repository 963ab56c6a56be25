"""What pictures and minutes decide: a function of both, monotonic in the minutes, below the user's keys."""

from pathlib import Path

import numpy as np
import pytest

from mirada.runs.load import load
from mirada.runs.train import train
from mirada.tasks.recognize.budget import MINUTES, SIZES, budget_choice
from mirada.tasks.recognize.examples import default_patch
from mirada.tasks.recognize.pictures import LabelledPicture, Picture
from tests.runs.small import trained


@pytest.mark.parametrize(("pictures", "size"), [(1_000, 8), (1_500, 64), (10_000, 28), (60_000, 28), (60_000, 64)])
def test_more_minutes_never_give_a_smaller_model(pictures: int, size: int) -> None:
    costs = [cost.settings["width"] * cost.settings["depth"] for cost in SIZES]
    found = [budget_choice(pictures, size, default_patch(size), minutes) for minutes in (0.5, 1, 2, 5, 15, 60, 600)]
    sizes = [choice.model["width"] * choice.model["depth"] for choice in found]
    assert sizes == sorted(sizes)
    assert set(sizes) <= set(costs)
    assert sizes[-1] == max(costs)
    assert all("minutes" not in choice.recipe for choice in found), "those were given"
    changed = [choice.data["augment"] for choice in found]
    assert changed == sorted(changed), "few epochs leave no time for changed pictures"


def test_a_short_run_is_not_spent_on_its_warm_up() -> None:
    """200 steps of warm-up were a fifth of a run of 1,000 steps."""
    choice = budget_choice(60_000, 28, 4, 2)
    cost = next(cost for cost in SIZES if cost.settings["width"] == choice.model["width"])
    steps = 60 * 2 / (cost.seconds * 49 / 1000) / choice.recipe["batch_size"]
    assert 10 <= choice.recipe["warmup"] <= 0.05 * steps


@pytest.mark.parametrize(
    ("pictures", "size", "least", "most"), [(1_000, 8, 1, 1), (20_000, 28, 1, 5), (60_000, 64, 30, 30)]
)
def test_without_minutes_some_are_chosen(pictures: int, size: int, least: float, most: float) -> None:
    choice = budget_choice(pictures, size, default_patch(size), 0)
    assert least <= choice.recipe["minutes"] <= most
    assert choice.recipe["minutes"] in MINUTES
    given = budget_choice(pictures, size, default_patch(size), choice.recipe["minutes"])
    assert (given.model, given.data) == (choice.model, choice.data)


def pictures(side: int) -> list[LabelledPicture]:
    random = np.random.default_rng(side)
    return [(Picture(random.integers(0, 256, (side, side), dtype=np.uint8)), f"{row % 2}") for row in range(12)]


QUICK = ("steps=2", "threads=1")


def test_pictures_of_ones_own_get_a_pooled_stem_and_the_users_keys_win(tmp_path, capsys) -> None:
    rows = [(picture.given, label) for picture, label in pictures(8)]
    run = train("recognize", rows, out=tmp_path / "a", steps=2, threads=1, width=16, heads=2, hidden=32, depth=1)
    config = run.settings.config
    assert (config.stem, config.pool, config.width, config.depth) == ("pooled", "attention", 16, 1)
    assert (config.size, config.patch, run.known.grid) == (8, 2, 4), "8 x 8 pixels stay 8 x 8"
    assert run(rows[0][0]).weights.shape == (1, 16)
    line = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("chosen for"))
    assert line.startswith("chosen for 10 pictures of 8 x 8, usually enough: 1 minute (about ")
    assert "stem=pooled" in line
    assert "width=" not in line


def test_what_was_there_before_is_a_key_away(tmp_path) -> None:
    rows = [(picture.given, label) for picture, label in pictures(16)]
    keys = (
        "stem=linear",
        "pool=first",
        "width=16",
        "heads=2",
        "hidden=32",
        "depth=1",
        "patch=4",
        "augment=no",
        "lr=0.01",
    )
    run = trained("recognize", rows, tmp_path / "a", *QUICK, *keys)
    assert (run.settings.config.stem, run.settings.config.pool, run.known.grid) == ("linear", "first", 4)
    assert (run.settings.recipe.lr, run.known.augmentation.shift) == (0.01, 0)
    assert load(run.folder)(rows[0][0]).weights.shape == (1, 16)


def test_the_drawn_objects_keep_their_settings(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mirada.corpora.objects.SIZES", (64, 16, 24))
    config = trained("recognize", "", tmp_path / "a", *QUICK, "batch_size=8").settings.config
    assert (config.stem, config.where, config.width, config.depth) == ("convolution", "grid:8,8,1", 64, 2)


@pytest.mark.parametrize(("stem", "said"), [("pooled", True), ("convolution", False)])
def test_batch_norms_that_see_parts_of_a_batch_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stem: str, said: bool
) -> None:
    random = np.random.default_rng(0)
    rows = [(random.integers(0, 256, (8, 8)).astype(np.uint8), label) for label in ("a", "b") for _ in range(12)]
    train("recognize", rows, out=tmp_path / "run", steps=1, accumulate=2, stem=stem, width=16, threads=1)
    assert ("batch norms see one of the 2 parts of a batch" in capsys.readouterr().err) == said
