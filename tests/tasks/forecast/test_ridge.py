"""The linear forecast: equal to ridge regression by least squares of a longer system, and errors by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mirada.tasks.forecast.errors import (
    best_shares,
    errors_beside_plain,
    forecasts_and_truth,
    metrics_of,
    products_of,
    verdict,
)
from mirada.tasks.forecast.plain import PENALTIES, PlainForecasts, fit_ridge, plain_forecasts

LOOKBACK, HORIZON = 7, 3


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(211, 2))
    return np.sin(np.arange(211)[:, None] / np.array([3.0, 5.0])) + 0.1 * noise.cumsum(0)


def windows(column: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = np.stack([column[s : s + LOOKBACK] for s in starts])
    wanted = np.stack([column[s + LOOKBACK : s + LOOKBACK + HORIZON] for s in starts])
    return known, wanted


def ridge_by_rows(x: np.ndarray, y: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression with a free bias: least squares with a row of sqrt(alpha) for every weight, wanted to be 0."""
    weights = x.shape[1]
    longer = np.block([[x, np.ones((len(x), 1))], [np.sqrt(alpha) * np.eye(weights), np.zeros((weights, 1))]])
    found = np.linalg.lstsq(longer, np.vstack([y, np.zeros((weights, y.shape[1]))]), rcond=None)[0]
    return found[:-1], found[-1]


def test_it_is_ridge_regression_with_the_penalty_that_validates_best(values: np.ndarray) -> None:
    learned, tried, asked = np.arange(120), np.arange(130, 160), np.arange(170, 200)
    _, found = plain_forecasts(values, asked, fit_ridge(values, learned, tried, LOOKBACK, HORIZON))
    for column in range(2):
        (x, y), (x_tried, y_tried) = windows(values[:, column], learned), windows(values[:, column], tried)
        models = [ridge_by_rows(x - x[:, -1:], y - x[:, -1:], penalty * len(learned)) for penalty in PENALTIES]
        errors = [
            np.square((x_tried - x_tried[:, -1:]) @ weights + bias + x_tried[:, -1:] - y_tried).mean()
            for weights, bias in models
        ]
        best = int(np.argmin(errors))
        x_asked, _ = windows(values[:, column], asked)
        expected = (x_asked - x_asked[:, -1:]) @ models[best][0] + models[best][1] + x_asked[:, -1:]
        assert_allclose(found[:, :, column], expected, rtol=1e-8)


def test_errors_of_all_windows_by_hand(values: np.ndarray) -> None:
    starts = np.arange(40, 90)
    weights = fit_ridge(values, np.arange(30), np.arange(30, 40), LOOKBACK, HORIZON)
    ours = np.random.default_rng(1).normal(size=(len(starts), HORIZON, 2))
    plain = PlainForecasts(weights.astype(np.float32))
    known = SimpleNamespace(plain=plain, shares=(1.0, 0.0, 0.0), mixed=(), spread=None)
    parts = list(
        forecasts_and_truth(lambda rows: ours[rows.start : rows.stop], plain, values, np.zeros_like(values), starts)
    )
    errors = errors_beside_plain(parts, known)
    metrics, squares, absolutes, linear = metrics_of(errors, known), [], [], []
    for number, start in enumerate(starts):
        for step in range(HORIZON):
            for column in range(2):
                true, last = values[start + LOOKBACK + step, column], values[start + LOOKBACK - 1, column]
                squares.append([(ours[number, step, column] - true) ** 2, (last - true) ** 2])
                absolutes.append([abs(ours[number, step, column] - true), abs(last - true)])
                _, forecast = plain_forecasts(values, starts[number : number + 1], weights)
                linear.append((forecast[0, step, column] - true) ** 2)
    assert_allclose([metrics["mse"], metrics["mse_repeat"]], np.mean(squares, 0))
    assert_allclose([metrics["mae"], metrics["mae_repeat"]], np.mean(absolutes, 0))
    assert metrics["mse_linear"] == pytest.approx(np.mean(linear), rel=1e-5)
    known.shares = best_shares(products_of(parts))
    mixed = metrics_of(errors_beside_plain(parts, known), known)["mse"]
    assert sum(known.shares) == pytest.approx(1.0)
    assert mixed <= min(metrics[name] for name in ("mse", "mse_repeat", "mse_linear")) + 1e-12
    columns = [metrics_of(errors.target(place), known)["mse"] for place in range(2)]
    assert np.mean(columns) == pytest.approx(metrics["mse"])


@pytest.mark.parametrize(
    ("ours", "repeat", "linear", "told"),
    [
        (0.5, 1.0, 0.8, "The answer is better than every plain forecast: its MSE is 38 % below"),
        (0.9, 1.0, 0.8, "A plain forecast is better: a linear model"),
        (0.9, 0.8, 1.0, "A plain forecast is better: repeating the last value has an MSE of 0.8000, the answer 0.9000"),
        (0.801, 0.8, 1.0, "The answer is no better than a plain forecast"),
        (0.0, 0.0, 0.0, "Nothing is left to learn here"),
    ],
)
def test_the_verdict_is_plain(ours: float, repeat: float, linear: float, told: str) -> None:
    assert verdict({"mse": ours, "mse_repeat": repeat, "mse_linear": linear}).startswith(told)
