"""What happened, line by line: `metrics.jsonl`, one JSON object a line, only ever appended to or cut back."""

import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO


class MetricsLog:
    """A file of events. `size` at a checkpoint is where a resumed run cuts it, so that no step is told twice."""

    def __init__(self, path: Path, size: int | None = None) -> None:
        self.path = path
        self.file: BinaryIO
        try:
            if size is None:
                self.file = open(path, "wb")  # noqa: SIM115 (open for as long as the run)
            else:
                self.file = open(path, "r+b")  # noqa: SIM115
                self.file.truncate(size)
                self.file.seek(0, os.SEEK_END)
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror or error}") from None

    def write(self, **event: Any) -> None:
        """Append an event. JSON has no NaN: a number that is not finite becomes null."""
        self.file.write((json.dumps({k: plain(v) for k, v in event.items()}, ensure_ascii=False) + "\n").encode())
        self.file.flush()

    def settle(self) -> int:
        """The size of all that is safely on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def close(self) -> None:
        self.file.close()


def plain(value: Any) -> Any:
    """A value that JSON can hold.

    >>> plain(float("nan")), plain(0.5)
    (None, 0.5)
    """
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The events of a run; a last line that was cut by a crash is left out."""
    events = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
