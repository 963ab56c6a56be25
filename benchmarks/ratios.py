"""Ratios of running times, fit for a noisy machine: contestants take turns, and each round gives one ratio.

The median of the rounds' ratios is reported, with the quartiles as its spread.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A contestant's time over the baseline's: median, quartiles, and the median times in milliseconds."""

    median: float
    low: float
    high: float
    own_ms: float
    base_ms: float

    def row(self, name: str) -> str:
        """One line of a table."""
        spread = f"{self.low:.3f} .. {self.high:.3f}"
        return f"| {name} | {self.median:.3f} | {spread} | {self.own_ms:.2f} | {self.base_ms:.2f} |"


HEADER = "| what | ratio | quartiles | numerator, ms | denominator, ms |\n|---|---|---|---|---|"


def race(own: Callable[[], object], base: Callable[[], object], rounds: int = 40, warm_up: int = 3) -> Ratio:
    """How much longer `own` takes than `base`. The two alternate, and who goes first alternates too."""
    for _ in range(warm_up):
        own()
        base()
    times: list[tuple[float, float]] = []
    for turn in range(rounds):
        pair = {}
        for name in ("own", "base") if turn % 2 else ("base", "own"):
            begin = time.perf_counter()
            (own if name == "own" else base)()
            pair[name] = time.perf_counter() - begin
        times.append((pair["own"], pair["base"]))
    low, median, high = statistics.quantiles([own_time / base_time for own_time, base_time in times], n=4)
    own_ms, base_ms = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    return Ratio(median, low, high, own_ms, base_ms)
