"""Quality of translations: BLEU and chrF, a translation memory as a baseline, and the words of the context test."""

from collections.abc import Sequence

import torch

from mirada.data.text.ngrams import NgramTable, occurrences
from mirada.training.baselines import MOST_ROWS
from mirada.training.metrics import bleu, chrf

MOST_NGRAMS = 2**17  # of the table in which texts are compared


def translation_metrics(texts: Sequence[str], wanted: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF of translations."""
    return {"bleu": bleu(texts, wanted), "chrf": chrf(texts, wanted)}


def nearest_texts(known: Sequence[str], queries: Sequence[str], at_once: int = 64) -> list[int]:
    """For every query text, the index of the most similar known text: the largest cosine similarity of their tf-idf.

    >>> nearest_texts(["the red house", "a green tree", "my house"], ["the green house", "one tree"])
    [0, 1]

    Salton, Wong and Yang (1975), doi:10.1145/361219.361220.
    """
    every = max(1, -(-len(known) // MOST_ROWS))
    read = occurrences(known[::every], "words")
    table = NgramTable.learn(read, MOST_NGRAMS)
    texts, nearest = table.bags(read), list[int]()
    for first in range(0, len(queries), at_once):
        bags = table.bags(occurrences(queries[first : first + at_once], "words"))
        sizes = torch.diff(bags.starts, append=torch.tensor([len(bags.columns)]))
        rows = torch.zeros(len(table), len(sizes))
        rows[bags.columns, torch.arange(len(sizes)).repeat_interleave(sizes)] = bags.values
        nearest += (texts.product(rows).argmax(0) * every).tolist()
    return nearest


def has_right_word(text: str, wanted: str, wrong: str) -> bool:
    """Whether a text contains the wanted word and none of the wrong ones (separated by `|`), as whole words."""
    words = set("".join(c if c.isalpha() else " " for c in text.lower()).split())
    return wanted.lower() in words and not words & set(wrong.lower().split("|"))
