"""Telling a person how far a run is: one line that renews itself on a terminal, plain lines now and then elsewhere."""

import math
import os
import sys
import time
from collections.abc import Callable
from typing import TextIO

from mirada.words import visible

QUIET_SECONDS = 20.0  # between two plain lines
REDRAW_SECONDS = 0.2
BAR = 24
VALIDATION_SECONDS = 1.0  # between two lines about validations: runs on a handful of records have many of them
SMOOTH = 0.1  # how much the last step counts in the speed
STEADY = 0.005  # and in the pace by which the rest of a run is planned: a moment's stall says little about it


class Progress:
    """A bar with loss, speed and time left. The speed is that of the last steps; validations do not count in it."""

    def __init__(
        self, steps: int, done: int = 0, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.out = out or sys.stderr or open(os.devnull, "w")  # noqa: SIM115 (stderr may have been closed by who started us)
        self.live = self.out.isatty()
        self.color = self.live and "NO_COLOR" not in os.environ
        self.steps, self.first, self.clock = steps, done, clock
        self.began, self.drawn = clock(), -math.inf
        self.speed, self.pace, self.counted = 0.0, 0.0, 0  # tokens a second, seconds a step (means that forget), steps
        self.logged = -math.inf  # when a validation was logged last

    def count(self, seconds: float, tokens: int) -> None:
        """A step took so long, with so many tokens."""
        speed = tokens / max(seconds, 1e-9)
        self.counted += 1
        self.speed += max(SMOOTH, 1 / self.counted) * (speed - self.speed)
        self.pace += max(STEADY, 1 / self.counted) * (seconds - self.pace)

    def show(self, step: int, loss: float) -> None:
        """Draw the line again, if it is time to."""
        now = self.clock()
        if now - self.drawn < (REDRAW_SECONDS if self.live else QUIET_SECONDS) and step < self.steps:
            return
        self.drawn = now
        left = (now - self.began) / max(1, step - self.first) * (self.steps - step)
        facts = f"step {step:,}/{self.steps:,}  loss {loss:.3f}  {self.speed:,.0f} tokens/s  {as_clock(left)} left"
        if self.live:
            full = round(BAR * step / max(1, self.steps))
            bar = "━" * full + " " * (BAR - full)
            self.out.write("\r\x1b[2K" + (f"\x1b[36m{bar}\x1b[0m " if self.color else f"{bar} ") + facts)
            self.out.flush()
        else:
            self.line(facts)

    def should_log(self, step: int) -> bool:
        """Whether the validation after a step is worth a line: the last one, and others now and then."""
        now = self.clock()
        if now - self.logged < VALIDATION_SECONDS and step < self.steps:
            return False
        self.logged = now
        return True

    def line(self, text: str) -> None:
        """A line of its own."""
        self.out.write(f"\r\x1b[2K{visible(text)}\n" if self.live else f"{text}\n")
        self.out.flush()

    def end(self) -> None:
        """Leave the bar's line."""
        if self.live:
            self.out.write("\r\x1b[2K")
            self.out.flush()


class Silence(Progress):
    """For the processes that do not lead."""

    def show(self, step: int, loss: float) -> None:
        return

    def line(self, text: str) -> None:
        return

    def end(self) -> None:
        return


def as_clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> as_clock(95), as_clock(3725)
    ('1:35', '1:02:05')
    """
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def as_minutes(minutes: float) -> str:
    """Minutes in words.

    >>> as_minutes(1), as_minutes(0.5)
    ('1 minute', '0.5 minutes')
    """
    return f"{minutes:g} minute{'' if minutes == 1 else 's'}"
