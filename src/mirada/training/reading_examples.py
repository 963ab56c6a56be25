"""Questions and passages as a reader learns from them: one window at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from mirada.data.reading import AROUND, PassageWindow, Reading, collated
from mirada.training.objectives import Microbatch

TURNS = 3  # epochs, in one of which a long passage is read where its answer is not


@dataclass(frozen=True)
class Readings:
    """Questions as the model learns from them: one window of each at a time, a function of (epoch, question)."""

    items: Sequence[Reading]
    length: int
    marked: bool

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, ...]]:
        sizes = [len(item.question.ids) + len(item.passage.ids) + AROUND for item in self.items]
        return [(min(self.length, size),) for size in sizes]

    def take(self, rows: Sequence[int]) -> "Readings":
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        windows, starts, ends = zip(*(self.window(row, epoch) for row in rows), strict=True)
        inputs = collated(windows, self.marked)
        tokens = int(inputs["lengths"].sum())
        return Microbatch({**inputs, "starts": torch.tensor(starts), "ends": torch.tensor(ends)}, (len(rows),), tokens)

    def window(self, row: int, epoch: int) -> tuple[PassageWindow, int, int]:
        """The part of a passage that is read in an epoch, and the first and last places of the answer there.

        In most epochs it is one that has the answer, by turns if there are several; then one that has nothing of it.
        """
        item = self.items[row]
        firsts, room = item.first_tokens(self.length), item.room(self.length)
        if item.wanted is not None:
            start, end = item.wanted
            holding = [first for first in firsts if first <= start and end < first + room]
            apart = [first for first in firsts if end < first or first + room <= start]
            if not apart or epoch % TURNS < TURNS - 1:
                found = item.window(holding[epoch % len(holding)], self.length)
                return found, found.place(start), found.place(end)
            firsts = apart
        found = item.window(firsts[(epoch // TURNS + row) % len(firsts)], self.length)
        return found, found.none, found.none
