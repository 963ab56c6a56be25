"""The server: routes behind the guard, a socket, and a clean shutdown."""

import asyncio
import base64
import io
import signal
import socket
import sys
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import mirada
from mirada.drawing.attention.picture import png
from mirada.runs.run import Run
from mirada.runs.task import SAMPLES
from mirada.web.api import Api, Handler, guarded
from mirada.web.guard import Access, Guard, ip_address_of
from mirada.web.options import Limits, Refused
from mirada.web.protocol import bounded, error_response, json_response
from mirada.web.runs import ServedRun, ServedRuns
from mirada.web.schema import openapi

# Samples: inputs for people who have no picture, recording or sentence at hand.


LARGEST_SAMPLE = 1 << 20  # bytes of a sample


def _samples_of(run: ServedRun) -> list[Any]:
    """Some inputs of the builtin data, texts or files. A user's own data is never sent: it may be private, and large."""
    try:
        texts = run.task.samples(run, run.splits())[:SAMPLES] if run.source.builtin else []
        return [_as_file(run, text) if run.task.takes_files else text for text in texts]
    except (ValueError, OSError):
        return []  # the server works without samples


def _as_file(run: Run, sample: str) -> dict[str, str]:
    """A sample as a file; on the command line it is a path or a name such as `builtin test:7`."""
    name, content = sample, b""
    given = run.task.parse(sample)
    if isinstance(given, str) and Path(given).is_file():
        name, content = Path(given).name, Path(given).read_bytes()[:LARGEST_SAMPLE]
    elif run.task.input_kind == "picture":
        name, content = f"{sample.replace(' ', '-').replace(':', '-')}.png", png(given.given)
    elif run.task.input_kind == "recording":
        name, content = f"{sample.replace(':', '-')}.wav", _morse_file(sample)
    return {"name": name, "base64": base64.b64encode(content).decode()}


def _morse_file(sample: str) -> bytes:
    """A text of the builtin data in Morse code, as a wav file."""
    from mirada.corpora.morse import spelled

    sound, file = spelled(sample.partition(":")[2]), io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, sound.rate, 0, "NONE", ""))
        out.writeframes(np.rint(np.clip(sound.samples, -1, 1) * 32767).astype("<i2").tobytes())
    return file.getvalue()


# Static files: part of the package, read once, served from memory.


MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
STATIC_FOLDERS = {"": "web/static", "attention/": "drawing/viewer/static"}  # folders by path prefix


def static_files() -> dict[str, Response]:
    """A response for each static file, by its path below `/static/`. Browsers revalidate them by ETag."""
    statics, package = {}, Path(mirada.__file__).parent
    for prefix, folder in STATIC_FOLDERS.items():
        for path in (package / folder).rglob("*.*"):
            if path.suffix in MEDIA_TYPES:
                content = path.read_bytes()
                headers = {"ETag": f'"{sha256(content).hexdigest()[:20]}"', "Cache-Control": "no-cache"}
                name = prefix + path.relative_to(package / folder).as_posix()
                statics[name] = Response(content, headers=headers, media_type=MEDIA_TYPES[path.suffix])
    return statics


FIRST, TRIED = 8000, 20  # the usual port, and how many after it are tried
IDLE = 20  # seconds that a connection may wait for its next request
REASONS = {404: "there is no such page", 405: "this method is not for this address"}


@dataclass(frozen=True, eq=False)
class WebApp:
    """The ASGI app, and the handlers behind it."""

    asgi: Guard
    api: Api


