"""What the rows and columns of attention are: words of a text, cells of a picture, times, nodes. `docs/attn.md` has the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from mirada.errors import require

Span = tuple[int, int]  # characters
ANSWER = "answer"  # the axis of what was answered, where no layer has its rows


@dataclass(frozen=True)
class AxisLabels:
    """An axis whose places are only numbered, or named by `tokens`. Other kinds say more.

    >>> AxisLabels(("a", "b")).size
    2
    """

    tokens: tuple[str, ...]
    kind: ClassVar[str] = "plain"

    @property
    def size(self) -> int:
        return len(self.tokens)

    @classmethod
    def numbered(cls, size: int) -> "AxisLabels":
        return cls(tuple(map(str, range(size))))


@dataclass(frozen=True)
class TextLabels(AxisLabels):
    """The tokens of a text, and where each stands in it: None for those that stand nowhere (`</s>`)."""

    text: str = ""
    spans: tuple[Span | None, ...] = ()
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        require(
            len(self.spans) in (0, len(self.tokens)),
            f"a text axis needs a span per token: got {len(self.spans)} spans, {len(self.tokens)} tokens",
        )


@dataclass(frozen=True)
class GridLabels(AxisLabels):
    """The cells of a picture, row by row, after the tokens that stand `before` them. `picture` is the PNG."""

    height: int = 1
    width: int = 1
    before: tuple[str, ...] = ()
    picture: bytes = field(default=b"", repr=False)
    kind: ClassVar[str] = "grid"

    @classmethod
    def of(cls, height: int, width: int, before: Sequence[str] = (), picture: bytes = b"") -> "GridLabels":
        cells = (f"row {1 + cell // width}, column {1 + cell % width}" for cell in range(height * width))
        return cls((*before, *cells), height, width, tuple(before), picture)


@dataclass(frozen=True)
class TimeLabels(AxisLabels):
    """Times of a series or of a recording; `values` draws it beside them where it is one number a time."""

    values: tuple[float, ...] = ()
    kind: ClassVar[str] = "time"


@dataclass(frozen=True)
class NodeLabels(AxisLabels):
    """The nodes of a graph by name; of a part of one, `places` are their numbers in the whole: those that what-ifs take."""

    places: tuple[int, ...] = ()
    kind: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        require(
            len(self.places) in (0, len(self.tokens)),
            f"nodes of a part need a place each: got {len(self.places)} places, {len(self.tokens)} nodes",
        )


@dataclass(frozen=True)
class WrittenStep:
    """What was written from a row: the token, its probability, and the likeliest instead of it; `token` is its number."""

    row: int
    text: str
    probability: float | None = None
    ranked: tuple[tuple[str, float], ...] = ()
    token: int | None = field(default=None, compare=False)  # known while the model is: no file holds it


@dataclass(frozen=True)
class Labels:
    """All that a picture of attention says beside the weights.

    `places` maps patterns of layer names to the axes of rows and columns, the first that fits: {"decoder.*.cross": ("target",
    "source"), "encoder.*": ("source", "source")}. A layer that no pattern fits, or whose sizes do not, has numbers.
    """

    axes: Mapping[str, AxisLabels] = field(default_factory=dict)
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)  # provenance: task, model, run, input, ...
    answer: tuple[str, float | None] | None = None
    outputs: tuple[WrittenStep, ...] = ()
    boxes: tuple[tuple[int, tuple[float, float, float, float]], ...] = ()  # row of `outputs`, box in pixels
    changes: tuple[Mapping[str, Any], ...] = ()
    opening: str = ""  # where a page begins, such as view=graph&row=2; not a part of the file
    chosen: int | None = field(
        default=None, compare=False
    )  # the number of the class that was answered; known as `token` is

    def __post_init__(self) -> None:
        for pattern, names in self.places.items():
            missing = [name for name in names if name not in self.axes]
            require(not missing, f"the labels of {pattern!r} name an axis that is not there: {', '.join(missing)}")

    def axes_of(self, layer: str, queries: int, keys: int) -> tuple[str, str] | None:
        """The axes of a layer's rows and columns, if they are known and as long as its weights."""
        for pattern, (rows, columns) in self.places.items():
            if fnmatchcase(layer, pattern) and (self.axes[rows].size, self.axes[columns].size) == (queries, keys):
                return rows, columns
        return None

    def with_made(self, **more: str) -> "Labels":
        return replace(self, made={**self.made, **more})
