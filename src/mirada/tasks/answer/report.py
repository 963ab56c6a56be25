"""The report of answers: passages in which the predicted and the wanted answers are marked."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeAlias

from mirada.drawing.attention.weights import ColorScale, cautions, line, strongest, verdict
from mirada.drawing.page import Item, Markup, Section, element, scroll
from mirada.drawing.tables import DataTable
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.answer.metrics import answer_metrics, exact_match
from mirada.tasks.answer.reading import CharacterSpan, QuestionRecord, is_encoder, readings
from mirada.words import number

Heat: TypeAlias = tuple[tuple[int, int, float], ...]  # start, end and weight of parts of a text
SHOWN = 6  # examples and errors in the report
KINDS = 12  # beginnings of questions in the report


def sections(run: Run, records: Sequence[QuestionRecord], answers: Sequence[Answer]) -> list[Section]:
    """Passages with their answers, the worst errors, and quality by kind of question."""
    pairs = list(zip(answers, records, strict=True))
    wrong = [pair for pair in pairs if not exact_match(pair[0].text, pair[1].value.answers)]
    wrong.sort(key=lambda pair: -pair[0].score)
    kinds: dict[str, list[tuple[Answer, QuestionRecord]]] = defaultdict(list)
    for answer, record in pairs:
        kinds[" ".join(record.value.question.lower().split()[:2]).strip("¿¡\"'?.")].append((answer, record))
    columns, rows = ("first words", "questions", "exact", "F1"), []
    for kind, some in sorted(kinds.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:KINDS]:
        metrics = answer_metrics([answer.text for answer, _ in some], [record.value.answers for _, record in some])
        rows.append((kind, len(some), metrics["exact"], metrics["f1"]))
    about = (
        "The darker a word, the more attention the first and last words of the answer paid to it in the last layer, averaged "
        "over heads; if there is no answer, the position that predicts so."
    )
    first = "Most confident first, with their attention."
    return [
        Section("Examples", about, tuple(_marked(run, record) for _, record in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", first, tuple(_marked(run, record) for _, record in wrong[:SHOWN])),
        Section("Kinds of questions", "By their first words.", (DataTable("", columns, tuple(rows)),)),
    ]


def _marked(run: Run, record: QuestionRecord) -> "MarkedPassage":
    """A passage with the predicted and the wanted answers, and the attention of the answer's ends in the last layer."""
    value, answer = record.value, run(record.value)
    (item,) = readings([value], run.known.tokenizer, is_encoder(run.model.config))
    seen, read, window = answer.look(), answer.value.read, answer.value.window
    weights = seen[seen.names[-1]].weights()[0].mean(0)
    offset = window.offset
    span = set(answer.value.span or ())
    ends = [offset + token for token, place in enumerate(read) if span.intersection(place)]
    row = weights[[ends[0], ends[-1]] if ends else [window.none]].mean(0).tolist()
    asked, here = heat_of(item.question.places, row[len(item.frame.before) :]), row[offset : offset + window.size]
    return MarkedPassage(
        value.passage, value.question, answer.value.span, tuple(dict.fromkeys(value.spans)), heat_of(read, here),
        score=answer.score, right=exact_match(answer.text, value.answers), asked=asked,
    )  # fmt: skip


def heat_of(places: Iterable[CharacterSpan], weights: Iterable[float]) -> Heat:
    """Parts of a text with their weights; of overlapping parts, the first.

    >>> heat_of([(0, 3), (4, 5), (4, 5)], [0.5, 0.25, 0.1])
    ((0, 3, 0.5), (4, 5, 0.25))
    """
    parts: list[tuple[int, int, float]] = []
    for (start, end), weight in zip(places, weights, strict=False):
        if not parts or parts[-1][1] <= start:
            parts.append((start, end, weight))
    return tuple(parts)


