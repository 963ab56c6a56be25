"""Scores that read no keys: the position of a key is scored, not its content."""

import torch
from torch import Tensor, nn

from mirada.attention.scores.score import Keys, Queries, Score, Scores, glorot
from mirada.errors import require
from mirada.shapes import show


class Location(Score):
    """Scores that depend on the query alone.

    score(q, k_j) = (W q)_j,  W with max_keys rows

    The keys are not read, only counted: W q is cut to their number, and the mask is applied before the softmax.

    Args:
        dim_q: numbers in a query.
        max_keys: the most keys that can be scored: the rows of W.

    >>> score = Location(1, max_keys=3)
    >>> _ = score.weight.data.copy_(torch.tensor([[1.0], [2.0], [3.0]]))
    >>> score(torch.tensor([[[[10.0]]]]), torch.zeros(1, 1, 2, 1)).tolist()
    [[[[10.0, 20.0]]]]

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.1.
    """

    reads_keys = False

    def __init__(self, dim_q: int, max_keys: int) -> None:
        super().__init__()
        self.dim_q, self.max_keys = dim_q, max_keys
        self.weight = nn.Parameter(glorot(1, max_keys, dim_q).squeeze(0))

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return q @ self.weight[: k.shape[-2]].T.to(q.dtype)

    def check(self, q: Queries, k: Keys) -> None:
        if q.shape[-1] != self.dim_q:
            raise ValueError(f"{self} needs queries of dim {self.dim_q}: got q {show(q)}")
        if k.shape[-2] > self.max_keys:
            raise ValueError(
                f"Location has rows for max_keys={self.max_keys}: got keys={k.shape[-2]}. Build it larger or cut the source."
            )

    def extra_repr(self) -> str:
        return f"{self.dim_q}, max_keys={self.max_keys}"


class Offset(Score):
    """A trained number per offset on a grid, independent of the content.

    score(i, j) = w[row(j) - row(i), column(j) - column(i)] for offsets up to `radius`, 0 beyond

    With `where=Grid(height, width, radius)`, `normalizer=Identity()` and one head per channel this is a depthwise
    convolution: unbounded weights on a grid graph, values left as they are. The convolution's bias is the heads' own,
    `Split(channels, heads=channels, bias=True)`. With `Softmax` it is a learned local average.

    Args:
        height: rows of the grid.
        width: columns of the grid.
        radius: the largest offset with a number of its own, in both directions.
        heads: sets of numbers, one per head; 1 shares one.

    >>> score = Offset(1, 3)
    >>> _ = score.weight.data.copy_(torch.arange(9.0).view(1, 3, 3))
    >>> score(torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1)).tolist()
    [[[[4.0, 5.0, 0.0], [3.0, 4.0, 5.0], [0.0, 3.0, 4.0]]]]

    Bronstein et al. (2021), arXiv:2104.13478.
    """

    reads_keys = False

    def __init__(self, height: int, width: int, radius: int = 1, heads: int = 1) -> None:
        super().__init__()
        message = f"a grid needs height, width >= 1 and radius >= 0: got {height}, {width}, radius={radius}"
        require(height >= 1 and width >= 1 and radius >= 0, message)
        self.height, self.width, self.radius, self.heads = height, width, radius, heads
        side = 2 * radius + 1
        self.weight = nn.Parameter(torch.empty(heads, side, side).uniform_(-1 / side, 1 / side))

    def queries(self, q: Queries) -> Tensor:
        return torch.arange(self.height * self.width, device=q.device).view(1, 1, -1, 1).expand(*q.shape[:2], -1, -1)

    def keys(self, k: Keys) -> Tensor:
        return self.queries(k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        if not q.numel():
            return self.weight.new_zeros(*q.shape[:3], k.shape[2])
        i, j = q[0, 0], k[0, 0].T
        down, right = j // self.width - i // self.width, j % self.width - i % self.width
        near = (down.abs() <= self.radius) & (right.abs() <= self.radius)
        down, right = (offset.clamp(-self.radius, self.radius) + self.radius for offset in (down, right))
        return self.weight[:, down, right].masked_fill(~near, 0).expand(q.shape[0], q.shape[1], -1, -1)

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        cells = self.height * self.width
        if not (q.shape[-2] == cells == k.shape[-2]):
            raise ValueError(
                f"Offset is made for a grid of {self.height} x {self.width} = {cells} cells: "
                f"got queries={q.shape[-2]}, keys={k.shape[-2]}. Flatten the grid row by row."
            )

    def extra_repr(self) -> str:
        return f"{self.height}, {self.width}, radius={self.radius}, heads={self.heads}"
