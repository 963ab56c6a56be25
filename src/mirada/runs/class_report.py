"""Sections of a report about classes: the confusion matrix and a table of every class. Tasks import it only to draw."""

from collections.abc import Mapping, Sequence
from typing import Any

from mirada.drawing.page import Section
from mirada.drawing.tables import MOST, Confusion, DataTable
from mirada.runs.answers import Answer
from mirada.runs.classes import class_details, confusions, most_confused
from mirada.training.mixtures import NETWORK, reader_details

MANY = 10  # more classes are sorted, those with the most wrong answers first
LISTED = 10  # confusions


def class_sections(given: Sequence[str], wanted: Sequence[str], labels: Sequence[str]) -> list[Section]:
    """How often each class was predicted for each, and precision, recall and F1 of each."""
    details = class_details(given, wanted, labels)
    many = len(labels) > MANY
    order = most_confused(details) if many else list(range(len(labels)))
    rows = tuple(
        (label, scores["records"], scores["precision"], scores["recall"], scores["f1"])
        for label, scores in ((labels[place], details["per_class"][labels[place]]) for place in order)
    )
    table = DataTable("Every class", ("class", "records", "precision", "recall", "F1"), rows)
    shown = order[:MOST]
    matrix = Confusion(
        tuple(labels[place] for place in shown),
        tuple(tuple(details["confusion"][row][column] for column in shown) for row in shown),
    )
    about = "A row is what a record is, a column what it was taken for; the diagonal is right."
    if not many:
        return [Section("Classes", about, (matrix, table))]
    about += " Classes with the most wrong answers come first"
    about += f"; the matrix has {len(shown)} of {len(labels)}." if len(shown) < len(labels) else "."
    pairs = tuple((f"{row} taken for {column}", count) for count, row, column in confusions(details)[:LISTED])
    return [Section("Classes", about, (DataTable("Most frequent confusions", ("", "times"), pairs), matrix, table))]


def reader_sections(
    answers: Sequence[Answer], wanted: Sequence[str], readers: Any, names: Mapping[str, str]
) -> list[Section]:
    """What attention and every plain reader have right alone, and how much each counts in the answer; nothing, where answers
    name no readers. `readers` has their scales; `names` are those of the plain ones.
    """
    alone = [answer.more["readers"] for answer in answers if "readers" in answer.more]
    if len(alone) < len(answers) or not alone:
        return []
    scales = readers.scales or {NETWORK: 1.0}
    found = reader_details(alone, [answer.text for answer in answers], wanted, list(scales), names)
    rows = tuple((names.get(name, name), value, scales.get(name, 0.0)) for name, value in found["alone"].items())
    table = DataTable("Readers", ("reader", "accuracy alone", "times its scores"), rows)
    return [Section("Who answers", found["verdict"], (table,))]
