"""Who may talk to the server: Host and Origin are checked on every request, a token where it is wanted; all is logged.

A page elsewhere could let a name of its own point to this computer (DNS rebinding) and send requests from the visitor's
browser. Such a request has that name as Host, or its own address as Origin: both are refused.
"""

import hmac
import ipaddress
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from typing import Any

from mirada.web.metrics import ServerMetrics
from mirada.web.options import Limits, Refused
from mirada.web.protocol import json_bytes

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
CAREFUL = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
NOT_KEPT = [(b"cache-control", b"no-store")]
ROUTES = ("/", "/docs", "/openapi.json", "/api/run", "/api/look", "/api/health", "/api/metrics", "/api/samples")
METHODS = ("GET", "HEAD", "POST", "OPTIONS")


class Guard:
    """The app behind its checks."""

    def __init__(
        self, app: App, metrics: ServerMetrics, limits: Limits, *, token: str = "", hosts: Iterable[str] = (),
        local: bool = True, log: bool = True,
    ) -> None:  # fmt: skip
        self.app, self.metrics, self.limits = app, metrics, limits
        self.token, self.hosts, self.local, self.log = token, frozenset(map(str.lower, hosts)), local, log
        self.requests = 0
        self.is_ours = lru_cache(64)(self._is_ours)  # the next request says the same

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self.http(scope, receive, send)

    async def http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, let the app answer it, count and log it."""
        begin, status, size = time.monotonic(), 0, 0

        async def seen(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_headers(message.get("headers", []), scope["path"])
            size += len(message.get("body", b""))
            await send(message)

        self.requests += 1
        try:
            refused = self.refusal(scope)
            if refused is None:
                await self.app(scope, receive, seen)
            else:
                await _refuse(refused, seen)
        finally:
            self.requests -= 1
            self.done(scope, status, size, time.monotonic() - begin)

    def refusal(self, scope: Scope) -> Refused | None:
        """Why a request may not be answered, from its headers alone."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if len(hosts) != 1 or not self.is_ours(headers["host"]):
            return Refused(403, f"this server is not called {headers.get('host', '')!r}. See --allow-host.")
        origin, fetched = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin.lower() not in {
            f"{how}://{headers['host'].lower()}" for how in ("http", "https")
        }:
            return Refused(403, f"requests from pages of {origin!r} are not answered")
        page = scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if fetched not in ("same-origin", "none") and not (page and not _protected(scope["path"])):
            return Refused(403, "requests from pages elsewhere are not answered")
        if self.token and _protected(scope["path"]) and not self.has_token(headers.get("authorization", "")):
            why = "a token is needed: send the header Authorization: Bearer TOKEN, with what `mirada serve` printed"
            return Refused(401, why, WWW_Authenticate="Bearer")
        if self.requests > self.limits.connections:
            return Refused(503, "too many requests at once: ask again in a moment", Retry_After="1")
        return None

    def _is_ours(self, host: str) -> bool:
        """Whether a Host is a name of this server. Numbers are nobody's name: they cannot be pointed elsewhere."""
        name = _without_port(host).lower()
        if name == "localhost" or name in self.hosts:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return not self.local or address.is_loopback

    def has_token(self, given: str) -> bool:
        """Whether an Authorization is right, in a time that does not depend on how much of it is."""
        kind, _, token = given.partition(" ")
        right = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self.token.encode())
        return right and kind.lower() == "bearer"

    def done(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count and log a request."""
        path, method = scope["path"], scope["method"]
        route = path if path in ROUTES else "/static" if path.startswith("/static/") else "other"
        known = method if method in METHODS else "other"
        self.metrics.requests.add(route=route, method=known, status=str(status or 499))
        self.metrics.seconds.observe(seconds)
        if self.log:
            client = (scope.get("client") or ("-",))[0]
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            shown = scope.get("raw_path", path.encode()).decode("ascii", "backslashreplace")[:200]
            line = f'{when} {client} "{method} {shown}" {status or 499} {size} B {1000 * seconds:.1f} ms'
            print("".join(letter if letter.isprintable() else "?" for letter in line), file=sys.stderr)


def _protected(path: str) -> bool:
    """Whether a path tells something of the runs. The page itself does not."""
    return path.startswith("/api") or path == "/openapi.json"


def _without_port(host: str) -> str:
    """The name in a Host.

    >>> _without_port("localhost:8000"), _without_port("[::1]:8000"), _without_port("::1")
    ('localhost', '::1', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


def _with_headers(headers: Iterable[tuple[bytes, bytes]], path: str) -> list[tuple[bytes, bytes]]:
    """The headers of a response, with what browsers must know to be careful."""
    known = list(headers)
    return known + _careful(tuple(name for name, _ in known), _protected(path))


@lru_cache(64)  # a route answers with the same headers again and again
def _careful(names: tuple[bytes, ...], secret: bool) -> list[tuple[bytes, bytes]]:
    """What a response with these headers lacks."""
    known = {name.lower() for name in names}
    return [header for header in (CAREFUL + NOT_KEPT if secret else CAREFUL) if header[0] not in known]


async def _refuse(refused: Refused, send: Send) -> None:
    """A response without a word to the app."""
    content = json_bytes({"error": refused.why})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
