"""Requests answered together: one queue, one thread that computes, batches of inputs that want the same of the same run.

While a batch is computed, others gather: under load the batches are full, and alone nobody waits.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from mirada.web.metrics import ServerMetrics
from mirada.web.options import Limits, Refused

SLICE = 0.02  # seconds that a text is written on for before others have their turn
GATHER = 0.004  # seconds that a batch waits at most for those who were in the last one
PAUSE = 0.001  # seconds without a new request, after which nobody more is waited for
WAIT = 0.5  # seconds after which the thread looks around although nobody called it


class Work(ABC):
    """Something to compute in the thread, for a request that waits on the event loop."""

    kind = ""  # what the time is counted as
    size = 1  # inputs
    bytes = 0  # of memory that it holds while it waits
    key: Hashable = None  # works of one key may be computed together; None: alone
    inference = True  # False: some of it may want gradients

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self.given_up = False

    @abstractmethod
    def compute(self, together: "Sequence[Work]") -> list[Any]:
        """The results of some works of one key, this one the first. A result may be an exception."""

    def settle(self, result: Any) -> None:
        """Give the result to who waits. On the event loop."""
        if not self.done.done() and not self.given_up:
            if isinstance(result, BaseException):
                self.done.set_exception(result)
            else:
                self.done.set_result(result)


class FunctionCall(Work):
    """One call of a function."""

    inference = False

    def __init__(self, kind: str, function: Callable[[], Any], held: int = 0) -> None:
        super().__init__()
        self.kind, self.function, self.bytes = kind, function, held

    def compute(self, together: Sequence[Work]) -> list[Any]:
        return [self.function()]


@dataclass(frozen=True)
class StreamEnd:
    """The end of a text; `answer` is all of it, where the task gives it."""

    answer: Any = None


class TextStream(Work):
    """Pieces of a text, handed on as they are written. `pieces` ends with a `StreamEnd`, or with what went wrong."""

    kind = "stream"

    def __init__(self, write: Callable[[], Iterator[str]]) -> None:
        super().__init__()
        self.write = write
        self.writing: Iterator[str] | None = None
        self.pieces: asyncio.Queue[str | BaseException | StreamEnd] = asyncio.Queue()

    def compute(self, together: Sequence[Work]) -> list[Any]:
        """Write on for a moment; its end, or None. One that nobody reads is ended here: what it switched on belongs to this
        thread.
        """
        if self.given_up:
            if isinstance(self.writing, Generator):
                self.writing.close()
            return [StreamEnd()]
        self.writing = self.write() if self.writing is None else self.writing
        end = time.monotonic() + SLICE
        while time.monotonic() < end:
            try:
                piece = next(self.writing)
            except StopIteration as ended:
                return [StreamEnd(ended.value)]
            self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)
        return [None]

    def settle(self, result: Any) -> None:
        super().settle(None)  # errors go where the pieces go
        self.pieces.put_nowait(result)


class Batcher:
    """The queue and the thread."""

    def __init__(self, limits: Limits, metrics: ServerMetrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.waiting: deque[Work] = deque()
        self.inputs = self.bytes = self.running = 0
        self.last = self.wanted = 1  # inputs of the last batch, and those that the thread is to be woken for
        self.closed = False
        self.change = threading.Condition()
        self.thread = threading.Thread(target=self._work, name="mirada-model", daemon=True)
        self.thread.start()

    # on the event loop

    def put(self, *works: Work) -> None:
        """Let works wait for their turn; a full queue refuses all of them."""
        size, held = sum(work.size for work in works), sum(work.bytes for work in works)
        with self.change:
            if self.closed:
                raise Refused(503, "the server is being stopped: ask again when it is back", Retry_After="5")
            if self.waiting and (self.inputs + size > self.limits.queue or self.bytes + held > self.limits.memory):
                raise Refused(503, "too many requests wait for an answer: ask again in a moment", Retry_After="1")
            self.waiting.extend(works)
            self.inputs += size
            self.bytes += held
            if self.inputs >= self.wanted:  # to wake the thread for every one of many costs more than they do
                self.change.notify()

    def drop(self, *works: Work, why: str) -> None:
        """Give up works that nobody waits for any more; those that have not begun leave the queue at once, a text at its next
        turn.
        """
        with self.change:
            for work in works:
                work.given_up = True
                if work in self.waiting and not isinstance(work, TextStream):
                    self.waiting.remove(work)
                    self._uncount([work])
        self.metrics.dropped.add(reason=why)

    def close(self, seconds: float) -> None:
        """Compute what waits, then end."""
        with self.change:
            self.closed = True
            self.change.notify()
        self.thread.join(seconds)

    # in the thread

    def _work(self) -> None:
        while together := self._next():
            begin = time.monotonic()
            results = self._results(together)
            self.metrics.model.add(time.monotonic() - begin, kind=together[0].kind)
            self._settle(together, results)

    def _next(self) -> list[Work]:
        """The work that waits longest, and those that can be computed with it; none: the end."""
        with self.change:
            self.running = 0
            while not self.waiting:
                if self.closed:
                    return []
                self.change.wait(WAIT)
            self._gather()
            first = self.waiting.popleft()
            together, size = [first], first.size
            if first.key is not None:
                for work in [work for work in self.waiting if work.key == first.key]:
                    if size + work.size > self.limits.together:
                        break
                    together.append(work)
                    size += work.size
                chosen = set(map(id, together))
                self.waiting = deque(work for work in self.waiting if id(work) not in chosen)
            self._uncount(together)
            self.last = self.running = size
        return together

    def _gather(self) -> None:
        """Wait a moment for those who were in the last batch and are about to ask again. The lock is held before and after."""
        end, before, self.wanted = time.monotonic() + GATHER, -1, min(self.last, self.limits.together)
        while self.inputs < self.wanted and self.inputs != before and not self.closed and time.monotonic() < end:
            before = self.inputs
            self.change.wait(PAUSE)
        self.wanted = 1

    def _uncount(self, works: Sequence[Work]) -> None:
        """Take works that left the queue off its counts."""
        self.inputs -= sum(work.size for work in works)
        self.bytes -= sum(work.bytes for work in works)

    def _results(self, together: Sequence[Work]) -> list[Any]:
        """What came out of every work. Where a batch fails as a whole, each is tried alone: one must not hurt the others."""
        # also around a text that is written in slices: what it switches on inside is off again after each of them
        with torch.inference_mode(together[0].inference):
            try:
                return together[0].compute(together)
            except BaseException as error:
                if len(together) == 1:
                    return [error]
        return [self._results([work])[0] for work in together]

    def _settle(self, together: Sequence[Work], results: Sequence[Any]) -> None:
        """Hand the results over, all of a batch in one turn of the event loop."""
        ended = []
        for work, result in zip(together, results, strict=True):
            if isinstance(work, TextStream) and result is None:
                with self.change:
                    self.waiting.append(work)
                    self.inputs += work.size
            else:
                ended.append((work, result))
        if ended:
            with suppress(RuntimeError):  # the event loop has ended: nobody waits
                ended[0][0].loop.call_soon_threadsafe(_hand_over, ended)


def _hand_over(ended: Sequence[tuple[Work, Any]]) -> None:
    for work, result in ended:
        work.settle(result)
