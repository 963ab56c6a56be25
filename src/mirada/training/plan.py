"""The plan of a run: how many steps, how often validated, with how many threads, and what the clock changes in it later."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from math import ceil

import torch

from mirada.data.batching import Microbatch
from mirada.training.distributed import ProcessGroup
from mirada.training.objectives import Objective, evaluate
from mirada.training.progress import Progress, as_clock, as_minutes
from mirada.training.recipe import Recipe
from mirada.training.state import TrainingState
from mirada.words import plural

# How many steps fit into a budget of time, how often to validate in it, and when the clock asks for another plan.


VALIDATION_SHARE = 0.1  # of a budget: validations take no more
USUAL, MOST = 20, 200  # validations in a run whose epochs are longer, and in one whose epochs are shorter
FEWEST = 5  # rather than fewer of them, a validation reads a part of the records
ENOUGH_STEPS = 20  # fewer teach a model next to nothing
NOTICEABLE = 0.02  # share of the steps to come by which a plan must be off to be changed


@dataclass(frozen=True)
class Pace:
    """Seconds that a step and a whole validation take, without the validations between steps."""

    step: float
    validation: float


@dataclass(frozen=True)
class StepPlan:
    """How many steps there will be, how many lie between two validations, and which share of the records these read."""

    steps: int
    every: int
    share: float = 1.0


def usual_every(steps: int, epoch: int) -> int:
    """Steps between two validations: an epoch, but in all at least twenty and at most two hundred validations.

    >>> usual_every(1000, epoch=300), usual_every(1000, epoch=2)
    (50, 5)
    """
    return max(1, min(epoch, steps // USUAL), steps // MOST)


def within(seconds: float, pace: Pace, epoch: int, every: int = 0, least: float = 0.0) -> StepPlan:
    """What fits into some seconds, the last validation included.

    Validations take a tenth of them at most: fewer validations than usual, and rather than fewer than five, validations on
    a part of the records, `least` of them at least. An interval that somebody asked for stays.

    >>> within(60, Pace(step=0.1, validation=0.05), epoch=100)
    StepPlan(steps=590, every=30, share=1.0)
    >>> within(30, Pace(step=0.5, validation=18.0), epoch=9000)  # not even one whole validation would fit
    StepPlan(steps=54, every=11, share=0.0333...)
    """
    if every:
        return StepPlan(max(1, int(seconds / (pace.step + pace.validation / every))), every)
    possible = max(1.0, seconds / pace.step)
    wanted = min(max(USUAL, possible / epoch), MOST, max(1.0, possible / 4))
    allowed = VALIDATION_SHARE * seconds
    count, share = min(wanted, allowed / max(pace.validation, 1e-9)), 1.0
    if count < min(wanted, FEWEST):
        count = min(wanted, FEWEST)
        share = max(least, allowed / (count * pace.validation))
        count = min(count, max(1.0, allowed / (share * pace.validation)))
    steps = max(1, int((seconds - count * share * pace.validation) / pace.step))
    return StepPlan(steps, max(1, ceil(steps / max(1.0, int(count)))), share)


def corrected(step: int, plan: StepPlan, left: float, pace: Pace) -> StepPlan:
    """The plan after `step` steps with `left` seconds to go: as before, unless it is off by the clock.

    >>> corrected(100, StepPlan(200, 10), left=20.0, pace=Pace(0.1, 1.0))  # as planned
    StepPlan(steps=200, every=10, share=1.0)
    >>> corrected(100, StepPlan(200, 10), left=10.0, pace=Pace(0.1, 1.0))  # half the time is left
    StepPlan(steps=150, every=10, share=1.0)
    """
    cost = pace.step + plan.share * pace.validation / plan.every
    steps = step + max(0, int(left / cost + 1e-9))
    if abs(steps - plan.steps) <= max(1, NOTICEABLE * (plan.steps - step)) and left >= 0:
        return plan
    return StepPlan(max(step, steps, 1), plan.every, plan.share)


# Trial steps: what a step and a validation take on this machine, with one thread and with all, measured and undone.


FASTER = 1.3  # one thread must be that much faster than all of them to be taken
TURNS = 4  # of one thread and of all, before they are compared


def estimate(plan: StepPlan, pace: Pace, minutes: float) -> str:
    """What a plan takes on this machine, in a line; `minutes` are its budget, if it has one."""
    seconds = plan.steps * pace.step + plan.share * (plan.steps // plan.every) * pace.validation
    memory = _memory_in_use()
    return (
        f"{plural(plan.steps, 'step')}{f' within {as_minutes(minutes)}' if minutes else ''}: about {as_clock(seconds)}"
        f"{f' and {memory / 1e9:.1f} GB of memory' if memory else ''} on this machine ({1000 * pace.step:.0f} ms a step)"
    )


def faster_threads(step: Callable[[], object], threads: int, clock: Callable[[], float]) -> int:
    """One thread if it is clearly faster than `threads` of them, measured in turns: next to busy processes, threads that wait
    for each other take longer than one alone.
    """
    if threads == 1:
        return 1
    times: dict[int, list[float]] = {1: [], threads: []}
    for _ in range(TURNS):
        for count in times:
            torch.set_num_threads(count)
            began = clock()
            step()
            times[count].append(clock() - began)
    alone, together = (sorted(times[count])[TURNS // 2] for count in times)
    chosen = 1 if together > FASTER * alone else threads
    torch.set_num_threads(chosen)
    return chosen


def sample_share(items: Sequence, share: float) -> list:
    """So many of some items, from the whole of them: at least one.

    >>> sample_share("abcdefgh", 0.25)
    ['a', 'e']
    """
    count = max(1, min(len(items), round(share * len(items))))
    return [items[place * len(items) // count] for place in range(count)]


def _memory_in_use() -> int:
    """The most memory this process has had so far, in bytes; 0 where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


