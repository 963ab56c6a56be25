"""The report of answers: passages with the answer that was found and the ones that were wanted, marked where they stand."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeAlias

from mirada.drawing.attention.weights import ColorScale, cautions, head, line, strongest, verdict
from mirada.drawing.page import Item, Markup, Section, element, scroll
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.answer.metrics import answer_metrics, exact_match
from mirada.tasks.answer.reading import CharacterSpan, QuestionRecord, readings
from mirada.words import number

Heat: TypeAlias = tuple[tuple[int, int, float], ...]  # start, end and weight of parts of a text
SHOWN = 6  # examples and errors in the report
KINDS = 12  # beginnings of questions in the report


def sections(run: Run, records: Sequence[QuestionRecord], answers: Sequence[Answer]) -> list[Section]:
    """What a report shows of a run that answers: passages with their answers, wrong ones, and kinds of questions."""
    pairs = list(zip(answers, records, strict=True))
    wrong = [pair for pair in pairs if not exact_match(pair[0].text, pair[1].value.answers)]
    wrong.sort(key=lambda pair: -pair[0].score)
    about = (
        "The darker a word, the more the first and last words of the answer looked at it in the last attention layer, "
        "over all heads; where there is none, the place that says so."
    )
    return [
        Section("Examples", about, tuple(_marked(run, record) for _, record in sample_evenly(pairs, SHOWN))),
        Section(
            "Worst errors",
            "Wrong answers, the surest first, with where they looked.",
            tuple(_marked(run, record) for _, record in wrong[:SHOWN]),
        ),
        Section("Kinds of questions", "By their first words.", (_by_first_words(pairs),)),
    ]


def _marked(run: Run, record: QuestionRecord) -> "MarkedPassage":
    """A passage with the answer that was found, the ones that were wanted, and where the answer's ends looked at last."""
    value, answer = record.value, run(record.value)
    (item,) = readings([value], run.known.tokenizer)
    seen, read = answer.look(), answer.value.read
    weights = seen[seen.names[-1]].weights()[0].mean(0)
    offset = len(weights) - len(read)
    ends = [
        offset + token for token, place in enumerate(read) if answer.value.span and set(place) & set(answer.value.span)
    ]
    row = weights[[ends[0], ends[-1]] if ends else [offset - 1]].mean(0).tolist()
    return MarkedPassage(
        value.passage, value.question, answer.value.span, tuple(dict.fromkeys(value.spans)), heat_of(read, row[-len(read) :]),
        score=answer.score, right=exact_match(answer.text, value.answers), asked=heat_of(item.question.places, row[1:]),
    )  # fmt: skip


def heat_of(places: Iterable[CharacterSpan], weights: Iterable[float]) -> Heat:
    """Parts of a text with their weights; of several at one character, the first.

    >>> heat_of([(0, 3), (4, 5), (4, 5)], [0.5, 0.25, 0.1])
    ((0, 3, 0.5), (4, 5, 0.25))
    """
    found: list[tuple[int, int, float]] = []
    for (start, end), weight in zip(places, weights, strict=False):
        if not found or found[-1][1] <= start:
            found.append((start, end, weight))
    return tuple(found)


def _by_first_words(pairs: Sequence[tuple[Answer, QuestionRecord]]) -> DataTable:
    """Exact match and F1 of questions that begin alike, the most frequent first."""
    kinds: dict[str, list[tuple[Answer, QuestionRecord]]] = defaultdict(list)
    for answer, record in pairs:
        kinds[" ".join(record.value.question.lower().split()[:2]).strip("¿¡\"'?.")].append((answer, record))
    rows = []
    for kind, some in sorted(kinds.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:KINDS]:
        metrics = answer_metrics([answer.text for answer, _ in some], [record.value.answers for _, record in some])
        rows.append((kind, len(some), metrics["exact"], metrics["f1"]))
    return DataTable("", ("first words", "questions", "exact", "F1"), tuple(rows))


