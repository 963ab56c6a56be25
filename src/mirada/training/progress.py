"""Telling a person how far a run is: one line that renews itself on a terminal, plain lines now and then elsewhere."""

import os
import sys
import time
from typing import TextIO

QUIET_SECONDS = 20.0  # between two plain lines
REDRAW_SECONDS = 0.2
BAR = 24


class Progress:
    """A bar with loss, speed and time left."""

    def __init__(self, steps: int, done: int = 0, out: TextIO | None = None) -> None:
        self.out = out or sys.stderr
        self.live = self.out.isatty()
        self.color = self.live and "NO_COLOR" not in os.environ
        self.steps, self.first, self.began, self.drawn = steps, done, time.monotonic(), 0.0

    def show(self, step: int, loss: float, speed: float) -> None:
        """Draw the line again, if it is time to."""
        now = time.monotonic()
        if now - self.drawn < (REDRAW_SECONDS if self.live else QUIET_SECONDS) and step < self.steps:
            return
        self.drawn = now
        left = (now - self.began) / max(1, step - self.first) * (self.steps - step)
        facts = f"step {step:,}/{self.steps:,}  loss {loss:.3f}  {speed:,.0f} tokens/s  {clock(left)} left"
        if self.live:
            full = round(BAR * step / max(1, self.steps))
            bar = "━" * full + " " * (BAR - full)
            self.out.write("\r\x1b[2K" + (f"\x1b[36m{bar}\x1b[0m " if self.color else f"{bar} ") + facts)
            self.out.flush()
        else:
            self.line(facts)

    def line(self, text: str) -> None:
        """A line of its own."""
        self.out.write(("\r\x1b[2K" if self.live else "") + text + "\n")
        self.out.flush()

    def end(self) -> None:
        """Leave the bar's line."""
        if self.live:
            self.out.write("\r\x1b[2K")
            self.out.flush()


class Silence(Progress):
    """For the processes that do not lead."""

    def show(self, step: int, loss: float, speed: float) -> None:
        return

    def line(self, text: str) -> None:
        return

    def end(self) -> None:
        return


def clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock(95), clock(3725)
    ('1:35', '1:02:05')
    """
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
