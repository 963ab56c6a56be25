"""What a saved state needs beside it, looked at before a run goes on: what can be made again is, the rest is refused at once."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from mirada.errors import require
from mirada.files import damage
from mirada.training.recipe import Recipe
from mirada.training.state import AVERAGED, TrainingState, kept_path, read_weights, save_weights, step_of, weights

if TYPE_CHECKING:
    from mirada.training.loop import Training


def restore_files(training: "Training", state: TrainingState, model: Path) -> None:
    """Look at the best weights and at those that will be averaged. The model has the weights of `state.step`.

    Every process looks and comes to the same end; the leader writes.
    """
    for step in state.kept:
        path = kept_path(training.checkpoints, step)
        if step_of(path) in (step, AVERAGED) and _fit(path, training.model):
            continue
        if step != state.step:
            raise ValueError(
                f"{path} is missing or damaged: it has the weights of step {step:,}, which this run will average. "
                "Restore a copy, or start over with another --out."
            )
        if training.group.leads:
            save_weights(path, weights(training.model), step)
        _tell_rewritten(training, path)
    _restore_best(training, state, model)
    before, now = state.processes, training.group.world
    if before not in (0, now):  # each draws for its own part of a batch
        training.print_progress(
            f"this run was trained by {before} process{'es' * (before > 1)} and goes on with {now}: its losses agree to "
            "rounding, but for what dropout draws"
        )


def _fit(path: Path, model: nn.Module) -> bool:
    """Whether whole weights are those of this model: each by its name and shape."""
    wanted = {name: value.shape for name, value in weights(model).items()}
    return {name: value.shape for name, value in read_weights(path).items()} == wanted


def _restore_best(training: "Training", state: TrainingState, model: Path) -> None:
    """The best weights so far, in the model's own file: they are those that the state was saved with, or are written again."""
    if not math.isfinite(state.best):
        return
    found, kept = step_of(model), kept_path(training.checkpoints, state.best_step)
    fits = found is not None and _fit(model, training.model)
    if fits and _is_best(model, found, state):
        return
    if state.finished:
        _rewrite(training, state, model, weights(training.model), AVERAGED)
    elif step_of(kept) == state.best_step and _fit(kept, training.model):
        _rewrite(training, state, model, read_weights(kept), state.best_step)
    elif state.best_step == state.step:
        _rewrite(training, state, model, weights(training.model), state.step)
    elif not (fits and is_later(found, state, training.recipe)) or (training.recipe.budget and found != AVERAGED):
        raise ValueError(
            f"{model} is missing, damaged, of another moment or of another run: it should have the best weights so far, those of "
            f"step {state.best_step:,}. Restore a copy, or start over with another --out."
        )


def _is_best(path: Path, step: int | None, state: TrainingState) -> bool:
    """Whether whole weights are those that a state was saved with. A state from before knows the step alone."""
    if state.model_checksum:
        return not damage(path, state.model_checksum)
    return step in (state.best_step, AVERAGED)


def is_later(step: int | None, state: TrainingState, recipe: Recipe) -> bool:
    """Whether whole weights may be of a process that was stopped between writing them and saying so: the run will find them
    again, and the end looks whether it did.
    """
    averaged = step == AVERAGED and recipe.average > 1
    return not state.finished and step is not None and (averaged or step > state.step)


def require_best(path: Path, state: TrainingState) -> None:
    """At the end: the model's file must have the weights that this run wrote."""
    wrong = damage(path, state.model_checksum)
    require(
        not wrong,
        f"{path} was changed by others while the run went on: {wrong}. The best weights, those of step {state.best_step:,}, are "
        "lost. Restore a copy, or start over with another --out.",
    )


def _rewrite(training: "Training", state: TrainingState, path: Path, tensors: dict[str, Tensor], step: int) -> None:
    """Write the best weights again and say so."""
    if training.group.leads:
        state.model_checksum = save_weights(path, tensors, step)
    _tell_rewritten(training, path)


def _tell_rewritten(training: "Training", path: Path) -> None:
    training.print_progress(
        f"{path} was missing, damaged or of another moment: it was written again from the checkpoints"
    )
