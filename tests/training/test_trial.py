"""How many threads a run takes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mirada.training.plan import faster_threads
from tests.training.toy import Clock, toy_training


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("alone", "together", "wanted"), [(1.0, 0.6, 2), (1.0, 1.2, 2), (1.0, 1.4, 1), (1.0, 4.0, 1)])
def test_one_thread_must_be_clearly_faster(alone: float, together: float, wanted: int) -> None:
    clock = Clock()

    def step() -> None:
        clock.now += alone if torch.get_num_threads() == 1 else together

    assert faster_threads(step, 2, clock) == wanted
    assert torch.get_num_threads() == wanted


def test_a_number_that_was_requested_is_taken_and_reported_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirada.training.plan.faster_threads", lambda *given: 1 / 0)
    training = toy_training(tmp_path, steps=3, threads=2)
    settled: list[tuple[int, int]] = []
    shown: list[str] = []
    training.print_progress = shown.append
    training.settled = lambda threads: settled.append((threads, torch.get_num_threads()))
    training.run()
    assert settled == [(2, 2)]
    assert shown[0] == "computing with 2 threads"


def test_the_variable_of_openmp_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirada.training.plan.faster_threads", lambda *given: 1 / 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    settled: list[int] = []
    training = toy_training(tmp_path, steps=3)
    training.settled = settled.append
    training.run()
    assert settled == [1]


def test_otherwise_the_faster_way_is_taken_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("mirada.training.plan.faster_threads", lambda *given: 1)
    torch.set_num_threads(2)
    training, shown, settled = toy_training(tmp_path, steps=3), [], []
    training.print_progress, training.settled = shown.append, settled.append
    training.run()
    assert settled == [1]
    assert shown[0].startswith("computing with 1 thread: on this busy machine that is faster than 2")


def test_that_all_threads_are_taken_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("mirada.training.plan.faster_threads", lambda *given: 2)
    torch.set_num_threads(2)
    training, shown = toy_training(tmp_path, steps=3), []
    training.print_progress = shown.append
    training.run()
    assert shown[0] == "computing with 2 threads"
