"""Neighborhoods that come with the data: lengths, documents, masks and graphs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from mirada.attention.neighborhoods.algebra import Mask, Neighborhood, Unseen
from mirada.attention.places import Places
from mirada.attention.transforms import ordinary
from mirada.errors import require
from mirada.shapes import check_integers, show


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Neighborhood):
    """The real keys of each sample: N(i) = {j < lengths[sample]}.

    Args:
        lengths: the true number of keys of each sample, as a list or a tensor of integers.

    >>> Padding([1, 3]).dense(1, 3).int()[:, 0, 0].tolist()
    [[1, 0, 0], [1, 1, 1]]
    """

    lengths: Integer[Tensor, " batch"]  # type: ignore[misc]
    longest: int = field(init=False, repr=False, default=0)

    uniform = True

    def __post_init__(self) -> None:
        if not isinstance(self.lengths, Tensor | list | tuple):
            raise ValueError(f"padding needs a length per sample: got {type(self.lengths).__name__}")
        lengths = torch.as_tensor(self.lengths)
        require(lengths.ndim == 1, f"padding lengths must be one number per sample: got shape {show(lengths)}")
        if lengths.numel():
            check_integers("padding lengths", lengths)
        if (
            lengths.numel() and not lengths.is_meta and not torch.compiler.is_exporting()
        ):  # there are no numbers on the meta device
            shortest, longest = (int(bound) for bound in lengths.aminmax())
            require(shortest >= 0, f"padding lengths must be at least 0: got {shortest}")
            object.__setattr__(self, "longest", longest)
        object.__setattr__(self, "lengths", lengths)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        _check_batch("padding lengths", self.lengths.shape[0], places.batch)
        if exact and self.longest > places.keys:
            raise ValueError(
                f"padding lengths must be at most keys: got lengths up to {self.longest}, keys={places.keys}. "
                "Pad the batch or cut the lengths."
            )

    def repeat(self, times: int) -> Neighborhood:
        return self if len(self.lengths) == 1 else self._with(lengths=self.lengths.repeat_interleave(times))

    def sees(self, places: Places) -> Mask:
        return places.column < self.lengths.to(places.device).view(-1, 1, 1, 1)

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return super().unseen(places.rows(0, min(1, places.queries)))  # the same for every query


@dataclass(frozen=True, eq=False, repr=False)
class Documents(Neighborhood):
    """Only the same document, for sequences packed into one row: N(i) = {j: ids[j] = ids[i]}.

    Args:
        ids: the document of every place, integers of (batch, length).

    >>> Documents(torch.tensor([[7, 7, 8]])).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    ids: Integer[Tensor, "batch length"]

    reflexive = True

    def __post_init__(self) -> None:
        ids = torch.as_tensor(self.ids)
        check_integers("document ids", ids)
        require(ids.ndim == 2, f"document ids must have the axes (batch length): got shape {show(ids)}")
        object.__setattr__(self, "ids", ids)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        places.require_rows("Documents")
        length, last = self.ids.shape[1], places.start + places.queries
        _check_batch("document ids", self.ids.shape[0], places.batch)
        fits = last <= length and (places.keys == length if exact else places.keys <= length)
        if not fits:
            raise ValueError(f"document ids cover {length} places: got queries up to {last}, keys={places.keys}")

    def repeat(self, times: int) -> Neighborhood:
        return self if len(self.ids) == 1 else self._with(ids=self.ids.repeat_interleave(times, dim=0))

    def sees(self, places: Places) -> Mask:
        ids = self.ids.to(places.device)
        own, other = ids[:, places.row.flatten()], ids[:, places.column.flatten()]
        return own[:, None, :, None] == other[:, None, None, :]


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Neighborhood):
    """Any set, as a bool tensor of (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys).

    Args:
        mask: True where a query may see a key.

    >>> Dense(torch.eye(3, dtype=torch.bool)).dense(1, 3, start=1).int()[0, 0].tolist()
    [[0, 1, 0]]
    """

    mask: Bool[Tensor, "..."]

    def __post_init__(self) -> None:
        mask = self.mask
        require(
            isinstance(mask, Tensor) and mask.dtype == torch.bool,
            f"a dense mask must be a bool tensor, True = may be seen: got {getattr(mask, 'dtype', type(mask).__name__)}",
        )
        message = f"a dense mask has 2, 3 or 4 axes, (batch, heads, queries, keys): got {show(mask)}"
        require(2 <= mask.ndim <= 4, message)

    @property
    def _four(self) -> Tensor:
        mask = self.mask if self.mask.ndim != 3 else self.mask.unsqueeze(1)
        return mask.view((1,) * (4 - mask.ndim) + mask.shape)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        batch, rows_of, queries, keys = self._four.shape
        if queries > 1:
            places.require_rows("Dense")
        last = places.start + places.queries
        _check_batch("the dense mask", batch, places.batch)
        if rows_of != 1 and heads not in (0, rows_of):
            raise ValueError(f"the dense mask has heads={rows_of}: got heads={heads}")
        fits = (last == queries, keys == places.keys) if exact else (last <= queries, places.keys <= keys)
        if not ((queries == 1 or fits[0]) and (keys == 1 or fits[1])):
            message = f"the dense mask has shape {show(self.mask)}: got queries up to {last}, keys={places.keys}"
            raise ValueError(message)

    def repeat(self, times: int) -> Neighborhood:
        return self if self._four.shape[0] == 1 else self._with(mask=self._four.repeat_interleave(times, dim=0))

    def sees(self, places: Places) -> Mask:
        mask = self._four.to(places.device)
        mask = mask if mask.shape[2] == 1 else mask[:, :, places.row.flatten()]
        return mask if mask.shape[3] == 1 else mask[..., places.column.flatten()]


