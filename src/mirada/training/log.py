"""What happened, line by line: `metrics.jsonl`, one JSON object a line, only ever appended to or cut back."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from mirada.errors import require
from mirada.files import APPEND, BINARY, checksum_of, digest_of, parsed, require_file, write_whole
from mirada.training.metrics import wilson_interval
from mirada.words import echo, finite, json_text

LONGEST = 1 << 20  # bytes of an event


class MetricsLog:
    """A file of events. `size` at a checkpoint is where a resumed run cuts it, so that no step is in it twice.

    A log that was changed since the checkpoint is reported, and continued after its last whole line: no step depends on it.
    """

    def __init__(
        self, path: Path, size: int | None = None, checksum: str = "", print_progress: Callable[[str], None] = echo
    ) -> None:
        self.path = path
        kept = b"" if size is None else read_start(path, size)
        if len(kept) < (size or 0):
            print_progress(f"{path} is missing or shorter than it was: the curves of the report will have a gap")
        elif size is not None and checksum not in ("", checksum_of(kept)):
            print_progress(f"{path} was changed since it was written: the curves of the report may be wrong")
        kept = kept[: kept.rfind(b"\n") + 1]
        write_whole(path, kept)  # a new file: a link, or a copy that shares its disk space, is left alone
        self.file = _opened_to_append(path)
        self.digest = digest_of(kept)

    def write(self, **event: Any) -> None:
        """Append an event. JSON has no NaN: a number that is not finite becomes null."""
        with _write_errors(self.path):
            line = _as_line(event)
            self.file.write(line)
            self.file.flush()
        self.digest.update(line)

    def checksum(self) -> str:
        """Of all that was written."""
        return self.digest.hexdigest()

    def settle(self) -> int:
        """The size of all that is safely on the disk."""
        with _write_errors(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def require_tensorboard() -> None:
    """Require the package that log=tensorboard needs."""
    require(
        find_spec("tensorboard") is not None,
        "log=tensorboard needs the package tensorboard, which is not here. Install mirada[tensorboard], or leave log= out.",
    )


class TensorBoardLog:
    """The numbers of events as scalars that TensorBoard shows; a resumed run replaces those after its checkpoint.

    Args:
        folder: Where its files are written.
        step: The first step that is written.
    """

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder), purge_step=step or None)

    def write(self, **event: Any) -> None:
        """Write the numbers of an event: `loss`, `lr`, and those of a validation as `valid/loss`."""
        nested = {
            f"{name}/{key}": x for name, part in event.items() if isinstance(part, dict) for key, x in part.items()
        }
        for name, value in {**event, **nested}.items():
            if name not in ("step", "seconds") and is_number(value):
                self.writer.add_scalar(name, value, event.get("step"))

    def close(self) -> None:
        """Write what is left, and close the files."""
        self.writer.close()


def read_start(path: Path, size: int) -> bytes:
    """So many bytes from the beginning of a file; as many as it has, where it has fewer or is not there."""
    try:
        require_file(path)
        with open(path, "rb") as file:
            return file.read(min(size, os.fstat(file.fileno()).st_size))
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None


def _opened_to_append(path: Path) -> BinaryIO:
    """A file that is there and no link, to be appended to."""
    with _write_errors(path):
        return open(os.open(path, APPEND | BINARY), "ab")


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """What fails while a file is written, a full disk for example, is an error with its name."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"{path} cannot be written: {error.strerror or error}. Make room, and continue with --resume."
        ) from None


def append_event(path: Path, event: Mapping[str, Any]) -> None:
    """Append one event to a log that no run is writing."""
    if not path.exists():
        write_whole(path, b"")
    with _write_errors(path), _opened_to_append(path) as file:
        file.write(_as_line(event))


def _as_line(event: Mapping[str, Any]) -> bytes:
    return (json_text(event) + "\n").encode()


