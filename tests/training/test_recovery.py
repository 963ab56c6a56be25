"""A run resumes only from intact files: the others are made again, or refused before the first step."""

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mirada.training.loop import Interrupted
from mirada.training.state import kept_path, read_checkpoint, save_weights, step_of, write_checkpoint
from tests.training.toy import toy_training


def stopped(folder: Path, at: int = 33, **recipe) -> None:
    """A run of 40 steps, validated every tenth, that is stopped on its way."""
    training = toy_training(folder, save_seconds=0.0, **recipe)
    real = training.step

    def step(state, *rest):
        if state.step == at and state.steps == 40:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(state, *rest)

    training.step = step
    with pytest.raises(Interrupted):
        training.run()


def resumed(folder: Path, **recipe) -> list[str]:
    lines: list[str] = []
    training = toy_training(folder, save_seconds=0.0, resume=True, **recipe)
    training.print_progress = lines.append
    training.run()
    return lines


def steps_taken(folder: Path, **recipe) -> int:
    """How many steps a resumed run makes before it is refused."""
    training = toy_training(folder, save_seconds=0.0, resume=True, **recipe)
    made, real = [], training.timed_step
    training.timed_step = lambda *given: (made.append(1), real(*given))[1]
    with pytest.raises(
        ValueError, match=r"is missing, damaged, of another moment or of another run|is missing or damaged"
    ):
        training.run()
    return len(made)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)


DAMAGES = (Path.unlink, cut, flip, lambda path: path.write_bytes(b""))


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_best_weights_are_made_again_from_the_kept_ones(tmp_path: Path, damage) -> None:
    for name in ("whole", "broken"):
        stopped(tmp_path / name, average=3)
    damage(tmp_path / "broken" / "model.safetensors")
    lines = resumed(tmp_path / "broken", average=3)
    assert any("model.safetensors was missing, damaged or of another moment" in line for line in lines)
    assert not any("was missing" in line for line in resumed(tmp_path / "whole", average=3))
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize("damage", DAMAGES)
def test_missing_best_weights_are_refused_before_the_first_step(tmp_path: Path, damage) -> None:
    stopped(tmp_path, average=0)
    damage(tmp_path / "model.safetensors")
    assert steps_taken(tmp_path, average=0) == 0


def test_weights_of_another_moment_are_refused(tmp_path: Path) -> None:
    """An old copy that was put back."""
    stopped(tmp_path, average=0)
    path = tmp_path / "model.safetensors"
    assert step_of(path) == 30
    save_weights(path, load_file(path), step=10)
    assert steps_taken(tmp_path, average=0) == 0


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_to_average_are_refused_before_the_first_step(tmp_path: Path, damage) -> None:
    stopped(tmp_path, average=3)
    damage(kept_path(tmp_path / "checkpoints", 20))
    assert steps_taken(tmp_path, average=3) == 0


def test_weights_of_another_model_are_not_averaged(tmp_path: Path) -> None:
    stopped(tmp_path, average=3)
    save_weights(kept_path(tmp_path / "checkpoints", 20), {"other": torch.zeros(3)}, step=20)
    assert steps_taken(tmp_path, average=3) == 0


def test_the_weights_of_the_last_step_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    """Stopped right after a validation: the state itself has what is missing."""
    for name in ("whole", "broken"):
        stopped(tmp_path / name, at=28, average=3)
    kept_path(tmp_path / "broken" / "checkpoints", 30).unlink()
    (tmp_path / "broken" / "model.safetensors").unlink()
    assert sum("was missing" in line for line in resumed(tmp_path / "broken", average=3)) == 2
    resumed(tmp_path / "whole", average=3)
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_better_weights_of_a_process_that_was_killed_before_it_said_so_are_found_again(tmp_path: Path) -> None:
    stopped(tmp_path, average=0)
    path = tmp_path / "model.safetensors"
    save_weights(path, load_file(path), step=40)  # beyond the saved state
    assert resumed(tmp_path, average=0)
    assert step_of(path) == 40


