"""Data and minutes decide the model: the laws that every task with sequences keeps."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import mirada
from mirada.data.record import Record
from mirada.runs.registry import entry
from mirada.runs.request import TrainingRequest
from mirada.runs.sources import Source, Splits
from mirada.tasks.answer.reading import PassageQuestion
from mirada.tasks.caption.captions import CaptionedPicture
from mirada.tasks.transcribe.recordings import Recording

PASSAGE = " ".join(["Ana lives in Lima and has a red house near the sea."] * 12)
PICTURE = np.zeros((64, 64, 3), dtype=np.uint8)
VALUES = {
    "translate": ("the red house is near the sea.", "la casa roja está cerca del mar."),
    "write": "Ana lives in Lima.\n" * 20,
    "fill": ("Ana lives in Lima.", "She has a red house near the sea."),
    "caption": CaptionedPicture("a.png", PICTURE, ("a red house",)),
    "transcribe": (Recording("a.wav", np.zeros((130, 40), dtype=np.float16), 1.3, b"digest"), "seven"),
    "answer": PassageQuestion("Where does Ana live?", PASSAGE, ((13, 17),)),
}
MODELS = [(task, name) for task in VALUES for name in entry(task).models]
COUNTS = (20, 1_000, 30_000, 1_000_000)
MINUTES = (0.5, 1, 2, 5, 10, 20, 60, 240, 1440)
SIZES = ("width", "depth", "hidden")


class Repeated(Sequence):
    """A value so many times."""

    def __init__(self, value, count):
        self.record, self.count = Record("data.tsv:1", value), count

    def __len__(self):
        return self.count

    def __iter__(self):
        return iter([self.record] * self.count)

    def __getitem__(self, place):
        return [self.record] * len(range(self.count)[place]) if isinstance(place, slice) else self.record


def chosen(task, model, count, minutes, *keys):
    """The settings for so many records."""
    request = TrainingRequest(task=task, model=model, source=Source("data.tsv"), minutes=minutes, keys=keys)
    records = Repeated(VALUES[task], count)
    return request.chosen(request.settings(), Splits(records, records))


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_more_minutes_never_give_a_smaller_model(task, model):
    for count in COUNTS[:3]:
        configs = [chosen(task, model, count, minutes)[0].config for minutes in MINUTES]
        for (less, more), name in product(pairwise(configs), SIZES):
            assert getattr(less, name) <= getattr(more, name), (count, name)


@pytest.mark.parametrize("task", VALUES)
def test_data_and_minutes_change_the_model(task):
    model = entry(task).models[0]
    widths = {chosen(task, model, count, minutes)[0].config.width for count in COUNTS for minutes in (0.5, 60)}
    assert len(widths) > 1


@pytest.mark.parametrize(("task", "model"), MODELS)
def test_every_choice_is_a_model_that_can_be_built(task, model):
    for count, minutes in product((1, *COUNTS), (0, 0.01, 5, 10_000)):
        settings, line = chosen(task, model, count, minutes)
        config, recipe = settings.config, settings.recipe
        assert 64 <= config.width <= 384
        assert config.width <= config.hidden <= 1536
        assert 1 <= config.depth <= 6
        assert config.width % getattr(config, "heads", 1) == 0
        assert 0 <= config.dropout <= 0.3
        assert 1 <= recipe.warmup <= 400
        assert 1e-4 <= recipe.lr <= 5e-3
        assert line.startswith("chosen for ")
        assert len(line) < 260


@pytest.mark.parametrize("task", VALUES)
def test_without_minutes_a_budget_is_chosen_and_said(task):
    budgets = []
    for count in COUNTS:
        settings, line = chosen(task, "", count, 0)
        assert f" minutes={settings.recipe.minutes:g} " in line
        budgets.append(settings.recipe.minutes)
    assert budgets == sorted(budgets)
    assert budgets[0] < budgets[-1]
    assert set(budgets) <= {1, 2, 5, 10, 20, 30}
    assert chosen(task, "", 20, 0, ("steps", 3))[0].recipe.minutes == 0
    assert chosen(task, "", 20, 0, ("epochs", 3))[0].recipe.minutes == 0


@pytest.mark.parametrize("task", VALUES)
def test_what_the_user_sets_wins(task):
    keys = (("width", 80), ("depth", 1), ("dropout", 0.25), ("lr", 7e-4), ("warmup", 3))
    settings, line = chosen(task, "", 30_000, 60, *keys)
    for name, value in keys:
        assert getattr(settings.config if hasattr(settings.config, name) else settings.recipe, name) == value
        assert f" {name}=" not in line


def test_what_the_user_sets_wins_over_a_model_that_does_not_fit_it():
    config = chosen("write", "", 1_000, 2)[0].config
    assert (config.position, config.width % 2) == ("rotary", 0)
    settings, line = chosen("write", "", 1_000, 2, ("width", 50), ("heads", 2))  # 25 numbers a head are no pairs
    assert (settings.config.width, settings.config.heads, settings.config.position) == (50, 2, "learned")
    assert "position=" not in line
    assert " batch_tokens=" in line


@pytest.mark.parametrize("task", VALUES)
def test_the_clock_and_the_machine_do_not_matter(task, monkeypatch):
    before, said = chosen(task, "", 30_000, 7)
    monkeypatch.setattr("time.monotonic", lambda: pytest.fail("the clock was read"))
    monkeypatch.setattr("time.perf_counter", lambda: pytest.fail("the clock was read"))
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    after, line = chosen(task, "", 30_000, 7)
    assert (after.config, after.recipe, after.data, line) == (before.config, before.recipe, before.data, said)


@pytest.mark.parametrize("task", VALUES)
def test_a_warmup_is_a_twentieth_of_the_expected_steps(task):
    module = __import__(f"mirada.tasks.{task}.task", fromlist=["SIZES"])
    for minutes in (0.5, 2, 5, 20):
        settings, _ = chosen(task, "", 1_000, minutes)
        batch = settings.recipe.batch_size if task == "caption" else settings.recipe.batch_tokens
        size = next(size for size in module.SIZES if size.settings["width"] == settings.config.width)
        assert settings.recipe.warmup <= 0.05 * 60_000 * minutes / size.seconds / batch + 1


@pytest.mark.parametrize("task", VALUES)
def test_builtin_data_keep_their_settings(task):
    record = Record("builtin train:1", VALUES[task])
    request = TrainingRequest(task=task, minutes=3)
    settings = request.settings()
    assert request.chosen(settings, Splits([record], [record])) == (settings, "")


def test_seeds_share_a_chosen_budget():
    one, three = (chosen("translate", "", 1_000, 0, *keys)[0] for keys in ((), (("seeds", 3),)))
    assert three.recipe.minutes == 3 * one.recipe.minutes
    assert three.config == one.config


def test_few_texts_have_few_parts_of_words():
    settings, line = chosen("translate", "", 20, 2)
    assert settings.data.vocab == 500
    assert ": vocab=500 " in line
    assert chosen("translate", "", 10_000, 2)[0].data.vocab == 3_100
    assert chosen("translate", "", 30_000, 2)[0].data.vocab == 8_000
    assert chosen("translate", "", 20, 2, ("tokenizer", "word"))[0].data.vocab == 8_000


def test_long_recordings_and_pairs_are_read(monkeypatch):
    long = replace(VALUES["transcribe"][0], frames=np.zeros((4_000, 40), dtype=np.float16), seconds=40.0)
    monkeypatch.setitem(VALUES, "transcribe", (long, "seven"))
    assert chosen("transcribe", "", 100, 2)[0].config.length == 2048
    monkeypatch.setitem(VALUES, "fill", (PASSAGE, PASSAGE))
    assert chosen("fill", "", 100, 2)[0].config.length == 512


def test_a_resumed_run_chooses_nothing(tmp_path, monkeypatch):
    texts = [f"Ana lives in house {number} and Luis in house {number + 1}.\n" * 9 for number in range(9)]
    quick = {"width": 16, "heads": 2, "depth": 1, "steps": 2, "threads": 1}
    run = mirada.train("write", texts, out=tmp_path / "run", **quick)
    assert run.settings.config.hidden == 256  # chosen: the default has 512
    monkeypatch.setattr(type(run.task), "choose", lambda *_: pytest.fail("a resumed run chooses nothing"))
    again = mirada.train("write", texts, out=tmp_path / "run", resume=True)
    assert again.settings.recipe == run.settings.recipe
    assert again.settings.config == run.settings.config
