"""Candidates with their scores: the words that may fill a gap, best first."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, join
from mirada.drawing.numerals import number, plain

GAP = re.compile(r"_{3,}|\[MASK\]|<mask>")


@dataclass(frozen=True)
class Ranked(Item):
    """A text with a gap (three or more underscores, or "[MASK]") and the words that may fill it, best first."""

    text: str
    candidates: tuple[tuple[str, float], ...]
    wanted: str = ""
    note: str = ""

    @property
    def empty(self) -> bool:
        return not self.candidates

    def draw(self) -> Markup:
        """The text with its gap and a bar per candidate."""
        signs = {self.wanted: element("span", " \u2713 wanted", class_="right")} if self.wanted else {}
        missed = None
        if self.wanted and self.wanted not in [word for word, _ in self.candidates]:
            name = element("b", self.wanted, dir="auto")
            missed = element("p", "wanted ", name, ", not among these", class_="missed wrong")
        return element(
            "figure",
            element("figcaption", element("span", self.note, dir="auto")) if self.note else None,
            element("p", gapped(self.text), class_="gapped", dir="auto", lang="", translate="no"),
            bars(self.candidates, signs),
            missed,
            class_="card",
        )


def gapped(text: str) -> Markup:
    """The text with its gaps drawn as gaps."""
    parts: list[str] = []
    end = 0
    for gap in GAP.finditer(text):
        parts += [text[end : gap.start()], element("span", gap.group(), class_="gap", role="img", aria_label="gap")]
        end = gap.end()
    return join([*parts, text[end:]])


def bars(entries: Sequence[tuple[str, float]], signs: Mapping[str, Markup]) -> Markup:
    """A bar for each name, with its score written out; `signs` are put after a name.

    Probabilities are drawn as shares of one, other scores against the largest.
    """
    scores = [score for _, score in entries if isfinite(score)]
    top = 1.0 if all(0 <= score <= 1 for score in scores) else max(scores) if max(scores) > 0 else 1.0
    rows = []
    for name, score in entries:
        share = min(max(score, 0.0) / top, 1.0) if isfinite(score) else 0.0
        bar = element("i", style=f"width:{plain(100 * share)}%")
        rows.append(
            element(
                "li",
                element("span", name, signs.get(name), dir="auto"),
                element("span", bar, class_="bar", aria_hidden="true"),
                element("b", number(score)),
            )
        )
    return element("ol", *rows, class_="ranked", lang="", translate="no")
