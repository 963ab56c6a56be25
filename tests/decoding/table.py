"""A model whose numbers are known: the next token depends on the last one alone."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor


class Reading(NamedTuple):
    """The table that each row reads, and what it has read so far."""

    entry: Tensor
    texts: Tensor


@dataclass(eq=False)
class Table:
    """`probabilities[last, next]`, or such a table per entry, or per step and entry; it looks at the places as `looks[last]`.

    It notes how many rows each step had, how often it was reordered, and whether a step ran in inference mode.
    """

    probabilities: Tensor
    looks: Tensor | None = None
    rows: list[int] = field(default_factory=list)
    reorders: int = 0
    inference: bool = True

    def start(self, batch: int) -> Reading:
        return Reading(torch.arange(batch), torch.zeros(batch, 0, dtype=torch.long))

    def step(self, tokens: Tensor, state: Reading) -> tuple[Tensor, Reading]:
        assert tokens.shape == state.entry.shape
        self.rows.append(len(tokens))
        self.inference = self.inference and torch.is_inference_mode_enabled()
        table, time = self.probabilities, state.texts.shape[1]
        table = table[time] if table.ndim == 4 else table
        chosen = table[tokens] if table.ndim == 2 else table[state.entry, tokens]
        return chosen.log(), Reading(state.entry, torch.cat([state.texts, tokens.unsqueeze(1)], dim=1))

    def reorder(self, state: Reading, index: Tensor) -> Reading:
        self.reorders += 1
        return Reading(state.entry[index], state.texts[index])

    def alignment(self, state: Reading) -> Tensor:
        assert self.looks is not None
        return self.looks[state.texts[:, -1]]


def random_table(*shape: int, seed: int = 0) -> Tensor:
    """Rows of probabilities, none of them 0."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).mul(1.5).softmax(-1)
