"""What every head does, in a few numbers, and what a reader of its weights must be warned of.

The weights come in tiles, some rows at a time with the keys that they can see: a long input needs no more memory than a
short one.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

SINK = 0.5  # a key that takes more than this share of all weight
SAME = 1e-6  # rows that differ by less are the same
Piece = tuple[int, Float[Tensor, "heads rows keys"]]  # the number of its first row, and its weights
TINY = torch.finfo(torch.float32).tiny


class WeightTile(NamedTuple):
    """The weights of some rows of a layer, for the keys that these rows can see; those of all other keys are 0.

    `row` is the number of the first query among those recorded, `key` that of the first key. `start` is the place of query 0
    among the keys: it is not 0 where a cache held some keys before.
    """

    row: int
    weights: Float[Tensor, "*lead rows keys"]
    key: int = 0
    start: int = 0

    @property
    def rows(self) -> slice:
        """The rows of a result that these are."""
        return slice(self.row, self.row + self.weights.shape[-2])

    @property
    def keys(self) -> slice:
        """The keys of a result that these are."""
        return slice(self.key, self.key + self.weights.shape[-1])


@dataclass(frozen=True)
class SinkKey:
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
    sink: SinkKey | None = None


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


def row_entropy(weights: Float[Tensor, "*lead rows keys"], total: Float[Tensor, "*lead rows"]) -> Tensor:
    """The entropy of every row in nats, divided by its sum first: log total - sum_j w_j log w_j / total."""
    summed = weights.clamp(min=TINY).log_().mul_(weights).sum(-1)
    return (total.log() - summed / total).clamp_(min=0)


def row_distance(weights: Float[Tensor, "*lead rows keys"], place: int, key: int) -> Float[Tensor, "*lead rows"]:
    """sum_j w_ij |i - j| of the rows at place, place + 1, ... over keys from `key` on.

    Left and right of the rows |i - j| is a product of the weights with the keys' distances from one place: only between
    them it varies by pair.
    """
    rows, keys = weights.shape[-2:]
    left, right = (min(max(0, edge - key), keys) for edge in (place, place + rows))
    i = torch.arange(rows, dtype=weights.dtype, device=weights.device)
    j = torch.arange(key, key + keys, dtype=torch.double, device=weights.device)
    before, between, after = weights[..., :left], weights[..., left:right], weights[..., right:]
    distance = before @ (place - j[:left]).to(weights) + before.sum(-1) * i
    distance += after @ (j[right:] - place).to(weights) - after.sum(-1) * i
    return distance + (between * (i[:, None] - (j[left:right] - place).to(weights)).abs()).sum(-1)


def dense_statistics(
    tiles: Iterable[WeightTile | Piece], dropout: float = 0.0, keys: int | None = None
) -> tuple[list[HeadStatistics], Checks]:
    """The statistics of every head, and the checks of all.

    Args:
        tiles: the weights of one sample, (heads, rows, keys), in order of the rows.
        dropout: the share of the weights that were dropped when they were used.
        keys: how many keys there are, where tiles hold only those that their rows can see.

    >>> weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> [one], _ = dense_statistics([(0, weights)])
    >>> round(one.entropy, 3), one.distance, one.self, one.sink
    (0.347, 0.25, 0.75, SinkKey(key=0, mass=0.75))
    """
    sums = None
    for tile in tiles:
        tile = WeightTile(*tile)
        if sums is None:
            sums = RowSums(tile.weights.shape[0], tile.weights.shape[2] if keys is None else keys)
        sums.add(tile)
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

    def add(self, tile: WeightTile) -> None:
        """Add the weights of some rows. They are divided by their sums at the end: every number here is linear in them."""
        weights, rows, place = tile.weights, tile.weights.shape[1], tile.start + tile.row
        sums = weights.sum(-1)
        broken = ~sums.isfinite()
        if bool(broken.any()):
            # rows that are not numbers count as empty
            weights = weights.masked_fill(~weights.isfinite().all(-1, keepdim=True), 0)
            sums = sums.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        self._compare(tile._replace(weights=weights))
        lowest = self.values.add(weights)
        if weights.shape[2] < self.keys:
            lowest = self.values.add(weights.new_zeros(1))
        sizes = weights.abs() if lowest < 0 else weights
        total = sizes.sum(-1)
        good = ~broken & (total > 0)
        share = good / total.masked_fill(~good, 1)
        entropy, choices = row_entropy(sizes, total.masked_fill(~good, 1)), sizes.sign().sum(-1)
        self._mean("entropy", entropy, good)
        self._mean("normalized_entropy", entropy / choices.clamp(min=2).float().log(), good & (choices > 1))
        self._mean("distance", row_distance(sizes, place, tile.key) * share, good)
        i = torch.arange(place, place + rows)
        for name, key in (("previous", i - 1), ("next", i + 1), ("first", torch.zeros_like(i)), ("self", i)):
            self._mean(name, _at(sizes, key - tile.key) * share, good & (key >= 0) & (key < self.keys))
        self.columns[:, tile.keys] += (share.unsqueeze(1) @ sizes).squeeze(1)
        self.sums.add(sums[good])
        self.nan_rows += int(broken.sum())
        self.empty_rows += int((~broken & (total == 0)).sum())
        self.rows += rows

    def _compare(self, tile: WeightTile) -> None:
        """Note how far the rows are from the first of all, as long as they might all be the same."""
        if tile.weights.shape[1] == 0 or self.keys == 0 or self.largest_change >= SAME:
            return
        if self.first_row is None:
            self.first_row = tile.weights.new_zeros(len(tile.weights), 1, self.keys)
            self.first_row[..., tile.keys] = tile.weights[:, :1]
        outside = torch.cat([self.first_row[..., : tile.keys.start], self.first_row[..., tile.keys.stop :]], dim=-1)
        changes = [outside.flatten(), (tile.weights - self.first_row[..., tile.keys]).flatten()]
        self.largest_change = max([self.largest_change, *(float(x.abs().max()) for x in changes if x.numel())])

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


def _at(weights: Float[Tensor, "heads rows keys"], key: Int[Tensor, " rows"]) -> Float[Tensor, "heads rows"]:
    """The weight of one key per row; 0 where it is not among the keys."""
    there = (key >= 0) & (key < weights.shape[2])
    if not bool(there.any()):
        return weights.new_zeros(weights.shape[:2])
    index = key.clamp(0, weights.shape[2] - 1).expand(len(weights), -1).unsqueeze(-1)
    return weights.gather(2, index).squeeze(-1) * there


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


def _sink_of(mass: Float[Tensor, " keys"], rows: int) -> SinkKey | None:
    """The key with most of the weight, if it has more than half. One query or one key is no sink."""
    if rows < 2 or len(mass) < 2:
        return None
    key = int(mass.argmax())
    return SinkKey(key, float(mass[key])) if mass[key] > SINK else None


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
