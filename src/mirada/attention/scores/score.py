"""What a score is: prepare the queries, prepare the keys, compare."""

import math
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from mirada.attention.transforms import place_of, refuse_alone
from mirada.errors import require
from mirada.shapes import show

Queries = Float[Tensor, "batch heads queries dim"]
Keys = Float[Tensor, "batch kheads keys kdim"]
Scores = Float[Tensor, "batch heads queries keys"]
PACKAGE = __name__.rpartition(".")[0]


class Score(nn.Module):
    """score(q, k) = compare(queries(q), keys(k)), of shape (batch, heads, queries, keys).

    A subclass implements `compare` and, where that saves work, `queries` and `keys`, which prepare each side once. It says
    whether it has parameters per head (`heads`) and which sizes it takes (`dims`).

    Args:
        The base class takes none; a subclass declares its own.

    >>> class Distance(Score):
    ...     def compare(self, q, k):
    ...         return -torch.cdist(q, k)
    >>> Distance()(torch.zeros(1, 1, 1, 2), torch.tensor([[[[3.0, 4.0]]]])).item()
    -5.0
    """

    heads: int = 1  # 1: shared by all heads
    pair_width: int = 1  # numbers held in memory for one pair while comparing
    reads_keys: bool = True  # False: the score looks at positions or queries only
    dims: tuple[int, ...] = ()  # numbers in a query and in a key; empty: any
    features: int = 0  # numbers of an edge that the score reads

    def __init_subclass__(cls, **given: Any) -> None:
        """A class with its own `compare` uses it for single pairs too, unless it defines `aligned` as well."""
        super().__init_subclass__(**given)
        refuse_alone(cls, "forward", "compare", "which no kernel calls: write compare(q, k), or queries(q) and keys(k)")
        if cls.aligned is Score.aligned:
            return
        kept = f"compare = {cls.__mro__[place_of(cls, 'compare')].__name__}.compare"
        refuse_alone(
            cls, "aligned", "compare",
            f"and kernels that compare all pairs do not ask it: write compare next to it, or {kept} to keep it",
        )  # fmt: skip
        if place_of(cls, "compare") < place_of(cls, "aligned"):
            cls.aligned = Score.aligned  # type: ignore[method-assign]

    def queries(self, q: Queries) -> Tensor:
        """What the comparison needs of the queries."""
        return q

    def keys(self, k: Keys) -> Tensor:
        """What the comparison needs of the keys."""
        return k

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        """The scores of prepared queries against prepared keys."""
        raise NotImplementedError

    def aligned(self, q: Tensor, k: Tensor) -> Float[Tensor, "batch heads pairs"]:
        """The score of the n-th prepared query with the n-th prepared key."""
        batch, pairs = q.shape[0], q.shape[2]
        q, k = (rearrange(x, "b h n c -> (b n) h 1 c") for x in (q, k))
        return rearrange(self.compare(q, k), "(b n) h 1 1 -> b h n", b=batch, n=pairs)

    def add_features(self, q: Tensor, features: Float[Tensor, "pairs features"]) -> Tensor:
        """The prepared queries of some pairs, with what the features of each pair add: for `aligned`."""
        raise NotImplementedError

    def ready(self) -> "Score":
        """This score for keys that `keys` has prepared already."""
        return self if type(self).keys is Score.keys else PreparedScore(self)

    def check(self, q: Queries, k: Keys) -> None:
        """Raise a ValueError if these shapes cannot be scored."""
        heads = q.shape[1]
        if self.heads not in (1, heads):
            raise ValueError(
                f"{self} is made for heads={self.heads}: got heads={heads}. Build it with heads={heads}, or heads=1 to share."
            )
        if self.dims and self.dims != (q.shape[-1], k.shape[-1]):
            dim_q, dim_k = self.dims
            message = f"{self} needs queries of dim {dim_q} and keys of dim {dim_k}: got q {show(q)}, k {show(k)}"
            raise ValueError(message)

    def forward(self, q: Queries, k: Keys) -> Scores:
        """The scores of queries (batch, heads, queries, dim) and keys (batch, heads, keys, dim), checked first."""
        self.check(q, k)
        return self.compare(self.queries(q), self.keys(k))


class PreparedScore(Score):
    """A score whose keys were prepared once, to be compared with many queries."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.heads, self.pair_width, self.reads_keys = score.heads, score.pair_width, score.reads_keys
        self.features = score.features

    def add_features(self, q: Tensor, features: Float[Tensor, "pairs features"]) -> Tensor:
        return self.score.add_features(q, features)

    def queries(self, q: Queries) -> Tensor:
        return self.score.queries(q)

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return self.score.compare(q, k)


class Product(Score):
    """A score that is a dot product of what it prepares: q'.k'. Every fused kernel can compute it.

    A subclass implements `queries`, `keys` or both, and leaves `compare` as it is.

    Args:
        The base class takes none; a subclass declares its own.

    >>> class Halved(Product):
    ...     def queries(self, q):
    ...         return q / 2
    >>> Halved()(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4)).item()
    2.0
    """

    def compare(self, q: Tensor, k: Tensor) -> Scores:
        return q @ k.transpose(-2, -1)

    def aligned(self, q: Tensor, k: Tensor) -> Float[Tensor, "batch heads pairs"]:
        return (q * k).sum(-1)


def scores_heads_alike(score: Score) -> bool:
    """Whether every head is known to be scored in the same way, independent of the other heads.

    `heads = 1` declares it, in the scores of this package and in a class that sets it itself. A class that does not may have
    parameters per head.

    Args:
        score: the score in question.

    >>> from mirada.attention.scores import Additive, Dot
    >>> scores_heads_alike(Dot()), scores_heads_alike(Additive(4, 4, hidden=8, heads=2))
    (True, False)
    """
    score = score.score if isinstance(score, PreparedScore) else score
    while isinstance(inner := getattr(score, "score", None), Score):
        score = inner
    known = type(score).__module__.startswith(PACKAGE) or "heads" in vars(type(score))
    return known and score.heads == 1


def per_head(parameter: Tensor, like: Tensor) -> Tensor:
    """A parameter with one row for all heads, or one per head, as one per head of `like` and in its precision."""
    return parameter.to(like.dtype).expand(like.shape[1], *parameter.shape[1:])


def glorot(heads: int, rows: int, columns: int) -> Tensor:
    """Uniform numbers of variance 2 / (rows + columns) for each head (Glorot and Bengio, 2010)."""
    require(min(heads, rows, columns) >= 1, f"sizes must be at least 1: got heads={heads}, {rows} x {columns}")
    bound = math.sqrt(6 / (rows + columns))
    return torch.empty(heads, rows, columns).uniform_(-bound, bound)
