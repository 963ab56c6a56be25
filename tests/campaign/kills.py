"""Runs that are killed with -9 at random moments, in one process or two, and resumed: they end with the same bits."""

import os
import random
import shutil
import signal
import socket
import time
from pathlib import Path

from tests.campaign.figures import Figures
from tests.campaign.runs import TASKS, data_of, result, train

MOST_KILLS = 3  # of one run


def one(seed: int, home: Path, figures: Figures) -> None:
    """One run of a task, killed up to three times."""
    dice = random.Random(seed)
    task, world = list(TASKS)[seed % len(TASKS)], 2 if dice.random() < 0.3 else 1
    whole = home / f"whole-{task}-{world}"
    if not (whole / "report.html").exists():
        shutil.rmtree(whole, ignore_errors=True)
        began = time.monotonic()
        assert not any(wait(start(task, home, whole, world, False))), (home / f"log-{whole.name}").read_text()
        (whole / "took").write_text(str(time.monotonic() - began))
    took, folder = float((whole / "took").read_text()), home / f"killed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    kind = f"{task}, {world} process{'es' * (world > 1)}"
    for turn in range(dice.randint(1, MOST_KILLS)):
        children = start(task, home, folder, world, turn > 0)
        time.sleep(dice.uniform(0, took) * (1.1 if turn == 0 else 0.8))
        os.kill(dice.choice(children), signal.SIGKILL)
        for child in children:  # the others go with it: torchrun ends them, too
            time.sleep(0.02)
            os.kill(child, signal.SIGKILL)
        wait(children)
        figures.add(f"kill of {kind}", "done")
    ends = wait(start(task, home, folder, world, True))
    same = not any(ends) and result(folder) == result(whole)
    figures.add(f"run of {kind}", "the same bits" if same else "FAILED", None if same else str(ends))
    if same:
        shutil.rmtree(folder)


def start(task: str, home: Path, folder: Path, world: int, resume: bool) -> list[int]:
    """The processes of a training, as torchrun would start them."""
    data_of(task, home)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            if world > 1:
                os.environ |= {
                    "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                }  # fmt: skip
            end_with(task, home, folder, resume)
        children.append(child)
    return children


def end_with(task: str, home: Path, folder: Path, resume: bool) -> None:
    """In the child: train, and end with 0 if that was done."""
    log = os.open(home / f"log-{folder.name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    try:
        train(task, home, folder, resume)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def wait(children: list[int]) -> list[int]:
    return [os.waitpid(child, 0)[1] for child in children]
