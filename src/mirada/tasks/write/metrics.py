"""How well texts are predicted: perplexity and bits per character, and those of n-grams, which a model has to beat."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int64

from mirada.data.record import Record
from mirada.training.metrics import perplexity

LONGEST = 5  # tokens of an n-gram
MOST_TOKENS = 5_000_000  # that counts are taken from, in some seconds


def ngram_loss(train: Int64[np.ndarray, " n"], test: Int64[np.ndarray, " m"], vocab: int) -> float:
    """The mean cross-entropy of every token of `test` but the first, in nats, under n-grams counted in `train`.

    p(w | h) = (c(h w) + t(h) p(w | h')) / (c(h) + t(h)), where t(h) counts the different tokens seen after h, and h' is h
    without its first token; at the end stands 1 / vocab.

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
        asked = numbered(test, size, vocab)[1 if size == 1 else 0 :]
        share[len(share) - len(asked) :] = mixed(numbered(train, size, vocab), asked, vocab, share[-len(asked) :])
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
    found = np.zeros(len(tokens) - size + 1, np.int64)
    for place in range(size):
        found = found * vocab + tokens[place : len(tokens) - size + 1 + place]
    return found


def mixed(
    known: Int64[np.ndarray, " ngrams"], asked: Int64[np.ndarray, " m"], vocab: int, shorter: Float[np.ndarray, " m"]
) -> Float[np.ndarray, " m"]:
    """The probability of each asked n-gram's last token, given that under shorter ones."""
    grams, counts = np.unique(known, return_counts=True)
    contexts, first, kinds = np.unique(grams // vocab, return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    seen = _looked_up(grams, counts, asked)
    total, kind = (_looked_up(contexts, column, asked // vocab) for column in (totals, kinds))
    return np.where(total > 0, (seen + kind * shorter) / np.maximum(total + kind, 1), shorter)


def _looked_up(
    keys: Int64[np.ndarray, " n"], values: Int64[np.ndarray, " n"], asked: Int64[np.ndarray, " m"]
) -> Int64[np.ndarray, " m"]:
    """The values of sorted keys, 0 where a key is not there."""
    places = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[places] == asked, values[places], 0)


def loss_metrics(loss: float, tokens: int, records: Sequence[Record[str]]) -> dict[str, float]:
    """A mean loss over so many tokens in the units that people compare."""
    bits = loss * tokens / sum(len(record.value) for record in records) / math.log(2)
    return {"loss": loss, "perplexity": perplexity(loss), "bits_per_character": bits}
