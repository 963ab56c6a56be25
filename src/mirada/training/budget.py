"""How many steps fit into a budget of time, how often to validate in it, and when the clock asks for another plan.

Everything here is a function of numbers that were measured; who measures them has the clock.
"""

from dataclasses import dataclass
from math import ceil

VALIDATION_SHARE = 0.1  # of a budget: validations take no more
USUAL, MOST = 20, 200  # validations in a run whose epochs are longer, and in one whose epochs are shorter
FEWEST = 5  # rather than fewer of them, a validation reads a part of the records
ENOUGH_STEPS = 20  # fewer teach a model next to nothing
NOTICEABLE = 0.02  # share of the steps to come by which a plan must be off to be changed


@dataclass(frozen=True)
class Pace:
    """Seconds that a step and a whole validation take, validations beside steps not counted."""

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
    """The plan after `step` steps with `left` seconds to go: as before, unless the clock says that it is off.

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


def needs(pace: Pace, spent: float) -> float:
    """Minutes that a run takes to make enough steps, from its beginning."""
    return (spent + ENOUGH_STEPS * pace.step / (1 - VALIDATION_SHARE)) / 60