TRIAL_SECONDS = 0.3  # seconds of trial steps where no budget asks for more
TRIED = 3  # batches of a validation whose time is measured: a whole one may take as long as the budget
PLANS = 20  # times that a budget's plan is looked at again, at most


@dataclass
class Planning:
    """What a run decides by the clock. Whatever it decides later than at the beginning is saved with the run.

    Args:
        recipe: What was asked for: steps, epochs or minutes, threads, validations.
        group: The processes, which have to come to the same plan.
        objective: What is trained; trial steps leave it as it was.
        optimizer: Its memory of the trial steps is cleared.
        step: Makes one training step for a state.
        epoch: How many batches there are to learn from.
        valid: All batches to validate on.
        print_progress: Is given each decision in a sentence.
        began: When the run was asked for, a time of `clock`.
        clock: Seconds.
    """

    recipe: Recipe
    group: ProcessGroup
    objective: Objective
    optimizer: torch.optim.Optimizer
    step: Callable[[TrainingState], object]
    epoch: int
    valid: Sequence[Microbatch]
    print_progress: Callable[[str], None]
    began: float
    clock: Callable[[], float]
    before: float = 0.0  # seconds of earlier starts of a run that was resumed

    def spent(self) -> float:
        """Seconds of the budget that are used up, over all starts."""
        return self.before + self.clock() - self.began

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return 60 * self.recipe.budget - self.spent()

    def choose_threads(self) -> int:
        """Compute with as many threads as the recipe says; where it does not, with all or one, whichever is faster here."""
        threads = self.recipe.threads or torch.get_num_threads()
        torch.set_num_threads(threads)
        fixed = self.recipe.threads or "OMP_NUM_THREADS" in os.environ or self.group.world > 1
        why = ""
        if not fixed and self.group.device.type == "cpu":
            before = threads
            with self.restored() as state:
                threads = faster_threads(lambda: self.step(state), before, self.clock)
            if threads < before:
                why = f": on this busy machine that is faster than {before} (threads={before} asks for them)"
        self.print_progress(f"computing with {plural(threads, 'thread')}{why}")
        return threads

    def begin(self) -> TrainingState:
        """The state of a new run, with its plan, which is printed: what will happen, and what a budget does not allow."""
        pace, minutes = self.measure(), self.recipe.budget
        plan = self.plan(pace)
        self.print_progress(estimate(plan, pace, minutes))
        if plan.share < 1:
            self.print_progress(
                f"validations read {len(sample_share(self.valid, plan.share))} of {plural(len(self.valid), 'batch')}: "
                "all of them would take more than a tenth of the time"
            )
        if minutes and plan.steps < ENOUGH_STEPS:
            least = (self.spent() + ENOUGH_STEPS * pace.step / (1 - VALIDATION_SHARE)) / 60
            self.print_progress(
                f"{as_minutes(minutes)} {'is' if minutes == 1 else 'are'} too short for this: give at least {least:.1f} "
                "minutes, less data or a smaller model (width=, depth=)"
            )
        return TrainingState(
            steps=plan.steps, every=plan.every, share=plan.share, pace=pace.step, validation=pace.validation
        )  # fmt: skip

    def resume(self, state: TrainingState) -> None:
        """Take up the plan of a saved state. A budget that is larger than before is planned anew."""
        state.every = state.every or self.recipe.validate or usual_every(state.steps, self.epoch)
        self.before = state.spent
        if not self.recipe.budget > state.budget > 0:
            return
        plan = self.fitting(Pace(state.pace, state.validation) if state.pace else self.measure())
        state.steps, state.every, state.share = state.step + plan.steps, plan.every, plan.share
        state.finished, state.ended, state.budget, state.planned = False, "", self.recipe.budget, state.step
        self.print_progress(
            f"{plural(plan.steps, 'more step')} after {state.step:,}, in {as_minutes(self.recipe.budget)} altogether"
        )

    def plan(self, pace: Pace) -> StepPlan:
        """How many steps there will be: `steps`, or what fits into `minutes`, or all `epochs`."""
        recipe = self.recipe
        if recipe.budget:
            plan = self.fitting(pace)
            steps, every = (int(self.group.agree(number)) for number in (plan.steps, plan.every))
            return StepPlan(steps, every, self.group.agree(plan.share))
        steps = recipe.steps or recipe.epochs * self.epoch
        return StepPlan(steps, recipe.validate or usual_every(steps, self.epoch))

    def fitting(self, pace: Pace) -> StepPlan:
        """What fits into the rest of the budget; a validation reads at least one batch."""
        return within(max(0.0, self.left()), pace, self.epoch, self.recipe.validate, 1 / len(self.valid))

    def measure(self) -> Pace:
        """Seconds that a step and a whole validation take, measured and then undone.

        The time of a step is the mean of the later half of those that fit into some seconds, at least three: before that,
        memory and processor warm up.
        """
        seconds = min(20.0, 0.05 * max(0.0, self.left())) if self.recipe.budget else TRIAL_SECONDS
        times: list[float] = []
        with self.restored() as state:
            enough = False
            while not enough:
                began = self.clock()
                self.step(state)
                times.append(self.clock() - began)
                enough = self.group.total([float(len(times) >= 3 and sum(times) >= seconds)])[0] > 0
        warm = times[len(times) // 2 :]
        some = sample_share(self.valid, TRIED / len(self.valid))
        began = self.clock()
        evaluate(self.objective, some, self.group)
        return Pace(sum(warm) / len(warm), (self.clock() - began) * len(self.valid) / len(some))

    @contextmanager
    def restored(self) -> Iterator[TrainingState]:
        """A state for some trial steps, whose effects are undone at the end."""
        before = deepcopy(self.objective.state_dict())  # the model's weights, and what the objective remembers
        yield TrainingState(steps=1_000_000)
        self.objective.load_state_dict(before)
        self.optimizer.state.clear()

    def follow_clock(self, state: TrainingState, progress: Progress) -> bool:
        """Change the plan of a budget if it is off by the clock. Returns whether it was changed, which is to be saved."""
        budget = 60 * self.recipe.budget
        if not budget or state.step >= state.steps:
            return False
        spent, pace = self.spent(), Pace(progress.pace or state.pace, state.validation)
        last = state.share * pace.validation  # the validation after the last step
        ending = spent + pace.step + last >= budget
        if not self.group.agree(float(ending or spent >= state.looked + budget / PLANS)):
            return False
        state.looked = spent
        plan = corrected(state.step, StepPlan(state.steps, state.every, state.share), budget - spent - last, pace)
        steps = max(1, int(self.group.agree(state.step if ending else plan.steps)))
        changed, state.steps, progress.steps = steps != state.steps, steps, steps
        return changed
