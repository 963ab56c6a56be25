"""Where each kernel begins to pay: its time over the next best kernel's, forward + backward, around the planner's thresholds.

    python benchmarks/thresholds.py

A ratio below 1 means that the kernel pays. The thresholds are `SMALLEST` and `WIDEST` in banded.py, `SMALLEST` in strided.py,
`DENSEST_PRODUCT` and `DENSEST` in edges.py.
"""

from functools import partial

import torch
from kernels import DIM, HEADS, compare
from ratios import HEADER

from mirada import attend
from mirada.attention.kernels import banded, edges, strided
from mirada.attention.neighborhoods import Edges, Neighborhood, Strided, Window
from mirada.attention.scores import Dot, Graph, Score


def show(what: str, kernel: str, other: str, size: int, where: Neighborhood, score: Score) -> None:
    """One row: `kernel` over `other`."""
    q, k, v = (torch.randn(1, HEADS, size, DIM, requires_grad=True) for _ in range(3))
    ours, theirs = (partial(attend, q, k, v, where=where, score=score, kernel=name) for name in (kernel, other))
    print(compare(ours, theirs, True, rounds=9).row(what), flush=True)


def main() -> None:
    """Print the rows, with every kernel willing."""
    torch.manual_seed(0)
    banded.SMALLEST, banded.WIDEST, strided.SMALLEST = 0, 9.0, 0
    edges.DENSEST = edges.DENSEST_PRODUCT = 9.0
    print(HEADER)
    for size in (256, 512, 1024, 2048):
        where = Window(size // 16)
        show(f"banded / fused, T {size}, {where}", "banded", "fused", size, where, Dot())
    for share in (0.125, 0.25, 0.5, 0.75):
        where = Window(int(4096 * share))
        show(f"banded / fused, T 4096, a window of {share:.0%} of the keys", "banded", "fused", 4096, where, Dot())
    for size in (256, 512, 1024, 2048):
        where = Strided(round(size**0.5))
        show(f"strided / fused, T {size}, {where}", "strided", "fused", size, where, Dot())
    for density in (0.01, 0.05, 0.1, 0.25, 0.5):
        nodes = 1000
        graph = Edges(torch.rand(nodes, nodes).lt(density).nonzero().T.contiguous(), nodes)
        show(f"edges / fused, Dot, {density:.0%} of all pairs", "edges", "fused", nodes, graph, Dot())
        show(
            f"edges / reference, Graph, {density:.0%} of all pairs",
            "edges",
            "reference",
            nodes,
            graph,
            Graph(DIM, HEADS),
        )


if __name__ == "__main__":
    main()
