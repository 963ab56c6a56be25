"""The plain baselines: what they answer, and what they must not do."""

import torch
from torch.testing import assert_close

from mirada.training.baselines import (
    DenseRows,
    linear_on_features,
    logistic_regression,
    majority,
    nearest,
)

TEXTS = ["a good good film", "a bad film", "good book", "bad bad book", "a film", "the good end"]
LABELS = ["yes", "no", "yes", "no", "no", "yes"]


def test_the_most_frequent_label() -> None:
    assert majority(LABELS) in ("yes", "no")
    assert majority(["a", "b", "b"]) == "b"


def test_rows_of_numbers_are_distinguished_whatever_their_scale() -> None:
    draws = torch.Generator().manual_seed(3)
    centers = torch.tensor([[0.0, 0.0, 5.0], [4.0, 0.0, 5.0], [0.0, 4.0, 5.0]])
    numbers = torch.arange(60) % 3
    x = centers[numbers] + torch.randn(60, 3, generator=draws)
    labels = ["abc"[number] for number in numbers.tolist()]
    for scale in (1e-3, 1.0, 1e3):
        given = linear_on_features(scale * x[:45], labels[:45], scale * x[45:])
        assert sum(a == b for a, b in zip(given, labels[45:], strict=True)) >= 13
    with torch.inference_mode():
        assert linear_on_features(x[:45].clone(), labels[:45], x[45:].clone()) == linear_on_features(
            x[:45], labels[:45], x[45:]
        )


def test_features_that_are_always_the_same_hurt_nothing() -> None:
    assert linear_on_features(torch.ones(4, 2), ["a", "b", "b", "b"], torch.ones(1, 2)) == ["b"]


def test_the_weights_of_rows_have_a_gradient_of_zero() -> None:
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(1))
    wanted = torch.arange(12) % 3
    weights, bias = logistic_regression(DenseRows(x), wanted, 4, 3)
    weights.requires_grad_(), bias.requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ weights + bias, wanted) + weights.square().sum() / (2 * 10 * 12)
    loss.backward()
    assert_close(weights.grad, torch.zeros_like(weights), rtol=0, atol=2e-3)
    assert_close(bias.grad, torch.zeros_like(bias), rtol=0, atol=2e-3)


def test_nearest_is_the_nearest_whatever_is_computed_at_once() -> None:
    source = torch.Generator().manual_seed(0)
    known, asked = (torch.randn(count, 5, generator=source) for count in (37, 23))
    wanted = [min(range(37), key=lambda n, row=row: float((known[n] - row).norm())) for row in asked]
    assert nearest(known, asked) == wanted
    assert nearest(known, asked, at_once=4) == wanted
