"""The report of a run that tags: every label, and texts with what was answered, wanted and looked at."""

from collections.abc import Sequence

from mirada.data.record import Record
from mirada.drawing.attention.weights import Weighed
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.looking.labels import TextLabels
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.tag.schemes import label_counts, per_label, spans_of
from mirada.tasks.tag.sentences import TaggedText
from mirada.tasks.tag.task import marked

SHOWN = 6  # examples and errors

Pair = tuple[Answer, Record[TaggedText]]


def sections(run: Run, records: Sequence[Record[TaggedText]], answers: Sequence[Answer]) -> list[Section]:
    """Precision and recall of every label, examples, and the texts with the most wrong words."""
    pairs = list(zip(answers, records, strict=True))
    wrong = [pair for pair in pairs if _errors(*pair)]
    worst = sorted(wrong, key=lambda pair: -_errors(*pair))[:SHOWN]
    about = "The darker a token, the more attention it gets in the last layer, averaged over all positions and heads."
    return [
        _label_section(run, pairs),
        Section("Examples", about, tuple(_weighed(run, *pair) for pair in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", "Most wrong words first.", tuple(_weighed(run, *pair) for pair in worst)),
    ]


def _errors(answer: Answer, record: Record[TaggedText]) -> int:
    """How many words have a wrong tag."""
    return sum(a != b for a, b in zip(answer.value, record.value.tags, strict=True))


def _weighed(run: Run, answer: Answer, record: Record[TaggedText]) -> Weighed:
    """An answer with the weight of each token in the last layer."""
    seen = answer.look()
    axis = seen.labels.axes["text"]
    assert isinstance(axis, TextLabels)
    weights = seen[seen.names[-1]].weights()[0].float().mean((0, 1)).tolist()
    return Weighed(axis.tokens, tuple(weights), answer.text, wanted_text(record.value, run.known.learned_scheme))


def wanted_text(value: TaggedText, scheme: str) -> str:
    """The text with the spans that are wanted."""
    spans = [
        {"start": value.words[first][0], "end": value.words[last][1], "label": label}
        for first, last, label in spans_of(value.tags, scheme)
    ]
    return marked(value.text, spans)


def _label_section(run: Run, pairs: Sequence[Pair]) -> Section:
    """Precision, recall and F1 of every label, the worst first."""
    given, wanted = [answer.value for answer, _ in pairs], [record.value.tags for _, record in pairs]
    found = sorted(
        per_label(label_counts(given, wanted, run.known.learned_scheme)).items(), key=lambda one: one[1]["f1"]
    )
    rows = tuple((label, each["records"], each["precision"], each["recall"], each["f1"]) for label, each in found)
    name = "words" if run.known.plain else "spans"
    about = "A span is right if its first word, its last word and its label are." if name == "spans" else ""
    return Section("Labels", about, (DataTable("Every label", ("label", name, "precision", "recall", "F1"), rows),))
