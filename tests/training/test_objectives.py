"""The losses of classification and of writing tokens: by hand, in one piece and in parts."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from mirada.training.distributed import ProcessGroup
from mirada.training.objectives import ClassLoss, Microbatch, TokenLoss, class_weights, evaluate

X = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
CLASSES = torch.tensor([0, 1, 1, 2, 1])  # the third and the fifth are taken for the first class
WEIGHTS = torch.tensor([1.0, 2.0, 2.0, 0.5, 2.0])


class Scores(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def part(rows: slice, weights: torch.Tensor | None = None) -> Microbatch:
    inputs = {"x": X[rows], "classes": CLASSES[rows]}
    return Microbatch(inputs if weights is None else inputs | {"weights": weights[rows]}, (len(X[rows]),), 1)


def test_loss_and_error_by_hand() -> None:
    whole = slice(0, 5)
    found = evaluate(ClassLoss(Scores(), 0.1), [part(whole)], ProcessGroup())
    assert_close(found["loss"], F.cross_entropy(X, CLASSES).item())  # smoothing is for training
    assert_close(found["error"], 2 / 5)
    objective = ClassLoss(Scores(), 0.1)
    wanted = F.cross_entropy(X, CLASSES, label_smoothing=0.1)
    assert_close(objective(**part(whole).inputs), wanted.unsqueeze(0))
    assert objective.rank(found) == (found["error"], found["loss"])
    assert objective.quality(objective.rank(found)) == "valid accuracy 60.0"


def test_weights_count_in_both_and_parts_make_a_whole() -> None:
    each = -X.log_softmax(1)[torch.arange(5), CLASSES]
    objective = ClassLoss(Scores())
    for parts in ([slice(0, 5)], [slice(0, 2), slice(2, 5)]):
        found = evaluate(objective, [part(rows, WEIGHTS) for rows in parts], ProcessGroup())
        assert_close(found["loss"], (WEIGHTS * each).sum().item() / 5)
        assert_close(found["error"], (2.0 + 2.0) / 5)


def test_weights_are_inverse_to_how_often_a_class_is_there() -> None:
    labels = ["a"] * 95 + ["b"] * 5
    weights = class_weights(labels, ["a", "b"])
    assert_close(weights, (100 / (2 * 95), 10.0))
    assert_close(sum(weights[label == "b"] for label in labels), 100.0)
    assert class_weights(["a", "a"], ["a", "b"]) == (0.5, 0.0)


class Writer(nn.Module):
    """Scores of the next token as they were given; the vocabulary has three."""

    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def output(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def loss(self, x: torch.Tensor, wanted: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
        return F.cross_entropy(x.flatten(0, 1), wanted.flatten(), label_smoothing=smoothing)


def test_tokens_are_judged_by_how_many_are_wrong() -> None:
    padded = torch.cat([CLASSES, torch.tensor([-100])]).view(2, 3)
    scores = torch.cat([X, torch.full((1, 3), 7.0)]).view(2, 3, 3)
    objective = TokenLoss(Writer(), smoothing=0.1)
    found = evaluate(objective, [Microbatch({"x": scores, "wanted": padded}, (5,), 5)], ProcessGroup())
    assert_close(
        found["loss"], F.cross_entropy(X, CLASSES).item()
    )  # smoothing is for training, and padding does not count
    assert_close(found["error"], 2 / 5)
    surer = {"loss": 0.9, "error": 0.1}
    assert objective.rank(surer) < objective.rank({"loss": 0.5, "error": 0.2})  # fewer are wrong
    assert objective.rank(surer) < objective.rank({"loss": 1.0, "error": 0.1})
    assert objective.rank({"loss": float("nan"), "error": 0.0}) > objective.rank(surer)
    assert objective.quality(objective.rank(found)) == "60.0 % of the valid tokens right"


def test_many_tokens_are_judged_as_few_are() -> None:
    scores, wanted = torch.randn(7, 211, 3), torch.randint(3, (7, 211))  # more than are scored at once
    found = TokenLoss(Writer()).validate(x=scores, wanted=wanted)
    assert_close(found[0], F.cross_entropy(scores.flatten(0, 1), wanted.flatten()))
    assert_close(found[1], (scores.argmax(-1) != wanted).float().mean())
    assert_close(TokenLoss(Writer()).validate(x=scores, wanted=torch.full_like(wanted, -100)), torch.zeros(2))
