"""The report of a classifier: its classes, its two components, and texts with the attention of the network."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from mirada.data.record import TableRow
from mirada.drawing.attention.weights import Weighed
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.runs.answers import Answer
from mirada.runs.class_report import class_sections
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.classify.ensemble import TextClasses, component_accuracies, readers_verdict
from mirada.tasks.classify.linear import LinearTexts
from mirada.tasks.classify.targets import MANY, ONE, label_scores
from mirada.tasks.classify.task import last_weights

SHOWN = 6  # examples and errors
STRONGEST = 8  # words per label
MAX_SAMPLED_TEXTS = 1000  # texts in which these are counted


def sections(run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> list[Section]:
    """The classes, the accuracy of each component, examples and the worst errors."""
    pairs = list(zip(answers, records, strict=True))
    wrong = sorted((p for p in pairs if p[0].text != p[1].value[1]), key=lambda pair: -pair[0].score)
    about = "The darker a word, the more attention it gets in the last layer, averaged over all positions and heads."
    given, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
    return [
        *(
            class_sections(given, wanted, run.known.labels)
            if run.known.target is ONE
            else [_label_section(given, wanted)]
        ),
        *_component_section(run.known, records, answers),
        Section("Examples", about, tuple(_weighed(run, *pair) for pair in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", "Most confident first.", tuple(_weighed(run, *p) for p in wrong[:SHOWN])),
    ]


def _weighed(run: Run, answer: Answer, record: TableRow) -> Weighed:
    """An answer with the weight of each token in the last layer."""
    shares = last_weights(answer.look(), run.model.config, len(answer.read))[0].tolist()
    return Weighed(answer.read, tuple(shares), answer.text, record.value[1], score=answer.score)


def _label_section(given: Sequence[str], wanted: Sequence[str]) -> Section:
    """Precision, recall and F1 of labels of which a text has several, the worst first."""
    scores = label_scores(
        [(set(MANY.labels_in(a)), set(MANY.labels_in(b))) for a, b in zip(given, wanted, strict=True)]
    )
    ordered = sorted(scores.items(), key=lambda item: item[1]["f1"])
    rows = tuple((label, each["records"], each["precision"], each["recall"], each["f1"]) for label, each in ordered)
    table = DataTable("Every label", ("label", "records", "precision", "recall", "F1"), rows)
    return Section("Labels", "Every label is decided by itself.", (table,))


def _component_section(known: TextClasses, records: Sequence[TableRow], answers: Sequence[Answer]) -> list[Section]:
    """The accuracy of the network and of the linear model, alone and together, and the strongest words of each label."""
    if known.linear is None or not known.scales:
        return []
    names = {"attention": "the network with attention", "words": "words and parts of words, linear"}
    given, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
    alone = component_accuracies([answer.value for answer in answers], wanted, known.target)
    both = alone.pop("both", next(iter(known.target.metrics(given, wanted).values())))
    shares = zip(alone.items(), known.scales, strict=True)
    rows = (*((names[name], value, scale) for (name, value), scale in shares), ("both", both, None))
    strongest = _strongest_words(known.linear, [record.value[0] for record in records[:MAX_SAMPLED_TEXTS]])
    words = tuple((label, ", ".join(some)) for label, some in zip(known.labels, strongest, strict=True))
    about = (
        "An answer combines two components: the network, whose attention is shown below, and a linear model, in which each "
        "word, word pair and part of a word contributes independently. Their scores are added, with scales fitted to the "
        f"validation set. {readers_verdict(alone, known.readers, both).capitalize()}."
    )
    accuracies = DataTable("Alone and together", ("component", "accuracy", "scale"), rows)
    table = DataTable("Strongest words of the linear model", ("label", "words"), words)
    return [Section("Components", about, (accuracies, table))]


def _strongest_words(linear: LinearTexts, texts: Sequence[str]) -> list[list[str]]:
    """For each class, the words that raise its score most relative to the other classes, averaged over their occurrences."""
    sums: dict[str, Tensor] = {}
    counts: Counter[str] = Counter()
    for text in texts:
        for word, added in linear.contributions(text):
            sums[word] = sums.get(word, 0) + added - added.mean()
            counts[word] += 1
    words = sorted(word for word, count in counts.items() if count > 1) or sorted(sums)
    if not words:
        return [[] for _ in linear.bias]
    means = torch.stack([sums[word] / counts[word] for word in words])
    order = means.argsort(dim=0, descending=True, stable=True)[:STRONGEST]
    return [[words[row] for row in column] for column in order.T.tolist()]
