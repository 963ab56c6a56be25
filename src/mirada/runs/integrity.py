"""Whether the folder of a run is whole: every file is there, is what was written, and belongs to the others."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import damage, digest_of, require_own
from mirada.runs.load import changed_files, load
from mirada.runs.registry import entry
from mirada.runs.seeds import SEEDS, read_seeds, seed_folders
from mirada.runs.settings import CONFIG, Settings, read_settings
from mirada.training.log import read_start
from mirada.training.loop import CHECKPOINTS
from mirada.training.recovery import is_later
from mirada.training.state import AVERAGED, LAST, TrainingState, kept_path, read_checkpoint, state_of, step_of

LOG = "metrics.jsonl"


def inspect(folder: Path) -> Iterator[tuple[str, str]]:
    """The files of a run, one after the other, and what is wrong with each; nothing where it is whole."""
    settings, wrong = _attempt(lambda: read_settings(folder))
    yield CONFIG, wrong
    if settings is None:
        return
    yield from _inspect_seeds(folder, settings) if settings.recipe.seeds > 1 else _inspect_run(folder, settings)


def _inspect_run(folder: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    """What one training wrote in addition to its settings."""
    yield from _known_files(folder, settings)
    if settings.source.imported:  # nothing was trained here
        yield settings.recipe.weights_file, _attempt(lambda: load(folder))[1]
        return
    state, wrong = _attempt(lambda: _read_state(folder))
    if (folder / CHECKPOINTS / LAST).exists():
        yield f"{CHECKPOINTS}/{LAST}", wrong
    else:
        yield f"{CHECKPOINTS}/{LAST}", "missing: the run can answer, and --resume would start it over"
    if state is not None:
        yield from _beside(folder, state)
    if state is None or math.isfinite(state.best) or (folder / settings.recipe.weights_file).exists():
        yield (
            settings.recipe.weights_file,
            _attempt(lambda: load(folder))[1] or _foreign(folder / settings.recipe.weights_file, state, settings),
        )


def _inspect_seeds(folder: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    """What `seeds=N` wrote: a run for every seed that was begun, and, when all are done, the best of them as the whole's."""
    path = folder / settings.recipe.weights_file
    ended = (folder / SEEDS).exists() or path.exists()
    seeds: dict[str, Any] | None = None
    if ended:
        yield from _known_files(folder, settings)
        seeds, wrong = _attempt(lambda: read_seeds(folder))
        yield SEEDS, wrong if seeds is None or seeds else "missing: --resume writes it again"
        yield (
            settings.recipe.weights_file,
            _attempt(lambda: load(folder))[1] or _unlike_chosen(folder, settings.recipe.weights_file, seeds or {}),
        )
    there = seed_folders(folder)
    for place in there:
        for name, wrong in _inspect_seed(place):
            yield f"{place.name}/{name}" if name else place.name, wrong
    named = [f"seed-{one['seed']}" for one in (seeds or {}).get("runs", [])]
    for name in sorted({*named} - {place.name for place in there}):
        yield f"{name}/{CONFIG}", "missing"


def _inspect_seed(place: Path) -> Iterator[tuple[str, str]]:
    """The run of one seed, which lies in the folder of the whole."""
    linked = _attempt(lambda: require_own([place]))[1]
    if linked:
        yield "", linked
        return
    settings, wrong = _attempt(lambda: read_settings(place))
    yield CONFIG, wrong
    if settings is not None:
        yield from _inspect_run(place, settings)


def _unlike_chosen(folder: Path, name: str, seeds: dict[str, Any]) -> str:
    """What is wrong with the weights of the folder, compared with those of the chosen seed."""
    chosen = folder / f"seed-{seeds['chosen']}" / name if seeds else folder / name
    same = _attempt(lambda: chosen.read_bytes() == (folder / name).read_bytes())[0] if chosen.is_file() else True
    return "" if same else f"not the weights of {chosen.parent.name}, which was chosen"


def _foreign(path: Path, state: TrainingState | None, settings: Settings) -> str:
    """What is wrong with weights that can be read, by the checkpoint next to them: they may be of another run."""
    if state is None or not state.model_checksum or is_later(step_of(path), state, settings.recipe):
        return ""
    return _attempt(lambda: damage(path, state.model_checksum))[0] or ""


def _known_files(folder: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    """What the task learned from its data."""
    changed = changed_files(settings, folder)
    task = entry(settings.task).task().for_model(settings.name)
    optional = getattr(task.Known, "optional", ())  # files that not every run has
    needed = (name for name in task.Known.files if name not in optional)
    for name in dict.fromkeys((*needed, *settings.files)):
        missing = settings.files and not (folder / name).exists()
        yield name, "missing" if missing else "not as it was written" if name in changed else ""


def _read_state(folder: Path) -> TrainingState:
    """The state in the last checkpoint."""
    path = folder / CHECKPOINTS / LAST
    require_own([path.parent, path])
    require(path.exists(), "missing")
    return state_of(read_checkpoint(path)[1], path)


def _beside(folder: Path, state: TrainingState) -> Iterator[tuple[str, str]]:
    """What else the state needs: weights to average, and the log up to it.

    What comes after the state in the log, the metrics at the end, has no checksum: `mirada eval` makes it again.
    """
    for step in state.kept:
        path = kept_path(folder / CHECKPOINTS, step)
        good = step_of(path) in (step, AVERAGED)
        yield f"{CHECKPOINTS}/{path.name}", "" if good else "missing or damaged"
    start, wrong = _attempt(lambda: read_start(folder / LOG, state.log_size))
    if start is not None and len(start) < state.log_size:
        wrong = "missing or shorter than it was"
    elif start is not None and state.log_checksum not in ("", digest_of(start).hexdigest()):
        wrong = "not as it was written"
    yield LOG, wrong


def _attempt(read: Callable[[], Any]) -> tuple[Any, str]:
    """What a reader gives, or why it does not."""
    try:
        return read(), ""
    except (ValueError, OSError, json.JSONDecodeError) as error:
        return None, str(error)
