"""Who may be seen: N(i), the set of keys j that query i attends to. True = may be seen, everywhere.

A neighborhood is a symbol: frozen, printable, hashable, and no tensor until a kernel asks for one. `&`, `|` and `~` combine
them. Numbers compare by value, tensors by identity.

    >>> Causal() & Window(left=127)
    Causal() & Window(left=127, right=0)
    >>> (Causal() & Window(1)).dense(3, 3).int()[0, 0].tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mirada.attention.places import Places
from mirada.errors import require, unknown
from mirada.shapes import check_integers, show

Mask = Bool[Tensor, "#batch #heads #queries #keys"]
Unseen = Bool[Tensor, "#batch #heads keys"]


@dataclass(frozen=True, eq=False, repr=False)
class Neighborhood:
    """A set of keys for every query. Subclasses say which in `sees`."""

    causal: ClassVar[bool] = False  # no query sees a later key
    reflexive: ClassVar[bool] = False  # every query sees the key at its own place

    def sees(self, places: Places) -> Mask:
        """The set as a bool tensor of four axes, of size 1 where it does not vary."""
        raise NotImplementedError

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        """Raise a ValueError if this set does not fit the places. `exact=False`: the keys are still growing (a cache)."""

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        """The keys that no query of their sample sees; None where it is clear without a mask that there are none.

        `rows_at_once` bounds the memory of building a mask.
        """
        if self.reflexive and places.counted and places.start == 0 and places.queries >= max(1, places.keys):
            return None  # every key has a query at its own place
        step = rows_at_once or max(1, places.queries)
        seen = torch.zeros(1, 1, places.keys, dtype=torch.bool, device=places.device)
        for first in range(0, places.queries, step):
            seen = seen | self.sees(places.rows(first, min(first + step, places.queries))).any(2)
        return ~seen

    def repeat(self, times: int) -> "Neighborhood":
        """The same set for a batch in which every entry stands `times` times in a row."""
        return self

    def dense(self, queries: int, keys: int, start: int = 0) -> Mask:
        """A bool tensor that broadcasts to (batch, heads, queries, keys); row r is absolute position start + r."""
        places = Places.count(queries, keys, start, device=next(self.tensors(), torch.empty(0)).device)
        self.check(places, heads=0, exact=False)
        return self.sees(places)

    def conjuncts(self) -> "tuple[Neighborhood, ...]":
        """The sets whose intersection this is."""
        return (self,)

    def tensors(self) -> Iterator[Tensor]:
        """The tensors this set is made of."""
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor):
                yield value
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Neighborhood):
                    yield from part.tensors()

    def __and__(self, other: "Neighborhood") -> "Neighborhood":
        return intersect((self, other)) if isinstance(other, Neighborhood) else NotImplemented

    def __or__(self, other: "Neighborhood") -> "Neighborhood":
        return Union((self, other)) if isinstance(other, Neighborhood) else NotImplemented

    def __invert__(self) -> "Neighborhood":
        return Complement(self)

    def _identity(self) -> tuple[object, ...]:
        values = (getattr(self, item.name) for item in fields(self))
        return (type(self), *(id(v) if isinstance(v, Tensor) else v for v in values))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Neighborhood) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        shown = ((item.name, getattr(self, item.name)) for item in fields(self) if item.repr)
        words = (f"{name}={show(v) if isinstance(v, Tensor) else repr(v)}" for name, v in shown if v is not None)
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True, eq=False, repr=False)
class Complete(Neighborhood):
    """Every key: N(i) = {all j}. In cross-attention this is the bipartite graph of decoder and encoder.

    >>> Complete().dense(2, 3).expand(1, 1, 2, 3).all().item()
    True
    """

    reflexive = True

    def sees(self, places: Places) -> Mask:
        return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=places.device).expand(1, 1, places.queries, places.keys)

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return None if places.queries else super().unseen(places, rows_at_once)


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Neighborhood):
    """The past and the present: N(i) = {j <= i}, with i the absolute position.

    >>> Causal().dense(2, 4, start=2).int()[0, 0].tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """

    causal = True
    reflexive = True

    def sees(self, places: Places) -> Mask:
        return places.j <= places.i

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        if places.counted and places.queries and places.start + places.queries >= places.keys:
            return None  # the last query sees everything
        return super().unseen(places, rows_at_once)


@dataclass(frozen=True, eq=False, repr=False)
class Window(Neighborhood):
    """The keys near the query: N(i) = {i - left <= j <= i + right}.

    `Window(k)` is the lectures' "stride attention" (k + 1 keys) and `Window(0)` their hard attention, output i = input i.

    >>> Window(1, 1).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """

    left: int
    right: int = 0

    reflexive = True

    def __post_init__(self) -> None:
        require(
            self.left >= 0 and self.right >= 0,
            f"a window needs left and right >= 0: got left={self.left}, right={self.right}",
        )

    @property
    def causal(self) -> bool:  # type: ignore[override]
        return self.right == 0

    def sees(self, places: Places) -> Mask:
        distance = places.j - places.i
        return (distance >= -self.left) & (distance <= self.right)


@dataclass(frozen=True, eq=False, repr=False)
class Strided(Neighborhood):
    """Child's strided pattern: the last `stride` keys, and every stride-th key before.

    N(i) = {i - stride <= j <= i} united with {j <= i: (i - j) mod stride = 0}

    `part="local"` is the first half alone, `part="stride"` the second: causal attention inside each residue class.

    >>> Strided(2, part="stride").dense(1, 5, start=4).int()[0, 0].tolist()
    [[1, 0, 1, 0, 1]]

    Child et al. (2019), arXiv:1904.10509, 4.2.
    """

    stride: int
    part: str | None = None

    causal = True
    reflexive = True

    def __post_init__(self) -> None:
        require(self.stride >= 1, f"stride must be at least 1: got {self.stride}")
        check_part(self.part, "local", "stride")

    def sees(self, places: Places) -> Mask:
        distance = places.i - places.j
        local = distance <= self.stride
        stride = distance % self.stride == 0
        return (distance >= 0) & {None: local | stride, "local": local, "stride": stride}[self.part]


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Neighborhood):
    """Child's fixed pattern: the query's own block, and the last `summary` columns of every block.

    N(i) = {j <= i: j // block = i // block or j mod block >= block - summary}

    `part="local"` is the block alone, `part="summary"` the columns alone; there the first rows are empty.

    >>> Fixed(3, 1).dense(1, 5, start=4).int()[0, 0].tolist()
    [[0, 0, 1, 1, 1]]

    Child et al. (2019), arXiv:1904.10509, 4.2.
    """

    block: int
    summary: int
    part: str | None = None

    causal = True

    def __post_init__(self) -> None:
        require(
            1 <= self.summary <= self.block,
            f"a block needs 1 <= summary <= block: got block={self.block}, summary={self.summary}",
        )
        check_part(self.part, "local", "summary")

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        return self.part != "summary"

    def sees(self, places: Places) -> Mask:
        i, j = places.i, places.j
        local = j // self.block == i // self.block
        summary = j % self.block >= self.block - self.summary
        return (j <= i) & {None: local | summary, "local": local, "summary": summary}[self.part]


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Neighborhood):
    """The cells around a cell of a picture, clipped at its borders.

    N(i) = {j: max(|row(j) - row(i)|, |column(j) - column(i)|) <= radius}, cells numbered row by row

    Radius 1 is the lectures' {-1, 0, 1}^2: eight neighbors and the cell itself.

    >>> Grid(3, 3).dense(9, 9)[0, 0].sum(-1).tolist()
    [4, 6, 4, 6, 9, 6, 4, 6, 4]
    """

    height: int
    width: int
    radius: int = 1

    reflexive = True

    def __post_init__(self) -> None:
        require(
            self.height >= 1 and self.width >= 1 and self.radius >= 0,
            f"a grid needs height, width >= 1 and radius >= 0: got {self}",
        )

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        cells, last = self.height * self.width, places.start + places.queries
        fits = last <= cells and (places.keys == cells if exact else places.keys <= cells)
        require(
            fits,
            f"{self} has {cells} cells: got queries up to {last}, keys={places.keys}. Flatten the grid row by row.",
        )

    def sees(self, places: Places) -> Mask:
        i, j = places.row, places.column
        down = (j // self.width - i // self.width).abs()
        right = (j % self.width - i % self.width).abs()
        return torch.maximum(down, right) <= self.radius


@dataclass(frozen=True, eq=False, repr=False)
class Monotonic(Neighborhood):
    """Luong's local-m window: the source around the place of the target word.

    N(t) = {j: |j - min(t, length - 1)| <= half}

    The centre stops at the end of the source. The true length of each sample comes from a `Padding` in the same
    intersection; without one it is the number of keys.

    >>> (Monotonic(1) & Padding([2])).dense(3, 4).int()[0, 0].tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.2.
    """

    half: int

    def __post_init__(self) -> None:
        require(self.half >= 0, f"half must be at least 0: got {self.half}")

    def sees(self, places: Places) -> Mask:
        centre = torch.minimum(places.i, places.length - 1).clamp(min=0)
        return (places.column - centre).abs() <= self.half


@dataclass(frozen=True, eq=False, repr=False)
class Padding(Neighborhood):
    """The real keys of each sample: N(i) = {j < lengths[sample]}.

    >>> Padding([1, 3]).dense(1, 3).int()[:, 0, 0].tolist()
    [[1, 0, 0], [1, 1, 1]]
    """

    lengths: Int[Tensor, " batch"]
    longest: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        lengths = torch.as_tensor(self.lengths)
        require(lengths.ndim == 1, f"padding lengths must be one number per sample: got shape {show(lengths)}")
        if lengths.numel():
            check_integers("padding lengths", lengths)
            shortest, longest = (int(bound) for bound in lengths.aminmax())
            require(shortest >= 0, f"padding lengths must be at least 0: got {shortest}")
            object.__setattr__(self, "longest", longest)
        object.__setattr__(self, "lengths", lengths)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        check_batch("padding lengths", self.lengths.shape[0], places.batch)
        require(
            not exact or self.longest <= places.keys,
            f"padding lengths must be at most keys: got lengths up to {self.longest}, keys={places.keys}. "
            "Pad the batch or cut the lengths.",
        )

    def repeat(self, times: int) -> Neighborhood:
        return Padding(self.lengths.repeat_interleave(times))

    def sees(self, places: Places) -> Mask:
        return places.column < self.lengths.view(-1, 1, 1, 1)

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return super().unseen(places.rows(0, min(1, places.queries)))  # the same for every query


@dataclass(frozen=True, eq=False, repr=False)
class Documents(Neighborhood):
    """Only the same document, for sequences packed into one row: N(i) = {j: ids[j] = ids[i]}.

    >>> Documents(torch.tensor([[7, 7, 8]])).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    ids: Int[Tensor, "batch length"]

    reflexive = True

    def __post_init__(self) -> None:
        ids = torch.as_tensor(self.ids)
        check_integers("document ids", ids)
        require(ids.ndim == 2, f"document ids must have the axes (batch length): got shape {show(ids)}")
        object.__setattr__(self, "ids", ids)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        length, last = self.ids.shape[1], places.start + places.queries
        check_batch("document ids", self.ids.shape[0], places.batch)
        fits = last <= length and (places.keys == length if exact else places.keys <= length)
        require(fits, f"document ids cover {length} places: got queries up to {last}, keys={places.keys}")

    def repeat(self, times: int) -> Neighborhood:
        return Documents(self.ids.repeat_interleave(times, dim=0))

    def sees(self, places: Places) -> Mask:
        own = self.ids[:, places.row.flatten()]
        return own[:, None, :, None] == self.ids[:, None, None, : places.keys]


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Neighborhood):
    """Any set, as a bool tensor of (queries, keys), (batch, queries, keys) or (batch, heads, queries, keys).

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
        require(2 <= mask.ndim <= 4, f"a dense mask has 2, 3 or 4 axes, (batch, heads, queries, keys): got {show(mask)}")

    @property
    def _four(self) -> Tensor:
        mask = self.mask if self.mask.ndim != 3 else self.mask.unsqueeze(1)
        return mask.view((1,) * (4 - mask.ndim) + mask.shape)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        batch, rows_of, queries, keys = self._four.shape
        last = places.start + places.queries
        check_batch("the dense mask", batch, places.batch)
        require(rows_of == 1 or heads in (0, rows_of), f"the dense mask has heads={rows_of}: got heads={heads}")
        fits = (last == queries, keys == places.keys) if exact else (last <= queries, places.keys <= keys)
        require(
            (queries == 1 or fits[0]) and (keys == 1 or fits[1]),
            f"the dense mask has shape {show(self.mask)}: got queries up to {last}, keys={places.keys}",
        )

    def repeat(self, times: int) -> Neighborhood:
        return self if self._four.shape[0] == 1 else Dense(self._four.repeat_interleave(times, dim=0))

    def sees(self, places: Places) -> Mask:
        mask = self._four
        mask = mask if mask.shape[2] == 1 else mask[:, :, places.row.flatten()]
        return mask[..., : places.keys]


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Neighborhood):
    """The edges of a graph: N(i) = {j: the edge j -> i is listed}.

    Row 0 of `edge_index` is the source (key), row 1 the target (query). An exact set: duplicates count once, no self loops are
    added (`with_self_loops` adds them), and a node without edges gets zeros. One graph for the whole batch; put different
    graphs side by side as one disjoint union.

    >>> Edges(torch.tensor([[0, 1, 1], [1, 0, 0]]), nodes=2).pairs.tolist()
    [[1, 0], [0, 1]]
    """

    edge_index: Int[Tensor, "2 edges"]
    nodes: int

    def __post_init__(self) -> None:
        index = torch.as_tensor(self.edge_index)
        index = index.long() if index.numel() == 0 else index
        check_integers("edge_index", index)
        require(
            index.ndim == 2 and index.shape[0] == 2,
            f"edge_index must have the axes (2 edges), sources above targets: got shape {show(index)}",
        )
        if index.numel():
            low, high = (int(bound) for bound in index.aminmax())
            require(
                low >= 0 and high < self.nodes,
                f"edge_index must name nodes from 0 to {self.nodes - 1}: got {low} to {high} with nodes={self.nodes}",
            )
        object.__setattr__(self, "edge_index", index)

    @cached_property
    def pairs(self) -> Int[Tensor, "2 edges"]:
        """The edges once each, sorted by target and then source: the order of every per-edge result."""
        source, target = self.edge_index.long()
        order = torch.unique(target * self.nodes + source)
        return torch.stack([order % self.nodes, order // self.nodes])

    @cached_property
    def offsets(self) -> Int[Tensor, " nodes+1"]:
        """Where the edges of each target begin in `pairs`: the row pointer of the CSR form."""
        return torch.searchsorted(self.pairs[1], torch.arange(self.nodes + 1, device=self.pairs.device))

    def with_self_loops(self) -> "Edges":
        """The same graph in which every node also sees itself."""
        loops = torch.arange(self.nodes, device=self.edge_index.device).expand(2, -1)
        return Edges(torch.cat([self.edge_index.long(), loops], dim=1), self.nodes)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        last = places.start + places.queries
        require(
            last <= self.nodes and places.keys == self.nodes,
            f"{self} needs keys={self.nodes}, one per node: got queries up to {last}, keys={places.keys}",
        )

    def sees(self, places: Places) -> Mask:
        rows = places.row.flatten()
        first, last = (int(rows[0]), int(rows[-1]) + 1) if rows.numel() else (0, 0)
        source, target = self.pairs[:, int(self.offsets[first]) : int(self.offsets[last])]
        mask = torch.zeros(last - first, places.keys, dtype=torch.bool, device=places.device)
        mask[target - first, source] = True
        return mask[None, None]

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        if places.start or places.queries < self.nodes:
            return super().unseen(places, rows_at_once)
        unseen = torch.ones(1, 1, self.nodes, dtype=torch.bool, device=places.device)
        unseen[..., self.pairs[0]] = False
        return unseen


@dataclass(frozen=True, eq=False, repr=False)
class PerHead(Neighborhood):
    """A set of its own for every head.

    >>> PerHead(Causal(), Complete()).dense(1, 3).int()[0, :, 0].tolist()
    [[1, 0, 0], [1, 1, 1]]
    """

    parts: tuple[Neighborhood, ...]

    def __init__(self, *parts: Neighborhood) -> None:
        require(len(parts) > 0, "PerHead needs one neighborhood per head: got none")
        object.__setattr__(self, "parts", tuple(as_neighborhood(part) for part in parts))

    @property
    def causal(self) -> bool:  # type: ignore[override]
        return all(part.causal for part in self.parts)

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        return all(part.reflexive for part in self.parts)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        require(
            heads in (0, len(self.parts)),
            f"PerHead lists {len(self.parts)} neighborhoods: got heads={heads}. List one per head.",
        )
        for part in self.parts:
            part.check(places, 1, exact)

    def repeat(self, times: int) -> Neighborhood:
        return PerHead(*(part.repeat(times) for part in self.parts))

    def sees(self, places: Places) -> Mask:
        masks = [part.sees(places) for part in self.parts]
        batch = max(mask.shape[0] for mask in masks)
        return torch.cat([mask.expand(batch, 1, places.queries, places.keys) for mask in masks], dim=1)

    def __repr__(self) -> str:
        return f"PerHead({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True, eq=False, repr=False)
class Intersection(Neighborhood):
    """What all parts see: a & b."""

    parts: tuple[Neighborhood, ...]

    @property
    def causal(self) -> bool:  # type: ignore[override]
        return any(part.causal for part in self.parts)

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        return all(part.reflexive for part in self.parts)

    def conjuncts(self) -> tuple[Neighborhood, ...]:
        return self.parts

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        for part in self.parts:
            part.check(places, heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return Intersection(tuple(part.repeat(times) for part in self.parts))

    def sees(self, places: Places) -> Mask:
        lengths = lengths_of(self)
        places = places if lengths is None else replace(places, lengths=lengths)
        mask = self.parts[0].sees(places)
        for part in self.parts[1:]:
            mask = mask & part.sees(places)
        return mask

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        paddings = [part for part in self.parts if isinstance(part, Padding)]
        if not paddings:
            return super().unseen(places, rows_at_once)
        # padding is the same for every query, so what it hides and what the rest hides simply add up
        places = replace(places, lengths=lengths_of(self))
        rest = intersect(part for part in self.parts if not isinstance(part, Padding))
        hidden = rest.unseen(places, rows_at_once)
        for padding in paddings:
            padded = padding.unseen(places)
            hidden = padded if hidden is None else hidden | padded
        return hidden

    def _identity(self) -> tuple[object, ...]:
        return (Intersection, frozenset(self.parts))

    def __repr__(self) -> str:
        return " & ".join(f"({part})" if isinstance(part, Union) else repr(part) for part in self.parts)


@dataclass(frozen=True, eq=False, repr=False)
class Union(Neighborhood):
    """What any part sees: a | b. A union of bands is no band."""

    parts: tuple[Neighborhood, ...]

    @property
    def causal(self) -> bool:  # type: ignore[override]
        return all(part.causal for part in self.parts)

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        return any(part.reflexive for part in self.parts)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        for part in self.parts:
            part.check(places, heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return Union(tuple(part.repeat(times) for part in self.parts))

    def sees(self, places: Places) -> Mask:
        mask = self.parts[0].sees(places)
        for part in self.parts[1:]:
            mask = mask | part.sees(places)
        return mask

    def _identity(self) -> tuple[object, ...]:
        return (Union, frozenset(self.parts))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.parts))


@dataclass(frozen=True, eq=False, repr=False)
class Complement(Neighborhood):
    """What the part does not see: ~a."""

    part: Neighborhood

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        self.part.check(places, heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return Complement(self.part.repeat(times))

    def sees(self, places: Places) -> Mask:
        return ~self.part.sees(places)

    def __invert__(self) -> Neighborhood:
        return self.part

    def __repr__(self) -> str:
        compound = isinstance(self.part, Intersection | Union)
        return f"~({self.part})" if compound else f"~{self.part}"


def intersect(parts: Iterable[Neighborhood]) -> Neighborhood:
    """The intersection of all parts, flattened and without repetition; Complete is its neutral element."""
    flat = [inner for part in parts for inner in part.conjuncts() if not isinstance(inner, Complete)]
    flat = list(dict.fromkeys(flat))
    if len(flat) > 1:
        return Intersection(tuple(flat))
    return flat[0] if flat else Complete()


def lengths_of(where: Neighborhood) -> Int[Tensor, " batch"] | None:
    """The true number of keys of each sample, from the paddings that every query obeys; None without any."""
    lengths = [part.lengths for part in where.conjuncts() if isinstance(part, Padding)]
    shortest = lengths[0] if lengths else None
    for other in lengths[1:]:
        shortest = torch.minimum(shortest, other)
    return shortest


def as_neighborhood(value: object) -> Neighborhood:
    """The value itself, or a ValueError that says what a `where` is."""
    if isinstance(value, Neighborhood):
        return value
    hint = " Wrap a bool mask (True = may be seen) in Dense(mask)." if isinstance(value, Tensor) else ""
    raise ValueError(f"where must be a neighborhood such as Causal() or Padding(lengths): got {type(value).__name__}.{hint}")


def check_part(part: str | None, *known: str) -> None:
    """Require the name of a half of one of Child's patterns."""
    if part is not None and part not in known:
        raise unknown("part", part, known)


def check_batch(name: str, got: int, batch: int | None) -> None:
    """Require one row per sample, or a single row for all."""
    require(batch is None or got in (1, batch), f"{name} must have one row per sample: got {got} for batch={batch}")
