"""Real servers on the loopback: many clients, slow and aborted requests, a clean end, memory over a long time."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from mirada.runs.load import load
from mirada.web.app import address, bound_socket
from mirada.web.metrics import memory_in_use
from mirada.web.options import Limits
from mirada.web.runs import load_runs
from tests.runs.small import pairs
from tests.web.conftest import Live, Tried

ROOT = Path(__file__).parents[2]
ENV = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
Start = Callable[..., Live]
Trial = Callable[[str], Tried]


def ask(client: httpx.Client, *inputs: str, **more: Any) -> list[dict[str, Any]]:
    response = client.post("/api/run", json={"inputs": list(inputs), **more})
    assert response.status_code == 200, response.text
    return response.json()["answers"]  # type: ignore[no-any-return]


def test_32_clients_lose_no_request_and_get_what_the_run_answers(live: Start, trial: Trial) -> None:
    server, run = live("translate"), trial("translate").run
    sentences = [english for english, _ in pairs()]
    wanted = {text: answer.text for text, answer in zip(sentences, run(sentences), strict=True)}

    def one(number: int) -> list[tuple[str, str]]:
        with server.client() as client:
            mine = [sentences[(7 * number + 3 * turn) % len(sentences)] for turn in range(8)]
            return [(text, ask(client, text, beam=1 + number % 2)[0]["text"]) for text in mine]

    with ThreadPoolExecutor(32) as pool:
        found = [pair for part in pool.map(one, range(32)) for pair in part]
    assert len(found) == 32 * 8
    beams = {text: answer.text for text, answer in zip(sentences, run(sentences, beam=2), strict=True)}
    assert [pair for pair in found if pair[1] not in (wanted[pair[0]], beams[pair[0]])] == []
    batches = server.app.api.metrics.batches
    assert sum(batches.counts) < 32 * 8  # some were answered together


def test_a_full_queue_is_reported_with_when_to_try_again(live: Start) -> None:
    server = live("translate", limits=Limits(queue=1))
    gate = threading.Event()

    async def hold() -> None:
        from mirada.web.batching import FunctionCall

        server.app.api.batcher.put(FunctionCall("hold", lambda: gate.wait(20)))
        await asyncio.sleep(0.1)  # it runs
        server.app.api.batcher.put(FunctionCall("next", lambda: None))

    loop = loop_of(server)
    asyncio.run_coroutine_threadsafe(hold(), loop).result(5)
    with server.client() as client:
        refused = client.post("/api/run", json={"inputs": ["a"]})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        gate.set()
        wait_until(lambda: server.app.api.batcher.inputs == 0)
        ask(client, "I see a red house.")


def loop_of(server: Live) -> asyncio.AbstractEventLoop:
    """The event loop of a server: that of a work which it made."""
    with server.client() as client:
        seen: list[asyncio.AbstractEventLoop] = []
        put = server.app.api.batcher.put

        def note(*works: Any) -> None:
            seen.append(works[0].loop)
            put(*works)

        server.app.api.batcher.put = note  # type: ignore[method-assign]
        client.post("/api/run", json={"inputs": ["a"]})
        server.app.api.batcher.put = put  # type: ignore[method-assign]
    return seen[0]


def test_an_answer_that_takes_too_long_is_given_up(live: Start) -> None:
    server = live("write", limits=Limits(seconds=0.3))
    with server.client() as client:
        late = client.post("/api/run", json={"inputs": ["a"] * 200, "tokens": 2048})
        assert late.status_code == 504
        assert "0.3 seconds" in late.json()["error"]
        wait_until(lambda: server.app.api.batcher.running == 0)  # nobody waits for it, so it is not written to its end
        with client.stream("POST", "/api/run", json={"inputs": ["a"], "tokens": 2048, "stream": True}) as response:
            text = response.read().decode()
        assert response.status_code == 504 or "event: error" in text


def test_looking_is_given_up_too(live: Start, trial: Trial) -> None:
    """A comparison of methods takes a pass for every place of the input: it must not occupy the model when no client waits."""
    server, run = live("translate", limits=Limits(seconds=0.5)), trial("translate").run
    passes: list[float] = []

    def slow(*_: Any) -> None:
        passes.append(time.monotonic())
        time.sleep(0.1)

    hook = run.model.register_forward_pre_hook(slow)
    try:
        with server.client() as client:
            text = "I see a red house and we buy a car and I see a red house and we buy a car."
            late = client.post("/api/look", json={"input": text, "methods": True})
            assert late.status_code == 504
            begin = time.monotonic()
            wait_until(lambda: server.app.api.batcher.running == 0)
            assert time.monotonic() - begin < 1
            assert len(passes) < 12  # there would have been one for every token
    finally:
        hook.remove()


def test_an_aborted_request_frees_its_place(live: Start) -> None:
    server = live("write")
    batcher, gate = server.app.api.batcher, threading.Event()

    async def hold() -> None:
        from mirada.web.batching import FunctionCall

        batcher.put(FunctionCall("hold", lambda: gate.wait(20)))

    asyncio.run_coroutine_threadsafe(hold(), loop_of(server)).result(5)
    with server.client() as client, pytest.raises(httpx.ReadTimeout):
        client.post("/api/run", json={"inputs": ["a"] * 100, "tokens": 2048}, timeout=0.3)
    wait_until(lambda: batcher.inputs == 0)
    gate.set()
    with server.client() as client:  # a stream whose reader leaves is not written to its end
        with client.stream("POST", "/api/run", json={"inputs": ["a"], "tokens": 2048, "stream": True}) as response:
            next(response.iter_lines())
        wait_until(lambda: batcher.inputs == 0 and batcher.running == 0)
        assert ask(client, "I see", tokens=2)[0]["text"].startswith("I see")


def wait_until(holds: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_a_request_that_is_sent_too_slowly_is_refused(live: Start) -> None:
    server = live("translate", limits=Limits(sending=0.3))
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as slow:
        head = f"POST /api/run HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
        slow.sendall(head.encode() + b'{"inputs": [')
        answer = slow.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 408")
    with socket.create_connection((host, int(port)), 10) as broken:
        broken.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert broken.recv(4096).startswith(b"HTTP/1.1 400")
    with server.client() as client:
        ask(client, "I see a red house.")


def test_a_body_that_grows_beyond_the_limit_is_refused_while_it_comes(live: Start) -> None:
    server = live("translate", limits=Limits(body=1000))

    def endless() -> Any:
        for _ in range(100):
            yield b"x" * 500

    with server.client() as client:
        refused = client.post("/api/run", content=endless(), headers={"content-type": "application/json"})
        assert refused.status_code == 413


def test_a_head_without_an_end_is_refused_while_it_comes(live: Start) -> None:
    server = live("translate")
    host, _, port = server.url.removeprefix("http://").partition(":")
    for begin in (b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"GET /", b"GET / HTTP/1.1\r\nHost: x\r\n"):
        with socket.create_connection((host, int(port)), 10) as endless:
            endless.sendall(begin)
            with suppress(ConnectionError):  # it may be closed before all is sent
                for number in range(1000):
                    endless.sendall(b"B%d: x\r\n" % number * 100 if begin.endswith(b"\n") else b"y" * 1000)
            with suppress(ConnectionResetError):
                assert endless.recv(4096).startswith(b"HTTP/1.1 400")
                assert endless.recv(4096) == b""
    with server.client() as client:
        ask(client, "I see a red house.")


def closed(waiting: socket.socket, keep_sending: bytes = b"", every: float = 0.1) -> bytes:
    """What comes until the server closes, while something is sent again and again."""
    waiting.settimeout(every)
    found, end = b"", time.monotonic() + 10
    while time.monotonic() < end:
        try:
            part = waiting.recv(65536)
        except TimeoutError:
            with suppress(ConnectionError):
                waiting.sendall(keep_sending)
            continue
        except ConnectionError:
            return found
        if not part:
            return found
        found += part
    raise AssertionError("it was never closed")


def test_an_unfinished_head_does_not_hold_a_connection(live: Start) -> None:
    server = live("translate", limits=Limits(sending=0.4))
    host, _, port = server.url.removeprefix("http://").partition(":")
    whole = f"GET /api/health HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    cases = [  # what is sent, what is sent again and again, what comes back
        (b"", b"", b""),
        (b"GET /", b"", b"HTTP/1.1 408"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"y", b"HTTP/1.1 408"),  # each byte alone is in time
        (b"\r\n", b"\r\n", b""),  # before a head begins
        (whole + b"GET /", b"", b"HTTP/1.1 200"),
        (whole, b"\r\n", b"HTTP/1.1 200"),
    ]
    with server.client() as client:
        ask(client, "I see a red house.")
        for begin, again, wanted in cases:
            with socket.create_connection((host, int(port)), 10) as waiting:
                if begin:
                    waiting.sendall(begin)
                started = time.monotonic()
                assert closed(waiting, again).startswith(wanted), begin
                assert 0.3 < time.monotonic() - started < 5, begin
        kept = len(server.server.server_state.connections)
        assert kept == 1  # one that waits for its next question is not in anybody's way
        ask(client, "I see a red house.")
        assert len(server.server.server_state.connections) == kept


def test_a_slow_answer_is_not_a_slow_head(live: Start) -> None:
    server = live("write", limits=Limits(sending=0.1))
    with server.client() as client:
        for _ in range(2):  # over one connection
            begin = time.monotonic()
            response = client.post("/api/run", json={"inputs": ["I see"] * 30, "tokens": 100})
            assert len(response.json()["answers"]) == 30
            assert time.monotonic() - begin > 0.2
            time.sleep(0.3)
        assert len(server.server.server_state.connections) == 1


def test_runs_are_loaded_in_a_thread_that_ends(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two threads hold teams of OpenMP's threads, and those of the one that answers sleep between short regions."""
    loaded_in = []

    def noticed(path: Path, *given: str) -> Any:
        loaded_in.append(threading.current_thread())
        return load(path, *given)

    monkeypatch.setattr("mirada.web.runs.load", noticed)
    assert len(load_runs([str(trial("translate").run.folder)], "cpu")) == 1
    assert [thread.is_alive() for thread in loaded_in] == [False]


