"""The server under load, compared with `mirada run` in batches of 32 and with one request at a time, in ratios of one run.

    python benchmarks/serving.py                    a translation run trained for a moment (about two minutes in all)
    python benchmarks/serving.py runs/translate     a run of one's own that translates, classifies or fills
    python benchmarks/serving.py --clients 32 --rounds 5 --seconds 3
    python benchmarks/serving.py runs/write --together    texts of mixed length, with and without writing them together

Three contestants take turns: `mirada run`'s own function with 32 sentences a call, 32 clients of a `mirada serve` with one
sentence a request, and one such client. All share the same cores, so the clients' own CPU time is stated: what they burn, the
server lacks.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from multiprocessing import get_context
from typing import Any

import mirada
from mirada.corpora.texts import embedded_texts
from mirada.web.together import SWITCH

TOGETHER = 32
GOALS = {"of `mirada run`": 0.6, "times one at a time": 2.0}


def sentences() -> list[str]:
    """What is asked, the same for all."""
    return [english for english, _ in embedded_texts("english_spanish")["test"]]


async def client(host: str, port: int, asks: list[dict[str, Any]], end: float, answered: list[int]) -> None:
    """Ask one sentence after the other over one connection, with as little work as possible."""
    reader, writer = await asyncio.open_connection(host, port)
    for ask in cycle(asks):
        body = json.dumps(ask).encode()
        lines = ("POST /api/run HTTP/1.1", f"Host: {host}:{port}", "Content-Type: application/json")
        writer.write("\r\n".join((*lines, f"Content-Length: {len(body)}", "", "")).encode() + body)
        found = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: (\d+)", found)
        assert size is not None, found
        content = await reader.readexactly(int(size[1]))
        assert found.startswith(b"HTTP/1.1 200"), content
        assert b'"text"' in content, content
        if time.monotonic() > end:
            break
        answered[0] += 1
    writer.close()


def clients(count: int, host: str, port: int, asks: list[dict[str, Any]], seconds: float, results: Any) -> None:
    """Many clients in a process of their own: answers a second, and the CPU time of the clients a second."""

    async def all_of_them() -> int:
        answered, end = [0], time.monotonic() + seconds
        parts = [asks[number::count] for number in range(count)]
        await asyncio.gather(*(client(host, port, part, end, answered) for part in parts))
        return answered[0]

    before = resource.getrusage(resource.RUSAGE_SELF)
    found = asyncio.run(all_of_them())
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    results.put((found / seconds, cpu / seconds))


def served(
    count: int, port: int, texts: list[str], seconds: float, fields: list[dict[str, Any]] | None = None
) -> tuple[float, float]:
    """Answers a second of so many clients, and their CPU time a second; `fields` are options for every text."""
    asks = [{"inputs": [text], **more} for text, more in zip(texts, fields or [{}] * len(texts), strict=True)]
    context = get_context("spawn")
    results = context.Queue()
    process = context.Process(target=clients, args=(count, "127.0.0.1", port, asks, seconds, results))
    process.start()
    found: tuple[float, float] = results.get(timeout=60 + seconds)
    process.join()
    return found


def in_batches(run: Any, texts: list[str], seconds: float) -> float:
    """Answers a second of the function behind `mirada run`, 32 inputs a call."""
    supply, answered, begin = cycle(texts), 0, time.monotonic()
    while time.monotonic() - begin < seconds:
        answered += len(run.answers_in_place(list(islice(supply, TOGETHER))))
    return answered / (time.monotonic() - begin)


def start(folder: str, together: bool = True) -> tuple[subprocess.Popen[str], int]:
    """A server of the run, and its port."""
    environment = os.environ | {SWITCH: str(int(together))}
    command = [sys.executable, "-m", "mirada", "serve", folder, "--port", "0", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    while not (found := re.search(r"Open http://[^/]+:(\d+)/", process.stdout.readline())):
        assert process.poll() is None, "the server ended"
    return process, int(found[1])


def with_and_without(folder: str, clients: int, rounds: int, seconds: float) -> None:
    """The same server with requests that join and leave between steps, and with batches, in turns."""
    draw, known = random.Random(0), sentences()
    texts = [draw.choice(known)[: draw.randint(2, 40)] for _ in range(256)]
    fields = [{"temperature": 0, "tokens": draw.choice([5, 10, 20, 40, 150])} for _ in texts]
    servers = [start(folder, together) for together in (True, False)]
    try:
        found = []
        for number in range(rounds + 1):
            joined, apart = (served(clients, port, texts, seconds, fields)[0] for _, port in servers)
            found += [joined / apart] if number else []  # the first warms up
            print(f"round {number}: together {joined:,.1f}/s, apart {apart:,.1f}/s", flush=True)
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait(30)
    quartiles = statistics.quantiles(found, n=4)
    print(
        f"together {statistics.median(found):.2f} times ({quartiles[0]:.2f} to {quartiles[2]:.2f}; goal: at least 1.5)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    if given.together:
        with_and_without(given.folder, given.clients, given.rounds, given.seconds)
        return
    with tempfile.TemporaryDirectory() as home:
        folder = given.folder or str(mirada.train("translate", out=f"{home}/translate", steps=300).folder)
        run, texts = mirada.load(folder), sentences()
        process, port = start(folder)
        try:
            rounds = []
            in_batches(run, texts, 1.0)
            served(given.clients, port, texts, 1.0)
            for number in range(given.rounds):
                base = in_batches(run, texts, given.seconds)
                many, cpu = served(given.clients, port, texts, given.seconds)
                one, _ = served(1, port, texts, given.seconds)
                rounds.append((many / base, many / one, cpu))
                print(
                    f"round {number + 1}: in batches of {TOGETHER} {base:,.0f}/s; {given.clients} clients {many:,.0f}/s "
                    f"(their CPU {cpu:.2f} cores); one client {one:,.0f}/s",
                    flush=True,
                )
        finally:
            process.terminate()
            process.wait(30)
    for (name, goal), values in zip(GOALS.items(), zip(*[found[:2] for found in rounds], strict=True), strict=True):
        print(f"{given.clients} clients reach {statistics.median(values):.2f} {name} (goal: at least {goal})")


if __name__ == "__main__":
    main()
