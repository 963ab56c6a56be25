"""Long texts cut to size: windows for a language model, runs of sentences for BERT."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from mirada.data.batching import IGNORED, drawn
from mirada.errors import require
from mirada.shapes import check_axes, check_integers

Batch = tuple[Int[Tensor, "rows length"], Int[Tensor, "rows length"]]


class Windows:
    """Windows of a long text, in an order that is a function of (seed, epoch).

    inputs = tokens[p : p + length], wanted = tokens[p + 1 : p + 1 + length]

    Every epoch cuts the text at another place into the same number of windows that do not overlap, and visits each of
    them once. What is left over at both ends is shorter than two windows.

    >>> windows = Windows(torch.arange(10, 24), length=3, rows=2, seed=1)
    >>> len(windows)  # batches in an epoch
    2
    >>> inputs, wanted = windows.batch(0)
    >>> inputs.shape, bool((wanted == inputs + 1).all())
    (torch.Size([2, 3]), True)
    """

    def __init__(self, tokens: Int[Tensor, " n"], length: int, rows: int, seed: int) -> None:
        _check(tokens, length, rows)
        require(
            len(tokens) > length,
            f"a text must be longer than a window: got {len(tokens)} tokens, length={length}. "
            f"Take a longer text or length={max(len(tokens) - 1, 1)}.",
        )
        self._tokens, self._length, self._rows, self._seed = tokens, length, rows, seed
        # as many as fit wherever the text is cut; a short text has one
        self._windows = max(1, (len(tokens) - length) // length)
        self._last = (0, self._starts(0))  # an epoch's order is made once: the steps of an epoch come together

    def __len__(self) -> int:
        return -(-self._windows // self._rows)

    def batch(self, step: int) -> Batch:
        """The inputs and the wanted tokens of a batch; steps count on over epochs.

        Windows are dealt out evenly: batches differ by one row at most, and none has more than `rows`.
        """
        require(step >= 0, f"step must be at least 0: got {step}")
        epoch, place = divmod(step, len(self))
        if epoch != self._last[0]:
            self._last = (epoch, self._starts(epoch))
        index = self._last[1][place :: len(self)].unsqueeze(1) + torch.arange(self._length)
        return self._tokens[index].long(), self._tokens[index + 1].long()

    def _starts(self, epoch: int) -> Int[Tensor, " windows"]:
        """Where the windows of an epoch begin, in the order of the visits."""
        noise = drawn(1 + self._windows, self._seed, epoch)
        slack = len(self._tokens) - 1 - self._windows * self._length
        first = int(noise[0]) % (slack + 1)
        return torch.from_numpy(np.argsort(noise[1:], kind="stable")) * self._length + first

    def in_order(self) -> list[Batch]:
        """The whole text, for evaluation: see `in_order`."""
        return in_order(self._tokens, self._length, self._rows)


def in_order(tokens: Int[Tensor, " n"], length: int, rows: int) -> list[Batch]:
    """Windows from the first token on in which every token but the first is wanted exactly once.

    The last window is filled up: with 0 in the inputs, with -100 in what is wanted.

    >>> in_order(torch.tensor([5, 6, 7, 8]), length=2, rows=4)
    [(tensor([[5, 6], [7, 0]]), tensor([[ 6, 7], [ 8, -100]]))]
    """
    _check(tokens, length, rows)
    require(len(tokens) > 1, f"a text must have at least 2 tokens to predict one: got {len(tokens)}")
    count = -(-(len(tokens) - 1) // length)
    inputs = torch.zeros(count * length, dtype=torch.int64)
    wanted = torch.full_like(inputs, IGNORED)
    inputs[: len(tokens) - 1] = tokens[:-1]
    wanted[: len(tokens) - 1] = tokens[1:]
    return list(zip(inputs.view(count, length).split(rows), wanted.view(count, length).split(rows), strict=True))


def pack_sentences(sentences: Sequence[Sequence[int]], most: int) -> list[tuple[int, int]]:
    """Ranges of consecutive sentences of one document that fill up to `most` tokens; each is sentences[first:end].

    Every sentence is in exactly one range; one that is longer than `most` has a range of its own.

    >>> pack_sentences([[1, 2], [3], [4, 5], [6, 7, 8, 9], [10]], most=5)
    [(0, 3), (3, 5)]

    Devlin et al. (2019), arXiv:1810.04805, A.2.
    """
    require(most >= 1, f"most must be at least 1: got {most}")
    starts, total = [0], 0
    for i, sentence in enumerate(sentences):
        total += len(sentence)
        if i > starts[-1] and total > most:
            starts.append(i)
            total = len(sentence)
    return list(zip(starts, [*starts[1:], len(sentences)], strict=True)) if sentences else []


def _check(tokens: Int[Tensor, " n"], length: int, rows: int) -> None:
    check_axes("tokens", tokens, "n")
    check_integers("tokens", tokens)
    require(length >= 1 and rows >= 1, f"length and rows must be at least 1: got length={length}, rows={rows}")
