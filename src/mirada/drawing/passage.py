"""A passage with the answer that was found in it, and the one that was wanted, marked where they stand."""

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeAlias

from mirada.drawing.comparison import head, line, verdict
from mirada.drawing.heat import strongest
from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, scroll
from mirada.drawing.numerals import number
from mirada.drawing.weights import ColorScale, cautions
from mirada.errors import require

CharacterSpan: TypeAlias = tuple[int, int]  # start and end, as in text[start:end]


@dataclass(frozen=True)
class MarkedPassage(Item):
    """A text, the question asked about it, and spans of characters: the answer, and the answers that were wanted.

    No answer is None. `heat` has weights of parts of the text, such as (start, end, weight) of every token.

    >>> MarkedPassage("Ana went home.", "Who went?", answer=(0, 3)).answered
    'Ana'
    """

    text: str
    question: str
    answer: CharacterSpan | None = None
    wanted: tuple[CharacterSpan, ...] = ()
    heat: tuple[tuple[int, int, float], ...] = ()
    note: str = ""
    score: float | None = None

    def __post_init__(self) -> None:
        spans = [*([self.answer] if self.answer else []), *self.wanted, *(part[:2] for part in self.heat)]
        for start, end in spans:
            require(
                0 <= start <= end <= len(self.text),
                f"a span must lie in the text: got {start} to {end} in {len(self.text)} characters",
            )
        ordered = all(before[1] <= after[0] for before, after in pairwise(self.heat))
        require(ordered, "parts with weights must follow each other without overlap: sort them by their start")

    @property
    def empty(self) -> bool:
        return not self.text

    @property
    def shows_attention(self) -> bool:
        return bool(self.heat)

    @property
    def answered(self) -> str:
        return self.text[slice(*self.answer)] if self.answer else ""

    def draw(self) -> Markup:
        """The question, the marked text, the verdict, and what the marks mean."""
        return element(
            "figure",
            head(self.note, None),
            element("dl", line("question", element("span", self.question, dir="auto", lang="")), class_="lines"),
            scroll(element("p", *self.runs(), class_="passage", dir="auto", lang="", translate="no"), "Passage"),
            element("p", *self.judged(), class_="verdict"),
            *self.keys(),
            class_="card passage-card",
        )

    def judged(self) -> list[Markup | None]:
        """Any of the wanted answers is right."""
        wanted = [self.text[start:end] for start, end in self.wanted]
        right = self.answered in wanted
        return verdict(self.answered, self.answered if right else next(iter(wanted), ""), self.score)

    def runs(self) -> list[Markup]:
        """The text, cut wherever a mark or a weight begins or ends: marks may cross tokens."""
        scale = ColorScale.of((tuple(value for _, _, value in self.heat),))
        spans = [*([self.answer] if self.answer else []), *self.wanted, *(part[:2] for part in self.heat)]
        cuts = sorted({0, len(self.text), *(place for span in spans for place in span)})
        runs = []
        parts = iter(self.heat)
        part = next(parts, None)
        for start, end in pairwise(cuts):
            while part is not None and part[1] <= start:
                part = next(parts, None)
            value = part[2] if part is not None and part[0] <= start else None
            answered = self.answer is not None and self.answer[0] <= start and end <= self.answer[1]
            wanted = any(low <= start and end <= high for low, high in self.wanted)
            runs.append(self.run(start, end, value, answered, wanted, scale))
        return runs

    def run(self, start: int, end: int, value: float | None, answered: bool, wanted: bool, scale: ColorScale) -> Markup:
        """A stretch of the text with its marks; what they say is in its title as well."""
        facts = [*(["answer"] if answered else []), *(["wanted"] if wanted else [])]
        kinds = [*(["found"] if answered else []), *(["sought"] if wanted else [])]
        if answered and self.answer:
            kinds += [*(["opens"] if start == self.answer[0] else []), *(["closes"] if end == self.answer[1] else [])]
        if value is not None:
            facts.append(f"weight {number(value)}")
            kinds += ["token", *filter(None, [scale.kind(value)])]
        text = self.text[start:end]
        if not facts:
            return element("span", text)
        style = scale.style(value) if value is not None else None
        return element("span", text, class_=" ".join(kinds), style=style, title=", ".join(facts))

    def keys(self) -> list[Markup]:
        """What the marks mean, the colors among them."""
        signs = [element("span", element("span", "answer", class_="found opens closes"))] if self.answer else []
        signs += [element("span", element("span", "wanted", class_="sought"))] if self.wanted else []
        if not self.heat:
            return [element("p", *signs, class_="keys")] if signs else []
        weights = tuple(value for _, _, value in self.heat)
        names = tuple(self.text[start:end] for start, end, _ in self.heat)
        strong = strongest(names, weights)
        return [
            element("p", *signs, ColorScale.of((weights,)).key(len(weights)), strong, class_="keys"),
            *(element("p", text, class_="caution") for text in self.warnings(weights)),
        ]

    def warnings(self, weights: tuple[float, ...]) -> list[str]:
        """Weights of a passage are part of a whole that includes the question: only what is no number is told."""
        return [] if all(map(isfinite, weights)) else cautions((weights,), ())