@dataclass(frozen=True)
class MarkedPassage(Item):
    """A text, a question about it, and spans of characters: the predicted answer (None: no answer) and the wanted answers.

    `heat` has weights of parts of the text, such as (start, end, weight) of every token, `asked` those of the question.
    `right` is whether the answer counts as right; None: whether its text is one of the wanted ones.

    >>> MarkedPassage("Ana went home.", "Who went?", answer=(0, 3)).answered
    'Ana'
    """

    text: str
    question: str
    answer: CharacterSpan | None = None
    wanted: tuple[CharacterSpan, ...] = ()
    heat: Heat = ()
    score: float | None = None
    right: bool | None = None
    asked: Heat = ()

    def __post_init__(self) -> None:
        spans = [*([self.answer] if self.answer else []), *self.wanted, *(part[:2] for part in self.heat)]
        for text, inside in ((self.text, spans), (self.question, [part[:2] for part in self.asked])):
            for start, end in inside:
                message = f"a span must lie in the text: got {start} to {end} in {len(text)} characters"
                require(0 <= start <= end <= len(text), message)
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
        """The text of the answer; "" if there is none."""
        return self.text[slice(*self.answer)] if self.answer else ""

    def draw(self) -> Markup:
        """The question, the marked text, the verdict (any of the wanted answers is right), and the legend."""
        wanted = [self.text[start:end] for start, end in self.wanted]
        same = self.answered if self.answered in wanted else next(iter(wanted), "")
        scale = ColorScale.of((tuple(value for _, _, value in (*self.heat, *self.asked)),))  # of both texts
        question = _marked_runs(self.question, self.asked, scale)
        passage = _marked_runs(self.text, self.heat, scale, self.answer, self.wanted)
        return element(
            "figure",
            element("dl", line("question", element("span", *question, dir="auto", lang="")), class_="lines"),
            scroll(element("p", *passage, class_="passage", dir="auto", lang="", translate="no"), "Passage"),
            element("p", *verdict(self.answered, same, self.score, self.right), class_="verdict"),
            *self._keys(scale),
            class_="card passage-card",
        )

    def _keys(self, scale: ColorScale) -> list[Markup]:
        """The legend of the marks and of the colors."""
        signs = [element("span", element("span", "answer", class_="found opens closes"))] if self.answer else []
        signs += [element("span", element("span", "wanted", class_="sought"))] if self.wanted else []
        if not self.heat:
            return [element("p", *signs, class_="keys")] if signs else []
        weights = tuple(value for _, _, value in (*self.asked, *self.heat))
        asked = (self.question[start:end] for start, end, _ in self.asked)
        names = (*asked, *(self.text[start:end] for start, end, _ in self.heat))
        # other positions of the window get the rest of the weight: sums below 1 are no reason for a warning
        warnings = [] if all(map(isfinite, weights)) else cautions((weights,), ())
        keys = element("p", *signs, scale.key(len(weights)), strongest(names, weights), class_="keys")
        return [keys, *(element("p", text, class_="caution") for text in warnings)]


def _marked_runs(
    text: str, heat: Heat, scale: ColorScale, answer: CharacterSpan | None = None, wanted: Sequence[CharacterSpan] = ()
) -> list[Markup]:
    """A text, cut wherever a mark or a weight begins or ends (marks may cross tokens); titles describe the marks."""
    spans = [*([answer] if answer else []), *wanted, *(part[:2] for part in heat)]
    runs, parts = [], list(reversed(heat))
    for start, end in pairwise(sorted({0, len(text), *(place for span in spans for place in span)})):
        while parts and parts[-1][1] <= start:
            parts.pop()
        answered = answer is not None and answer[0] <= start and end <= answer[1]
        sought = any(low <= start and end <= high for low, high in wanted)
        facts = ["answer"] * answered + ["wanted"] * sought
        kinds = ["found"] * answered + ["sought"] * sought
        if answer and answered:
            kinds += ["opens"] * (start == answer[0]) + ["closes"] * (end == answer[1])
        style = None
        if parts and parts[-1][0] <= start:
            value = parts[-1][2]
            facts.append(f"weight {number(value)}")
            kinds += ["token", *filter(None, [scale.kind(value)])]
            style = scale.style(value)
        title = ", ".join(facts) or None
        runs.append(element("span", text[start:end], class_=" ".join(kinds) or None, style=style, title=title))
    return runs
