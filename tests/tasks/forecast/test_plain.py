"""The plain forecasts: equal to the same by hand, and what they find in series that are made for it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mirada.tasks.forecast.errors import best_shares, forecasts_and_truth, learn_plain, products_of
from mirada.tasks.forecast.plain import (
    ALL,
    PENALTIES,
    PlainForecasts,
    _reduced_weights,
    fit_reduced,
    fit_smoothing,
    season_of,
    seasonal_repeat,
    smooth,
    smoothed_forecasts,
)

LOOKBACK, HORIZON = 7, 3


def noise(rows: int, columns: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def months(rows: int) -> np.ndarray:
    """A season of twelve that grows with the level, as passengers of airlines do."""
    time = np.arange(rows)[:, None]
    return 100 * np.exp(0.01 * time + 0.2 * np.sin(2 * np.pi * time / 12) + 0.02 * noise(rows))


def test_exponential_smoothing_is_the_loop_written_out() -> None:
    x, (a, t, d, g), period = noise(23)[:, 0] + 5, (0.3, 0.2, 0.9, 0.4), 4
    first = x[:period].mean()
    rise = (x[period : 2 * period].mean() - first) / period
    level, trend = first + rise * 1.5, rise
    season = [x[n] - first - rise * (n - 1.5) for n in range(period)]
    for row in range(period, len(x)):
        before, s = level, season[row % period]
        level = a * (x[row] - s) + (1 - a) * (level + d * trend)
        trend = t * (level - before) + (1 - t) * d * trend
        season[row % period] = g * (x[row] - level) + (1 - g) * s
    expected = [
        level + trend * sum(d**n for n in range(1, h + 1)) + season[(len(x) + h - 1) % period] for h in (1, 2, 3, 4, 5)
    ]
    assert_allclose(smooth(x[None], np.array([a, t, d, g]), period, 5)[0], expected)


def test_smoothing_of_a_growing_season_reads_logarithms_with_its_period() -> None:
    values = months(144)
    constants = fit_smoothing(values, 0 * values, np.arange(60), 36, 3, 12)
    assert constants[0, 4:].tolist() == [12.0, 1.0]
    starts = np.arange(80, 100)
    forecasts = smoothed_forecasts(values, 0 * values, starts, 36, 3, constants)
    wanted = np.stack([values[s + 36 : s + 39] for s in starts])
    repeated = np.stack([values[s + 35 : s + 36] for s in starts])
    assert np.abs(forecasts / wanted - 1).mean() < 0.04 < np.abs(repeated / wanted - 1).mean()


def test_weights_of_full_rank_are_those_of_ridge_regression() -> None:
    values, starts = noise(300, 2).cumsum(0), np.arange(200)
    x = np.concatenate([[values[s : s + LOOKBACK, c] for s in starts] for c in (0, 1)])
    y = np.concatenate([[values[s + LOOKBACK : s + LOOKBACK + HORIZON, c] for s in starts] for c in (0, 1)])
    for center, middle in (("zero", 0 * x[:, :1]), ("last", x[:, -1:]), ("mean", x.mean(1, keepdims=True))):
        found = _reduced_weights(values, 0 * values, starts, LOOKBACK, HORIZON, center, False)
        weights = [one for rank, one in found if rank == HORIZON][2]
        moved, wanted = x - middle, y - middle
        moved_mean, wanted_mean = moved.mean(0), wanted.mean(0)
        moved, wanted = moved - moved_mean, wanted - wanted_mean
        alpha = PENALTIES[2] * len(x)
        ridge = np.linalg.solve(moved.T @ moved + alpha * np.eye(LOOKBACK), moved.T @ wanted)
        expected = (x - middle - moved_mean) @ ridge + wanted_mean + middle
        assert_allclose(x @ weights[:-1] + weights[-1], expected, rtol=1e-7, atol=1e-8)


def test_prices_that_were_never_so_high_are_not_forecast_to_fall() -> None:
    """The rows to learn from and to validate on go up and come back: the mean of these is no place to return to."""
    time = np.arange(900)
    walk = np.where(time < 700, np.sin(time / 220), (time - 700) / 60 + np.sin(700 / 220))[:, None] + 0.02 * noise(
        900
    ).cumsum(0)
    weights, logarithm = fit_reduced(walk, 0 * walk, np.arange(450), np.arange(540, 600), 40, 10)
    starts = np.arange(760, 850)
    forecasts = np.stack([walk[s : s + 40, 0] for s in starts]) @ weights[:-1] + weights[-1]
    wanted = np.stack([walk[s + 40 : s + 50, 0] for s in starts])
    assert not logarithm
    assert np.square(forecasts - wanted).mean() < 0.05


def test_a_rank_is_a_rank() -> None:
    values = noise(300, 2).cumsum(0)
    for rank, weights in _reduced_weights(values, 0 * values, np.arange(200), LOOKBACK, HORIZON, "zero", False):
        assert np.linalg.matrix_rank(weights[:-1], tol=1e-8) <= rank


def test_one_regression_for_all_columns_forecasts_a_column_from_few_rows() -> None:
    """Waves of one period and many phases: what is learned from all of them holds for each."""
    time = np.arange(60)[:, None]
    values = np.sin(2 * np.pi * (time / 9 + np.linspace(0, 0.8, 5))) + 0.01 * noise(60, 5)
    weights, logarithm = fit_reduced(values, 0 * values, np.arange(20), np.arange(20, 30), LOOKBACK, HORIZON)
    plain = PlainForecasts(
        np.zeros((5, LOOKBACK + 1, HORIZON), np.float32), 1, weights.astype(np.float32), logarithm, np.ones((5, 6))
    )
    starts = np.arange(35, 50)
    reduced = plain.forecast(values, 0 * values, starts)[ALL.index("reduced")]
    wanted = np.stack([values[s + LOOKBACK : s + LOOKBACK + HORIZON] for s in starts])
    assert not logarithm
    assert np.abs(reduced - wanted).max() < 0.15


@pytest.mark.parametrize(("rows", "period"), [(100, 12), (90, 7), (2000, 24)])
def test_a_season_is_found_in_a_trend_and_in_noise(rows: int, period: int) -> None:
    time = np.arange(rows)[:, None]
    for amount in (0.02, 0.3):
        values = np.sin(2 * np.pi * time / period) + (np.arange(rows) % period < 2)[:, None] + 0.01 * time
        assert season_of(values + amount * noise(rows)) == period


@pytest.mark.parametrize("seed", range(5))
def test_there_is_no_season_in_a_random_walk_or_in_a_constant(seed: int) -> None:
    assert season_of(noise(300, seed=seed).cumsum(0)) == 1
    assert season_of(np.ones((300, 1))) == 1


def test_the_last_season_is_repeated() -> None:
    values = np.arange(20.0)[:, None]
    assert seasonal_repeat(values, np.array([3, 4]), 8, 5, 3).reshape(2, 5).tolist() == [
        [8, 9, 10, 8, 9],
        [9, 10, 11, 9, 10],
    ]


def test_all_of_them_are_restored_as_they_were() -> None:
    values = months(150)
    plain = PlainForecasts.learn(values, 0 * values, np.arange(60), np.arange(60, 80), 24, 3, 12)
    again = PlainForecasts.restore(plain.facts(), plain.arrays())
    starts = np.arange(90, 100)
    for one, other in zip(
        plain.forecast(values, 0 * values, starts), again.forecast(values, 0 * values, starts), strict=True
    ):
        assert_allclose(one, other)
    for odd in ({"period": 25}, {"period": "12"}, {"logarithm": 1}):
        with pytest.raises(ValueError, match=r"plain forecasts|period|logarithm"):
            PlainForecasts.restore(plain.facts() | odd, plain.arrays())


def test_the_mixture_is_not_behind_the_best_of_them() -> None:
    values = (months(170) - 150) / 50
    zeros = np.full_like(values, 3.0)
    plain, mixed, _ = learn_plain(values, zeros, np.arange(80), np.arange(90, 100), (24, 3), 12)
    products = products_of(forecasts_and_truth(None, plain, values, zeros, np.arange(110, 143)))
    assert sum(mixed) == pytest.approx(1.0)
    assert np.array(mixed) @ products @ np.array(mixed) < 1.1 * products.diagonal().min()


def test_little_evidence_takes_one_forecast_and_much_of_it_a_mixture() -> None:
    products = np.array([[1.0, 0.2, 0.2], [0.2, 1.1, 0.2], [0.2, 0.2, 1.2]])
    assert best_shares(products, evidence=0.5) == (1.0, 0.0, 0.0)
    assert min(best_shares(products, evidence=1000)) > 0
