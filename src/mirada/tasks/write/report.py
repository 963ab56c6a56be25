"""The report of a writer: continuations of the same beginning."""

from collections.abc import Sequence

from mirada.data.record import Record
from mirada.drawing.page import Section, TextSample
from mirada.runs.run import Run
from mirada.tasks.write.task import beginning


def sections(run: Run, records: Sequence[Record[str]]) -> list[Section]:
    """Continuations at three temperatures."""
    prompt = beginning(records[0].value)
    drawn = [(f"temperature {t:g}", run(prompt, temperature=t).text) for t in (0.5, 0.8, 1.0)]
    samples = tuple(TextSample(title, text[len(prompt) :], prompt) for title, text in drawn)
    return [Section("Samples", "Continuations of the same beginning at rising temperatures.", samples)]
