"""Early stopping: when it is no use to go on."""

from mirada.training.schedules import rate

LEAST_SHARE = 0.1  # of a run: a plateau that is shorter is no reason to stop


def stale(step: int, steps: int, best_step: int, epoch: int, patience: float) -> bool:
    """Whether validations have not become better for `patience` epochs (0: never ask), and for a tenth of the run.

    >>> stale(step=900, steps=1000, best_step=500, epoch=100, patience=3)
    True
    >>> stale(step=60, steps=1000, best_step=10, epoch=2, patience=3)  # many epochs, but a small part of the run
    False
    """
    return patience > 0 and step - best_step >= max(patience * epoch, LEAST_SHARE * steps)


def falling(schedule: str, step: int, steps: int, warmup: int) -> bool:
    """Whether the learning rate has begun to fall; where it never falls, whether it has been at its height.

    >>> falling("cosine", 50, 1000, 100), falling("cosine", 200, 1000, 100), falling("constant", 200, 1000, 100)
    (False, True, True)
    """
    now, next_one = rate(schedule, step, steps, warmup), rate(schedule, step + 1, steps, warmup)
    return next_one < now or now == next_one == 1.0
