"""A process of several is killed: torchrun starts all again, and they end as if nothing had happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mirada.runs.folder import LOCK
from mirada.runs.train import MARK, execute
from mirada.training.log import read_metrics
from mirada.training.loop import Interrupted
from tests.runs.small import QUICK, SIZES, pairs, quiet, request, trained, write_rows

KEYS = (*SIZES, "steps=40", "validate=10", "batch_tokens=256", "save_seconds=0", "average=3", "threads=1")
PATIENCE = 180.0  # seconds that processes may take


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


def by_torchrun(monkeypatch: pytest.MonkeyPatch, restart: int, job: str = "7") -> None:
    for name, value in (("TORCHELASTIC_RUN_ID", job), ("TORCHELASTIC_RESTART_COUNT", str(restart))):
        monkeypatch.setenv(name, value)


def stopped(data: str, folder: Path) -> None:
    """A run of one process under torchrun, stopped by a signal in its third line."""

    def stop(text: str) -> None:
        if "steps: about" in text:  # the plan is told, and the loop is next
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        execute(request("translate", data, *QUICK, out=str(folder)), stop, quiet)


def test_a_restart_resumes_and_says_so(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    by_torchrun(monkeypatch, 0)
    stopped(data, tmp_path / "run")
    by_torchrun(monkeypatch, 1)
    lines: list[str] = []
    execute(request("translate", data, *QUICK, out=str(tmp_path / "run")), lines.append, quiet)
    assert (
        lines[0] == "torchrun has started the processes again (restart 1): the run continues from its last checkpoint"
    )
    assert not (tmp_path / "run" / MARK).exists()
    whole = trained("translate", data, tmp_path / "whole", *QUICK)
    names = ("model.safetensors", "tokenizer.json")
    assert all((tmp_path / "run" / name).read_bytes() == (whole.folder / name).read_bytes() for name in names)


def test_a_restart_resumes_only_what_it_began(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused command is restarted, too: what was refused then is refused again."""
    trained("translate", data, tmp_path / "old", *QUICK)
    by_torchrun(monkeypatch, 0)
    stopped(data, tmp_path / "other")
    by_torchrun(monkeypatch, 1, job="8")
    for name in ("old", "other"):
        with pytest.raises(ValueError, match="holds a run already"):
            trained("translate", data, tmp_path / name, *QUICK)


def torchrun(count: int, *words: object, restarts: int = 0) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", count, "--max-restarts", restarts,
        "-m", "mirada", "train", "translate", *words,
    ]  # fmt: skip
    return subprocess.Popen(
        [*map(str, command)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def wait_for_lines(process: subprocess.Popen[str], folder: Path, lines: int) -> None:
    path, end = folder / "metrics.jsonl", time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
        time.sleep(0.005)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The processes that a torchrun started, by rank."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if int((place / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process.pid:
                about = (place / "environ").read_bytes().split(b"\0")
                found[next(int(x[5:]) for x in about if x.startswith(b"RANK="))] = int(place.name)
        except (OSError, StopIteration):
            continue
    return [found[rank] for rank in sorted(found)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_of_two_changes_nothing(tmp_path: Path, data: str, rank: int) -> None:
    whole = torchrun(2, "--data", data, "--out", tmp_path / "whole", *KEYS)
    assert whole.wait(PATIENCE) == 0
    broken = torchrun(2, "--data", data, "--out", tmp_path / "broken", *KEYS, restarts=3)
    wait_for_lines(broken, tmp_path / "broken", 15)
    os.kill(workers_of(broken)[rank], signal.SIGKILL)
    _, told = broken.communicate(timeout=PATIENCE)
    assert broken.returncode == 0, told
    assert told.count("torchrun has started the processes again (restart 1)") == 1
    assert "Traceback" not in "".join(line for line in told.splitlines(True) if "torch/distributed" not in line)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()
    steps = [event["step"] for event in read_metrics(tmp_path / "broken" / "metrics.jsonl") if "lr" in event]
    assert steps == list(range(1, 41))
    assert not (tmp_path / "broken" / LOCK).exists()


@pytest.mark.slow
def test_another_number_of_processes_goes_on_to_the_same_numbers(tmp_path: Path, data: str) -> None:
    keys = (*KEYS, "dropout=0")
    trained("translate", data, tmp_path / "one", *keys)
    begun = torchrun(2, "--data", data, "--out", tmp_path / "both", *keys)
    wait_for_lines(begun, tmp_path / "both", 15)
    os.kill(workers_of(begun)[1], signal.SIGKILL)
    begun.wait(PATIENCE)
    assert begun.returncode != 0
    trained("translate", data, tmp_path / "both", *keys, resume=True)
    for key, find in (("lr", lambda event: event["loss"]), ("valid", lambda event: event["valid"]["loss"])):
        one, both = (
            torch.tensor([find(event) for event in read_metrics(tmp_path / name / "metrics.jsonl") if key in event])
            for name in ("one", "both")
        )
        assert len(one) > 3
        torch.testing.assert_close(both, one, rtol=1e-5, atol=1e-5)
