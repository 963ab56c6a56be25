"""Heat over words: a text whose tokens are colored by weight."""

from dataclasses import dataclass
from math import isfinite

from mirada.drawing.comparison import head, verdict
from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, join
from mirada.drawing.numerals import number
from mirada.drawing.weights import ColorScale, cautions
from mirada.drawing.wordpieces import pieces, shown
from mirada.errors import require

STRONGEST = 4


@dataclass(frozen=True)
class Weighed(Item):
    """A text whose tokens carry weights, and the answer given to it; `score` is the answer's probability."""

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
