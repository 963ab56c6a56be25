"""Rows and columns that are texts: the tokens that were read and written, with their places in the text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from mirada.data.text.tokenize import END, PAD, START, Tokenizer
from mirada.decoding.search import Hypothesis
from mirada.errors import require

# What the rows and columns of attention are: words of a text, cells of a picture, times, nodes. `docs/attn.md` has
# the file.


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
        """How many places it has."""
        return len(self.tokens)

    @classmethod
    def numbered(cls, size: int) -> "AxisLabels":
        """An axis whose places are named by their numbers."""
        return cls(tuple(map(str, range(size))))


@dataclass(frozen=True)
class TextLabels(AxisLabels):
    """The tokens of a text, and where each stands in it: None for those that stand nowhere (`</s>`)."""

    text: str = ""
    spans: tuple[Span | None, ...] = ()
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        fits = len(self.spans) in (0, len(self.tokens))
        require(fits, f"a text axis needs a span per token: got {len(self.spans)} spans, {len(self.tokens)} tokens")


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
        """A grid whose cells are named by row and column."""
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
        fits = len(self.places) in (0, len(self.tokens))
        require(fits, f"nodes of a part need a place each: got {len(self.places)} places, {len(self.tokens)} nodes")


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
    chosen: int | None = field(default=None, compare=False)  # the number of the answered class; no file holds it

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

    def rows_and_columns(self, layer: str, queries: int, keys: int) -> tuple[AxisLabels, AxisLabels]:
        """What the rows and columns of a layer are; numbers, where nobody said."""
        names = self.axes_of(layer, queries, keys)
        if names is None:
            return AxisLabels.numbered(queries), AxisLabels.numbered(keys)
        return self.axes[names[0]], self.axes[names[1]]


RANKED = 5  # tokens that are told beside the one that was written
SILENT = (PAD, START, END)  # they stand nowhere in a text


def read_axis(tokenizer: Tokenizer, text: str, tokens: Sequence[int], start: Sequence[int] = ()) -> TextLabels:
    """The axis of a text that was read: `tokens` are those of the text, cut and closed as the model was given them.

    >>> tokenizer = Tokenizer.train(["the red house"], kind="word")
    >>> read_axis(tokenizer, "the  house", [*tokenizer.encode("the  house"), END]).spans
    ((0, 3), (5, 10), None)
    """
    names, spans = [], list[Span | None]()
    pieces = iter(tokenizer.pieces(text))
    for token in tokens:
        piece = None if token in SILENT else next(pieces, None)
        if piece is not None and (piece.id != token or piece.end <= piece.start):
            piece = None
        names.append(piece.text if piece is not None and piece.text.strip() else tokenizer.token(token))
        spans.append(None if piece is None else (piece.start, piece.end))
    before = tuple(map(tokenizer.token, start))
    return TextLabels((*before, *names), text, (*(None for _ in before), *spans))


def written_axis(tokenizer: Tokenizer, tokens: Sequence[int], start: Sequence[int] = (START,)) -> TextLabels:
    """The axis of a text that was written, after what it started from."""
    text, spans = _placed(tokenizer, tokens)
    names = tuple(map(tokenizer.token, (*start, *tokens)))
    return TextLabels(names, text, (*(None for _ in start), *spans))


def _placed(tokenizer: Tokenizer, tokens: Sequence[int]) -> tuple[str, tuple[Span | None, ...]]:
    """The text of some tokens, and the characters that each wrote.

    >>> tokenizer = Tokenizer.train(["la casa.", "la cosa."], kind="word")
    >>> _placed(tokenizer, tokenizer.encode("la casa."))
    ('la casa.', ((0, 2), (3, 7), (7, 8)))
    """
    text = tokenizer.decode(tokens)
    pieces = tokenizer.pieces(text)
    if [piece.id for piece in pieces] == list(tokens):
        return text, tuple((piece.start, piece.end) if piece.end > piece.start else None for piece in pieces)
    # a model may cut a word otherwise than its tokenizer would: what each token adds to the text tells its place
    spans, before = list[Span | None](), ""
    for count in range(1, len(tokens) + 1):
        now = tokenizer.decode(tokens[:count])
        added = now[len(before) :]
        start = len(now) - len(added.lstrip())
        stands = added.strip() and now.startswith(before) and text.startswith(now)
        spans.append((start, len(now)) if stands else None)
        before = now
    return text, tuple(spans)


def written_labels(
    name: str, read: AxisLabels, tokenizer: Tokenizer, best: Hypothesis, text: str, given: str, logits: Tensor
) -> Labels:
    """What the rows and columns of an encoder and a decoder are, if this was read and that was written from it.

    Row 0 of the target is the start, from which the first token was written.
    """
    return Labels(
        {name: read, "target": written_axis(tokenizer, best.tokens)},
        {"*encoder*": (name, name), "*decoder*self": ("target", "target"), "*decoder*": ("target", name)},
        {"input": given},
        (text, best.score),
        written_steps(logits[0], [*best.tokens, *[END] * best.finished], tokenizer),
    )


def written_steps(
    logits: Float[Tensor, "rows vocab"], tokens: Sequence[int], tokenizer: Tokenizer, first: int = 0
) -> tuple[WrittenStep, ...]:
    """What was written from the rows first, first + 1, ..., how likely the model found it, and the likeliest of all."""
    if not tokens:
        return ()
    shares = logits[first : first + len(tokens)].float().softmax(-1).cpu()
    top = shares.topk(min(RANKED, shares.shape[-1]))
    return tuple(
        WrittenStep(
            first + row,
            tokenizer.token(token),
            float(shares[row, token]),
            tuple((tokenizer.token(i), p) for i, p in zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True)),
            token,
        )
        for row, token in enumerate(tokens)
    )  # fmt: skip
