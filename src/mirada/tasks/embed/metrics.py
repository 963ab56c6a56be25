"""How well similarities agree with those that people gave."""

import torch
from jaxtyping import Float
from torch import Tensor

Numbers = Float[Tensor, " pairs"]


def pearson(one: Numbers, two: Numbers) -> float:
    """The correlation of two lists of numbers; 0 where one of them does not vary.

    >>> pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.5])) > 0.99
    True
    """
    a, b = one - one.mean(), two - two.mean()
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size else 0.0


def spearman(one: Numbers, two: Numbers) -> float:
    """The correlation of the ranks.

    >>> round(spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 40.0, 41.0])), 6)
    1.0
    """
    return pearson(ranks(one), ranks(two))


def ranks(values: Numbers) -> Numbers:
    """The rank of every value; equal ones share the mean of theirs.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3, 0.9])).tolist()
    [1.5, 0.0, 1.5, 3.0]
    """
    _, inverse, counts = torch.unique(values, return_inverse=True, return_counts=True)
    counts = counts.to(torch.float64)
    first = counts.cumsum(0) - counts
    return (first + (counts - 1) / 2)[inverse]
