"""The speed of two checkouts of mirada, side by side: `python benchmarks/versions.py OTHER` compares OTHER with this one.

Each measurement is a process of its own with one of the two on its path; the two take turns. Only what both have is used:
the commands `mirada train`, `mirada run` and `mirada --help`, and `mirada.load`. Ratios above 1 mean that this checkout is
faster.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
STEPS = 60
ANSWERS = """
import json, sys, time
import mirada
translate, write = mirada.load(sys.argv[1]), mirada.load(sys.argv[2])
lines = [line for line in open(sys.argv[3], encoding="utf-8").read().splitlines()]

def timed(action, times):
    action()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2]

print(json.dumps({
    "one sentence, greedy": timed(lambda: translate(lines[0]), 30),
    "one sentence, beam 4": timed(lambda: translate(lines[0], beam=4), 20),
    "64 sentences, greedy": timed(lambda: translate(lines[:64]), 5),
    "64 sentences, beam 4": timed(lambda: translate(lines[:64], beam=4), 5),
    "200 characters written": timed(lambda: write("The list", tokens=200, temperature=0.0), 5),
}))
"""


def python(root: Path, *words: str) -> str:
    """What a Python process with that checkout on its path prints."""
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def trained(root: Path, task: str, folder: Path) -> float:
    """Seconds of a short training."""
    words = ("train", task, "--out", str(folder), f"steps={STEPS}", f"validate={STEPS}", "average=0", "--seed", "1")
    python(root, "-m", "mirada", *words)
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return next(event["seconds"] for event in reversed(events) if "seconds" in event)


def started(root: Path, *words: str) -> float:
    """Seconds of a whole command, the middle one of three."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        python(root, "-m", "mirada", *words)
        times.append(time.perf_counter() - began)
    return sorted(times)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    roots = {"other": given.other.resolve(), "this": HERE}
    times: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        sentences = home / "lines.txt"
        sentences.write_text(
            "\n".join(f"the red house number {n} is small and old ." for n in range(64)), encoding="utf-8"
        )
        for turn in range(given.rounds):
            for name in ("other", "this") if turn % 2 else ("this", "other"):
                found = {
                    f"{task}, {STEPS} training steps": trained(roots[name], task, home / f"{name}-{task}-{turn}")
                    for task in ("translate", "write", "classify")
                }
                folders = (str(home / f"{name}-translate-{turn}"), str(home / f"{name}-write-{turn}"))
                found |= json.loads(python(roots[name], "-c", ANSWERS, *folders, str(sentences)))
                found["mirada --help"] = started(roots[name], "--help")
                found["mirada run, one sentence"] = started(roots[name], "run", folders[0], "the red house")
                for what, seconds in found.items():
                    times.setdefault(what, {}).setdefault(name, []).append(seconds)
                print(f"round {turn + 1}, {name}", file=sys.stderr)
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {given.rounds} rounds\n")
    print("| what | other, ms | this, ms | ratio | lowest .. highest |\n|---|---|---|---|---|")
    for what, found in times.items():
        ratios = [other / this for other, this in zip(found["other"], found["this"], strict=True)]
        other, this = (1000 * statistics.median(found[name]) for name in ("other", "this"))
        spread = f"{min(ratios):.2f} .. {max(ratios):.2f}"
        print(f"| {what} | {other:.1f} | {this:.1f} | {statistics.median(ratios):.2f} | {spread} |")


if __name__ == "__main__":
    main()
