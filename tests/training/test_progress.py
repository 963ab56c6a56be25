"""The messages of a running training, with a clock of the test."""

from io import StringIO

import pytest

from mirada.training.progress import Progress


def test_many_quick_validations_are_told_now_and_then_and_the_last_always() -> None:
    now = [0.0]
    progress = Progress(100, out=StringIO(), clock=lambda: now[0])
    told = []
    for step in range(1, 101):
        now[0] += 0.15
        if progress.should_log(step):
            told.append(step)
    assert told[:3] == [1, 8, 15]
    assert told[-1] == 100
    assert len(told) < 20


def test_the_speed_forgets_and_the_pace_is_steady() -> None:
    """A stall of ten steps moves the speed that is shown, and hardly the pace that a plan is made with."""
    progress = Progress(1000, out=StringIO(), clock=lambda: 0.0)
    for _ in range(200):
        progress.count(0.1, 100)
    for _ in range(10):
        progress.count(1.0, 100)
    assert progress.speed < 450
    assert 0.1 < progress.pace < 0.15
    for _ in range(2000):
        progress.count(1.0, 100)
    assert progress.pace > 0.99


def test_a_closed_stream_of_errors_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `2>&-` leaves it."""
    monkeypatch.setattr("sys.stderr", None)
    progress = Progress(3)
    progress.show(3, 1.0)
    progress.line("done")
    progress.end()
    assert not progress.live
