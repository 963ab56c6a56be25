"""One sample of one layer as a picture shows it: its calls joined, a row per query, computed some rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.equation import Attention
from mirada.errors import require
from mirada.layers.recurrent import Recurrent
from mirada.looking.statistics import Checks, HeadStatistics, WeightTile, dense_statistics, edge_statistics

NUMBERS_AT_ONCE = 2**22  # weights held in memory at a time


@dataclass(frozen=True, eq=False)
class Factors:
    """Queries and keys as they met, for scores that are products: score_ij = scale q_i.k_j.

    `plain`: the weights are a softmax of these scores inside the mask.
    """

    q: Float[Tensor, "*batch heads queries dim"]
    k: Float[Tensor, "*batch heads keys dim"]
    scale: float
    plain: bool


class SeenCall(Protocol):
    """What a call that was just recorded and one that was read from a file have in common."""

    @property
    def name(self) -> str:
        """The layer's dotted path."""

    @property
    def kind(self) -> str:
        """self, cross or graph."""

    @property
    def batch(self) -> int:
        """How many samples it saw."""

    @property
    def heads(self) -> int:
        """How many heads it has."""

    @property
    def queries(self) -> int:
        """How many queries it had."""

    @property
    def keys(self) -> int:
        """How many keys it had."""

    @property
    def start(self) -> int:
        """The place of its first query."""

    @property
    def edges(self) -> Tensor | None:
        """Source and target of every weight, over a graph."""

    @property
    def cached(self) -> bool:
        """Whether its keys are those of a cache."""

    @property
    def dropout(self) -> float:
        """The share of weights dropped at random."""

    @property
    def where(self) -> Any:
        """The neighborhood."""

    def weights(self, head: int | None = None, rows: slice | None = None) -> Tensor:
        """The weights of a head and of some rows."""

    def tiles(self, head: int | None = None) -> Iterator[WeightTile]:
        """The weights, some rows at a time."""

    def values(self) -> Tensor:
        """The values that the weights mixed."""

    def factors(self) -> Factors | None:
        """Queries and keys, where scores are their products."""

    def mask(self, first: int, last: int) -> Tensor:
        """Who may be seen by some queries."""

    def parts(self) -> dict[str, str]:
        """The factors of the equation, as they print themselves."""

    def continued(self, other: Any, sample: int) -> int | None:
        """The sample of an earlier call whose next step this is; None if it is none."""


def chosen(call: SeenCall, head: int | None, rows: slice | None) -> tuple[slice, int, int]:
    """The heads, the first and the last row that are asked for."""
    if not isinstance(head, int | None) or not isinstance(rows, slice | None):
        raise ValueError(f"weights takes a head's number and a slice of rows: got head={head!r}, rows={rows!r}")
    first, last, stride = (rows or slice(None)).indices(call.queries)
    require(stride == 1, f"rows must be consecutive: got {rows}")
    fits = rows is None or call.edges is None
    require(fits, "the weights of a graph are per edge: select them by `edges`, not by rows")
    if head is None:
        return slice(None), first, max(first, last)
    require(-call.heads <= head < call.heads, f"head must lie in 0..{call.heads - 1}: got {head}")
    return slice(head % call.heads, head % call.heads + 1), first, max(first, last)


