"""The report of fill: gaps with their most likely words."""

from collections.abc import Sequence

from mirada.data.record import TableRow
from mirada.drawing.page import Section
from mirada.drawing.tables import Ranked
from mirada.runs.run import Run
from mirada.tasks.fill.gaps import GAP, LISTED, askable, with_gap

SHOWN = 8  # gaps


def sections(run: Run, records: Sequence[TableRow]) -> list[Section]:
    """The most likely words in place of the last word of some texts."""
    shown = []
    for record in askable(records, SHOWN):
        text = with_gap(record.value[0])
        gap = GAP.search(text)
        word = record.value[0][gap.start() :].split()[0] if gap else ""
        shown.append(Ranked(text, run(text, best=LISTED).ranked, word.strip(".,;:!?")))
    return [Section("Gaps", "The most likely words for a gap, with their probabilities.", tuple(shown))]
