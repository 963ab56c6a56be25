"""Windows of long texts, on which a language model is trained and measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from mirada.data.batching import IGNORED, Microbatch, drawn
from mirada.errors import require
from mirada.shapes import check_axes, check_integers

Batch = tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]


@dataclass(frozen=True)
class TextTokens:
    """All texts concatenated, each after a start token; `reach` is the context length of the model. The `uncounted` tokens
    are no text: a measurement does not ask for them. Where each text is read by itself, `lengths` says where they end.
    """

    tokens: Int[Tensor, " n"]
    reach: int
    uncounted: tuple[int, ...] = ()
    lengths: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The windows that start at these tokens."""
        index = torch.tensor(list(rows)).unsqueeze(1) + torch.arange(self.reach)
        return window_part(self.tokens[index], self.tokens[index + 1])

    def counted(self, wanted: Int[Tensor, "rows length"]) -> Int[Tensor, "rows length"]:
        """Wanted tokens without those that do not count."""
        if not self.uncounted:
            return wanted
        return wanted.masked_fill(torch.isin(wanted, torch.tensor(self.uncounted)), IGNORED)

    def take(self, rows: Sequence[int]) -> "TextTokens":
        """All of it: bad texts are skipped when files are read, so there are no rows to drop."""
        return self


def window_part(tokens: Tensor, wanted: Tensor) -> Microbatch:
    """Windows as inputs of the model, with the number of tokens to predict."""
    count = int((wanted != IGNORED).sum())
    return Microbatch({"tokens": tokens, "wanted": wanted}, (count,), count)


class Windows:
    """Windows of a long text, in an order that is a function of (seed, epoch).

    inputs = tokens[p : p + length], wanted = tokens[p + 1 : p + 1 + length]

    Every epoch cuts the text at another offset into the same number of windows that do not overlap, and visits each of
    them once. The unused tokens at both ends are fewer than those of two windows.

    >>> windows = Windows(torch.arange(10, 24), length=3, rows=2, seed=1)
    >>> len(windows)  # batches in an epoch
    2
    >>> inputs, wanted = windows.batch(0)
    >>> inputs.shape, bool((wanted == inputs + 1).all())
    (torch.Size([2, 3]), True)
    """

    def __init__(self, tokens: Int[Tensor, " n"], length: int, rows: int, seed: int) -> None:
        _check(tokens, length, rows)
        got = f"got {len(tokens)} tokens, length={length}. Take a longer text or length={max(len(tokens) - 1, 1)}."
        require(len(tokens) > length, f"a text must be longer than a window: {got}")
        self._tokens, self._length, self._rows, self._seed = tokens, length, rows, seed
        # as many as fit at any offset; a short text has one
        self._windows = max(1, (len(tokens) - length) // length)
        _starts(len(tokens), length, self._windows, seed, 0)  # a bad seed is an error here, not at the first batch

    def __len__(self) -> int:
        return -(-self._windows // self._rows)

    def batch(self, step: int) -> Batch:
        """The inputs and the wanted tokens of a batch; steps are counted over all epochs.

        Batches differ by at most one row, and none has more than `rows`.
        """
        require(step >= 0, f"step must be at least 0: got {step}")
        epoch, place = divmod(step, len(self))
        starts = _starts(len(self._tokens), self._length, self._windows, self._seed, epoch)
        index = starts[place :: len(self)].unsqueeze(1) + torch.arange(self._length)
        return self._tokens[index].long(), self._tokens[index + 1].long()

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of a batch; if there are more shares than rows, one row with weight 0."""
        tokens, wanted = self.batch(step)
        if index < len(tokens):
            return window_part(tokens[index::count], wanted[index::count])
        return Microbatch({"tokens": tokens[:1], "wanted": wanted[:1]}, (0,), 0)


@lru_cache(maxsize=4)  # the steps of an epoch follow each other
def _starts(tokens: int, length: int, windows: int, seed: int, epoch: int) -> Int[Tensor, " windows"]:
    """The first tokens of the windows of an epoch, in the order in which they are visited."""
    noise = drawn(1 + windows, seed, epoch)
    slack = tokens - 1 - windows * length
    first = int(noise[0]) % (slack + 1)
    return torch.from_numpy(np.argsort(noise[1:], kind="stable")) * length + first


def in_order(tokens: Int[Tensor, " n"], length: int, rows: int) -> list[Batch]:
    """Batches of consecutive windows in which every token but the first is predicted exactly once.

    The last window is padded: with 0 in the inputs, with -100 in the wanted tokens.

    >>> in_order(torch.tensor([5, 6, 7, 8]), length=2, rows=4)
    [(tensor([[5, 6], [7, 0]]), tensor([[ 6, 7], [ 8, -100]]))]
    """
    _check(tokens, length, rows)
    require(len(tokens) > 1, f"a text must have at least 2 tokens to predict one: got {len(tokens)}")
    filled = (0, -(len(tokens) - 1) % length)
    inputs, wanted = F.pad(tokens[:-1].long(), filled), F.pad(tokens[1:].long(), filled, value=IGNORED)
    return list(zip(inputs.view(-1, length).split(rows), wanted.view(-1, length).split(rows), strict=True))


def _check(tokens: Int[Tensor, " n"], length: int, rows: int) -> None:
    check_axes("tokens", tokens, "n")
    check_integers("tokens", tokens)
    require(length >= 1 and rows >= 1, f"length and rows must be at least 1: got length={length}, rows={rows}")
