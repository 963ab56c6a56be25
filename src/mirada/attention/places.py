"""The places of queries and keys, from which neighborhoods and positions are computed."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from mirada.errors import require
from mirada.shapes import check_integers, show


@dataclass(frozen=True, eq=False)
class Places:
    """The places of some queries and of all keys.

    A query has an index (`row`, its place in the sequence of the keys) and a position (`i`, what order and distance are
    measured by); a key has `column` and `j`. They agree unless positions were given. All four have the axes
    (batch, 1, queries, 1) or (batch, 1, 1, keys), so that comparing them gives a mask.
    """

    queries: int
    keys: int
    start: int
    device: torch.device
    batch: int | None = None
    positions: Int[Tensor, "*batch queries"] | None = None
    key_positions: Int[Tensor, "*kbatch keys"] | None = None
    lengths: Int[Tensor, " batch"] | None = None
    known_rows: bool = True  # whether the indices of the queries are start, start + 1, ...
    first_key: int = 0
    all_keys: int | None = None

    @classmethod
    def count(cls, queries: int, keys: int, start: int = 0, device: torch.device | None = None) -> "Places":
        """Queries at start, start + 1, ... before keys at 0, 1, ..."""
        message = f"sizes must be at least 0: got queries={queries}, keys={keys}, start={start}"
        require(queries >= 0 and keys >= 0 and start >= 0, message)
        return cls(queries, keys, start, device or torch.device("cpu"))

    @property
    def row(self) -> Tensor:
        """The index of each query."""
        return torch.arange(self.start, self.start + self.queries, device=self.device).view(1, 1, -1, 1)

    @property
    def column(self) -> Tensor:
        """The index of each key."""
        return torch.arange(self.first_key, self.first_key + self.keys, device=self.device).view(1, 1, 1, -1)

    @property
    def i(self) -> Tensor:
        """The position of each query."""
        if self.positions is None:
            return self.row
        return self.positions.view(self.positions.shape[:-1].numel(), 1, self.queries, 1)

    @property
    def j(self) -> Tensor:
        """The position of each key."""
        if self.key_positions is None:
            return self.column
        return self.key_positions.view(self.key_positions.shape[:-1].numel(), 1, 1, self.keys)

    @property
    def query_positions(self) -> "range | Int[Tensor, '*batch queries']":
        """The position of each query: a range if they are counted, else a tensor."""
        return self._counted(self.start, self.queries) if self.positions is None else self.positions

    @property
    def memory_positions(self) -> "range | Int[Tensor, '*kbatch keys']":
        """The position of each key: a range if they are counted, else a tensor."""
        return self._counted(0, self.keys) if self.key_positions is None else self.key_positions

    def _counted(self, start: int, count: int) -> "range | Int[Tensor, ' count']":
        """Positions from `start` on: as a tensor in a program that is traced, where their number is not known."""
        if torch.compiler.is_compiling():
            return torch.arange(start, start + count, device=self.device)
        return range(start, start + count)

    @property
    def length(self) -> Tensor:
        """The true number of keys of each sample."""
        if self.lengths is None:
            keys = self.keys if self.all_keys is None else self.all_keys
            return torch.tensor(keys, device=self.device).view(1, 1, 1, 1)
        return self.lengths.to(self.device).view(-1, 1, 1, 1)

    @property
    def counted(self) -> bool:
        """Whether positions are indices: none were given."""
        return self.positions is None and self.key_positions is None

    def require_rows(self, name: str) -> None:
        """Raise a ValueError if the indices of the queries, which a set needs, are not known."""
        if not self.known_rows:
            raise ValueError(
                f"{name} counts queries, and positions that are not consecutive do not say which ones these are. "
                "Pass key_positions too, or consecutive positions."
            )

    def rows(self, first: int, last: int) -> "Places":
        """The same places for the queries first, ..., last - 1 only."""
        positions = None if self.positions is None else self.positions[..., first:last]
        return replace(self, queries=last - first, start=self.start + first, positions=positions)

    def columns(self, first: int, last: int) -> "Places":
        """The same places for the keys first, ..., last - 1 only."""
        positions = None if self.key_positions is None else self.key_positions[..., first:last]
        total, first_key = self.keys if self.all_keys is None else self.all_keys, self.first_key + first
        return replace(self, keys=last - first, first_key=first_key, key_positions=positions, all_keys=total)


@dataclass(frozen=True, eq=False)
class Pair:
    """One query and one key, each number a tensor without axes: what a compiler for GPUs computes a mask or a bias from.

    The names are those of `Places`; `sample` and `head` say which ones they are.
    """

    sample: Int[Tensor, ""]
    head: Int[Tensor, ""]
    row: Int[Tensor, ""]
    column: Int[Tensor, ""]
    i: Int[Tensor, ""]
    j: Int[Tensor, ""]
    keys: int
    lengths: Int[Tensor, " batch"] | None = None

    def of_sample(self, numbers: Tensor) -> Tensor:
        """The entry of this sample; the only one, if all samples share it."""
        return numbers[self.sample if numbers.shape[0] > 1 else torch.zeros_like(self.sample)]

    @property
    def length(self) -> Tensor:
        """The true number of keys of this sample."""
        return torch.full_like(self.column, self.keys) if self.lengths is None else self.of_sample(self.lengths)


def place(
    batch: int,
    queries: int,
    keys: int,
    device: torch.device,
    positions: Tensor | None = None,
    key_positions: Tensor | None = None,
    start: int | None = None,
) -> Places:
    """The places of a call, with the index of the first query worked out from its positions unless `start` is given.

    Keys are at 0, 1, ... unless `key_positions` is given. Queries at consecutive positions p, p + 1, ... stand at
    the index p among them: one query at position 5 is row 5 of the full computation.
    """
    given = positions, key_positions  # on their own device: the call's may be meta, where no numbers are known
    positions = _check_positions("positions", positions, batch, queries, device)
    key_positions = _check_positions("key_positions", key_positions, batch, keys, device)
    known = True
    if start is None and given[0] is given[1]:
        start = 0  # the same numbers on both sides: nothing has to be read
    elif start is None:
        first, first_key = map(_run_start, given)
        known = first is not None or key_positions is not None
        start = 0 if first is None or first_key is None else max(0, first - first_key)
    return Places(queries, keys, start, device, batch, positions, key_positions, known_rows=known)


def _run_start(positions: Tensor | None) -> int | None:
    """The first of consecutive positions p, p + 1, ...; None if they are not consecutive or differ between samples."""
    if positions is None or positions.numel() == 0 or positions.is_meta:
        return 0  # no place at all contradicts nothing, and neither do those whose numbers are not known
    if torch.compiler.is_exporting():
        return None  # numbers of a program: what counts queries refuses them
    first = int(positions.flatten()[0])
    run = torch.arange(first, first + positions.shape[-1], device=positions.device)
    return first if bool((positions == run).all()) else None


def _check_positions(
    name: str, positions: Tensor | None, batch: int, count: int, device: torch.device
) -> Int[Tensor, "*batch n"] | None:
    """Require integers of (count,) or (batch, count); wide ones, on the device of the call, come back."""
    if positions is None:
        return None
    if not isinstance(positions, Tensor):
        raise ValueError(f"{name} must be a tensor of integers: got {type(positions).__name__}")
    check_integers(name, positions)
    if positions.shape not in ((count,), (batch, count), (1, count)):
        raise ValueError(f"{name} must have shape ({count},) or ({batch}, {count}): got {show(positions)}")
    return positions.to(device, torch.int64)
