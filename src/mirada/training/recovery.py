"""What a saved state needs beside it, looked at before a run goes on: what can be made again is, the rest is refused at once."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from mirada.training.training_state import (
    AVERAGED,
    TrainingState,
    kept_path,
    read_weights,
    save_weights,
    step_of,
    weights,
)

if TYPE_CHECKING:
    from mirada.training.loop import Training


def restore_files(training: "Training", state: TrainingState, model: Path) -> None:
    """Look at the best weights and at those that will be averaged. The model has the weights of `state.step`.

    Every process looks and comes to the same end; the leader writes.
    """
    for step in state.kept:
        path = kept_path(training.checkpoints, step)
        if step_of(path) in (step, AVERAGED) and fit(path, training.model):
            continue
        if step != state.step:
            raise ValueError(
                f"{path} is missing or damaged: it has the weights of step {step:,}, which this run will average. "
                "Restore a copy, or start over with another --out."
            )
        rewrite(training, path, weights(training.model), step)
    restore_best(training, state, model)


def fit(path: Path, model: nn.Module) -> bool:
    """Whether whole weights are those of this model: each by its name and shape."""
    wanted = {name: value.shape for name, value in weights(model).items()}
    return {name: value.shape for name, value in read_weights(path).items()} == wanted


def restore_best(training: "Training", state: TrainingState, model: Path) -> None:
    """The best weights so far, in the model's own file: they are of the best step, or the file is written again."""
    if not math.isfinite(state.best):
        return
    found, kept = step_of(model), kept_path(training.checkpoints, state.best_step)
    if found in (state.best_step, AVERAGED):
        return
    if step_of(kept) == state.best_step:
        rewrite(training, model, read_weights(kept), state.best_step)
    elif state.finished or state.best_step == state.step:
        rewrite(training, model, weights(training.model), AVERAGED if state.finished else state.step)
    elif found is None or found < state.step or training.recipe.budget:
        raise ValueError(
            f"{model} is missing, damaged or of another moment: it should have the best weights so far, those of step "
            f"{state.best_step:,}. Restore a copy, or start over with another --out."
        )
    # else a process was stopped between writing better weights and saying so: this one will find them again


def rewrite(training: "Training", path: Path, tensors: dict[str, Tensor], step: int) -> None:
    """Write a file again and say so."""
    if training.group.leads:
        save_weights(path, tensors, step)
    training.print_progress(
        f"{path} was missing, damaged or of another moment: it was written again from the checkpoints"
    )