@dataclass(frozen=True)
class MarkedPassage(Item):
    """A text, the question asked about it, and spans of characters: the answer, and the answers that were wanted.

    No answer is None. `heat` has weights of parts of the text, such as (start, end, weight) of every token, `asked` those of
    the question. `right` says whether the answer counts as right; None leaves it to the texts.

    >>> MarkedPassage("Ana went home.", "Who went?", answer=(0, 3)).answered
    'Ana'
    """

    text: str
    question: str
    answer: CharacterSpan | None = None
    wanted: tuple[CharacterSpan, ...] = ()
    heat: Heat = ()
    note: str = ""
    score: float | None = None
    right: bool | None = None
    asked: Heat = ()

    def __post_init__(self) -> None:
        spans = [*([self.answer] if self.answer else []), *self.wanted, *(part[:2] for part in self.heat)]
        _checked_spans(self.text, spans)
        _checked_spans(self.question, [part[:2] for part in self.asked])
        ordered = all(before[1] <= after[0] for heat in (self.heat, self.asked) for before, after in pairwise(heat))
        require(ordered, "parts with weights must follow each other without overlap: sort them by their start")

    @property
    def empty(self) -> bool:
        return not self.text

    @property
    def shows_attention(self) -> bool:
        return bool(self.heat)

    @property
    def answered(self) -> str:
        """The text of the answer; nothing where there is none."""
        return self.text[slice(*self.answer)] if self.answer else ""

    def draw(self) -> Markup:
        """The question, the marked text, the verdict, and what the marks mean."""
        return element(
            "figure",
            head(self.note, None),
            element("dl", line("question", element("span", *self.asking(), dir="auto", lang="")), class_="lines"),
            scroll(element("p", *self.runs(), class_="passage", dir="auto", lang="", translate="no"), "Passage"),
            element("p", *self.judged(), class_="verdict"),
            *self.keys(),
            class_="card passage-card",
        )

    def judged(self) -> list[Markup | None]:
        """Any of the wanted answers is right."""
        wanted = [self.text[start:end] for start, end in self.wanted]
        same = self.answered in wanted
        return verdict(self.answered, self.answered if same else next(iter(wanted), ""), self.score, self.right)

    @property
    def scale(self) -> ColorScale:
        """The colors of both texts: weights of one row."""
        return ColorScale.of((tuple(value for heat in (self.heat, self.asked) for _, _, value in heat),))

    def asking(self) -> list[Markup]:
        """The question, with the colors of its weights."""
        runs, at = [], 0
        for start, end, value in self.asked:
            runs += [element("span", self.question[at:start])] if at < start else []
            kinds = " ".join(["token", *filter(None, [self.scale.kind(value)])])
            title, style = f"weight {number(value)}", self.scale.style(value)
            runs.append(element("span", self.question[start:end], class_=kinds, style=style, title=title))
            at = end
        return [*runs, element("span", self.question[at:])] if at < len(self.question) else runs

    def runs(self) -> list[Markup]:
        """The text, cut wherever a mark or a weight begins or ends: marks may cross tokens."""
        scale = self.scale
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
        weights = tuple(value for heat in (self.asked, self.heat) for _, _, value in heat)
        asked = (self.question[start:end] for start, end, _ in self.asked)
        names = (*asked, *(self.text[start:end] for start, end, _ in self.heat))
        strong = strongest(names, weights)
        return [
            element("p", *signs, self.scale.key(len(weights)), strong, class_="keys"),
            *(element("p", text, class_="caution") for text in self.warnings(weights)),
        ]

    def warnings(self, weights: tuple[float, ...]) -> list[str]:
        """Weights of a passage are part of a whole with more in it: only what is no number is told."""
        return [] if all(map(isfinite, weights)) else cautions((weights,), ())


def _checked_spans(text: str, spans: Iterable[CharacterSpan]) -> None:
    """Require spans of a text."""
    for start, end in spans:
        require(
            0 <= start <= end <= len(text),
            f"a span must lie in the text: got {start} to {end} in {len(text)} characters",
        )
