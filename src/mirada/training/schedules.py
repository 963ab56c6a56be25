"""How the learning rate goes up and down: a schedule is a function of (step, steps, warmup) with its highest value at 1.

Steps count from 1, so that the first one is not wasted.
"""

import math
from collections.abc import Callable

Schedule = Callable[[int, int, int], float]


def noam(step: int, steps: int, warmup: int) -> float:
    """Up in a line, down as 1 / sqrt(step): min(step / warmup, sqrt(warmup / step)).

    The paper's rate, width^-0.5 min(step^-0.5, step warmup^-1.5), is this times a peak of (width warmup)^-0.5.

    >>> [noam(step, 0, 100) for step in (1, 50, 100, 400)]
    [0.01, 0.5, 1.0, 0.5]

    Vaswani et al. (2017), arXiv:1706.03762, 5.3.
    """
    warmup = max(1, warmup)
    return min(step / warmup, math.sqrt(warmup / step))


def cosine(step: int, steps: int, warmup: int) -> float:
    """Up in a line, down along half a cosine that would be at zero one step after the end of the run.

    >>> [round(cosine(step, 1099, 100), 3) for step in (50, 100, 600, 1100)]
    [0.5, 1.0, 0.5, 0.0]

    Loshchilov and Hutter (2017), arXiv:1608.03983.
    """
    if step <= warmup:
        return step / max(1, warmup)
    done = (step - warmup) / max(1, steps + 1 - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def constant(step: int, steps: int, warmup: int) -> float:
    """Up in a line, then steady.

    >>> [constant(step, 1000, 100) for step in (50, 100, 1000)]
    [0.5, 1.0, 1.0]
    """
    return min(1.0, step / max(1, warmup))


SCHEDULES: dict[str, Schedule] = {"noam": noam, "cosine": cosine, "constant": constant}


def rate(schedule: str, step: int, steps: int, warmup: int) -> float:
    """The factor of a step, counted from 0. A warm-up never takes more than a fifth of a run.

    >>> rate("constant", 0, 1000, 400), rate("constant", 199, 1000, 400)
    (0.005, 1.0)
    """
    return SCHEDULES[schedule](step + 1, steps, min(warmup, max(1, steps // 5)))
