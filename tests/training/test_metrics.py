import math

import pytest

from mirada.training.metrics import accuracy, bleu, bleu_of_several, chrf, macro_f1, perplexity, sentence_chrf


def test_bleu_by_hand() -> None:
    """Four of five words, three of four pairs, two of three triples and one of two fours are right; lengths agree."""
    wanted = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu(["the cat sat on mats"], ["the cat sat on mat"]) == pytest.approx(wanted)


def test_perfect_and_useless_answers() -> None:
    assert bleu(["la casa roja es grande"], ["la casa roja es grande"]) == pytest.approx(100)
    assert chrf(["la casa"], ["la casa"]) == pytest.approx(100)
    assert sentence_chrf("xyz", "la casa") == 0.0


def test_accuracy_and_macro_f1_by_hand() -> None:
    answers, wanted = list("aaab"), list("aabb")
    assert accuracy(answers, wanted) == 75.0
    assert macro_f1(answers, wanted) == pytest.approx(100 * (0.8 + 2 / 3) / 2)
    assert math.isnan(accuracy([], []))
    assert math.isnan(macro_f1([], []))


def test_perplexity() -> None:
    assert perplexity(math.log(8)) == pytest.approx(8)
    assert perplexity(1e9) < math.inf


def test_bleu_takes_the_best_of_several_references() -> None:
    """A single reference is plain BLEU; more references never hurt; texts may have different numbers of them."""
    answers = ["the red house is very big", "a cat sleeps on the sofa"]
    first, second = ["the red house is big", "a cat sleeps on the sofa"], ["the red house is very big"]
    assert bleu_of_several(answers, [[text] for text in first]) == pytest.approx(bleu(answers, first))
    several = bleu_of_several(answers, [[first[0], second[0]], [first[1]]])
    assert several == pytest.approx(100)
    assert several > bleu(answers, first)
