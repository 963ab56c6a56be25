"""Plain forecasts, made in seconds: the last value or the last season again, exponential smoothing, linear regression.

All of them are given windows of standardized values, (rows, columns), by their first rows, and forecast the rows after them.
Readers that may work on logarithms are given `zeros` as well: values + zeros are positive where the series is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mirada.errors import require

Values = NDArray[np.float64]  # (rows, columns), or (windows, horizon, columns)
Starts = NDArray[np.int64]  # the first row of every window
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)  # for every window that is learned from
MOST_LEARNED, MOST_TRIED = 20_000, 4_000  # windows; more of them change little
MOST_ROWS, MOST_COMPARED = 80_000, 6_000  # windows of columns that one regression for all is learned from, and tried on
WINDOWS_AT_ONCE = 2_048  # windows
RANKS = (1, 2, 4, 8, 12, 24, 48)
CENTERS = ("zero", "last", "mean")  # what a window is relative to
CERTAIN = 4.0  # standard errors; of a random walk one in a thousand is so far below zero
AS_GOOD, CLOSE = 0.003, 0.05  # shares of error that are no difference, and nearly none
SMALLEST, LARGEST = 1e-9, 50.0  # of what has a logarithm, and of a logarithm that a forecast may have
SMOOTHED, LEAST_SMOOTHED, MOST_SMOOTHED = (
    120,
    20,
    2_000,
)  # windows of a column that smoothing is fitted to; of all columns
LEVELS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)
TRENDS = ((0.0, 0.0), (0.05, 0.9), (0.2, 0.9), (0.05, 0.98), (0.2, 0.98), (0.05, 1.0))  # constant, damping
SEASONS = (0.0, 0.05, 0.2, 0.5)
LONGEST_PERIOD, MOST_COLUMNS = 1_000, 20  # rows, and columns that are looked at
USUAL_PERIODS = (4, 7, 12, 24, 52, 168, 365)
MOST_PEAKS = 8  # of an autocorrelation that are tried as periods
SEASONAL = 0.6  # the share of the changes within a season that those of the season before may leave
OFTEN, SELDOM = 5, 3.0  # seasons that are many; how much more fewer of them must explain
SIMILAR, CHANCE = 0.15, 4.0  # the least autocorrelation of a season, in itself and over the square root of the rows
ALIKE, SLACK = 0.8, 0.05  # how good another period is that is nearly as good, as a share and in itself
OLD, ALL = ("repeat", "linear"), ("repeat", "linear", "seasonal", "reduced", "smoothing")


@dataclass(frozen=True, eq=False)
class PlainForecasts:
    """What the plain forecasts learned.

    Args:
        linear: The weights of a ridge regression of every column, (columns, lookback + 1, horizon), the bias last.
        period: Rows of a season; 1 where there is none, 0 where nothing but `linear` was learned.
        reduced: The weights of one regression of reduced rank for all columns, (lookback + 1, horizon), the bias last.
        logarithm: Whether it reads logarithms.
        smoothing: The constants of every column, (columns, 6): level, trend, damping, season, period, logarithm.
    """

    linear: NDArray[np.float32]
    period: int = 0
    reduced: NDArray[np.float32] | None = None
    logarithm: bool = False
    smoothing: NDArray[np.float64] | None = None

    @classmethod
    def learn(
        cls, values: Values, zeros: Values, learned: Starts, tried: Starts, lookback: int, horizon: int, period: int
    ) -> Self:
        """All of them, from the windows to learn from; `tried` are windows that choose between several."""
        linear = fit_ridge(values, learned, tried, lookback, horizon).astype(np.float32)
        reduced, logarithm = fit_reduced(values, zeros, learned, tried, lookback, horizon)
        smoothing = fit_smoothing(values, zeros, np.concatenate([learned, tried]), lookback, horizon, period)
        return cls(linear, min(period, lookback), reduced.astype(np.float32), logarithm, smoothing)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, as metrics have them."""
        return ALL if self.period else OLD

    @property
    def lookback(self) -> int:
        """How many rows they read."""
        return self.linear.shape[1] - 1

    @property
    def horizon(self) -> int:
        """How many rows they forecast."""
        return self.linear.shape[2]

    def forecast(self, values: Values, zeros: Values, starts: Starts) -> list[Values]:
        """The rows after each window, (windows, horizon, columns), by every one of `names`."""
        some = list(plain_forecasts(values, starts, self.linear))
        if self.reduced is None or self.smoothing is None:
            return some
        size = self.lookback, self.horizon
        weights = self.reduced.astype(np.float64)
        return [
            *some,
            seasonal_repeat(values, starts, *size, self.period),
            _reduced_forecasts(values, zeros, starts, weights, self.logarithm),
            smoothed_forecasts(values, zeros, starts, *size, self.smoothing),
        ]

    def facts(self) -> dict[str, Any]:
        """What config.json holds of them; nothing where only `linear` was learned."""
        return {"period": self.period, "logarithm": self.logarithm} if self.period else {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Their numbers by name."""
        others = {"reduced": self.reduced, "smoothing": self.smoothing}
        kept = {name: numbers for name, numbers in others.items() if numbers is not None}
        return {"linear": np.ascontiguousarray(self.linear), **kept}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What `facts` and `arrays` kept."""
        if not facts:
            return cls(arrays["linear"])
        period, logarithm = facts["period"], facts["logarithm"]
        require(type(period) is int and period >= 1, f"period must be a number of rows: got {str(period)[:40]}")
        require(type(logarithm) is bool, "logarithm must be true or false")
        one = cls(arrays["linear"], period, arrays["reduced"], logarithm, arrays["smoothing"])
        shapes = (one.lookback + 1, one.horizon), (len(one.linear), 6)
        found = arrays["reduced"].shape, arrays["smoothing"].shape
        periods = arrays["smoothing"][:, 4] if found == shapes else np.zeros(1)
        good = period <= one.lookback and bool(((periods >= 1) & (periods <= one.lookback)).all())
        require(found == shapes and good, f"plain forecasts of {found}, and the run needs {shapes}")
        return one


# Linear regression.


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
    learned, tried = thinned(learned, MOST_LEARNED), thinned(tried, MOST_TRIED)
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


def thinned(starts: Starts, most: int) -> Starts:
    """At most so many windows, from all of them.

    >>> thinned(np.arange(7), 3).tolist()
    [0, 3, 6]
    """
    return starts[:: max(1, -(-len(starts) // most))]


def plain_forecasts(values: Values, starts: Starts, linear: NDArray[np.floating]) -> tuple[Values, Values]:
    """The rows after each window, (windows, horizon, columns): the last value repeated, and by linear weights of `fit_ridge`."""
    columns, lookback, horizon = len(linear), linear.shape[1] - 1, linear.shape[2]
    forecasts = np.empty((len(starts), horizon, columns))
    for column, weights in enumerate(linear.astype(np.float64)):
        for first in range(0, len(starts), WINDOWS_AT_ONCE):
            some = slice(first, first + WINDOWS_AT_ONCE)
            x, last = _known(values[:, column], starts[some], lookback)
            forecasts[some, :, column] = last + x @ weights[:-1] + weights[-1]
    return np.broadcast_to(values[starts + lookback - 1][:, None], forecasts.shape), forecasts


def fit_reduced(
    values: Values, zeros: Values, learned: Starts, tried: Starts, lookback: int, horizon: int
) -> tuple[Values, bool]:
    """One ridge regression for all columns whose weights have a low rank: few patterns are found in the past, and few made.

    With the ridge weights W and the first eigenvectors U of (y^T x W), the weights are W U U^T. Windows are read as they are,
    relative to their last value or to their mean, as values or as logarithms where all are positive; the penalty, the logarithm
    and the rank, the lowest that is as good as any, are those that forecast `tried` best. As they are only where all columns
    return to their means: prices that have never been as high are not forecast to fall. Whatever a window is relative to, the
    forecast is linear in its values: those that are nearly as good as the best are averaged, which is steadier than to choose.

    Returns the weights (lookback + 1, horizon) with the bias in the last row, and whether they are for logarithms.

    >>> line = np.arange(60.0)[:, None]
    >>> weights, logarithm = fit_reduced(line, line * 0, np.arange(30), np.arange(30, 40), lookback=3, horizon=2)
    >>> _reduced_forecasts(line, line * 0, np.array([50]), weights, logarithm).round(1).tolist()
    [[[53.0], [54.0]]]

    Izenman (1975); Toner and Darlow (2024), arXiv:2403.14587.
    """
    columns = values.shape[1]
    learned, tried = thinned(learned, max(1, MOST_ROWS // columns)), thinned(tried, max(1, MOST_COMPARED // columns))
    used = np.concatenate([learned, tried])
    positive = all(np.all(_windows(values + zeros, at, lookback + horizon) > 0) for at in _portions(used))
    wanted = [_wanted(values, at, lookback, horizon) for at in _portions(tried)]
    best: dict[tuple[bool, str], tuple[float, Values]] = {}
    centers = CENTERS if _returns_to_its_mean(values, learned, lookback + horizon) else CENTERS[1:]
    for logarithm, center in product((False, True) if positive else (False,), centers):
        tried_weights = []
        for rank, weights in _reduced_weights(values, zeros, learned, lookback, horizon, center, logarithm):
            forecasts = (_reduced_forecasts(values, zeros, at, weights, logarithm) for at in _portions(tried))
            error = sum(float(np.square(ours - true).sum()) for ours, true in zip(forecasts, wanted, strict=True))
            tried_weights.append((error, rank, weights))
        least = min(error for error, _, _ in tried_weights)
        error, _, weights = min(
            (one for one in tried_weights if one[0] <= (1 + AS_GOOD) * least), key=lambda one: (one[1], one[0])
        )
        best[logarithm, center] = error, weights
    least, logarithm = min((error, logarithm) for (logarithm, _), (error, _) in best.items())
    good = [
        weights for (scale, _), (error, weights) in best.items() if scale == logarithm and error <= (1 + CLOSE) * least
    ]
    return np.mean(good, axis=0), logarithm


def _returns_to_its_mean(values: Values, starts: Starts, size: int) -> bool:
    """Whether every column falls from above its mean and rises from below, which a random walk does not.

    The steps within windows are regressed on the values before them; the weight has to be far below zero.

    >>> noise = np.random.default_rng(0).normal(size=(500, 1))
    >>> [_returns_to_its_mean(values, np.arange(480), 20) for values in (noise, noise.cumsum(0))]
    [True, False]

    Dickey and Fuller (1979).
    """
    inside = np.zeros(len(values) + 1)
    np.add.at(inside, starts, 1)
    np.add.at(inside, starts + size - 1, -1)
    rows = np.flatnonzero(inside.cumsum() > 0)
    before, steps = values[rows], values[rows + 1] - values[rows]
    before, steps = before - before.mean(0), steps - steps.mean(0)
    squares = np.maximum(np.square(before).sum(0), SMALLEST)
    weights = (before * steps).sum(0) / squares
    left = np.square(steps - weights * before).sum(0) / max(1, len(rows) - 2)
    return bool((weights < -CERTAIN * np.sqrt(left / squares)).all())


def _reduced_weights(
    values: Values, zeros: Values, learned: Starts, lookback: int, horizon: int, center: str, logarithm: bool
) -> list[tuple[int, Values]]:
    """The rank and the weights for windows as they are, with the bias below them, of every penalty and rank."""
    size = lookback + horizon
    products, sums, count = np.zeros((size, size)), np.zeros(size), 0
    # what is subtracted from a window is linear in it: last = x e, mean = x 1 / lookback
    middle = {"zero": 0.0, "last": np.eye(lookback)[-1], "mean": 1 / lookback}[center] * np.ones(lookback)
    for at in _portions(learned):
        rows = _rows(values, zeros, at, size, logarithm)
        rows = rows - rows[:, :lookback] @ middle[:, None]
        products, sums, count = products + rows.T @ rows, sums + rows.sum(0), count + len(rows)
    mean = sums / count
    products -= count * np.outer(mean, mean)
    sizes, directions = np.linalg.eigh(products[:lookback, :lookback])
    mixed = products[:lookback, lookback:]
    projected, found = directions.T @ mixed, []
    for penalty in PENALTIES[:5]:
        weights = directions @ (projected / (np.maximum(sizes, 0) + penalty * count)[:, None])
        fitted = mixed.T @ weights
        patterns = np.linalg.eigh((fitted + fitted.T) / 2)[1][:, ::-1]
        for rank in sorted({min(rank, horizon) for rank in (*RANKS, horizon)}):
            some = patterns[:, :rank]
            low = weights @ some @ some.T
            bias = mean[lookback:] - mean[:lookback] @ low
            found.append((rank, np.vstack([low + np.outer(middle, 1 - low.sum(0)), bias])))
    return found


def _rows(values: Values, zeros: Values, starts: Starts, size: int, logarithm: bool) -> Values:
    """Windows of all columns, one below the other, (windows x columns, size), or their logarithms."""
    rows = _windows(values + zeros if logarithm else values, starts, size).reshape(-1, size)
    return np.log(np.maximum(rows, SMALLEST)) if logarithm else rows


def _reduced_forecasts(values: Values, zeros: Values, starts: Starts, weights: Values, logarithm: bool) -> Values:
    """The rows after each window by the weights of `fit_reduced`."""
    lookback, horizon, parts = len(weights) - 1, weights.shape[1], []
    for at in _portions(starts):
        forecast = _rows(values, zeros, at, lookback, logarithm) @ weights[:-1] + weights[-1]
        parts.append(forecast.reshape(len(at), -1, horizon).transpose(0, 2, 1))
    whole = np.concatenate(parts)
    return _back(whole, zeros[starts + lookback - 1]) if logarithm else whole


def _back(logarithms: Values, zeros: Values) -> Values:
    """Values again, from their logarithms, (windows, horizon, columns)."""
    return np.exp(np.minimum(logarithms, LARGEST)) - zeros[:, None]


# Seasons.


def season_of(values: Values) -> int:
    """The rows of a season of a series, (rows, columns), or 1 where it has none.

    Periods are tried where the autocorrelation has a peak. A season is there where the changes within it are much like those
    of the season before; or, in noise, where the autocorrelation of the steps from row to row is clearly above chance. Of
    periods nearly as good, the shortest is taken.

    >>> wave = np.sin(2 * np.pi * np.arange(120) / 12)[:, None]
    >>> season_of(wave + 0.05 * np.arange(120)[:, None]), season_of(np.random.default_rng(0).normal(size=(120, 1)))
    (12, 1)
    """
    longest = min(len(values) // 3, LONGEST_PERIOD)
    values = values[-20 * LONGEST_PERIOD :]
    values = values[:, np.ptp(values, axis=0) > 0]
    values = values[:, :: max(1, -(-values.shape[1] // MOST_COLUMNS))]
    if longest < 2 or not values.size:
        return 1
    rows = np.arange(len(values)) - (len(values) - 1) / 2
    levels = values - np.outer(rows, rows @ values / (rows @ rows))
    alike = _autocorrelation(np.diff(values, axis=0), longest)
    peaks = _peaks(alike)
    tried = [p for p in {*peaks, *_peaks(_autocorrelation(levels, longest)), *USUAL_PERIODS} if p <= longest]
    often = len(values) // OFTEN
    left = {p: _left_of_season(levels, p) * (1 if p <= often else SELDOM) for p in tried}
    least = min(left.values(), default=1.0)
    if least < SEASONAL:
        return min(period for period, share in left.items() if share <= least / ALIKE + SLACK)
    peaks = [period for period in peaks if period <= often]
    best = max((alike[p] for p in peaks), default=0.0)
    clear = best >= max(SIMILAR, CHANCE / len(values) ** 0.5)
    return min(p for p in peaks if alike[p] >= ALIKE * best) if clear else 1


def _autocorrelation(values: Values, longest: int) -> NDArray[np.float64]:
    """How much a series, (rows, columns), is like itself so many rows later, from 0 to `longest` + 1."""
    values = values - values.mean(0)
    values = values / np.maximum(values.std(0), SMALLEST)
    power = np.square(np.abs(np.fft.rfft(values, 2 * len(values), axis=0))).mean(1)
    return np.fft.irfft(power)[: longest + 2] / (len(values) - np.arange(longest + 2))


def _peaks(alike: NDArray[np.float64]) -> list[int]:
    """Where an autocorrelation is higher than on both sides; of many, the highest ones."""
    peaks = [p for p in range(2, len(alike) - 1) if alike[p - 1] < alike[p] > alike[p + 1]]
    return sorted(peaks, key=lambda p: -alike[p])[:MOST_PEAKS]


def _left_of_season(values: Values, period: int) -> float:
    """The share of the changes within a season that is left where those of the season before are taken away."""
    left = whole = 0.0
    for ahead in {max(1, period // 4), max(1, period // 2)}:
        changes = (values[ahead:] - values[:-ahead]) / values.std(0)
        left += float(np.square(changes[period:] - changes[:-period]).mean())
        whole += float(np.square(changes).mean())
    return left / max(whole, SMALLEST)


def seasonal_repeat(values: Values, starts: Starts, lookback: int, horizon: int, period: int) -> Values:
    """The last season again and again, (windows, horizon, columns).

    >>> seasonal_repeat(np.array([[1.0], [5.0], [2.0]]), np.array([0]), lookback=3, horizon=3, period=2).ravel().tolist()
    [5.0, 2.0, 5.0]
    """
    return values[(starts + lookback - period)[:, None] + np.arange(horizon) % period]


# Exponential smoothing.


def smooth(windows: Values, constants: NDArray[np.float64], period: int, horizon: int) -> Values:
    """Holt's and Winters' exponential smoothing over the rows of windows, (..., rows), to the next `horizon`.

    level    l = a (x - s) + (1 - a) (l + d b)
    trend    b = t (l - l before) + (1 - t) d b
    season   s = g (x - l) + (1 - g) s
    forecast x[h] = l + (d + d^2 + ... + d^h) b + s

    `constants` are a, t, d, g in their last axis, whose other axes fit those of the windows. A period of 1 has no season.

    >>> smooth(np.arange(1.0, 7.0)[None], np.array([1.0, 1.0, 1.0, 0.0]), period=1, horizon=2).tolist()
    [[7.0, 8.0]]

    Holt (1957); Winters (1960); Gardner and McKenzie (1985).
    """
    a, t, d, g = (constants[..., n] for n in range(4))
    rows, seasonal = windows.shape[-1], period > 1
    first = windows[..., :period].mean(-1)
    rise = (windows[..., period : 2 * period].mean(-1) - first) / period if rows >= 2 * period > 2 else 0 * first
    level, trend = first + rise * (period - 1) / 2 + 0 * a, rise * (d > 0)
    season = [windows[..., n] - first - rise * (n - (period - 1) / 2) + 0 * a for n in range(period)]
    if not seasonal:
        season = [0 * level]
    for row in range(period, rows):
        x, before, now = windows[..., row], level, season[row % period]
        level = a * (x - now) + (1 - a) * (level + d * trend)
        trend = t * (level - before) + (1 - t) * d * trend
        if seasonal:
            season[row % period] = g * (x - level) + (1 - g) * now
    forecasts, reach = [], 0 * d
    for ahead in range(horizon):
        reach = d * (1 + reach)
        forecasts.append(level + reach * trend + season[(rows + ahead) % period])
    return np.stack(forecasts, axis=-1)


def fit_smoothing(
    values: Values, zeros: Values, starts: Starts, lookback: int, horizon: int, period: int
) -> NDArray[np.float64]:
    """The constants of `smooth` that forecast windows of each column best, with the period and whether it reads logarithms.

    Returns (columns, 6): level, trend, damping, season, period, logarithm.
    """
    starts, found = thinned(starts, max(LEAST_SMOOTHED, min(SMOOTHED, MOST_SMOOTHED // values.shape[1]))), []
    grids = {
        p: np.array([(a, *t, g) for a, t, g in product(LEVELS, TRENDS, SEASONS if p > 1 else (0.0,))])
        for p in {1, period if 2 * period <= lookback else 1}
    }
    for column in range(values.shape[1]):
        one, zero = values[:, column : column + 1], zeros[:, column : column + 1]
        wanted, best = _wanted(one, starts, lookback, horizon)[..., 0], (np.inf, (1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
        positive = bool(np.all(_windows(one + zero, starts, lookback + horizon) > 0))
        for (size, grid), logarithm in product(grids.items(), (False, True) if positive else (False,)):
            windows = _rows(one, zero, starts, lookback, logarithm)
            forecasts = smooth(windows[None], grid[:, None], size, horizon)
            if logarithm:
                forecasts = np.exp(np.minimum(forecasts, LARGEST)) - zero[starts + lookback - 1]
            errors = np.square(forecasts - wanted).mean((1, 2))
            place = int(errors.argmin())
            best = min(best, (float(errors[place]), (*grid[place].tolist(), float(size), float(logarithm))))
        found.append(best[1])
    return np.array(found)


def smoothed_forecasts(
    values: Values, zeros: Values, starts: Starts, lookback: int, horizon: int, constants: NDArray[np.float64]
) -> Values:
    """The rows after each window, (windows, horizon, columns), by the constants of `fit_smoothing`."""
    forecasts = np.empty((len(starts), horizon, len(constants)))
    for column, (*some, period, logarithm) in enumerate(constants.tolist()):
        one, zero = values[:, column : column + 1], zeros[:, column : column + 1]
        windows = _rows(one, zero, starts, lookback, bool(logarithm))
        forecast = smooth(windows, np.array(some), int(period), horizon)
        forecasts[..., column] = (
            _back(forecast[..., None], zero[starts + lookback - 1])[..., 0] if logarithm else forecast
        )
    return forecasts


# Windows.


def _windows(values: Values, starts: Starts, size: int) -> Values:
    """Windows of all columns, (windows, columns, size)."""
    return sliding_window_view(values, size, axis=0)[starts]


def _wanted(values: Values, starts: Starts, lookback: int, horizon: int) -> Values:
    """The rows after each window, (windows, horizon, columns)."""
    return _windows(values, starts + lookback, horizon).transpose(0, 2, 1)


def _portions(starts: Starts) -> Sequence[Starts]:
    """Windows, in parts that fit into memory."""
    return [starts[at : at + WINDOWS_AT_ONCE] for at in range(0, max(1, len(starts)), WINDOWS_AT_ONCE)]