def test_small_responses_are_sent_at_once() -> None:
    with bound_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()) as _:
        accepted, _ = listening.accept()
        assert accepted.proto == socket.IPPROTO_TCP  # what asyncio looks at before it sets TCP_NODELAY
        accepted.close()


def test_ports_are_looked_for() -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"cannot listen at 127.0.0.1:{port}: .* Give another --port"):
            bound_socket("127.0.0.1", port)
        assert address("127.0.0.1", taken) == f"http://127.0.0.1:{port}"
    with bound_socket("127.0.0.1", None) as one, bound_socket("127.0.0.1", None) as other:
        assert 8000 <= one.getsockname()[1] < other.getsockname()[1] < 8020


def started(*words: object) -> tuple[subprocess.Popen[str], str, str]:
    """`mirada serve` as a process: itself, its address, and what it printed."""
    command = [sys.executable, "-m", "mirada", "serve", *map(str, words), "--port", "0"]
    process = subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed = ""
    assert process.stdout is not None
    while not (found := re.search(r"Open (http://[^/]+:\d+)/", printed)):
        line = process.stdout.readline()
        assert line, process.communicate()
        printed += line
    return process, found[1], printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_finishes_what_runs(number: signal.Signals, trial: Trial) -> None:
    process, url, printed = started(trial("write").run.folder)
    assert "write with gpt" in printed
    found: list[httpx.Response] = []

    def long() -> None:
        found.append(httpx.post(f"{url}/api/run", json={"inputs": ["I see"] * 4, "tokens": 400}, timeout=60))

    client = threading.Thread(target=long)
    client.start()
    wait_until(lambda: "mirada_running_inputs 4" in httpx.get(f"{url}/api/metrics").text)
    process.send_signal(number)
    client.join(60)
    assert found[0].status_code == 200
    assert len(found[0].json()["answers"]) == 4
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "stopping" in log
    assert '"POST /api/run" 200' in log
    assert "Traceback" not in log
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/api/health")


