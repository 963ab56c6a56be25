"""How alike are a query and a key? Each score maps (q, k) to a number per pair, before mask and normalizer.

A score is a module with three steps: prepare the queries, prepare the keys, compare. Preparing is linear in the length
and is done once; comparing is what a kernel repeats. A score whose comparison is a plain dot product of what was prepared
is a `Product`, and every fused kernel can run it.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mirada.errors import require, unknown
from mirada.shapes import show

Queries = Float[Tensor, "batch heads queries dim"]
Keys = Float[Tensor, "batch heads keys dim"]
Scores = Float[Tensor, "batch heads queries keys"]


class Score(nn.Module):
    """score(q, k) = compare(queries(q), keys(k)), of shape (batch, heads, queries, keys)."""

    heads: int = 1  # 1: shared by all heads
    pair_width: int = 1  # numbers held in memory for one pair while comparing
    reads_keys: bool = True  # False: the score looks at positions or queries only

    def queries(self, q: Queries) -> Tensor:
        """What the comparison needs of the queries."""
        return q

    def keys(self, k: Keys) -> Tensor:
        """What the comparison needs of the keys."""
        return k

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        """The scores of prepared queries against prepared keys."""
        raise NotImplementedError

    def check(self, q: Queries, k: Keys) -> None:
        """Raise a ValueError if these shapes cannot be scored."""
        heads = q.shape[1]
        require(
            self.heads in (1, heads),
            f"{self} is made for heads={self.heads}: got heads={heads}. Build it with heads={heads}, or heads=1 to share.",
        )

    def forward(self, q: Queries, k: Keys) -> Scores:
        self.check(q, k)
        return self.compare(self.queries(q), self.keys(k))


class Product(Score):
    """A score that is a dot product of what it prepares: q'.k'."""

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return q @ k.transpose(-2, -1)


class Dot(Product):
    """The dot product, scaled.

    score(q, k) = scale * q.k

    `scale=None` is 1 / sqrt(dim), a number is itself (1.0: the raw dot product) and "learned" is a trained scalar that
    starts at 1, as Keras' `use_scale`. The scale is inside the softmax: without it the scores of random vectors
    have variance dim, the softmax saturates and its gradient vanishes.

    >>> q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 1.0]]]])
    >>> Dot()(q, k).item() == 7 / 2**0.5, Dot(scale=1.0)(q, k).item()
    (True, 7.0)

    Luong, Pham and Manning (2015), arXiv:1508.04025; Vaswani et al. (2017), arXiv:1706.03762, 3.2.1.
    """

    scale: float | Tensor | None

    def __init__(self, scale: float | Literal["learned"] | None = None) -> None:
        super().__init__()
        if isinstance(scale, str):
            if scale != "learned":
                raise unknown("scale", scale, ["learned"])
            self.scale = nn.Parameter(torch.ones(()))
        else:
            require(scale is None or math.isfinite(scale), f"scale must be a finite number: got {scale}")
            self.scale = scale

    def factor(self, dim: int) -> float | Tensor:
        """The number that multiplies q.k."""
        return dim**-0.5 if self.scale is None else self.scale

    def queries(self, q: Queries) -> Tensor:
        return q * self.factor(q.shape[-1])

    def check(self, q: Queries, k: Keys) -> None:
        require(
            q.shape[-1] == k.shape[-1],
            f"a dot product needs queries and keys of one dim: got q {show(q)}, k {show(k)}. Use Bilinear for two dims.",
        )

    def extra_repr(self) -> str:
        learned = isinstance(self.scale, nn.Parameter)
        return "scale='learned'" if learned else "" if self.scale is None else f"scale={self.scale:.6g}"


class Bilinear(Product):
    """A dot product through a trained matrix: Luong's "general" score.

    score(q, k) = q^T W k

    W is dim_q x dim_k, so queries and keys may differ in size. A dot product of linear projections is this score with
    W = W_q^T W_k.

    >>> score = Bilinear(2, 3)
    >>> _ = score.weight.data.copy_(torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]]))
    >>> score(torch.tensor([[[[1.0, 1.0]]]]), torch.tensor([[[[1.0, 2.0, 3.0]]]])).item()
    9.0

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.1.
    """

    def __init__(self, dim_q: int, dim_k: int, heads: int = 1) -> None:
        super().__init__()
        self.dim_q, self.dim_k, self.heads = dim_q, dim_k, heads
        self.weight = nn.Parameter(glorot(heads, dim_q, dim_k))

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hqk,bhnk->bhnq", per_head(self.weight, k), k)

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        check_dims(self, q, k, self.dim_q, self.dim_k)

    def extra_repr(self) -> str:
        return f"{self.dim_q}, {self.dim_k}, heads={self.heads}"


class Additive(Score):
    """Compare a query with a key through one hidden layer.

    score(q, k) = v . tanh(W_q q + W_k k + b)

    The lectures call it additive, MLP or Bahdanau attention. Memory grows as queries x keys x hidden, so kernels work
    through the queries in chunks; W_k k is computed once.

    >>> Additive(4, 4, hidden=8)(torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 7, 4)).shape
    torch.Size([2, 3, 5, 7])

    Bahdanau, Cho and Bengio (2015), arXiv:1409.0473, A.1.2.
    """

    def __init__(self, dim_q: int, dim_k: int, hidden: int, heads: int = 1) -> None:
        super().__init__()
        self.dim_q, self.dim_k, self.heads, self.pair_width = dim_q, dim_k, heads, hidden
        self.query = nn.Parameter(glorot(heads, hidden, dim_q))
        self.key = nn.Parameter(glorot(heads, hidden, dim_k))
        self.bias = nn.Parameter(torch.zeros(heads, 1, hidden))
        self.v = nn.Parameter(glorot(heads, hidden, 1).squeeze(-1))

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.query, q), q) + self.bias

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.key, k), k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        hidden = torch.tanh(rearrange(q, "b h q c -> b h q 1 c") + rearrange(k, "b h k c -> b h 1 k c"))
        return torch.einsum("bhqkc,hc->bhqk", hidden, per_head(self.v, q))

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        check_dims(self, q, k, self.dim_q, self.dim_k)

    def extra_repr(self) -> str:
        return f"{self.dim_q}, {self.dim_k}, hidden={self.pair_width}, heads={self.heads}"


class Concat(Score):
    """Luong's concatenation score; with `hidden=None` its linear form.

    score(q, k) = v . tanh(W [q; k])        hidden given
    score(q, k) = w . [q; k]                hidden=None

    W [q; k] = W_1 q + W_2 k, so each side is projected once. In the linear form the query's term is the same for every key
    and cancels in a softmax: the weights cannot depend on the query.

    >>> linear = Concat(1, 1, hidden=None)
    >>> _ = linear.weight.data.copy_(torch.tensor([[[2.0, 3.0]]]))
    >>> linear(torch.tensor([[[[1.0]]]]), torch.tensor([[[[5.0], [7.0]]]])).tolist()
    [[[[17.0, 23.0]]]]

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.1.
    """

    def __init__(self, dim_q: int, dim_k: int, hidden: int | None, heads: int = 1) -> None:
        super().__init__()
        self.dim_q, self.dim_k, self.hidden, self.heads = dim_q, dim_k, hidden, heads
        self.pair_width = hidden or 1
        self.weight = nn.Parameter(glorot(heads, hidden or 1, dim_q + dim_k))
        self.v = None if hidden is None else nn.Parameter(glorot(heads, hidden, 1).squeeze(-1))

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.weight[..., : self.dim_q], q), q)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hcd,bhnd->bhnc", per_head(self.weight[..., self.dim_q :], k), k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        if self.v is None:
            return q + k.transpose(-2, -1)
        hidden = torch.tanh(rearrange(q, "b h q c -> b h q 1 c") + rearrange(k, "b h k c -> b h 1 k c"))
        return torch.einsum("bhqkc,hc->bhqk", hidden, per_head(self.v, q))

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        check_dims(self, q, k, self.dim_q, self.dim_k)

    def extra_repr(self) -> str:
        return f"{self.dim_q}, {self.dim_k}, hidden={self.hidden}, heads={self.heads}"


class TanhSum(Score):
    """Keras' score without projections: `AdditiveAttention`, and `Attention(score_mode="concat")`.

    score(q, k) = sum over dim of weight * tanh(scale * (q + k))

    `weight` is "vector" (one number per dim, AdditiveAttention's `use_scale`), "scalar" (one for all, the concat mode's
    `concat_score_weight`) or None (ones). `scale` is None (1) or "learned" (a scalar that starts at 1).
    It has no projections, so it is not Bahdanau's score.

    >>> TanhSum(2)(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[-1.0, 50.0]]]])).item()
    1.0

    Keras 3, `keras.layers.AdditiveAttention`.
    """

    def __init__(
        self,
        dim: int,
        weight: Literal["vector", "scalar"] | None = "vector",
        scale: Literal["learned"] | None = None,
    ) -> None:
        super().__init__()
        shapes: dict[str, tuple[int, ...]] = {"vector": (dim,), "scalar": ()}
        if weight is not None and weight not in shapes:
            raise unknown("weight", weight, shapes)
        if scale not in (None, "learned"):
            raise unknown("scale", scale, ["learned"])
        self.pair_width = dim
        self.weight = nn.Parameter(torch.ones(shapes[weight])) if weight else None
        self.scale = nn.Parameter(torch.ones(())) if scale else None

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        total = rearrange(q, "b h q d -> b h q 1 d") + rearrange(k, "b h k d -> b h 1 k d")
        squashed = torch.tanh(total if self.scale is None else self.scale * total)
        return (squashed if self.weight is None else squashed * self.weight).sum(-1)

    def check(self, q: Queries, k: Keys) -> None:
        check_dims(self, q, k, self.pair_width, self.pair_width)

    def extra_repr(self) -> str:
        return f"{self.pair_width}"


class Location(Score):
    """Where to look follows from the query alone.

    score(q, k_j) = (W q)_j,  W with max_keys rows

    The keys are not read, only counted: W q is cut to their number, and the mask is applied before the softmax.

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
        return q @ self.weight[: k.shape[-2]].T

    def check(self, q: Queries, k: Keys) -> None:
        check_dims(self, q, k, self.dim_q, k.shape[-1])
        require(
            k.shape[-2] <= self.max_keys,
            f"Location has rows for max_keys={self.max_keys}: got keys={k.shape[-2]}. Build it larger or cut the source.",
        )

    def extra_repr(self) -> str:
        return f"{self.dim_q}, max_keys={self.max_keys}"


