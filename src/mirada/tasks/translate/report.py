"""The report of translations: examples and the worst errors, each with its attention map from target to source."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

from mirada.data.record import TableRow
from mirada.drawing.attention.weights import (
    ColorScale,
    Rows,
    WordPiece,
    cautions,
    compared,
    head,
    line,
    pieces,
    shown,
    text_of,
    total,
)
from mirada.drawing.page import Item, Markup, Section, element, escape, join, scroll
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.translate.task import attends
from mirada.training.metrics import sentence_chrf
from mirada.words import number, plural, weight

SHOWN = 6  # examples and errors
ROOMY = 14  # source tokens up to which the cells of a map have room for numbers


def sections(run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> list[Section]:
    """Some translations and the worst errors, with their attention to the source."""
    pairs = list(zip(answers, records, strict=True))
    wrong = [pair for pair in pairs if pair[0].text != pair[1].value[1]]
    wrong.sort(key=lambda pair: sentence_chrf(pair[0].text, pair[1].value[1]))
    about = "The darker a cell, the more attention the target word (row) paid to the source word (column)."
    return [
        Section("Examples", about if attends(run) else "", _examples(run, sample_evenly(pairs, SHOWN))),
        Section("Worst errors", "Lowest chrF first.", _examples(run, wrong[:SHOWN])),
    ]


def _examples(run: Run, pairs: Sequence[tuple[Answer, TableRow]]) -> tuple[Item, ...]:
    """Translations with their attention maps; a table of texts for a model without attention."""
    if attends(run):
        return tuple(_aligned(run, record) for _, record in pairs)
    rows = ((answer.input, answer.text, record.value[1]) for answer, record in pairs)
    return (DataTable("", ("source", "written", "wanted"), tuple(rows)),)


def _aligned(run: Run, record: TableRow) -> "Aligned":
    """A translation with its attention map."""
    answer = run(record.value[0], aligned=True)
    weights = () if answer.weights is None else tuple(tuple(row) for row in answer.weights.tolist())
    read, written = answer.read, answer.written
    if run.known.tokenizer.kind != "word":  # subwords, with the spaces that mark where words begin
        (source,) = run.known.sources([answer.input])
        read = (*map(run.known.tokenizer.spaced, source[:-1]), read[-1])
        written = tuple(map(run.known.writes.spaced, answer.tokens))
    return Aligned(read, written, weights, record.value[1], score=answer.score)


@dataclass(frozen=True)
class Aligned(Item):
    """A translation and its source: weights[i][j] is the attention of written token i to source token j.

    >>> Aligned(("the", "cat"), ("el", "gato"), ((0.9, 0.1),))
    Traceback (most recent call last):
    ValueError: weights must have a row per written token: got 1 row for 2 tokens
    """

    source: tuple[str, ...]
    written: tuple[str, ...]
    weights: Rows
    wanted: str = ""
    score: float | None = None
    shows_attention = True

    def __post_init__(self) -> None:
        rows, tokens, columns = plural(len(self.weights), "row"), len(self.written), len(self.source)
        same = len(self.weights) == tokens
        require(same, f"weights must have a row per written token: got {rows} for {tokens} tokens")
        for index, size in enumerate(map(len, self.weights)):
            message = f"weights must have a column per source token: row {index} has {size} for {columns} tokens"
            require(size == columns, message)

    @property
    def empty(self) -> bool:
        return not (self.source and self.written)

    def draw(self) -> Markup:
        """Both texts, which the page's script links when a token is hovered, and the matrix of all weights."""
        source, written = pieces(self.source), pieces(self.written)
        scale = ColorScale.of(self.weights)
        texts = element(
            "dl",
            line("source", _strip(source, "source")),
            line("written", _strip(written, "written")),
            line("wanted", compared(self.wanted, text_of(self.written))) if self.wanted else None,
            class_="lines",
        )
        label = f"Weights of {len(written)} written tokens over {len(source)} source tokens"
        return element(
            "figure",
            head("", self.score),
            texts,
            element("p", class_="readout", aria_live="polite"),
            scroll(_matrix(self.weights, source, written, scale), label),
            element("p", scale.key(len(source)), class_="keys"),
            *(element("p", text, class_="caution") for text in cautions(self.weights, shown(source))),
            class_="aligned card wide" if len(source) > ROOMY else "aligned card",
        )


def _strip(tokens: tuple[WordPiece, ...], side: str) -> Markup:
    """Tokens as running text; subwords of one word have no space between them."""
    parts: list[str] = []
    for index, piece in enumerate(tokens):
        kind = "token" if piece.starts else "token joined"
        parts += [" " if piece.starts and index else "", element("span", piece.shown, class_=kind)]
    return element("span", join(parts), class_=f"strip {side}", dir="auto", lang="", translate="no")


def _matrix(weights: Rows, source: tuple[WordPiece, ...], written: tuple[WordPiece, ...], scale: ColorScale) -> Markup:
    """The weights as a table, readable without colors; the last row is the mean over the written tokens."""

    def row(name: Markup, written: str, values: tuple[float, ...]) -> Markup:
        cells = []
        for piece, value in zip(source, values, strict=True):
            title = f"{written} \u2192 {piece.shown}: {number(value)}"
            cells.append(element("td", weight(value), class_=scale.kind(value), style=scale.style(value), title=title))
        return element("tr", element("th", name, scope="row"), *cells)

    columns = [element("th", element("span", _label(piece)), scope="col") for piece in source]
    rows = [row(_label(piece), piece.shown, values) for piece, values in zip(written, weights, strict=True)]
    finite = [column if all(map(isfinite, column)) else (nan,) for column in zip(*weights, strict=True)]
    means = tuple(total(column) / len(rows) for column in finite)
    return element(
        "table",
        element("thead", element("tr", element("td", class_="corner"), *columns)),
        element("tbody", *rows),
        element("tfoot", row(escape("mean"), "mean of the rows", means)) if len(rows) > 1 else None,
        class_="matrix" if len(source) <= ROOMY else "matrix dense",
        lang="",
        translate="no",
    )


def _label(piece: WordPiece) -> Markup:
    """A token as the header of a row or a column; a subword that continues a word begins with a dot."""
    return element("bdi", piece.shown if piece.starts else f"\u00b7{piece.shown}")
