"""N-grams: keys that never change, tf-idf by hand, and a sparse product with its gradient."""

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from mirada.data.text.ngrams import Bags, NgramTable, key, occurrences, pair_keys, pieces, words_of

TEXTS = ["a good good film", "a bad film", "good book"]


def column(table: NgramTable, *words: str) -> int:
    """The row of a word, or of a pair."""
    keys = np.array([key(word) for word in words], np.uint64)
    one = keys if len(words) == 1 else pair_keys(keys[:1], keys[1:])
    return int(table.rows(one)[0])


def test_keys_are_the_same_on_every_machine() -> None:
    assert key("casa") == 17773367320700821336
    first, second = (np.array([key(word)], np.uint64) for word in ("la", "casa"))
    mixed = (key("la") * 0x9E3779B97F4A7C15 % 2**64) ^ ((key("casa") + 0xBF58476D1CE4E5B9) % 2**64)
    assert pair_keys(first, second).tolist() == [(mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9 % 2**64]


def test_the_order_of_a_pair_counts() -> None:
    a, b = (np.array([key(word)], np.uint64) for word in ("not", "good"))
    assert pair_keys(a, b) != pair_keys(b, a)


def test_words_in_scripts_with_and_without_spaces() -> None:
    assert words_of("No, señora: ¡qué BIEN!") == ["no", ",", "señora", ":", "¡", "qué", "bien", "!"]
    assert words_of("好电影 very") == ["好", "电", "影", "very"]
    assert words_of("очень хорошо") == ["очень", "хорошо"]
    assert words_of(" \t ") == []


def test_pieces_of_a_word() -> None:
    assert pieces("a") == []  # <a> is the word itself
    assert pieces("is") == ["<is", "is>"]
    assert {len(piece) for piece in pieces("wonderfully")} == {3, 4, 5, 6}


def test_weights_by_hand() -> None:
    """(1 + log count) x (log((1 + n) / (1 + df)) + 1), then length 1."""
    found = occurrences(TEXTS, "words")
    table = NgramTable.learn(found, most=100)
    assert len(table) == 5 + 6  # a good film bad book; a+good good+good good+film a+bad bad+film good+book
    bags = table.bags(occurrences(["good good film unknown"], "words"))
    often, once = math.log(4 / 3) + 1, math.log(4 / 2) + 1
    raw = {
        column(table, "good"): often * (1 + math.log(2)), column(table, "film"): often,
        column(table, "good", "good"): once, column(table, "good", "film"): once,
    }  # fmt: skip
    norm = math.sqrt(sum(value * value for value in raw.values()))
    assert bags.columns.tolist() == sorted(raw)
    assert_close(bags.values, torch.tensor([raw[row] / norm for row in sorted(raw)]))


def test_pieces_count_where_letters_are_requested() -> None:
    words, letters = (NgramTable.learn(occurrences(TEXTS, kind), most=1000) for kind in ("words", "letters"))
    distinct = {piece for word in ("a", "good", "film", "bad", "book") for piece in pieces(word)}
    assert len(letters) == len(words) + len(distinct)
    both = occurrences(["goodly"], "letters")
    assert (words.rows(both.keys) >= 0).sum() == 0
    assert (letters.rows(both.keys) >= 0).sum() == 6  # <go goo ood, <goo good, <good: and not good>


def test_the_most_frequent_stay() -> None:
    found = occurrences(TEXTS, "words")
    table = NgramTable.learn(found, most=3)
    assert len(table) == 3
    assert min(column(table, word) for word in ("a", "good", "film")) >= 0
    assert column(table, "bad") == -1


def test_texts_without_known_words_are_empty_bags() -> None:
    table = NgramTable.learn(occurrences(TEXTS), most=1000)
    bags = table.bags(occurrences(["", "zzz qqq", "good"]))
    assert bags.starts.tolist() == [0, 0, 0]
    assert_close(bags.product(torch.ones(len(table), 2))[:2], torch.zeros(2, 2))
    nothing = NgramTable.learn(occurrences([""]), most=10)
    assert len(nothing) == 0
    assert nothing.rows(np.array([5], np.uint64)).tolist() == [-1]


def test_the_product_and_its_gradient_are_those_of_the_dense_matrix() -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.5, 0.0, 0.0]])
    bags = Bags(torch.tensor([1, 3, 0, 1]), torch.tensor([2.0, 1.0, 3.0, 0.5]), torch.tensor([0, 2, 2]), 4)
    weights = torch.arange(20.0).view(4, 5).requires_grad_()
    out = torch.tensor([[1.0, -1.0, 2.0, 0.0, 5.0]] * 3) * torch.tensor([[1.0], [2.0], [3.0]])
    (bags.scores(weights) * out).sum().backward()
    assert_close(bags.scores(weights).detach(), dense @ weights.detach())
    assert_close(weights.grad, dense.T @ out)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="n-grams are of words or letters: got 'sounds'"):
        occurrences(TEXTS, "sounds")
