"""The files that a saved state needs, checked before a run resumes: what can be written again is, the rest is refused at once."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor, nn

from mirada.errors import require
from mirada.files import damage
from mirada.training.distributed import ProcessGroup
from mirada.training.recipe import Recipe
from mirada.training.state import AVERAGED, TrainingState, kept_path, read_weights, save_weights, step_of, weights


def restore_files(
    state: TrainingState,
    network: nn.Module,
    model: Path,
    checkpoints: Path,
    recipe: Recipe,
    group: ProcessGroup,
    print_progress: Callable[[str], None],
) -> None:
    """Look at the best weights and at those that will be averaged; write again what can be made again, refuse the rest.

    Every process looks and comes to the same end; the leader writes.

    Args:
        state: The saved state; the checksum of the best weights is updated where they are written again.
        network: The model, with the weights of `state.step`.
        model: The file of the best weights.
        checkpoints: The folder of the state, and of the weights to average.
        recipe: Whether there is a budget, and an average.
        group: The processes.
        print_progress: Is given what was written again.
    """

    def rewrite(path: Path, tensors: Mapping[str, Tensor], step: int) -> None:
        checksum = save_weights(path, tensors, step) if group.leads else ""
        if path == model and checksum:
            state.model_checksum = checksum
        print_progress(f"{path} was missing, damaged or of another moment: it was written again from the checkpoints")

    for step in state.kept:
        path = kept_path(checkpoints, step)
        if step_of(path) in (step, AVERAGED) and _fit(path, network):
            continue
        if step != state.step:
            raise ValueError(
                f"{path} is missing or damaged: it has the weights of step {step:,}, which this run will average. "
                "Restore a copy, or start over with another --out."
            )
        rewrite(path, weights(network), step)
    if math.isfinite(state.best):
        written, kept = step_of(model), kept_path(checkpoints, state.best_step)
        fits = written is not None and _fit(model, network)
        if fits and _is_best(model, written, state):
            pass
        elif state.finished:
            rewrite(model, weights(network), AVERAGED)
        elif step_of(kept) == state.best_step and _fit(kept, network):
            rewrite(model, read_weights(kept), state.best_step)
        elif state.best_step == state.step:
            rewrite(model, weights(network), state.step)
        elif not (fits and is_later(written, state, recipe)) or (recipe.budget and written != AVERAGED):
            raise ValueError(
                f"{model} is missing, damaged, of another moment or of another run: it should have the best weights so far, "
                f"those of step {state.best_step:,}. Restore a copy, or start over with another --out."
            )
    before, now = state.processes, group.world
    if before not in (0, now):  # each draws for its own part of a batch
        print_progress(
            f"this run was trained by {before} process{'es' * (before > 1)} and continues with {now}: its losses agree to "
            "rounding, but for what dropout draws"
        )


def _fit(path: Path, model: nn.Module) -> bool:
    """Whether whole weights are those of this model: each by its name and shape."""
    wanted = {name: value.shape for name, value in weights(model).items()}
    return {name: value.shape for name, value in read_weights(path).items()} == wanted


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
