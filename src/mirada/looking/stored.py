"""A layer read from a file: what it says of itself, and its weights on demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mirada.errors import require
from mirada.looking.encodings import Codes, HalfProduct
from mirada.looking.statistics import Checks, HeadStatistics
from mirada.looking.stream import Factors, Stream


@dataclass(frozen=True)
class PrintedPart:
    """A part of a layer as it printed itself."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class StoredPlan:
    """The kernel that a stored layer ran on."""

    kernel: str


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Queries, keys and values as the file has them; queries and keys only where the score is their product."""

    values: Float[Tensor, "heads keys value_dim"]
    q: Float[Tensor, "heads queries dim"] | None = None
    k: Float[Tensor, "heads keys dim"] | None = None
    scale: float = 1.0
    plain: bool = False  # a softmax of their scaled product, inside the mask, is all there is


@dataclass(frozen=True, eq=False)
class StoredCall:
    """One layer of a file, asked like a call that was just recorded. Its batch has one sample."""

    name: str
    kind: str
    heads: int
    queries: int
    keys: int
    content: Codes | HalfProduct
    edges: Int[Tensor, "2 edges"] | None = None
    vectors: StoredVectors | None = None
    made_of: Mapping[str, str] = field(default_factory=dict)  # kernel, score, where, position, normalizer
    head_statistics: tuple[HeadStatistics, ...] | None = None
    stored_checks: Checks | None = None
    error: float | None = None  # how far the weights may be from those that were used
    start: int = 0  # a file says where its rows stand by the statistics that were written

    @property
    def batch(self) -> int:
        return 1

    @property
    def cached(self) -> bool:
        return False

    @property
    def dropout(self) -> float:
        return self.stored_checks.dropout if self.stored_checks else 0.0

    @property
    def where(self) -> PrintedPart:
        return PrintedPart(self.made_of.get("where", ""))

    @property
    def plan(self) -> StoredPlan:
        return StoredPlan(self.made_of.get("kernel", ""))

    @property
    def calls(self) -> "Sequence[StoredCall]":
        return [self]

    def weights(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """The weights as stored: (1, heads, queries, keys), without the heads axis for one head; per edge for a graph."""
        heads, first, last = self._asked(head, rows)
        if self.edges is not None:
            require(rows is None, "the weights of a graph are per edge: select them by `edges`, not by rows")
            assert isinstance(self.content, Codes)
            found = self.content.all(heads)
        else:
            found = self.content.weights(heads, first, last)
        return found[None] if head is None else found

    def scores(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """What the normalizer was given, where the file holds queries and keys and nothing was added to their product."""
        heads, first, last = self._asked(head, rows)
        vectors = self.vectors
        exact = vectors is not None and (vectors.plain or not self.made_of.get("position"))
        if vectors is None or vectors.q is None or vectors.k is None or not exact:
            raise ValueError(f"the file holds weights of {self.name!r}, not its scores: look at the model itself")
        found = vectors.scale * (vectors.q[heads, first:last] @ vectors.k[heads].transpose(1, 2))
        return found[None] if head is None else found

    def _asked(self, head: int | None, rows: slice | None) -> tuple[slice, int, int]:
        if not isinstance(head, int | None) or not isinstance(rows, slice | None):
            raise ValueError(f"weights takes a head's number and a slice of rows: got head={head!r}, rows={rows!r}")
        first, last, stride = (rows or slice(None)).indices(self.queries)
        require(stride == 1, f"rows must be consecutive: got {rows}")
        if head is None:
            return slice(None), first, max(first, last)
        require(-self.heads <= head < self.heads, f"head must lie in 0..{self.heads - 1}: got {head}")
        return slice(head % self.heads, head % self.heads + 1), first, max(first, last)

    def values(self) -> Float[Tensor, "batch heads keys value_dim"]:
        """The values that the weights mixed, where the file holds them."""
        if self.vectors is None:
            raise ValueError(f"the file holds no values of {self.name!r}: they were too large to be kept")
        return self.vectors.values[None]

    def factors(self) -> Factors | None:
        """Queries and keys, where the file holds them."""
        if isinstance(self.content, HalfProduct):
            return Factors(self.content.q[None].float(), self.content.k[None].float(), self.content.scale, True)
        if self.vectors is None or self.vectors.q is None or self.vectors.k is None:
            return None
        return Factors(self.vectors.q[None], self.vectors.k[None], self.vectors.scale, self.vectors.plain)

    def mask(self, first: int, last: int) -> Tensor:
        """Who may be seen, as the file tells it; where it has no mask, what had weight in some head."""
        if isinstance(self.content, HalfProduct):
            return self.content.may_see(first, last)[None, None]
        told = self.made_of.get("where", "")
        if told in ("", "Complete()") or self.edges is not None:
            return torch.ones(1, 1, last - first, self.keys, dtype=torch.bool)
        if told == "Causal()":  # the last row sees all keys
            later = max(0, self.keys - self.queries)
            return (torch.arange(self.keys) <= torch.arange(first + later, last + later).view(-1, 1))[None, None]
        return (self.weights(rows=slice(first, last)) != 0).any(1, keepdim=True)

    def parts(self) -> dict[str, str]:
        return dict(self.made_of)

    def continues(self, other: Any) -> bool:
        return False

    def statistics(self) -> list[HeadStatistics]:
        """What every head does: as it was written, or worked out from the stored weights."""
        return list(self.head_statistics) if self.head_statistics else Stream((self,)).statistics()[0]

    def checks(self) -> Checks:
        """What is to be warned of."""
        return self.stored_checks or Stream((self,)).statistics()[1]

    def __repr__(self) -> str:
        shape = f"heads={self.heads}, queries={self.queries}, keys={self.keys}"
        return f"StoredCall({self.name!r}, {self.kind}, {shape}, where={self.where}, kernel={self.plan.kernel})"
