"""Neighborhoods that come with the data: lengths, documents, masks and graphs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from mirada.attention.neighborhoods.algebra import Complete, KeyRange, Mask, Neighborhood, Unseen
from mirada.attention.places import Pair, Places
from mirada.attention.transforms import ordinary
from mirada.errors import require, require_known
from mirada.shapes import check_floating, check_integers, readable, show


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
        if lengths.numel() and readable(lengths):
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

    def of_sample(self, index: int) -> Neighborhood:
        return self if len(self.lengths) == 1 else self._with(lengths=self.lengths[index : index + 1])

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        if len(self.lengths) != 1 or self.lengths.is_meta:
            return super().pieces(places)
        end = min(int(self.lengths[0]), places.keys)
        return (KeyRange(0, end, Complete()),) if end > 0 and places.queries else ()

    def sees(self, places: Places) -> Mask:
        return places.column < self.lengths.to(places.device).view(-1, 1, 1, 1)

    def pair(self, at: Pair) -> Tensor:
        return at.column < at.of_sample(self.lengths)

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return super().unseen(places.rows(0, min(1, places.queries)))  # the same for every query


class DocumentRuns(NamedTuple):
    """Where the documents of one sample lie, each in one run of places: borders 0, ..., length, and each document's run."""

    borders: tuple[int, ...]
    run_of: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, ids: Int[Tensor, " length"]) -> "DocumentRuns | None":
        """The runs of a sample; None if a document has several."""
        begins = [0, *((ids[1:] != ids[:-1]).nonzero().flatten() + 1).tolist()] if len(ids) else []
        borders = (*begins, len(ids))
        run_of = dict(zip(ids[begins].tolist(), pairwise(borders), strict=True))
        return cls(borders, run_of) if len(run_of) == len(begins) else None

    @property
    def longest(self) -> int:
        """The number of places of the longest document."""
        return max((end - begin for begin, end in self.run_of.values()), default=0)


