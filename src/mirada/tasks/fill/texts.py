"""BERT's two tasks: restore words that were hidden, and predict whether a second sentence follows a first.

Every choice is a function of (seed, epoch, item), never of the batch that an item is in: a batch that is split among
processes, or padded further, gives the same numbers.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mirada.data.batching import IGNORED, drawn
from mirada.data.files.folders import files_note, texts_at
from mirada.data.files.opening import Line, read_lines
from mirada.data.record import Problem, Read, Record, TableRow
from mirada.data.text.packing import pack_sentences
from mirada.data.text.tokenize import MASK, SPECIAL
from mirada.errors import require
from mirada.shapes import check_axes, check_integers, show

# From a plain text to pairs of passages that follow each other.


END = re.compile(r"(?<=[.!?…])[\"'»”)]*\s+")
WORDS = 48  # of a pair at most: tokens are not known yet, and words have few of them


def read_passages(paths: str, encoding: str = "") -> Read:
    """Pairs (first, second) of consecutive passages of text files or folders of them; a blank line ends a document."""
    records: list[TableRow] = []
    problems: list[Problem] = []
    files = texts_at(paths)
    for path in files:
        paragraph: list[Line] = []
        for line in read_lines(path, encoding):
            if isinstance(line, Problem):
                problems.append(line)
            elif line.text.strip():
                paragraph.append(line)
            else:
                records += _packed(paragraph)
                paragraph = []
        records += _packed(paragraph)
    if not records and not problems:
        raise ValueError(f"{paths} has no two sentences that follow each other: there is nothing to learn from")
    return Read(tuple(records), tuple(problems), files_note(paths, files))


def _sentences(text: str) -> list[str]:
    """The sentences of a text.

    >>> _sentences("Ana lee. ¿Y Luis? Duerme.")
    ['Ana lee.', '¿Y Luis?', 'Duerme.']
    """
    return [part.strip() for part in END.split(text) if part.strip()]


def _packed(paragraph: list[Line]) -> Iterator[TableRow]:
    """As many sentences as fit, in two halves. A sentence may go on over several lines."""
    found = _sentences(" ".join(line.text.strip() for line in paragraph))
    for first, last in pack_sentences([range(len(sentence.split())) for sentence in found], WORDS):
        if last - first > 1:
            middle = (first + last) // 2
            yield Record(paragraph[0].where, (" ".join(found[first:middle]), " ".join(found[middle:last])))


MASKING, PAIRING = 1, 2  # what a draw is for: the last part of its key
Tokens = Int[Tensor, "batch length"]


def mask_tokens(
    tokens: Tokens,
    candidates: Bool[Tensor, "batch length"],
    items: Sequence[int],
    vocab: int,
    seed: int,
    epoch: int,
    rate: float = 0.15,
) -> tuple[Tokens, Tokens]:
    """Choose `rate` of each row's candidates, hide them, and want them back.

    80 % of the chosen become MASK, 10 % a random token that is not special, 10 % stay. `wanted` holds what stood there,
    and -100 elsewhere. A row of n candidates gets round(rate n) chosen, at least one if it has any. `items` numbers the
    rows: the same item of an epoch is always hidden in the same way.

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
    require(vocab > len(SPECIAL), f"vocab must hold more than the {len(SPECIAL)} special tokens: got {vocab}")
    require(0 < rate <= 1, f"rate must lie in (0, 1]: got {rate}")
    tokens = tokens.long()
    order, lot, word = _noise(items, tokens.shape[1], seed, epoch).to(tokens.device).unbind(dim=2)
    rank = order.masked_fill(~candidates, torch.iinfo(torch.int64).max).argsort(dim=1, stable=True).argsort(dim=1)
    available = candidates.sum(dim=1, keepdim=True)
    count = (rate * available + 0.5).long().clamp(min=1)
    chosen = (rank < count) & candidates
    lot = lot % 10
    others = len(SPECIAL) + word % (vocab - len(SPECIAL))
    corrupted = torch.where(chosen & (lot < 8), MASK, torch.where(chosen & (lot == 8), others, tokens))
    return corrupted, torch.where(chosen, tokens, IGNORED)


def second_of(item: int, count: int, seed: int, epoch: int) -> tuple[int, bool]:
    """Which item's second sentence stands after an item's first, and whether it is its own.

    Half the time it is; otherwise it is that of another of the `count` items, each as likely.

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


def _noise(items: Sequence[int], length: int, seed: int, epoch: int) -> Int[Tensor, "batch length 3"]:
    """Three random numbers of 63 bits for every place; a longer row has the same ones at its first places."""
    rows = [drawn(3 * length, seed, epoch, item, MASKING) for item in items]
    noise = np.array(rows, dtype=np.uint64).reshape(len(items), length, 3)
    return torch.from_numpy((noise >> np.uint64(1)).astype(np.int64))


# Hidden words guessed from the two words beside them: what a model that reads whole texts has to be better than.


MOST_TOKENS = 2_000_000  # that are learned from, in some seconds


class NeighborWords:
    """The token that stood most often between two others; else after the left one, else before the right one, else at all.

    >>> words = NeighborWords([[1, 5, 2], [1, 5, 3], [1, 6, 2], [1, 5, 2]])
    >>> words.guess(1, 2), words.guess(1, 9), words.guess(9, 9), words.guess(9, 3)
    (5, 5, 1, 5)
    """

    def __init__(self, texts: Iterable[Sequence[int]]) -> None:
        counts: dict[Hashable, Counter[int]] = {}
        left = MOST_TOKENS
        for text in texts:
            left -= len(text)
            if left < 0:
                break
            for place, token in enumerate(text):
                before, after = text[place - 1] if place else None, text[place + 1] if place + 1 < len(text) else None
                for key in keys(before, after):
                    counts.setdefault(key, Counter())[token] += 1
        self.best = {key: found.most_common(1)[0][0] for key, found in counts.items()}

    def guess(self, before: int, after: int) -> int:
        """The token for the place between two."""
        return next(self.best[key] for key in keys(before, after) if key in self.best)


def keys(before: int | None, after: int | None) -> tuple[Hashable, ...]:
    """What is known about a place, the most telling first."""
    return (before, after), ("after", before), ("before", after), ()
