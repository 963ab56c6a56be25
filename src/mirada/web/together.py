"""Requests whose texts are written together: each joins between two steps of the others and leaves when its answer is done."""

import os
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch

from mirada.decoding.continuous import ContinuousSearch, Joined, SearchJob
from mirada.decoding.greedy import SingleHypothesis
from mirada.engine.shared import SharedRows

SWITCH = "MIRADA_SERVE_TOGETHER"  # 0: requests are answered in batches, to measure the difference


@dataclass(eq=False)
class Waiting:
    """A request and its work, up to a search that is not made yet."""

    work: Any
    steps: Generator[SearchJob, Any, Any]
    job: SearchJob | None = None


def joins(stepper: object, search: object) -> bool:
    """Whether the texts of a search can be written together with others."""
    known = isinstance(search, SingleHypothesis) and SharedRows.serves(getattr(stepper, "inner", stepper))
    return known and os.environ.get(SWITCH) != "0"


class Together:
    """The requests whose texts are being written, and those that wait for room. All of it happens in the model thread.

    Args:
        most: how many texts are written at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.searches: dict[Any, tuple[Any, ContinuousSearch]] = {}  # by stepper and the heads that are watched
        self.going: dict[Joined, tuple[Waiting, ContinuousSearch]] = {}
        self.held: deque[Waiting] = deque()
        self.ended: list[tuple[Any, Any]] = []

    def __len__(self) -> int:
        """The texts that are being written, and the requests that wait or are done."""
        return sum(len(search) for _, search in self.searches.values()) + len(self.held) + len(self.ended)

    @property
    def inputs(self) -> int:
        """The inputs that are being answered."""
        waiting = [each for each, _ in self.going.values()] + list(self.held)
        return sum(each.work.size for each in waiting)

    @property
    def room(self) -> int:
        """How many more requests may begin now."""
        return max(0, self.most - len(self))

    def begin(self, work: Any) -> None:
        """Begin with a request: up to its first search."""
        self._continue(Waiting(work, work.steps()), None)

    def step(self) -> list[tuple[Any, Any]]:
        """One step of all texts; returns the requests that are done, each with its result or what is wrong."""
        self._drop_cancelled()
        with torch.inference_mode():
            for _, search in list(self.searches.values()):
                if len(search):
                    for joined in self._stepped(search):
                        waiting, _ = self.going.pop(joined)
                        self._continue(waiting, joined.error or joined.hypotheses)
            while self.held and (room := self._join(self.held[0])) is not False:
                waiting = self.held.popleft()
                if room is None:
                    assert waiting.job is not None
                    self._continue(waiting, _alone(waiting.job))
        ended, self.ended = self.ended, []
        return ended

    def _stepped(self, search: ContinuousSearch) -> list[Joined]:
        """The calls of a search that are at their end. If a step fails, all of its calls fail with it."""
        try:
            return search.step()
        except Exception as error:
            failed = [joined for joined, (_, other) in self.going.items() if other is search]
            search.leave(*failed)
            for joined in failed:
                joined.error = error
            return failed

    def _drop_cancelled(self) -> None:
        """Take out what nobody waits for."""
        for joined, (waiting, search) in list(self.going.items()):
            if waiting.work.cancelled:
                search.leave(joined)
                del self.going[joined]
                waiting.steps.close()
        self.held = deque(waiting for waiting in self.held if not waiting.work.cancelled)

    def _continue(self, waiting: Waiting, found: Any) -> None:
        """Go on with a request, given the result of its last search, until it waits for the next one or is at its end."""
        with torch.inference_mode():
            try:
                while True:
                    failed = isinstance(found, Exception)
                    waiting.job = waiting.steps.throw(found) if failed else waiting.steps.send(found)
                    joined = False if self.held else self._join(waiting)
                    if joined is False:
                        self.held.append(waiting)
                    if joined is not None:
                        return
                    found = _alone(waiting.job)
            except StopIteration as end:
                self.ended.append((waiting.work, end.value))
            except BaseException as error:
                self.ended.append((waiting.work, error))

    def _join(self, waiting: Waiting) -> bool | None:
        """Whether the search of a request has joined the others; False: there is no room; None: it has to be made alone."""
        assert waiting.job is not None
        search = self._search_of(waiting.job)
        joined = search.join(waiting.job)
        if isinstance(joined, Joined):
            self.going[joined] = (waiting, search)
            return True
        return joined  # type: ignore[return-value]

    def _search_of(self, job: SearchJob) -> ContinuousSearch:
        """The search that a job can join: of the same stepper, with the same heads."""
        stepper = job.arguments["stepper"]
        inner = getattr(stepper, "inner", stepper)
        job.arguments["stepper"] = inner
        rows = SharedRows(inner, self.most)
        key = (id(rows.packed), tuple(rows.heads), tuple(map(tuple, rows.slots)))
        if key not in self.searches:  # those of other weights and other heads end here, if nothing is written with them
            self.searches = {key: each for key, each in self.searches.items() if len(each[1])}
            self.searches[key] = (rows.packed, ContinuousSearch(rows))
        return self.searches[key][1]


def _alone(job: SearchJob) -> Any:
    """The result of a search that is made alone, or what is wrong."""
    try:
        return job.alone()
    except Exception as error:
        return error
