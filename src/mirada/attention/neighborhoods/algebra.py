"""What a neighborhood is, and the set algebra that combines them."""

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from itertools import pairwise
from operator import and_, or_
from types import MemberDescriptorType
from typing import Any, ClassVar, NamedTuple, Self

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from mirada.attention.places import Pair, Places
from mirada.attention.transforms import refuse_alone, reset_inherited
from mirada.errors import require
from mirada.shapes import show

Mask = Bool[Tensor, "#batch #heads #queries #keys"]
Unseen = Bool[Tensor, "#batch #heads keys"]

# declarations about `sees`, which hold for no other
ABOUT_SEES = (
    "causal", "reflexive", "band", "homogeneous", "uniform", "dense", "unseen", "conjuncts", "cuts", "pieces", "pair",
    "__invert__",
)  # fmt: skip


class KeyRange(NamedTuple):
    """The keys begin, ..., end - 1, and the set that a neighborhood is among them for some queries."""

    begin: int
    end: int
    where: "Neighborhood"


@dataclass(frozen=True, eq=False, repr=False)
class Neighborhood:
    """A set of keys for every query. Subclasses say which in `sees`.

    What a class declares about its set (causal, reflexive, ...) holds for that set: a subclass that overrides `sees`
    inherits none of it. A set that declares nothing is only slower.

    >>> @dataclass(frozen=True, eq=False, repr=False)
    ... class Even(Neighborhood):
    ...     def sees(self, places):
    ...         return places.column % 2 == 0
    >>> Even().dense(1, 4).int().flatten().tolist()
    [1, 0, 1, 0]
    """

    causal: ClassVar[bool] = False  # no query sees a later key
    reflexive: ClassVar[bool] = False  # every query sees the key at its own place
    band: ClassVar[tuple[float, float]] = (math.inf, math.inf)  # how far it reaches: i - left <= j <= i + right
    homogeneous: ClassVar[bool] = False  # only the distance j - i decides
    uniform: ClassVar[bool] = False  # every query sees the same keys
    lengths: ClassVar[Tensor | None] = None  # the true number of keys of each sample, if this set defines it

    def __init_subclass__(cls, **given: Any) -> None:
        """A class with a `sees` of its own inherits no statement about the sets of others."""
        super().__init_subclass__(**given)
        refuse_alone(cls, "dense", "sees", "which no kernel asks: write sees(places), and dense follows from it")
        reset_inherited(cls, Neighborhood, "sees", ABOUT_SEES)

    def sees(self, places: Places) -> Mask:
        """The set as a bool tensor of four axes, of size 1 where it does not vary."""
        raise NotImplementedError

    def pair(self, at: Pair) -> Tensor | None:
        """Whether one query sees one key, as a tensor without axes; None if only `sees` can tell.

        A compiler for GPUs makes a kernel of it. It may compare the numbers of `at` and index tensors by them; where `sees`
        reads nothing but `i`, `j`, `row` and `column`, it is `return self.sees(at)`.
        """
        return None

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        """Raise a ValueError if this set does not fit the places. `exact=False`: the keys are still growing (a cache)."""

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        """The keys that no query of their sample sees; None if it is clear without a mask that there are none.

        `rows_at_once` bounds the memory of building a mask.
        """
        if self.reflexive and places.counted and places.start == 0 and places.queries >= max(1, places.keys):
            return None  # every key has a query at its own place
        if torch.compiler.is_exporting():  # a loop over rows would fix their number
            return ~self.sees(places).any(2).expand(-1, -1, places.keys)
        step = rows_at_once or max(1, places.queries)
        seen = torch.zeros(1, 1, places.keys, dtype=torch.bool, device=places.device)
        for first in range(0, places.queries, step):
            seen = seen | self.sees(places.rows(first, min(first + step, places.queries))).any(2)
        return ~seen

    def repeat(self, times: int) -> "Neighborhood":
        """The same set for a batch in which every entry is repeated `times` times in a row."""
        return self

    def of_sample(self, index: int) -> "Neighborhood":
        """The set of one sample of the batch."""
        return self

    def cuts(self, places: Places) -> tuple[int, ...]:
        """The rows at which the keys that are seen change at once, such as where a document begins."""
        return ()

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        """The keys outside which these queries see nothing, in order, with the set that this one is there.

        The places are counted and those of one sample, and start with key 0. `Complete()` stands where all queries see all.
        """
        left, right = self.band
        begin = 0 if left == math.inf else max(0, places.start - int(left))
        end = places.keys if right == math.inf else min(places.keys, places.start + places.queries + int(right))
        return (KeyRange(begin, end, self),) if begin < end and places.queries else ()

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
        for value in self._settings().values():
            if isinstance(value, Tensor):
                yield value
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Neighborhood):
                    yield from part.tensors()

    def __and__(self, other: "Neighborhood") -> "Neighborhood":
        return intersect((self, other)) if isinstance(other, Neighborhood) else NotImplemented

    def __or__(self, other: "Neighborhood") -> "Neighborhood":
        if not isinstance(other, Neighborhood):
            return NotImplemented
        parts = (x for part in (self, other) for x in (part.parts if type(part) is Union else (part,)))
        flat = tuple(dict.fromkeys(parts))
        return Union(flat) if len(flat) > 1 else flat[0]

    def __invert__(self) -> "Neighborhood":
        return Complement(self)

    def _settings(self) -> dict[str, Any]:
        """What this set is made of, by name: its fields or, in a class that is no dataclass, all that was set on it."""
        if "__dataclass_fields__" in vars(type(self)):
            return {item.name: getattr(self, item.name) for item in fields(self)}
        slots = {name for name in self._members(MemberDescriptorType) if hasattr(self, name)}
        return {name: getattr(self, name) for name in sorted({*vars(self), *slots} - self._members(cached_property))}

    def _members(self, kind: type) -> set[str]:
        """The names in its classes that stand for something of that kind."""
        return {name for owner in type(self).__mro__ for name, x in vars(owner).items() if isinstance(x, kind)}

    def _with(self, **changes: Any) -> Self:
        """The same set with other settings, of the same class; what was computed from the old ones is dropped."""
        twin = copy(self)
        for name in self._members(cached_property):
            vars(twin).pop(name, None)
        for name, value in changes.items():
            object.__setattr__(twin, name, value)
        return twin

    def _identity(self) -> tuple[object, ...]:
        return (type(self), *(v if _is_hashable(v) and not isinstance(v, Tensor) else id(v)
                              for v in self._settings().values()))  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Neighborhood) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        hidden = {item.name for item in fields(self) if not item.repr}
        shown = ((name, value) for name, value in self._settings().items() if name not in hidden)
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

    def pair(self, at: Pair) -> Tensor:
        return at.column == at.column

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return None if places.queries else super().unseen(places, rows_at_once)


