"""The errors of forecasts, next to those of plain forecasts, and a sentence that sums them up."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Values = NDArray[np.float64]  # (rows, columns), or (windows, horizon, columns)
Starts = NDArray[np.int64]  # the first row of every window
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # for every window that is learned from
MOST_LEARNED, MOST_TRIED = 20_000, 4_000  # windows; more of them change little
RIDGE_WINDOWS_AT_ONCE = 2_048  # windows
FORECASTS = {"": "this model", "_repeat": "repeating the last value", "_linear": "a linear model of each column's past"}
METRICS = ("mse", "mae")
Forecasts = Iterable[tuple[Sequence[Values], Values]]  # several, and the truth; part by part
Errors = NDArray[np.float64]  # (windows, forecasts, metrics, targets)
WINDOWS_AT_ONCE = 256  # windows
STEPS = 20  # parts that shares are made of
CLEAR = 0.01  # difference of two errors, as a share, that is worth a word


def fit_ridge(values: Values, learned: Starts, tried: Starts, lookback: int, horizon: int) -> Values:
    """Ridge regression from the last `lookback` values of a column to the next `horizon`, all relative to the last value.

    W = argmin sum over windows of |(y - y_last) - (x - y_last) W - b|^2 + penalty x windows x |W|^2

    Relative to the last value a penalty pulls towards repeating that, and not towards zero: on prices this is a much better
    plain forecast, elsewhere about the same (Zeng et al. call it NLinear). The penalty is the best one for `tried`.
    Returns the weights of every column, (columns, lookback + 1, horizon), with the bias in the last row.

    >>> line = np.arange(40.0)[:, None]
    >>> weights = fit_ridge(line, np.arange(20), np.arange(20, 30), lookback=3, horizon=2)
    >>> plain_forecasts(line, np.array([30]), weights)[1].round(2).tolist()
    [[[33.0], [34.0]]]

    Hoerl and Kennard (1970); Zeng et al. (2023), arXiv:2205.13504.
    """
    learned, tried = _thinned(learned, MOST_LEARNED), _thinned(tried, MOST_TRIED)
    return np.stack([_fit_column(column, learned, tried, lookback, horizon) for column in values.T])


def _fit_column(column: Values, learned: Starts, tried: Starts, lookback: int, horizon: int) -> Values:
    """The weights of one column with the bias below them."""
    following = sliding_window_view(column, horizon)
    (x, last), y = _known(column, learned, lookback), following[learned + lookback]
    x_mean, y_mean = x.mean(0), (y - last).mean(0)
    x, y = x - x_mean, y - last - y_mean
    sizes, directions = np.linalg.eigh(x.T @ x)  # once for all penalties
    projected = directions.T @ (x.T @ y)
    (x, last), y = _known(column, tried, lookback), following[tried + lookback]
    best_error, best = np.inf, np.zeros((lookback + 1, horizon))
    for penalty in PENALTIES:
        weights = directions @ (projected / (np.maximum(sizes, 0) + penalty * len(learned))[:, None])
        bias = y_mean - x_mean @ weights
        error = float(np.square(last + x @ weights + bias - y).mean())
        if error < best_error:
            best_error, best = error, np.vstack([weights, bias])
    return best


def _known(column: Values, starts: Starts, lookback: int) -> tuple[Values, Values]:
    """What is known in each window, relative to its last value, and that value, (windows, lookback) and (windows, 1)."""
    windows = sliding_window_view(column, lookback)[starts]
    return windows - windows[:, -1:], windows[:, -1:]


def _thinned(starts: Starts, most: int) -> Starts:
    """At most so many windows, from all of them.

    >>> _thinned(np.arange(7), 3).tolist()
    [0, 3, 6]
    """
    return starts[:: max(1, -(-len(starts) // most))]


def plain_forecasts(values: Values, starts: Starts, linear: NDArray[np.floating]) -> tuple[Values, Values]:
    """The rows after each window, (windows, horizon, columns): the last value repeated, and by linear weights of `fit_ridge`."""
    columns, lookback, horizon = len(linear), linear.shape[1] - 1, linear.shape[2]
    forecasts = np.empty((len(starts), horizon, columns))
    for column, weights in enumerate(linear.astype(np.float64)):
        for first in range(0, len(starts), RIDGE_WINDOWS_AT_ONCE):
            some = slice(first, first + RIDGE_WINDOWS_AT_ONCE)
            x, last = _known(values[:, column], starts[some], lookback)
            forecasts[some, :, column] = last + x @ weights[:-1] + weights[-1]
    return np.broadcast_to(values[starts + lookback - 1][:, None], forecasts.shape), forecasts


def combined(shares: Sequence[float], forecasts: Sequence[Values]) -> Values:
    """The weighted sum of several forecasts of the same windows.

    >>> combined((0.5, 0.0, 0.5), [np.array([2.0]), np.array([9.0]), np.array([4.0])])
    array([3.])
    """
    return np.sum([share * forecast for share, forecast in zip(shares, forecasts, strict=True)], axis=0)


def best_shares(products: NDArray[np.float64]) -> tuple[float, ...]:
    """The shares of the forecasts in the best mixture, in steps of a twentieth that add up to 1.

    `products` are the means of the products of their errors, two by two. Errors that are not alike cancel each other:

    >>> best_shares(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 9.0]]))
    (0.5, 0.5, 0.0)

    Bates and Granger (1969), The Combination of Forecasts.
    """
    grid = [(a, b, STEPS - a - b) for a in range(STEPS + 1) for b in range(STEPS + 1 - a)]
    tried = np.array(sorted(grid, reverse=True)) / STEPS  # of equals, the one with most of the first
    return tuple(tried[np.einsum("ni,ij,nj->n", tried, products, tried).argmin()].tolist())


def forecasts_and_truth(
    ours: Callable[[range], Values], values: Values, starts: Starts, linear: NDArray[np.floating]
) -> Iterator[tuple[list[Values], Values]]:
    """The forecasts of the model, the last value and the linear forecast, (windows, horizon, targets), and the truth, in parts.

    `ours` returns the forecasts of some windows; `values` are the targets, (rows, targets).
    """
    for at in range(0, len(starts), WINDOWS_AT_ONCE):
        some = starts[at : at + WINDOWS_AT_ONCE]
        first = some + linear.shape[1] - 1
        wanted = sliding_window_view(values, linear.shape[2], axis=0)[first].transpose(0, 2, 1)
        yield [ours(range(at, at + len(some))), *plain_forecasts(values, some, linear)], wanted


def products_of(parts: Forecasts) -> NDArray[np.float64]:
    """The means of the products of the errors of several forecasts, two by two."""
    total, count = np.zeros(()), 0
    for forecasts, wanted in parts:
        errors = np.stack([(forecast - wanted).ravel() for forecast in forecasts])
        total, count = total + errors @ errors.T, count + errors.shape[1]
    return total / max(1, count)


def errors_beside_plain(parts: Forecasts, shares: Sequence[float]) -> Errors:
    """The errors of the combined forecast, of repeating the last value, and of the linear forecast.

    Each (windows, horizon, targets) is averaged over the horizon.

    >>> forecast = np.array([[[1.0], [4.0]]])
    >>> errors_beside_plain([([forecast] * 3, np.array([[[0.0], [2.0]]]))], (1.0, 0.0, 0.0))[:, 0].tolist()
    [[[2.5], [1.5]]]
    """
    errors = []
    for three, wanted in parts:
        differences = [forecast - wanted for forecast in (combined(shares, three), *three[1:])]
        each = [np.stack([np.square(d).mean(1), np.abs(d).mean(1)], axis=1) for d in differences]
        errors.append(np.stack(each, axis=1))
    return np.concatenate(errors)


def metrics_of(errors: Errors) -> dict[str, float]:
    """The metrics by name, over all windows and targets: mse, mae, mse_repeat, ..."""
    means = errors.mean((0, 3))
    names = [f"{metric}{name}" for name in FORECASTS for metric in METRICS]
    return dict(zip(names, means.ravel().tolist(), strict=True))


def verdict(metrics: dict[str, float]) -> str:
    """Whether the model is better than the plain forecasts.

    >>> verdict({"mse": 0.40, "mse_repeat": 1.3, "mse_linear": 0.5})
    "The model is better than both plain forecasts: its MSE is 20 % below that of a linear model of each column's past."
    >>> verdict({"mse": 0.09, "mse_repeat": 0.08, "mse_linear": 0.1})
    'A plain forecast is better: repeating the last value has an MSE of 0.0800, the model 0.0900 (+12 %). Use that instead.'
    """
    ours = metrics["mse"]
    best, name = min((metrics[f"mse{key}"], words) for key, words in FORECASTS.items() if key)
    if best <= 0:
        return f"Nothing changes here: {name} has no error at all."
    if ours < best * (1 - CLEAR):
        return f"The model is better than both plain forecasts: its MSE is {100 * (1 - ours / best):.0f} % below that of {name}."
    share = f"{100 * (ours / best - 1):+.0f} %"
    if ours > best * (1 + CLEAR):
        return f"A plain forecast is better: {name} has an MSE of {best:.4f}, the model {ours:.4f} ({share}). Use that instead."
    return f"The model is no better than a plain forecast: {name} has an MSE of {best:.4f}, the model {ours:.4f} ({share})."


def mixture(shares: Sequence[float]) -> str:
    """The shares of an answer, in a sentence.

    >>> mixture((0.65, 0.0, 0.35))
    'Its forecast is 65 % attention and 35 % linear, as validation chose.'
    """
    parts = zip(shares, ("attention", "the last value", "linear"), strict=True)
    words = [f"{100 * share:.0f} % {name}" for share, name in parts if share]
    listed = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return f"Its forecast is {listed}, as validation chose."
