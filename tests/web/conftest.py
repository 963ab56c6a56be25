"""A tiny run of every task, and servers of them: in this process, and real ones on the loopback."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from mirada.runs.run import Run
from mirada.web.app import Access, WebApp, bound_socket, server_config, web_app
from mirada.web.options import Limits
from mirada.web.runs import ServedRuns
from tests.tasks.every_model import CASES

QUIET = Access(log=False)


class Tried(NamedTuple):
    """A run, and an input as the command line takes it."""

    run: Run
    given: Any


@pytest.fixture(scope="session")
def trial() -> Callable[[str], Tried]:
    """A tiny run of a task, trained when it is first asked for."""
    kept: dict[str, Tried] = {}

    def of(task: str) -> Tried:
        if task not in kept:
            case = next(case for case in CASES if case.task == task)
            kept[task] = Tried(*case.kept())
        return kept[task]

    return of


Server = Callable[..., httpx.Client]


@pytest.fixture
def client(trial: Callable[[str], Tried]) -> Iterator[Callable[..., TestClient]]:
    """A client of some tasks' runs, in this process."""
    made: list[WebApp] = []

    def of(*tasks: str, limits: Limits | None = None, access: Access = QUIET) -> TestClient:
        app = web_app(ServedRuns({task: trial(task).run for task in tasks}), limits, access)
        made.append(app)
        return TestClient(app.asgi, base_url="http://127.0.0.1:8000")  # type: ignore[arg-type]

    yield of
    for app in made:
        app.api.batcher.close(10)


class Live(NamedTuple):
    """A server that listens."""

    url: str
    app: WebApp
    server: uvicorn.Server

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **more)


@contextmanager
def served(app: WebApp) -> Iterator[Live]:
    """A server in a thread of this process."""
    listening = bound_socket("127.0.0.1", 0)
    server = uvicorn.Server(server_config(app, app.api.limits))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield Live(f"http://127.0.0.1:{listening.getsockname()[1]}", app, server)
    finally:
        server.should_exit = True
        thread.join(20)
        app.api.batcher.close(5)


@pytest.fixture
def live(trial: Callable[[str], Tried]) -> Iterator[Callable[..., Live]]:
    """Real servers."""
    open_ones: list[Any] = []

    def of(*tasks: str, limits: Limits | None = None, access: Access = QUIET) -> Live:
        one = served(web_app(ServedRuns({task: trial(task).run for task in tasks}), limits, access))
        found = one.__enter__()
        open_ones.append(one)
        return found

    yield of
    for one in open_ones:
        one.__exit__(None, None, None)


def file_of(path: str) -> dict[str, Any]:
    """A file as httpx sends it."""
    return {"file": (Path(path).name, Path(path).read_bytes())}
