"""Plain models to compare ours with, trained in seconds: logistic regression, the nearest, the most frequent."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

STRENGTH = 10.0  # of the data against the prior: the inverse of scikit-learn's penalty, its C
HISTORY = 10  # steps that L-BFGS remembers: each is as large as the weights
MOST_ROWS = 50_000  # more rows are not needed for a baseline


@contextmanager
def learning() -> Iterator[None]:
    """Enable gradients, also in inference mode, and use one thread: the work is too small to share, and its bits are the same
    whatever else the machine does.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_num_threads(threads)


class Table(Protocol):
    """Rows of numbers, sparse or not."""

    def scores(self, weights: Float[Tensor, "features classes"]) -> Float[Tensor, "rows classes"]:
        """The weighted sums of every row."""


def logistic_regression(
    x: Table,
    wanted: Int[Tensor, " rows"] | Float[Tensor, "rows classes"],
    features: int,
    classes: int,
    steps: int = 60,
    strength: float = STRENGTH,
    row_weights: Float[Tensor, " rows"] | None = None,
) -> tuple[Float[Tensor, "features classes"], Float[Tensor, " classes"]]:
    """Weights and bias with the smallest cross-entropy plus |weights|^2 / (2 strength n), by L-BFGS.

    Where `wanted` has a 1 for every class of a row, each class is decided independently.
    """
    weights, bias = (torch.zeros(shape, requires_grad=True) for shape in ((features, classes), (classes,)))
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps, history_size=HISTORY, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        prior = weights.square().sum() / (2 * strength * len(wanted))
        scores = x.scores(weights) + bias
        if wanted.is_floating_point():
            each = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none").sum(1)
        else:
            each = F.cross_entropy(scores, wanted, reduction="none")
        total = (each if row_weights is None else each * row_weights).mean() + prior
        total.backward()
        return total

    optimizer.step(loss)
    return weights.detach(), bias.detach()


def majority(labels: Sequence[str]) -> str:
    """The most frequent label.

    >>> majority(["yes", "no", "yes"])
    'yes'
    """
    return Counter(labels).most_common(1)[0][0]


def linear_on_features(
    train: Float[Tensor, "rows features"], labels: Sequence[str], questions: Float[Tensor, "questions features"]
) -> list[str]:
    """The answers of logistic regression over rows of numbers: the features of a node, the pixels of a picture.

    >>> train = torch.tensor([[0.0, 9.0], [1.0, 8.0], [9.0, 0.0], [8.0, 2.0]])
    >>> linear_on_features(train, ["low", "low", "high", "high"], torch.tensor([[7.0, 1.0]]))
    ['high']
    """
    every = max(1, -(-len(train) // MOST_ROWS))
    train, labels = train[::every].float(), labels[::every]
    names = sorted(set(labels))
    with torch.inference_mode(False), torch.enable_grad():
        wanted = torch.tensor([names.index(label) for label in labels])
        train = train.cpu().clone()  # what inference made cannot be learned from
        mean = train.mean(0)
        scale = (train - mean).square().sum(1).mean().sqrt().clamp_min(1e-9)  # rows have length 1 then, on the average
        x, asked = (DenseRows((some.float().cpu() - mean) / scale) for some in (train, questions))
        weights, bias = logistic_regression(x, wanted, train.shape[1], len(names))
        scores = asked.scores(weights) + bias
    return [names[number] for number in scores.argmax(1).tolist()]


class DenseRows(NamedTuple):
    """Rows of numbers, each with a number for every feature."""

    rows: Float[Tensor, "rows features"]

    def scores(self, weights: Float[Tensor, "features classes"]) -> Float[Tensor, "rows classes"]:
        """The weighted sums of every row."""
        return self.rows @ weights


def nearest(
    known: Float[Tensor, "known features"], asked: Float[Tensor, "asked features"], at_once: int = 256
) -> list[int]:
    """For everything asked, the number of the nearest that is known, by the Euclidean distance.

    >>> nearest(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
    [1, 0]

    Cover and Hart (1967).
    """
    lengths, nearest_rows = known.square().sum(1), []
    for part in asked.split(at_once):
        nearest_rows += (lengths - 2 * part @ known.T).argmin(1).tolist()
    return nearest_rows
