"""Axes of charts: round ticks, their labels, and from values to places."""

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TypeAlias

from mirada.drawing.numerals import scientific

Ticks: TypeAlias = tuple[tuple[float, str], ...]
Ticked: TypeAlias = tuple[float, float, Ticks]

ROUND = (1, 2, 2.5, 5, 10)
TINY = 1e-100  # below it, powers of ten leave the range of floats
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Axis:
    """Values from low to high lie between two places. Ticks are pairs of a value and its label."""

    low: float
    high: float
    start: float
    end: float
    ticks: Ticks
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value.

        >>> Axis(0, 10, 100, 0, ())(2.5)
        75.0
        """
        low, high, value = (log10(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def linear(low: float, high: float, about: int, whole: bool, least: float = 0.0) -> Ticked:
    """The range and its ticks, at least `least` apart; `whole` widens the range so that it starts and ends at a tick.

    >>> linear(130, 970, about=4, whole=True)
    (0.0, 1000.0, ((0.0, '0'), (250.0, '250'), (500.0, '500'), (750.0, '750'), (1000.0, '1,000')))
    """
    low, high = spread(low, high)
    step = max(round_step((high - low) / about), least)
    first, last = low / step, high / step
    # a hair of tolerance: 0.3 / 0.1 is a little less than 3
    if whole:
        indices = range(floor(first + 1e-9), ceil(last - 1e-9) + 1)
    else:
        indices = range(ceil(first - 1e-9), floor(last + 1e-9) + 1)
    values = [index * step for index in indices]
    if whole:
        low, high = values[0], values[-1]
    return low, high, tuple(zip(values, labels(values, step), strict=True))


def spread(low: float, high: float) -> tuple[float, float]:
    """The range, widened where it is too narrow to draw."""
    size = max(abs(low), abs(high))
    if high - low > max(1e-6 * size, TINY):
        return low, high
    room = 0.1 * size if size > TINY else 1.0
    return low - room, high + room


def round_step(rough: float) -> float:
    """The smallest round number that is not below `rough`."""
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in ROUND if factor * power >= rough * (1 - 1e-9))


def labels(values: list[float], step: float) -> list[str]:
    """Labels of evenly spaced ticks, all in one unit.

    >>> labels([0, 25000, 50000], 25000), labels([0, 2e-5], 2e-5)
    (['0', '25k', '50k'], ['0', '2e-5'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    if largest < 1e-3 or largest >= 1e13:
        digits = max(2, ceil(log10(max(largest, step) / step)))  # so that neighbors differ
        return [scientific(value, digits) if value else "0" for value in values]
    unit, name = next(((unit, name) for unit, name in UNITS if largest >= 10 * unit), (1.0, ""))
    return [f"{short(value / unit, step / unit)}{name}" if value else "0" for value in values]


def short(value: float, step: float) -> str:
    """A tick with the decimals that its step needs."""
    decimals = max(0, ceil(-log10(step) - 1e-9))
    if round(step * 10**decimals, 6) % 1:  # 2.5 needs one more than its size says
        decimals += 1
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def logarithmic(low: float, high: float) -> Ticked:
    """The range of positive values and ticks at 1, 2 and 5 times the powers of ten, or at the powers alone.

    >>> [label for _, label in logarithmic(3, 400)[2]]
    ['2', '5', '10', '20', '50', '100', '200', '500']
    """
    first, last = floor(log10(low)), ceil(log10(high))
    factors = (1, 2, 5) if last - first <= 4 else (1,)
    # one power more on each side: a logarithm may be a hair off
    values = [factor * 10.0**power for power in range(first - 1, last + 2) for factor in factors]
    below = max(value for value in values if value <= low)
    above = min(value for value in values if value >= high and value > below)
    inside = [value for value in values if below <= value <= above]
    return below, above, tuple((value, labels([value], value)[0]) for value in inside)
