"""A restart by torchrun: after a process was lost it starts all of them again, with the same command, to go on.

`torchrun --max-restarts 3 ... -m mirada train ...` also restarts a command that was refused. What may be gone on with is only a
run that was begun under this torchrun: it left a mark in the folder.
"""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirada.files import write_whole
from mirada.runs.request import TrainingRequest

MARK = ".torchrun"


def restarts() -> int:
    """How often torchrun has started these processes again."""
    told = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return int(told) if told.isdecimal() else 0


def torchrun() -> dict[str, Any] | None:
    """Which torchrun started this process: its job, and the process that watches over those of this machine."""
    job = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if job is None else {"job": job, "agent": os.getppid(), "host": socket.gethostname()}


def going_on(request: TrainingRequest, print_progress: Callable[[str], None]) -> TrainingRequest:
    """The request; resumed, where torchrun has restarted the run that it is for."""
    if request.resume or not restarts():
        return request
    resumed = replace(request, resume=True)
    if not is_marked(resumed.folder()):
        return request
    print_progress(
        f"torchrun has started the processes again (restart {restarts()}): the run goes on from its last checkpoint"
    )
    return resumed


def is_marked(folder: Path) -> bool:
    """Whether this torchrun began the run of a folder. The leader's machine is known; others know the job alone."""
    here = torchrun()
    try:
        there = json.loads((folder / MARK).read_text(encoding="utf-8"))
        same = here is not None and there["job"] == here["job"]
        return same and (os.environ.get("RANK", "0") != "0" or there == here)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def mark(folder: Path) -> None:
    """Say in a folder which torchrun began its run."""
    here = torchrun()
    if here is not None:
        write_whole(folder / MARK, json.dumps(here).encode())


def unmark(folder: Path) -> None:
    """The run has ended: there is nothing to go on with."""
    (folder / MARK).unlink(missing_ok=True)
