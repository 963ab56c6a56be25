"""Requests answered together: one queue, one model thread, batches of inputs for the same run with the same options.

While a batch is computed, the next one fills up: under load batches are full, and a single request does not wait.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from mirada.web.metrics import ServerMetrics
from mirada.web.options import Limits, Refused
from mirada.web.together import Together

SLICE = 0.02  # seconds that a text is generated for before other work runs
GATHER = 0.004  # seconds that a batch waits at most for the clients of the last one
PAUSE = 0.001  # seconds without a new request, after which a batch starts
WAIT = 0.5  # seconds after which the thread checks the queue without being notified


class Work(ABC):
    """Something to compute in the model thread, for a request that waits on the event loop."""

    kind = ""  # the label of its time in the metrics
    size = 1  # inputs
    bytes = 0  # of memory that it holds while it waits
    key: Hashable = None  # works with equal keys may be batched; None: computed alone
    joins = False  # whether `steps` asks for searches, which are made together with those of other works
    inference = True  # False: it may need gradients

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Any] = self.loop.create_future()
        self.cancelled = False

    @abstractmethod
    def compute(self, together: "Sequence[Work]") -> list[Any]:
        """The results of a batch of works with one key; this one is the first. A result may be an exception."""

    def steps(self) -> Generator[Any, Any, Any]:
        """The same for one work that joins, up to each search that it asks for."""
        yield from ()
        return self.compute([self])[0]

    def resolve(self, result: Any) -> None:
        """Set the result of the future. Called on the event loop."""
        if not self.done.done() and not self.cancelled:
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
    """The end of a text; `answer` is the complete answer, if the task returns one."""

    answer: Any = None


class TextStream(Work):
    """A text in pieces, passed on as they are generated. `pieces` ends with a `StreamEnd` or an exception."""

    kind = "stream"

    def __init__(self, text: Generator[str, None, Any]) -> None:
        super().__init__()
        self.text = text
        self.pieces: asyncio.Queue[str | BaseException | StreamEnd] = asyncio.Queue()

    def compute(self, together: Sequence[Work]) -> list[Any]:
        """Generate for a moment: the end of the text, or None if it continues. A cancelled one is closed here, in the
        thread whose context it entered.
        """
        if self.cancelled:
            self.text.close()
            return [StreamEnd()]
        end = time.monotonic() + SLICE
        while time.monotonic() < end:
            try:
                piece = next(self.text)
            except StopIteration as ended:
                return [StreamEnd(ended.value)]
            self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)
        return [None]

    def resolve(self, result: Any) -> None:
        super().resolve(None)  # errors are passed on in `pieces`
        self.pieces.put_nowait(result)


class Batcher:
    """The queue and the model thread."""

    def __init__(self, limits: Limits, metrics: ServerMetrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.waiting: deque[Work] = deque()
        self.inputs = self.bytes = self.running = 0
        self.last = self.wanted = 1  # inputs in the last batch; inputs in the queue at which the thread is woken
        self.closed = False
        self.together = Together(limits.together)
        self.change = threading.Condition()
        self.thread = threading.Thread(target=self._work, name="mirada-model", daemon=True)
        self.thread.start()

    # on the event loop

    def put(self, *works: Work) -> None:
        """Put works into the queue; a full queue refuses all of them."""
        size, held = sum(work.size for work in works), sum(work.bytes for work in works)
        with self.change:
            if self.closed:
                raise Refused(503, "the server is being stopped: ask again when it is back", Retry_After="5")
            if self.waiting and (self.inputs + size > self.limits.queue or self.bytes + held > self.limits.memory):
                raise Refused(503, "too many requests wait for an answer: ask again in a moment", Retry_After="1")
            self.waiting.extend(works)
            self.inputs += size
            self.bytes += held
            if (
                self.inputs >= self.wanted
            ):  # waking the thread for each of many small works costs more than computing them
                self.change.notify()

    def drop(self, *works: Work, why: str) -> None:
        """Cancel works. Those that have not started leave the queue at once, a text at its next slice."""
        with self.change:
            for work in works:
                work.cancelled = True
                if work in self.waiting and not isinstance(work, TextStream):
                    self.waiting.remove(work)
                    self._subtract([work])
        self.metrics.dropped.add(reason=why)

    def close(self, seconds: float) -> None:
        """Compute what is in the queue, then stop the thread."""
        with self.change:
            self.closed = True
            self.change.notify()
        self.thread.join(seconds)

    # in the thread

    def _work(self) -> None:
        while (together := self._next()) is not None:
            begin = time.monotonic()
            if together and together[0].joins:
                for work in together:
                    self.together.begin(work)
                self.metrics.batches.observe(len(self.together))
            elif together:
                results = self._results(together)
                self.metrics.model.add(time.monotonic() - begin, kind=together[0].kind)
                self._resolve(together, results)
            self._write(time.monotonic() - begin)

    def _write(self, seconds: float) -> None:
        """Steps of the texts that are written together: one, or as many as fit into the time that other work has just taken."""
        begin = time.monotonic()
        while len(self.together):
            if ended := self.together.step():
                self._resolve(*zip(*ended, strict=True))
            self.running = self.together.inputs
            if time.monotonic() - begin > seconds or (self.waiting and self.waiting[0].joins and self.together.room):
                break
        self.metrics.model.add(time.monotonic() - begin, kind="run")

    def _next(self) -> list[Work] | None:
        """The oldest work, and those that can be batched with it or join; none of them where texts are written meanwhile, None
        once the batcher is closed.
        """
        with self.change:
            self.running = self.together.inputs
            while not self.waiting and not len(self.together):
                if self.closed:
                    return None
                self.change.wait(WAIT)
            if not self.waiting:
                return []
            if not self.waiting[0].joins:
                self._gather()
            elif not self.together.room:  # others may begin; these wait until a text has ended
                return self._next_other()
            first = self.waiting.popleft()
            together, size = [first], first.size
            if first.joins:
                while self.waiting and self.waiting[0].joins and len(together) < self.together.room:
                    together.append(self.waiting.popleft())
                size = sum(work.size for work in together)
            elif first.key is not None:
                for work in [work for work in self.waiting if work.key == first.key]:
                    if size + work.size > self.limits.together:
                        break
                    together.append(work)
                    size += work.size
                chosen = set(map(id, together))
                self.waiting = deque(work for work in self.waiting if id(work) not in chosen)
            self._subtract(together)
            self.last, self.running = size, self.running + size
        return together

    def _next_other(self) -> list[Work]:
        """The oldest work that is not written together with others, if there is one. Called with the lock held."""
        for work in self.waiting:
            if not work.joins:
                self.waiting.remove(work)
                self._subtract([work])
                return [work]
        return []

    def _gather(self) -> None:
        """Wait a moment for the clients of the last batch, which are about to ask again. Called with the lock held."""
        end, before, self.wanted = time.monotonic() + GATHER, -1, min(self.last, self.limits.together)
        while self.inputs < self.wanted and self.inputs != before and not self.closed and time.monotonic() < end:
            before = self.inputs
            self.change.wait(PAUSE)
        self.wanted = 1

    def _subtract(self, works: Sequence[Work]) -> None:
        """Subtract works that left the queue from its counts."""
        self.inputs -= sum(work.size for work in works)
        self.bytes -= sum(work.bytes for work in works)

    def _results(self, together: Sequence[Work]) -> list[Any]:
        """The result of every work. If a batch fails, each work is tried alone: one must not fail the others."""
        # also around a text that is generated in slices: the mode is left after each slice
        with torch.inference_mode(together[0].inference):
            try:
                return together[0].compute(together)
            except BaseException as error:
                if len(together) == 1:
                    return [error]
        return [self._results([work])[0] for work in together]

    def _resolve(self, together: Sequence[Work], results: Sequence[Any]) -> None:
        """Set the results of a batch, all in one callback on the event loop."""
        ended = []
        for work, result in zip(together, results, strict=True):
            if isinstance(work, TextStream) and result is None:
                with self.change:
                    self.waiting.append(work)
                    self.inputs += work.size
            else:
                ended.append((work, result))
        if ended:
            with suppress(RuntimeError):  # the event loop is closed: no request waits
                ended[0][0].loop.call_soon_threadsafe(_hand_over, ended)


def _hand_over(ended: Sequence[tuple[Work, Any]]) -> None:
    for work, result in ended:
        work.resolve(result)
