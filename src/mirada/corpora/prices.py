"""Daily prices of three companies: A's price follows B's some weeks later; C is independent."""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from mirada.data.batching import drawn

COMPANIES = ("A", "B", "C")
DAYS = 4000  # trading days, from Monday to Friday
START = date(2010, 1, 4)
LAG = 20  # days after which A follows
LEVEL = 100.0  # to which all prices slowly return
NEWS, JUMP = 0.06, 0.04  # share of days with news about B, and how much they move its price
RISE, FALL = 0.9, 0.3  # shares of B's rises and falls that reach A
SUMMED = 12  # uniform numbers whose sum is nearly normal: sums are equal on every machine, logarithms need not be


@dataclass(frozen=True, eq=False)
class Prices:
    """A date and the prices of all companies for every day."""

    dates: tuple[str, ...]
    prices: NDArray[np.float64]  # (days, companies)


def prices(days: int = DAYS, seed: int = 0) -> Prices:
    """A buys its material from B: moves of B's price reach A's price after twenty days, rises more than falls.

    r_A(t) = pass(r_B(t - 20)) + return to the level + noise, with pass(r) = 0.9 r for a rise and 0.3 r for a fall

    B and C move at random and return to their level. So only B's last days predict A's next days: neither the last price nor a
    linear model of A's own past can.

    >>> data = prices()
    >>> data.dates[:2], data.prices[:2].tolist()
    (('2010-01-04', '2010-01-05'), [[99.57, 95.15, 109.95], [99.68, 94.22, 109.13]])
    """
    uniform = drawn((days + LAG) * 3 * SUMMED, seed).reshape(days + LAG, 3, SUMMED) >> np.uint64(40)
    noise = uniform.sum(-1, dtype=np.uint64).astype(np.float64) / 2.0**24 - SUMMED / 2  # nearly normal
    news = drawn(days + LAG, seed, 1)
    chance = news % np.uint64(1000) < int(1000 * NEWS)
    jumps = np.where(chance, np.where(news >> np.uint64(63) == 1, JUMP, -JUMP), 0.0)
    moves = np.zeros(days + LAG)
    rows, (a, b, c) = [], (LEVEL, LEVEL, LEVEL)
    for day in range(days + LAG):
        moves[day] = 0.008 * noise[day, 1] + jumps[day] + _back(b, 0.02)
        b *= 1 + moves[day]
        c *= 1 + 0.012 * noise[day, 2] + _back(c, 0.02)
        heard = moves[day - LAG] if day >= LAG else 0.0
        a *= 1 + (RISE if heard > 0 else FALL) * heard + 0.004 * noise[day, 0] + _back(a, 0.05)
        rows.append((a, b, c))
    every = (START + timedelta(days=number) for number in range(2 * days + 7))
    business_days = tuple(day.isoformat() for day in every if day.weekday() < 5)[:days]
    return Prices(business_days, np.array(rows[LAG:]).round(2))


def _back(price: float, strength: float) -> float:
    """The pull to the level."""
    return strength * (LEVEL - price) / LEVEL
