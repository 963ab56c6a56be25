"""How a batch is made: a source is asked for `part(step, index, count)`, a share of the batch of a step, and returns tensors.

BatchSource.part(step, index, count) -> which rows (`batch`) -> Examples.part(rows) -> Microbatch

A batch is a function of the step, whatever came before, so that a resumed run needs no history; and it is divided among
processes and accumulation steps without changing what is in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mirada.errors import require

Item = TypeVar("Item")
IGNORED = -100  # fills up tokens that are wanted: a place that does not count
Lengths = Sequence[tuple[int, ...]] | NDArray[np.int64]  # one row per item, one number per side


@dataclass(frozen=True)
class Microbatch:
    """A share of a batch: what the model is given, how many things each term of the loss is a mean of, and its true tokens.

    A part that counts nothing (there were more shares than rows) holds a row all the same, so that every process has a step
    to make.
    """

    inputs: dict[str, Any]
    counts: tuple[int, ...]
    tokens: int


class BatchSource(Protocol):
    """Batches as a function of the step, so that a resumed run needs no history to know what comes next."""

    def __len__(self) -> int:
        """How many batches an epoch has."""

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """A share of the batch of a step.

        Args:
            step: Counts from 0 over all epochs.
            index: Which share, below `count`.
            count: How many shares: parts of a step times processes.
        """


class Examples(Protocol):
    """Records as a model reads them, encoded once."""

    def __len__(self) -> int: ...

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """What the model is given for some of them; an epoch may mask other words or flip pictures."""

    def take(self, rows: Sequence[int]) -> "Examples":
        """Some of them, as a separate set."""


class MeasuredExamples(Examples, Protocol):
    """Examples that differ in length: a number for every side that is padded."""

    @property
    def lengths(self) -> Sequence[tuple[int, ...]]:
        """For every example, the length of each side."""
        ...


@dataclass(frozen=True)
class EncodedRecords(Generic[Item]):
    """An item for every record, how long it is, how some of them become what the model is given, and what a person should
    know about them.
    """

    items: Sequence[Item]
    lengths: Sequence[tuple[int, ...]]
    collate: Callable[[list[Item]], Microbatch]
    note: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """Some of the records as one batch."""
        return self.collate([self.items[row] for row in rows])

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the records, as a separate set."""
        return replace(self, items=[self.items[row] for row in rows], lengths=[self.lengths[row] for row in rows])


class _BatchesOfRows:
    """What batch sources share: a batch is a list of rows, and a part of it every `count`-th of them."""

    examples: Examples

    def __len__(self) -> int:
        raise NotImplementedError

    def batch(self, step: int) -> list[int]:
        """The rows of a batch: the same for the same step, whatever was asked before."""
        raise NotImplementedError

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of the batch of a step; where there are more shares than rows, a row that counts nothing."""
        require(count >= 1, f"a batch is dealt out to at least 1: got {count}")
        rows, epoch = self.batch(step), step // len(self)
        if mine := rows[index::count]:
            return self.examples.part(mine, epoch)
        stand_in = self.examples.part(rows[:1], epoch)
        return Microbatch(stand_in.inputs, tuple(0 for _ in stand_in.counts), 0)


class FixedSize(_BatchesOfRows):
    """Batches of one size, in an order of its own for every epoch."""

    def __init__(self, examples: Examples, size: int, seed: int) -> None:
        require(len(examples) > 0, "batches need at least one item: got none")
        self.examples, self.seed = examples, seed
        self.count = -(-len(examples) // size)
        self.last: tuple[int, Any] = (-1, None)  # an epoch's order is made once: its steps come together

    def __len__(self) -> int:
        return self.count

    def batch(self, step: int) -> list[int]:
        """The rows of a batch, a function of (seed, step)."""
        epoch, place = divmod(step, len(self))
        if self.last[0] != epoch:
            self.last = (epoch, np.argsort(drawn(len(self.examples), self.seed, epoch), kind="stable"))
        return self.last[1][place :: len(self)].tolist()


class Bucketed(_BatchesOfRows):
    """Batches of items of similar lengths, in an order that is a function of (seed, epoch).

    An item has a length for every side that is padded: (source, target), or (text,). A batch has as many items as keep
    items x longest <= `tokens` on every side; a longer item has a batch of its own. Batches are numbered on over epochs:

    >>> examples = EncodedRecords("abcd", [(3, 3), (9, 8), (3, 2), (8, 8)], collate=lambda rows: Microbatch({}, (), 0))
    >>> batches = Bucketed(examples, tokens=20, seed=1)
    >>> len(batches)  # in an epoch
    2
    >>> sorted(sorted(batches.batch(step)) for step in (4, 5))  # the third epoch
    [[0, 2], [1, 3]]

    Items are sorted by length and cut where a batch is full. Only items of equal lengths change places from epoch to
    epoch, so the cuts stay, and with them the number of batches.
    """

    def __init__(self, examples: MeasuredExamples, tokens: int, seed: int) -> None:
        self.examples = examples
        sides, order, self._cuts = _sorted_and_cut(examples.lengths, tokens)
        require(len(sides) > 0, "batches need at least one item: got none")
        along = sides[order]
        self._seed = seed
        self._rank = np.empty(len(order), dtype=np.int64)  # of an item: equal lengths have equal ranks
        self._rank[order] = np.append(0, (along[1:] != along[:-1]).any(axis=1).cumsum())
        padded = sum((end - first) * int(along[first:end].max(axis=0).sum()) for first, end in pairwise(self._cuts))
        self.padding = 1 - int(along.sum()) / padded  # the share of padding among all tokens, every side counted
        # an epoch's order is made once: its steps come together
        self._last: tuple[int, Any, list[int]] = (-1, None, [])
        self.batch(0)  # refuses a negative seed now, not at the first step

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def batch(self, step: int) -> list[int]:
        """The items of a batch: the same for the same step, whatever was asked before."""
        require(step >= 0, f"step must be at least 0: got {step}")
        epoch, place = divmod(step, len(self))
        if epoch != self._last[0]:
            noise = drawn(len(self._rank) + len(self), self._seed, epoch)
            items = np.lexsort((noise[: len(self._rank)], self._rank))
            self._last = (epoch, items, np.argsort(noise[len(self._rank) :], kind="stable").tolist())
        _, items, turns = self._last
        turn = turns[place]
        return items[self._cuts[turn] : self._cuts[turn + 1]].tolist()


@dataclass(frozen=True)
class Whole:
    """One batch with everything in it: the nodes of one graph see each other. It is not divided: one process has it all."""

    examples: Examples

    def __len__(self) -> int:
        return 1

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Everything for share 0; the others count nothing."""
        everything = self.examples.part(range(len(self.examples)), step)
        return everything if index == 0 else Microbatch(everything.inputs, tuple(0 for _ in everything.counts), 0)


