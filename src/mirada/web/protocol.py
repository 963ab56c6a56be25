"""HTTP/1.1 connections: parsed in C by httptools, with the limits of size and time that uvicorn does not set.

uvicorn's own timer runs only from the end of a response to the next byte. A client that sends `GET /` and waits, or does
not read its response, would keep a connection open for ever; enough of them would use up all connections.
"""

import asyncio
import json
import math
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mirada.web.options import Limits, Refused

# Responses: valid JSON, errors in one format, server-sent events.


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # creating one takes as long as encoding a response


def json_bytes(value: Any) -> bytes:
    r"""A value as JSON: null instead of NaN, lone surrogates escaped.

    >>> json_bytes({"text": "niña", "score": float("nan")}).decode()
    '{"text": "niña", "score": null}'
    """
    try:
        return ENCODER.encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(_finite(value)).encode()
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False).encode(errors="replace")


def _finite(value: Any) -> Any:
    """The value with null in the place of NaN and infinity."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


LONGEST_HEAD = 64 << 10  # bytes of a request before its body


class BoundedProtocol(HttpToolsProtocol):
    """A connection that limits the size of request heads, the time they take to arrive, and the time a response waits unread.

    One timer serves all requests of a connection: it compares recorded times, so that no request needs a timer of its own.
    """

    sending = Limits().sending  # seconds for a head to arrive, or for the client to read some of a response
    head: int | None = None  # bytes of an incomplete head
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
        """Parse bytes, and refuse a head that is too long."""
        super().data_received(data)
        if self.head is not None:
            self.head += len(data)
            if self.head > LONGEST_HEAD and not self.transport.is_closing():
                self.refuse(400, f"the head of a request has at most {LONGEST_HEAD:,} bytes")

    def on_message_begin(self) -> None:
        """A head begins: start counting its bytes and its time."""
        super().on_message_begin()
        self.head, self.since = 0, self.loop.time()

    def on_headers_complete(self) -> Any:
        """A head is complete."""
        self.head = None
        return super().on_headers_complete()

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
        idle = self.head is None and self.timeout_keep_alive_task is not None
        rest = self.since + self.sending - now if answered and not idle and not closing else self.sending
        if rest > 0:
            self.timer = self.loop.call_later(rest, self.check_times)
            return
        self.timer = self.loop.call_later(self.sending, self.check_times)
        if self.head is None:
            self.transport.close()
        else:
            self.refuse(408, f"the head of the request did not arrive within {self.sending:g} seconds: send it faster")

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP with a JSON error."""
        self.refuse(400, msg)

    def refuse(self, status: int, why: str) -> None:
        """Send an error without a request, and close the connection."""
        content = json_bytes({"error": why})
        lines = f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + lines.encode() + content)
        self.transport.close()


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """The protocol class with the limits of a server."""
    return type("BoundedProtocol", (BoundedProtocol,), {"sending": limits.sending})