@dataclass(frozen=True, eq=False, repr=False)
class Documents(Neighborhood):
    """Only the same document, for sequences packed into one row: N(i) = {j: ids[j] = ids[i]}.

    Where every document lies in one run of places, as `of` makes them, time grows with the squares of the documents' lengths.
    Packed sources of a decoder, say, have ids of their own: N(i) = {j: key_ids[j] = ids[i]}.

    Args:
        ids: the document of every place, integers of (batch, length).
        key_ids: the document of every key, integers of (batch, keys), where keys are another sequence; None if they are not.

    >>> Documents(torch.tensor([[7, 7, 8]])).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    ids: Integer[Tensor, "batch length"]
    key_ids: Integer[Tensor, "batch keys"] | None = None

    def __post_init__(self) -> None:
        for name, given in (("ids", self.ids), ("key_ids", self.key_ids)):
            if name == "key_ids" and given is None:
                continue
            ids = torch.as_tensor(given)
            check_integers(f"document {name}", ids)
            require(ids.ndim == 2, f"document {name} must have the axes (batch length): got shape {show(ids)}")
            object.__setattr__(self, name, ids)

    @classmethod
    def of(cls, lengths: Sequence[int] | Sequence[Sequence[int]]) -> "Documents":
        """Documents one after the other.

        Args:
            lengths: how many places each document has; a list of such lists if samples differ, all with one sum.

        >>> Documents.of(lengths=[2, 1]).ids.tolist()
        [[0, 0, 1]]
        """
        rows = [lengths] if not lengths or not isinstance(lengths[0], Sequence) else lengths
        fits = all(isinstance(x, int) and x >= 0 for row in rows for x in row)  # type: ignore[union-attr]
        require(fits, f"documents have lengths of at least 0: got {lengths}")
        ids = [torch.repeat_interleave(torch.tensor(row, dtype=torch.int64)) for row in rows]
        sums = sorted({len(row) for row in ids})
        message = f"all samples must have as many places: got sums of lengths {sums}. Make a document of the padding."
        require(len(sums) == 1, message)
        return cls(torch.stack(ids))

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        """Whether every query sees its own key: the keys are the same places."""
        return self.key_ids is None

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches: to the ends of the longest document."""
        runs = self.runs() if self.key_ids is None else (None,)
        reach = max((math.inf if x is None else max(0, x.longest - 1) for x in runs), default=math.inf)
        return reach, reach

    def runs(self) -> tuple[DocumentRuns | None, ...]:
        """Where the documents of each sample lie; None for a sample with one in several pieces, or unknown numbers."""
        ids = self.ids
        if torch.compiler.is_compiling() or not readable(ids):
            return (None,)
        changes = -1 if ids.is_inference() else ids._version  # they can be changed in place
        known = vars(self).get("_known")
        if known is None or known[0] != changes or changes == -1:
            known = changes, tuple(DocumentRuns.of(row) for row in ids.cpu())
            vars(self)["_known"] = known
        return known[1]  # type: ignore[no-any-return]

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        places.require_rows("Documents")
        length, last = self.ids.shape[1], places.start + places.queries
        _check_batch("document ids", self.ids.shape[0], places.batch)
        keys = length
        if self.key_ids is not None:
            _check_batch("document key_ids", self.key_ids.shape[0], places.batch)
            keys = self.key_ids.shape[1]
        fits = last <= length and (places.keys == keys if exact else places.keys <= keys)
        if not fits:
            covered = f"{length} places" if self.key_ids is None else f"{length} places and {keys} keys"
            raise ValueError(f"document ids cover {covered}: got queries up to {last}, keys={places.keys}")

    def repeat(self, times: int) -> Neighborhood:
        return self._map(lambda ids: ids if len(ids) == 1 else ids.repeat_interleave(times, dim=0))

    def of_sample(self, index: int) -> "Documents":
        sample = self._map(lambda ids: ids if len(ids) == 1 else ids[index : index + 1])
        runs = self.runs()
        if sample.ids.device.type == "cpu" and not sample.ids.is_inference() and len(runs) > index:
            vars(sample)["_known"] = sample.ids._version, runs[index : index + 1]
        return sample

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Documents":
        """The same with all ids changed."""
        ids, key_ids = change(self.ids), None if self.key_ids is None else change(self.key_ids)
        if ids is self.ids and key_ids is self.key_ids:
            return self
        twin = self._with(ids=ids, key_ids=key_ids)
        vars(twin).pop("_known", None)
        return twin

    def cuts(self, places: Places) -> tuple[int, ...]:
        return next((x.borders for x in self.runs()[:1] if x is not None), ())

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        runs = self.runs()
        keys = runs if self.key_ids is None else Documents(self.key_ids).runs()
        if len(runs) != 1 or len(keys) != 1 or runs[0] is None or keys[0] is None or not places.queries:
            return super().pieces(places)
        first, last = (int(self.ids[0, row]) for row in (places.start, places.start + places.queries - 1))
        if first != last:
            return super().pieces(places)
        begin, end = keys[0].run_of.get(first, (0, 0))
        end = min(end, places.keys)
        return (KeyRange(begin, end, Complete()),) if begin < end else ()

    def sees(self, places: Places) -> Mask:
        ids = self.ids.to(places.device)
        others = ids if self.key_ids is None else self.key_ids.to(places.device)
        own, other = ids[:, places.row.flatten()], others[:, places.column.flatten()]
        return own[:, None, :, None] == other[:, None, None, :]

    def pair(self, at: Pair) -> Tensor:
        others = self.ids if self.key_ids is None else self.key_ids
        return at.of_sample(self.ids)[at.row] == at.of_sample(others)[at.column]


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

    def of_sample(self, index: int) -> Neighborhood:
        return self if self._four.shape[0] == 1 else self._with(mask=self._four[index : index + 1])

    def sees(self, places: Places) -> Mask:
        mask = self._four.to(places.device)
        mask = mask if mask.shape[2] == 1 else mask[:, :, places.row.flatten()]
        return mask if mask.shape[3] == 1 else mask[..., places.column.flatten()]

    def pair(self, at: Pair) -> Tensor:
        mask, places = self._four, (at.sample, at.head, at.row, at.column)
        return mask[tuple(x if size > 1 else torch.zeros_like(x) for x, size in zip(places, mask.shape, strict=True))]


