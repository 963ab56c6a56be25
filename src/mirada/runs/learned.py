"""The records that a run learned from, read again: plain baselines learn from the same."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirada.data.record import Record
from mirada.errors import require
from mirada.runs.sources import Splits, fingerprint

if TYPE_CHECKING:
    from mirada.runs.run import Run

TrainingRecords = Callable[[], Sequence[Record]]  # read when somebody asks for them: most of a measuring needs none


class NoTrainingDataError(ValueError):
    """What a run learned from cannot be had any more; the message says why."""


def learned_from(run: "Run") -> Sequence[Record]:
    """The records that a run learned from, exactly those."""
    try:
        run.source.require_here()
        splits = run.task.read(run.source, run.options)
        if not is_same(run, splits) and run.options.bad == "skip":
            splits = run.usable(splits, run.options)
        place = "its data" if run.source.in_memory else run.source.data or "the builtin data"
        require(is_same(run, splits), f"{place} has changed since this run was trained")
    except (ValueError, OSError) as error:
        raise NoTrainingDataError(str(error).splitlines()[0]) from None
    return splits.train


def is_same(run: "Run", splits: Splits) -> bool:
    """Whether records are those that a run was trained and validated with."""
    return fingerprint(splits, run.task.identity) == run.settings.fingerprint
