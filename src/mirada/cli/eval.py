"""`mirada eval`: metrics of a run, over all records or by the length of the input."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirada.cli.arguments import (
    Device,
    Folder,
    Json,
    Precision,
    TableKeys,
    TestFile,
    check_folder,
    data_and_keys,
    examples,
    file_overrides_of,
    with_options,
)
from mirada.errors import require, unknown
from mirada.words import echo, json_text

if TYPE_CHECKING:
    from mirada.data.record import Record
    from mirada.runs.run import Run

EDGES = (5, 10, 15, 20, 30, 40)  # words; the last group is open
LEAST = 10  # records of a group below which a warning is printed
EPILOG = examples(
    "mirada eval runs/translate",
    "mirada eval runs/translate --data test.tsv --by length --json",
    "mirada eval runs/classify --data other.csv columns=review,stars",
)


@with_options("beam", "source", "target", "prefix")
def evaluate(
    folder: Folder,
    keys: TableKeys = None,
    data: TestFile = "",
    by: Annotated[str, typer.Option(help="length: the quality for short and long inputs, also as a plot.")] = "",
    as_json: Json = False,
    *,
    ask: dict[str, Any],
    device: Device = "cpu",
    precision: Precision = "float32",
) -> None:
    """Measure a trained run, on its own test data or on a file."""
    if by not in ("", "length"):
        raise unknown("way to group", by, ["length"])
    check_folder("eval", folder, keys or ())
    data, keys = data_and_keys(("mirada", "eval", folder), keys, data)
    from mirada.runs.load import load
    from mirada.training.log import digits, interval_of

    run = load(folder, device, precision)
    run.ask = run.asked(ask)  # refused before anything is read
    require(bool(data) or not keys, "KEY=VALUE says how the file of --data is read: give one")
    run.file_overrides = file_overrides_of(run, keys)
    splits = run.splits(data)
    for note in splits.notes if data else ():
        echo(note, err=True)
    if splits.problems:
        from mirada.data.record import left_out

        echo(f"mirada: {left_out(len(splits.problems))}", err=True)
    if by:
        print_by_length(run, splits.test or splits.valid, as_json)
        return
    measured = run.measured(splits)
    if measured.note:
        echo(f"mirada: {measured.note}", err=True)
    exact = _in_float32(run, measured.records)
    if as_json:
        more = {"precision": precision, "float32": exact} if exact else {}
        echo(json_text({**measured.metrics, **measured.details, **more}))
        return
    count = len(measured.records)
    rows = [(name, digits(value), interval_of(name, value, count)) for name, value in measured.metrics.items()]
    lines = [f"{name:<20} {shown}{f'  {interval}' if interval else ''}" for name, shown, interval in rows]
    lines += [
        f"{name:<20} {digits(value)} in float32: {precision} changes it by {measured.metrics[name] - value:+.2f}"
        for name, value in exact.items()
    ]
    verdict = [measured.verdict] if measured.verdict and "verdict" not in measured.details else []
    echo("\n".join([*lines, *verdict, *run.task.detail_lines(measured.details)]))


def _in_float32(run: "Run", records: "Sequence[Record]") -> dict[str, float]:
    """The metrics of the same run in float32, where it was measured in another precision."""
    if run.precision == "float32":
        return {}
    from mirada.runs.load import load

    exact = load(run.folder, str(run.device))
    exact.ask = run.ask
    return exact.task.measure(exact, records)[0]


def print_by_length(run: "Run", records: "Sequence[Record]", as_json: bool) -> None:
    """Print the metrics by length of the input, and plot them."""
    from mirada.drawing.plots.lines import plot

    rows = by_length(run, records)
    metric = next(iter(rows[0][2]))
    for name, count, metrics in [*rows, ("all", len(records), run.task.measure(run, records)[0])]:
        if as_json:
            echo(json_text({"words": name, "records": count, **metrics}))
        else:
            value, records_word = metrics[metric], "records" if count != 1 else "record "
            bar = "█" * round(value / 4)
            echo(f"{name:>8} words  {count:6,} {records_word}  {metric} {value:6.2f}  {bar}")
    path = run.folder / "by-length.png"
    points = [(name, metrics[metric]) for name, _, metrics in rows]
    plot({run.folder.resolve().name: points}, path, x="words of the input", y=metric.upper())
    echo(f"the plot is {path}", err=True)
    small = [name for name, count, _ in rows if count < LEAST]
    if small:
        echo(f"{', '.join(small)} words: fewer than {LEAST} records, too few to compare", err=True)


def by_length(run: "Run", records: "Sequence[Record]") -> list[tuple[str, int, dict[str, float]]]:
    """Metrics of groups of records, by the number of words of their input."""
    groups: dict[int, list[Record]] = {}
    for record in records:
        words = run.task.length(record.value)
        if words is None:
            raise ValueError(f"{run.task.name} has no lengths to group by: leave out --by")
        groups.setdefault(bisect_left(EDGES, words), []).append(record)
    starts = (1, *(edge + 1 for edge in EDGES))
    names = [*(f"{low}-{high}" for low, high in zip(starts, EDGES, strict=False)), f"{starts[-1]}+"]
    return [(names[n], len(group), run.task.measure(run, group)[0]) for n, group in sorted(groups.items())]
