"""Scores of graph attention."""

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.scores.score import Keys, Queries, Score, Scores, glorot, per_head


class Graph(Score):
    """Graph attention (GAT): a rank-one score of projected nodes.

    score(q, k) = LeakyReLU(a_q.q + a_k.k), slope 0.2;   with features e of the edge, LeakyReLU(a_q.q + a_k.k + a_e.e)

    With `Tied` heads q_i = W h_i and k_j = W h_j, so this is LeakyReLU(a.[W h_i; W h_j]). It ranks the neighbors alike
    for every query; `GraphV2` does not.

    Args:
        dim: numbers in a query, and in a key.
        heads: pairs of vectors a_q, a_k, one pair per head.
        features: numbers of an edge, which `Edges(..., features=)` brings; 0 for none.

    >>> score = Graph(dim=1, heads=1)
    >>> _ = score.query.data.fill_(1), score.key.data.fill_(2)
    >>> score(torch.tensor([[[[1.0]]]]), torch.tensor([[[[1.0], [-1.0]]]])).tolist()
    [[[[3.0, -0.20000000298023224]]]]

    Veličković et al. (2018), arXiv:1710.10903, 2.1.
    """

    slope: float = 0.2

    def __init__(self, dim: int, heads: int, features: int = 0) -> None:
        super().__init__()
        self.dims, self.heads, self.features = (dim, dim), heads, features
        self.query = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))
        self.key = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))
        self.edge = nn.Parameter(glorot(heads, features, 1).squeeze(-1)) if features else None

    def queries(self, q: Queries) -> Tensor:
        return torch.einsum("bhnd,hd->bhn", q, per_head(self.query, q)).unsqueeze(-1)

    def keys(self, k: Keys) -> Tensor:
        return torch.einsum("bhnd,hd->bhn", k, per_head(self.key, k)).unsqueeze(-1)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return F.leaky_relu(q + k.transpose(-2, -1), self.slope)

    def aligned(self, q: Tensor, k: Tensor) -> Tensor:
        return F.leaky_relu(q + k, self.slope).squeeze(-1)

    def add_features(self, q: Tensor, features: Float[Tensor, "pairs features"]) -> Tensor:
        assert self.edge is not None
        return q + torch.einsum("pf,hf->hp", features, per_head(self.edge, q)).unsqueeze(-1)

    def extra_repr(self) -> str:
        return f"{self.dims[0]}, heads={self.heads}" + (f", features={self.features}" if self.features else "")


class GraphV2(Score):
    """Dynamic graph attention (GATv2): the nonlinearity comes before the vector a.

    score(q, k) = a . LeakyReLU(q + k), slope 0.2;   with features e of the edge, a . LeakyReLU(q + k + W_e e)

    With q_i = W_1 h_i and k_j = W_2 h_j this is a.LeakyReLU(W [h_i; h_j]): each query can rank the neighbors its own way.

    Args:
        dim: numbers in a query, and in a key.
        heads: vectors a, one per head.
        features: numbers of an edge, which `Edges(..., features=)` brings; 0 for none.

    >>> score = GraphV2(dim=2, heads=1)
    >>> _ = score.weight.data.fill_(1)
    >>> round(score(torch.tensor([[[[1.0, -3.0]]]]), torch.tensor([[[[1.0, 1.0]]]])).item(), 6)
    1.6

    Brody, Alon and Yahav (2022), arXiv:2105.14491.
    """

    slope: float = 0.2

    def __init__(self, dim: int, heads: int, features: int = 0) -> None:
        super().__init__()
        self.dims, self.pair_width, self.heads, self.features = (dim, dim), dim, heads, features
        self.weight = nn.Parameter(glorot(heads, dim, 1).squeeze(-1))
        self.edge = nn.Parameter(glorot(heads, dim, features)) if features else None

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        total = rearrange(q, "b h q d -> b h q 1 d") + rearrange(k, "b h k d -> b h 1 k d")
        return torch.einsum("bhqkd,hd->bhqk", F.leaky_relu(total, self.slope), per_head(self.weight, q))

    def add_features(self, q: Tensor, features: Float[Tensor, "pairs features"]) -> Tensor:
        assert self.edge is not None
        return q + torch.einsum("pf,hdf->hpd", features, per_head(self.edge, q))

    def extra_repr(self) -> str:
        return f"{self.pair_width}, heads={self.heads}" + (f", features={self.features}" if self.features else "")
