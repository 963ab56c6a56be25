"""Rows and columns that are texts: the tokens that were read and written, with their places in the text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from mirada.data.text.tokenize import Piece, Tokenizer
from mirada.decoding.search import Hypothesis
from mirada.errors import require

# What the rows and columns of attention are: words of a text, cells of a picture, times, nodes. `docs/attn.md` has
# the file.


Span = tuple[int, int]  # characters
ANSWER = "answer"  # the axis of what was answered, where no layer has its rows


@dataclass(frozen=True)
class AxisLabels:
    """The names of the rows or columns of a layer. Axes of texts, pictures, times and graphs have classes of their own.

    Args:
        tokens: A name for every place.

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
    """The tokens of a text, and where each of them is in it.

    Args:
        tokens: The tokens, as they are shown.
        text: The text itself.
        spans: The first and the last + 1 character of each token, or None (`</s>`); empty if they are not known.

    >>> TextLabels(("the", "house", "</s>"), "the house", ((0, 3), (4, 9), None)).size
    3
    """

    text: str = ""
    spans: tuple[Span | None, ...] = ()
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        fits = len(self.spans) in (0, len(self.tokens))
        require(fits, f"a text axis needs a span per token: got {len(self.spans)} spans, {len(self.tokens)} tokens")

    @property
    def words(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The words of the text, each with the places of its tokens; a token that stands for no text is one by itself.

        >>> TextLabels(("[CLS]", "una", "ffa", "ble", "!"), "unaffable!", (None, (0, 3), (3, 6), (6, 9), (9, 10))).words
        (('[CLS]', (0,)), ('unaffable', (1, 2, 3)), ('!', (4,)))
        """
        spans = self.spans or (None,) * len(self.tokens)
        groups, ends, blank = (
            list[list[int]](),
            -1,
            False,
        )  # where the token before ends, and whether it was only a space
        for place, span in enumerate(spans):
            follows = span is not None and ends >= 0 and span[0] <= ends
            if follows and span is not None and (blank or span[0] < ends or _one_word(self.text, ends)):
                groups[-1].append(place)
            else:
                groups.append([place])
            ends = -1 if span is None else span[1]
            blank = span is not None and not self.text[slice(*span)].strip()
        return tuple((self._word(group), tuple(group)) for group in groups)

    def _word(self, places: Sequence[int]) -> str:
        """The text of tokens that are one word; the name of one that stands for no text."""
        spans = [span for place in places if self.spans and (span := self.spans[place]) is not None]
        text = self.text[spans[0][0] : spans[-1][1]].strip() if spans else ""
        return text or self.tokens[places[0]]


@dataclass(frozen=True)
class GridLabels(AxisLabels):
    """The cells of a picture, row by row; `GridLabels.of` names them.

    Args:
        tokens: A name for every place: first those of `before`, then one for each cell.
        height: The number of rows of cells.
        width: The number of columns of cells.
        before: The names of places that precede the cells, such as a class token.
        picture: The picture as a PNG file.

    >>> GridLabels.of(1, 2, before=("[CLS]",)).tokens
    ('[CLS]', 'row 1, column 1', 'row 1, column 2')
    """

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
    """Times of a series or of a recording.

    Args:
        tokens: A name for every time.
        values: The series, drawn next to the weights; empty unless it has one number per time.

    >>> TimeLabels(("Monday", "Tuesday"), (20.5, 22.0)).kind
    'time'
    """

    values: tuple[float, ...] = ()
    kind: ClassVar[str] = "time"


@dataclass(frozen=True)
class NodeLabels(AxisLabels):
    """The nodes of a graph, or of a part of one.

    Args:
        tokens: The name of every node.
        places: For a part of a graph, the numbers of its nodes in the graph, which what-ifs refer to.

    >>> NodeLabels(("paper 7", "paper 12"), (7, 12)).size
    2
    """

    places: tuple[int, ...] = ()
    kind: ClassVar[str] = "graph"

    def __post_init__(self) -> None:
        fits = len(self.places) in (0, len(self.tokens))
        require(fits, f"nodes of a part need a place each: got {len(self.places)} places, {len(self.tokens)} nodes")


@dataclass(frozen=True)
class WrittenStep:
    """What was written from a row.

    Args:
        row: The row of attention from which it was written.
        text: The token, as it is shown.
        probability: Its probability, if it is known.
        ranked: The likeliest tokens and their probabilities.
        token: The token's number in the vocabulary; no file holds it.
    """

    row: int
    text: str
    probability: float | None = None
    ranked: tuple[tuple[str, float], ...] = ()
    token: int | None = field(default=None, compare=False)  # known while the model is: no file holds it


@dataclass(frozen=True)
class Labels:
    """What a picture of attention shows in addition to the weights: the names of rows and columns, the answer, its origin.

    Args:
        axes: The axes by name.
        places: From patterns of layer names to the axes of their rows and columns; the first that matches counts:
            {"decoder.*.cross": ("target", "source"), "encoder.*": ("source", "source")}. Rows and columns of a layer
            that matches none, or has other sizes, are numbered.
        made: The provenance: task, model, run, input.
        answer: The answer and its score.
        outputs: What was written from each row.
        boxes: Known places in the picture: the row of `outputs`, and left, top, right and bottom in pixels.
        changes: The what-ifs of the run, as `changes_as_json` writes them.
        opening: What a page shows first, such as view=graph&row=2; not part of the file.
        chosen: The number of the class that was answered; no file holds it.

    >>> labels = Labels({"words": TextLabels(("the", "house"))}, {"encoder.*": ("words", "words")})
    >>> labels.axes_of("encoder.layers.0.self", 2, 2), labels.axes_of("encoder.layers.0.self", 3, 3)
    (('words', 'words'), None)
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
        """What the rows and columns of a layer are; numbered axes if they are not known."""
        names = self.axes_of(layer, queries, keys)
        if names is None:
            return AxisLabels.numbered(queries), AxisLabels.numbered(keys)
        return self.axes[names[0]], self.axes[names[1]]


def _one_word(text: str, place: int) -> bool:
    """Whether the characters before and at a place of a text belong to one word."""
    return place > 0 and text[place - 1 : place].isalnum() and text[place : place + 1].isalnum()


def _parts_named(names: Sequence[str], spans: Sequence[Span | None], text: str) -> tuple[str, ...]:
    """Names of tokens; where a character has several tokens, which of them: bytes alone can be read by nobody.

    >>> _parts_named(["a", "<F0 9F>", "<98>"], [(0, 1), (1, 2), (1, 2)], "a😀")
    ('a', '😀 1/2', '😀 2/2')
    """
    named, at = list(names), 0
    while at < len(named):
        count = 1
        while at + count < len(named) and spans[at] is not None and spans[at + count] == spans[at]:
            count += 1
        span = spans[at]
        if count > 1 and span is not None and span[0] < span[1]:
            named[at : at + count] = [f"{text[span[0] : span[1]]} {part}/{count}" for part in range(1, count + 1)]
        at += count
    return tuple(named)


RANKED = 5  # likeliest tokens that are shown with the one that was written


def silent_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    """The special tokens that stand for no part of a text: all but the unknown word and the mask."""
    return tokenizer.special - {tokenizer.unknown, tokenizer.mask}


def read_axis(
    tokenizer: Tokenizer,
    text: str,
    tokens: Sequence[int],
    start: Sequence[int] = (),
    covered: Sequence[Piece] | None = None,
) -> TextLabels:
    """The axis of a text that was read: `tokens` are those that the model was given, truncated and with their end token.

    `covered` are the pieces of the text, where they are not those of the whole of it.

    >>> tokenizer = Tokenizer.train(["the red house"], kind="word")
    >>> read_axis(tokenizer, "the  house", [*tokenizer.encode("the  house"), tokenizer.end]).spans
    ((0, 3), (5, 10), None)
    """
    names, spans, silent = [], list[Span | None](), silent_tokens(tokenizer)
    pieces = iter(tokenizer.pieces(text) if covered is None else covered)
    for token in tokens:
        piece = None if token in silent else next(pieces, None)
        if piece is not None and (piece.id != token or piece.end <= piece.start):
            piece = None
        names.append(piece.text if piece is not None and piece.text.strip() else tokenizer.token(token))
        spans.append(None if piece is None else (piece.start, piece.end))
    before = tuple(map(tokenizer.token, start))
    return TextLabels((*before, *_parts_named(names, spans, text)), text, (*(None for _ in before), *spans))


def written_axis(tokenizer: Tokenizer, tokens: Sequence[int], start: Sequence[int] | None = None) -> TextLabels:
    """The axis of a text that was written, after the tokens it started from: the start token, unless others are given.

    >>> tokenizer = Tokenizer.train(["la casa.", "la cosa."], kind="word")
    >>> written_axis(tokenizer, tokenizer.encode("la casa.")).spans
    (None, (0, 2), (3, 7), (7, 8))
    """
    start = (tokenizer.start,) if start is None else start
    text, names = tokenizer.decode(tokens), tuple(map(tokenizer.token, (*start, *tokens)))
    pieces, unplaced = tokenizer.pieces(text), [None for _ in start]
    if [piece.id for piece in pieces] == list(tokens):
        places = [(piece.start, piece.end) if piece.end > piece.start else None for piece in pieces]
        parts = _parts_named(names[len(unplaced) :], places, text)
        return TextLabels((*names[: len(unplaced)], *parts), text, (*unplaced, *places))
    # a model may split a word differently from its tokenizer: a token is where it changes the decoded text
    spans, before = list[Span | None](), ""
    for count in range(1, len(tokens) + 1):
        now = tokenizer.decode(tokens[:count])
        added = now[len(before) :]
        visible = added.strip() and now.startswith(before) and text.startswith(now)
        spans.append((len(now) - len(added.lstrip()), len(now)) if visible else None)
        before = now
    return TextLabels(names, text, (*unplaced, *spans))


def written_labels(
    name: str, read: AxisLabels, tokenizer: Tokenizer, best: Hypothesis, text: str, given: str, logits: Tensor,
    start: Sequence[int] | None = None, end: int | None = None,
) -> Labels:  # fmt: skip
    """What the rows and columns of an encoder and a decoder are, if this was read and that was written from it.

    Row 0 of the target is the start, from which the first token was written: the tokenizer's start token, unless others are
    given, as for the end.
    """
    axes = {name: read, "target": written_axis(tokenizer, best.tokens, start)}
    end = tokenizer.end if end is None else end
    places = {"*encoder*": (name, name), "*decoder*self": ("target", "target"), "*decoder*": ("target", name)}
    steps = written_steps(logits[0], [*best.tokens, *[end] * best.finished], tokenizer)
    return Labels(axes, places, {"input": given}, (text, best.score), steps)


def written_steps(
    logits: Float[Tensor, "rows vocab"], tokens: Sequence[int], tokenizer: Tokenizer, first: int = 0
) -> tuple[WrittenStep, ...]:
    """What was written from the rows first, first + 1, ..., its probabilities, and the likeliest tokens."""
    if not tokens:
        return ()
    shares = logits[first : first + len(tokens)].float().softmax(-1).cpu()
    top = shares.topk(min(RANKED, shares.shape[-1]))
    steps = []
    for row, token in enumerate(tokens):
        best = zip(map(tokenizer.token, top.indices[row].tolist()), top.values[row].tolist(), strict=True)
        steps.append(WrittenStep(first + row, tokenizer.token(token), float(shares[row, token]), tuple(best), token))
    return tuple(steps)
