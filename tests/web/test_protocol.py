"""A client that takes nothing of its response is let go; heads, trailers and chunk extensions are bounded."""

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from mirada.web.options import Limits
from mirada.web.protocol import BoundedProtocol, bounded


class Transport(asyncio.Transport):
    """A connection whose client reads as much as the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.untaken, self.closing, self.aborted, self.written = 0, False, False, b""

    def get_write_buffer_size(self) -> int:
        return self.untaken

    def pause_reading(self) -> None:
        """Nothing."""

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True

    def write(self, data: Any) -> None:
        self.untaken += len(data)
        self.written += data


def connected() -> tuple[BoundedProtocol, Transport]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Nothing."""

    config = uvicorn.Config(app, http=bounded(Limits(sending=0.05)), log_config=None, ws="none")
    config.load()
    protocol = config.http_protocol_class(config=config, server_state=ServerState(), app_state={})  # type: ignore[call-arg]
    assert isinstance(protocol, BoundedProtocol)
    transport = Transport()
    protocol.connection_made(transport)
    protocol.cycle = type(
        "Cycle", (), {"response_complete": False, "response_started": True, "message_event": asyncio.Event()}
    )()  # a response is sent
    return protocol, transport


@pytest.mark.parametrize("how", ["paused", "closing"])
def test_a_response_that_is_not_read_is_cancelled(how: str) -> None:
    async def main() -> None:
        protocol, transport = connected()
        transport.untaken = 100_000
        if how == "paused":
            protocol.flow.write_paused = True
        transport.closing = how == "closing"
        for _ in range(4):  # some of it is taken every time
            await asyncio.sleep(0.04)
            transport.untaken -= 1
            assert not transport.aborted
        await asyncio.sleep(0.2)
        assert transport.aborted
        protocol.connection_lost(ConnectionResetError())
        assert protocol.timer is None

    asyncio.run(main())


def test_a_response_that_waits_for_the_model_is_not_given_up() -> None:
    async def main() -> None:
        protocol, transport = connected()
        await asyncio.sleep(0.2)
        assert not transport.aborted
        assert not transport.closing
        protocol.connection_lost(None)

    asyncio.run(main())


POST = b"POST /api/run HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
READ = 256 << 10  # bytes that asyncio reads at once


def fed(stream: Iterator[bytes], most: int) -> tuple[BoundedProtocol, Transport, int]:
    """A connection that was given a stream until it closed, or had `most` bytes; and how many it took."""

    async def main() -> tuple[BoundedProtocol, Transport, int]:
        protocol, transport = connected()
        protocol.cycle, taken = None, 0  # type: ignore[assignment]
        for data in stream:
            if transport.closing or taken >= most:
                break
            protocol.data_received(data)
            taken += len(data)
        closing = transport.closing
        await asyncio.sleep(0)  # the app returns without a response
        protocol.connection_lost(None)
        transport.closing = closing
        return protocol, transport, taken

    return asyncio.run(main())


def test_trailers_without_end_close_the_connection_and_are_not_kept() -> None:
    line = b"x-trailer: " + b"a" * 50 + b"\r\n"
    tracemalloc.start()
    protocol, transport, taken = fed(chain([POST + b"2\r\n{}\r\n0\r\n"], repeat(line * (READ // len(line)))), 40 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert transport.closing
    assert taken <= 2 * READ
    assert peak < 4 << 20
    assert [name for name, _ in protocol.headers] == [b"host", b"transfer-encoding"]
    assert b"trailers and chunk extensions have at most 65,536 bytes" in transport.written


def test_a_short_trailer_is_dropped() -> None:
    protocol, transport, _ = fed(iter([POST, b"2\r\n{}\r\n0\r\n", b"content-type: text/html\r\n\r\n"]), 1 << 20)
    assert not transport.closing
    assert [name for name, _ in protocol.headers] == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(lambda: chain([b"0\r\nx: "], repeat(b"b" * READ)), id="one line without end"),
        pytest.param(lambda: repeat(b"1;" + b"a" * 1000 + b"\r\nx\r\n"), id="extensions"),
        pytest.param(lambda: repeat(b"0" * 1000 + b"1\r\nx\r\n"), id="zeros before a size"),
    ],
)
def test_what_stands_around_chunks_is_bounded(stream: Callable[[], Iterator[bytes]]) -> None:
    _, transport, taken = fed(chain([POST + b"2\r\n{}\r\n"], stream()), 4 << 20)
    assert transport.closing
    assert taken <= 2 * READ + 70_000


@pytest.mark.parametrize("size", [1, 3, 4096])
def test_a_body_in_many_small_chunks_is_read(size: int) -> None:
    chunk = f"{size:x}\r\n".encode() + b"x" * size + b"\r\n"
    _, transport, taken = fed(chain([POST], repeat(chunk * 50, 2_000)), 8 << 20)
    assert not transport.closing
    assert taken > 500_000


def test_a_head_of_70_kb_in_one_read_is_refused() -> None:
    lines = b"".join(b"x-%d: %s\r\n" % (number, b"a" * 1000) for number in range(70))
    _, transport, _ = fed(iter([b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n"]), 1 << 20)
    assert transport.closing
    assert b"the head of a request has at most 65,536 bytes" in transport.written


def test_a_long_body_and_the_next_head_in_one_read_are_no_long_head() -> None:
    body = b"x" * 200_000
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    _, transport, _ = fed(iter([post, body + b"GET / HTTP/1.1\r\n", b"Host: x\r\n"]), 1 << 20)
    assert not transport.closing
