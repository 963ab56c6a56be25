"""BERT's two objectives: restore masked words, and predict whether a second sentence follows the first.

Every random choice is a function of (seed, epoch, item), never of the batch that contains the item: splitting a batch among
processes or padding it further changes no number.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.data.batching import IGNORED, Microbatch, drawn, pad
from mirada.data.text.tokenize import MASK, SPECIAL, Tokenizer
from mirada.errors import require
from mirada.shapes import check_axes, check_integers, show
from mirada.training.objectives import Objective

ALONE = 4  # one text in 4 is a single sentence, so that a gap can be filled without a second one
Sentences = tuple[list[int], list[int]]  # the tokens of both
MASKING, PAIRING = 1, 2  # the purpose of a draw: the last part of its key
Tokens = Int[Tensor, "batch length"]


class FillObjective(Objective):
    """Cross-entropy of the masked words, plus that of the order of sentences."""

    terms = ("words", "order")

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The mean loss of the masked words, and that of the orders."""
        model: Any = self.model
        wanted, follows = inputs["wanted"], inputs["follows"]
        h = model.encode(inputs["tokens"], inputs["lengths"], inputs["segments"])
        hidden = wanted != IGNORED
        words = model.output.loss(model.guess(h[hidden]), wanted[hidden], self.smoothing)
        paired = (follows != IGNORED).nonzero()[:, 0]
        scores = model.order(model.summary(h))
        order = F.cross_entropy(scores[paired], follows[paired]) if len(paired) else 0.0 * scores.sum()
        return torch.stack([words, order])


class WordObjective(Objective):
    """Cross-entropy of the masked words, for a model that tells nothing else."""

    terms = ("words",)

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The mean loss of the masked words."""
        model: Any = self.model
        wanted = inputs["wanted"]
        h, hidden = model.encode(inputs["tokens"], inputs["lengths"], inputs.get("segments")), wanted != IGNORED
        return model.output.loss(model.before_scores(h[hidden]), wanted[hidden], self.smoothing).unsqueeze(0)


@dataclass(frozen=True)
class SentencePairs:
    """Sentence pairs, masked and exchanged as a function of (seed, epoch, index of the pair), however a batch is divided.

    Without `ordered` none is exchanged; without `told_apart` no segments are given.
    """

    items: Sequence[Sentences]
    tokenizer: Tokenizer
    marks: frozenset[int]  # tokens that end a sentence
    seed: int = 0
    ordered: bool = True
    told_apart: bool = True

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, ...]]:
        """The number of tokens of each pair, with the special tokens around them."""
        around = len(self.tokenizer.framed([], [])[0])
        return [(len(first) + len(second) + around,) for first, second in self.items]

    def take(self, rows: Sequence[int]) -> "SentencePairs":
        """A subset of the pairs."""
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The inputs of some pairs in an epoch: with masked words and exchanged second sentences."""
        tokens, segments, follows = zip(*(self._arranged(row, epoch) for row in rows), strict=True)
        known = self.tokenizer
        padded, lengths = pad(tokens, known.filler)
        candidates = ~torch.isin(padded, torch.tensor(sorted({known.filler, *known.special})))
        corrupted, wanted = mask_tokens(
            padded, candidates, list(rows), len(known), self.seed, epoch, mask=known.mask, special=known.special
        )
        inputs = {"tokens": corrupted, "wanted": wanted, "lengths": lengths}
        inputs |= {"segments": pad(segments, 0)[0]} if self.told_apart else {}
        counts: tuple[int, ...] = (int((wanted != IGNORED).sum()),)
        if self.ordered:
            inputs["follows"] = torch.tensor(follows)
            counts = (*counts, sum(answer != IGNORED for answer in follows))
        return Microbatch(inputs, counts, int(lengths.sum()))

    def _arranged(self, row: int, epoch: int) -> tuple[list[int], list[int], int]:
        """One text: mostly a sentence with its own second or that of another item; sometimes a single sentence, with or
        without its final punctuation, as people type it.
        """
        first, second = self.items[row]
        turn, alone = divmod(row + epoch, ALONE)
        if alone == 0 or not second:
            sentence = first if turn % 2 or not second else second
            closed = turn % 4 < 2 or sentence[-1] not in self.marks
            return *self.tokenizer.framed(sentence if closed else sentence[:-1]), IGNORED
        if not self.ordered:
            return *self.tokenizer.framed(first, second), IGNORED
        other, follows = second_of(row, len(self.items), self.seed, epoch)
        return *self.tokenizer.framed(first, self.items[other][1] or second), int(follows)


