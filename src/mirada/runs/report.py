"""The report of a run: its numbers, curves, examples and worst errors, on one page."""

from collections.abc import Sequence
from typing import Any

from mirada.config import Config
from mirada.drawing.charts import Chart, Curve
from mirada.drawing.page import Fact, Report, Section, html
from mirada.files import write_whole
from mirada.runs.run import Measured, Run
from mirada.runs.seeds import read_seeds, seed_section
from mirada.runs.sources import Splits
from mirada.training.log import interval_of, is_number, read_metrics, summary


def write_report(run: Run, splits: Splits, measured: Measured, example: str) -> None:
    """Write report.html into the run's folder; `example` is a command that asks the run something."""
    events, records = read_metrics(run.folder / "metrics.jsonl"), measured.records
    log = summary(events)
    waits = [event["waiting"] for event in events if is_number(event.get("waiting"))]
    intervals = [(name, interval_of(name, value, len(records))) for name, value in measured.metrics.items()]
    facts: list[Fact] = [
        *measured.metrics.items(),
        *((f"{name.replace('_', ' ')}, {interval[:13]}", interval[14:]) for name, interval in intervals if interval),
        ("measured on", f"{run.task.amount(records)} for {'test' if splits.test else 'validation'}"),
        ("model", f"{type(run.model).__name__}, {sum(p.numel() for p in run.model.parameters()):,} parameters"),
        ("learned from", run.task.amount(splits.train)),
        ("steps", log.steps),
        ("minutes of training", round(log.minutes, 1)),
        *([("% of it waiting for data", round(100 * sum(waits) / len(waits), 1))] if waits else []),
    ]
    about = "The loss of training counts label smoothing and dropout; that of validation does not."
    sections = [
        *seed_section(run.folder),
        *run.task.sections(run, records, measured.answers),
        Section("Training", about, _charts(events)),
    ]
    commands = (example, f"mirada eval {run.folder}")
    title = f"{run.task.name}: {run.folder.name}"
    verdict = "" if "verdict" in measured.details else measured.verdict  # a task shows its own in a section
    sentences = (run.task.in_a_sentence(measured.metrics, measured.details), log.ended, verdict)
    about_run = ". ".join(sentence.rstrip(".") for sentence in sentences if sentence)
    page = html(Report(title, tuple(facts), tuple(sections), commands, about_run, details(run)))
    write_whole(run.folder / "report.html", page.encode())


def _charts(events: Sequence[dict[str, Any]]) -> tuple[Chart, ...]:
    """The metrics log as curves."""
    numbered = [event for event in events if is_number(event.get("step"))]  # a line may have been damaged
    steps = [event for event in numbered if "lr" in event]
    valid = [event for event in numbered if isinstance(event.get("valid"), dict) and "averaged" not in event]

    def curve(name: str, key: str) -> Curve:
        return Curve(name, tuple((event["step"], event.get(key)) for event in steps if fits(event.get(key, ""))))

    def fits(value: Any) -> bool:
        return value is None or is_number(value)

    losses = (
        curve("training", "loss"),
        Curve(
            "validation",
            tuple((e["step"], e["valid"]["loss"]) for e in valid if fits(e["valid"].get("loss", ""))),
            "lowest",
        ),
    )
    return (
        Chart("Loss", losses),
        Chart("Learning rate", (curve("learning rate", "lr"),)),
        Chart("Speed", (curve("tokens per second", "tokens_per_second"),)),
    )


def details(run: Run) -> tuple[Fact, ...]:
    """What decided the run, in small print."""
    settings = run.settings
    seed = read_seeds(run.folder).get("chosen", settings.recipe.seed)  # of several, the one that the page is about
    read = _changed(run.task.options_for_new_data(settings.data, run.known))
    return (
        ("data", run.source.described), *([("data settings", read)] if read else []),
        ("fingerprint", settings.fingerprint), ("seed", str(seed)),
        ("threads", str(settings.recipe.threads)), ("code", settings.native), ("version", settings.version),
        ("model", _changed(settings.config)), ("recipe", _changed(settings.recipe)),
    )  # fmt: skip


def _changed(config: Config) -> str:
    """The fields of a configuration that are not as they would be by default."""
    usual = type(config)().to_dict()
    return " ".join(f"{name}={value}" for name, value in config.to_dict().items() if value != usual[name])