def spliced(
    parts: Iterable[tuple[KeyRange, ...]], combine: Callable[[tuple[Neighborhood, ...]], Neighborhood | None]
) -> tuple[KeyRange, ...]:
    """The pieces of a set with parts: between two borders `combine` makes one set of those that reach there; None is empty."""
    lists = tuple(parts)
    borders = sorted({border for pieces in lists for piece in pieces for border in piece[:2]})
    found: list[KeyRange] = []
    for begin, end in pairwise(borders):
        here = combine(tuple(x.where for pieces in lists for x in pieces if x.begin <= begin and end <= x.end))
        if here is None:
            continue
        if found and found[-1].end == begin and found[-1].where == here:
            begin = found.pop().begin
        found.append(KeyRange(begin, end, here))
    return tuple(found)


def _over_parts(name: str, combine: Callable[[Iterator[Any]], Any]) -> Any:
    """A property of a set with parts: `combine` over that property of all parts."""
    return property(lambda self: combine(getattr(part, name) for part in self.parts))


@dataclass(frozen=True, eq=False, repr=False)
class PerHead(Neighborhood):
    """A set of its own for every head.

    Args:
        parts: a neighborhood for every head, in their order.

    >>> from mirada.attention.neighborhoods import Causal
    >>> PerHead(Causal(), Complete()).dense(1, 3).int()[0, :, 0].tolist()
    [[1, 0, 0], [1, 1, 1]]
    """

    parts: tuple[Neighborhood, ...]

    def __init__(self, *parts: Neighborhood) -> None:
        require(len(parts) > 0, "PerHead needs one neighborhood per head: got none")
        object.__setattr__(self, "parts", tuple(as_neighborhood(part) for part in parts))

    causal = _over_parts("causal", all)
    reflexive = _over_parts("reflexive", all)
    band = _over_parts("band", lambda bands: tuple(map(max, zip(*bands, strict=True))))
    homogeneous = _over_parts("homogeneous", all)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        self.check_heads(heads)
        for part in self.parts:
            part.check(places, 1, exact)

    def check_heads(self, heads: int) -> None:
        """Require one part per head; 0 stands for any number."""
        if heads not in (0, len(self.parts)):
            raise ValueError(f"PerHead lists {len(self.parts)} neighborhoods: got heads={heads}. List one per head.")

    def repeat(self, times: int) -> Neighborhood:
        return self._with(parts=tuple(part.repeat(times) for part in self.parts))

    def of_sample(self, index: int) -> Neighborhood:
        return self._with(parts=tuple(part.of_sample(index) for part in self.parts))

    def sees(self, places: Places) -> Mask:
        masks = [part.sees(places) for part in self.parts]
        (batch,) = torch.broadcast_shapes(*(mask.shape[:1] for mask in masks))
        return torch.cat([mask.expand(batch, 1, places.queries, places.keys) for mask in masks], dim=1)

    def pair(self, at: Pair) -> Tensor | None:
        return _pairs(self.parts, at, lambda pairs: _any_of([(at.head == h) & pair for h, pair in enumerate(pairs)]))

    def __repr__(self) -> str:
        return f"PerHead({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True, eq=False, repr=False)
