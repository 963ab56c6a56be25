"""Changes of a call of attention as values, and how they are applied to a request."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from mirada.attention.kernels.request import Request
from mirada.attention.neighborhoods import Mask, Neighborhood
from mirada.attention.normalizers import Identity
from mirada.attention.places import Places
from mirada.errors import require, unknown
from mirada.looking.attn.format import shown

MOST_PLACES = 2**31


class Change:
    """A change of one layer. `head=None` means all heads; places count from 0."""

    query: int | None
    key: int | None
    head: int | None

    def __post_init__(self) -> None:
        for name in ("query", "key", "head"):
            value = getattr(self, name)
            free = name == "head" and not isinstance(self, DropHead)
            given = name in (item.name for item in fields(self))  # type: ignore[arg-type]
            if given and not (free and value is None) and not (type(value) is int and value >= 0):
                raise ValueError(f"{name} must be a whole number from 0 on: got {name}={value!r} in {self!r}")
            # a larger one would not fit the indices of a tensor
            if given and value is not None and value >= MOST_PLACES:
                raise ValueError(f"{name} must be less than {MOST_PLACES:,}: no layer has so many")


@dataclass(frozen=True)
class DropHead(Change):
    """The head sees nothing: its weights and its output are zeros.

    Args:
        head: Which one, from 0.

    >>> DropHead(3)
    DropHead(head=3)
    """

    head: int
    query: ClassVar[None] = None  # type: ignore[misc]
    key: ClassVar[None] = None  # type: ignore[misc]


@dataclass(frozen=True)
class Cut(Change):
    """The query does not see the key: it is masked before the normalizer, so that the other keys share its weight.

    Args:
        query: The place of the query in its sequence.
        key: The place of the key.
        head: Which one; without it, all.

    >>> Cut(query=2, key=0)
    Cut(query=2, key=0, head=None)
    """

    query: int
    key: int
    head: int | None = None


@dataclass(frozen=True)
class MaskKey(Change):
    """No query sees the key: masked before the normalizer.

    Args:
        key: The place of the key.
        head: Which one; without it, all.

    >>> MaskKey(0, head=1)
    MaskKey(key=0, head=1)
    """

    key: int
    head: int | None = None
    query: ClassVar[None] = None  # type: ignore[misc]


@dataclass(frozen=True)
class Force(Change):
    """The query gives the key this weight; the rest of the row shares 1 - weight in proportion.

    All forced weights of a row are set together. Where the rest has no weight to be in proportion to (a hard choice), it
    shares equally. Weights that no normalizer makes sum to one (`Identity`) leave the rest of the row as it is. A key that
    the neighborhood hides from the query keeps its weight of 0.

    Args:
        query: The place of the query in its sequence.
        key: The place of the key.
        weight: From 0 to 1.
        head: Which one; without it, all.

    >>> Force(query=0, key=1, weight=0.5)
    Force(query=0, key=1, weight=0.5, head=None)
    """

    query: int
    key: int
    weight: float
    head: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number = isinstance(self.weight, int | float) and not isinstance(self.weight, bool)
        if not number or not 0 <= self.weight <= 1:  # NaN and infinity lie nowhere
            raise ValueError(f"weight must be a number from 0 to 1: got weight={shown(self.weight)}")


Reweighing = Callable[[Tensor], Tensor]
CHANGES: dict[str, type[Change]] = {kind.__name__: kind for kind in (DropHead, Cut, MaskKey, Force)}


def changes_from(items: object) -> dict[str, list[Change]]:
    """Changes by layer from their JSON form, a list of `{"layer": name, "do": kind, ...}`.

    >>> changes_from([{"layer": "decoder.layers.1.cross", "do": "DropHead", "head": 3}])
    {'decoder.layers.1.cross': [DropHead(head=3)]}
    """
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        example = '[{"layer": ..., "do": "DropHead", "head": 3}]'
        raise ValueError(f"changes must be a list such as {example}: got {items!r}")
    changes: dict[str, list[Change]] = {}
    for number, item in enumerate(items):
        try:
            layer, change = _change_from(item)
        except ValueError as error:
            raise ValueError(f"changes[{number}]: {error}") from None
        changes.setdefault(layer, []).append(change)
    return changes


def _change_from(item: object) -> tuple[str, Change]:
    """A layer and its change from the JSON form of one."""
    if not isinstance(item, Mapping):
        raise ValueError(f'a change is an object with "layer" and "do": got {item!r}')
    layer, do = item.get("layer"), item.get("do")
    if not isinstance(layer, str):
        raise ValueError(f'"layer" must be the name of a layer: got {layer!r}')
    if not isinstance(do, str) or do not in CHANGES:
        raise unknown("change", do, CHANGES)
    kind = CHANGES[do]
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    given = {name: value for name, value in item.items() if name not in ("layer", "do")}
    for name in given:
        if name not in known:
            raise unknown(f"field of {do}", name, known)
    missing = [name for name in known if name not in given and (name != "head" or kind is DropHead)]
    require(not missing, f"{do} needs {', '.join(missing)}: got {', '.join(map(str, given)) or 'nothing'}")
    return layer, kind(**given)


def changes_as_json(changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON form of changes by layer: what `changes_from` reads. A function of the weights is named only."""
    items = []
    for layer, given in changes.items():
        for change in as_list(given):
            fields_of = asdict(change) if isinstance(change, Change) else {}  # type: ignore[call-overload]
            values = {name: value for name, value in fields_of.items() if value is not None}
            items.append({"layer": layer, "do": getattr(change, "__name__", type(change).__name__), **values})
    return items


