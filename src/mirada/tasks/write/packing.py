"""Documents next to each other in one row: each has positions of its own and sees nothing of the others. Nothing is padded."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mirada.attention.neighborhoods import Documents
from mirada.data.batching import IGNORED, Microbatch, drawn
from mirada.data.options import TextOptions
from mirada.data.text.tokenize import Vocabulary
from mirada.errors import require

WINDOWS, DOCUMENTS = PACKINGS = ("windows", "documents")
Pieces = NDArray[np.int64]  # rows of (first token, token after the last one), of what a model reads


@dataclass(frozen=True, kw_only=True)
class WriteOptions(TextOptions):
    """Characters as tokens by default: small texts have few different words.

    `packing` is what a model reads at once: windows of all texts one after the other, or documents, each by itself.
    """

    tokenizer: str = "char"
    packing: str = WINDOWS

    def check(self) -> None:
        super().check()
        self.one_of("packing", *PACKINGS)


@dataclass(frozen=True)
class WriteVocabulary(Vocabulary):
    """The tokenizer, and whether texts are read as windows or as documents."""

    packing: str = WINDOWS

    def packed(self, packing: str) -> Self:
        """The same tokens for texts that are read in another way."""
        return replace(self, packing=packing)

    def facts(self) -> dict[str, Any]:
        return super().facts() | ({} if self.packing == WINDOWS else {"packing": self.packing})

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        packing = facts.get("packing", WINDOWS)
        require(packing in PACKINGS, f"packing in config.json must be one of {', '.join(PACKINGS)}: got {packing!r}")
        return super().restore(facts, paths).packed(packing)


class PackedDocuments:
    """Batches of one row: documents next to each other, in an order that is a function of (seed, epoch).

    A document that is longer than `length` is cut into pieces, in every epoch at other places, and each piece is read as a
    document. Every token but the first of a document is predicted once in an epoch. Batches have about `size` tokens.

    Args:
        tokens: all documents, one after the other.
        lengths: how many tokens each document has.
        length: the most tokens that the model reads at once.
        size: about how many tokens a batch has; at least those of one piece.
        seed: decides the order and the cuts.

    >>> batches = PackedDocuments(torch.tensor([5, 6, 7, 5, 8]), lengths=[3, 2], length=4, size=9, seed=1)
    >>> part = batches.part(0, 0, 1)
    >>> part.inputs["tokens"].tolist(), part.inputs["wanted"].tolist(), part.inputs["positions"].tolist()
    ([[5, 6, 5]], [[6, 7, 8]], [[0, 1, 0]])
    """

    def __init__(self, tokens: Int[Tensor, " n"], lengths: Any, length: int, size: int, seed: int) -> None:
        require(length >= 1, f"length must be at least 1: got {length}")
        self._tokens, self._length, self._seed = tokens, length, seed
        self._starts, self._counts = _readable(lengths)
        message = "no text has two tokens, so there is nothing to predict. Give more data."
        require(len(self._counts) > 0, message)
        self._total = int(self._counts.sum())
        # batches that are at least as long as a piece: each of them has one
        self._batches = max(1, self._total // max(size, length))
        self._last: tuple[int, Pieces, Pieces] | None = None  # an epoch is cut once: its steps come together
        self.pieces(0)  # a bad seed is an error here, not at the first batch

    def __len__(self) -> int:
        return self._batches

    def pieces(self, step: int) -> Pieces:
        """The pieces of a batch; steps are counted over all epochs."""
        require(step >= 0, f"step must be at least 0: got {step}")
        epoch, place = divmod(step, len(self))
        if self._last is None or self._last[0] != epoch:
            documents = len(self._counts)
            offsets = 1 + (drawn(documents, self._seed, epoch) % np.uint64(self._length)).astype(np.int64)
            pieces = _cut(self._starts, self._counts, self._length, offsets)
            noise = drawn(documents + len(pieces), self._seed, epoch)[documents:]
            pieces = pieces[np.argsort(noise, kind="stable")]
            sizes = pieces[:, 1] - pieces[:, 0]
            batch = (np.cumsum(sizes) - sizes) * len(self) // self._total
            self._last = epoch, pieces, np.searchsorted(batch, np.arange(len(self) + 1))
        _, pieces, cuts = self._last
        return pieces[cuts[place] : cuts[place + 1]]

    def part(self, step: int, index: int, count: int) -> Microbatch:
        """Share `index` of `count` of a batch; if there are more shares than pieces, one piece with weight 0."""
        pieces = self.pieces(step)
        if index < len(pieces):
            return packed(self._tokens, pieces[index::count])
        return replace(packed(self._tokens, pieces[:1]), counts=(0,), tokens=0)


def packed(tokens: Int[Tensor, " n"], pieces: Pieces, uncounted: tuple[int, ...] = ()) -> Microbatch:
    """Pieces as one row: their tokens, the tokens after them, positions that begin again, and which places see each other."""
    sizes = pieces[:, 1] - pieces[:, 0]
    positions = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    index = torch.from_numpy(np.repeat(pieces[:, 0], sizes) + positions)
    wanted = tokens[index + 1].long()
    if uncounted:
        wanted = wanted.masked_fill(torch.isin(wanted, torch.tensor(uncounted)), IGNORED)
    inputs = {
        "tokens": tokens[index].long().unsqueeze(0), "wanted": wanted.unsqueeze(0),
        "where": Documents.of(lengths=sizes.tolist()), "positions": torch.from_numpy(positions).unsqueeze(0),
    }  # fmt: skip
    count = int((wanted != IGNORED).sum())
    return Microbatch(inputs, (count,), count)


def packed_in_order(
    tokens: Int[Tensor, " n"], lengths: Any, length: int, size: int, uncounted: tuple[int, ...] = ()
) -> list[Microbatch]:
    """Rows in which every token but the first of each document is predicted once, but for those that do not count."""
    starts, counts = _readable(lengths)
    require(len(counts) > 0, "a text must have at least 2 tokens to predict one: none has")
    pieces = _cut(starts, counts, length, np.full_like(counts, length))
    ends = np.cumsum(pieces[:, 1] - pieces[:, 0])
    cuts = np.flatnonzero(np.diff((ends - 1) // max(size, length))) + 1
    return [packed(tokens, part, uncounted) for part in np.split(pieces, cuts)]


def _readable(lengths: Any) -> tuple[Pieces, Pieces]:
    """Where the documents with something to predict begin, and how many tokens are predicted in each."""
    sizes = np.asarray(lengths, dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    return starts[sizes > 1], sizes[sizes > 1] - 1


def _cut(starts: Pieces, counts: Pieces, length: int, offsets: Pieces) -> Pieces:
    """Documents in pieces of at most `length`; the first piece of one that is longer has as many tokens as its offset."""
    first = np.where(counts > length, offsets, counts)
    numbers = 1 + -(-(counts - first) // length)
    document = np.repeat(np.arange(len(counts)), numbers)
    place = np.arange(len(document)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
    begin = np.where(place == 0, 0, first[document] + (place - 1) * length)
    end = np.where(place == 0, first[document], np.minimum(begin + length, counts[document]))
    return np.stack([begin, end], axis=1) + starts[document, None]
