"""What each row depended on by several methods, and how far they agree."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from mirada.errors import require

Matrix = Float[Tensor, "rows columns"]


@dataclass(frozen=True)
class Agreement:
    """How far two methods agree: Spearman's rank correlation, and the share of rows with the same largest entry."""

    a: str
    b: str
    spearman: float
    top: float


@dataclass(frozen=True, eq=False)
class Methods:
    """A matrix per method: what each row depended on, non-negative, each row summing to 1 (or 0). `of` makes them.

    Args:
        matrices: The matrices by the name of their method.
        agreement: How far every two methods agree.
        rows: The name of the labels' axis of the rows.
        columns: The name of the labels' axis of the columns.

    >>> found = Methods.of({"attention": torch.tensor([[1.0, 3.0]]), "ablation": torch.tensor([[0.0, -2.0]])})
    >>> found.matrices["attention"].tolist(), found.matrices["ablation"].tolist()
    ([[0.25, 0.75]], [[0.0, 1.0]])
    >>> [one] = found.agreement
    >>> one.a, one.b, round(one.spearman, 6), one.top
    ('attention', 'ablation', 1.0, 1.0)
    """

    matrices: Mapping[str, Matrix]
    agreement: tuple[Agreement, ...] = ()
    rows: str = ""  # names of axes
    columns: str = ""

    @classmethod
    def of(cls, matrices: Mapping[str, Matrix], rows: str = "", columns: str = "") -> "Methods":
        """From matrices of any scale, whose sizes (without their signs) count: each row is divided by its sum."""
        shapes = {tuple(matrix.shape) for matrix in matrices.values()}
        require(len(shapes) == 1, f"all methods must have the same rows and columns: got {sorted(shapes)}")
        shares = {name: _row_shares(matrix) for name, matrix in matrices.items()}
        return cls(shares, _agreements(shares), rows, columns)


def _row_shares(matrix: Matrix) -> Matrix:
    """The sizes of the numbers as shares of their row."""
    sizes = matrix.detach().float().abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    return sizes / sizes.sum(-1, keepdim=True).clamp(min=1e-30)


def _agreements(matrices: Mapping[str, Matrix]) -> tuple[Agreement, ...]:
    """Every pair of methods, over the rows that are not all zeros in either."""
    agreements = []
    for (a, one), (b, other) in combinations(matrices.items(), 2):
        both = (one.sum(-1) > 0) & (other.sum(-1) > 0)
        x, y = one[both], other[both]
        correlations = [spearman(*rows) for rows in zip(x, y, strict=True)] if x.shape[1] > 1 else []
        known = [value for value in correlations if value is not None]
        if known:
            top = (x.argmax(-1) == y.argmax(-1)).float().mean()
            agreements.append(Agreement(a, b, sum(known) / len(known), float(top)))
    return tuple(agreements)


def spearman(x: Float[Tensor, " n"], y: Float[Tensor, " n"]) -> float | None:
    """The correlation of the ranks, ties sharing their mean rank; None where all numbers of one of them are equal.

    >>> round(spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])), 3)
    0.5
    """
    ranks = [_mean_ranks(values) for values in (x, y)]
    a, b = (rank - rank.mean() for rank in ranks)
    norm = float(a.norm() * b.norm())
    return float(a @ b) / norm if norm > 0 else None


def _mean_ranks(values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The rank of every number from 0, equal ones at the mean of theirs."""
    _, group, counts = torch.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    return (ends - (counts.double() + 1) / 2)[group]
