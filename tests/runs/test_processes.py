"""Processes that do not agree on what is trained refuse in one line, all of them, before the first step."""

import io
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from mirada.training.distributed import ProcessGroup
from tests.runs.small import SIZES, request, reviews, trained, write_rows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
KEYS = (*SIZES, "steps=2", "batch_tokens=256", "threads=1")


def ends(*calls: tuple[str, Path, tuple[str, ...], bool], folders: Sequence[Path] = ()) -> list[str]:
    """How the processes of one training end, each with its data, folder, keys and whether it resumes: done, or its error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank, (data, out, keys, resume) in enumerate(calls):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.environ |= {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(calls)), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }  # fmt: skip
            if folders:
                os.chdir(folders[rank])
            torch.set_num_threads(1)  # threads do not survive a fork
            text = "done"
            sys.stderr = io.StringIO()
            try:
                from mirada.runs.train import execute

                execute(request("classify", data, *keys, out=str(out), resume=resume), lambda t: None, lambda t: None)
            except ValueError as error:
                text = str(error)
            except BaseException:
                text = traceback.format_exc()
            os.write(writing, text.encode())
            os._exit(0)
        os.close(writing)
        children.append((child, reading))
    found = []
    for child, reading in children:
        with os.fdopen(reading, encoding="utf-8") as file:
            found.append(file.read())
        os.waitpid(child, 0)
    return found


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_rows(tmp_path / "reviews.tsv", reviews())


def test_two_that_agree_train(tmp_path: Path, data: str) -> None:
    copy = write_rows(tmp_path / "copy.tsv", reviews())
    assert ends((data, tmp_path / "run", KEYS, False), (copy, tmp_path / "run", KEYS, False)) == ["done", "done"]
    assert (tmp_path / "run" / "report.html").exists()


def test_other_data_is_refused(tmp_path: Path, data: str) -> None:
    stale = write_rows(tmp_path / "stale.tsv", reviews()[:-4])
    errors = ends((data, tmp_path / "run", KEYS, False), (stale, tmp_path / "run", KEYS, False))
    assert errors[0] == errors[1]
    assert errors[0].startswith("process 1 differs from process 0: the fingerprint of the data is ")
    assert errors[0].endswith("Give all processes the same files.")
    assert not (tmp_path / "run" / "config.json").exists()


def test_other_settings_are_refused(tmp_path: Path, data: str) -> None:
    errors = ends(
        (data, tmp_path / "run", (*KEYS, "lr=1e-3"), False), (data, tmp_path / "run", (*KEYS, "lr=2e-3"), False)
    )
    line = "process 1 differs from process 0: recipe.lr is 0.002, not 0.001. Start all processes with the same command."
    assert errors == [line, line]


def test_other_folders_are_refused(tmp_path: Path, data: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    line = (
        f"process 1 differs from process 0: --out is '{two}', not '{one}'. Start all processes with the same command."
    )
    assert ends((data, one, KEYS, False), (data, two, KEYS, False)) == [line, line]


def test_an_error_of_one_is_the_end_of_all(tmp_path: Path, data: str) -> None:
    errors = ends((data, tmp_path / "run", KEYS, False), (str(tmp_path / "no.tsv"), tmp_path / "run", KEYS, False))
    assert "no.tsv" in errors[1]
    assert errors[0] == f"process 1 cannot take part: {errors[1]}"


def test_a_run_that_only_one_machine_has_is_refused(tmp_path: Path, data: str) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "config.json").write_text("{}", encoding="utf-8")
    errors = ends((data, tmp_path / "run", KEYS, False), (data, taken, KEYS, False))
    assert errors[1].startswith(f"{taken} holds a run already.")
    assert errors[0] == f"process 1 cannot take part: {errors[1]}"


def test_a_run_that_only_one_machine_has_is_not_resumed(tmp_path: Path, data: str) -> None:
    """The same path on two machines without a shared disk: `/proc/self/cwd` is another folder in each process."""
    if not Path("/proc/self/cwd").exists():
        pytest.skip("needs /proc")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    trained("classify", data, tmp_path / "one" / "run", *KEYS)
    out = Path("/proc/self/cwd/run")
    folders = tmp_path / "one", tmp_path / "two"
    errors = ends(*((data, out, KEYS, True) for _ in folders), folders=folders)
    line = f"process 1 differs from process 0: whether {out}/checkpoints/last.safetensors is there is no, not yes; "
    assert errors[0] == errors[1]
    assert errors[0].startswith(line)
    assert errors[0].endswith("All processes need the same folder: give one on a disk that they share.")


def test_seeds_are_for_one_process(tmp_path: Path, data: str) -> None:
    keys = (*KEYS, "seeds=2")
    wanted = "seeds= trains one run after the other in one process: start it without torchrun"
    assert ends((data, tmp_path / "run", keys, False), (data, tmp_path / "run", keys, False)) == [wanted, wanted]


def test_texts_of_all_processes_are_gathered() -> None:
    assert ProcessGroup().gather("niña") == ["niña"]
