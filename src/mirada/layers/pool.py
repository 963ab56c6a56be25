"""From a sequence to one vector. Padding counts in none of them."""

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.attention.heads import MultiHead
from mirada.attention.neighborhoods import Dense
from mirada.errors import require, unknown

Input = Float[Tensor, "batch length width"]
Real = Bool[Tensor, "batch length"]


class Pool(nn.Module):
    """The interface: `pool(x, real)`, where `real` marks the places that are not padding (None: all are)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = self.out = width

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        raise NotImplementedError


class Mean(Pool):
    """The average of the real places.

    >>> Mean(1)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])).item()
    2.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        if real is None:
            return x.mean(1)
        total = x.masked_fill(~real.unsqueeze(-1), 0).sum(1)
        return total / real.sum(1, keepdim=True).clamp(min=1)


class Max(Pool):
    """The largest number of every channel among the real places; 0 where there is none.

    >>> Max(1)(torch.tensor([[[1.0], [3.0], [99.0]]]), torch.tensor([[True, True, False]])).item()
    3.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        if real is None:
            return x.amax(1)
        found = x.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(1)
        return found.masked_fill(~real.any(1, keepdim=True), 0)


class First(Pool):
    """What stands at the first place, the class token; 0 for a sample without any.

    >>> First(1)(torch.tensor([[[1.0], [3.0]]])).item()
    1.0
    """

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        return x[:, 0] if real is None else x[:, 0].masked_fill(~real[:, :1], 0)


class Flatten(Pool):
    """All places side by side: `length` of them, shorter samples filled with zeros.

    >>> Flatten(2, length=3)(torch.ones(1, 2, 2)).tolist()
    [[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]
    """

    def __init__(self, width: int, length: int) -> None:
        super().__init__(width)
        self.length, self.out = length, width * length

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        found = x.shape[1]
        require(found <= self.length, f"Flatten has room for length={self.length}: got length={found}. Cut the input.")
        if real is not None:
            x = x.masked_fill(~real.unsqueeze(-1), 0)
        return rearrange(nn.functional.pad(x, (0, 0, 0, self.length - found)), "b n w -> b (n w)")


class Attended(Pool):
    """A learned query looks at the sequence: the average that attention chooses.

    >>> Attended(8, heads=2)(torch.zeros(2, 3, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(self, width: int, heads: int = 1) -> None:
        super().__init__(width)
        self.query = nn.Parameter(torch.randn(1, 1, width) * width**-0.5)
        self.attention = Attention(MultiHead(width, heads))

    def forward(self, x: Input, real: Real | None = None) -> Float[Tensor, "batch out"]:
        where = None if real is None else Dense(rearrange(real, "b n -> b 1 1 n"))
        return self.attention(self.query.expand(len(x), -1, -1), memory=x, where=where)[:, 0]


def pool(name: str, width: int, heads: int, length: int) -> Pool:
    """The pooling of that name: mean, max, first, flatten or attention."""
    known: dict[str, type[Pool]] = {"mean": Mean, "max": Max, "first": First}
    if name == "flatten":
        return Flatten(width, length)
    if name == "attention":
        return Attended(width, heads)
    if name not in known:
        raise unknown("pool", name, [*known, "flatten", "attention"])
    return known[name](width)