class Combination(Neighborhood):
    """Several sets in one, in no particular order."""

    parts: tuple[Neighborhood, ...]

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        for part in self.parts:
            part.check(places, heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return self._with(parts=tuple(part.repeat(times) for part in self.parts))

    def of_sample(self, index: int) -> Neighborhood:
        return self._with(parts=tuple(part.of_sample(index) for part in self.parts))

    def cuts(self, places: Places) -> tuple[int, ...]:
        return tuple(cut for part in self.parts for cut in part.cuts(places))

    def _identity(self) -> tuple[object, ...]:
        return (type(self), frozenset(self.parts))


@dataclass(frozen=True, eq=False, repr=False)
class Intersection(Combination):
    """What all parts see: a & b.

    Args:
        parts: the sets, without repetition.

    >>> from mirada.attention.neighborhoods import Causal, Window
    >>> (Causal() & Window(1)).dense(1, 4, start=2).int().flatten().tolist()
    [0, 1, 1, 0]
    """

    causal = _over_parts("causal", any)
    reflexive = _over_parts("reflexive", all)
    band = _over_parts("band", lambda bands: tuple(map(min, zip(*bands, strict=True))))
    homogeneous = _over_parts("homogeneous", all)

    def conjuncts(self) -> tuple[Neighborhood, ...]:
        return self.parts

    def sees(self, places: Places) -> Mask:
        lengths = lengths_of(self)
        places = places if lengths is None else replace(places, lengths=lengths)
        return ~_any_of([~part.sees(places) for part in self.parts])

    def pair(self, at: Pair) -> Tensor | None:
        lengths = lengths_of(self)
        at = at if lengths is None else replace(at, lengths=lengths)
        return _pairs(self.parts, at, lambda pairs: reduce(and_, pairs))

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        uniform = [part for part in self.parts if part.uniform]
        if not uniform:
            return super().unseen(places, rows_at_once)
        # padding is the same for every query, so what it hides and what the rest hides simply add up
        lengths = lengths_of(self)
        places = places if lengths is None else replace(places, lengths=lengths)
        rest = intersect(part for part in self.parts if not part.uniform)
        hidden = [part.unseen(places, rows_at_once) for part in (*uniform, rest)]
        masks = [keys for keys in hidden if keys is not None]
        return _any_of(masks) if masks else None

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        def all_of(sets: tuple[Neighborhood, ...]) -> Neighborhood | None:
            return intersect(sets) if len(sets) == len(self.parts) else None

        return spliced((part.pieces(places) for part in self.parts), all_of)

    def __repr__(self) -> str:
        return " & ".join(f"({part})" if isinstance(part, Union) else repr(part) for part in self.parts)


@dataclass(frozen=True, eq=False, repr=False)
class Union(Combination):
    """What any part sees: a | b.

    Args:
        parts: the sets, without repetition.

    >>> from mirada.attention.neighborhoods import Strided, Window
    >>> (Window(0) | Strided(2, part="stride")).dense(1, 4, start=3).int().flatten().tolist()
    [0, 1, 0, 1]
    """

    causal = _over_parts("causal", all)
    reflexive = _over_parts("reflexive", any)
    band = _over_parts("band", lambda bands: tuple(map(max, zip(*bands, strict=True))))
    homogeneous = _over_parts("homogeneous", all)

    def sees(self, places: Places) -> Mask:
        return _any_of([part.sees(places) for part in self.parts])

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        def any_of(sets: tuple[Neighborhood, ...]) -> Neighborhood | None:
            full = any(type(x) is Complete for x in sets)
            return Complete() if full else reduce(or_, sets) if sets else None

        # the true lengths in an intersection are there for all of it, and lost if it is taken apart
        whole = (isinstance(x, Intersection) and lengths_of(x) is not None for x in self.parts)
        given = (Neighborhood.pieces if w else type(x).pieces for w, x in zip(whole, self.parts, strict=True))
        return spliced((pieces(x, places) for pieces, x in zip(given, self.parts, strict=True)), any_of)

    def pair(self, at: Pair) -> Tensor | None:
        return _pairs(self.parts, at, _any_of)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.parts))