def web_app(runs: ServedRuns, limits: Limits | None = None, access: Access | None = None) -> WebApp:
    """The app that serves these runs."""
    limits, access = limits or Limits(), access or Access()
    api, statics, described = Api(runs, limits), static_files(), openapi(runs, limits, bool(access.token))
    pages = {"/": "app.html", "/docs": "docs.html", "/favicon.ico": "icon.svg"}
    samples: dict[str, list[Any]] = {}  # by run, computed on the first request
    sampling = asyncio.Lock()

    async def page(request: Request) -> Response:
        file = statics.get(pages.get(request.scope["path"]) or request.path_params["path"])
        if file is None:
            raise Refused(404, REASONS[404])
        if request.headers.get("if-none-match") == file.headers["ETag"]:
            return Response(status_code=304, headers={name: file.headers[name] for name in ("ETag", "Cache-Control")})
        return file

    async def description(request: Request) -> Response:
        return json_response(described)

    async def inputs_to_try(request: Request) -> Response:
        run = runs.find(request.query_params.get("run"))
        async with sampling:
            if run.name not in samples:
                samples[run.name] = await asyncio.to_thread(_samples_of, run)
        return json_response({"run": run.name, "samples": samples[run.name]})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        api.batcher.close(limits.stopping)

    posts, gets = {"/api/run": api.run, "/api/look": api.look}, {
        **dict.fromkeys([*pages, "/static/{path:path}"], page),
        "/openapi.json": description, "/api/health": api.health, "/api/metrics": api.metrics_text,
        "/api/samples": inputs_to_try,
    }  # fmt: skip
    routes = [Route(path, guarded(handler), methods=["POST"]) for path, handler in posts.items()]
    routes += [Route(path, guarded(handler), methods=["GET"]) for path, handler in gets.items()]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _not_found})
    return WebApp(Guard(_with_direct_route(app, "/api/run", guarded(api.run)), api.metrics, limits, access), api)


def _with_direct_route(app: ASGIApp, path: str, handler: Handler) -> ASGIApp:
    """The app, with POST requests to one path passed directly to their handler: router and middleware cost more than parsing."""

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == path and scope["method"] == "POST":
            response = await handler(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return dispatch


async def _not_found(request: Request, error: Exception) -> Response:
    """The router's own refusals, as JSON."""
    status, headers = getattr(error, "status_code", 400), getattr(error, "headers", None) or {}
    return error_response(Refused(status, REASONS.get(status, "this request cannot be answered"), **headers))


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    address = ip_address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def bound_socket(host: str, port: int | None) -> socket.socket:
    """A listening socket; without a port, on 8000 or the next free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reason = ""
    for tried in range(FIRST, FIRST + TRIED) if port is None else (port,):
        # asyncio sets TCP_NODELAY only if the protocol is given: otherwise each small response waits 40 ms for the client's ACK
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, tried))
            listening.listen(2048)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            reason = getattr(error, "strerror", None) or str(error)
            if isinstance(error, socket.gaierror):
                break
    at = f"{host}:{port}" if port is not None else f"{host}, ports {FIRST} to {FIRST + TRIED - 1}"
    raise ValueError(f"cannot listen at {at}: {reason}. Give another --port or --host.")


def address(host: str, listening: socket.socket) -> str:
    """The URL to open in a browser."""
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{listening.getsockname()[1]}"


class StoppableServer(uvicorn.Server):
    """Shuts down on a signal: running requests are finished, new ones refused, the exit code is 0."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then call `ready`."""
        await super().startup(sockets)
        self.ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Inside, Ctrl-C and SIGTERM stop the server; the previous handlers are restored afterwards."""

        def stop(number: int, frame: FrameType | None) -> None:
            if not self.should_exit:
                waiting = len(self.server_state.tasks)
                print(f"mirada: stopping; {waiting} requests to finish", file=sys.stderr)
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def server_config(app: WebApp, limits: Limits) -> uvicorn.Config:
    """The settings of uvicorn."""
    return uvicorn.Config(
        app.asgi, http=bounded(limits), log_config=None, access_log=False, server_header=False, proxy_headers=False, ws="none",
        lifespan="on", timeout_keep_alive=IDLE, timeout_graceful_shutdown=int(limits.stopping),
        limit_concurrency=4 * limits.connections, backlog=2048,
    )  # fmt: skip


def serve(app: WebApp, listening: socket.socket, limits: Limits, ready: Callable[[], None]) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    StoppableServer(server_config(app, limits), ready).run(sockets=[listening])
