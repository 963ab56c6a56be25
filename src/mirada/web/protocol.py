"""HTTP/1.1 connections: parsed in C by httptools, with the limits of size and time that uvicorn does not set.

uvicorn keeps every header line, also those after a chunked body (trailers), and httptools a line that has no end.

uvicorn's own timer runs only from the end of a response to the next byte. A client that sends `GET /` and waits, or does
not read its response, would keep a connection open for ever; enough of them would use up all connections.
"""

import asyncio
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mirada.web.options import Limits, Refused
from mirada.words import json_text

# Responses: valid JSON, errors in one format, server-sent events.


def json_bytes(value: Any) -> bytes:
    r"""A value as strict JSON.

    >>> json_bytes({"text": "niña", "score": float("nan")}).decode()
    '{"text": "niña", "score": null}'
    """
    return json_text(value).encode()


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(json_bytes(value), status, headers, "application/json")


def error_response(refused: Refused) -> Response:
    """The response for a refused request."""
    return json_response({"error": refused.why}, refused.status, refused.headers)


def event(value: Any, name: str = "") -> bytes:
    r"""A server-sent event.

    >>> event({"text": "a"}, "done")
    b'event: done\ndata: {"text": "a"}\n\n'
    """
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + json_bytes(value) + b"\n\n"


LONGEST_HEAD = (
    64 << 10
)  # bytes of a request before its body; the same for what is around the body: chunk sizes, trailers
AROUND = 4  # bytes around the name and the value of a header, and around a chunk: ": " and the ends of lines


class BoundedProtocol(HttpToolsProtocol):
    """A connection that limits the size of request heads, what stands around bodies, the time heads take to arrive, and the
    time a response waits unread.

    One timer serves all requests of a connection: it compares recorded times, so that no request needs a timer of its own.
    """

    sending = Limits().sending  # seconds for a head to arrive, or for the client to read some of a response
    in_head = False  # whether a head has begun and is incomplete
    lines = 0  # bytes of the complete lines of a head, or of trailers
    framing = 0  # bytes of reads that are not of a body: of a head, or of chunk sizes, extensions and trailers
    accounted = 0  # bytes of the present read that are of a body, or needed to say how long a chunk is
    mixed = False  # whether a head began or ended in the present read: which of its bytes are of what is not known
    chunk = 0  # bytes of the present chunk
    fault = ""  # why the present read is refused
    since = 0.0  # when a head began, or could have begun
    unread = 0  # bytes of responses in the write buffer at the last check
    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the connection."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.timer = self.loop.call_later(self.sending, self.check_times)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and refuse a head, or trailers and chunk extensions, that are too long."""
        self.accounted, self.mixed = 0, False
        super().data_received(data)
        if not self.mixed:
            self.framing += len(data) - self.accounted
            if self.framing > LONGEST_HEAD and not self.transport.is_closing():
                self.refuse(400, self._too_long())

    def on_message_begin(self) -> None:
        """A head begins: start counting its bytes and its time."""
        super().on_message_begin()
        self.in_head, self.since = True, self.loop.time()
        self._start_counting()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._count_line(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A complete line of a head; those after a body (trailers) are of no use and are dropped."""
        self._count_line(len(name) + len(value) + AROUND)
        if self.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> Any:
        """A head is complete."""
        self.in_head = False
        self._start_counting()
        return super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self.accounted += len(body)
        self.chunk += len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        """A chunk is complete: its size in hexadecimal and two ends of lines are no extension."""
        self.accounted += len(f"{self.chunk:x}") + AROUND
        self.chunk = 0

    def _start_counting(self) -> None:
        self.lines = self.framing = self.chunk = 0
        self.mixed = True

    def _count_line(self, size: int) -> None:
        """Count a line. An exception makes the parser stop at once: what follows is not kept."""
        self.lines += size
        if self.lines > LONGEST_HEAD:
            self.fault = self._too_long()
            raise ValueError(self.fault)

    def _too_long(self) -> str:
        if self.in_head:
            return f"the head of a request has at most {LONGEST_HEAD:,} bytes"
        return f"trailers and chunk extensions have at most {LONGEST_HEAD:,} bytes"

    def on_response_complete(self) -> None:
        """A response was sent: the next head may begin."""
        self.since = self.loop.time()
        super().on_response_complete()

    def check_times(self) -> None:
        """Close the connection if the client is too slow, otherwise check again later."""
        now, unread, closing = self.loop.time(), self.transport.get_write_buffer_size(), self.transport.is_closing()
        if unread and unread == self.unread and (closing or self.flow.write_paused):
            self.transport.abort()  # nothing was read since the last check; close() would wait for the client
            return
        self.unread = unread
        answered = self.cycle is None or self.cycle.response_complete
        # uvicorn's own keep-alive timer is running
        idle = not self.in_head and self.timeout_keep_alive_task is not None
        rest = self.since + self.sending - now if answered and not idle and not closing else self.sending
        if rest > 0:
            self.timer = self.loop.call_later(rest, self.check_times)
            return
        self.timer = self.loop.call_later(self.sending, self.check_times)
        if not self.in_head:
            self.transport.close()
        else:
            self.refuse(408, f"the head of the request did not arrive within {self.sending:g} seconds: send it faster")

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP with a JSON error."""
        self.refuse(400, self.fault or msg)

    def refuse(self, status: int, why: str) -> None:
        """Send an error without a request, and close the connection. One whose response has begun gets no second one."""
        if not self.in_head and self.cycle is not None and self.cycle.response_started:
            self.transport.close()
            return
        content = json_bytes({"error": why})
        lines = f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + lines.encode() + content)
        self.transport.close()


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """The protocol class with the limits of a server."""
    return type("BoundedProtocol", (BoundedProtocol,), {"sending": limits.sending})
