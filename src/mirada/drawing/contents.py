"""What a report can say: plain values, checked when made. How they look is decided elsewhere."""

from dataclasses import dataclass
from typing import TypeAlias

from mirada.errors import require, unknown

Value: TypeAlias = str | float | None  # None and nan: not measured
Fact: TypeAlias = tuple[str, Value]
ENDS = ("lowest", "highest")
SCALES = ("linear", "from zero", "log")


@dataclass(frozen=True)
class Curve:
    """A line of a chart: (step, value) pairs; a value that is None or not finite leaves a gap.

    `best` says which end is good, "lowest" or "highest": that point is marked and its value written out.
    """

    name: str
    points: tuple[tuple[float, float | None], ...]
    best: str = ""

    def __post_init__(self) -> None:
        if self.best and self.best not in ENDS:
            raise unknown("best of a curve", self.best, ENDS)

    @property
    def empty(self) -> bool:
        return not self.points


@dataclass(frozen=True)
class Chart:
    """Curves over one axis. The scale of values is "linear", "from zero" (amounts, such as speeds) or "log".

    A log scale needs positive values; a chart with others is drawn linear.

    >>> Chart("Loss", (Curve("valid", ((1, 2.5), (2, 1.5)), best="lowest"),)).empty
    False
    """

    title: str
    curves: tuple[Curve, ...]
    x: str = "step"
    y: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise unknown("scale of a chart", self.scale, SCALES)

    @property
    def empty(self) -> bool:
        return all(curve.empty for curve in self.curves)


@dataclass(frozen=True)
class Aligned:
    """A text written while looking at another: weights[i][j] is how much written token i looked at source token j.

    >>> Aligned(("the", "cat"), ("el", "gato"), ((0.9, 0.1),))
    Traceback (most recent call last):
    ValueError: weights must have a row per written token: got 1 row for 2 tokens
    """

    source: tuple[str, ...]
    written: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    wanted: str = ""
    note: str = ""
    score: float | None = None

    def __post_init__(self) -> None:
        rows, tokens = len(self.weights), len(self.written)
        plural = "row" if rows == 1 else "rows"
        require(rows == tokens, f"weights must have a row per written token: got {rows} {plural} for {tokens} tokens")
        columns = len(self.source)
        for index, row in enumerate(self.weights):
            require(
                len(row) == columns,
                f"weights must have a column per source token: row {index} has {len(row)} for {columns} tokens",
            )

    @property
    def empty(self) -> bool:
        return not (self.source and self.written)


@dataclass(frozen=True)
class Weighed:
    """A text whose tokens carry weights, and the answer given to it; `score` is the answer's probability."""

    tokens: tuple[str, ...]
    weights: tuple[float, ...]
    answer: str
    wanted: str = ""
    note: str = ""
    score: float | None = None

    def __post_init__(self) -> None:
        require(
            len(self.weights) == len(self.tokens),
            f"there must be a weight per token: got {len(self.weights)} weights for {len(self.tokens)} tokens",
        )

    @property
    def empty(self) -> bool:
        return not self.tokens


@dataclass(frozen=True)
class Sample:
    """A written text; `prompt` is the part that was given."""

    title: str
    text: str
    prompt: str = ""

    @property
    def empty(self) -> bool:
        return not (self.text or self.prompt)


@dataclass(frozen=True)
class Ranked:
    """A text with a gap (three or more underscores, or "[MASK]") and the words that may fill it, best first."""

    text: str
    candidates: tuple[tuple[str, float], ...]
    wanted: str = ""
    note: str = ""

    @property
    def empty(self) -> bool:
        return not self.candidates


@dataclass(frozen=True)
class Table:
    """Numbers by name, such as quality by length. The first cell of a row names it.

    >>> Table("By length", ("tokens", "BLEU"), (("1 to 10", 41.2, "extra"),))
    Traceback (most recent call last):
    ValueError: a row must have a cell per column: row 0 has 3 for 2 columns
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            require(
                len(row) == len(self.columns),
                f"a row must have a cell per column: row {index} has {len(row)} for {len(self.columns)} columns",
            )

    @property
    def empty(self) -> bool:
        return not (self.rows and self.columns)


Item: TypeAlias = Chart | Aligned | Weighed | Sample | Ranked | Table


@dataclass(frozen=True)
class Section:
    """A heading, a short explanation and what it is about. A section whose items are all empty is left out."""

    heading: str
    text: str = ""
    items: tuple[Item, ...] = ()

    @property
    def empty(self) -> bool:
        return all(item.empty for item in self.items)


@dataclass(frozen=True)
class Report:
    """The whole page: headline numbers (`facts`), smaller print (`details`), sections, and commands to go on with."""

    title: str
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    commands: tuple[str, ...] = ()
    summary: str = ""
    details: tuple[Fact, ...] = ()