def _log_lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, but for those that are far too long to be events of ours."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        whole = True
        while line := file.readline(LONGEST):
            if whole and (len(line) < LONGEST or line.endswith(b"\n")):
                yield line
            whole = line.endswith(b"\n")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a run; a last line that was cut by a crash is left out."""
    events = []
    for line in _log_lines(path):
        try:
            event = finite(parsed(line))  # logs of earlier versions have NaN
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


# What a run's metrics log says about it in a line: its quality, its time, and why it ended.


MEASURED = ("test", "valid_metrics")  # the events that a measured run ends with
SHARES = ("accuracy", "exact")  # metrics that are shares of the records, and their baselines
ENOUGH_RECORDS = 1000  # that a share needs no interval
SMALLER = ("loss", "perplexity", "bits_per_character", "mse", "mae", "wer", "cer")  # is better
PLAIN = {
    "majority": "the most frequent answer", "linear": "a linear model", "forest": "a random forest",
    "features": "a linear model without the edges", "propagation": "labels passed along the edges",
    "sgc": "a linear model of smoothed features (SGC)",
    "window": "a sliding window", "nearest": "the most alike example", "ngram": "an n-gram model",
    "neighbors": "the words beside the gap", "repeat": "repeating the last value", "mean": "the mean",
    "ridge": "ridge regression", "frequent": "the most frequent tag of each word",
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


def in_a_line(metrics: Mapping[str, float], records: int = 0) -> str:
    """Metrics in one line; shares of few records have their interval.

    >>> in_a_line({"bleu": 97.123, "chrf": 98.0, "mse": 0.37512})
    'bleu 97.12, chrf 98.00, mse 0.3751'
    >>> in_a_line({"accuracy": 80.0, "macro_f1": 79.0}, records=100)
    'accuracy 80.00 (95 % interval 71 to 87), macro_f1 79.00'
    """
    return ", ".join(with_interval(name, value, records) for name, value in metrics.items())


def with_interval(name: str, value: float, records: int) -> str:
    """A metric by name; a share of fewer records than `ENOUGH_RECORDS` has its 95 % interval.

    >>> with_interval("accuracy", 80.0, 100), with_interval("accuracy", 80.0, 1000), with_interval("mse", 0.5, 100)
    ('accuracy 80.00 (95 % interval 71 to 87)', 'accuracy 80.00', 'mse 0.5000')
    """
    interval = interval_of(name, value, records)
    return f"{name} {digits(value)}{f' ({interval})' if interval else ''}"


def interval_of(name: str, value: float, records: int) -> str:
    """The 95 % interval of a metric that is a share of few records, in words; empty for any other.

    >>> interval_of("accuracy_linear", 80.0, 100), interval_of("macro_f1", 80.0, 100)
    ('95 % interval 71 to 87', '')
    """
    if name.partition("_")[0] not in SHARES or not 0 < records < ENOUGH_RECORDS or not math.isfinite(value):
        return ""
    low, high = wilson_interval(value, records)
    return f"95 % interval {low:.0f} to {high:.0f}"


def behind(metrics: Mapping[str, float]) -> str:
    """A sentence if a plain baseline is as good as the model, by the first metric that has one; else an empty text.

    >>> behind({"accuracy": 70.0, "macro_f1": 61.0, "accuracy_linear": 75.0, "accuracy_majority": 60.0})
    'A plain baseline is better: accuracy is 75.00 for a linear model and 70.00 for this one.'
    >>> behind({"bleu": 31.0, "bleu_nearest": 12.0})
    ''
    """
    for name, ours in metrics.items():
        plain = [(metrics[f"{name}_{key}"], words) for key, words in PLAIN.items() if f"{name}_{key}" in metrics]
        if plain:
            best, words = (min if name in SMALLER else max)(plain)
            if ours < best if name in SMALLER else ours > best:
                return ""
            how = "as good" if ours == best else "better"
            return f"A plain baseline is {how}: {name} is {digits(best)} for {words} and {digits(ours)} for this one."
    return ""


def digits(value: float) -> str:
    """A metric with as many digits as are compared: two after the point, four where it is below one."""
    return f"{value:.4f}" if 0 < abs(value) < 1 else f"{value:.2f}"