def _cached_tensor(compute: Callable[[Any], Any]) -> cached_property:
    """A property computed once and kept, as an ordinary tensor: it serves every later call."""
    once = ordinary()(compute)
    once.__doc__ = compute.__doc__
    return cached_property(once)


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Neighborhood):
    """The edges of a graph: N(i) = {j: the edge j -> i is listed}.

    Row 0 of `edge_index` is the source (key), row 1 the target (query). No self loops are added (`with_self_loops` adds them),
    and a node without edges gets zeros. One graph for the whole batch; put different graphs side by side as one disjoint union.
    Features of edges are read by a score that is made for them, such as `Graph(dim, heads, features=3)`.

    Args:
        edge_index: integers of (2, edges), sources above targets.
        nodes: how many nodes the graph has; where `sources` are other nodes, how many targets.
        features: numbers of every edge of `edge_index`, (edges, width), in the same order.
        sources: how many sources there are, if they are other nodes than the targets (bipartite and sampled graphs): the layer
            then attends with `memory=`.
        repeated: what an edge that is listed again does: "join" it with the first (their features must agree), "refuse" it,
            or "count" it, so that each has a share of the softmax.

    >>> Edges(torch.tensor([[0, 1, 1], [1, 0, 0]]), nodes=2).pairs.tolist()
    [[1, 0], [0, 1]]
    """

    edge_index: Integer[Tensor, "2 edges"] | Float[Tensor, "2 0"]  # a tensor of no numbers has no integers
    nodes: int
    features: Float[Tensor, "edges width"] | Float[Tensor, " edges"] | None = field(default=None, kw_only=True)
    sources: int | None = field(default=None, kw_only=True)
    repeated: Literal["join", "refuse", "count"] = field(default="join", kw_only=True, repr=False)

    def __post_init__(self) -> None:
        require_known("repeated", self.repeated, ["join", "refuse", "count"])
        index = torch.as_tensor(self.edge_index)
        index = index if type(index) is Tensor else index.as_subclass(Tensor)  # such as the EdgeIndex of PyG
        index = index.long() if index.numel() == 0 else index
        check_integers("edge_index", index)
        message = f"edge_index must have the axes (2 edges), sources above targets: got shape {show(index)}"
        require(index.ndim == 2 and index.shape[0] == 2, message)
        if index.numel() and readable(index):
            sides = [("nodes", "nodes", self.nodes, index)]
            if self.sources is not None:
                sides = [("sources", "sources", self.sources, index[0]), ("targets", "nodes", self.nodes, index[1])]
            for what, name, count, numbers in sides:
                low, high = (int(bound) for bound in numbers.aminmax())
                message = f"edge_index must name {what} from 0 to {count - 1}: got {low} to {high} with {name}={count}"
                require(low >= 0 and high < count, message)
        object.__setattr__(self, "edge_index", index)
        self._check_edges()

    def _check_edges(self) -> None:
        """Require features in the order of the edges, and repeated edges as they may be."""
        count, features = self.edge_index.shape[1], self.features
        if features is not None:
            check_floating("features of edges", features)
            fits = features.ndim in (1, 2) and len(features) == count
            message = f"features must be (edges={count}, width), in the order of edge_index: got shape {show(features)}"
            require(fits, message)
            object.__setattr__(self, "features", features.unsqueeze(1) if features.ndim == 1 else features)
        if torch.compiler.is_exporting() or self.edge_index.is_meta:
            return
        if (features is None and self.repeated != "refuse") or self.pairs.shape[1] == count:
            return
        again = count - self.pairs.shape[1]
        advice = 'Drop them, or pass repeated="count" for a share each.'
        require(self.repeated != "refuse", f"edge_index lists {again} edges again, of {count}. {advice}")
        if self.repeated == "join":
            order, _ = self.listing
            first = features.detach()[order][self._pair_of_each]  # type: ignore[index, union-attr]
            message = f"edge_index lists {again} edges again, of {count}, with features that differ. {advice}"
            require(torch.equal(first, features.detach()), message)  # type: ignore[union-attr]

    @property
    def keys(self) -> int:
        """How many sources there are."""
        return self.nodes if self.sources is None else self.sources

    @property
    def counted(self) -> bool:
        """Whether edges are counted several times."""
        return self.repeated == "count" and self.pairs.shape[1] < self.edge_index.shape[1]

    @property
    def weighs_pairs(self) -> bool:
        """Whether edges decide by more than being there: they have features, or are counted several times."""
        return self.features is not None or self.counted

    @_cached_tensor
    def pairs(self) -> Int[Tensor, "2 edges"]:
        """The edges once each, sorted by target and then source: the order of every per-edge result.

        On the meta device, which has no numbers to sort, they are as given.
        """
        if self.edge_index.is_meta:
            return self.edge_index.long()
        source, target = self.edge_index.long()
        order = torch.unique(target * self.keys + source)
        return torch.stack([order % max(1, self.keys), order // max(1, self.keys)])

    @_cached_tensor
    def _pair_of_each(self) -> Int[Tensor, " edges"]:
        """The number in `pairs` of every edge of `edge_index`."""
        if self.pairs.is_meta:
            return torch.arange(self.edge_index.shape[1], device=self.pairs.device)
        (source, target), (other, own) = self.edge_index.long(), self.pairs
        return torch.searchsorted(own * self.keys + other, target * self.keys + source)

    @_cached_tensor
    def listing(self) -> tuple[Tensor, Tensor]:
        """The edges that count, in the order of `pairs`: their numbers in `edge_index`, and the pair that each belongs to."""
        pair, order = torch.sort(self._pair_of_each, stable=True)
        if self.repeated == "count":
            return order, pair
        first = torch.ones_like(pair, dtype=torch.bool)
        first[1:] = pair[1:] != pair[:-1]
        return order[first], pair[first]

    @_cached_tensor
    def counts(self) -> Int[Tensor, " pairs"]:
        """How often each of the `pairs` counts."""
        return torch.zeros_like(self.pairs[0]).index_add_(0, self.listing[1], torch.ones_like(self.listing[1]))

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
            return self.pairs.new_empty(self.keys + 1), self.pairs[0]
        sources, order = torch.sort(self.pairs[0], stable=True)
        return torch.searchsorted(sources, torch.arange(self.keys + 1, device=sources.device)), order

    def to(self, device: torch.device) -> "Edges":
        """The same graph on a device; made once for each, since it keeps what it works out."""
        if device == self.edge_index.device:
            return self
        if self.features is not None:  # they may carry a gradient, which belongs to one call
            return self._with(edge_index=self.edge_index.to(device), features=self.features.to(device))
        return self._elsewhere.setdefault(device, self._with(edge_index=self.edge_index.to(device)))

    @_cached_tensor
    def _elsewhere(self) -> "dict[torch.device, Edges]":
        return {}

    def with_self_loops(self) -> "Edges":
        """The same graph in which every node also sees itself.

        The loop of a node has the mean of the features of its edges, zeros if it has none. Of different numbers of sources and
        targets, as in a sampled graph, the first are the same nodes.
        """
        index, features = self.edge_index.long(), self.features
        loops = torch.arange(min(self.nodes, self.keys), device=index.device)
        if not index.is_meta:
            loops = loops[~torch.isin(loops, index[0, index[0] == index[1]])]
        if features is not None:
            sums = features.new_zeros(self.nodes, features.shape[1]).index_add(0, index[1], features)
            degrees = torch.zeros_like(sums[:, :1]).index_add(0, index[1], torch.ones_like(features[:, :1]))
            features = torch.cat([features, (sums / degrees.clamp(min=1))[loops]])
        return self._with(edge_index=torch.cat([index, loops.expand(2, -1)], dim=1), features=features)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        if not places.counted:
            raise ValueError("the nodes of a graph have no order, so Edges takes no positions: drop them")
        last = places.start + places.queries
        if last > self.nodes or places.keys != self.keys:
            each = "one per node" if self.sources is None else f"one per source, and at most {self.nodes} queries"
            raise ValueError(f"{self} needs keys={self.keys}, {each}: got queries up to {last}, keys={places.keys}")

    def sees(self, places: Places) -> Mask:
        if places.device.type == "meta":
            return torch.empty(1, 1, places.queries, places.keys, dtype=torch.bool, device=places.device)
        if torch.compiler.is_exporting():  # how many edges a row has is not known
            source, target = self.edge_index.long()
            whole = torch.zeros(self.nodes, self.keys, dtype=torch.bool, device=places.device)
            whole = whole.index_put((target, source), torch.ones((), dtype=torch.bool, device=places.device))
            return whole[None, None, places.start : places.start + places.queries]
        first, last = (places.start, places.start + places.queries) if places.queries else (0, 0)
        source, target = self.pairs[:, int(self.offsets[first]) : int(self.offsets[last])]
        mask = torch.zeros(last - first, self.keys, dtype=torch.bool, device=places.device)
        mask[target - first, source] = True
        return mask[None, None, :, places.first_key : places.first_key + places.keys]

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        if places.start or places.queries < self.nodes:
            return super().unseen(places, rows_at_once)
        silent = self.silent
        return None if silent is None else silent.to(places.device)

    @_cached_tensor
    def silent(self) -> Unseen | None:
        """The sources without an outgoing edge; None if there are none, and on the meta device."""
        if torch.compiler.is_exporting() or self.pairs.is_meta:
            return None
        silent = torch.ones(1, 1, self.keys, dtype=torch.bool, device=self.pairs.device)
        silent[..., self.pairs[0]] = False
        return silent if bool(silent.any()) else None


def _check_batch(name: str, got: int, batch: int | None) -> None:
    """Require one row per sample, or a single row for all."""
    if batch is not None and got not in (1, batch):
        raise ValueError(f"{name} must have one row per sample: got {got} for batch={batch}")
