"""Intervals around forecasts, from the errors on the windows to validate on (split conformal prediction)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
PROBABILITIES = (
    0.005, 0.01, 0.025, *(n / 20 for n in range(1, 20)), 0.975, 0.99, 0.995,
)  # fmt: skip
USUAL = 80  # percent of the true values that an interval is to hold
MOST_ERRORS = 20_000_000  # numbers that quantiles are taken of
FEW = 100  # windows; with fewer, the steps of a forecast share their quantiles


def spread_of(errors: Values, horizon: int) -> NDArray[np.float32]:
    """Quantiles of the errors (truth - forecast) of windows, (windows, horizon, targets), for every step and target.

    Of n independent errors, a share p of new ones lies below the value of rank p (n + 1); the outermost ranks are the smallest
    and the largest error. Windows one row apart are not independent: n is the number of those that do not overlap. Of few
    windows all steps are taken together, each in units of its own size.

    Returns (probabilities, horizon, targets).

    >>> errors = np.random.default_rng(0).normal(size=(5_000, 1, 1))
    >>> low, high = band(spread_of(errors, 1), 80)
    >>> low.round(1).tolist(), high.round(1).tolist()
    ([[-1.3]], [[1.3]])

    Vovk, Gammerman and Shafer (2005); Lei et al. (2018), arXiv:1604.04173.
    """
    windows, steps, _ = errors.shape
    independent = max(1.0, windows / horizon)
    corrected = np.array([_corrected(p, independent * (steps if windows < FEW else 1)) for p in PROBABILITIES])
    if windows >= FEW:
        return np.quantile(errors, corrected, axis=0).astype(np.float32)
    size = _size_by_step(np.square(errors).mean(0))
    pooled = np.quantile((errors / size).reshape(windows * steps, -1), corrected, axis=0)
    return (pooled[:, None] * size).astype(np.float32)


def _corrected(probability: float, count: float) -> float:
    """The probability whose quantile of so many values has the wanted one for a new value."""
    if probability > 0.5:
        return 1 - _corrected(1 - probability, count)
    return float(max(0.0, (probability * (count + 1) - 0.5) / count)) if probability < 0.5 else 0.5


def _size_by_step(squares: Values) -> Values:
    """How large errors are at every step, (horizon, targets): a line through their squares, which does not fall."""
    steps = np.arange(len(squares)) - (len(squares) - 1) / 2
    rise = np.maximum(0.0, (steps[:, None] * squares).sum(0) / max(1e-12, float(np.square(steps).sum())))
    line = squares.mean(0) + rise * steps[:, None]
    return np.sqrt(np.maximum(line, 0.1 * squares.mean(0)) + 1e-18)


def band(spread: NDArray[np.floating], percent: float) -> tuple[Values, Values]:
    """How far the ends of an interval that is to hold a share of the true values are from a forecast, (horizon, targets)."""
    tail = (1 - percent / 100) / 2

    def at(probability: float) -> Values:
        place = float(np.interp(probability, PROBABILITIES, range(len(PROBABILITIES))))
        below = int(place)
        above, rest = min(below + 1, len(PROBABILITIES) - 1), place - below
        return (1 - rest) * spread[below].astype(np.float64) + rest * spread[above].astype(np.float64)

    return np.minimum(at(tail), 0.0), np.maximum(at(1 - tail), 0.0)  # the forecast itself is within


def thinned_errors(parts: Iterable[tuple[Values, Values]], windows: int, numbers: int) -> Values:
    """The errors (truth - forecast) of windows; of very many, some from all of them. `numbers` are those of one window."""
    every = max(1, -(-windows * numbers // MOST_ERRORS))
    return np.concatenate([(wanted - forecast)[::every] for forecast, wanted in parts])
