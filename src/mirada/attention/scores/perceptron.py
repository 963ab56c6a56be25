"""Scores with a tanh between query and key. They hold a vector per pair."""

from typing import Literal

import torch
from einops import rearrange
from torch import Tensor, nn

from mirada.attention.scores.score import Keys, Queries, Score, Scores, glorot, per_head
from mirada.errors import require_known


class Additive(Score):
    """Compare a query with a key through one hidden layer.

    score(q, k) = v . tanh(W_q q + W_k k + b)

    The lectures call it additive, MLP or Bahdanau attention. Memory grows as queries x keys x hidden, so kernels work
    through the queries in chunks; W_k k is computed once.

    Args:
        dim_q: numbers in a query.
        dim_k: numbers in a key.
        hidden: numbers in the hidden layer.
        heads: sets of parameters, one per head; 1 shares one.

    >>> Additive(4, 4, hidden=8)(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 7, 4)).shape
    torch.Size([2, 3, 5, 7])

    Bahdanau, Cho and Bengio (2015), arXiv:1409.0473, A.1.2.
    """

    def __init__(self, dim_q: int, dim_k: int, hidden: int, heads: int = 1) -> None:
        super().__init__()
        self.dims, self.heads, self.pair_width = (dim_q, dim_k), heads, hidden
        self.query = nn.Parameter(glorot(heads, hidden, dim_q))
        self.key = nn.Parameter(glorot(heads, hidden, dim_k))
        self.bias = nn.Parameter(torch.zeros(heads, 1, hidden))
        self.v = nn.Parameter(glorot(heads, hidden, 1).squeeze(-1))

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.query, q), q) + self.bias.to(q.dtype)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.key, k), k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return _through_tanh(q, k, self.v)

    def extra_repr(self) -> str:
        return f"{self.dims[0]}, {self.dims[1]}, hidden={self.pair_width}, heads={self.heads}"


class Concat(Score):
    """Luong's concatenation score; with `hidden=None` its linear form.

    score(q, k) = v . tanh(W [q; k])        hidden given
    score(q, k) = w . [q; k]                hidden=None

    W [q; k] = W_1 q + W_2 k, so each side is projected once. In the linear form the query's term is the same for every key
    and cancels in a softmax: the weights cannot depend on the query.

    Args:
        dim_q: numbers in a query.
        dim_k: numbers in a key.
        hidden: numbers in the hidden layer; None for the linear form.
        heads: sets of parameters, one per head; 1 shares one.

    >>> linear = Concat(1, 1, hidden=None)
    >>> _ = linear.weight.data.copy_(torch.tensor([[[2.0, 3.0]]]))
    >>> linear(torch.tensor([[[[1.0]]]]), torch.tensor([[[[5.0], [7.0]]]])).tolist()
    [[[[17.0, 23.0]]]]

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.1.
    """

    def __init__(self, dim_q: int, dim_k: int, hidden: int | None, heads: int = 1) -> None:
        super().__init__()
        self.dims, self.hidden, self.heads = (dim_q, dim_k), hidden, heads
        self.pair_width = hidden or 1
        self.weight = nn.Parameter(glorot(heads, hidden or 1, dim_q + dim_k))
        self.v = None if hidden is None else nn.Parameter(glorot(heads, hidden, 1).squeeze(-1))

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.weight[..., : self.dims[0]], q), q)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.weight[..., self.dims[0] :], k), k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        if self.v is None:
            return q + k.transpose(-2, -1)
        return _through_tanh(q, k, self.v)

    def extra_repr(self) -> str:
        return f"{self.dims[0]}, {self.dims[1]}, hidden={self.hidden}, heads={self.heads}"


class TanhSum(Score):
    """Keras' score without projections: `AdditiveAttention`, and `Attention(score_mode="concat")`.

    score(q, k) = sum over dim of weight * tanh(scale * (q + k))

    `weight` is "vector" (one number per dim, AdditiveAttention's `use_scale`), "scalar" (one for all, the concat mode's
    `concat_score_weight`) or None (ones). `scale` is None (1) or "learned" (a scalar that starts at 1).
    It has no projections, so it is not Bahdanau's score.

    Args:
        dim: numbers in a query, and in a key.
        weight: "vector", "scalar" or None.
        scale: "learned" or None.

    >>> TanhSum(2)(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[-1.0, 50.0]]]])).item()
    1.0

    Keras 3, `keras.layers.AdditiveAttention`.
    """

    def __init__(
        self, dim: int, weight: Literal["vector", "scalar"] | None = "vector", scale: Literal["learned"] | None = None
    ) -> None:
        super().__init__()
        shapes: dict[str, tuple[int, ...]] = {"vector": (dim,), "scalar": ()}
        require_known("weight", "vector" if weight is None else weight, shapes)
        require_known("scale", "learned" if scale is None else scale, ["learned"])
        self.pair_width, self.dims = dim, (dim, dim)
        self.weight = nn.Parameter(torch.ones(shapes[weight])) if weight else None
        self.scale = nn.Parameter(torch.ones(())) if scale else None

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        total = rearrange(q, "b h q d -> b h q 1 d") + rearrange(k, "b h k d -> b h 1 k d")
        squashed = torch.tanh(total if self.scale is None else self.scale.to(q.dtype) * total)
        return (squashed if self.weight is None else squashed * self.weight.to(q.dtype)).sum(-1)

    def extra_repr(self) -> str:
        return f"{self.pair_width}"


def _through_tanh(q: Tensor, k: Tensor, v: Tensor) -> Scores:
    """v . tanh(q + k) for every pair of prepared queries and keys."""
    hidden = torch.tanh(rearrange(q, "b h q c -> b h q 1 c") + rearrange(k, "b h k c -> b h 1 k c"))
    return torch.einsum("bhqkc,hc->bhqk", hidden, per_head(v, q))
