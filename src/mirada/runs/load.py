"""`mirada.load`: a run from the folder that a training made."""

from pathlib import Path
from typing import Any

from mirada.config import Config
from mirada.errors import require
from mirada.files import checksum_of, expanded, read_whole
from mirada.layers.model import Model, require_explained
from mirada.runs.registry import entry
from mirada.runs.run import Run
from mirada.runs.settings import CONFIG, Settings, read_settings
from mirada.runs.task import Task
from mirada.training.distributed import choose_device
from mirada.training.state import put_weights, read_weights, weights

MOST_BASES = 16  # adapters of adapters


def load(folder: str | Path, device: str = "cpu", precision: str = "float32") -> Run:
    """The run in a folder that `mirada train` or `mirada.train` made.

    Args:
        folder: Where it was written, such as "runs/translate".
        device: Where the model computes: "cpu", "cuda", "cuda:1", ...; "auto" takes a GPU where there is one.
        precision: What texts are written with: "float32", or "bfloat16" or "int8": rounded weights, texts may differ.

    Returns:
        The run, which answers: `load("runs/translate")("the red house").text`.

    >>> load("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder is not a folder. A run's folder is what `mirada train` printed, such as runs/translate.
    """
    folder = expanded(folder)
    settings = read_settings(folder)
    path = folder / settings.recipe.weights_file
    require(path.exists(), f"{folder} has no model yet: its training stopped too early. Go on with --resume.")
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
    known = task.Known.restore(settings.facts, {name: folder / name for name in task.Known.files})
    kind = task.preset(settings.name).model
    model = (_adapted(settings, folder, known) if settings.recipe.tuning.rank else kind.load(folder)).to(
        choose_device(device)
    )
    require_same_sizes(folder, task, known, settings.config, bool(settings.origin))
    run = Run(folder, task, model, known, settings, damage=_not_finite(model, path), precision=precision)
    if precision != "float32":
        check_writes(run)
    return run


def check_writes(run: Run) -> None:
    """Require a run that an engine writes texts with: a precision would change nothing in others."""
    require(
        hasattr(run.model, "step"),
        f"precision={run.precision} is for runs that write texts: {run.task.name} does not. Leave it out.",
    )
    run.stepper  # noqa: B018 (made now, so that what cannot be done is said before anything is answered)


def _adapted(settings: Settings, folder: Path, known: Any) -> Model[Any]:
    """The model of an adapter: that of its base, with the adapter merged into it, and its own head."""
    from mirada.runs.tuning import base_checksum, base_folder, start_from  # few runs are adapters
    from mirada.training.tuning import attach, release

    place, path = base_folder(settings, folder), folder / settings.recipe.weights_file
    require(
        place.resolve() != folder.resolve() and base_checksum(place) == settings.base,
        f"{place} has not the weights that the adapter in {folder} was trained on. Restore them.",
    )
    _require_end(place)
    base, kind = load(place), entry(settings.task).task().preset(settings.name).model
    body = {key: value for key, value in base.model.config.to_dict().items() if key not in kind.head_fields}
    same = isinstance(base.model, kind) and body.items() <= settings.config.to_dict().items()
    require(same, f"{place} holds another model than the adapter in {folder} was trained on. Restore it.")
    tensors = read_weights(path)
    require_explained(kind, settings.config, sum(p.nbytes for p in base.model.parameters()) + path.stat().st_size)
    model = kind(settings.config)
    start_from(model, base, settings.task, known)
    attach(model, settings.recipe.tuning)
    strange = sorted(tensors.keys() - weights(model).keys())
    require(not strange, f"{path} has tensors that the model has not: {', '.join(strange[:3])}. Restore it.")
    put_weights(model, tensors, path)
    release(model)
    return model.eval()


def _require_end(folder: Path) -> None:
    """Require that adapters which stand on each other stand on a whole model at last."""
    from mirada.runs.tuning import base_folder

    seen = set[Path]()
    while (settings := read_settings(folder)).recipe.tuning.rank:
        require(folder.resolve() not in seen, f"{folder} is an adapter that stands on itself. Restore its config.json.")
        require(len(seen) < MOST_BASES, f"more than {MOST_BASES} adapters stand on each other, down to {folder}")
        seen.add(folder.resolve())
        folder = base_folder(settings, folder)


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
        if not values.is_floating_point() or not values.numel():
            continue
        if not all(bound.isfinite() for bound in values.aminmax()):  # which makes no copy of a large table
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
