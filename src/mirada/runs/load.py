"""`mirada.load`: a run from the folder that a training made."""

from pathlib import Path
from typing import Any

from mirada.config import Config
from mirada.errors import require
from mirada.files import checksum_of, expanded, read_whole
from mirada.layers.model import Model
from mirada.runs.registry import entry
from mirada.runs.run import Run
from mirada.runs.settings import CONFIG, Settings, read_settings
from mirada.runs.task import Task
from mirada.training.distributed import choose_device

MODEL = "model.safetensors"


def load(folder: str | Path, device: str = "cpu") -> Run:
    """The run in a folder that `mirada train` or `mirada.train` made.

    Args:
        folder: Where it was written, such as "runs/translate".
        device: Where the model computes: "cpu", "cuda", "cuda:1", ...; "auto" takes a GPU where there is one.

    Returns:
        The run, which answers: `load("runs/translate")("the red house").text`.

    >>> load("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder is not a folder. A run's folder is what `mirada train` printed, such as runs/translate.
    """
    folder = expanded(folder)
    settings = read_settings(folder)
    require(
        (folder / MODEL).exists(), f"{folder} has no model yet: its training stopped too early. Go on with --resume."
    )
    task = entry(settings.task).task().for_model(settings.name)
    damaged = changed_files(settings, folder)
    word, way = (
        ("imported", "import again") if settings.source.imported else ("trained", "repair the run with --resume")
    )
    require(
        not damaged,
        f"{' and '.join(str(folder / name) for name in damaged)} is missing or damaged: it is not what this run was {word} "
        f"with. Restore the file, or {way}.",
    )
    model = task.preset(settings.name).model.load(folder).to(choose_device(device))
    known = task.Known.restore(settings.facts, {name: folder / name for name in task.Known.files})
    require_same_sizes(folder, task, known, settings.config, bool(settings.origin))
    return Run(folder, task, model, known, settings, damage=_not_finite(model, folder / MODEL))


def require_same_sizes(folder: Path, task: Task[Any, Any, Any], known: Any, config: Config, imported: bool) -> None:
    """Require a model of the sizes that are known. What was imported may have rows for more tokens than its tokenizer has."""
    for name, size in task.sizes(known).items():
        there = getattr(config, name)
        fits = size <= there if imported and name.endswith("vocab") else size == there
        what = "the tokenizer does not fit the model" if imported else "they are not of one run. Restore the file"
        require(
            fits, f"{folder}: {' and '.join(task.Known.files)} has {name}={size}, {CONFIG} has {name}={there}: {what}."
        )


def _not_finite(model: Model[Any], path: Path) -> str:
    """The error for weights that are no numbers: what is computed with them may still look like an answer."""
    for name, values in model.state_dict().items():
        if values.is_floating_point() and not bool(values.isfinite().all()):
            return (
                f"{path} has weights that are no finite numbers ({name}): nothing can be answered with it. Restore it."
            )
    return ""


def changed_files(settings: Settings, folder: Path) -> list[str]:
    """The files of what a task knows that are missing, or not as they were written. Runs from before do not say."""
    changed = []
    for name, checksum in settings.files.items():
        try:
            same = checksum_of(read_whole(folder / name)) == checksum
        except (OSError, ValueError):
            same = False
        changed += [] if same else [name]
    return changed
