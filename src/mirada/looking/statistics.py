"""What every head does, in a few numbers, and what a reader of its weights must be warned of.

The weights come in pieces of some rows, so a long input needs no more memory than a short one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

SINK = 0.5  # a key that takes more than this share of all weight
SAME = 1e-6  # rows that differ by less are the same

Piece = tuple[int, Float[Tensor, "heads rows keys"]]  # the number of its first row, and its weights


@dataclass(frozen=True)
class Sink:
    """A key that most queries look at, and its share of all weight."""

    key: int
    mass: float


@dataclass(frozen=True)
class HeadStatistics:
    """What a head does, as means over its rows; each row is divided by its sum first, and empty rows do not count.

    `entropy` is in nats, `normalized_entropy` divides each row's by the logarithm of the number of keys that have weight (0:
    one key, 1: all alike). `distance` is the mean of |i - j|; `previous`, `next`, `first` and `self` are the weight at j = i - 1,
    i + 1, 0 and i, over the rows that have such a key. Nodes of a graph have no order: there these are None, but for `self`.
    """

    entropy: float
    normalized_entropy: float
    distance: float | None = None
    previous: float | None = None
    next: float | None = None
    first: float | None = None
    self: float | None = None
    sink: Sink | None = None


@dataclass(frozen=True)
class Checks:
    """What a reader must be warned of: rows whose sums are not one, NaN, empty rows, rows all alike, dropout while looking.

    `identical_rows`: in every head all rows are the same, so it does not matter what is asked.
    """

    row_sum_min: float = 1.0
    row_sum_max: float = 1.0
    nan_rows: int = 0
    empty_rows: int = 0
    identical_rows: bool = False
    dropout: float = 0.0
    weight_min: float = 0.0
    weight_max: float = 1.0


def dense_statistics(pieces: Iterable[Piece], dropout: float = 0.0) -> tuple[list[HeadStatistics], Checks]:
    """The statistics of every head, and the checks of all.

    >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> [one], _ = dense_statistics([(0, weights)])
    >>> round(one.entropy, 3), one.distance, one.self, one.sink
    (0.347, 0.25, 0.75, Sink(key=0, mass=0.75))
    """
    sums = None
    for first, weights in pieces:
        sums = RowSums(weights.shape[0], weights.shape[2]) if sums is None else sums
        sums.add(first, weights)
    return ([], Checks(dropout=dropout)) if sums is None else (sums.heads(), sums.checks(dropout))


class RowSums:
    """What the statistics of dense weights are made of, row by row."""

    def __init__(self, heads: int, keys: int) -> None:
        self.keys = keys
        self.columns = torch.zeros(heads, keys, dtype=torch.double)
        self.totals = {name: torch.zeros(heads, dtype=torch.double) for name in MEANS}
        self.counts = {name: torch.zeros(heads, dtype=torch.double) for name in MEANS}
        self.sums = Range()
        self.values = Range()
        self.nan_rows = self.empty_rows = self.rows = 0
        self.first_row: Tensor | None = None
        self.largest_change = 0.0

    def add(self, first: int, weights: Float[Tensor, "heads rows keys"]) -> None:
        """Add the weights of the rows first, first + 1, ..."""
        rows, keys = weights.shape[1:]
        sums = weights.sum(-1)
        broken = ~sums.isfinite()
        if bool(broken.any()):
            # rows that are not numbers count as empty
            weights = weights.masked_fill(~weights.isfinite().all(-1, keepdim=True), 0)
            sums = sums.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        sizes = weights.abs() if self.values.add(weights) < 0 else weights
        total = sizes.sum(-1)
        good = ~broken & (total > 0)
        shares = sizes / total.masked_fill(~good, 1).unsqueeze(-1)
        i, j = torch.arange(first, first + rows), torch.arange(keys)
        entropy, choices = torch.special.entr(shares).sum(-1), (shares > 0).sum(-1)
        self._mean("entropy", entropy, good)
        self._mean("normalized_entropy", entropy / choices.clamp(min=2).float().log(), good & (choices > 1))
        self._mean("distance", torch.einsum("hik,ik->hi", shares, (i[:, None] - j).abs().to(shares)), good)
        for name, key in (("previous", i - 1), ("next", i + 1), ("first", torch.zeros_like(i)), ("self", i)):
            there = (key >= 0) & (key < keys)
            if keys:
                at = shares.gather(2, key.clamp(0, keys - 1).expand(len(shares), -1).unsqueeze(-1)).squeeze(-1)
                self._mean(name, at, good & there)
        self.columns += shares.sum(1)
        self.sums.add(sums[good])
        self.nan_rows += int(broken.sum())
        self.empty_rows += int((~broken & (total == 0)).sum())
        self.rows += rows
        if rows and keys:
            self.first_row = weights[:, :1] if self.first_row is None else self.first_row
            self.largest_change = max(self.largest_change, float((weights - self.first_row).abs().max()))

    def _mean(self, name: str, values: Tensor, counted: Tensor) -> None:
        self.totals[name] += (values * counted).sum(-1, dtype=torch.double)
        self.counts[name] += counted.sum(-1)

    def heads(self) -> list[HeadStatistics]:
        """The statistics of every head."""
        means = {name: self.totals[name] / self.counts[name].clamp(min=1) for name in MEANS}
        mass = self.columns / self.counts["entropy"].clamp(min=1).unsqueeze(-1)
        by_head = [{name: float(mean[head]) for name, mean in means.items()} for head in range(len(mass))]
        return [HeadStatistics(**each, sink=_sink_of(row, self.rows)) for each, row in zip(by_head, mass, strict=True)]

    def checks(self, dropout: float) -> Checks:
        """What a reader must be warned of."""
        return Checks(
            *self.sums.bounds(1.0, 1.0), self.nan_rows, self.empty_rows,
            self.rows > 1 and self.keys > 1 and self.nan_rows == 0 and self.largest_change < SAME, dropout,
            *self.values.bounds(0.0, 0.0),
        )  # fmt: skip


MEANS = ("entropy", "normalized_entropy", "distance", "previous", "next", "first", "self")


class Range:
    """The smallest and the largest of many numbers."""

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf

    def add(self, values: Tensor) -> float:
        """Include them, and return the smallest so far."""
        if values.numel():
            low, high = values.aminmax()
            self.low, self.high = min(self.low, float(low)), max(self.high, float(high))
        return self.low

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """The smallest and the largest, or these two where there were none."""
        return (self.low, self.high) if self.low <= self.high else (low, high)


def _sink_of(mass: Float[Tensor, " keys"], rows: int) -> Sink | None:
    """The key with most of the weight, if it has more than half. One query or one key is no sink."""
    if rows < 2 or len(mass) < 2:
        return None
    key = int(mass.argmax())
    return Sink(key, float(mass[key])) if mass[key] > SINK else None


def edge_statistics(
    weights: Float[Tensor, "heads edges"], edges: Int[Tensor, "2 edges"], queries: int, keys: int, dropout: float = 0.0
) -> tuple[list[HeadStatistics], Checks]:
    """The same for one weight per edge: row 0 of `edges` is the key, row 1 the query. Nothing is queries x keys.

    >>> [one], _ = edge_statistics(torch.tensor([[0.5, 0.5, 1.0]]), torch.tensor([[0, 1, 1], [0, 0, 1]]), 2, 2)
    >>> round(one.entropy, 3), one.self
    (0.347, 0.75)
    """
    key, query = edges.cpu().long()
    weights = weights.double()
    heads = len(weights)

    def per_row(values: Tensor) -> Tensor:
        return torch.zeros(heads, queries, dtype=torch.double).index_add_(1, query, values)

    broken = per_row(weights.isnan().double()) > 0
    clean = weights.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    total, sums = per_row(clean.abs()), per_row(clean)
    good = ~broken & (total > 0)
    shares = clean.abs() / total[:, query].clamp(min=torch.finfo(torch.double).tiny) * good[:, query]
    entropy, choices = per_row(torch.special.entr(shares)), per_row((shares > 0).double())
    normalized = entropy / choices.clamp(min=2).log()
    loops = shares * (key == query)
    has_loop = (per_row((key == query).double().expand(heads, -1)) > 0) & good
    mass = torch.zeros(heads, keys, dtype=torch.double).index_add_(1, key, shares)
    several = good & (choices > 1)
    statistics = []
    for head in range(heads):
        rows, some, looped = (max(1, int(counted[head].sum())) for counted in (good, several, has_loop))
        mean = float((entropy[head] * good[head]).sum()) / rows
        mean_normalized = float((normalized[head] * several[head]).sum()) / some
        to_itself, sink = float(loops[head].sum()) / looped, _sink_of(mass[head] / rows, queries)
        statistics.append(HeadStatistics(mean, mean_normalized, self=to_itself, sink=sink))
    bounds, values = Range(), Range()
    bounds.add(sums[good])
    values.add(clean)
    nan, empty = int(broken.sum()), int((~broken & (total == 0)).sum())
    return statistics, Checks(*bounds.bounds(1.0, 1.0), nan, empty, False, dropout, *values.bounds(0.0, 0.0))
