"""A linear forecast of every column from its own past: what a model has to be better than, learned in seconds."""

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Values = NDArray[np.float64]  # (rows, columns)
Starts = NDArray[np.int64]  # the first row of every window
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # for every window that is learned from
MOST_LEARNED, MOST_TRIED = 20_000, 4_000  # windows; more of them change little
AT_ONCE = 2_048  # windows


class Ridge(NamedTuple):
    """The weights of a linear forecast for every column, with the bias in the last row, and the penalty of each."""

    weights: NDArray[np.float64]  # (columns, lookback + 1, horizon)
    penalties: tuple[float, ...]

    @property
    def lookback(self) -> int:
        return self.weights.shape[1] - 1

    def forecast(self, values: Values, starts: Starts) -> NDArray[np.float64]:
        """The next rows after each window, (windows, horizon, columns)."""
        found = np.empty((len(starts), self.weights.shape[2], values.shape[1]))
        for column in range(values.shape[1]):
            for first in range(0, len(starts), AT_ONCE):
                x, last = known(values[:, column], starts[first : first + AT_ONCE], self.lookback)
                found[first : first + AT_ONCE, :, column] = (
                    last + x @ self.weights[column, :-1] + self.weights[column, -1]
                )
        return found


def fit_ridge(values: Values, learned: Starts, tried: Starts, lookback: int, horizon: int) -> Ridge:
    """Ridge regression from the last `lookback` values of a column to the next `horizon`, all relative to the last value.

    W = argmin sum over windows of |(y - y_last) - (x - y_last) W - b|^2 + penalty x windows x |W|^2

    Relative to the last value a penalty pulls towards repeating that, and not towards zero: on prices this is a much better
    plain forecast, elsewhere about the same (Zeng et al. call it NLinear). The penalty is the best one for `tried`.

    >>> line = np.arange(40.0)[:, None]
    >>> ridge = fit_ridge(line, np.arange(20), np.arange(20, 30), lookback=3, horizon=2)
    >>> ridge.forecast(line, np.array([30])).round(2).tolist()
    [[[33.0], [34.0]]]

    Hoerl and Kennard (1970); Zeng et al. (2023), arXiv:2205.13504.
    """
    learned, tried = thinned(learned, MOST_LEARNED), thinned(tried, MOST_TRIED)
    found = [fit_column(values[:, column], learned, tried, lookback, horizon) for column in range(values.shape[1])]
    return Ridge(np.stack([weights for weights, _ in found]), tuple(penalty for _, penalty in found))


def fit_column(
    column: NDArray[np.float64], learned: Starts, tried: Starts, lookback: int, horizon: int
) -> tuple[NDArray[np.float64], float]:
    """The weights of one column with the bias below them, and their penalty."""
    (x, last), y = known(column, learned, lookback), wanted(column, learned, lookback, horizon)
    x_mean, y_mean = x.mean(0), (y - last).mean(0)
    x, y = x - x_mean, y - last - y_mean
    sizes, directions = np.linalg.eigh(x.T @ x)  # once for all penalties
    turned = directions.T @ (x.T @ y)
    (x, last), y = known(column, tried, lookback), wanted(column, tried, lookback, horizon)
    best, found = np.inf, (np.zeros((lookback + 1, horizon)), PENALTIES[-1])
    for penalty in PENALTIES:
        weights = directions @ (turned / (np.maximum(sizes, 0) + penalty * len(learned))[:, None])
        bias = y_mean - x_mean @ weights
        error = float(np.square(last + x @ weights + bias - y).mean())
        if error < best:
            best, found = error, (np.vstack([weights, bias]), penalty)
    return found


def known(
    column: NDArray[np.float64], starts: Starts, lookback: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What is known in each window, relative to its last value, and that value, (windows, lookback) and (windows, 1)."""
    seen = sliding_window_view(column, lookback)[starts]
    return seen - seen[:, -1:], seen[:, -1:]


def wanted(column: NDArray[np.float64], starts: Starts, lookback: int, horizon: int) -> NDArray[np.float64]:
    """What comes after each window."""
    return sliding_window_view(column, horizon)[starts + lookback]


def thinned(starts: Starts, most: int) -> Starts:
    """At most so many windows, from all of them.

    >>> thinned(np.arange(7), 3).tolist()
    [0, 3, 6]
    """
    return starts[:: max(1, -(-len(starts) // most))]
