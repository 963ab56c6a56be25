"""Words, pairs of words and pieces of words as numbers: texts as bags of n-grams, weighted by tf-idf.

An n-gram is known by a key of 64 bits, a hash of its letters that is the same on every machine, so a table of n-grams is two
columns of numbers and no text.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt64
from torch import Tensor

from mirada.errors import require

# where scripts have no spaces between words, a character counts as one; a sign is a word too
ALONE = r"\u0E00-\u0EFF\u1000-\u109F\u1780-\u17FF\u3040-\u30FF\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF"
WORD = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+|[^\w\s]")
SHORTEST, LONGEST = 3, 6  # letters of a piece; the marks of where a word begins and ends count as letters
KINDS = ("words", "letters")
MIXERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


@dataclass(frozen=True, eq=False)
class Bags:
    """Weighted n-grams of several texts, one text after the other: a sparse matrix of (texts, ngrams).

    >>> bags = Bags(torch.tensor([0, 2, 2]), torch.tensor([1.0, 0.5, 3.0]), torch.tensor([0, 2]), ngrams=3)
    >>> bags.scores(torch.tensor([[1.0], [2.0], [4.0]])).tolist()  # 1 + 0.5 x 4, then 3 x 4
    [[3.0], [12.0]]
    """

    columns: Int64[Tensor, " entries"]
    values: Float[Tensor, " entries"]
    starts: Int64[Tensor, " texts"]  # where each text begins
    ngrams: int

    def scores(self, weights: Float[Tensor, "ngrams classes"]) -> Float[Tensor, "texts classes"]:
        """The product with a table of weights; its gradient is one product more, with the transposed matrix."""
        return BagProduct.apply(weights, self)  # type: ignore[no-any-return]

    def product(self, weights: Float[Tensor, "ngrams classes"]) -> Float[Tensor, "texts classes"]:
        """The product of the bags with a matrix: for every bag, the weighted sum of its rows."""
        return F.embedding_bag(self.columns, weights, self.starts, mode="sum", per_sample_weights=self.values)

    @cached_property
    def transposed(self) -> "Bags":
        """The same numbers, one n-gram after the other."""
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.columns)]))
        texts = torch.arange(len(self.starts)).repeat_interleave(sizes)
        columns, order = self.columns.sort(stable=True)
        starts = torch.searchsorted(columns, torch.arange(self.ngrams))
        return Bags(texts[order], self.values[order], starts, len(self.starts))


class BagProduct(torch.autograd.Function):
    """A sparse matrix times weights. PyTorch's own gradient of it is ten times slower than a second product."""

    @staticmethod
    def forward(ctx, weights, bags):  # type: ignore[no-untyped-def]
        """The product of the bags with a table of weights."""
        ctx.bags = bags
        return bags.product(weights)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """The gradient of the weights."""
        return ctx.bags.transposed.product(gradient.contiguous()), None


class Occurrences(NamedTuple):
    """Every n-gram of some texts: its key, the text and the word where it begins. Pairs of words come last."""

    keys: UInt64[np.ndarray, " ngrams"]
    texts: Int64[np.ndarray, " ngrams"]
    places: Int64[np.ndarray, " ngrams"]  # counted through all texts
    pairs: int  # how many of them are pairs
    total: int  # of texts


def words_of(text: str) -> list[str]:
    """The words and signs of a text, in lower case.

    >>> words_of("It's 中文, ok")
    ['it', "'", 's', '中', '文', ',', 'ok']
    """
    return WORD.findall(text.lower())


def occurrences(texts: Sequence[str], kind: str = "letters") -> Occurrences:
    """All n-grams of texts: words and pairs of neighbors and, if the kind is "letters", the pieces of every word."""
    require(kind in KINDS, f"n-grams are of {' or '.join(KINDS)}: got {kind!r}")
    numbers: dict[str, int] = {}
    cut = [np.array([numbers.setdefault(word, len(numbers)) for word in words_of(text)], np.int64) for text in texts]
    words = np.concatenate([np.empty(0, np.int64), *cut])
    owner = np.repeat(np.arange(len(texts)), [len(some) for some in cut])
    own = np.array([key(word) for word in numbers], np.uint64)[words]
    here = np.arange(len(words))
    parts = [(own, here)]
    if kind == "letters":
        parts.append(_pieces_of(list(numbers), words))
    together = here[:-1][owner[1:] == owner[:-1]]
    parts.append((pair_keys(own[together], own[together + 1]), together))
    where = np.concatenate([place for _, place in parts])
    return Occurrences(np.concatenate([k for k, _ in parts]), owner[where], where, len(together), len(texts))


