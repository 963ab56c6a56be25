"""The loop: what it learns, what it keeps, and that stopping it anywhere changes nothing."""

import json
import os
import random
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from mirada.training import loop, training_state
from mirada.training.interrupts import Interrupted
from mirada.training.metrics_log import read_metrics
from mirada.training.objectives import Microbatch, evaluate
from mirada.training.recipe import Recipe
from mirada.training.training_state import average, save_weights, weights
from tests.training.toy import Distance, Rows, Toy, toy_training


def assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    for (name, a), b in zip(weights(first).items(), weights(second).values(), strict=True):
        assert torch.equal(a, b), name


def lines(folder: Path) -> list[dict]:
    """The log without what the clock decides."""
    clock = {"tokens_per_second", "seconds"}
    return [{k: v for k, v in event.items() if k not in clock} for event in read_metrics(folder / "metrics.jsonl")]


def test_it_learns_and_leaves_its_files(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=200, validate=50)
    before = evaluate(training.objective, training.valid, training.group)["loss"]
    found = training.run()
    assert found.finished
    assert found.best < before / 4
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "metrics.jsonl", "model.safetensors"}
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["last.safetensors"]
    torch.testing.assert_close(evaluate(training.objective, training.valid, training.group)["loss"], found.best)


def test_the_same_seed_gives_the_same_weights_and_another_one_others(tmp_path: Path) -> None:
    runs = [toy_training(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    for training in runs:
        training.run()
    assert_same_weights(runs[0].model, runs[1].model)
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    assert not torch.equal(runs[0].model.outer.weight, runs[2].model.outer.weight)


class CrashError(Exception):
    pass


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_moment_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    whole = toy_training(tmp_path / "whole", save_seconds=0.0)
    whole.run()
    dice = random.Random(seed)
    real = training_state.write_whole

    def fragile(path: Path, content: bytes) -> None:
        if dice.random() < 0.03:  # before the file is replaced: a part of it may be there
            path.with_name(path.name + ".part").write_bytes(content[: len(content) // 2])
            raise CrashError
        real(path, content)
        if dice.random() < 0.03:  # right after
            raise CrashError

    crashes = 0
    while True:
        monkeypatch.setattr("mirada.training.checkpoint.write_whole", fragile)
        monkeypatch.setattr(training_state, "write_whole", fragile)
        training = toy_training(tmp_path / "broken", save_seconds=0.0, resume=True)
        try:
            training.run()
            break
        except CrashError:
            crashes += 1
            with open(tmp_path / "broken" / "metrics.jsonl", "ab") as file:
                file.write(b'{"step": 99999, "lo')  # a line that was cut
    assert crashes > 0
    assert_same_weights(whole.model, training.model)
    assert lines(tmp_path / "whole") == lines(tmp_path / "broken")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_later(tmp_path: Path, number: signal.Signals) -> None:
    whole = toy_training(tmp_path / "whole")
    whole.run()
    stopped = toy_training(tmp_path / "stopped")
    real = stopped.step

    def step(at, *args):
        if at.step == 17 and at.steps == 40:  # not a step of the measurement
            os.kill(os.getpid(), number)
        return real(at, *args)

    stopped.step = step
    with pytest.raises(Interrupted, match=r"stopped after step \d+ of 40"):
        stopped.run()
    resumed = toy_training(tmp_path / "stopped", resume=True)
    resumed.run()
    assert_same_weights(whole.model, resumed.model)
    assert lines(tmp_path / "whole") == lines(tmp_path / "stopped")


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    first = toy_training(tmp_path)
    first.run()
    again = toy_training(tmp_path, resume=True)
    found = again.run()
    assert found.finished
    assert_same_weights(first.model, again.model)


@pytest.mark.parametrize("accumulate", [2, 3, 7])  # seven shares of six rows: one is empty
def test_accumulation_changes_nothing_but_rounding(tmp_path: Path, accumulate: int) -> None:
    once, often = toy_training(tmp_path / "a", 0.0), toy_training(tmp_path / "b", 0.0, accumulate=accumulate)
    once.run(), often.run()
    for a, b in zip(once.model.parameters(), often.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    told = [[event["loss"] for event in lines(tmp_path / name) if "lr" in event] for name in "ab"]
    torch.testing.assert_close(torch.tensor(told[0]), torch.tensor(told[1]), rtol=1e-5, atol=1e-6)


def test_patience_ends_a_run_that_no_longer_improves(tmp_path: Path) -> None:
    """An epoch has 10 steps. The end says why it came, and which weights were kept."""
    training = toy_training(tmp_path, steps=400, lr=1e-12, validate=5, patience=3)
    shown: list[str] = []
    training.print_progress = shown.append
    found = training.run()
    assert found.step - found.best_step == 40, "three epochs are less than a tenth of this run"
    assert found.ended.startswith(f"stopped early at step {found.step} of 400: no better validation for 4.0 epochs")
    assert "; kept the " in found.ended
    assert shown[-1] == found.ended
    assert lines(tmp_path)[-1] == {"step": found.step, "ended": found.ended}


def test_a_plateau_before_the_learning_rate_falls_ends_nothing(tmp_path: Path) -> None:
    slow = {"steps": 400, "lr": 1e-12, "validate": 5, "patience": 1}
    assert toy_training(tmp_path / "long", warmup=80, **slow).run().step >= 80
    assert toy_training(tmp_path / "never", **(slow | {"patience": 0})).run().ended.startswith("made 400 steps; kept")


def test_minutes_fix_the_steps_once(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=0, minutes=0.02, validate=0)
    began = training.start()
    assert began.steps > 1
    resumed = toy_training(tmp_path, steps=0, minutes=0.02, validate=0, resume=True)
    assert resumed.start().steps == began.steps


def test_steps_decide_where_minutes_are_given_too(tmp_path: Path) -> None:
    assert toy_training(tmp_path, steps=7, minutes=5.0).planning.estimate().steps == 7
    assert (Recipe(steps=7, minutes=5.0).budget, Recipe(minutes=5.0).budget) == (0.0, 5.0)


def test_measuring_leaves_no_trace(tmp_path: Path) -> None:
    training, fresh = toy_training(tmp_path / "a"), toy_training(tmp_path / "b")
    training.planning.measure()
    assert_same_weights(training.model, fresh.model)
    assert not training.optimizer.state


def test_epochs_are_the_default_length(tmp_path: Path) -> None:
    assert toy_training(tmp_path, steps=0, epochs=3).planning.estimate().steps == 3 * len(Rows())


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=100)
    with torch.no_grad():
        training.model.outer.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match=r"not finite in 20 steps in a row.*lower lr"):
        training.run()


def test_a_run_without_a_finite_validation_says_so(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=4, validate=2)
    for part in training.valid:
        part.inputs["y"].fill_(float("nan"))
    with pytest.raises(ValueError, match=r"no validation gave a finite loss. Try a lower lr \(it is 0.01\)"):
        training.run()


def test_the_average_is_kept_if_it_is_better(tmp_path: Path) -> None:
    training = toy_training(tmp_path, steps=60, lr=0.3, schedule="constant", validate=10, average=5)
    training.run()
    events = lines(tmp_path)
    single = min(event["valid"]["loss"] for event in events if "valid" in event and "averaged" not in event)
    averaged = next(event["valid"]["loss"] for event in events if "averaged" in event)
    kept = evaluate(training.objective, training.valid, training.group)["loss"]
    torch.testing.assert_close(kept, min(single, averaged))


def test_an_average_by_hand(tmp_path: Path) -> None:
    models = [Toy(), Toy(), Toy()]
    paths = [tmp_path / f"{n}.safetensors" for n in range(3)]
    for model, path in zip(models, paths, strict=True):
        save_weights(path, model)
    torch.testing.assert_close(average(paths)["inner.bias"], sum(model.inner.bias.detach() for model in models) / 3)


def test_evaluation_weighs_parts_by_what_they_count() -> None:
    objective = Distance(Toy(0.0))
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    parts = [
        Microbatch({"x": x[:2], "y": y[:2]}, (2,), 2),
        Microbatch({"x": x[2:], "y": y[2:]}, (3,), 3),
        Microbatch({"x": x, "y": y}, (0,), 0),
    ]
    whole = ((objective.model(x) - y) ** 2).mean().item()
    torch.testing.assert_close(evaluate(objective, parts, loop.ProcessGroup())["loss"], whole)


def test_no_room_is_told_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10})()
    monkeypatch.setattr("mirada.training.checkpoint.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match=r"has 0 MB left and the run needs about"):
        toy_training(tmp_path)


def test_a_folder_that_cannot_be_made_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"cannot be written.*--out"):
        toy_training(tmp_path / "file")


def test_a_checkpoint_cut_in_half_is_told(tmp_path: Path) -> None:
    toy_training(tmp_path).run()
    path = tmp_path / "checkpoints" / "last.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"last.safetensors is not a whole checkpoint"):
        toy_training(tmp_path, resume=True).run()
    assert path.read_bytes() == content[: len(content) // 2]


def test_metrics_are_json_lines(tmp_path: Path) -> None:
    toy_training(tmp_path).run()
    events = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if "lr" in event] == list(range(1, 41))
    assert [event["step"] for event in events if "valid" in event] == [10, 20, 30, 40, 40]
