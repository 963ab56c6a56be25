"""Weights as colors and words: their scale, cautions, and texts colored by weight."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import fsum, inf, isfinite

from mirada.drawing.page import Item, Markup, element, join
from mirada.errors import require
from mirada.words import number, plain

Rows = tuple[tuple[float, ...], ...]
LIGHT = 0.66  # share of the full color above which black figures are harder to read than white ones


@dataclass(frozen=True)
class ColorScale:
    """From weights to shares of the full color: the largest weight of the figure has all of it.

    >>> ColorScale.of(((0.1, 0.5),)).share(0.25)
    0.5
    """

    top: float

    @classmethod
    def of(cls, rows: Rows) -> "ColorScale":
        """The scale of the weights of a figure."""
        sizes = [abs(value) for row in rows for value in row if isfinite(value)]
        return cls(max(sizes, default=0.0) or 1.0)

    def share(self, value: float) -> float:
        """The share of the full color that a weight has."""
        return min(abs(value) / self.top, 1.0) if isfinite(value) else 0.0

    def style(self, value: float) -> str:
        """The share as a CSS variable."""
        return f"--w:{plain(self.share(value))}"

    def kind(self, value: float) -> str | None:
        """The class of a weight: strong ones need light figures, negative ones have their own color."""
        kinds = {"bad": not isfinite(value), "strong": self.share(value) > LIGHT, "negative": value < 0}
        return " ".join(kind for kind, applies in kinds.items() if applies) or None

    def key(self, columns: int, ramp: str = "ramp") -> Markup:
        """The key of the colors, with a notch where every weight would lie if attention were even."""
        even = 1 / columns
        notch = element("i", style=f"left:{plain(100 * self.share(even))}%") if even <= self.top else None
        low, colors, top = element("span", "0"), element("span", notch, class_=ramp), element("span", number(self.top))
        note = element("span", f"even would be {number(even)}", class_="even")
        return element("span", low, colors, top, note, class_="key")


def total(values: Iterable[float]) -> float:
    """The exact sum, or infinity where it is larger than any float: odd weights must not keep a page from being made.

    >>> total([0.1] * 10), total([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return fsum(values)
    except OverflowError:
        return inf


def cautions(rows: Rows, columns: tuple[str, ...], kind: str = "token") -> list[str]:
    """What would mislead a reader: rows that are no distribution, a column that takes all, rows that are all alike.

    `kind` is what a column is: a token, a place.

    >>> cautions(((0.25, 0.25), (0.5, 0.0)), ("a", "b"))
    ['Rows sum to 0.5, not to 1.']
    """
    bad = sum(not isfinite(value) for row in rows for value in row)
    if bad:
        return [f"{number(bad)} {'weight is not a number' if bad == 1 else 'weights are not numbers'}."]
    texts = []
    sums = sorted(total(row) for row in rows)
    if max(abs(sums[0] - 1), abs(sums[-1] - 1)) > 0.01:
        low, high = number(sums[0]), number(sums[-1])
        who = "Rows sum" if len(rows) > 1 else "The weights sum"
        texts.append(f"{who} to {low if low == high else f'{low} up to {high}'}, not to 1.")
    if len(rows) < 3 or len(columns) < 3:
        return texts
    means = [total(row[column] for row in rows) / len(rows) for column in range(len(columns))]
    largest = max(range(len(columns)), key=means.__getitem__)
    if means[largest] > 0.5:
        texts.append(f"One {kind}, \u201c{columns[largest]}\u201d, takes {means[largest]:.0%} of all weight.")
    if all(max(column) - min(column) < 0.01 for column in zip(*rows, strict=True)):
        texts.append("Every row is the same: what is written does not change where the model looks.")
    return texts


# Tokens as people read them: which pieces begin a word, and signs for what cannot be seen.


BEFORE = ("\u2581", "\u0120", " ")  # marks in front of a word's first piece: SentencePiece, byte-level BPE, plain space
SPECIAL = re.compile(r"<[^<>]+>|\[[A-Z]+\d*\]")
SIGNS = {"\n": "\u21b5", "\t": "\u21e5", " ": "\u2423"}


@dataclass(frozen=True)
class WordPiece:
    """A token's text without its marks, and whether a space comes before it."""

    text: str
    starts: bool

    @property
    def shown(self) -> str:
        """The text with white space made visible, so that no token is invisible."""
        text = "".join(SIGNS.get(letter, letter) if letter != " " else letter for letter in self.text)
        return text if text.strip() else SIGNS[" "]


def pieces(tokens: tuple[str, ...]) -> tuple[WordPiece, ...]:
    """Find out how these tokens mark words and take the marks off. Tokens without marks are words.

    >>> [(piece.text, piece.starts) for piece in pieces(("\u2581gat", "ito", "</s>"))]
    [('gat', True), ('ito', False), ('</s>', True)]
    >>> text_of(("un", "##able", "to")), text_of(("gat@@", "ito", "."))
    ('unable to', 'gatito .')
    """
    if any(token.startswith(BEFORE) for token in tokens):
        words = [WordPiece(token.lstrip("".join(BEFORE)), token.startswith(BEFORE)) for token in tokens]
    elif any(token.startswith("##") and len(token) > 2 for token in tokens):
        words = [WordPiece(token.removeprefix("##") or token, not token.startswith("##")) for token in tokens]
    elif any(token.endswith("@@") and len(token) > 2 for token in tokens):
        words = [WordPiece(token.removesuffix("@@") or token, True) for token in tokens]
        glued = [False, *(token.endswith("@@") for token in tokens[:-1])]
        words = [WordPiece(piece.text, not glue) for piece, glue in zip(words, glued, strict=True)]
    else:
        words = [WordPiece(token, True) for token in tokens]
    return tuple(WordPiece(piece.text, piece.starts or bool(SPECIAL.fullmatch(piece.text))) for piece in words)


def text_of(tokens: tuple[str, ...]) -> str:
    """The text that the tokens write, special tokens left out."""
    kept = [piece for piece in pieces(tokens) if not SPECIAL.fullmatch(piece.text)]
    return "".join(f" {piece.text}" if piece.starts else piece.text for piece in kept).strip()


def shown(tokens: tuple[WordPiece, ...]) -> tuple[str, ...]:
    """Every token with its white space made visible."""
    return tuple(piece.shown for piece in tokens)


# Answers and what was wanted, in words: the lines around an example.


WORD = re.compile(r"\w+|[^\w\s]")


def head(note: str, score: float | None) -> Markup | None:
    """The line above an example."""
    parts = [element("span", note, dir="auto") if note else None]
    parts.append(element("span", "score ", element("b", number(score)), class_="score") if score is not None else None)
    return element("figcaption", *parts) if any(parts) else None


def line(name: str, text: str) -> Markup:
    """A named line of an example."""
    return element("div", element("dt", name), element("dd", text))


def compared(wanted: str, given: str) -> Markup:
    """The wanted text with the words marked that were not written there.

    >>> compared("la casa roja.", "la casa rojo .")
    '<span dir="auto" lang="" translate="no">la casa <mark>roja</mark>.</span>'
    """
    words = list(WORD.finditer(wanted))
    matcher = SequenceMatcher(None, [word.group() for word in words], WORD.findall(given), autojunk=False)
    parts: list[str] = []
    end = 0
    for kind, start, stop, _, _ in matcher.get_opcodes():
        for word in words[start:stop]:
            parts.append(wanted[end : word.start()])
            parts.append(word.group() if kind == "equal" else element("mark", word.group()))
            end = word.end()
    return element("span", join([*parts, wanted[end:]]), dir="auto", lang="", translate="no")


def verdict(answer: str, wanted: str, score: float | None, right: bool | None = None) -> list[Markup | None]:
    """An answer and the wanted one; right and wrong are words and signs, not colors alone.

    `right` overrides the comparison, where no answer can be wanted, or an extra article does not matter.
    """
    if right is None and wanted:
        right = answer == wanted
    judged = element("span", "\u2713 right" if right else "\u2717 wrong", class_="right" if right else "wrong")
    return [
        element("span", "answer ", element("b", answer or "none", dir="auto")),
        element("span", "score ", element("b", number(score))) if score is not None else None,
        judged if right is not None else None,
        element("span", "wanted ", element("b", wanted or "none", dir="auto")) if right is False else None,
    ]


# Heat over words: a text whose tokens are colored by weight.


STRONGEST = 4


@dataclass(frozen=True)
class Weighed(Item):
    """A text whose tokens are colored by their weights, and the answer to it.

    Args:
        tokens: The tokens, with the marks of their tokenizer.
        weights: A weight for each token.
        answer: The answer.
        wanted: The right answer, if it is known.
        note: A line above the text.
        score: The probability of the answer.

    >>> "strongest: <bdi>good 0.8" in Weighed(("a", "good", "film"), (0.1, 0.8, 0.1), "positive").draw()
    True
    """

    tokens: tuple[str, ...]
    weights: tuple[float, ...]
    answer: str
    wanted: str = ""
    note: str = ""
    score: float | None = None
    shows_attention = True

    def __post_init__(self) -> None:
        require(
            len(self.weights) == len(self.tokens),
            f"there must be a weight per token: got {len(self.weights)} weights for {len(self.tokens)} tokens",
        )

    @property
    def empty(self) -> bool:
        return not self.tokens

    def draw(self) -> Markup:
        """The text, colored by weight, the answer, and the strongest tokens in words."""
        tokens = pieces(self.tokens)
        scale = ColorScale.of((self.weights,))
        parts: list[str] = []
        for index, (piece, w) in enumerate(zip(tokens, self.weights, strict=True)):
            parts.append(" " if piece.starts and index else "")
            kind = " ".join(filter(None, ("token", "" if piece.starts else "joined", scale.kind(w))))
            title = f"{piece.shown}: {number(w)}"
            parts.append(element("span", piece.shown, class_=kind, style=scale.style(w), title=title))
        return element(
            "figure",
            head(self.note, None),
            element("p", join(parts), class_="weighed", dir="auto", lang="", translate="no"),
            element("p", *verdict(self.answer, self.wanted, self.score), class_="verdict"),
            element("p", scale.key(len(tokens)), strongest(shown(tokens), self.weights), class_="keys"),
            *(element("p", text, class_="caution") for text in cautions((self.weights,), shown(tokens))),
            class_="card",
        )


def strongest(names: tuple[str, ...], weights: tuple[float, ...]) -> Markup:
    """The few largest weights in words."""
    finite = [(name, value) for name, value in zip(names, weights, strict=True) if isfinite(value)]
    order = sorted(finite, key=lambda pair: -abs(pair[1]))[:STRONGEST]
    return element("span", "strongest: ", element("bdi", ", ".join(f"{name} {number(value)}" for name, value in order)))
