"""The folder of a run may come from somebody else: resuming it writes nothing outside of it."""

import os
import shutil
from pathlib import Path

import pytest

from mirada.cli.eval import print_by_length
from mirada.runs.load import load
from tests.runs.small import QUICK, pairs, trained, write_rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, data: str) -> Path:
    return trained("translate", data, tmp_path_factory.mktemp("made") / "run", *QUICK).folder


@pytest.fixture
def run(tmp_path: Path, made: Path) -> Path:
    """A copy of a run that was not ended."""
    folder = tmp_path / "run"
    shutil.copytree(made, folder)
    return folder


TRAPS = (
    "config.json.part", ".probe", "checkpoints/.probe", "metrics.jsonl", "report.html", "tokenizer.json", "model.safetensors",
    "checkpoints/last.safetensors", "checkpoints/last.safetensors.part", "checkpoints/step-00000003.safetensors", "seeds.json",
)  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS)
def test_a_link_is_not_written_through(run: Path, tmp_path: Path, data: str, trap: str) -> None:
    precious = tmp_path / "precious"
    whole = (run / trap).read_bytes() if (run / trap).exists() else b"precious"
    precious.write_bytes(whole)
    (run / trap).unlink(missing_ok=True)
    (run / trap).symlink_to(precious)
    refused = trap.startswith("checkpoints/") or not trap.endswith((".part", ".probe"))
    if refused:
        with pytest.raises(ValueError, match="is a link, and a run writes into its own folder only"):
            trained("translate", data, run, *QUICK, resume=True)
    else:
        trained("translate", data, run, *QUICK, resume=True)
    assert precious.read_bytes() == whole


def test_a_folder_of_checkpoints_elsewhere_is_refused(run: Path, tmp_path: Path, data: str) -> None:
    (run / "checkpoints").rename(tmp_path / "elsewhere")
    (run / "checkpoints").symlink_to(tmp_path / "elsewhere")
    before = {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()}
    with pytest.raises(ValueError, match="checkpoints is a link"):
        trained("translate", data, run, *QUICK, resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "elsewhere").iterdir()} == before


def test_a_copy_that_shares_its_disk_space_is_left_alone(run: Path, tmp_path: Path, data: str) -> None:
    """As `cp -al` makes them."""
    (tmp_path / "copy").hardlink_to(run / "metrics.jsonl")
    before = (tmp_path / "copy").read_bytes()
    trained("translate", data, run, *QUICK, resume=True)
    assert (tmp_path / "copy").read_bytes() == before


def test_measuring_writes_its_plot_into_the_folder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (run / "by-length.png").symlink_to(tmp_path / "precious")
    there = load(run)
    splits = there.splits()
    print_by_length(there, [*splits.train, *splits.valid], as_json=True)
    assert (tmp_path / "precious").read_text() == "precious"
    assert (run / "by-length.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl"])
def test_a_pipe_in_place_of_a_file_does_not_block(run: Path, name: str) -> None:
    (run / name).unlink()
    os.mkfifo(run / name)
    if name == "metrics.jsonl":
        assert "not ended yet" in str(load(run))
    else:
        with pytest.raises(ValueError, match=rf"{name}.*(no ordinary file|missing or damaged)"):
            load(run)


@pytest.mark.parametrize("content", [b'{"a":' * 100_000, b"[" * 100_000, b"\xff" * 99])
def test_settings_that_are_nested_deeply_or_no_text(run: Path, content: bytes) -> None:
    (run / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        load(run)


DAMAGES = (
    (b'"step"', b'"stup"'),
    (b'"loss": ', b'"lqss": '),
    (b'"seconds": ', b'"secomds": '),
    (b'"valid"', b'"vamid"'),
)


@pytest.mark.parametrize(("old", "new"), DAMAGES)
def test_a_damaged_log_does_not_end_a_report(run: Path, data: str, old: bytes, new: bytes) -> None:
    """A bit may flip in a key as well as in a number."""
    path = run / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(old, new, 2))
    again = trained("translate", data, run, *QUICK, resume=True)
    assert "not ended yet" not in str(again)
    assert b"<svg" in (run / "report.html").read_bytes()