@dataclass(frozen=True, eq=False, repr=False)
class Complement(Neighborhood):
    """What the part does not see: ~a.

    Args:
        part: the set.

    >>> from mirada.attention.neighborhoods import Causal
    >>> (~Causal()).dense(1, 3, start=1).int().flatten().tolist()
    [0, 0, 1]
    """

    part: Neighborhood

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether the part is."""
        return self.part.homogeneous

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        self.part.check(places, heads, exact)

    def repeat(self, times: int) -> Neighborhood:
        return self._with(part=self.part.repeat(times))

    def of_sample(self, index: int) -> Neighborhood:
        return self._with(part=self.part.of_sample(index))

    def sees(self, places: Places) -> Mask:
        return ~self.part.sees(places)

    def pair(self, at: Pair) -> Tensor | None:
        seen = self.part.pair(at)
        return None if seen is None else ~seen

    def __invert__(self) -> Neighborhood:
        return self.part

    def __repr__(self) -> str:
        return f"~({self.part})" if isinstance(self.part, Intersection | Union) else f"~{self.part}"


def intersect(parts: Iterable[Neighborhood]) -> Neighborhood:
    """The intersection of all parts, flattened and without repetition; Complete is its neutral element.

    Args:
        parts: any number of neighborhoods.

    >>> from mirada.attention.neighborhoods import Causal, Window
    >>> intersect([Causal(), Complete(), Causal(), Window(2)])
    Causal() & Window(left=2, right=0)
    """
    flat = tuple(dict.fromkeys(x for part in parts for x in part.conjuncts() if type(x) is not Complete))
    return Intersection(flat) if len(flat) > 1 else flat[0] if flat else Complete()


def lengths_of(where: Neighborhood) -> Int[Tensor, " batch"] | None:
    """The true number of keys of each sample, from the paddings that every query obeys; None without any.

    Args:
        where: the neighborhood to look at.

    >>> from mirada.attention.neighborhoods import Causal, Padding
    >>> lengths_of(Causal() & Padding([3, 5])).tolist()
    [3, 5]
    """
    lengths = [part.lengths for part in where.conjuncts() if part.lengths is not None]
    return torch.stack(torch.broadcast_tensors(*lengths)).amin(0) if lengths else None


def _is_hashable(value: object) -> bool:
    """Whether a value has a hash: a tuple has none if something in it has none."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _pairs(parts: Iterable[Neighborhood], at: Pair, combine: Callable[[list[Tensor]], Tensor]) -> Tensor | None:
    """The pairs of all parts, combined; None if a part has none."""
    pairs = [part.pair(at) for part in parts]
    known = [pair for pair in pairs if pair is not None]
    return combine(known) if len(known) == len(pairs) else None


def _any_of(masks: list[Tensor]) -> Tensor:
    """What is True in any of the masks, broadcast against each other."""
    return reduce(or_, masks)


def as_neighborhood(value: object) -> Neighborhood:
    """The value itself, or a ValueError that says what a `where` is.

    Args:
        value: what was passed as `where`.

    >>> as_neighborhood(Complete())
    Complete()
    """
    if isinstance(value, Neighborhood):
        return value
    hint = " Wrap a bool mask (True = may be seen) in Dense(mask)." if isinstance(value, Tensor) else ""
    message = f"where must be a neighborhood such as Causal() or Padding(lengths): got {type(value).__name__}.{hint}"
    raise ValueError(message)