def mask_tokens(
    tokens: Tokens,
    candidates: Bool[Tensor, "batch length"],
    items: Sequence[int],
    vocab: int,
    seed: int,
    epoch: int,
    rate: float = 0.15,
    mask: int = MASK,
    special: Collection[int] = range(len(SPECIAL)),
) -> tuple[Tokens, Tokens]:
    """Choose `rate` of the candidates of each row as prediction targets, and corrupt them.

    80 % of the chosen become `mask`, 10 % a random token that is not special, 10 % stay. `wanted` holds the original tokens
    there, and -100 elsewhere. Of n candidates in a row, round(rate n) are chosen, at least one if there are any. `items`
    are the indices of the rows: the same item is always masked in the same way within an epoch.

    >>> tokens = torch.arange(10, 20).unsqueeze(0)
    >>> hidden, wanted = mask_tokens(tokens, tokens > 10, items=[3], vocab=30, seed=0, epoch=0, rate=0.2)
    >>> hidden
    tensor([[10, 11, 12, 13,  4, 15, 16, 17, 18,  4]])
    >>> wanted
    tensor([[-100, -100, -100, -100,   14, -100, -100, -100, -100,   19]])

    Devlin et al. (2019), arXiv:1810.04805, 3.1.
    """
    check_axes("tokens", tokens, "batch length")
    check_integers("tokens", tokens)
    require(candidates.shape == tokens.shape, f"a candidate or not for every token: got {show(candidates)}")
    require(candidates.dtype == torch.bool, f"candidates must be yes or no: got {candidates.dtype}")
    require(len(items) == len(tokens), f"items must number the rows: got {len(items)} for batch={len(tokens)}")
    require(vocab > len(special), f"vocab must hold more than the {len(special)} special tokens: got {vocab}")
    require(0 < rate <= 1, f"rate must lie in (0, 1]: got {rate}")
    tokens = tokens.long()
    # three random numbers of 63 bits per position; padding a row further does not change the first ones
    rows = [drawn(3 * tokens.shape[1], seed, epoch, item, MASKING) for item in items]
    noise = np.array(rows, dtype=np.uint64).reshape(*tokens.shape, 3) >> np.uint64(1)
    order, action, word = torch.from_numpy(noise.astype(np.int64)).to(tokens.device).unbind(dim=2)
    rank = order.masked_fill(~candidates, torch.iinfo(torch.int64).max).argsort(dim=1, stable=True).argsort(dim=1)
    count = (rate * candidates.sum(dim=1, keepdim=True) + 0.5).long().clamp(min=1)
    chosen = (rank < count) & candidates
    plain = torch.ones(vocab, dtype=torch.bool).index_fill(0, torch.tensor(sorted(special)), False).nonzero()[:, 0]
    action, others = action % 10, plain.to(tokens.device)[word % len(plain)]
    corrupted = torch.where(chosen & (action < 8), mask, torch.where(chosen & (action == 8), others, tokens))
    return corrupted, torch.where(chosen, tokens, IGNORED)


def second_of(item: int, count: int, seed: int, epoch: int) -> tuple[int, bool]:
    """Which item's second sentence follows an item's first, and whether it is its own.

    Half the time it is its own; otherwise that of another of the `count` items, all equally likely.

    >>> [second_of(item, count=10, seed=0, epoch=0) for item in range(4)]
    [(0, True), (1, True), (5, False), (1, False)]

    Devlin et al. (2019), arXiv:1810.04805, 3.1, task 2.
    """
    require(count > 1, f"a sentence that does not follow needs a second item: got count={count}")
    require(0 <= item < count, f"item must lie in 0..{count - 1}: got {item}")
    side, other = (int(number) for number in drawn(2, seed, epoch, item, PAIRING))
    if side % 2 == 0:
        return item, True
    other %= count - 1
    return other + (other >= item), False
