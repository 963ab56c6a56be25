"""How far forecasts are from what came, beside plain forecasts, and what that means in a sentence."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mirada.training.ridge import Ridge

FORECASTS = {"": "this model", "_repeat": "repeating the last value", "_linear": "a linear model of each column's past"}
METRICS = ("mse", "mae")
Forecasts = Iterable[tuple[Sequence[NDArray[np.float64]], NDArray[np.float64]]]  # several, and what came; part by part
Errors = NDArray[np.float64]  # (windows, forecasts, metrics, targets)
AT_ONCE = 256  # windows
STEPS = 20  # parts that shares are made of
CLEAR = 0.01  # difference of two errors, as a share, that is worth a word


def errors_of(forecasts: Sequence[NDArray[np.float64]], wanted: NDArray[np.float64]) -> Errors:
    """The errors of several forecasts of the same windows, each (windows, horizon, targets), averaged over the horizon.

    >>> errors_of([np.array([[[1.0], [4.0]]])], np.array([[[0.0], [2.0]]])).tolist()
    [[[[2.5], [1.5]]]]
    """
    differences = [forecast - wanted for forecast in forecasts]
    return np.stack([np.stack([np.square(d).mean(1), np.abs(d).mean(1)], axis=1) for d in differences], axis=1)


def plain_forecasts(
    values: NDArray[np.float64], starts: NDArray[np.int64], linear: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What comes after some windows if the last value stays, and by a linear forecast with these weights."""
    ridge = Ridge(linear.astype(np.float64), ())
    found = ridge.forecast(values, starts)
    return np.broadcast_to(values[starts + ridge.lookback - 1][:, None], found.shape), found


def combined(shares: Sequence[float], forecasts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The weighted sum of several forecasts of the same windows.

    >>> combined((0.5, 0.0, 0.5), [np.array([2.0]), np.array([9.0]), np.array([4.0])])
    array([3.])
    """
    return np.sum([share * forecast for share, forecast in zip(shares, forecasts, strict=True)], axis=0)


def best_shares(products: NDArray[np.float64]) -> tuple[float, ...]:
    """How much of each forecast makes the best mixture: shares in steps of a twentieth that add up to 1.

    `products` are the means of the products of their errors, two by two. Errors that are not alike cancel each other:

    >>> best_shares(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 9.0]]))
    (0.5, 0.5, 0.0)

    Bates and Granger (1969), The Combination of Forecasts.
    """
    grid = [(a, b, STEPS - a - b) for a in range(STEPS + 1) for b in range(STEPS + 1 - a)]
    tried = np.array(sorted(grid, reverse=True)) / STEPS  # of equals, the one with most of the first
    return tuple(tried[np.einsum("ni,ij,nj->n", tried, products, tried).argmin()].tolist())


def forecasts_and_truth(
    ours: Callable[[range], NDArray[np.float64]],
    values: NDArray[np.float64],
    starts: NDArray[np.int64],
    linear: NDArray[np.float32],
) -> Iterator[tuple[list[NDArray[np.float64]], NDArray[np.float64]]]:
    """Our forecasts, the last value and the linear forecast, (windows, horizon, targets), and what came, part by part.

    `ours` gives the forecasts of some windows; `values` are the targets, (rows, targets).
    """
    for at in range(0, len(starts), AT_ONCE):
        some = starts[at : at + AT_ONCE]
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
    """The errors of the combined forecast, of repeating the last value, and of the linear forecast."""
    return np.concatenate([errors_of([combined(shares, found), *found[1:]], wanted) for found, wanted in parts])


def metrics_of(errors: Errors) -> dict[str, float]:
    """The metrics by name, over all windows and targets: mse, mae, mse_repeat, ..."""
    means = errors.mean((0, 3))
    return {
        f"{metric}{name}": float(means[place, number])
        for place, name in enumerate(FORECASTS)
        for number, metric in enumerate(METRICS)
    }


def by_column(errors: Errors, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The same for every target."""
    return {name: metrics_of(errors[..., place : place + 1]) for place, name in enumerate(names)}


def verdict(metrics: dict[str, float]) -> str:
    """Whether the model is worth its while.

    >>> verdict({"mse": 0.40, "mse_repeat": 1.3, "mse_linear": 0.5})
    "The model is better than both plain forecasts: its MSE is 20 % below that of a linear model of each column's past."
    >>> verdict({"mse": 0.09, "mse_repeat": 0.08, "mse_linear": 0.1})
    'A plain forecast is better: repeating the last value has an MSE of 0.0800, the model 0.0900 (+12 %). Use that instead.'
    """
    ours = metrics["mse"]
    best, name = min((metrics[f"mse{key}"], told) for key, told in FORECASTS.items() if key)
    if best <= 0:
        return f"Nothing changes here: {name} has no error at all."
    if ours < best * (1 - CLEAR):
        return f"The model is better than both plain forecasts: its MSE is {1 - ours / best:.0%} below that of {name}.".replace(
            "%", " %"
        )
    share = f"{ours / best - 1:+.0%}".replace("%", " %")
    if ours > best * (1 + CLEAR):
        return f"A plain forecast is better: {name} has an MSE of {best:.4f}, the model {ours:.4f} ({share}). Use that instead."
    return f"The model is no better than a plain forecast: {name} has an MSE of {best:.4f}, the model {ours:.4f} ({share})."


def apart(order: Sequence[int], places: NDArray[np.int64], distance: int, count: int) -> list[int]:
    """The first windows of an order that do not overlap with those before them.

    >>> apart([3, 2, 0, 1], np.array([10, 11, 12, 13]), distance=2, count=2)
    [3, 0]
    """
    chosen: list[int] = []
    for window in order:
        if all(abs(places[window] - places[other]) >= distance for other in chosen):
            chosen.append(int(window))
        if len(chosen) == count:
            break
    return chosen
