"""The plan of a run: how many steps, how often validated, with how many threads, and what the clock changes in it later."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from mirada.training.budget import ENOUGH_STEPS, Pace, StepPlan, corrected, needs, usual_every, within
from mirada.training.objectives import evaluate
from mirada.training.progress import Progress, as_minutes, counted
from mirada.training.training_state import TrainingState, put_weights, weights
from mirada.training.trial import Estimate, faster_threads, memory_in_use, spread_over, step_seconds

if TYPE_CHECKING:
    from mirada.training.loop import Training

A_LOOK = 0.3  # seconds of trial steps where no budget asks for more
TRIED = 3  # batches of a validation whose time is measured: a whole one may take as long as the budget
PLANS = 20  # times that a budget's plan is looked at again, at most


class Planning:
    """What a run decides by the clock. Whatever it decides later than at the beginning is saved with the run."""

    def __init__(self, training: "Training", began: float) -> None:
        self.training, self.recipe, self.began = training, training.recipe, began
        self.before = 0.0  # seconds of earlier starts of a run that was resumed

    def spent(self) -> float:
        """Seconds of the budget that are used up, over all starts."""
        return self.before + self.training.clock() - self.began

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return 60 * self.recipe.budget - self.spent()

    def choose_threads(self) -> None:
        """Compute with as many threads as the recipe says; where it does not, with all or one, whichever is faster here."""
        training, threads = self.training, self.recipe.threads or torch.get_num_threads()
        torch.set_num_threads(threads)
        fixed = self.recipe.threads or "OMP_NUM_THREADS" in os.environ or training.group.world > 1
        why = ""
        if not fixed and training.group.device.type == "cpu":
            threads, before = self.undone(lambda step: faster_threads(step, threads, training.clock)), threads
            alone = f": on this busy machine that is faster than {before} (threads={before} asks for them)"
            why = alone if threads < before else ""
        training.print_progress(f"computing with {counted(threads, 'thread')}{why}")
        training.settled(threads)

    def begin(self) -> TrainingState:
        """The state of a new run, with its plan."""
        pace = self.measure()
        plan = self.plan(pace)
        self.print_plan(plan, pace)
        return TrainingState(
            steps=plan.steps, every=plan.every, share=plan.share, pace=pace.step, validation=pace.validation
        )  # fmt: skip

    def go_on(self, state: TrainingState) -> None:
        """Take up the plan of a saved state. A budget that is larger than before is planned anew."""
        epoch = len(self.training.batches)
        state.every = state.every or self.recipe.validate or usual_every(state.steps, epoch)
        self.before = state.spent
        if not self.recipe.budget > state.budget > 0:
            return
        pace = Pace(state.pace, state.validation) if state.pace else self.measure()
        plan = self.fitting(pace)
        state.steps, state.every, state.share = state.step + plan.steps, plan.every, plan.share
        state.finished, state.ended, state.budget, state.planned = False, "", self.recipe.budget, state.step
        self.training.print_progress(
            f"{counted(plan.steps, 'more step')} after {state.step:,}, in {as_minutes(self.recipe.budget)} altogether"
        )

    def plan(self, pace: Pace) -> StepPlan:
        """How many steps there will be: `steps`, or what fits into `minutes`, or all `epochs`."""
        recipe, group, epoch = self.recipe, self.training.group, len(self.training.batches)
        if recipe.budget:
            found = self.fitting(pace)
            steps, every = (int(group.agree(number)) for number in (found.steps, found.every))
            return StepPlan(steps, every, group.agree(found.share))
        steps = recipe.steps or recipe.epochs * epoch
        return StepPlan(steps, recipe.validate or usual_every(steps, epoch))

    def fitting(self, pace: Pace) -> StepPlan:
        """What fits into the rest of the budget."""
        training = self.training
        smallest = 1 / len(training.valid)  # a validation reads at least one batch
        return within(max(0.0, self.left()), pace, len(training.batches), self.recipe.validate, smallest)

    def estimate(self) -> Estimate:
        """What a run would take here."""
        pace = self.measure()
        return estimate(self.plan(pace), pace)

    def print_plan(self, plan: StepPlan, pace: Pace) -> None:
        """What is going to happen, and what a budget does not allow."""
        training, minutes = self.training, self.recipe.budget
        training.print_progress(estimate(plan, pace).text(minutes))
        if plan.share < 1:
            part, whole = len(training.valid_part(plan.share)), len(training.valid)
            training.print_progress(
                f"validations read {part} of {counted(whole, 'batch')}: "
                "all of them would take more than a tenth of the time"
            )
        if minutes and plan.steps < ENOUGH_STEPS:
            short = f"{as_minutes(minutes)} {'is' if minutes == 1 else 'are'} too short for this"
            training.print_progress(
                f"{short}: give at least {needs(pace, self.spent()):.1f} minutes, "
                "less data or a smaller model (width=, depth=)"
            )

    def measure(self) -> Pace:
        """Seconds that a step and a whole validation take, measured and then undone."""
        training = self.training
        seconds = min(20.0, 0.05 * max(0.0, self.left())) if self.recipe.budget else A_LOOK

        def enough(here: bool) -> bool:
            return training.group.total([float(here)])[0] > 0

        a_step = self.undone(lambda step: step_seconds(step, seconds, training.clock, enough))
        some = spread_over(training.valid, TRIED / len(training.valid))
        began = training.clock()
        evaluate(training.objective, some, training.group)
        return Pace(a_step, (training.clock() - began) * len(training.valid) / len(some))

    def undone(self, trial: Callable[[Callable[[], object]], Any]) -> Any:
        """What comes of some trial steps, whose effects are taken back."""
        objective = self.training.objective  # with its model, and what it remembers itself
        before = {name: value.clone() for name, value in weights(objective).items()}
        state = TrainingState(steps=1_000_000)

        def step() -> None:
            self.training.step(state, False)
            state.step += 1

        found = trial(step)
        put_weights(objective, before)
        self.training.optimizer.state.clear()
        return found

    def follow_clock(self, state: TrainingState, progress: Progress) -> bool:
        """Change the plan of a budget where the clock says that it is off; whether it did. That is to be saved."""
        budget = 60 * self.recipe.budget
        if not budget or state.step >= state.steps:
            return False
        spent, pace = self.spent(), Pace(progress.pace or state.pace, state.validation)
        last = state.share * pace.validation  # the validation after the last step
        ending = spent + pace.step + last >= budget
        group = self.training.group
        if not group.agree(float(ending or spent >= state.looked + budget / PLANS)):
            return False
        state.looked = spent
        plan = corrected(state.step, StepPlan(state.steps, state.every, state.share), budget - spent - last, pace)
        steps = max(1, int(group.agree(state.step if ending else plan.steps)))
        changed, state.steps, progress.steps = steps != state.steps, steps, steps
        return changed


def estimate(plan: StepPlan, pace: Pace) -> Estimate:
    """What a plan takes."""
    return Estimate(plan.steps, pace, plan.share * (plan.steps // plan.every), memory_in_use())
