"""The loop: what it learns, what it keeps, and that stopping it anywhere changes nothing."""

import json
import os
import random
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from mirada.training import loop
from mirada.training import state as checkpoint
from mirada.training import state as training_state
from mirada.training.distributed import to_device
from mirada.training.log import read_metrics
from mirada.training.loop import Interrupted
from mirada.training.objectives import Microbatch, evaluate
from mirada.training.recipe import Recipe
from mirada.training.state import average, save_weights, weights
from tests.training.toy import Distance, MovingDistance, Rows, Toy, rows, toy_training


def assert_same_weights(first: nn.Module, second: nn.Module) -> None:
    for (name, a), b in zip(weights(first).items(), weights(second).values(), strict=True):
        assert torch.equal(a, b), name


def lines(folder: Path) -> list[dict]:
    """The log without what the clock decides."""
    clock = {"tokens_per_second", "seconds", "waiting"}
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
        monkeypatch.setattr("mirada.training.state.write_whole", fragile)
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
def test_a_signal_saves_and_the_run_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
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


def test_what_an_objective_remembers_is_saved_with_the_run(tmp_path: Path) -> None:
    whole = toy_training(tmp_path / "whole", kind=MovingDistance)
    whole.run()
    assert whole.objective.mean.abs().min() > 0
    stopped = toy_training(tmp_path / "stopped", kind=MovingDistance)
    real = stopped.step

    def step(at, *args):
        if at.step == 17 and at.steps == 40:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(at, *args)

    stopped.step = step
    with pytest.raises(Interrupted):
        stopped.run()
    resumed = toy_training(tmp_path / "stopped", resume=True, kind=MovingDistance)
    resumed.run()
    assert_same_weights(whole.objective, resumed.objective)
    assert "mean" in weights(whole.objective)
    assert "mean" not in load_file(tmp_path / "whole" / "model.safetensors"), "it is not the model's"


def test_what_an_objective_remembers_comes_from_the_whole_batch_and_not_from_trial_steps(tmp_path: Path) -> None:
    runs = [toy_training(tmp_path / str(n), dropout=0.0, kind=MovingDistance, steps=3, accumulate=n) for n in (1, 2, 3)]
    for training in runs:
        training.run()
        torch.testing.assert_close(training.objective.mean, runs[0].objective.mean)
    fresh = toy_training(tmp_path / "fresh", kind=MovingDistance)
    fresh.start()  # it measures some steps and takes them back
    assert fresh.objective.mean.tolist() == [0, 0]


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
    planning = toy_training(tmp_path, steps=7, minutes=5.0).planning
    assert planning.plan(planning.measure()).steps == 7
    assert (Recipe(steps=7, minutes=5.0).budget, Recipe(minutes=5.0).budget) == (0.0, 5.0)


def test_measuring_leaves_no_trace(tmp_path: Path) -> None:
    training, fresh = toy_training(tmp_path / "a"), toy_training(tmp_path / "b")
    training.planning.measure()
    assert_same_weights(training.model, fresh.model)
    assert not training.optimizer.state


def test_epochs_are_the_default_length(tmp_path: Path) -> None:
    planning = toy_training(tmp_path, steps=0, epochs=3).planning
    assert planning.plan(planning.measure()).steps == 3 * len(Rows())


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
        save_weights(path, weights(model))
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


def test_no_room_is_reported_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 10})()
    monkeypatch.setattr("mirada.training.state.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match=r"has 10 bytes left and the run needs about"):
        toy_training(tmp_path)


def test_a_folder_that_cannot_be_made_is_reported_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match=r"cannot be written.*--out"):
        toy_training(tmp_path / "file")


def test_a_checkpoint_cut_in_half_is_reported(tmp_path: Path) -> None:
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


def test_a_penalty_makes_weights_small(tmp_path: Path) -> None:
    sizes = []
    for name, penalty in (("plain", 0.0), ("penalized", 0.1)):
        training = toy_training(tmp_path / name, steps=60, validate=20, l2=penalty)
        training.run()
        sizes.append(sum(float(p.detach().square().sum()) for p in training.model.parameters()))
    assert sizes[1] < 0.8 * sizes[0]


