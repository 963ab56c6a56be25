"""The report of a run that estimates: errors, which columns were looked at, examples."""

from collections import defaultdict
from collections.abc import Sequence

from mirada.data.record import Record
from mirada.drawing.attention.weights import Weighed
from mirada.drawing.page import Section
from mirada.drawing.tables import DataTable
from mirada.runs.answers import Answer
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.estimate.rows import MeasuredRow
from mirada.tasks.estimate.task import mean_error, verdict
from mirada.words import number

SHOWN = 6  # examples and errors
LOOKED_AT = 100  # rows, whose attention is averaged
MOST_COLUMNS = 40

Pair = tuple[Answer, Record[MeasuredRow]]


def sections(run: Run, records: Sequence[Record[MeasuredRow]], answers: Sequence[Answer]) -> list[Section]:
    """The errors of the components, the columns that were looked at, examples and the worst errors."""
    pairs = list(zip(answers, records, strict=True))
    wrong = sorted(pairs, key=lambda pair: -abs(pair[0].value[0] - pair[1].value.target))
    about = "The darker a column or word, the more attention it gets in the last layer, averaged over all heads."
    return [
        _component_section(run, pairs),
        *_column_section(run, sample_evenly(pairs, LOOKED_AT)),
        Section("Examples", about, tuple(_weighed(run, *pair) for pair in sample_evenly(pairs, SHOWN))),
        Section("Worst errors", "The largest distance first.", tuple(_weighed(run, *pair) for pair in wrong[:SHOWN])),
    ]


def _weighed(run: Run, answer: Answer, record: Record[MeasuredRow]) -> Weighed:
    """An estimate with the weight of each column or word in the last layer."""
    return Weighed(answer.read, _shares(answer), answer.text, number(record.value.target))


def _shares(answer: Answer) -> tuple[float, ...]:
    """How much of the attention of the last layer each column or word gets."""
    seen = answer.look()
    return tuple(seen[seen.names[-1]].weights()[0].float().mean((0, 1)).tolist())


def _component_section(run: Run, pairs: Sequence[Pair]) -> Section:
    """The errors of the network and of the ridge regression, alone and together."""
    wanted = [record.value.target for _, record in pairs]
    both, network, ridge = (mean_error([answer.value[n] for answer, _ in pairs], wanted) for n in range(3))
    share = run.known.share
    rows = (
        ("the network with attention", network, share),
        ("ridge regression", ridge, 1 - share),
        ("both", both, None),
    )
    sentence = verdict(network, ridge, both, share).capitalize()
    about = f"An estimate is a mean of two, with shares fitted to the validation set. {sentence}."
    return Section("Components", about, (DataTable("Alone and together", ("component", "mean error", "share"), rows),))


def _column_section(run: Run, pairs: Sequence[Pair]) -> list[Section]:
    """The columns that the network looks at, over some rows."""
    if run.known.text:
        return []
    named = [column.name for column in run.known.columns if column.kind != "text"]
    sums: dict[str, float] = defaultdict(float)
    for answer, _ in pairs:
        shares = _shares(answer)
        for name, share in zip(named, shares, strict=False):
            sums[name] += share / len(pairs)
        if len(shares) > len(named):
            sums["texts"] += sum(shares[len(named) :]) / len(pairs)
    ordered = sorted(sums.items(), key=lambda item: -item[1])[:MOST_COLUMNS]
    rows = tuple((name, 100 * share) for name, share in ordered)
    about = f"How much of the attention of the last layer a column gets, over {len(pairs)} rows."
    return [Section("Columns", about, (DataTable("What was looked at", ("column", "% of the attention"), rows),))]
