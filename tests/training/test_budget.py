"""A budget holds, whatever steps and validations take, and whatever happens to the machine meanwhile."""

from pathlib import Path

import pytest
import torch

from mirada.training.plan import Pace, StepPlan, corrected, usual_every, within
from tests.sampling import slow
from tests.training.toy import Clock, timed_training


def spent(training, clock: Clock, began: float) -> float:
    """Minutes from the start to the last step."""
    training.run()
    return (clock.now - began) / 60


@pytest.mark.parametrize(("steps", "wanted"), [(10, 1), (100, 5), (1000, 10), (2000, 10), (5000, 25), (100_000, 500)])
def test_validations_are_once_an_epoch_but_neither_few_nor_many(steps: int, wanted: int) -> None:
    """An epoch has 10 steps: twenty to two hundred validations."""
    assert usual_every(steps, epoch=10) == wanted


@pytest.mark.parametrize("validation", [0.001, 0.5, 5.0, 18.0, 500.0])
@pytest.mark.parametrize("step", [0.001, 0.1, 2.0])
@pytest.mark.parametrize("seconds", [10.0, 30.0, 300.0])
@pytest.mark.parametrize("epoch", [3, 100, 100_000])
def test_what_is_planned_fits_and_validations_take_a_tenth(
    seconds: float, step: float, validation: float, epoch: int
) -> None:
    plan = within(seconds, Pace(step, validation), epoch)
    validating = plan.share * validation * -(-plan.steps // plan.every)
    assert validating <= 0.11 * seconds + step
    assert 0.8 * seconds - 2 * step <= plan.steps * step + validating <= seconds + step
    assert 0 < plan.share <= 1


def test_an_interval_that_was_requested_stays() -> None:
    assert within(60, Pace(1.0, 10.0), epoch=100, every=5) == StepPlan(20, 5)


def test_a_plan_that_holds_is_not_changed() -> None:
    plan, pace = StepPlan(1000, 50), Pace(0.1, 1.0)
    assert corrected(500, plan, left=60.4, pace=pace) is plan
    assert corrected(500, plan, left=30.0, pace=pace).steps == 750
    assert corrected(500, plan, left=120.0, pace=pace).steps == 1500
    assert corrected(500, plan, left=-1.0, pace=pace).steps == 500


@pytest.mark.parametrize(
    ("minutes", "batch"),
    slow(
        [(0.5, 0.0001), (0.5, 0.02), (0.5, 1.0), (0.5, 2.0), (2.0, 1.0), (2.0, 0.0001), (2.0, 0.02), (2.0, 2.0)],
        but=range(5),
    ),
)
def test_a_budget_is_kept_whatever_a_validation_costs(tmp_path: Path, minutes: float, batch: float) -> None:
    training = timed_training(tmp_path, minutes, lambda now: 0.1, batch)
    clock, began = training.clock, training.clock.now
    assert 0.8 * minutes <= spent(training, clock, began) <= 1.1 * minutes + 4 * batch / 60


def test_never_one_step_where_validations_are_slow(tmp_path: Path) -> None:
    """Twenty validations of 18 seconds do not fit into half a minute: they read a part of the records, and say so."""
    shown: list[str] = []
    training = timed_training(tmp_path, 0.5, lambda now: 0.1, 0.9, print_progress=shown.append)
    found = training.run()
    assert found.step > 100
    assert found.share < 0.2
    assert any(line.startswith("validations read ") for line in shown)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_a_machine_that_changes_its_speed(tmp_path: Path, factor: float) -> None:
    began = Clock().now
    training = timed_training(tmp_path, 1.0, lambda now: 0.1 if now < began + 20 else 0.1 * factor, 0.01)
    assert 0.85 <= spent(training, training.clock, began) <= 1.1


def test_what_came_before_the_training_counts(tmp_path: Path) -> None:
    clock = Clock()
    training = timed_training(tmp_path, 1.0, lambda now: 0.1, 0.01, clock=clock, began=clock.now - 30)
    assert training.run().steps < 300
    assert clock.now - 1000 < 33


def test_a_budget_that_is_too_short_is_reported(tmp_path: Path) -> None:
    shown: list[str] = []
    timed_training(tmp_path, 0.5, lambda now: 3.0, 0.01, print_progress=shown.append).run()
    assert any("0.5 minutes are too short for this: give at least 1." in line for line in shown), shown


def test_a_larger_budget_is_the_total_over_all_starts(tmp_path: Path) -> None:
    first = timed_training(tmp_path, 1.0, lambda now: 0.1, 0.01)
    before = first.run()
    same = timed_training(tmp_path, 1.0, lambda now: 0.1, 0.01, resume=True).run()
    assert (same.step, same.finished) == (before.step, True)
    more = timed_training(tmp_path, 3.0, lambda now: 0.1, 0.01, resume=True)
    began = more.clock.now
    after = more.run()
    assert after.step > 2 * before.step
    assert 1.6 <= (more.clock.now - began) / 60 <= 2.2


def test_a_larger_budget_is_used_after_an_early_end(tmp_path: Path) -> None:
    """What was planned anew is not ended by the plateau that ended the first plan."""
    first = timed_training(tmp_path, 1.0, lambda now: 0.1, 0.01, lr=1e-12, patience=1, warmup=0).run()
    assert first.ended.startswith("stopped early")
    shown: list[str] = []
    more = timed_training(
        tmp_path, 3.0, lambda now: 0.1, 0.01, lr=1e-12, patience=1, warmup=0, resume=True, print_progress=shown.append
    ).run()
    assert more.step - first.step >= 0.1 * more.steps
    assert "in 3 minutes altogether" in shown[1]


def test_a_decision_of_the_clock_is_saved_when_it_is_made(tmp_path: Path) -> None:
    """A run that is killed after the machine became slow resumes with the decided number of steps."""

    class Killed(Exception):  # noqa: N818
        pass

    began = Clock().now
    slow = timed_training(tmp_path, 1.0, lambda now: 0.1 if now < began + 20 else 0.5, 0.01, save_seconds=1e9)
    real, plans = slow.planning.follow_clock, []

    def follow(state, progress) -> bool:
        changed = real(state, progress)
        if plans:
            raise Killed
        if changed:
            plans.append(state.steps)
        return changed

    slow.planning.follow_clock = follow
    with pytest.raises(Killed):
        slow.run()
    again = timed_training(tmp_path, 1.0, lambda now: 0.5, 0.01, resume=True)
    assert again.start().steps == plans[0]


def test_steps_take_nothing_from_the_clock(tmp_path: Path) -> None:
    runs = []
    for name, seconds in (("quick", 0.001), ("slow", 9.0)):
        training = timed_training(tmp_path / name, 0.0, lambda now, seconds=seconds: seconds, seconds, steps=30)
        training.run()
        runs.append(training.model.state_dict())
    for name, value in runs[0].items():
        assert torch.equal(runs[1][name], value), name
