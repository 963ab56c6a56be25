"""What a run's metrics log says about it in a line: its quality, its time, and why it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MEASURED = ("test", "valid_metrics")  # the events that a measured run ends with
SMALLER = ("loss", "perplexity", "bits_per_character", "mse", "mae", "wer", "cer")  # is better
PLAIN = {
    "majority": "the most frequent answer", "linear": "a linear model", "features": "a linear model without the edges",
    "window": "a sliding window", "nearest": "the most alike example", "ngram": "an n-gram model",
    "neighbors": "the words beside the gap", "repeat": "repeating the last value",
}  # fmt: skip


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
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**63)


def in_a_line(metrics: Mapping[str, float]) -> str:
    """Metrics in one line.

    >>> in_a_line({"bleu": 97.123, "chrf": 98.0, "mse": 0.37512})
    'bleu 97.12, chrf 98.00, mse 0.3751'
    """
    return ", ".join(f"{name} {digits(value)}" for name, value in metrics.items())


def behind(metrics: Mapping[str, float]) -> str:
    """What must be said where a plain baseline is as good as the model, by the first metric that has one; else nothing.

    >>> behind({"accuracy": 70.0, "macro_f1": 61.0, "accuracy_linear": 75.0, "accuracy_majority": 60.0})
    'A plain baseline is better: accuracy is 75.00 for a linear model and 70.00 for this one.'
    >>> behind({"bleu": 31.0, "bleu_nearest": 12.0})
    ''
    """
    for name, ours in metrics.items():
        plain = [(metrics[f"{name}_{key}"], told) for key, told in PLAIN.items() if f"{name}_{key}" in metrics]
        if plain:
            best, told = (min if name in SMALLER else max)(plain)
            if ours < best if name in SMALLER else ours > best:
                return ""
            how = "as good" if ours == best else "better"
            return f"A plain baseline is {how}: {name} is {digits(best)} for {told} and {digits(ours)} for this one."
    return ""


def digits(value: float) -> str:
    """A metric with as many digits as are compared: two after the point, four where it is below one."""
    return f"{value:.4f}" if 0 < abs(value) < 1 else f"{value:.2f}"