def test_quick_validations_are_not_written_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    real = loop.save_weights
    monkeypatch.setattr(loop, "A_MOMENT", 1e9)
    monkeypatch.setattr(loop, "save_weights", lambda path, *given: (written.append(path.name), real(path, *given))[1])
    training = toy_training(tmp_path, steps=40, validate=1, average=0, save_seconds=1e9)
    found = training.run()
    better = [event for event in lines(tmp_path) if "valid" in event]
    assert len(better) == 40
    assert len(written) == 1
    torch.testing.assert_close(evaluate(training.objective, training.valid, training.group)["loss"], found.best)


def test_inputs_are_moved_to_a_device_with_what_is_no_tensor() -> None:
    class Graph:
        def to(self, device: torch.device) -> str:
            return f"a graph on {device}"

    inputs = {"x": torch.zeros(2), "edges": Graph(), "name": "x"}
    assert to_device(inputs, torch.device("cpu")) is inputs
    there = to_device(inputs, torch.device("meta"))
    assert (there["x"].device.type, there["edges"], there["name"]) == ("meta", "a graph on meta", "x")


class Judged(Distance):
    """A validation says what a list says, one validation after the other."""

    selection_metrics = ("error",)

    def __init__(self, model: nn.Module, told: list[tuple[float, float]]) -> None:
        super().__init__(model)
        self.told, self.said = told, 0

    def validate(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.said += 1
        return torch.tensor(self.told[self.said - 1])

    def quality(self, rank: tuple[float, float]) -> str:
        return f"valid accuracy {100 * (1 - rank[0]):.1f}"


def judged_training(folder: Path, told: list[tuple[float, float]], **recipe) -> loop.Training:
    """A training whose validations (loss, error) are given; the first is the one whose time is measured."""
    torch.manual_seed(3)
    x, y = rows(99, 4)
    settings = {"steps": 40, "validate": 10, "patience": 0, "average": 0, "warmup": 5} | recipe
    objective = Judged(Toy(), [(1.0, 1.0), *told])
    return loop.Training(objective, Rows(), [Microbatch({"x": x, "y": y}, (4,), 4)], Recipe(**settings), folder)


@pytest.mark.parametrize(
    ("told", "best"),
    [
        ([(0.5, 0.3), (0.9, 0.2), (0.4, 0.25), (0.3, 0.3)], 20),  # the fewest errors, whatever the loss
        ([(0.5, 0.3), (0.5, 0.2), (0.4, 0.2), (0.6, 0.2)], 30),  # of as many errors, the smallest loss
        ([(0.5, 0.3), (float("nan"), 0.0), (0.7, 0.29), (0.1, 0.3)], 30),  # what is no number is not the best
    ],
)
def test_weights_are_chosen_by_what_is_judged(tmp_path: Path, told: list, best: int) -> None:
    training = judged_training(tmp_path, told)
    found = training.run()
    assert found.best_step == best
    assert (found.best, found.judged) == pytest.approx(told[best // 10 - 1])
    error = told[best // 10 - 1][1]
    assert found.ended == f"made 40 steps; kept the weights of step {best} (valid accuracy {100 * (1 - error):.1f})"
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["ended"] == found.ended


def test_early_stopping_asks_what_is_judged(tmp_path: Path) -> None:
    falling = [(1 - step / 100, 0.2) for step in range(20)]  # the loss still becomes better, the error never
    worse = [(loss, 0.2 if number == 0 else 0.3) for number, (loss, _) in enumerate(falling)]
    found = judged_training(tmp_path, worse, steps=200, patience=2, warmup=0).run()
    assert found.best_step == 10
    assert found.ended.startswith("stopped early at step 30 of 200: no better validation for 2.0 epochs")


def test_a_state_from_before_was_judged_by_its_loss(tmp_path: Path) -> None:
    training = toy_training(tmp_path, average=0)
    training.run()
    path = tmp_path / "checkpoints" / "last.safetensors"
    tensors, facts = checkpoint.read_checkpoint(path)
    assert facts["judged"] == facts["best"]
    del facts["judged"]
    checkpoint.write_checkpoint(path, tensors, facts)
    state = training_state.load_state(tmp_path / "checkpoints", training.objective, training.optimizer)
    assert state.judged == state.best == facts["best"]
