"""Whether the folder of a run is whole: every file is there, is what was written, and belongs to the others."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mirada.checksums import digest_of
from mirada.files import require_own
from mirada.runs.catalog import entry
from mirada.runs.load import MODEL, changed_files, load
from mirada.runs.settings import CONFIG, Settings, read_settings
from mirada.training.checkpoint import read_checkpoint
from mirada.training.loop import CHECKPOINTS
from mirada.training.metrics_log import read_start
from mirada.training.training_state import AVERAGED, LAST, check_facts, kept_path, step_of

LOG = "metrics.jsonl"


def inspect(folder: Path) -> Iterator[tuple[str, str]]:
    """The files of a run, one after the other, and what is wrong with each; nothing where it is whole."""
    settings, wrong = attempt(lambda: read_settings(folder))
    yield CONFIG, wrong
    if settings is None:
        return
    yield from known_files(folder, settings)
    state, wrong = attempt(lambda: read_state(folder))
    if (folder / CHECKPOINTS / LAST).exists():
        yield f"{CHECKPOINTS}/{LAST}", wrong
    else:
        yield f"{CHECKPOINTS}/{LAST}", "missing: the run can answer, and --resume would start it over"
    if state is not None:
        yield from beside(folder, state)
    if state is None or math.isfinite(state["best"]) or (folder / MODEL).exists():
        yield MODEL, attempt(lambda: load(folder))[1]


def known_files(folder: Path, settings: Settings) -> Iterator[tuple[str, str]]:
    """What the task learned from its data."""
    changed = changed_files(settings, folder)
    for name in entry(settings.task).task().Known.files:
        missing = settings.files and not (folder / name).exists()
        yield name, "missing" if missing else "not as it was written" if name in changed else ""


def read_state(folder: Path) -> dict[str, Any]:
    """The facts of the last checkpoint."""
    path = folder / CHECKPOINTS / LAST
    require_own([path.parent, path])
    _, facts = read_checkpoint(path)
    current = {name: value for name, value in facts.items() if name not in ("stale", "journal")}
    check_facts(current, path)
    return current


def beside(folder: Path, state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the state needs beside it: weights to average, and the log up to it."""
    for step in state.get("kept", []):
        path = kept_path(folder / CHECKPOINTS, step)
        good = step_of(path) in (step, AVERAGED)
        yield f"{CHECKPOINTS}/{path.name}", "" if good else "missing or damaged"
    size, checksum = state.get("log_size", 0), state.get("log_checksum", "")
    start, wrong = attempt(lambda: read_start(folder / LOG, size))
    if start is not None and len(start) < size:
        wrong = "missing or shorter than it was"
    elif start is not None and checksum not in ("", digest_of(start).hexdigest()):
        wrong = "not as it was written"
    yield LOG, wrong


def attempt(read: Callable[[], Any]) -> tuple[Any, str]:
    """What a reader gives, or why it does not."""
    try:
        return read(), ""
    except (ValueError, OSError, json.JSONDecodeError) as error:
        return None, str(error)
