"""Batches of records for the training loop: shares of length buckets, of windows, and all in order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirada.data.batch import Buckets, in_order, parts
from mirada.training.objectives import Part

Make = Callable[[list[int], int], Part]  # rows and epoch to what the model is given


@dataclass(frozen=True)
class Shares:
    """Length buckets, each divided among processes and accumulation steps."""

    buckets: Buckets
    make: Make

    def __len__(self) -> int:
        return len(self.buckets)

    def part(self, step: int, index: int, count: int) -> Part:
        rows = self.buckets.batch(step)
        mine, epoch = parts(rows, count)[index], step // len(self)
        if mine:
            return self.make(mine, epoch)
        stand_in = self.make(rows[:1], epoch)  # more shares than rows: a row that counts nothing
        return Part(stand_in.inputs, tuple(0 for _ in stand_in.counts), 0)


def all_parts(lengths: Sequence[tuple[int, ...]], tokens: int, make: Make) -> list[Part]:
    """Every record once, sorted by length: for validation."""
    return [make(list(rows), 0) for rows in in_order(lengths, tokens)]