def as_list(given: object) -> list[Any]:
    """One change, or several."""
    return list(given) if isinstance(given, list | tuple) else [given]


@dataclass(frozen=True, eq=False, repr=False)
class Removed(Neighborhood):
    """All pairs except those that a change removes: a pair, a key or a head. `before` queries came before this call."""

    change: Change
    heads: int
    before: int = 0

    def sees(self, places: Places) -> Mask:
        change = self.change
        hidden = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=places.device)
        if change.query is not None:
            hidden = hidden & (places.row == change.query - self.before)
        if change.key is not None:
            hidden = hidden & (places.column == change.key)
        if change.head is not None:
            hidden = hidden & (torch.arange(self.heads, device=places.device).view(1, -1, 1, 1) == change.head)
        return (~hidden).expand(-1, -1, places.queries, places.keys)

    def _identity(self) -> tuple[object, ...]:
        return (type(self), self.change, self.heads, self.before)

    def __repr__(self) -> str:
        return f"~{self.change!r}"


# A weight to be forced in a call that comes after so many queries, and what is called with it where it could be.
ForcedWeight = tuple[Force, int, Callable[[Force], object]]


@dataclass(frozen=True)
class Reweighed:
    """Forced weights, then functions of all weights of a call."""

    forces: tuple[ForcedWeight, ...]
    functions: tuple[Reweighing, ...]
    normalized: bool

    @property
    def whole(self) -> bool:
        """Whether a function needs all weights at once."""
        return bool(self.functions)

    def __call__(self, weights: Tensor, places: Places, mask: Mask) -> Tensor:
        weights = self.force(weights, places, mask)
        for function in self.functions:
            given, weights = weights, function(weights)
            if not isinstance(weights, Tensor) or weights.shape != given.shape:
                got = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
                raise ValueError(f"a function of the weights must keep their shape {tuple(given.shape)}: got {got}")
            weights = weights.to(given.dtype)
        return weights

    def force(self, weights: Tensor, places: Places, mask: Mask) -> Tensor:
        """The weights with the forced ones set."""
        forced, wanted = torch.zeros_like(weights, dtype=torch.bool), torch.zeros_like(weights)
        mask = mask.expand_as(weights)
        for force, before, done in self.forces:
            row, column = force.query - before - places.start, force.key - places.first_key
            if not (0 <= row < places.queries and 0 <= column < places.keys):
                continue
            at = (slice(None), slice(None) if force.head is None else force.head, row, column)
            forced[at], wanted[at] = mask[at], mask[at].to(weights.dtype) * force.weight
            if bool(mask[at].any()):
                done(force)
        largest = float(wanted.sum(-1).max()) if wanted.numel() else 0.0
        require(largest <= 1 + 1e-6, f"the forced weights of one query must add up to at most 1: got {largest:g}")
        rest = weights.masked_fill(forced, 0)
        if self.normalized:
            free = mask & ~forced
            total, count = rest.sum(-1, keepdim=True), free.sum(-1, keepdim=True).clamp(min=1)
            shares = torch.where(total > 0, rest / total.masked_fill(total <= 0, 1), free / count)
            rest = shares * (1 - wanted.sum(-1, keepdim=True)).clamp(min=0)
        return torch.where(forced.any(-1, keepdim=True), rest + wanted, weights)


def apply(
    changes: Iterable[Change | Reweighing], request: Request, before: int, done: Callable[[Force], object]
) -> Request:
    """The request with the changes, for a call whose queries come after `before` others."""
    where = request.where
    forces: list[ForcedWeight] = []
    functions: list[Reweighing] = []
    for change in changes:
        if isinstance(change, Force):
            forces.append((change, before, done))
        elif isinstance(change, Change):
            where = where & Removed(change, request.heads, before)
        else:
            functions.append(change)
    request = request if where is request.where else replace(request, where=where)
    if not forces and not functions:
        return request
    if isinstance(request.reweigh, Reweighed):  # an outer block's
        forces, functions = [*request.reweigh.forces, *forces], [*request.reweigh.functions, *functions]
    normalized = not isinstance(request.normalizer, Identity)
    return replace(request, reweigh=Reweighed(tuple(forces), tuple(functions), normalized))
