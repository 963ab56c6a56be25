"""The request that a kernel computes, and its output."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from jaxtyping import Float
from torch import Tensor

from mirada.attention.neighborhoods import Edges, Mask, Neighborhood, lengths_of
from mirada.attention.normalizers import Draw, Normalizer
from mirada.attention.places import Places
from mirada.attention.positions import Position
from mirada.attention.scores import Score
from mirada.shapes import broadcast_heads, finite


class Reweigh(Protocol):
    """A change of the weights, made after the normalizer: the result of an intervention."""

    @property
    def whole(self) -> bool:
        """Whether it needs all queries of the call at once."""

    def __call__(self, weights: Tensor, places: Places, mask: Mask) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Request:
    """h_i = sum over j in where(i) of normalizer(score(q_i, k_j) + position)_j v_j.

    Queries and keys are already rotated where the position rotates. Keys and values may have fewer heads than queries.
    `reweigh` changes the weights before they multiply the values; only `reference` runs such a request.
    """

    q: Float[Tensor, "batch heads queries dim"]
    k: Float[Tensor, "batch kheads keys kdim"]
    v: Float[Tensor, "batch vheads keys value_dim"]
    score: Score
    where: Neighborhood
    position: Position
    normalizer: Normalizer
    places: Places
    reweigh: Reweigh | None = None

    @property
    def batch(self) -> int:
        """How many samples there are."""
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        """How many heads the queries have."""
        return self.q.shape[1]

    @property
    def queries(self) -> int:
        """How many queries a sample has."""
        return self.q.shape[2]

    @property
    def keys(self) -> int:
        """How many keys a sample has."""
        return self.k.shape[2]

    @property
    def kinds(self) -> frozenset[type[Neighborhood]]:
        """The kinds of sets whose intersection the neighborhood is."""
        return frozenset(type(part) for part in self.where.conjuncts())

    @property
    def weighed_pairs(self) -> Edges | None:
        """The graph whose edges have features or count several times, and so change scores; None without one."""
        parts = self.where.conjuncts()
        return next((part for part in parts if isinstance(part, Edges) and part.weighs_pairs), None)

    @property
    def full_places(self) -> Places:
        """The places with the true lengths of the samples."""
        lengths = lengths_of(self.where)
        return self.places if lengths is None else replace(self.places, lengths=lengths)

    def for_heads(self, heads: list[int], where: Neighborhood) -> "Request":
        """The same request for some heads only, which all have that neighborhood."""
        chosen = [x[:, heads] if x.shape[1] > 1 else x for x in (self.q, self.k, self.v)]
        return replace(self, q=chosen[0], k=chosen[1], v=chosen[2], where=where)

    def mask(self, first: int = 0, last: int | None = None) -> Mask:
        """Who may be seen by the queries first, ..., last - 1."""
        last = self.queries if last is None else last
        return self.where.sees(self.full_places.rows(first, last))

    def visible(
        self, mask: Mask | None = None, rows_at_once: int | None = None
    ) -> tuple[Float[Tensor, "batch heads keys kdim"], Float[Tensor, "batch heads keys value_dim"]]:
        """Keys and values with one head per query head, and zeros for keys that no query of the sample may see.

        A NaN there then reaches neither an output nor a gradient. A `mask` that was built already is used; `rows_at_once`
        bounds the memory of building one.
        """
        k, v = broadcast_heads(self.k, self.heads), broadcast_heads(self.v, self.heads)
        if finite(self.k, self.v):  # a weight of 0 then gives 0 by itself, and so do its gradients
            return k, v
        hidden = None if mask is None else ~mask.any(2).expand(-1, -1, self.keys)
        hidden = self.where.unseen(self.full_places, rows_at_once) if mask is None else hidden
        if hidden is None:
            return k, v
        return k.masked_fill(hidden.unsqueeze(-1), 0), v.masked_fill(hidden.unsqueeze(-1), 0)


class KernelOutput(NamedTuple):
    """The output of a kernel, and what a hard normalizer chose."""

    output: Float[Tensor, "batch heads queries value_dim"]
    draw: Draw | None = None


class Kernel(Protocol):
    """One way to compute a request. All agree with `reference`; they differ in what they refuse and how fast they are."""

    name: str

    def refuses(self, request: Request) -> str | None:
        """Why this kernel cannot or should not run the request; None if it can."""

    def run(self, request: Request) -> KernelOutput:
        """The result. Only called where `refuses` gave None."""
