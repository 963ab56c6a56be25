"""Examples with weights: a map from written to source tokens, and a text whose tokens are colored."""

from math import fsum, isfinite, nan

from mirada.drawing.contents import Aligned, Weighed
from mirada.drawing.markup import Markup, element, escape, join, scroll
from mirada.drawing.numerals import number, weight
from mirada.drawing.pieces import Piece, pieces, text_of
from mirada.drawing.texts import compared, line, verdict
from mirada.drawing.weights import Scale, cautions

ROOMY = 14  # source tokens up to which a map has room for figures in its cells
STRONGEST = 4


def aligned(value: Aligned) -> Markup:
    """Both texts, linked by the script when a token is pointed at, and the map of all weights."""
    source, written = pieces(value.source), pieces(value.written)
    scale = Scale.of(value.weights)
    texts = element(
        "dl",
        line("source", strip(source, "source")),
        line("written", strip(written, "written")),
        line("wanted", compared(value.wanted, text_of(value.written))) if value.wanted else None,
        class_="lines",
    )
    wide = len(source) > ROOMY
    label = f"Weights of {len(written)} written tokens over {len(source)} source tokens"
    return element(
        "figure",
        head(value.note, value.score),
        texts,
        element("p", class_="readout", aria_live="polite"),
        scroll(matrix(value, source, written, scale), label),
        element("p", scale.key(len(source)), class_="keys"),
        *(element("p", text, class_="caution") for text in cautions(value.weights, shown(source))),
        class_="aligned card wide" if wide else "aligned card",
    )


def head(note: str, score: float | None) -> Markup | None:
    """What is said above an example."""
    parts = [element("span", note, dir="auto") if note else None]
    parts.append(element("span", "score ", element("b", number(score)), class_="score") if score is not None else None)
    return element("figcaption", *parts) if any(parts) else None


def shown(tokens: tuple[Piece, ...]) -> tuple[str, ...]:
    return tuple(piece.shown for piece in tokens)


def strip(tokens: tuple[Piece, ...], side: str) -> Markup:
    """Tokens as running text; pieces of one word touch."""
    parts: list[str] = []
    for index, piece in enumerate(tokens):
        parts.append(" " if piece.starts and index else "")
        parts.append(element("span", piece.shown, class_="token" if piece.starts else "token joined"))
    return element("span", join(parts), class_=f"strip {side}", dir="auto", lang="", translate="no")


def matrix(value: Aligned, source: tuple[Piece, ...], written: tuple[Piece, ...], scale: Scale) -> Markup:
    """The weights as a table, so that it can be read without colors; the last row is the mean over what was written."""

    def row(name: Markup, who: str, weights: tuple[float, ...]) -> Markup:
        titles = [f"{who} \u2192 {piece.shown}: {number(w)}" for piece, w in zip(source, weights, strict=True)]
        cells = [cell(w, scale, title) for w, title in zip(weights, titles, strict=True)]
        return element("tr", element("th", name, scope="row"), *cells)

    columns = [element("th", element("span", label(piece)), scope="col") for piece in source]
    rows = [row(label(piece), piece.shown, weights) for piece, weights in zip(written, value.weights, strict=True)]
    means = tuple(
        fsum(column) / len(rows) if all(map(isfinite, column)) else nan for column in zip(*value.weights, strict=True)
    )
    return element(
        "table",
        element("thead", element("tr", element("td", class_="corner"), *columns)),
        element("tbody", *rows),
        element("tfoot", row(escape("mean"), "mean of the rows", means)) if len(rows) > 1 else None,
        class_="matrix" if len(source) <= ROOMY else "matrix dense",
        lang="",
        translate="no",
    )


def label(piece: Piece) -> Markup:
    """A token beside or above the map; a piece that goes on with a word begins with a dot."""
    return element("bdi", piece.shown if piece.starts else f"\u00b7{piece.shown}")


def cell(value: float, scale: Scale, title: str) -> Markup:
    return element("td", weight(value), class_=scale.kind(value), style=scale.style(value), title=title)


def weighed(value: Weighed) -> Markup:
    """The text, colored by weight, the answer, and the strongest tokens in words."""
    tokens = pieces(value.tokens)
    scale = Scale.of((value.weights,))
    parts: list[str] = []
    for index, (piece, w) in enumerate(zip(tokens, value.weights, strict=True)):
        parts.append(" " if piece.starts and index else "")
        kind = " ".join(filter(None, ("token", "" if piece.starts else "joined", scale.kind(w))))
        title = f"{piece.shown}: {number(w)}"
        parts.append(element("span", piece.shown, class_=kind, style=scale.style(w), title=title))
    finite = [(w, piece) for piece, w in zip(tokens, value.weights, strict=True) if isfinite(w)]
    order = sorted(finite, key=lambda pair: -abs(pair[0]))
    strongest = ", ".join(f"{piece.shown} {number(w)}" for w, piece in order[:STRONGEST])
    return element(
        "figure",
        head(value.note, None),
        element("p", join(parts), class_="weighed", dir="auto", lang="", translate="no"),
        element("p", *verdict(value.answer, value.wanted, value.score), class_="verdict"),
        element("p", scale.key(len(tokens)), element("span", "strongest: ", element("bdi", strongest)), class_="keys"),
        *(element("p", text, class_="caution") for text in cautions((value.weights,), shown(tokens))),
        class_="card",
    )