class Graph(Score):
    """Graph attention (GAT): a rank-one score of projected nodes.

    score(q, k) = LeakyReLU(a_q.q + a_k.k), slope 0.2

    With `Tied` heads q_i = W h_i and k_j = W h_j, so this is LeakyReLU(a.[W h_i; W h_j]). It ranks the neighbors alike
    for every query; `GraphV2` does not.

    >>> score = Graph(dim=1, heads=1)
    >>> _ = score.query.data.fill_(1), score.key.data.fill_(2)
    >>> score(torch.tensor([[[[1.0]]]]), torch.tensor([[[[1.0], [-1.0]]]])).tolist()
    [[[[3.0, -0.20000000298023224]]]]

    Veličković et al. (2018), arXiv:1710.10903, 2.1.
    """

    slope: float = 0.2

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        self.query = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))
        self.key = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("bhnd,hd->bhn", q, per_head(self.query, q)).unsqueeze(-1)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("bhnd,hd->bhn", k, per_head(self.key, k)).unsqueeze(-1)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return F.leaky_relu(q + k.transpose(-2, -1), self.slope)

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        check_dims(self, q, k, self.dim, self.dim)

    def extra_repr(self) -> str:
        return f"{self.dim}, heads={self.heads}"


class GraphV2(Score):
    """Dynamic graph attention (GATv2): the nonlinearity comes before the vector a.

    score(q, k) = a . LeakyReLU(q + k), slope 0.2

    With q_i = W_1 h_i and k_j = W_2 h_j this is a.LeakyReLU(W [h_i; h_j]): each query can rank the neighbors its own way.

    >>> score = GraphV2(dim=2, heads=1)
    >>> _ = score.weight.data.fill_(1)
    >>> round(score(torch.tensor([[[[1.0, -3.0]]]]), torch.tensor([[[[1.0, 1.0]]]])).item(), 6)
    1.6

    Brody, Alon and Yahav (2022), arXiv:2105.14491.
    """

    slope: float = 0.2

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.pair_width, self.heads = dim, heads
        self.weight = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        total = rearrange(q, "b h q d -> b h q 1 d") + rearrange(k, "b h k d -> b h 1 k d")
        return torch.einsum("bhqkd,hd->bhqk", F.leaky_relu(total, self.slope), per_head(self.weight, q))

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        check_dims(self, q, k, self.pair_width, self.pair_width)

    def extra_repr(self) -> str:
        return f"{self.pair_width}, heads={self.heads}"