def stored_tiles(call: SeenCall, head: int | None = None) -> Iterator[WeightTile]:
    """The weights of a call that a file holds, some rows at a time."""
    step = max(1, NUMBERS_AT_ONCE // max(1, call.batch * call.heads * call.keys))
    for first in range(0, call.queries, step):
        weights = call.weights(head, slice(first, min(first + step, call.queries)))
        yield WeightTile(first, weights if head is None else weights.unsqueeze(1), start=call.start)


@dataclass(frozen=True, eq=False)
class Stream:
    """The calls of a layer that belong together, for one sample. Keys that did not exist yet have weight 0.

    `samples` says which sample of each call it is, where a beam search went on from others.
    """

    calls: tuple[SeenCall, ...]
    sample: int = 0
    samples: tuple[int, ...] = ()

    @classmethod
    def of(cls, calls: Sequence[SeenCall], sample: int | None = None) -> "Stream":
        """The last call of a layer, and those before it that it continues: the earlier steps of a decoding."""
        last = calls[-1]
        require(
            sample is not None or last.batch == 1,
            f"{last.name or 'the layer'} saw {last.batch} samples, and a file or a picture is of one: "
            "choose it with sample=0, 1, ...",
        )
        require(0 <= (sample or 0) < last.batch, f"sample must lie in 0..{last.batch - 1}: got {sample}")
        first, samples = len(calls) - 1, [sample or 0]
        while first and (before := calls[first].continued(calls[first - 1], samples[0])) is not None:
            first -= 1
            samples.insert(0, before)
        return cls(tuple(calls[first:]), sample or 0, tuple(samples))

    @property
    def last(self) -> SeenCall:
        """The last call: the only one, unless it was called step by step."""
        return self.calls[-1]

    @property
    def name(self) -> str:
        """The layer's dotted path."""
        return self.last.name

    @property
    def stepped(self) -> bool:
        """Whether it was called step by step."""
        return len(self.calls) > 1

    @property
    def heads(self) -> int:
        """How many heads it has."""
        return self.last.heads

    @property
    def queries(self) -> int:
        """How many queries all its calls had."""
        return sum(call.queries for call in self.calls)

    @property
    def keys(self) -> int:
        """How many keys the last step saw."""
        return max(call.keys for call in self.calls)

    @property
    def edges(self) -> Int[Tensor, "2 edges"] | None:
        """Source and target of every weight, over a graph."""
        return self.last.edges

    def pieces(self) -> Iterator[tuple[int, Float[Tensor, "heads rows keys"]]]:
        """The weights in order of the rows: the number of the first row, and the weights."""
        row, keys = 0, self.keys
        for call, sample, first, last in self._slices():
            weights = call.weights(rows=slice(first, last))[sample].detach().cpu().float()
            missing = keys - weights.shape[-1]
            yield row, torch.nn.functional.pad(weights, (0, missing)) if missing else weights
            row += last - first

    def _tiles(self, before: int) -> Iterator[WeightTile]:
        """The weights of this sample in order of the rows, of all calls; row 0 is at the place `before`."""
        row = 0
        for call, sample in self._sampled():
            for tile in call.tiles():
                weights = tile.weights[sample].detach().cpu().float()
                yield WeightTile(row + tile.row, weights, tile.key, before)
            row += call.queries

    def _slices(self) -> Iterator[tuple[SeenCall, int, int, int]]:
        """Every call in slices of some rows: the call, its sample, the first row and the one after the last."""
        for call, sample in self._sampled():
            step = max(1, NUMBERS_AT_ONCE // max(1, call.batch * call.heads * call.keys))
            for first in range(0, call.queries, step):
                yield call, sample, first, min(first + step, call.queries)

    def _sampled(self) -> Iterator[tuple[SeenCall, int]]:
        """Every call, and its sample."""
        return zip(self.calls, self.samples or [self.sample] * len(self.calls), strict=True)

    def edge_weights(self) -> Float[Tensor, "heads edges"]:
        """The weight of every edge, on the CPU as float32."""
        return self.last.weights()[self.sample].detach().cpu().float()

    def statistics(self) -> tuple[list[HeadStatistics], Checks]:
        """What every head does, and what is to be warned of."""
        edges = self.edges
        if edges is None:
            # a cache may have held some places before recording began
            before = self.calls[0].start if self.last.kind == "self" else 0
            return dense_statistics(self._tiles(before), self.last.dropout, self.keys)
        return edge_statistics(self.edge_weights(), edges, self.queries, self.keys, self.last.dropout)

    def visible(self) -> Int[Tensor, " queries"]:
        """How many keys each row may see, in the head that may see most: what even attention is even over."""
        if self.edges is not None:
            return torch.bincount(self.edges[1].cpu(), minlength=self.queries)
        counts = [torch.zeros(0, dtype=torch.long)]
        for call, sample, first, last in self._slices():
            mask = call.mask(first, last)
            mask = mask[sample if len(mask) > 1 else 0].cpu()
            counts.append(mask.expand(-1, last - first, call.keys).sum(-1).amax(0))
        return torch.cat(counts)

    def factors(self) -> Factors | None:
        """Queries and keys of all steps, on the CPU as float32; None where the score is no product of them."""
        parts = [(call.factors(), sample) for call, sample in self._sampled()]
        kept = [part for part, _ in parts if part is not None]
        if len(kept) < len(parts) or not kept:
            return None
        q = torch.cat([part.q[sample] for part, sample in parts if part is not None], dim=1)
        return Factors(tidy(q), tidy(kept[-1].k[self.sample]), kept[-1].scale, all(part.plain for part in kept))

    def values(self) -> Float[Tensor, "heads keys value_dim"]:
        """The values that the weights mixed, on the CPU as float32."""
        return tidy(self.last.values()[self.sample])

    def mask(self, first: int, last: int) -> Bool[Tensor, "#heads rows keys"]:
        """Who may be seen by the rows first, ..., last - 1 of a layer that was called once."""
        mask = self.last.mask(first, last)
        mask = mask[self.sample if len(mask) > 1 else 0].cpu()
        return mask.expand(mask.shape[0], last - first, self.keys)


def sample_note(streams: Sequence[Stream]) -> dict[str, str]:
    """Which sample is shown, where there were several."""
    most = max((stream.last.batch for stream in streams), default=1)
    return {"sample": f"{streams[0].sample} of 0 to {most - 1}"} if most > 1 else {}


def tidy(x: Tensor) -> Tensor:
    """A tensor on the CPU as contiguous float32, without its gradient."""
    return x.detach().cpu().float().contiguous()


def recurrent_lookers(model: nn.Module) -> set[Attention]:
    """The attention layers of modules that also have a recurrent net, which then makes the queries."""
    lookers: set[Attention] = set()
    for module in model.modules():
        parts = list(module.children())
        if any(isinstance(part, Recurrent | nn.RNNBase | nn.RNNCellBase) for part in parts):
            lookers |= {part for part in parts if isinstance(part, Attention)}
    return lookers
