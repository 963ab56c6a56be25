"""Neighborhoods that follow from the places alone: order, distance, a grid."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mirada.attention.neighborhoods.algebra import Complete, KeyRange, Mask, Neighborhood, Unseen
from mirada.attention.places import Pair, Places
from mirada.errors import require, require_known


@dataclass(frozen=True, eq=False, repr=False)
class Pointwise(Neighborhood):
    """A set whose formula reads numbers of the query and of the key only: the same for one pair and for all."""

    def _formula(self, places: Places | Pair) -> Tensor:
        raise NotImplementedError

    def sees(self, places: Places) -> Mask:
        return self._formula(places)

    def pair(self, at: Pair) -> Tensor:
        return self._formula(at)


@dataclass(frozen=True, eq=False, repr=False)
class Causal(Pointwise):
    """The past and the present: N(i) = {j <= i}, with i the absolute position.

    >>> Causal().dense(2, 4, start=2).int()[0, 0].tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]
    """

    causal = reflexive = homogeneous = True
    band = (math.inf, 0)

    def _formula(self, places: Places | Pair) -> Tensor:
        return places.j <= places.i

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        first = places.start + (places.queries == 1)  # what lies before the first query all of them see
        found = (
            KeyRange(0, min(first, places.keys), Complete()),
            KeyRange(first, min(places.start + places.queries, places.keys), self),
        )
        return tuple(piece for piece in found if piece.begin < piece.end and places.queries)

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        if places.counted and places.queries and places.start + places.queries >= places.keys:
            return None  # the last query sees everything
        return super().unseen(places, rows_at_once)


@dataclass(frozen=True, eq=False, repr=False)
class Window(Pointwise):
    """The keys near the query: N(i) = {i - left <= j <= i + right}.

    `Window(k)` is the lectures' "stride attention" (k + 1 keys) and `Window(0)` their hard attention, output i = input i.

    Args:
        left: keys before the query.
        right: keys after the query.

    >>> Window(1, 1).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """

    left: int
    right: int = 0

    reflexive = homogeneous = True

    def __post_init__(self) -> None:
        message = f"a window needs left and right >= 0: got left={self.left}, right={self.right}"
        require(self.left >= 0 and self.right >= 0, message)

    @property
    def causal(self) -> bool:  # type: ignore[override]
        """Whether no later key is seen."""
        return self.right == 0

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches."""
        return self.left, self.right

    def _formula(self, places: Places | Pair) -> Tensor:
        distance = places.j - places.i
        return (distance >= -self.left) & (distance <= self.right)


