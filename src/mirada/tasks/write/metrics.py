"""Perplexity and bits per character, of a model and of an n-gram baseline."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int64

from mirada.data.record import Record
from mirada.training.metrics import perplexity

LONGEST = 5  # tokens of an n-gram
MOST_TOKENS = 5_000_000  # of the text in which n-grams are counted: a matter of seconds


def ngram_loss(train: Int64[np.ndarray, " n"], test: Int64[np.ndarray, " m"], vocab: int) -> float:
    """The mean cross-entropy of every token of `test` but the first, in nats, under n-grams counted in `train`.

    p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h)), where t(h) is the number of distinct tokens seen after h, and h' is
    h without its first token; the recursion ends with 1 / vocab.

    >>> text = np.tile(np.array([0, 1, 2]), 100)
    >>> ngram_loss(text, text, vocab=3) < 0.01 < float(np.log(3))
    True

    Witten and Bell (1991), doi:10.1109/18.87000.
    """
    train, test = train[:MOST_TOKENS].astype(np.int64), test.astype(np.int64)
    share = np.full(len(test) - 1, 1.0 / vocab)
    for size in range(1, _longest(vocab) + 1):
        if len(train) < size or len(test) < size:
            break
        queries = numbered(test, size, vocab)[1 if size == 1 else 0 :]
        share[len(share) - len(queries) :] = mixed(numbered(train, size, vocab), queries, vocab, share[-len(queries) :])
    return float(-np.log(share).mean())


def _longest(vocab: int) -> int:
    """The longest n-gram whose number fits into 63 bits.

    >>> _longest(100), _longest(8000), _longest(10**6)
    (5, 4, 3)
    """
    return min(LONGEST, int(62 * np.log(2) / np.log(max(vocab, 2))))


def numbered(tokens: Int64[np.ndarray, " n"], size: int, vocab: int) -> Int64[np.ndarray, " ngrams"]:
    """Every n-gram as one number.

    >>> numbered(np.array([1, 2, 3]), 2, vocab=10)
    array([12, 23])
    """
    numbers = np.zeros(len(tokens) - size + 1, np.int64)
    for place in range(size):
        numbers = numbers * vocab + tokens[place : len(tokens) - size + 1 + place]
    return numbers


def mixed(
    known: Int64[np.ndarray, " ngrams"], queries: Int64[np.ndarray, " m"], vocab: int, shorter: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """The probability of the last token of each n-gram, interpolated with that under shorter n-grams."""
    grams, counts = np.unique(known, return_counts=True)
    contexts, first, kinds = np.unique(grams // vocab, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    seen = _looked_up(grams, counts, queries)
    total, kind = (_looked_up(contexts, column, queries // vocab) for column in (totals, kinds))
    return np.where(total > 0, (seen + kind * shorter) / np.maximum(total + kind, 1), shorter)


def _looked_up(
    keys: Int64[np.ndarray, " n"], values: Int64[np.ndarray, " n"], queries: Int64[np.ndarray, " m"]
) -> Int64[np.ndarray, " m"]:
    """The values of the queries among sorted keys, 0 for a missing key."""
    places = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[places] == queries, values[places], 0)


def loss_metrics(loss: float, tokens: int, records: Sequence[Record[str]]) -> dict[str, float]:
    """The mean loss over this number of tokens, as perplexity and as bits per character."""
    bits = loss * tokens / sum(len(record.value) for record in records) / math.log(2)
    return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits}
