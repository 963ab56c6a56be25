"""The plain baselines: against scikit-learn's numbers by formula, and what they must not do."""

import math

import torch
from torch.testing import assert_close

from mirada.training.baselines import FeatureTable, linear_bag_of_words, logistic_regression, majority

TEXTS = ["a good good film", "a bad film", "good book", "bad bad book", "a film", "the good end"]
LABELS = ["yes", "no", "yes", "no", "no", "yes"]


def test_features_by_hand() -> None:
    """(1 + log count) x (log((1 + n) / (1 + df)) + 1), then length 1; words of one text alone are left out."""
    table = FeatureTable(TEXTS)
    assert set(table.places) == {"a", "good", "bad", "film", "book"}
    bags = table.bags(["good good film unknown"])
    good, film = (math.log(7 / 4) + 1) * (1 + math.log(2)), math.log(7 / 4) + 1
    wanted = {table.places["good"]: good / math.hypot(good, film), table.places["film"]: film / math.hypot(good, film)}
    assert dict(zip(bags.columns.tolist(), bags.values.tolist(), strict=True)).keys() == wanted.keys()
    for column, value in zip(bags.columns.tolist(), bags.values.tolist(), strict=True):
        assert_close(value, wanted[column], rtol=1e-5, atol=1e-6)


def test_the_gradient_is_zero_where_it_ends() -> None:
    table, wanted = FeatureTable(TEXTS), torch.tensor([1, 0, 1, 0, 0, 1])
    bags = table.bags(TEXTS)
    weights, bias = logistic_regression(bags, wanted, len(table.places), 2)
    weights.requires_grad_(), bias.requires_grad_()
    loss = torch.nn.functional.cross_entropy(bags.scores(weights) + bias, wanted)
    (loss + weights.square().sum() / (2 * 10 * len(TEXTS))).backward()
    assert_close(weights.grad, torch.zeros_like(weights), rtol=0, atol=2e-3)
    assert_close(bias.grad, torch.zeros_like(bias), rtol=0, atol=2e-3)


def test_words_decide_and_what_is_unknown_hurts_nothing() -> None:
    assert linear_bag_of_words(TEXTS, LABELS, ["good", "bad", "a good one"]) == ["yes", "no", "yes"]
    assert linear_bag_of_words(TEXTS, LABELS, ["", "zzz"])[0] in ("yes", "no")


def test_it_leaves_threads_and_gradients_as_they_are() -> None:
    before = torch.get_num_threads()
    with torch.inference_mode():
        assert linear_bag_of_words(TEXTS, LABELS, ["good"]) == ["yes"]
    assert torch.get_num_threads() == before


def test_the_most_frequent_label() -> None:
    assert majority(LABELS) in ("yes", "no")
    assert majority(["a", "b", "b"]) == "b"
