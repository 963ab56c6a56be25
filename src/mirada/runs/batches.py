"""From encoded records to batches: buckets of similar lengths, batches of one size, or all at once.

A batch is a function of the step, whatever came before, so that a resumed run needs no history; and it is divided among
processes and accumulation steps without changing what is in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from mirada.data.batching import Buckets, drawn, in_order, parts
from mirada.errors import require
from mirada.training.objectives import Microbatch

Item = TypeVar("Item")


class Examples(Protocol):
    """Records as a model reads them, encoded once."""

    def __len__(self) -> int: ...

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """What the model is given for some of them; an epoch may hide other words or turn pictures around."""

    def take(self, rows: Sequence[int]) -> "Examples":
        """Some of them, as a set of their own."""


class MeasuredExamples(Examples, Protocol):
    """Examples that differ in length: a number for every side that is padded."""

    @property
    def lengths(self) -> Sequence[tuple[int, ...]]:
        """For every example, the length of each side."""
        ...


@dataclass(frozen=True)
class EncodedRecords(Generic[Item]):
    """An item for every record, how long it is, and how some of them become what the model is given."""

    items: Sequence[Item]
    lengths: Sequence[tuple[int, ...]]
    collate: Callable[[list[Item]], Microbatch]

    def __len__(self) -> int:
        return len(self.items)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """Some of the records as one batch."""
        return self.collate([self.items[row] for row in rows])

    def take(self, rows: Sequence[int]) -> Self:
        """Some of the records, as a set of their own."""
        return replace(self, items=[self.items[row] for row in rows], lengths=[self.lengths[row] for row in rows])


def _shared_part(examples: Examples, rows: Sequence[int], epoch: int, index: int, count: int) -> Microbatch:
    """Share `index` of `count` of a batch; where there are more shares than rows, a row that counts nothing."""
    mine = parts(rows, count)[index]
    if mine:
        return examples.part(mine, epoch)
    stand_in = examples.part(rows[:1], epoch)
    return Microbatch(stand_in.inputs, tuple(0 for _ in stand_in.counts), 0)


class Bucketed:
    """Batches of similar lengths, of up to so many tokens."""

    def __init__(self, examples: MeasuredExamples, tokens: int, seed: int) -> None:
        self.examples, self.buckets = examples, Buckets(examples.lengths, tokens, seed)

    def __len__(self) -> int:
        return len(self.buckets)

    @property
    def padding(self) -> float:
        """The share of padding among all tokens."""
        return self.buckets.padding

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of the batch of a step."""
        return _shared_part(self.examples, self.buckets.batch(step), step // len(self), index, count)


class FixedSize:
    """Batches of one size, in an order of its own for every epoch."""

    def __init__(self, examples: Examples, size: int, seed: int) -> None:
        require(len(examples) > 0, "batches need at least one item: got none")
        self.examples, self.seed = examples, seed
        self.count = -(-len(examples) // size)
        self.last: tuple[int, Any] = (-1, None)

    def __len__(self) -> int:
        return self.count

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of the batch of a step."""
        epoch, place = divmod(step, len(self))
        if self.last[0] != epoch:
            self.last = (epoch, np.argsort(drawn(len(self.examples), self.seed, epoch), kind="stable"))
        return _shared_part(self.examples, self.last[1][place :: len(self)].tolist(), epoch, index, count)


@dataclass(frozen=True)
class Whole:
    """One batch with everything in it: the nodes of one graph see each other. It is not divided: one process has it all."""

    examples: Examples

    def __len__(self) -> int:
        return 1

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Everything for share 0; the others count nothing."""
        whole = self.examples.part(range(len(self.examples)), step)
        return whole if index == 0 else Microbatch(whole.inputs, tuple(0 for _ in whole.counts), 0)


def in_buckets(examples: MeasuredExamples, tokens: int) -> list[Microbatch]:
    """Every example once, sorted by length: for validation."""
    return [examples.part(rows, 0) for rows in in_order(examples.lengths, tokens)]


def in_sequence(examples: Examples, size: int) -> list[Microbatch]:
    """Every example once, in order: for validation."""
    count = len(examples)
    return [examples.part(range(first, min(first + size, count)), 0) for first in range(0, count, size)]
