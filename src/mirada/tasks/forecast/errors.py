"""The errors of forecasts, next to those of plain forecasts, how several are mixed, and sentences that sum them up."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mirada.tasks.forecast.intervals import USUAL, band, spread_of, thinned_errors
from mirada.tasks.forecast.plain import OLD, SMALLEST, PlainForecasts, Starts, Values, thinned

if TYPE_CHECKING:
    from mirada.tasks.forecast.scale import SeriesScale

ATTENTION, MIXED = "attention", "plain"
FORECASTS = {
    "": "the answer", "repeat": "repeating the last value", "linear": "a linear model of each column's past",
    "seasonal": "repeating the last season", "reduced": "a linear model of low rank for all columns",
    "smoothing": "exponential smoothing", ATTENTION: "attention alone", MIXED: "the plain forecasts together",
}  # fmt: skip
SHORT = {
    ATTENTION: "attention", "repeat": "the last value", "linear": "linear", "seasonal": "the last season",
    "reduced": "linear of low rank", "smoothing": "exponential smoothing",
}  # fmt: skip
METRICS = ("mse", "mae")
Forecasts = Iterable[tuple[Sequence[Values], Values]]  # several, and the truth; part by part
Errors = NDArray[np.float64]  # (windows, forecasts, metrics, targets)
WINDOWS_AT_ONCE = 256  # windows
STEPS = 20  # parts that shares are made of
EARLY = 0.7  # of the windows to learn from, where the rest is forecast from these
ENOUGH, MOST_MIXED = 30, 4_000  # windows to validate on that do not overlap; windows that a mixture is chosen on
SURE = 1.65  # standard errors by which a mixture with attention has to be better
CLEAR = 0.01  # difference of two errors, as a share, that is worth a word
DOUBT = (
    1.0  # how much a further forecast in a mixture has to gain, as a share, where one window is all evidence there is
)


def combined(shares: Sequence[float], forecasts: Sequence[Values]) -> Values:
    """The weighted sum of several forecasts of the same windows.

    >>> combined((0.5, 0.0, 0.5), [np.array([2.0]), np.array([9.0]), np.array([4.0])])
    array([3.])
    """
    return np.sum([share * forecast for share, forecast in zip(shares, forecasts, strict=True)], axis=0)


def best_shares(products: NDArray[np.float64], evidence: float = np.inf) -> tuple[float, ...]:
    """The shares of the forecasts in the best mixture, in steps of a twentieth that add up to 1.

    `products` are the means of the products of their errors, two by two. Errors that are not alike cancel each other:

    >>> best_shares(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 9.0]]))
    (0.5, 0.5, 0.0)

    With few independent windows as `evidence`, a mixture must be better by more than chance, or one forecast is taken:

    >>> best_shares(np.array([[1.0, 0.9], [0.9, 1.0]]), evidence=4)
    (1.0, 0.0)

    Bates and Granger (1969), The Combination of Forecasts.
    """
    count = len(products)
    bars = np.array(list(combinations(range(STEPS + count - 1), count - 1)))  # every way to divide the steps
    grid = np.diff(bars, axis=1, prepend=-1, append=STEPS + count - 1) - 1
    tried = grid[::-1] / STEPS  # of equals, the one with most of the first
    errors = np.einsum("ni,ij,nj->n", tried, products, tried)
    return tuple(tried[(errors * (1 + DOUBT / evidence * ((tried > 0).sum(1) - 1))).argmin()].tolist())


def forecasts_and_truth(
    ours: Callable[[range], Values] | None, plain: PlainForecasts, values: Values, zeros: Values, starts: Starts
) -> Iterator[tuple[list[Values], Values]]:
    """The forecasts of the model and the plain ones, (windows, horizon, targets), and the truth, in parts.

    `ours` returns the model's forecasts of some windows (None: there is no model yet); `values` are the targets,
    (rows, targets).
    """
    for at in range(0, len(starts), WINDOWS_AT_ONCE):
        some = starts[at : at + WINDOWS_AT_ONCE]
        wanted = sliding_window_view(values, plain.horizon, axis=0)[some + plain.lookback].transpose(0, 2, 1)
        first = [ours(range(at, at + len(some)))] if ours is not None else []
        yield [*first, *plain.forecast(values, zeros, some)], wanted


def products_of(parts: Forecasts) -> NDArray[np.float64]:
    """The means of the products of the errors of several forecasts, two by two."""
    total, count = np.zeros(()), 0
    for forecasts, wanted in parts:
        errors = np.stack([(forecast - wanted).ravel() for forecast in forecasts])
        total, count = total + errors @ errors.T, count + errors.shape[1]
    return total / max(1, count)


class WindowErrors(NamedTuple):
    """What is known about the forecasts of windows, averaged over the horizon."""

    errors: Errors  # (windows, forecasts, metrics, targets): the answer, the plain ones, attention alone, the plain ones mixed
    held: Values  # (windows, targets): the share of true values within the usual interval; NaN where there is none

    @classmethod
    def together(cls, windows: Sequence[tuple[Errors, Values]]) -> Self:
        """Of single windows."""
        return cls(np.stack([window[0] for window in windows]), np.stack([window[1] for window in windows]))

    def target(self, number: int) -> Self:
        """The same of one target."""
        return type(self)(self.errors[..., number : number + 1], self.held[..., number : number + 1])


def errors_beside_plain(parts: Forecasts, known: "SeriesScale") -> WindowErrors:
    """The errors of answers, of the plain forecasts, of the model alone and of the plain ones mixed."""
    errors, held = [], []
    ends = None if known.spread is None else band(known.spread, USUAL)
    plain = known.mixed or known.shares[1:]
    for some, wanted in parts:
        ours = combined(known.shares, some)
        differences = [forecast - wanted for forecast in (ours, *some[1:], some[0], combined(plain, some[1:]))]
        each = [np.stack([np.square(d).mean(1), np.abs(d).mean(1)], axis=1) for d in differences]
        errors.append(np.stack(each, axis=1))
        inside = np.nan if ends is None else (wanted >= ours + ends[0]) & (wanted <= ours + ends[1])
        held.append(np.broadcast_to(inside, wanted.shape).mean(1))
    return WindowErrors(np.concatenate(errors), np.concatenate(held))


def metrics_of(windows: WindowErrors, known: "SeriesScale") -> dict[str, float]:
    """The metrics by name, over all windows and targets: mse, mae, mse_repeat, ...; of a run from before only those it had."""
    names = ("", *known.plain.names, *(() if known.plain.names == OLD else (ATTENTION, MIXED)))
    means = windows.errors.mean((0, 3))[: len(names)]
    keys = [f"{metric}_{name}".rstrip("_") for name in names for metric in METRICS]
    held = {} if known.spread is None else {f"coverage_{USUAL}": 100 * float(windows.held.mean())}
    return dict(zip(keys, means.ravel().tolist(), strict=True)) | held


def best_plain(metrics: Mapping[str, float]) -> tuple[float, str]:
    """The smallest MSE of a plain forecast, and its name."""
    names = [name for name in FORECASTS if name not in ("", ATTENTION, MIXED) and f"mse_{name}" in metrics]
    return min((metrics[f"mse_{name}"], name) for name in names)


def verdict(metrics: Mapping[str, float]) -> str:
    """Whether the answer is better than the plain forecasts.

    >>> verdict({"mse": 0.40, "mse_repeat": 1.3, "mse_linear": 0.5})
    "The answer is better than every plain forecast: its MSE is 20 % below that of a linear model of each column's past."
    >>> verdict({"mse": 0.09, "mse_repeat": 0.08, "mse_linear": 0.1})
    'A plain forecast is better: repeating the last value has an MSE of 0.0800, the answer 0.0900 (+12 %). Use that instead.'
    """
    ours = metrics["mse"]
    best, key = best_plain(metrics)
    name = FORECASTS[key]
    if best <= 0:
        return f"Nothing is left to learn here: {name} has no error at all."
    if ours < best * (1 - CLEAR):
        return f"The answer is better than every plain forecast: its MSE is {100 * (1 - ours / best):.0f} % below that of {name}."
    share = f"{100 * (ours / best - 1):+.0f} %"
    if ours > best * (1 + CLEAR):
        return f"A plain forecast is better: {name} has an MSE of {best:.4f}, the answer {ours:.4f} ({share}). Use that instead."
    return f"The answer is no better than a plain forecast: {name} has an MSE of {best:.4f}, the answer {ours:.4f} ({share})."


def what_attention_adds(metrics: Mapping[str, float], shares: Sequence[float]) -> str:
    """The MSE of attention alone, of the plain forecasts, and of both, in a sentence.

    >>> what_attention_adds({"mse": 0.36, "mse_attention": 0.39, "mse_plain": 0.37, "mse_linear": 0.38}, (0.4, 0.6))
    'MSE: attention alone 0.3900, plain forecasts alone 0.3700, both 0.3600: attention helps on this data.'
    >>> what_attention_adds({"mse": 0.37, "mse_attention": 0.39, "mse_plain": 0.37, "mse_linear": 0.38}, (0.0, 1.0))
    'MSE: attention alone 0.3900, plain forecasts alone 0.3700, both 0.3700: attention does not help on this data.'
    """
    if "mse_attention" not in metrics:
        return ""
    both, alone, plain = metrics["mse"], metrics["mse_attention"], metrics["mse_plain"]
    helps = "helps" if shares[0] > 0 and both < plain * (1 - CLEAR) else "does not help"
    figures = f"attention alone {alone:.4f}, plain forecasts alone {plain:.4f}, both {both:.4f}"
    return f"MSE: {figures}: attention {helps} on this data."


def coverage(metrics: Mapping[str, float]) -> str:
    """How many of the true values the usual interval holds, in a sentence.

    >>> coverage({"coverage_80": 77.8})
    'The interval of 80 % holds 78 % of the true values.'
    """
    held = metrics.get(f"coverage_{USUAL}")
    return "" if held is None else f"The interval of {USUAL} % holds {held:.0f} % of the true values."


def learn_plain(
    values: Values, zeros: Values, learned: Starts, tried: Starts, size: tuple[int, int], season: int
) -> tuple[PlainForecasts, tuple[float, ...], NDArray[np.float32] | None]:
    """The plain forecasts, the share of each in their best mixture, and quantiles of its errors where few windows validate.

    The mixture is the one that is best for the windows to validate on. Where these are few, the windows at the end of those to
    learn from are forecast as well, by plain forecasts that learned from the ones before.
    """
    lookback, horizon = size
    plain = PlainForecasts.learn(values, zeros, learned, tried, lookback, horizon, season)
    some = thinned(tried, MOST_MIXED)
    products = products_of(forecasts_and_truth(None, plain, values, zeros, some))
    windows = len(tried)
    late = learned[round(EARLY * len(learned)) :]
    early = learned[: max(0, len(learned) - len(late) - horizon)]
    if windows < ENOUGH * horizon and len(early) >= horizon:
        before = PlainForecasts.learn(values, zeros, early, late, lookback, horizon, season)
        parts = list(forecasts_and_truth(None, before, values, zeros, thinned(late, MOST_MIXED)))
        products = (windows * products + len(late) * products_of(parts)) / (windows + len(late))
        mixed = best_shares(products, (windows + len(late)) / horizon * values.shape[1] ** 0.5)
        answers = ((combined(mixed, some), wanted) for some, wanted in parts)
        return plain, mixed, spread_of(thinned_errors(answers, len(late), horizon * values.shape[1]), horizon)
    return plain, best_shares(products, windows / horizon * values.shape[1] ** 0.5), None


def share_of_attention(parts: Forecasts, evidence: float) -> float:
    """The share of attention in a mixture with the plain forecasts, given the forecasts of both, and the truth.

    The weights of a model are those that validate best of many, so that they look better there than they are. So the share is
    not that of the largest gain over the plain forecasts, but of the largest gain that is there for sure: the mean gain less
    `SURE` standard errors of `evidence` independent windows. Where that is not above 0, attention does not count.

    >>> ours, plain, wanted = np.zeros((9, 1, 1)), np.linspace(-1, 2, 9)[:, None, None], np.zeros((9, 1, 1))
    >>> share_of_attention([([ours, plain], wanted)], evidence=9), share_of_attention([([ours, plain], wanted)], evidence=2)
    (1.0, 0.0)
    """
    products = []  # of the errors of both, two by two, window by window
    for some, wanted in parts:
        errors = np.stack([(forecast - wanted).reshape(len(wanted), -1) for forecast in some])
        products.append(np.einsum("inv,jnv->nij", errors, errors) / errors.shape[2])
    each = np.concatenate(products)
    found = (0.0, 0.0)
    for share in np.arange(1, STEPS + 1) / STEPS:
        shares = np.array([share, 1 - share])
        gains = each[:, 1, 1] - np.einsum("i,nij,j->n", shares, each, shares)
        sure = float(gains.mean() - SURE * gains.std() / max(evidence - 1, SMALLEST) ** 0.5)
        found = max(found, (sure, float(share)))
    return found[1]


def mixture(shares: Sequence[float], names: Sequence[str]) -> str:
    """The shares of an answer, in a sentence; `names` are those of the plain forecasts.

    >>> mixture((0.65, 0.0, 0.35), ("repeat", "linear"))
    'The answer is 65 % attention and 35 % linear, as validation chose.'
    """
    parts = zip(shares, (ATTENTION, *names), strict=True)
    words = [f"{100 * share:.0f} % {SHORT[name]}" for share, name in parts if share >= 0.005]
    listed = " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return f"The answer is {listed}, as validation chose."
