"""Runs that are killed, stopped and divided: they end with the numbers of one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mirada.runs.load import load
from mirada.training.log import read_metrics
from tests.runs.small import SIZES, pairs, trained, write_rows

STEPS = 60
KEYS = (*SIZES, f"steps={STEPS}", "validate=15", "batch_tokens=256", "save_seconds=0", "average=3")
CLOCK = {"tokens_per_second", "seconds", "waiting"}
PATIENCE = 90.0  # seconds that a process may take to come so far


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


def environment() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def started(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mirada", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def metrics_log(folder: Path) -> list[dict]:
    """What happened, without what the clock decides."""
    return [{k: v for k, v in event.items() if k not in CLOCK} for event in read_metrics(folder / "metrics.jsonl")]


def wait_for(process: subprocess.Popen[str], folder: Path, lines: int) -> None:
    """Wait until a run has logged that many steps; 0: until its settings are written."""
    wanted, end = folder / ("metrics.jsonl" if lines else "config.json"), time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if wanted.exists() and wanted.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.002)


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path: Path, data: str) -> None:
    whole = trained("translate", data, tmp_path / "whole", *KEYS)
    dice, folder = random.Random(11), tmp_path / "killed"
    ways = [
        (signal.SIGKILL, 0), (signal.SIGKILL, dice.randrange(5, 15)), (signal.SIGTERM, dice.randrange(20, 30)),
        (signal.SIGKILL, dice.randrange(40, 50)),
    ]  # fmt: skip
    words: list[object] = ["train", "translate", "--data", data, "--out", folder, *KEYS]
    codes = []
    for number, lines in ways:
        process = started(*words)
        wait_for(process, folder, lines)
        time.sleep(dice.uniform(0, 0.05))
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE)
        codes.append(process.returncode)
        if number == signal.SIGTERM:
            assert told.splitlines()[-1].endswith("Continue with the same command and --resume.")
        words = [*words, "--resume"] if "--resume" not in words else words
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 130, -signal.SIGKILL]
    last = started(*words)
    said, told = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0, told
    assert said.startswith("on 4 records for validation")
    for name in ("model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (whole.folder / name).read_bytes(), name
    assert metrics_log(folder) == metrics_log(whole.folder)
    assert [event["step"] for event in metrics_log(folder) if "lr" in event] == list(range(1, STEPS + 1))
    assert not list((folder / "checkpoints").glob("step-*")), "weights that no average needs"


@pytest.mark.slow
def test_two_processes_train_as_one_does(tmp_path: Path, data: str) -> None:
    """The losses agree to 1e-5 over 50 steps; only one of them writes and speaks."""
    keys = (*SIZES, "steps=50", "validate=25", "batch_tokens=256", "dropout=0", "average=0")
    trained("translate", data, tmp_path / "one", *keys)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "mirada", "train", "translate", "--data", data, "--out", str(tmp_path / "two"), *keys,
    ]  # fmt: skip
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    one, two = (metrics_log(tmp_path / name) for name in ("one", "two"))
    losses = [torch.tensor([event["loss"] for event in events if "lr" in event]) for events in (one, two)]
    assert len(losses[0]) == 50
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
    valid = [torch.tensor([event["valid"]["loss"] for event in events if "valid" in event]) for events in (one, two)]
    torch.testing.assert_close(valid[1], valid[0], rtol=1e-5, atol=1e-5)
    assert done.stdout.count("on 4 records for validation") == 1
    assert done.stderr.count("records to learn from") == 1
    assert done.stderr.count("  valid loss ") == 2
    assert load(tmp_path / "two")("I see a cat.").text == load(tmp_path / "one")("I see a cat.").text
