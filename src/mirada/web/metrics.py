"""Metrics of the server in the text format of Prometheus: `GET /api/metrics`."""

import os
import resource
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import accumulate
from threading import Lock

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)  # seconds
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # inputs
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Counter:
    """A number that only grows, for every combination of labels.

    >>> counter = Counter("inputs_total", "Inputs.")
    >>> counter.add(2, run="a")
    >>> print(*counter.lines())
    # HELP inputs_total Inputs. # TYPE inputs_total counter inputs_total{run="a"} 2
    """

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about, self.lock = name, about, Lock()
        self.values: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to the number of a combination of labels."""
        with self.lock:
            self.values[tuple(labels.items())] += amount

    def lines(self) -> Iterator[str]:
        """The lines of the text format."""
        yield from _head(self.name, self.about, "counter")
        with self.lock:
            values = list(self.values.items())
        for key, value in values:
            yield f"{self.name}{_label_text(dict(key))} {value:.10g}"


class Histogram:
    """How many observed numbers were at most each of some bounds."""

    def __init__(self, name: str, about: str, bounds: tuple[float, ...]) -> None:
        self.name, self.about, self.bounds, self.lock = name, about, bounds, Lock()
        self.counts, self.total = [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Add a number to the histogram."""
        place = bisect_left(self.bounds, value)  # the first bound that is not below the value
        with self.lock:
            self.counts[place] += 1
            self.total += value

    def lines(self) -> Iterator[str]:
        """The lines of the text format."""
        yield from _head(self.name, self.about, "histogram")
        with self.lock:
            counts, total = list(self.counts), self.total
        for bound, so_far in zip((*map(str, self.bounds), "+Inf"), accumulate(counts), strict=True):
            yield f'{self.name}_bucket{{le="{bound}"}} {so_far}'
        yield from (f"{self.name}_sum {total:.10g}", f"{self.name}_count {sum(counts)}")


class ServerMetrics:
    """All metrics of the server."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests = Counter("mirada_requests_total", "Requests, by route, method and status.")
        self.seconds = Histogram("mirada_request_seconds", "Time from a request to the end of its response.", BOUNDS)
        self.inputs = Counter("mirada_inputs_total", "Inputs answered, streamed and looked at, by run.")
        self.failed = Counter("mirada_input_errors_total", "Inputs with an error instead of an answer, by run.")
        self.batches = Histogram("mirada_batch_inputs", "Inputs that were answered together.", SIZES)
        self.model = Counter("mirada_model_seconds_total", "Time that the model computed, by what was asked for.")
        self.dropped = Counter("mirada_dropped_total", "Requests given up before they were answered, by reason.")

    def answered(self, run: str, inputs: int, failed: int = 0) -> None:
        """Count inputs of a run, and how many of them had an error instead of an answer."""
        self.inputs.add(inputs, run=run)
        self.failed.add(failed, run=run)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All metrics as text; `gauges` are further numbers that go up and down: name to (description, value)."""
        lines: list[str] = []
        for item in vars(self).values():
            lines += item.lines() if isinstance(item, Counter | Histogram) else ()
        own = {
            "process_start_time_seconds": ("When the server was started.", self.started),
            "process_resident_memory_bytes": ("Memory in use.", float(memory_in_use())),
        }
        for name, (about, value) in {**gauges, **own}.items():
            lines += [*_head(name, about, "gauge"), f"{name} {value:.10g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _label_text(labels: Mapping[str, str]) -> str:
    r"""Labels in braces, with special characters escaped.

    >>> _label_text({"run": 'a"b'})
    '{run="a\\"b"}'
    """
    pairs = (f'{name}="{value.translate(ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}" if labels else ""


def memory_in_use() -> int:
    """Resident memory of the process in bytes; without /proc, its peak."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
