"""A task in a forked process, so that torch is imported once: its end, its seconds and its memory."""

import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HANG = 10.0  # seconds that nothing may take, of the processor or of waiting for anything else
PATIENCE = 120.0  # seconds of the clock: a busy machine is no reason to fail
MOST = 1 << 10  # MB beyond what the process began with


@dataclass(frozen=True)
class Outcome:
    """How a task ended: done (with a value), refused (with the message that users see), traceback, hang, or memory."""

    kind: str
    value: Any = None
    seconds: float = 0.0
    memory: int = 0  # MB


def forked(task: Callable[[], Any], hang: float = HANG) -> Outcome:
    """Run a task whose value JSON can hold."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        report(task, writing)
    os.close(writing)
    content, end = b"", time.monotonic() + PATIENCE
    while (left := end - time.monotonic()) > 0:
        if not select.select([reading], [], [], left)[0]:
            break
        piece = os.read(reading, 1 << 16)
        if not piece:
            break
        content += piece
    else:
        os.kill(child, signal.SIGKILL)
    if time.monotonic() >= end:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if not content:
        return Outcome("hang" if time.monotonic() >= end else "traceback", f"ended by {status}")
    found = Outcome(**json.loads(content))
    if found.seconds > hang:
        return Outcome("hang", found.value, found.seconds, found.memory)
    return Outcome("memory", found.value, found.seconds, found.memory) if found.memory > MOST else found


def report(task: Callable[[], Any], writing: int) -> None:
    """In the child: run, tell the end through a pipe, and leave without any clean-up of the parent's things."""
    from mirada.cli.main import explained

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    before, began = peak(), time.monotonic()
    kind, value = "done", None
    try:
        value = task()
    except SystemExit as ended:
        kind, value = ("refused", str(ended.code)) if ended.code else ("done", None)
    except Exception as error:
        text, code = explained(error)
        kind, value = "refused" if code in (2, 130) or "not enough memory" in text else "traceback", text[:600]
    except BaseException as error:
        kind, value = "traceback", repr(error)[:600]
    used = resource.getrusage(resource.RUSAGE_SELF)
    busy = used.ru_utime + used.ru_stime
    blocked = time.monotonic() - began - busy - queued()
    told = {"kind": kind, "value": value, "seconds": max(busy, blocked), "memory": peak() - before}
    content = json.dumps(told).encode()
    while content:
        content = content[os.write(writing, content) :]
    os._exit(0)


def peak() -> int:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def queued() -> float:
    """The seconds that this process was ready and others had the processor: a busy machine is no hang."""
    try:
        with open("/proc/self/schedstat") as stat:
            return int(stat.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