def _pieces_of(
    words: Sequence[str], places: Int64[np.ndarray, " places"]
) -> tuple[UInt64[np.ndarray, " pieces"], Int64[np.ndarray, " pieces"]]:
    """The keys of the pieces of the words that stand at these places, and the place of each."""
    each = [pieces(word) for word in words]
    sizes = np.array([len(some) for some in each], np.int64)
    known = {piece: number for number, piece in enumerate(dict.fromkeys(piece for some in each for piece in some))}
    keys = np.array([key(f"#{piece}") for piece in known], np.uint64)
    flat = np.array([known[piece] for some in each for piece in some], np.int64)
    counts = sizes[places]
    # the pieces of the word at a place are a run of the flat list: its first one, and how far into the run each is
    first = (np.cumsum(sizes) - sizes)[places]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return keys[flat[np.repeat(first, counts) + within]], np.repeat(np.arange(len(places)), counts)


def pieces(word: str) -> list[str]:
    """Runs of letters of a word, with the marks of its beginning and end; the whole word is none of them.

    >>> pieces("red")
    ['<re', 'red', 'ed>', '<red', 'red>']
    """
    marked = f"<{word}>"
    sizes = range(SHORTEST, min(LONGEST, len(marked) - 1) + 1)
    return [marked[i : i + size] for size in sizes for i in range(len(marked) - size + 1)]


def key(word: str) -> int:
    """64 bits that stand for a word."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def pair_keys(first: UInt64[np.ndarray, " n"], second: UInt64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    """Keys of pairs of words; another order is another pair."""
    mixed = (first * MIXERS[0]) ^ (second + MIXERS[1])
    return (mixed ^ (mixed >> np.uint64(29))) * MIXERS[1]


@dataclass(frozen=True, eq=False)
class NgramTable:
    """The n-grams of some texts, by their keys in ascending order, with the logarithms of how rare they are.

    rarity = log((1 + texts) / (1 + texts that have it)) + 1
    """

    keys: UInt64[np.ndarray, " ngrams"]
    rarity: Float[np.ndarray, " ngrams"]

    @classmethod
    def learn(cls, grams: Occurrences, most: int) -> "NgramTable":
        """The n-grams that occur; where they are more than `most`, those of the most texts."""
        keys, columns = np.unique(grams.keys, return_inverse=True)
        in_texts = np.unique(grams.texts * max(1, len(keys)) + columns)
        counts = np.bincount(in_texts % max(1, len(keys)), minlength=len(keys))
        often = np.sort(np.argsort(-counts, kind="stable")[:most])
        rarity = np.log((1 + grams.total) / (1 + counts[often])) + 1
        return cls(keys[often], rarity.astype(np.float32))

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, keys: UInt64[np.ndarray, " ngrams"]) -> Int64[np.ndarray, " ngrams"]:
        """The rows of n-grams; -1 for those that are not in the table."""
        if not len(self):
            return np.full(len(keys), -1)
        rows = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return np.where(self.keys[rows] == keys, rows, -1)

    def bags(self, grams: Occurrences) -> Bags:
        """The n-grams of every text once, weighted by (1 + log of their count) x rarity, so that a text has length 1."""
        rows, size = self.rows(grams.keys), max(1, len(self))
        known = rows >= 0
        each, counts = np.unique(grams.texts[known] * size + rows[known], return_counts=True)
        texts, columns = each // size, each % size
        values = (1 + np.log(counts)) * self.rarity[columns]
        norms = np.sqrt(np.bincount(texts, values * values, grams.total))
        starts = np.searchsorted(texts, np.arange(grams.total))
        scaled = (values / norms[texts]).astype(np.float32)
        return Bags(torch.from_numpy(columns), torch.from_numpy(scaled), torch.from_numpy(starts), len(self))
