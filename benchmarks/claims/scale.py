"""Scaling keeps the gradient of the softmax alive: `python benchmarks/claims/scale.py [FIGURE]`.

Random queries and keys of unit variance; the norm of the gradient that comes back through the softmax, with q.k and with
q.k / sqrt(dim), by dim; and the largest weight, which says how much of a mixture is left.
"""

import sys
from pathlib import Path

import torch

from mirada.attention.normalizers import Softmax
from mirada.attention.scores import Dot
from mirada.drawing.plots.lines import plot

DIMS = (4, 16, 64, 256, 1024)
SCALES = {"q.k": 1.0, "q.k / sqrt(dim)": None}


def measured(dim: int, scale: float | None) -> tuple[float, float]:
    """The median norm of what reaches the scores of a query from a random gradient, and the mean largest weight."""
    chance = torch.Generator().manual_seed(dim)
    q, k = (torch.randn(64, 1, count, dim, generator=chance) for count in (16, 32))
    scores = Dot(scale)(q, k).requires_grad_()
    weights = Softmax()(scores)
    (gradient,) = torch.autograd.grad(weights, scores, torch.randn(weights.shape, generator=chance))
    return gradient.norm(dim=-1).median().item(), weights.amax(-1).mean().item()


def main(figure: str) -> None:
    found = {name: [measured(dim, scale) for dim in DIMS] for name, scale in SCALES.items()}
    print("| dim | gradient, q.k | gradient, scaled | largest weight, q.k | scaled |\n|---|---|---|---|---|")
    for place, dim in enumerate(DIMS):
        (lost, sharp), (kept, soft) = (values[place] for values in found.values())
        print(f"| {dim} | {lost:.5f} | {kept:.5f} | {sharp:.2f} | {soft:.2f} |")
    if figure:
        lines = {
            name: [(str(dim), pair[0]) for dim, pair in zip(DIMS, values, strict=True)]
            for name, values in found.items()
        }
        plot(lines, Path(figure), x="dim", y="gradient through the softmax")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
