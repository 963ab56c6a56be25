"""Whether budgets are kept: `python benchmarks/budgets.py` trains every task with `--minutes 0.5`, 2 and 5 by the clock.

    python benchmarks/budgets.py --minutes 0.5 --tasks label,write --busy 1

A budget counts from the start of the command to the last step; what follows (measuring, the report) is printed beside it.
With `--busy N`, N processes that only count run beside the training. Every training is a process of its own.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neighbor import cpu, neighbors

from mirada.runs.registry import CATALOG

HERE = Path(__file__).parents[1]


def trained(task: str, minutes: float) -> dict[str, object]:
    """A training with a budget: seconds to its last step, seconds after it, steps, and what it said about the budget."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "mirada", "train", task, "--out", str(folder), "--minutes", str(minutes)]
        environment = os.environ | {"PYTHONPATH": str(HERE / "src")}
        began, last, said = time.monotonic(), 0.0, ""
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                said += line
                if line.startswith("measuring on"):
                    last = time.monotonic() - began
        whole = time.monotonic() - began
        if process.returncode or not last:
            raise SystemExit(f"{task}: {said[-500:]}")
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = max(event["step"] for event in events if "step" in event)
        short = re.search(r".*minutes are too short.*", said)
        ended = re.search(r".*stopped early.*", said)
        note = "said that it needs longer" if short else "stopped early" if ended else ""
        return {"seconds": last, "after": whole - last, "steps": steps, "note": note}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", default="0.5,2,5")
    parser.add_argument("--tasks", default=",".join(CATALOG))
    parser.add_argument("--busy", type=int, default=0)
    given = parser.parse_args()
    load = f", next to {given.busy} busy processes" if given.busy else ""
    print(f"{cpu()}, {os.cpu_count()} cores{load}\n")
    print("| task | minutes | to the last step, of the budget | steps | measuring and report, s | note |")
    print("|---|---|---|---|---|---|", flush=True)
    for minutes in map(float, given.minutes.split(",")):
        for task in given.tasks.split(","):
            with neighbors(given.busy):
                found = trained(task, minutes)
            share = 100 * float(found["seconds"]) / (60 * minutes)  # type: ignore[arg-type]
            print(
                f"| {task} | {minutes:g} | {share:.0f} % | {found['steps']:,} | {found['after']:.0f} | {found['note']} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