@dataclass(frozen=True, eq=False, repr=False)
class Dilated(Pointwise):
    """A window with gaps: every `step`-th key around the query.

    N(i) = {i + step m: -left <= m <= right}

    Args:
        left: keys before the query.
        right: keys after the query.
        step: the distance between two keys that are seen.

    >>> Dilated(1, 1, step=2).dense(5, 5).int()[0, 0, 2].tolist()
    [1, 0, 1, 0, 1]

    Beltagy, Peters and Cohan (2020), arXiv:2004.05150, 3.1.
    """

    left: int
    right: int = 0
    step: int = 2

    reflexive = homogeneous = True

    def __post_init__(self) -> None:
        message = f"a dilated window needs left and right >= 0 and step >= 1: got {self}"
        require(self.left >= 0 and self.right >= 0 and self.step >= 1, message)

    @property
    def causal(self) -> bool:  # type: ignore[override]
        """Whether no later key is seen."""
        return self.right == 0

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches."""
        return self.left * self.step, self.right * self.step

    def _formula(self, places: Places | Pair) -> Tensor:
        distance = places.j - places.i
        inside = (distance >= -self.left * self.step) & (distance <= self.right * self.step)
        return inside & (distance % self.step == 0)


@dataclass(frozen=True, eq=False, repr=False)
class Prefix(Pointwise):
    """The first places: N(i) = {j < places}. `Prefix(n) | Causal()` reads a prompt of n tokens in both directions.

    Args:
        places: how many places there are in the prefix.

    >>> (Prefix(2) | Causal()).dense(3, 3).int()[0, 0].tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]

    Raffel et al. (2020), arXiv:1910.10683, 3.2.1.
    """

    places: int

    uniform = True

    def __post_init__(self) -> None:
        require(self.places >= 0, f"a prefix has at least 0 places: got {self.places}")

    def _formula(self, places: Places | Pair) -> Tensor:
        return places.j < self.places

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        return super().unseen(places.rows(0, min(1, places.queries)))  # the same for every query

    def cuts(self, places: Places) -> tuple[int, ...]:
        return (self.places,)

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        end = min(self.places, places.keys)
        return (KeyRange(0, end, Complete()),) if end and places.queries else ()


@dataclass(frozen=True, eq=False, repr=False)
class Global(Pointwise):
    """A few places that see all others and are seen by all others: N(i) = {j: i or j is one of them}.

    `Window(128, 128) | Global(16)` is a window with 16 places through which everything is two steps apart.

    Args:
        tokens: how many places from the first on; or the places themselves, as a tuple of whole numbers.

    >>> Global((1,)).dense(3, 3).int()[0, 0].tolist()
    [[0, 1, 0], [1, 1, 1], [0, 1, 0]]

    Beltagy, Peters and Cohan (2020), arXiv:2004.05150, 3.1; Zaheer et al. (2020), arXiv:2007.14062.
    """

    tokens: int | tuple[int, ...]

    def __post_init__(self) -> None:
        many = isinstance(self.tokens, tuple | list)
        numbers = tuple(self.tokens) if many else (self.tokens,)  # type: ignore[arg-type]
        right = all(isinstance(x, int) and not isinstance(x, bool) and x >= 0 for x in numbers)
        message = f"Global takes how many places there are from 0 on, or a tuple of places, all at least 0: got {self.tokens!r}"
        require(right, message)
        if many:
            object.__setattr__(self, "tokens", tuple(sorted(set(numbers))))

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """The places as runs begin, ..., end - 1."""
        if isinstance(self.tokens, int):
            return ((0, self.tokens),) if self.tokens else ()
        begins = [x for x in self.tokens if x - 1 not in self.tokens]
        ends = [x + 1 for x in self.tokens if x + 1 not in self.tokens]
        return tuple(zip(begins, ends, strict=True))

    def _formula(self, places: Places | Pair) -> Tensor:
        return self._among(places.i) | self._among(places.j)

    def _among(self, positions: Tensor) -> Tensor:
        """Which positions are global."""
        found = torch.zeros_like(positions, dtype=torch.bool)
        for begin, end in self.runs:
            found = found | ((positions >= begin) & (positions < end))
        return found

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        last = places.start + places.queries
        if places.counted and any(begin < last and end > places.start for begin, end in self.runs):
            return None  # a global query sees everything
        return super().unseen(places.rows(0, min(1, places.queries)) if places.counted else places, rows_at_once)

    def cuts(self, places: Places) -> tuple[int, ...]:
        return tuple(border for run in self.runs for border in run)

    def pieces(self, places: Places) -> tuple[KeyRange, ...]:
        first, last = places.start, places.start + places.queries
        if any(begin <= first and last <= end for begin, end in self.runs):
            return (KeyRange(0, places.keys, Complete()),)
        if any(begin < last and first < end for begin, end in self.runs):
            return super().pieces(places)
        clipped = ((begin, min(end, places.keys)) for begin, end in self.runs)
        return tuple(KeyRange(begin, end, Complete()) for begin, end in clipped if begin < end)


@dataclass(frozen=True, eq=False, repr=False)
class Strided(Pointwise):
    """Child's strided pattern: the last `stride` keys, and every stride-th key before.

    N(i) = {i - stride <= j <= i} united with {j <= i: (i - j) mod stride = 0}

    `part="local"` is the first half alone, `part="stride"` the second: causal attention inside each residue class.

    Args:
        stride: the distance between the keys that are seen from afar.
        part: "local" or "stride" for one half of the pattern; None for both.

    >>> Strided(2, part="stride").dense(1, 5, start=4).int()[0, 0].tolist()
    [[1, 0, 1, 0, 1]]

    Child et al. (2019), arXiv:1904.10509, 4.2.
    """

    stride: int
    part: str | None = None

    causal = reflexive = homogeneous = True

    def __post_init__(self) -> None:
        require(self.stride >= 1, f"stride must be at least 1: got {self.stride}")
        require_known("part", "local" if self.part is None else self.part, ("local", "stride"))

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches."""
        return (self.stride if self.part == "local" else math.inf), 0

    def _formula(self, places: Places | Pair) -> Tensor:
        distance = places.i - places.j
        local = distance <= self.stride
        stride = distance % self.stride == 0
        return (distance >= 0) & {None: local | stride, "local": local, "stride": stride}[self.part]


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Pointwise):
    """Child's fixed pattern: the query's own block, and the last `summary` columns of every block.

    N(i) = {j <= i: j // block = i // block or j mod block >= block - summary}

    `part="local"` is the block alone, `part="summary"` the columns alone; there the first rows are empty.

    Args:
        block: keys in a block.
        summary: keys at the end of each block that all later queries see.
        part: "local" or "summary" for one half of the pattern; None for both.

    >>> Fixed(3, 1).dense(1, 5, start=4).int()[0, 0].tolist()
    [[0, 0, 1, 1, 1]]

    Child et al. (2019), arXiv:1904.10509, 4.2.
    """

    block: int
    summary: int
    part: str | None = None

    causal = True

    def __post_init__(self) -> None:
        message = f"a block needs 1 <= summary <= block: got block={self.block}, summary={self.summary}"
        require(1 <= self.summary <= self.block, message)
        require_known("part", "local" if self.part is None else self.part, ("local", "summary"))

    @property
    def reflexive(self) -> bool:  # type: ignore[override]
        """Whether every query sees its own key: not in the columns alone."""
        return self.part != "summary"

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches."""
        return (self.block - 1 if self.part == "local" else math.inf), 0

    def _formula(self, places: Places | Pair) -> Tensor:
        i, j = places.i, places.j
        local = j // self.block == i // self.block
        summary = j % self.block >= self.block - self.summary
        return (j <= i) & {None: local | summary, "local": local, "summary": summary}[self.part]

    def unseen(self, places: Places, rows_at_once: int | None = None) -> Unseen | None:
        whole = places.counted and places.start == 0 and places.queries >= max(1, places.keys)
        if self.part != "summary" or not whole:
            return super().unseen(places, rows_at_once)
        return (places.column % self.block < self.block - self.summary).squeeze(2)


@dataclass(frozen=True, eq=False, repr=False)
class Grid(Pointwise):
    """The cells around a cell of a picture, clipped at its borders.

    N(i) = {j: max(|row(j) - row(i)|, |column(j) - column(i)|) <= radius}, cells numbered row by row

    Radius 1 is the lectures' {-1, 0, 1}^2: eight neighbors and the cell itself.

    Args:
        height: rows of the grid.
        width: columns of the grid.
        radius: how far a cell sees, in both directions.

    >>> Grid(3, 3).dense(9, 9)[0, 0].sum(-1).tolist()
    [4, 6, 4, 6, 9, 6, 4, 6, 4]
    """

    height: int
    width: int
    radius: int = 1

    reflexive = True

    def __post_init__(self) -> None:
        message = f"a grid needs height, width >= 1 and radius >= 0: got {self}"
        require(self.height >= 1 and self.width >= 1 and self.radius >= 0, message)

    def check(self, places: Places, heads: int, exact: bool = True) -> None:
        places.require_rows("Grid")
        cells, last = self.height * self.width, places.start + places.queries
        fits = last <= cells and (places.keys == cells if exact else places.keys <= cells)
        if not fits:
            raise ValueError(
                f"{self} has {cells} cells: got queries up to {last}, keys={places.keys}. Flatten the grid row by row."
            )

    @property
    def band(self) -> tuple[float, float]:  # type: ignore[override]
        """How far it reaches in the numbers of the cells."""
        reach = self.radius * (self.width + 1)
        return reach, reach

    def _formula(self, places: Places | Pair) -> Tensor:
        i, j = places.row, places.column
        down = (j // self.width - i // self.width).abs()
        right = (j % self.width - i % self.width).abs()
        return torch.maximum(down, right) <= self.radius


@dataclass(frozen=True, eq=False, repr=False)
class Monotonic(Pointwise):
    """Luong's local-m window: the source around the place of the target word.

    N(t) = {j: |j - min(t, length - 1)| <= half}

    The center stops at the end of the source. The true length of each sample comes from a `Padding` in the same
    intersection; without one it is the number of keys.

    Args:
        half: keys on each side of the center.

    >>> from mirada.attention.neighborhoods import Padding
    >>> (Monotonic(1) & Padding([2])).dense(3, 4).int()[0, 0].tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.2.
    """

    half: int

    def __post_init__(self) -> None:
        require(self.half >= 0, f"half must be at least 0: got {self.half}")

    def _formula(self, places: Places | Pair) -> Tensor:
        center = torch.minimum(places.i, places.length - 1).clamp(min=0)
        return (places.column - center).abs() <= self.half
