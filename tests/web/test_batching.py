"""Equal requests are computed together, none is lost, and a client that disconnects frees its place."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from mirada.web.batching import Batcher, FunctionCall, TextStream, Work
from mirada.web.metrics import ServerMetrics
from mirada.web.options import Limits, Refused


class Doubling(Work):
    """Doubles numbers, and notes how many at once; a negative one spoils the batch."""

    kind = "double"

    def __init__(self, numbers: Sequence[int], batches: list[int], gate: threading.Event | None = None) -> None:
        super().__init__()
        self.numbers, self.batches, self.gate, self.key, self.size = numbers, batches, gate, "double", len(numbers)

    def compute(self, together: Sequence[Any]) -> list[Any]:
        if self.gate is not None:
            self.gate.wait(10)
        every = [number for work in together for number in work.numbers]
        self.batches.append(len(every))
        if any(number < 0 for number in every):
            raise RuntimeError("a negative number")
        return [[2 * number for number in work.numbers] for work in together]


def batcher(**limits: Any) -> Batcher:
    return Batcher(Limits(**limits), ServerMetrics())


def test_what_waits_is_computed_together_in_order() -> None:
    async def main() -> None:
        one, batches, gate = batcher(together=32), list[int](), threading.Event()
        first = Doubling([0], batches, gate)
        one.put(first)
        await asyncio.sleep(0.05)  # it is being computed: the others gather
        others = [Doubling([n, n + 1], batches) for n in range(40)]
        for work in others:
            one.put(work)
        gate.set()
        assert await first.done == [0]
        assert [await work.done for work in others] == [[2 * n, 2 * n + 2] for n in range(40)]
        assert batches[0] == 1
        assert max(batches) == 32
        assert sum(batches) == 81
        one.close(5)
        assert (one.inputs, one.bytes) == (0, 0)

    asyncio.run(main())


def test_one_that_fails_hurts_no_other() -> None:
    async def main() -> None:
        one, batches, gate = batcher(), list[int](), threading.Event()
        one.put(FunctionCall("wait", lambda: gate.wait(10)))
        works = [Doubling([n], batches) for n in (1, -1, 3)]
        one.put(*works)
        gate.set()
        found = await asyncio.gather(*(work.done for work in works), return_exceptions=True)
        assert (found[0], found[2]) == ([2], [6])
        assert isinstance(found[1], RuntimeError)
        one.close(5)

    asyncio.run(main())


def test_a_full_queue_refuses_and_who_leaves_frees_a_place() -> None:
    async def main() -> None:
        one, batches, gate = batcher(queue=2), list[int](), threading.Event()
        one.put(FunctionCall("wait", lambda: gate.wait(10)))
        await asyncio.sleep(0.05)
        waiting = [Doubling([n], batches) for n in range(2)]
        one.put(*waiting)
        with pytest.raises(Refused) as refused:
            one.put(Doubling([2], batches))
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "1")
        one.drop(waiting[0], why="left")
        one.put(Doubling([3], batches))
        gate.set()
        assert await waiting[1].done == [2]
        one.close(5)
        assert sum(batches) == 2  # the one that left was never computed
        with pytest.raises(Refused):
            one.put(Doubling([4], batches))

    asyncio.run(main())


def test_memory_that_waits_is_bounded() -> None:
    async def main() -> None:
        one, gate = batcher(memory=100), threading.Event()
        one.put(FunctionCall("wait", lambda: gate.wait(10)))
        await asyncio.sleep(0.05)
        one.put(FunctionCall("small", lambda: None, held=80))
        with pytest.raises(Refused):
            one.put(FunctionCall("large", lambda: None, held=30))
        gate.set()
        one.close(5)

    asyncio.run(main())


def test_a_long_text_lets_others_in_between_and_stops_when_nobody_reads() -> None:
    async def main() -> None:
        one, written, ended = batcher(), list[int](), list[threading.Thread]()

        def write() -> Any:
            try:
                with torch.inference_mode():
                    for n in range(10**9):
                        written.append(n)
                        threading.Event().wait(0.001)
                        yield str(n)
            finally:
                ended.append(threading.current_thread())

        stream, batches = TextStream(write()), list[int]()
        one.put(stream)
        assert await stream.pieces.get() == "0"
        work = Doubling([4], batches)
        one.put(work)
        assert await asyncio.wait_for(work.done, 5) == [8]
        # gradients are possible in between, whatever the text switched off
        assert await asyncio.wait_for(called(one, torch.is_inference_mode_enabled), 5) is False
        one.drop(stream, why="left")
        count = len(written)
        await asyncio.sleep(0.2)
        assert len(written) <= count + 50
        one.close(5)
        assert not one.thread.is_alive()
        assert ended == [one.thread]  # where it had switched gradients off, not where it is forgotten
        assert not torch.is_inference_mode_enabled()

    async def called(one: Batcher, function: Any) -> Any:
        work = FunctionCall("call", function)
        one.put(work)
        return await work.done

    asyncio.run(main())


def test_what_waits_is_finished_before_the_end() -> None:
    async def main() -> None:
        one, batches = batcher(together=1), list[int]()
        works = [Doubling([n], batches) for n in range(20)]
        one.put(*works)
        one.close(10)
        assert [await work.done for work in works] == [[2 * n] for n in range(20)]

    asyncio.run(main())