def test_a_token_is_made_where_others_can_connect(trial: Trial) -> None:
    process, url, printed = started(trial("classify").run.folder, "--host", "0.0.0.0")
    try:
        token = re.search(r"Authorization: Bearer (\S+)", printed)
        assert token is not None
        assert f"#token={token[1]}" in printed
        local = f"http://127.0.0.1:{url.rsplit(':', 1)[1]}"
        assert httpx.get(f"{local}/api/health").status_code == 401
        right = {"authorization": f"Bearer {token[1]}"}
        assert httpx.get(f"{local}/api/health", headers=right).json()["task"] == "classify"
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert token[1] not in log


def soak(server: Live, requests: int) -> tuple[int, int]:
    """The memory after a quarter of many requests of all kinds, and after all."""
    after_some = 0
    with server.client() as client:
        for number in range(requests):
            if number == requests // 4:
                after_some = memory_in_use()
            if number % 50 == 1:
                assert client.post("/api/look", json={"input": "I see a red house."}).status_code == 200
            elif number % 50 == 2:
                assert (
                    client.post("/api/run", content=b"{", headers={"content-type": "application/json"}).status_code
                    == 400
                )
            elif number % 50 == 3:
                ask(client, "a", "", beam=2)
            else:
                ask(client, "I see a red house.")
    return after_some, memory_in_use()


def test_memory_does_not_grow(live: Start) -> None:
    before, after = soak(live("translate"), 120)
    assert after - before < 60 << 20


@pytest.mark.slow
def test_memory_does_not_grow_over_ten_thousand_requests(live: Start) -> None:
    before, after = soak(live("translate"), 10_000)
    assert after - before < 60 << 20
