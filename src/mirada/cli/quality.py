"""`mirada eval`: how good a run is, over all records or by the length of the input."""

import json
from collections.abc import Sequence

import typer

from mirada.data.records import Record
from mirada.drawing.plot import plot
from mirada.errors import require, unknown
from mirada.tasks.answer import Ask
from mirada.tasks.run import Run, load

EDGES = (5, 10, 15, 20, 30, 40)  # words; the last group is open
LEAST = 10  # records that a group needs to say something


def measure(folder: str, data: str, by: str, as_json: bool, beam: int, device: str) -> None:
    """Print the metrics of a run."""
    if by not in ("", "length"):
        raise unknown("way to group", by, ["length"])
    run = load(folder, device)
    run.ask = Ask(beam=beam)
    run.asked({})  # a search that the task does not have is told before anything is read
    splits = run.splits(data)
    if splits.problems:
        typer.echo(f"mirada: {len(splits.problems):,} bad records are left out", err=True)
    if not by:
        metrics = run.measure(splits)
        typer.echo(
            json.dumps(metrics) if as_json else "\n".join(f"{name:<20} {value:.2f}" for name, value in metrics.items())
        )
        return
    rows = by_length(run, splits.test or splits.valid)
    require(len(rows) > 0, f"no group of lengths has {LEAST} records: there is nothing to compare")
    metric = next(iter(rows[0][2]))
    for name, count, metrics in rows:
        if as_json:
            typer.echo(json.dumps({"words": name, "records": count, **metrics}))
        else:
            typer.echo(
                f"{name:>8} words  {count:6,} records  {metric} {metrics[metric]:6.2f}  {'█' * round(metrics[metric] / 4)}"
            )
    path = run.folder / "by-length.png"
    lines = {run.folder.resolve().name: [(name, metrics[metric]) for name, _, metrics in rows]}
    plot(lines, path, x="words of the input", y=metric.upper())
    typer.echo(f"the plot is {path}", err=True)


def by_length(run: Run, records: Sequence[Record]) -> list[tuple[str, int, dict[str, float]]]:
    """Metrics of groups of records, by the number of words of their input."""
    groups: dict[int, list[Record]] = {}
    for record in records:
        words = len(record.fields[0].split())
        groups.setdefault(next((n for n, edge in enumerate(EDGES) if words <= edge), len(EDGES)), []).append(record)
    rows = []
    for number, group in sorted(groups.items()):
        low = EDGES[number - 1] + 1 if number else 1
        name = f"{low}-{EDGES[number]}" if number < len(EDGES) else f"{low}+"
        if len(group) >= LEAST:
            rows.append((name, len(group), run.task.measure(run, group)[0]))
    return rows
