"""Being asked to stop: Ctrl-C and SIGTERM end a run after the step it is in."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):  # noqa: N818 (nothing went wrong)
    """Somebody asked the run to stop; it is saved and can be resumed."""


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """A list that fills when Ctrl-C or SIGTERM comes; a second Ctrl-C ends the program at once."""
    asked: list[int] = []

    def note(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us there looks after signals
        before = {}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
