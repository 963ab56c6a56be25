"""Trial steps: what a step and a validation take on this machine, with one thread and with all, measured and undone."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mirada.training.budget import Pace
from mirada.training.progress import as_clock, as_minutes, counted

FASTER = 1.3  # one thread must be that much faster than all of them to be taken
TURNS = 4  # of one thread and of all, before they are compared


@dataclass(frozen=True)
class Estimate:
    """What a run will take on this machine."""

    steps: int
    pace: Pace
    validations: float  # whole ones
    memory: int

    @property
    def seconds(self) -> float:
        return self.steps * self.pace.step + self.validations * self.pace.validation

    def text(self, minutes: float) -> str:
        """The estimate in a line."""
        inside = f" within {as_minutes(minutes)}" if minutes else ""
        memory = f" and {self.memory / 1e9:.1f} GB of memory" if self.memory else ""
        return (
            f"{counted(self.steps, 'step')}{inside}: about {as_clock(self.seconds)}{memory} "
            f"on this machine ({1000 * self.pace.step:.0f} ms a step)"
        )


def step_seconds(step: Callable[[], object], seconds: float, clock: Callable[[], float], enough: Callable) -> float:
    """The time of a step: of the later half of those that fit into some seconds, at least three.

    Before that, memory and processor come out of their sleep. `enough` agrees with the other processes.
    """
    times: list[float] = []
    while True:
        began = clock()
        step()
        times.append(clock() - began)
        if enough(len(times) >= 3 and sum(times) >= seconds):
            break
    warm = times[len(times) // 2 :]
    return sum(warm) / len(warm)


def faster_threads(step: Callable[[], object], threads: int, clock: Callable[[], float]) -> int:
    """One thread if it is clearly faster than `threads` of them, measured in turns: beside busy processes, threads that wait
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


def spread_over(items: Sequence, share: float) -> list:
    """So many of some items, from the whole of them: at least one.

    >>> spread_over("abcdefgh", 0.25)
    ['a', 'e']
    """
    count = max(1, min(len(items), round(share * len(items))))
    return [items[place * len(items) // count] for place in range(count)]


def memory_in_use() -> int:
    """The most memory this process has had so far, in bytes; 0 where the system does not say (Windows)."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
