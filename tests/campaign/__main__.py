"""`python -m tests.campaign kills --count 200`: go on with a part of the campaign, and print its figures."""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: forks of several threads would wait for ever

from tests.campaign import attacks, checkpoints, files, folders, kernels, kills, machines
from tests.campaign.figures import FILE, Figures

PARTS = {
    "kills": kills.one,
    "folders": folders.one,
    "files": files.one,
    "kernels": kernels.one,
    "checkpoints": checkpoints.one,
    **attacks.ATTACKS,
    **machines.MACHINES,
}


def run(part: str, count: int, seconds: float, home: Path, path: Path = FILE) -> Figures:
    """So many further cases of a part, or as many as fit into some seconds."""
    import torch

    torch.set_num_threads(1)
    figures, end = Figures(part, path), time.monotonic() + seconds
    for number in range(count):
        if time.monotonic() > end:
            break
        PARTS[part](figures.seed, home, figures)
        figures.seed += 1
        if number % 20 == 0:
            figures.save()
    figures.save()
    return figures


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    words.add_argument("part", choices=[*PARTS, "all"])
    words.add_argument("--count", type=int, default=1_000_000)
    words.add_argument("--seconds", type=float, default=1e9)
    words.add_argument("--figures", type=Path, default=FILE)
    given = words.parse_args()
    if given.count == 1_000_000 and given.seconds == 1e9:
        words.error("say how much: --count N or --seconds S")
    with tempfile.TemporaryDirectory() as home:
        for part in PARTS if given.part == "all" else [given.part]:
            print(run(part, given.count, given.seconds, Path(home), given.figures))


if __name__ == "__main__":
    main()
