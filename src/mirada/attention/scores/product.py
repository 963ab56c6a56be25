"""Scores that are dot products of what they prepare. Every fused kernel can run them."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.scores.score import Keys, Product, Queries, Score, Scores, glorot, per_head
from mirada.errors import require, require_known
from mirada.shapes import show


class Dot(Product):
    """The dot product, scaled.

    score(q, k) = scale * q.k

    `scale=None` is 1 / sqrt(dim), a number is itself (1.0: the raw dot product) and "learned" is a trained scalar that
    starts at 1, as Keras' `use_scale`. The scale is inside the softmax: without it the scores of random vectors
    have variance dim, the softmax saturates and its gradient vanishes.

    Args:
        scale: what multiplies q.k: None is 1 / sqrt(dim), a number is itself, "learned" a trained scalar that starts
            at 1.

    >>> q, k = torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[1.0, 1.0]]]])
    >>> round(Dot()(q, k).item(), 4), Dot(scale=1.0)(q, k).item()
    (4.9497, 7.0)

    Luong, Pham and Manning (2015), arXiv:1508.04025; Vaswani et al. (2017), arXiv:1706.03762, 3.2.1.
    """

    scale: float | Tensor | None
    fitted: float | None = None  # the scale, where it is the default as counted by the heads of a layer

    def __init__(self, scale: float | Literal["learned"] | None = None) -> None:
        super().__init__()
        if isinstance(scale, str):
            require_known("scale", scale, ["learned"])
            self.scale = nn.Parameter(torch.ones(()))
        else:
            require(scale is None or math.isfinite(scale), f"scale must be a finite number: got {scale}")
            self.scale = scale

    @property
    def by_default(self) -> bool:
        """Whether the scale was not chosen: 1 / sqrt(dim), by the dim of a query or the `scale_dim` of a layer's heads."""
        return self.scale is None or (isinstance(self.scale, float) and self.scale == self.fitted)

    def factor(self, dim: int) -> float | Tensor:
        """The number that multiplies q.k."""
        return dim**-0.5 if self.scale is None else self.scale

    def queries(self, q: Queries) -> Tensor:
        return q * self.factor(q.shape[-1])

    def check(self, q: Queries, k: Keys) -> None:
        if q.shape[-1] != k.shape[-1]:
            raise ValueError(
                f"a dot product needs queries and keys of one dim: got q {show(q)}, k {show(k)}. Use Bilinear for two dims."
            )

    def extra_repr(self) -> str:
        learned = isinstance(self.scale, nn.Parameter)
        return "scale='learned'" if learned else "" if self.scale is None else f"scale={self.scale:.6g}"


class Bilinear(Product):
    """A dot product through a trained matrix: Luong's "general" score.

    score(q, k) = scale * q^T W k

    W is dim_q x dim_k, so queries and keys may differ in size. A dot product of linear projections is this score with
    W = W_q^T W_k. The scale changes what is learned quickly, not what can be learned: a step of Adam moves all of W, so with
    1.0, as in the paper, wide states saturate the softmax within a few steps; `scale=None` is 1 / sqrt(dim_q).

    Args:
        dim_q: numbers in a query.
        dim_k: numbers in a key.
        heads: matrices, one per head; 1 shares one.
        scale: what multiplies q^T W k; None is 1 / sqrt(dim_q).

    >>> score = Bilinear(2, 3)
    >>> _ = score.weight.data.copy_(torch.tensor([[[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]]))
    >>> score(torch.tensor([[[[1.0, 1.0]]]]), torch.tensor([[[[1.0, 2.0, 3.0]]]])).item()
    9.0

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.1.
    """

    def __init__(self, dim_q: int, dim_k: int, heads: int = 1, scale: float | None = 1.0) -> None:
        super().__init__()
        require(scale is None or math.isfinite(scale), f"scale must be a finite number: got {scale}")
        self.dims, self.heads, self.scale = (dim_q, dim_k), heads, scale
        self.weight = nn.Parameter(glorot(heads, dim_q, dim_k))

    def queries(self, q: Queries) -> Tensor:
        return q if self.scale == 1 else Dot(scale=self.scale).queries(q)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("hqk,bhnk->bhnq", per_head(self.weight, k), k)

    def ready(self) -> Score:
        kind = type(self)
        plain = kind.compare is Product.compare and kind.queries is Bilinear.queries
        return Dot(scale=self.scale) if plain else super().ready()

    def extra_repr(self) -> str:
        scaled = "" if self.scale == 1 else f", scale={self.scale}"
        return f"{self.dims[0]}, {self.dims[1]}, heads={self.heads}{scaled}"


class QKNorm(Product):
    """A trained scale times the cosine of query and key.

    score(q, k) = g * (q / |q|).(k / |k|)

    Scores stay within g, so a softmax does not saturate. The paper starts g at log2(L^2 - L) for texts of L words. The norm
    with a weight per number, and before a position rotates, is `MultiHead(qk_norm=...)`.

    Args:
        scale: where g starts.

    >>> QKNorm(scale=5.0)(torch.tensor([[[[3.0, 4.0]]]]), torch.tensor([[[[6.0, 8.0]]]])).item()
    5.0

    Henry et al. (2020), arXiv:2010.04245.
    """

    heads = 1

    def __init__(self, scale: float = 10.0) -> None:
        super().__init__()
        require(math.isfinite(scale), f"scale must be a finite number: got {scale}")
        self.scale = nn.Parameter(torch.tensor(float(scale)))

    def queries(self, q: Queries) -> Tensor:
        return self.scale.to(q.dtype) * F.normalize(q, dim=-1)

    def keys(self, k: Keys) -> Tensor:
        return F.normalize(k, dim=-1)

    def check(self, q: Queries, k: Keys) -> None:
        Dot().check(q, k)

    def extra_repr(self) -> str:
        return f"scale={self.scale.item():g}" if not self.scale.is_meta else ""


class Softcap(Score):
    """Another score, squashed into -cap ... cap.

    score(q, k) = cap * tanh(inner(q, k) / cap)

    Args:
        cap: the bound.
        score: the score inside; None is `Dot()`.

    >>> Softcap(2.0, Dot(scale=1.0))(torch.tensor([[[[100.0]]]]), torch.tensor([[[[1.0], [0.0]]]])).tolist()
    [[[[2.0, 0.0]]]]

    Gemma Team (2024), arXiv:2408.00118.
    """

    def __init__(self, cap: float, score: Score | None = None) -> None:
        super().__init__()
        require(math.isfinite(cap) and cap > 0, f"cap must be positive: got {cap}")
        self.cap, self.score = cap, Dot() if score is None else score
        inner = self.score
        self.heads, self.pair_width, self.reads_keys, self.dims = (
            inner.heads,
            inner.pair_width,
            inner.reads_keys,
            inner.dims,
        )
        self.features = inner.features

    def queries(self, q: Queries) -> Tensor:
        return self.score.queries(q)

    def keys(self, k: Keys) -> Tensor:
        return self.score.keys(k)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return self.cap * torch.tanh(self.score.compare(q, k) / self.cap)

    def aligned(self, q: Tensor, k: Tensor) -> Float[Tensor, "batch heads pairs"]:
        return self.cap * torch.tanh(self.score.aligned(q, k) / self.cap)

    def add_features(self, q: Tensor, features: Float[Tensor, "pairs features"]) -> Tensor:
        return self.score.add_features(q, features)

    def check(self, q: Queries, k: Keys) -> None:
        self.score.check(q, k)

    def extra_repr(self) -> str:
        return f"{self.cap:g}"
