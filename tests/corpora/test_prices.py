"""The embedded prices: the same everywhere, and A's next days are in B's last ones."""

from datetime import date

import numpy as np
import pytest

from mirada.corpora.prices import COMPANIES, LAG, prices


def test_the_same_prices_every_time_and_others_for_another_seed() -> None:
    once, again = prices(), prices()
    assert once.dates == again.dates
    assert once.prices.tolist() == again.prices.tolist()
    assert prices(seed=1).prices.tolist() != once.prices.tolist()
    assert once.prices.shape == (4000, len(COMPANIES))


def test_fewer_days_are_business_days_with_positive_prices() -> None:
    data = prices(days=300)
    assert all(date.fromisoformat(day).weekday() < 5 for day in data.dates)
    assert list(data.dates) == sorted(set(data.dates))
    assert (prices().prices > 0).all()


def test_a_follows_b_after_the_lag_and_nothing_else() -> None:
    moves = np.diff(np.log(prices().prices), axis=0)
    a, b, c = moves.T

    def together(first: np.ndarray, second: np.ndarray, lag: int) -> float:
        return float(np.corrcoef(first[lag:], second[: len(second) - lag])[0, 1])

    assert together(a, b, LAG) > 0.7
    for lag in (1, 5, 10, 15, 25):
        assert abs(together(a, b, lag)) < 0.1
        assert abs(together(a, c, lag)) < 0.1


@pytest.mark.parametrize("sign", [1, -1])
def test_rises_reach_a_more_than_falls(sign: int) -> None:
    moves = np.diff(np.log(prices().prices), axis=0)
    a, b = moves[LAG:, 0], moves[:-LAG, 1]
    large = sign * b > 0.03
    share = float((a[large] / b[large]).mean())
    assert share == pytest.approx(0.9 if sign > 0 else 0.3, abs=0.1)