def _cached_tensor(compute: Callable[[Any], Any]) -> cached_property:
    """A property computed once and kept, as an ordinary tensor: it serves every later call."""
    once = ordinary()(compute)
    once.__doc__ = compute.__doc__
    return cached_property(once)


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Neighborhood):
    """The edges of a graph: N(i) = {j: the edge j -> i is listed}.

    Row 0 of `edge_index` is the source (key), row 1 the target (query). An exact set: duplicates count once, no self loops are
    added (`with_self_loops` adds them), and a node without edges gets zeros. One graph for the whole batch; put different
    graphs side by side as one disjoint union.

    Args:
        edge_index: integers of (2, edges), sources above targets.
        nodes: how many nodes the graph has.

    >>> Edges(torch.tensor([[0, 1, 1], [1, 0, 0]]), nodes=2).pairs.tolist()
    [[1, 0], [0, 1]]
    """

    edge_index: Integer[Tensor, "2 edges"] | Float[Tensor, "2 0"]  # a tensor of no numbers has no integers
    nodes: int

    def __post_init__(self) -> None:
        index = torch.as_tensor(self.edge_index)
        index = index.long() if index.numel() == 0 else index
        check_integers("edge_index", index)
        message = f"edge_index must have the axes (2 edges), sources above targets: got shape {show(index)}"
        require(index.ndim == 2 and index.shape[0] == 2, message)
        if index.numel() and not index.is_meta:
            low, high = (int(bound) for bound in index.aminmax())
            require(
                low >= 0 and high < self.nodes,
                f"edge_index must name nodes from 0 to {self.nodes - 1}: got {low} to {high} with nodes={self.nodes}",
            )
        object.__setattr__(self, "edge_index", index)

    @_cached_tensor
    def pairs(self) -> Int[Tensor, "2 edges"]:
        """The edges once each, sorted by target and then source: the order of every per-edge result.

        On the meta device, which has no numbers to sort, they are as given.
        """
        if self.edge_index.is_meta:
            return self.edge_index.long()
        source, target = self.edge_index.long()
        order = torch.unique(target * self.nodes + source)
        return torch.stack([order % max(1, self.nodes), order // max(1, self.nodes)])

    @_cached_tensor
    def offsets(self) -> Int[Tensor, " nodes+1"]:
        """Where the edges of each target begin in `pairs`: the row pointer of the CSR form."""
        if self.pairs.is_meta:
            return self.pairs.new_empty(self.nodes + 1)
        return torch.searchsorted(self.pairs[1], torch.arange(self.nodes + 1, device=self.pairs.device))

    @_cached_tensor
    def outgoing(self) -> tuple[Tensor, Tensor]:
        """The edges by source: where those of each source begin, and their numbers in `pairs`."""
        if self.pairs.is_meta:
            return self.pairs.new_empty(self.nodes + 1), self.pairs[0]
        sources, order = torch.sort(self.pairs[0], stable=True)
        return torch.searchsorted(sources, torch.arange(self.nodes + 1, device=sources.device)), order

    def to(self, device: torch.device) -> "Edges":
        """The same graph on a device; made once for each, since it keeps what it works out."""
        if device == self.edge_index.device:
            return self
        return self._elsewhere.setdefault(device, self._with(edge_index=self.edge_index.to(device)))

    @_cached_tensor
    def _elsewhere(self) -> "dict[torch.device, Edges]":
        return {}

    def with_self_loops(self) -> "Edges":
        """The same graph in which every node also sees itself."""
        loops = torch.arange(self.nodes, device=self.edge_index.device).expand(2, -1)
        return self._with(edge_index=torch.cat([self.edge_index.long(), loops], dim=1))

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        if not places.counted:
            raise ValueError("the nodes of a graph have no order, so Edges takes no positions: drop them")
        last = places.start + places.queries
        if last > self.nodes or places.keys != self.nodes:
            message = f"{self} needs keys={self.nodes}, one per node: got queries up to {last}, keys={places.keys}"
            raise ValueError(message)

    def sees(self, places: Places) -> Mask:
        if places.device.type == "meta":
            return torch.empty(1, 1, places.queries, places.keys, dtype=torch.bool, device=places.device)
        first, last = (places.start, places.start + places.queries) if places.queries else (0, 0)
        source, target = self.pairs[:, int(self.offsets[first]) : int(self.offsets[last])]
        mask = torch.zeros(last - first, self.nodes, dtype=torch.bool, device=places.device)
        mask[target - first, source] = True
        return mask[None, None, :, places.first_key : places.first_key + places.keys]

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        if places.start or places.queries < self.nodes:
            return super().unseen(places, rows_at_once)
        silent = self.silent
        return None if silent is None else silent.to(places.device)

    @_cached_tensor
    def silent(self) -> Unseen | None:
        """The nodes without an outgoing edge; None if there are none, and on the meta device."""
        if self.pairs.is_meta:
            return None
        silent = torch.ones(1, 1, self.nodes, dtype=torch.bool, device=self.pairs.device)
        silent[..., self.pairs[0]] = False
        return silent if bool(silent.any()) else None


def _check_batch(name: str, got: int, batch: int | None) -> None:
    """Require one row per sample, or a single row for all."""
    if batch is not None and got not in (1, batch):
        raise ValueError(f"{name} must have one row per sample: got {got} for batch={batch}")
