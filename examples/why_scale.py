"""Why the scores are divided by sqrt(dim): without it the softmax saturates and its gradient vanishes.

Queries and keys are standard normal vectors, so q.k has variance dim. The softmax of such scores over a few keys is measured
with and without the scale: the variance of the scores, the largest weight, the entropy of the weights, and the gradient that
comes back through the softmax for a random gradient of unit variance that goes in. Lectures, row 0.3.
"""

import math
from typing import NamedTuple

import torch

from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Dot

DIMS = (4, 16, 64, 256, 1024)
BATCH, QUERIES, KEYS = 64, 16, 32


class Saturation(NamedTuple):
    """How sharp a softmax is, over many random queries."""

    variance: float  # of the scores
    largest: float  # weight of a query, mean
    entropy: float  # of a query's weights in nats, mean
    gradient: float  # norm of what comes back to a query's scores, median


def measure(dim: int, scale: float | None) -> Saturation:
    """Softmax over `Dot(scale)` scores of random vectors; the same vectors for every scale."""
    chance = torch.Generator().manual_seed(dim)
    q = torch.randn(BATCH, 1, QUERIES, dim, generator=chance)
    k = torch.randn(BATCH, 1, KEYS, dim, generator=chance)
    scores = Dot(scale)(q, k).requires_grad_()
    weights = Softmax()(scores)
    incoming = torch.randn(weights.shape, generator=chance)
    (gradient,) = torch.autograd.grad(weights, scores, incoming)
    entropy = torch.special.entr(weights).sum(-1)
    return Saturation(
        scores.var().item(),
        weights.amax(-1).mean().item(),
        entropy.mean().item(),
        gradient.norm(dim=-1).median().item(),
    )


def row(dim: int, saturation: Saturation) -> str:
    variance, largest, entropy, gradient = saturation
    return f"{dim:6}{variance:14.2f}{largest:17.3f}{entropy:11.3f}{gradient:14.5f}"


def main() -> None:
    print(f"Softmax over {KEYS} random keys, {BATCH * QUERIES:,} queries: means, and the median norm of the gradient.")
    print(f"Equal weights would be {1 / KEYS:.3f} each, with entropy {math.log(KEYS):.3f}.")
    for title, scale in (("q.k", 1.0), ("q.k / sqrt(dim)", None)):
        print(f"\nscore = {title}\n{'dim':>6}{'var(score)':>14}{'largest weight':>17}{'entropy':>11}{'gradient':>14}")
        for dim in DIMS:
            print(row(dim, measure(dim, scale)))
    lost, kept = measure(DIMS[-1], 1.0).gradient, measure(DIMS[-1], None).gradient
    print(f"\nAt dim {DIMS[-1]} the gradient is {kept / lost:,.0f} times larger with the scale than without.")


if __name__ == "__main__":
    main()
