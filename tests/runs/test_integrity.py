"""What is looked at in the folder of a run; the command is tested in tests/cli/test_check_run.py."""

import os
import shutil
from pathlib import Path

import pytest

from mirada.runs.integrity import inspect
from tests.runs.small import QUICK, pairs, reviews, trained, write_rows


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    run = trained("translate", write_rows(tmp_path / "pairs.tsv", pairs()), tmp_path / "run", *QUICK).folder
    assert not any(wrong for _, wrong in inspect(run))
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert [name for name, wrong in inspect(run) if "no ordinary file" in wrong] == ["metrics.jsonl"]


@pytest.mark.parametrize("content", ["{", "[]", '{"task": 3}'])
def test_without_settings_nothing_else_can_be_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    ((name, wrong),) = inspect(tmp_path)
    assert (name, bool(wrong)) == ("config.json", True)


def bad(folder: Path) -> dict[str, str]:
    return {name: wrong for name, wrong in inspect(folder) if wrong}


def test_weights_of_another_run_are_reported(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "pairs.tsv", pairs())
    one, two = (trained("translate", data, tmp_path / f"run-{seed}", *QUICK, seed=seed).folder for seed in (0, 1))
    assert not bad(one)
    shutil.copy(two / "model.safetensors", one / "model.safetensors")
    assert list(bad(one)) == ["model.safetensors"]
    assert "the checkpoint was written together with weights with" in bad(one)["model.safetensors"]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("seeds")
    return trained("classify", write_rows(home / "x.tsv", reviews()), home / "run", *QUICK, "seeds=2", seed=4).folder


def test_a_run_of_several_seeds_is_whole_with_all_of_them(seeds: Path) -> None:
    names = [name for name, _ in inspect(seeds)]
    assert not bad(seeds)
    assert {"config.json", "seeds.json", "model.safetensors", "seed-4/config.json"} <= {*names}
    assert {"seed-4/checkpoints/last.safetensors", "seed-5/metrics.jsonl", "seed-5/model.safetensors"} <= {*names}


@pytest.mark.parametrize("name", ["seeds.json", "model.safetensors", "seed-5/model.safetensors", "seed-4/config.json",
                                  "seed-4/checkpoints/last.safetensors"])  # fmt: skip
@pytest.mark.parametrize("spoil", ["cut", "gone", "pipe"])
def test_a_damaged_file_of_several_seeds_is_reported(seeds: Path, tmp_path: Path, name: str, spoil: str) -> None:
    folder = Path(shutil.copytree(seeds, tmp_path / "run"))
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if spoil == "cut":
        (folder / name).write_bytes(content[:-30])
    if spoil == "pipe":
        os.mkfifo(folder / name)
    assert name in bad(folder)


def test_a_seed_that_is_elsewhere_or_gone_is_reported(seeds: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeds, tmp_path / "run"))
    shutil.rmtree(folder / "seed-4")
    assert "seed-4/config.json" in bad(folder)
    (folder / "seed-4").symlink_to(folder)
    assert "is a link" in bad(folder)["seed-4"]


def test_seeds_that_are_not_done_yet_are_no_damage(seeds: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeds, tmp_path / "run"))
    shutil.rmtree(folder / "seed-5")
    for name in ("seeds.json", "model.safetensors", "tokenizer.json", "metrics.jsonl"):
        (folder / name).unlink(missing_ok=True)
    assert not bad(folder)


def test_the_weights_of_the_whole_are_those_of_the_chosen_seed(seeds: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(seeds, tmp_path / "run"))
    places = [folder / f"seed-{seed}" / "model.safetensors" for seed in (4, 5)]
    whole = (folder / "model.safetensors").read_bytes()
    (other,) = [path for path in places if path.read_bytes() != whole]
    shutil.copy(other, folder / "model.safetensors")
    assert "which was chosen" in bad(folder)["model.safetensors"]
