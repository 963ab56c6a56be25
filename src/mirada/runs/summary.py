"""What a run's metrics log says about it in a line: its quality, its time, and why it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MEASURED = ("test", "valid_metrics")  # the events that a measured run ends with


@dataclass(frozen=True)
class Summary:
    """The metrics a run ended with, how long it was trained, how many steps, and why it ended."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    minutes: float = 0.0
    steps: int = 0
    ended: str = ""


def summary(events: Sequence[Mapping[str, Any]]) -> Summary:
    """A metrics log in short.

    >>> summary([{"step": 9, "seconds": 90.0}, {"step": 9, "ended": "made 9 steps"}, {"test": {"bleu": 31.0}}])
    Summary(metrics={'bleu': 31.0}, minutes=1.5, steps=9, ended='made 9 steps')
    """
    metrics: Mapping[str, float] = {}
    minutes, steps, ended = 0.0, 0, ""
    for event in events:
        metrics = next((event[name] for name in MEASURED if isinstance(event.get(name), Mapping)), metrics)
        minutes = event["seconds"] / 60 if is_number(event.get("seconds")) else minutes
        steps = max(steps, event["step"]) if is_number(event.get("step")) else steps
        ended = event["ended"] if isinstance(event.get("ended"), str) else ended
    return Summary({name: value for name, value in metrics.items() if is_number(value)}, minutes, steps, ended)


def is_number(value: Any) -> bool:
    """Whether a value of a log that may have been damaged can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_a_line(metrics: Mapping[str, float]) -> str:
    """Metrics in one line.

    >>> in_a_line({"bleu": 97.123, "chrf": 98.0, "mse": 0.37512})
    'bleu 97.12, chrf 98.00, mse 0.3751'
    """
    return ", ".join(f"{name} {digits(value)}" for name, value in metrics.items())


def digits(value: float) -> str:
    """A metric with as many digits as are compared: two after the point, four where it is below one."""
    return f"{value:.4f}" if 0 < abs(value) < 1 else f"{value:.2f}"