class Offset(Score):
    """A trained number per offset on a grid, whatever stands there.

    score(i, j) = w[row(j) - row(i), column(j) - column(i)] for offsets up to `radius`, 0 beyond

    With `where=Grid(height, width, radius)`, `normalizer=Identity()` and one head per channel this is a depthwise
    convolution: unbounded weights on a grid graph, values left as they are. The convolution's bias is the heads' own,
    `Split(channels, heads=channels, bias=True)`. With `Softmax` it is a learned local average.

    >>> score = Offset(1, 3)
    >>> _ = score.weight.data.copy_(torch.arange(9.0).view(1, 3, 3))
    >>> score(torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1)).tolist()
    [[[[4.0, 5.0, 0.0], [3.0, 4.0, 5.0], [0.0, 3.0, 4.0]]]]

    Bronstein et al. (2021), arXiv:2104.13478.
    """

    reads_keys = False

    def __init__(self, height: int, width: int, radius: int = 1, heads: int = 1) -> None:
        super().__init__()
        require(
            height >= 1 and width >= 1 and radius >= 0,
            f"a grid needs height, width >= 1 and radius >= 0: got {height}, {width}, radius={radius}",
        )
        self.height, self.width, self.radius, self.heads = height, width, radius, heads
        side = 2 * radius + 1
        self.weight = nn.Parameter(torch.empty(heads, side, side).uniform_(-1 / side, 1 / side))

    def queries(self, q: Queries) -> Tensor:
        cells = torch.arange(self.height * self.width, device=q.device)
        return cells.view(1, 1, -1, 1).expand(*q.shape[:2], -1, -1)

    def keys(self, k: Keys) -> Tensor:
        return self.queries(k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        i, j = q[0, 0], k[0, 0].T
        down, right = j // self.width - i // self.width, j % self.width - i % self.width
        near = (down.abs() <= self.radius) & (right.abs() <= self.radius)
        down, right = (offset.clamp(-self.radius, self.radius) + self.radius for offset in (down, right))
        scores = self.weight[:, down, right].masked_fill(~near, 0)
        return scores.expand(q.shape[0], q.shape[1], -1, -1)

    def check(self, q: Queries, k: Keys) -> None:
        super().check(q, k)
        cells = self.height * self.width
        require(
            q.shape[-2] == cells == k.shape[-2],
            f"Offset is made for a grid of {self.height} x {self.width} = {cells} cells: "
            f"got queries={q.shape[-2]}, keys={k.shape[-2]}. Flatten the grid row by row.",
        )

    def extra_repr(self) -> str:
        return f"{self.height}, {self.width}, radius={self.radius}, heads={self.heads}"


def per_head(parameter: Tensor, like: Tensor) -> Tensor:
    """A parameter with one row for all heads, or one per head, as one per head of `like`."""
    return parameter.expand(like.shape[1], *parameter.shape[1:])


def glorot(heads: int, rows: int, columns: int) -> Tensor:
    """Uniform numbers of variance 2 / (rows + columns) for each head (Glorot and Bengio, 2010)."""
    require(min(heads, rows, columns) >= 1, f"sizes must be at least 1: got heads={heads}, {rows} x {columns}")
    bound = math.sqrt(6 / (rows + columns))
    return torch.empty(heads, rows, columns).uniform_(-bound, bound)


def check_dims(score: Score, q: Tensor, k: Tensor, dim_q: int, dim_k: int) -> None:
    """Require the last axes that a score was made for."""
    require(
        q.shape[-1] == dim_q and k.shape[-1] == dim_k,
        f"{score} needs queries of dim {dim_q} and keys of dim {dim_k}: got q {show(q)}, k {show(k)}",
    )