def in_buckets(examples: MeasuredExamples, tokens: int) -> list[Microbatch]:
    """Every example once, sorted by length: for validation."""
    _, order, cuts = _sorted_and_cut(examples.lengths, tokens, reverse=True)
    return [examples.part(order[first:end].tolist(), 0) for first, end in pairwise(cuts)]


def in_sequence(examples: Examples, size: int) -> list[Microbatch]:
    """Every example once, in order: for validation."""
    count = len(examples)
    return [examples.part(range(first, min(first + size, count)), 0) for first in range(0, count, size)]


def in_order(lengths: Lengths, tokens: int) -> list[list[int]]:
    """Every item once, in batches of similar lengths from the longest to the shortest, for evaluation.

    >>> in_order([(3,), (9,), (2,), (8,)], tokens=20)
    [[1, 3], [0, 2]]
    """
    _, order, cuts = _sorted_and_cut(lengths, tokens, reverse=True)
    return [order[first:end].tolist() for first, end in pairwise(cuts)]


def _sorted_and_cut(
    lengths: Lengths, tokens: int, reverse: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int]]:
    """The lengths as a matrix, the order of the items along them, and where batches begin along this order, and the end.

    Items are sorted by their longest side, then by how far the first side exceeds the others. The second key runs forth
    and back, so that neighbors differ little where the first one changes: on 29,000 sentence pairs this left 3.1 % padding,
    where plain sorting left 6.9 %.
    """
    require(tokens >= 1, f"tokens must be at least 1: got {tokens}")
    try:
        sides = np.asarray(lengths, dtype=np.int64)
    except ValueError:
        raise ValueError("lengths must have the same number of sides for every item") from None
    if len(sides) == 0:
        return sides.reshape(0, 1), np.zeros(0, dtype=np.int64), [0]
    require(
        sides.ndim == 2 and sides.shape[1] > 0,
        f"lengths must be (items, sides): got shape {sides.shape}. Write (n,) for an item of one side.",
    )
    short = np.flatnonzero(sides.min(axis=1) < 1)
    if len(short):
        raise ValueError(f"lengths must be at least 1: got {sides[short[:1]].tolist()} for item {short[:1].tolist()}")
    longest = sides.max(axis=1)
    excess = 2 * sides[:, 0] - sides.sum(axis=1)
    order = np.lexsort((*sides.T, np.where(longest % 2, excess, -excess), longest))[:: -1 if reverse else 1]
    cuts, widest = [0], 0
    for place, length in enumerate(longest[order].tolist()):
        widest = max(widest, length)
        if place > cuts[-1] and (place - cuts[-1] + 1) * widest > tokens:
            cuts.append(place)
            widest = length
    return sides, order, [*cuts, len(order)]


def pad(rows: Sequence[Sequence[int]], value: int = 0) -> tuple[Int[Tensor, "batch length"], Int[Tensor, " batch"]]:
    """Rows as a matrix, filled up with `value`, and their true lengths.

    >>> pad([[5, 6, 7], [8]])
    (tensor([[5, 6, 7], [8, 0, 0]]), tensor([3, 1]))
    """
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    matrix = np.full((len(rows), lengths.max(initial=0)), value, dtype=np.int64)
    real = np.arange(matrix.shape[1]) < lengths[:, None]
    matrix[real] = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(lengths.sum()))
    return torch.from_numpy(matrix), torch.from_numpy(lengths)


def drawn(count: int, *key: int) -> NDArray[np.uint64]:
    """Random 64-bit numbers that are a function of the key; a shorter draw is a prefix of a longer one.

    The raw stream of PCG64: numpy promises that it stays, which it does not for shuffles and ranges.
    """
    require(min(key) >= 0, f"a seed, an epoch and an item must be at least 0: got {key}")
    return np.random.PCG64(np.random.SeedSequence(key)).random_raw(count)
