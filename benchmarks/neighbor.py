"""Training next to a busy process: `python benchmarks/neighbor.py` prints quiet and busy speeds, ours and nn.Transformer's.

The builtin translation, a whole `mirada train` with a fixed number of steps in a process of its own; beside it a plain loop
around `nn.Transformer` of the same size on batches of the same shape. Both run alone and beside processes that only count.
Rounds are interleaved; medians and the spread are printed. Speeds are steps per second of the training itself.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parents[1]
SPIN = "while True: pass"
PEER = """
import sys, time, torch
from torch import nn
steps, vocab, width = int(sys.argv[1]), 3000, 128
torch.manual_seed(0)
words, body = nn.Embedding(vocab, width), nn.Transformer(width, 4, 2, 2, 256, 0.1, batch_first=True, norm_first=True)
output = nn.Linear(width, vocab)
modules = nn.ModuleList([words, body, output])
optimizer = torch.optim.Adam(modules.parameters(), lr=1e-3)
source, target, wanted = (torch.randint(5, vocab, (102, 10)) for _ in range(3))
mask = nn.Transformer.generate_square_subsequent_mask(10)

def step():
    optimizer.zero_grad()
    h = body(words(source), words(target), tgt_mask=mask, tgt_is_causal=True)
    nn.functional.cross_entropy(output(h).flatten(0, 1), wanted.flatten()).backward()
    optimizer.step()

for _ in range(3):
    step()
began = time.perf_counter()
for _ in range(steps):
    step()
print(steps / (time.perf_counter() - began))
"""


@contextmanager
def neighbors(count: int):
    """So many processes that keep a core busy."""
    started = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def ours(steps: int, *keys: str) -> tuple[float, int]:
    """Steps per second of a training, and how many threads it settled on."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "mirada", "train", "translate", "--out", str(folder), f"steps={steps}", *keys]
        environment = os.environ | {"PYTHONPATH": str(HERE / "src")}
        words = [f"validate={steps}", "average=0"]
        subprocess.run([*command, *words], env=environment, capture_output=True, check=True)
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        seconds = [event["seconds"] for event in events if "lr" in event][-1]
        threads = json.loads((folder / "config.json").read_text(encoding="utf-8"))["recipe"]["threads"]
        return steps / seconds, threads


def theirs(steps: int) -> tuple[float, int]:
    """Steps per second of the plain loop, with PyTorch's usual threads."""
    done = subprocess.run([sys.executable, "-c", PEER, str(steps)], capture_output=True, text=True, check=True)
    return float(done.stdout), os.cpu_count() or 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    contestants = {
        "mirada": lambda: ours(given.steps),
        f"mirada, threads={cores}": lambda: ours(given.steps, f"threads={cores}"),
        "nn.Transformer": lambda: theirs(given.steps),
    }
    places = {"quiet": 0, "next to one busy process": 1, f"next to {cores}": cores}
    speeds: dict[tuple[str, str], list[float]] = {}
    threads: dict[tuple[str, str], set[int]] = {}
    for turn in range(given.rounds):
        for place, count in places.items():
            for name, run in contestants.items():
                with neighbors(count):
                    speed, chosen = run()
                speeds.setdefault((name, place), []).append(speed)
                threads.setdefault((name, place), set()).add(chosen)
                print(f"round {turn + 1}: {name}, {place}: {speed:.2f} steps a second", file=sys.stderr)
    print(f"{cpu()}, {cores} cores, {given.steps} steps, {given.rounds} rounds\n")
    print(
        "| who | where | steps a second | lowest .. highest | of its quiet speed | threads |\n|---|---|---|---|---|---|"
    )
    for (name, place), found in speeds.items():
        middle, quiet = statistics.median(found), statistics.median(speeds[name, "quiet"])
        counts = " or ".join(map(str, sorted(threads[name, place])))
        spread = f"{min(found):.2f} .. {max(found):.2f}"
        print(f"| {name} | {place} | {middle:.2f} | {spread} | {100 * middle / quiet:.0f} % | {counts} |")


def cpu() -> str:
    """The processor by name, where Linux tells it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())


if __name__ == "__main__":
    main()
