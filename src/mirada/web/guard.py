"""Access control: Host and Origin are checked on every request, a token where one is required; every request is logged.

Another site could point its own domain name to this computer (DNS rebinding) and send requests from the visitor's
browser. Such a request has that name as its Host, or that site as its Origin: both are refused.
"""

import hmac
import ipaddress
import sys
import time
from dataclasses import dataclass
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirada.web.metrics import ServerMetrics
from mirada.web.options import Limits, Refused
from mirada.web.protocol import error_response

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
SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
NO_STORE = [(b"cache-control", b"no-store")]
ROUTES = ("/", "/docs", "/openapi.json", "/api/run", "/api/look", "/api/health", "/api/metrics", "/api/samples")
METHODS = ("GET", "HEAD", "POST", "OPTIONS")


@dataclass(frozen=True)
class Access:
    """Who may connect: the token, the names of the server, and whether it is reached from this computer only."""

    token: str = ""
    hosts: tuple[str, ...] = ()
    local: bool = True
    log: bool = True


class Guard:
    """The ASGI app behind access checks."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, limits: Limits, access: Access) -> None:
        self.app, self.metrics, self.limits, self.access = app, metrics, limits, access
        self.hosts = {"localhost", *map(str.lower, access.hosts)}
        self.requests = 0
        self.is_own_host = lru_cache(64)(self._is_own_host)  # requests repeat the same Host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it to the app, count and log it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        if scope["type"] != "http":
            return
        begin, status, size = time.monotonic(), 0, 0

        async def send_counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", []))
                headers += _security_headers(tuple(name for name, _ in headers), _protected(scope["path"]))
                message["headers"] = headers
            size += len(message.get("body", b""))
            await send(message)

        self.requests += 1
        try:
            refused = self.refusal(scope)
            await (self.app if refused is None else error_response(refused))(scope, receive, send_counted)
        finally:
            self.requests -= 1
            self.done(scope, status, size, time.monotonic() - begin)

    def refusal(self, scope: Scope) -> Refused | None:
        """Why a request is refused, judged by its headers; None if it may be answered."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        if len(hosts) != 1 or not self.is_own_host(headers["host"]):
            return Refused(403, f"this server is not called {headers.get('host', '')!r}. See --allow-host.")
        origin, fetched = headers.get("origin"), headers.get("sec-fetch-site", "none")
        own = {f"{how}://{headers['host'].lower()}" for how in ("http", "https")}
        if origin is not None and origin.lower() not in own:
            return Refused(403, f"requests from pages of {origin!r} are not answered")
        page = scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode", "navigate") == "navigate"
        if fetched not in ("same-origin", "none") and not (page and not _protected(scope["path"])):
            return Refused(403, "requests from pages elsewhere are not answered")
        if self.access.token and _protected(scope["path"]) and not self.has_token(headers.get("authorization", "")):
            why = "a token is needed: send the header Authorization: Bearer TOKEN, with what `mirada serve` printed"
            return Refused(401, why, WWW_Authenticate="Bearer")
        if self.requests > self.limits.connections:
            return Refused(503, "too many requests at once: ask again in a moment", Retry_After="1")
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a Host is a name of this server. IP addresses are accepted: DNS cannot redirect them."""
        name = _without_port(host).lower()
        address = ip_address_of(name)
        return name in self.hosts or (address is not None and (not self.access.local or address.is_loopback))

    def has_token(self, given: str) -> bool:
        """Whether an Authorization header has the token, compared in constant time."""
        kind, _, token = given.partition(" ")
        right = hmac.compare_digest(token.strip().encode("latin-1", "replace"), self.access.token.encode())
        return right and kind.lower() == "bearer"

    def done(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Count and log a request."""
        path, method = scope["path"], scope["method"]
        route = path if path in ROUTES else "/static" if path.startswith("/static/") else "other"
        known = method if method in METHODS else "other"
        self.metrics.requests.add(route=route, method=known, status=str(status or 499))
        self.metrics.seconds.observe(seconds)
        if self.access.log:
            client = (scope.get("client") or ("-",))[0]
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            shown = scope.get("raw_path", path.encode()).decode("ascii", "backslashreplace")[:200]
            line = f'{when} {client} "{method} {shown}" {status or 499} {size} B {1000 * seconds:.1f} ms'
            print("".join(letter if letter.isprintable() else "?" for letter in line), file=sys.stderr)


def _protected(path: str) -> bool:
    """Whether a path needs the token: it exposes the runs. The page itself does not."""
    return path.startswith("/api") or path == "/openapi.json"


def ip_address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a host name spells; None for any other name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _without_port(host: str) -> str:
    """A Host without its port.

    >>> _without_port("localhost:8000"), _without_port("[::1]:8000"), _without_port("::1")
    ('localhost', '::1', '::1')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]


@lru_cache(64)  # responses of a route have the same headers
def _security_headers(names: tuple[bytes, ...], secret: bool) -> list[tuple[bytes, bytes]]:
    """The security headers that a response with these headers lacks."""
    known = {name.lower() for name in names}
    return [
        header for header in (SECURITY_HEADERS + NO_STORE if secret else SECURITY_HEADERS) if header[0] not in known
    ]