def test_a_run_without_its_checkpoint_says_that_it_starts_over(tmp_path: Path) -> None:
    stopped(tmp_path, average=0)
    (tmp_path / "checkpoints" / "last.safetensors").unlink()
    assert any("last.safetensors is missing: the run starts over" in line for line in resumed(tmp_path, average=0))


def another_run(folder: Path, step: int) -> None:
    """Intact weights of the same model from another training, in place of ours, with a given step."""
    path = folder / "model.safetensors"
    save_weights(path, {name: value + 1 for name, value in load_file(path).items()}, step=step)


def another_model(folder: Path, step: int) -> None:
    save_weights(folder / "model.safetensors", {"other": torch.zeros(3)}, step=step)


@pytest.mark.parametrize("replace", [another_run, another_model])
@pytest.mark.parametrize("step", [30, -1])
def test_weights_of_another_run_are_not_taken_for_the_best(tmp_path: Path, replace, step: int) -> None:
    """-1: an average, of no step."""
    stopped(tmp_path, average=0)
    assert step_of(tmp_path / "model.safetensors") == 30
    replace(tmp_path, step)
    assert steps_taken(tmp_path, average=0) == 0


@pytest.mark.parametrize("replace", [another_run, another_model])
def test_weights_of_another_run_are_written_again_where_ours_are_kept(tmp_path: Path, replace) -> None:
    for name in ("whole", "broken"):
        stopped(tmp_path / name, average=3)
    replace(tmp_path / "broken", 30)
    assert any("model.safetensors was missing, damaged" in line for line in resumed(tmp_path / "broken", average=3))
    resumed(tmp_path / "whole", average=3)
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.parametrize("replace", [another_run, another_model])
def test_weights_of_another_run_next_to_one_that_has_ended(tmp_path: Path, replace) -> None:
    toy_training(tmp_path).run()
    before = load_file(tmp_path / "model.safetensors")
    replace(tmp_path, -1)
    assert any("it was written again" in line for line in resumed(tmp_path))
    after = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any("it was written again" in line for line in resumed(tmp_path))


def test_a_checkpoint_from_before_has_no_checksum_of_the_weights(tmp_path: Path) -> None:
    stopped(tmp_path, average=0)
    path = tmp_path / "checkpoints" / "last.safetensors"
    tensors, facts = read_checkpoint(path)
    del facts["model_checksum"]
    write_checkpoint(path, tensors, facts)
    assert not any("was missing" in line for line in resumed(tmp_path, average=0))


def test_moments_of_another_model_are_refused_before_the_first_step(tmp_path: Path) -> None:
    stopped(tmp_path, average=0)
    path = tmp_path / "checkpoints" / "last.safetensors"
    tensors, facts = read_checkpoint(path)
    write_checkpoint(path, tensors | {"optimizer.exp_avg.inner.weight": torch.zeros(2)}, facts)
    with pytest.raises(
        ValueError, match=r"last\.safetensors is not a checkpoint of this run: exp_avg of inner\.weight"
    ):
        resumed(tmp_path, average=0)


def test_weights_that_pretend_to_be_of_a_later_moment_are_found_out_at_the_end(tmp_path: Path) -> None:
    """They might be of this run, stopped between writing them and saying so."""
    stopped(tmp_path, average=0)
    another_run(tmp_path, 1000)
    training = toy_training(tmp_path, save_seconds=0.0, resume=True, average=0)
    training.validate = lambda *given: None  # none is better than the best so far
    with pytest.raises(ValueError, match=r"model\.safetensors was changed by others.*Restore a copy"):
        training.run()


def test_another_number_of_processes_is_reported(tmp_path: Path) -> None:
    """Each process draws for its own part of a batch, so with dropout the numbers are others."""
    stopped(tmp_path, dropout=0.5)
    last = tmp_path / "checkpoints" / "last.safetensors"
    tensors, facts = read_checkpoint(last)
    assert facts["processes"] == 1
    write_checkpoint(last, tensors, facts | {"processes": 2})
    told = [line for line in resumed(tmp_path, dropout=0.5) if "process" in line]
    assert len(told) == 1
    assert told[0].startswith("this run was trained by 2 processes and continues with 1: its losses agree to rounding")
    assert not any("process" in line for line in resumed(tmp_path, dropout=0.5))
