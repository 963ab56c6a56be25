"""What order and distance add. A position acts at one or more of five places of the equation:

input      Sinusoidal, Learned      added to x by the embedding layers; `attend` refuses them
rotate     Rotary                   rotates q and k before the score
bias       ALiBi, T5Bias, Relative, Pairs  added to the scores
value      Relative                 added to the values, pair by pair
reweight   LocalGaussian            narrows the neighborhood and multiplies the weights
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from operator import add
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mirada.attention.distances import Skew
from mirada.attention.places import Pair, Places
from mirada.attention.rotation import rotate_pairs
from mirada.attention.transforms import ordinary, reset_inherited, transformed
from mirada.errors import require, require_known
from mirada.shapes import check_integers, readable, show


class RotaryRates(NamedTuple):
    """The angle per position of every pair of a `Rotary`, as numbers: a model's layers share what is computed from them."""

    dim: int  # rotated numbers
    base: float
    factor: float = 1.0
    low: float = 0.0
    high: float = 0.0
    original: int = 0

    def per_position(self, device: torch.device) -> Float[Tensor, " pairs"]:
        """base^(-2m / dim), slowed down as `Rotary` says."""
        rates = frequencies(self.dim // 2, self.dim, self.base, device)
        if self.factor == 1.0:
            return rates
        if not self.original:
            return rates / self.factor
        turns = self.original * rates / (2 * math.pi)
        share = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return rates * (share + (1 - share) / self.factor)


def _angles(positions: Tensor, rates: RotaryRates, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position and pair, with an axis for the heads if positions differ between samples."""
    angles = positions.unsqueeze(-1) * rates.per_position(positions.device)
    angles = angles if angles.ndim == 2 else angles.unsqueeze(1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


@lru_cache(maxsize=16)
def _counted_angles(
    positions: range, rates: RotaryRates, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """The angles of counted positions, kept: queries, keys and all layers of a model share them."""
    with ordinary():
        return _angles(torch.arange(positions.start, positions.stop, device=device), rates, dtype)


def frequencies(pairs: int, width: int, base: float, device: torch.device) -> Float[Tensor, " pairs"]:
    """base^(-2m / width) for m = 0, 1, ..., in float64: an error here grows with the position."""
    return base ** (-2 * torch.arange(pairs, dtype=torch.float64, device=device) / width)


PairNumbers = Float[Tensor, "#batch #heads queries keys"]


class Position(nn.Module):
    """Order and distance as a factor of the equation. Every place is neutral unless a subclass acts there.

    A subclass names in `acts` the places where it acts and implements the method of each: `rotate`, `bias`, `narrow`
    (reweight) or `spread` (value); one that is added to the input is an `InputPosition`.

    Args:
        The base class takes none; a subclass declares its own.

    >>> class Nearer(Position):
    ...     acts = frozenset({"bias"})
    ...     def bias(self, q, places):
    ...         return (places.i - places.j).abs().neg().to(q.dtype)
    >>> Nearer().bias(torch.zeros(1, 1, 1, 2), Places.count(1, 3)).tolist()
    [[[[0.0, -1.0, -2.0]]]]
    """

    acts: ClassVar[frozenset[str]] = frozenset()
    constant: ClassVar[bool] = False  # what it adds to the scores depends on distances only, not on queries
    shared: ClassVar[bool] = False  # all layers of a stack have one, not each its own
    # up to the first distance and from the second on what it adds is a straight line of the distance, level if it is trained
    straight: tuple[float, float] = (-math.inf, math.inf)

    def __init_subclass__(cls, **given: Any) -> None:
        """A class that overrides `bias` inherits no declaration about another's."""
        super().__init_subclass__(**given)
        reset_inherited(cls, Position, "bias", ("constant", "straight", "of_distance", "pairwise"))

    @property
    def inside(self) -> bool:
        """Whether it acts between the score and the output, where a fused kernel cannot be reached."""
        return self.overrides("bias", "narrow", "spread")

    def overrides(self, *methods: str) -> bool:
        """Whether it is not neutral in one of these."""
        return any(getattr(type(self), name) is not getattr(Position, name) for name in methods)

    def __add__(self, other: "Position") -> "Position":
        """Both positions at once: `Rotary(16) + ALiBi(4)`."""
        if not isinstance(other, Position):
            return NotImplemented
        parts = [x for part in (self, other) for x in (part.parts if type(part) is PositionSum else [part])]
        parts = [part for part in parts if type(part) is not Position]
        return PositionSum(*parts) if len(parts) > 1 else parts[0] if parts else self

    def rotate(self, x: Tensor, positions: range | Tensor) -> Tensor:
        """Queries or keys (batch, heads, n, dim), rotated by their positions: counted, or a list, or one per sample."""
        return x

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        """What to add to the scores, given the prepared queries (so that a score's scale counts here too)."""
        return None

    def of_distance(self, distances: Int[Tensor, " n"]) -> Float[Tensor, "heads n"] | None:
        """What `bias` adds at each distance j - i, where the distance alone decides; None where more does."""
        return None

    def pairwise(self, device: torch.device) -> Callable[[Pair], Tensor] | None:
        """A function of one pair, which returns what to add to its score as a tensor without axes; None if only `bias`
        can tell.

        A compiler for GPUs makes a kernel of the function: it may compute with the numbers of the pair, and index tensors
        on that device, which are prepared before.
        """
        return None

    def narrow(self, q: Tensor, places: Places) -> "tuple[Bool[Tensor, '...'], PairNumbers] | None":
        """A neighborhood that depends on the queries, and the factor for the weights inside it."""
        return None

    def spread(self, weights: PairNumbers, places: Places) -> Float[Tensor, "batch heads queries dim"] | None:
        """What is added to the weighted sum of the values."""
        return None

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        """Raise a ValueError if this position does not fit the heads."""

    def check_places(self, places: Places, exact: bool = True) -> None:
        """Raise a ValueError if it does not fit the places of a call. `exact=False`: the keys are still growing (a cache)."""

    @property
    def given(self) -> Float[Tensor, "#batch #heads #queries #keys"] | None:
        """The numbers of what it adds to the scores that were given pair by pair, if any were."""
        return None


class PositionSum(Position):
    """Several positions at once: each rotates, and what they add to scores and values is added up.

    Args:
        parts: the positions; `a + b` makes this of them.

    >>> Rotary(4) + ALiBi(heads=2)
    Rotary(4, base=10000, layout='half') + ALiBi(heads=2)
    """

    def __init__(self, *parts: Position) -> None:
        super().__init__()
        narrowing = [part for part in parts if part.overrides("narrow")]
        require(len(narrowing) < 2, f"one position can narrow the neighborhood: got {len(narrowing)} that do")
        self.parts: Any = nn.ModuleList(parts)
        self.acts = frozenset().union(*(part.acts for part in parts))  # type: ignore[misc]
        self.added = [part for part in parts if part.overrides("bias")]
        self.constant = bool(self.added) and all(part.constant for part in self.added)  # type: ignore[misc]

    @property
    def straight(self) -> tuple[float, float]:  # type: ignore[override]
        """Where all parts are; nowhere if one is trained, since the others need not be level."""
        trained = len(self.added) > 1 and any(True for _ in self.parameters())
        if trained or not self.added:
            return -math.inf, math.inf
        return min(part.straight[0] for part in self.added), max(part.straight[1] for part in self.added)

    @property
    def given(self) -> Tensor | None:
        """What the first part was given that was given any."""
        return next((part.given for part in self.added if part.given is not None), None)

    def overrides(self, *methods: str) -> bool:
        return any(part.overrides(*methods) for part in self.parts)

    def rotate(self, x: Tensor, positions: range | Tensor) -> Tensor:
        for part in self.parts:
            x = part.rotate(x, positions)
        return x

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        return _sum(part.bias(q, places) for part in self.added)

    def of_distance(self, distances: Int[Tensor, " n"]) -> Float[Tensor, "heads n"] | None:
        found = [part.of_distance(distances) for part in self.added]
        return None if any(x is None for x in found) else _sum(found)

    def narrow(self, q: Tensor, places: Places) -> "tuple[Bool[Tensor, '...'], PairNumbers] | None":
        return next((part.narrow(q, places) for part in self.parts if part.overrides("narrow")), None)

    def spread(self, weights: PairNumbers, places: Places) -> Tensor | None:
        return _sum(part.spread(weights, places) for part in self.parts)

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        for part in self.parts:
            part.check(heads, dim, value_dim)

    def check_places(self, places: Places, exact: bool = True) -> None:
        for part in self.parts:
            part.check_places(places, exact)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


def _sum(parts: Iterable[Tensor | None]) -> Tensor | None:
    """The sum of what is there; None if nothing is."""
    found = [part for part in parts if part is not None]
    return reduce(add, found) if found else None


class Pairs(Position):
    """A number per pair of a query and a key, given with the call: what is known of two residues, nodes or words.

    e_ij = score + numbers_ij

    A layer takes it in a call, next to its own position: `attention(x, position=Pairs(numbers))`. The numbers get a gradient.

    Args:
        numbers: (batch, heads, queries, keys), or fewer axes on the left, or 1 where they do not vary.

    >>> Pairs(torch.zeros(2, 3, 5, 5))
    Pairs((2, 3, 5, 5))

    Jumper et al. (2021), doi:10.1038/s41586-021-03819-2; Ying et al. (2021), arXiv:2106.05234.
    """

    acts = frozenset({"bias"})
    constant = True

    def __init__(self, numbers: Float[Tensor, "..."]) -> None:
        super().__init__()
        require(isinstance(numbers, Tensor), f"Pairs takes a tensor of numbers: got {type(numbers).__name__}")
        fits = numbers.is_floating_point() and 2 <= numbers.ndim <= 4
        require(fits, f"Pairs takes real numbers of (batch, heads, queries, keys): got {numbers.dtype} {show(numbers)}")
        self.numbers = numbers

    @property
    def given(self) -> Tensor:
        """The numbers with all four axes."""
        return self.numbers.view((1,) * (4 - self.numbers.ndim) + self.numbers.shape)

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        numbers = self.given.to(torch.promote_types(self.numbers.dtype, torch.float32))
        last, end = places.start + places.queries, places.first_key + places.keys
        numbers = numbers if numbers.shape[2] == 1 else numbers[:, :, places.start : last]
        return numbers if numbers.shape[3] == 1 else numbers[..., places.first_key : end]

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if self.given.shape[1] not in (1, heads):
            raise ValueError(f"{self} has numbers for {self.given.shape[1]} heads: got heads={heads}")

    def check_places(self, places: Places, exact: bool = True) -> None:
        batch, _, queries, keys = self.given.shape
        places.require_rows("Pairs")
        last = places.start + places.queries
        fits = (last == queries, places.keys == keys) if exact else (last <= queries, places.keys <= keys)
        if not ((queries == 1 or fits[0]) and (keys == 1 or fits[1]) and batch in (1, places.batch)):
            got = f"batch={places.batch}, queries up to {last}, keys={places.keys}"
            raise ValueError(
                f"{self} must have a number for every pair: got {got}. Give (batch, heads, queries, keys)."
            )

    def extra_repr(self) -> str:
        return f"{tuple(self.numbers.shape)}"


class InputPosition(Position):
    """A vector per position, added to the input: x + encode(position)."""

    acts = frozenset({"input"})
    width: int

    def forward(self, positions: Int[Tensor, "..."], dtype: torch.dtype = torch.float32) -> Float[Tensor, "... width"]:
        """The vector of every position."""
        raise NotImplementedError

    def add(
        self,
        x: Float[Tensor, "batch length width"],
        start: int = 0,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """x plus the vectors of the positions start, start + 1, ..., or of those given."""
        require(x.shape[-1] == self.width, f"{self} needs width={self.width}: got width={x.shape[-1]}")
        if positions is None:
            positions = torch.arange(start, start + x.shape[-2], device=x.device)
        require(
            positions.shape in (x.shape[-2:-1], x.shape[:-1]),
            f"positions must have shape {tuple(x.shape[-2:-1])} or {tuple(x.shape[:-1])}: got {tuple(positions.shape)}",
        )
        return x + self(positions, dtype=x.dtype).to(x.dtype)


class Sinusoidal(InputPosition):
    """Sines and cosines of geometrically growing wavelengths, interleaved as in the paper.

    PE(p, 2i) = sin(p / base^(2i / width)),  PE(p, 2i + 1) = cos(p / base^(2i / width))

    `layout="half"` has the same numbers with all sines before all cosines, as Marian stores them. With an `offset` position p
    has the vector of p + offset.

    Args:
        width: numbers in a vector.
        base: the wavelengths grow from 2 pi to 2 pi base.
        layout: "interleaved" (sine, cosine, sine, ...) or "half".
        offset: what is added to every position, 2 in M2M100.

    >>> Sinusoidal(4)(torch.tensor([0, 1])).round(decimals=4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8414999842643738, 0.5403000116348267, 0.009999999776482582, 1.0]]

    Vaswani et al. (2017), arXiv:1706.03762, 3.5.
    """

    def __init__(
        self,
        width: int,
        base: float = 10000,
        layout: Literal["interleaved", "half"] = "interleaved",
        offset: int = 0,
    ) -> None:
        super().__init__()
        require(width >= 1 and base > 0, f"width and base must be positive: got width={width}, base={base}")
        require_known("layout", layout, ["interleaved", "half"])
        require(offset >= 0, f"offset must be at least 0: got {offset}")
        self.width, self.base, self.layout, self.offset = width, base, layout, offset

    def forward(self, positions: Int[Tensor, "..."], dtype: torch.dtype = torch.float32) -> Float[Tensor, "... width"]:
        check_integers("positions", positions)
        sines = (self.width + 1) // 2
        places = (positions + self.offset).unsqueeze(-1)
        angles = places * frequencies(sines, self.width, self.base, positions.device)
        if self.layout == "half":
            return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., : self.width].to(dtype)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.width].to(dtype)

    def extra_repr(self) -> str:
        layout = "" if self.layout == "interleaved" else f", layout={self.layout!r}"
        return f"{self.width}, base={self.base:g}{layout}{_shown_offset(self.offset)}"


def _shown_offset(offset: int) -> str:
    """An offset as a position prints it; nothing for 0."""
    return f", offset={offset}" if offset else ""


def _table(rows: int, dim: int, deviation: float) -> Tensor:
    """Random vectors to start from. On the meta device, where configurations are tried out, nothing is drawn: that would
    import torch's compiler, which takes a second.
    """
    vectors = torch.empty(rows, dim)
    return vectors if vectors.is_meta else vectors.normal_(std=deviation)


class Learned(InputPosition):
    """A trained vector per position; there is none beyond the table.

    Position p has row p + offset: the first rows of such a table are used by no position, as in BART, whose checkpoints
    have them.

    Args:
        width: numbers in a vector.
        positions: positions that have a row.
        offset: rows before that of position 0.

    >>> Learned(4, positions=8)(torch.tensor([[0, 7]])).shape
    torch.Size([1, 2, 4])
    """

    def __init__(self, width: int, positions: int, offset: int = 0) -> None:
        super().__init__()
        require(width >= 1 and positions >= 1, f"sizes must be positive: got width={width}, positions={positions}")
        require(offset >= 0, f"offset must be at least 0: got {offset}")
        self.width, self.offset = width, offset
        self.table = nn.Parameter(_table(positions + offset, width, 0.02))

    @property
    def positions(self) -> int:
        """How many positions have a row."""
        return len(self.table) - self.offset

    def forward(self, positions: Int[Tensor, "..."], dtype: torch.dtype = torch.float32) -> Float[Tensor, "... width"]:
        check_integers("positions", positions)
        if positions.numel() and readable(positions):
            low, high = (int(bound) for bound in positions.aminmax())
            require(
                low >= 0 and high < self.positions,
                f"positions must lie in the table of {self.positions}: got {low} to {high}. "
                "Build Learned with more positions, or shorten the input.",
            )
        return self.table[positions + self.offset if self.offset else positions]

    def extra_repr(self) -> str:
        return f"{self.width}, positions={self.positions}{_shown_offset(self.offset)}"


class Rotary(Position):
    """Rotate each pair of coordinates of q and k by an angle that grows with the position.

    q_i = R_i W_q x_i,  k_j = R_j W_k x_j,  so that q_i.k_j depends on j - i only

    Pair m is rotated by p * base^(-2m / dim). `layout` says which coordinates are pairs: "half" (m, m + dim/2) or "interleaved"
    (2m, 2m + 1). Angles are computed in float64; values are not rotated; a cache keeps the rotated keys.

    A model that was trained on texts of `original` places reads longer ones with slower rotations. `factor` alone divides
    every rate (linear interpolation). With `low` and `high` it divides the rates of the pairs that turn less than `low` times
    in `original` places, keeps those that turn more than `high` times, and is interpolated between (Llama 3).
    With `part` below 1 only the first so many of the coordinates are rotated, as if there were no others.

    Args:
        dim: numbers in a query, and in a key, of one head: even.
        base: the slowest pair is rotated by about 1 / base per position.
        layout: "half" or "interleaved".
        factor: how much slower the rotations are than those of the base.
        low: turns in `original` places up to which a rate is divided by the whole factor.
        high: turns in `original` places from which a rate is kept.
        original: places of the texts before; 0: all rates are divided.
        part: the share of the coordinates that are rotated.

    >>> Rotary(2).rotate(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([1])).tolist()
    [[[[0.5403022766113281, 0.8414709568023682]]]]
    >>> Rotary(2, factor=8).rotate(torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([8])).tolist()
    [[[[0.5403022766113281, 0.8414709568023682]]]]

    Su et al. (2024), arXiv:2104.09864; Chen et al. (2023), arXiv:2306.15595; of the two bounds: Grattafiori et al. (2024),
    arXiv:2407.21783.
    """

    acts = frozenset({"rotate"})

    def __init__(
        self,
        dim: int,
        base: float = 10000,
        layout: Literal["half", "interleaved"] = "half",
        factor: float = 1.0,
        low: float = 0.0,
        high: float = 0.0,
        original: int = 0,
        part: float = 1.0,
    ) -> None:
        super().__init__()
        require(dim >= 2 and (dim % 2 == 0 or part < 1), f"Rotary rotates pairs, so dim must be even: got dim={dim}")
        require(base > 0, f"base must be positive: got {base}")
        require_known("layout", layout, ["half", "interleaved"])
        require(factor > 0, f"factor must be positive: got {factor}")
        bounds = f"low={low}, high={high}, original={original}"
        fits = 0 < low < high and original >= 1 if original or low or high else True
        require(fits, f"low and high are turns in original places, 0 < low < high: got {bounds}")
        require(0 < part <= 1, f"part is the share of the coordinates that are rotated, above 0, at most 1: got {part}")
        self.dim, self.base, self.layout, self.part = dim, base, layout, part
        self.rates = RotaryRates(int(dim * part + 1e-9), base, factor, low, high, original)
        pairs = self.rates.dim >= 2 and self.rates.dim % 2 == 0
        require(pairs, f"Rotary rotates pairs, so part * dim must be even: got part={part}, dim={dim}")

    def rotate(self, x: Tensor, positions: range | Tensor) -> Tensor:
        self.check(x.shape[1], x.shape[-1], x.shape[-1])
        precise = torch.float64 if x.dtype == torch.float64 else torch.float32
        if isinstance(positions, range):
            plain = type(x) in (Tensor, nn.Parameter) and not torch.compiler.is_compiling()
            kept = _counted_angles if plain else _counted_angles.__wrapped__
            cos, sin = kept(positions, self.rates, precise, x.device)
        else:
            cos, sin = _angles(positions, self.rates, precise)
        if self.rates.dim == self.dim:
            return rotate_pairs(x.to(precise), cos, sin, self.layout).to(x.dtype)
        rotated = rotate_pairs(x[..., : self.rates.dim].to(precise), cos, sin, self.layout).to(x.dtype)
        return torch.cat([rotated, x[..., self.rates.dim :]], dim=-1)

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if dim != self.dim:
            raise ValueError(f"{self} needs queries and keys of dim={self.dim}: got dim={dim}")

    def extra_repr(self) -> str:
        _, _, factor, low, high, original = self.rates
        scaled = f", factor={factor:g}" if factor != 1 else ""
        bounds = f", low={low:g}, high={high:g}, original={original}" if original else ""
        part = f", part={self.part:g}" if self.part != 1 else ""
        return f"{self.dim}, base={self.base:g}, layout={self.layout!r}{scaled}{bounds}{part}"


class Relative(Position):
    """A trained vector per clipped distance, for keys and for values.

    e_ij = q_i.(k_j + aK[clip(j - i)]) * scale,   h_i = sum_j alpha_ij (v_j + aV[clip(j - i)])

    Row `clip + clamp(j - i, -clip, clip)` of the tables `keys` and `values`, shared by the heads. No n x n x dim tensor is
    built: q.aK^T is gathered for the pairs, and the weights are summed per distance before they meet aV.

    Args:
        dim: numbers in a query of one head.
        clip: the largest distance with a vector of its own.
        values: whether the values get vectors, too.

    >>> relative = Relative(dim=4, clip=2)
    >>> relative.keys.shape, relative.values.shape
    (torch.Size([5, 4]), torch.Size([5, 4]))

    Shaw, Uszkoreit and Vaswani (2018), arXiv:1803.02155.
    """

    def __init__(self, dim: int, clip: int, values: bool = True) -> None:
        super().__init__()
        require(dim >= 1 and clip >= 0, f"Relative needs dim >= 1 and clip >= 0: got dim={dim}, clip={clip}")
        self.dim, self.clip = dim, clip
        rows = 2 * clip + 1
        self.keys = nn.Parameter(_table(rows, dim, dim**-0.5))
        self.values = nn.Parameter(_table(rows, dim, dim**-0.5)) if values else None

    @property
    def acts(self) -> frozenset[str]:  # type: ignore[override]
        """Where it acts: on the values only if it has a table for them."""
        return frozenset({"bias"} if self.values is None else {"bias", "value"})

    def table_rows(self, places: Places) -> Int[Tensor, "#batch 1 queries keys"]:
        """The row of the tables for every pair."""
        return (places.j - places.i).clamp(-self.clip, self.clip) + self.clip

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        terms = q @ self.keys.T.to(q.dtype)
        if places.counted and not transformed():
            return Skew.apply(terms, places.start, places.keys, False)
        return terms.gather(-1, self.table_rows(places).expand(*q.shape[:2], -1, -1))

    def spread(self, weights: PairNumbers, places: Places) -> Tensor | None:
        if self.values is None:
            return None
        if places.counted and not transformed():
            per_row = Skew.apply(weights, places.start, len(self.values), True)
        else:
            per_row = weights.new_zeros(*weights.shape[:3], len(self.values))
            per_row = per_row.scatter_add(-1, self.table_rows(places).expand_as(weights), weights)
        return per_row @ self.values.to(per_row.dtype)

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if dim != self.dim:
            raise ValueError(f"{self} needs queries of dim={self.dim}: got dim={dim}")
        if self.values is not None and value_dim != self.dim:
            raise ValueError(
                f"{self} adds vectors of dim={self.dim} to the values: got value dim={value_dim}. Use values=False."
            )

    def extra_repr(self) -> str:
        return f"{self.dim}, clip={self.clip}, values={self.values is not None}"


class ALiBi(Position):
    """A penalty that grows linearly with how far back a key lies; each head has its own slope.

    e_ij = score - slope_h (i - j),  slopes 2^(-8h / heads) for h = 1, 2, ...

    Made for causal neighborhoods: a key after the query would be favored. For a number of heads that is no power of two the
    missing slopes come from twice that power, as in the paper.

    Args:
        heads: how many heads there are.

    >>> ALiBi(heads=2).slopes.flatten().tolist()
    [0.0625, 0.00390625]

    Press, Smith and Lewis (2022), arXiv:2108.12409.
    """

    acts = frozenset({"bias"})
    constant = True
    straight = (math.inf, math.inf)  # everywhere

    def __init__(self, heads: int) -> None:
        super().__init__()
        require(heads >= 1, f"heads must be at least 1: got {heads}")
        self.heads = heads

    @property
    def slopes(self) -> Float[Tensor, "1 heads 1 1"]:
        """The slope of each head."""
        return self.slopes_in(torch.get_default_dtype())

    def slopes_in(self, dtype: torch.dtype) -> Float[Tensor, "1 heads 1 1"]:
        """The slopes from their numbers alone: no buffer that a cast or an empty start could spoil."""
        power = 2 ** int(math.log2(self.heads))
        slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
        between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
        return torch.tensor((slopes + between)[: self.heads], dtype=dtype, device="cpu").view(1, -1, 1, 1)

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        precise = torch.float64 if q.dtype == torch.float64 else torch.float32
        return -self.slopes_in(precise).to(places.device) * (places.i - places.j)

    def of_distance(self, distances: Int[Tensor, " n"]) -> Float[Tensor, "heads n"]:
        return self.slopes_in(torch.float64).to(distances.device).view(-1, 1) * distances

    def pairwise(self, device: torch.device) -> Callable[[Pair], Tensor]:
        slopes = self.slopes_in(torch.float32).to(device).flatten()
        return lambda at: -slopes[at.head] * (at.i - at.j)

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if heads != self.heads:
            raise ValueError(f"{self} has a slope per head: got heads={heads}")

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


class T5Bias(Position):
    """A trained number per head and bucket of distances, added to the scores.

    e_ij = score + table[bucket(j - i), h]

    The first half of the buckets holds one distance each, the others grow geometrically up to `distance`, from which on all
    distances share the last one. With `bidirectional`, keys after the query have half of all buckets for themselves; without,
    they share the bucket of distance 0. All layers of a stack share one table.

    Args:
        heads: how many heads there are.
        buckets: rows of the table.
        distance: the first distance that has no bucket of its own size any more.
        bidirectional: whether keys after the query have buckets of their own.

    >>> bias = T5Bias(heads=1, buckets=4, distance=4, bidirectional=False)
    >>> bias.bucket(torch.tensor([1, 0, -1, -2, -3, -4, -9])).tolist()
    [0, 0, 1, 2, 3, 3, 3]

    Raffel et al. (2020), arXiv:1910.10683, 2.1.
    """

    acts = frozenset({"bias"})
    constant = True
    shared = True

    def __init__(self, heads: int, buckets: int = 32, distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        require(heads >= 1, f"heads must be at least 1: got {heads}")
        exact = buckets // 4 if bidirectional else buckets // 2  # distances with a bucket of their own, on one side
        message = f"distance must lie in {exact + 1}..{FARTHEST} for buckets={buckets}: got {distance}"
        require(exact >= 1, f"T5Bias needs at least {4 if bidirectional else 2} buckets: got {buckets}")
        require(exact < distance <= FARTHEST, message)
        self.heads, self.buckets, self.distance, self.bidirectional = heads, buckets, distance, bidirectional
        self.table = nn.Parameter(_table(buckets, heads, 0.02))

    def bucket(self, distances: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
        """The row of the table for every distance j - i."""
        plain = type(distances) is Tensor and not torch.compiler.is_compiling()
        kept = _buckets if plain else _buckets.__wrapped__
        of_distance = kept(self.buckets, self.distance, self.bidirectional).to(distances.device)
        return of_distance[distances.clamp(-self.distance, self.distance) + self.distance]

    def bias(self, q: Tensor, places: Places) -> PairNumbers | None:
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        if not places.counted or transformed() or torch.compiler.is_exporting():
            pairs = table[self.bucket(places.j - places.i).squeeze(1)]  # (batch, queries, keys, heads)
            return pairs.permute(0, 3, 1, 2)
        distances = torch.arange(-self.distance, self.distance + 1, device=places.device)
        rows = table[self.bucket(distances)].T.view(1, self.heads, 1, -1).expand(-1, -1, places.queries, -1)
        return Skew.apply(rows, places.start - places.first_key, places.keys, False)

    def of_distance(self, distances: Int[Tensor, " n"]) -> Float[Tensor, "heads n"]:
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        return table.T[:, self.bucket(distances)]

    @property
    def straight(self) -> tuple[float, float]:  # type: ignore[override]
        """Beyond these distances all share a bucket."""
        return -self.distance, self.distance if self.bidirectional else 0

    def pairwise(self, device: torch.device) -> Callable[[Pair], Tensor]:
        farthest = self.distance
        rows = self.table.float()[self.bucket(torch.arange(-farthest, farthest + 1, device=device))]
        return lambda at: rows[(at.j - at.i).clamp(-farthest, farthest) + farthest, at.head]

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if heads != self.heads:
            raise ValueError(f"{self} has numbers per head: got heads={heads}")

    def extra_repr(self) -> str:
        direction = "" if self.bidirectional else ", bidirectional=False"
        return f"heads={self.heads}, buckets={self.buckets}, distance={self.distance}{direction}"


FARTHEST = 2**16  # the largest distance of a T5Bias, for which a table of all distances is made


@lru_cache(maxsize=16)
def _buckets(buckets: int, distance: int, bidirectional: bool) -> Int[Tensor, " distances"]:
    """The bucket of every distance from -distance to distance.

    In float32, as everybody computes it: at a bucket's border a rounding decides, and trained tables rely on it.
    """
    with ordinary(), torch.device("cpu"):
        distances = torch.arange(-distance, distance + 1)
        side = buckets // 2 if bidirectional else buckets
        away = distances.abs() if bidirectional else (-distances).clamp(min=0)
        exact = side // 2
        growth = torch.log(away.float() / exact) / math.log(distance / exact) * (side - exact)
        far = (exact + growth.clamp(min=0).long()).clamp(max=side - 1)
        return torch.where(away < exact, away, far) + (side * (distances > 0) if bidirectional else 0)


class LocalGaussian(Position):
    """Luong's local-p attention: the query predicts where to look, and a Gaussian favors that place.

    p = length * sigmoid(v . tanh(W q));  N = {s: floor(p) - half <= s <= floor(p) + half}
    weights = normalize(scores inside N) * exp(-(s - p)^2 / (2 (half / 2)^2))

    The weights are not normalized again after the Gaussian. The true length of each sample comes from a `Padding`
    that every query obeys; without one it is the number of keys.

    Args:
        dim_q: numbers in a query of one head.
        half: keys on each side of the predicted place.

    >>> LocalGaussian(dim_q=4, half=2)
    LocalGaussian(4, half=2)

    Luong, Pham and Manning (2015), arXiv:1508.04025, 3.2.
    """

    acts = frozenset({"reweight"})

    def __init__(self, dim_q: int, half: int) -> None:
        super().__init__()
        require(dim_q >= 1 and half >= 1, f"LocalGaussian needs dim_q, half >= 1: got dim_q={dim_q}, half={half}")
        self.reach = half
        bound = math.sqrt(3 / dim_q)
        self.weight = nn.Parameter(torch.empty(dim_q, dim_q).uniform_(-bound, bound))
        self.v = nn.Parameter(torch.empty(dim_q).uniform_(-bound, bound))

    def narrow(self, q: Tensor, places: Places) -> tuple[Tensor, Tensor] | None:
        hidden = torch.tanh(q @ self.weight.T.to(q.dtype)) @ self.v.to(q.dtype)
        center = places.length * torch.sigmoid(hidden).unsqueeze(-1)
        inside = (places.column - center.detach().floor()).abs() <= self.reach
        return inside, torch.exp(-2 * ((places.column - center) / self.reach) ** 2)

    def check(self, heads: int, dim: int, value_dim: int) -> None:
        if dim != len(self.v):
            raise ValueError(f"{self} needs queries of dim={len(self.v)}: got dim={dim}")

    def extra_repr(self) -> str:
        return f"{len(self.v)}, half={self.reach}"
