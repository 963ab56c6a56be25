"""Sections of a report about classes: the confusion matrix and a table of every class. Tasks import it only to draw."""

from collections.abc import Sequence

from mirada.drawing.page import Section
from mirada.drawing.tables import Confusion, DataTable
from mirada.runs.classes import class_details


def class_sections(given: Sequence[str], wanted: Sequence[str], labels: Sequence[str]) -> list[Section]:
    """How often each class was predicted for each, and precision, recall and F1 of each."""
    details = class_details(given, wanted, labels)
    rows = tuple(
        (label, scores["records"], scores["precision"], scores["recall"], scores["f1"])
        for label, scores in details["per_class"].items()
    )
    table = DataTable("Every class", ("class", "records", "precision", "recall", "F1"), rows)
    matrix = Confusion(tuple(labels), tuple(map(tuple, details["confusion"])))
    about = "A row is what a record is, a column what it was taken for; the diagonal is right."
    return [Section("Classes", about, (matrix, table))]
