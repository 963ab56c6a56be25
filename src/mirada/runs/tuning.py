"""A run that starts from another one: which model it has, what it takes over, how it learns, and where an adapter's base is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.files import digest_of, expanded, read_whole, write_whole
from mirada.layers.model import Model
from mirada.runs.run import Run
from mirada.runs.settings import Settings, read_settings
from mirada.runs.task import Task
from mirada.training.recipe import Tuning
from mirada.training.state import put_weights, weights

# of all of a model, times its width: wide ones learn more slowly
RATE = {"all": 5e-5 * 768, "head": 1e-3, "lora": 1e-3}
BOUNDS = (1e-5, 5e-4)
ORIGIN = "origin"  # the folder of what an export gives back
TRANSFORMS = {  # before the scores of classes; of the others tanh
    "distilbert": "relu", "electra": "gelu", "modernbert": "gelu:norm=yes,bias=no",
}  # fmt: skip
SAME_FOR_ALL = ("modernbert",)  # whose heads for tags and places have that layer, too
BLOCK = 1 << 20  # bytes
EPOCHS = {"all": 3, "head": 10, "lora": 5}  # where nobody says how long


def preset_for(task: Task, asked: str, start: str) -> str:
    """The model of a task that can start from a run, by name: that of the same kind, of the same name where there are several."""
    there = read_settings(expanded(start))
    kind = _kind_of(there)
    same = [name for name in task.presets if task.preset(name).model is kind]
    if there.task == task.name:
        same = [there.name]
    wanted = [asked] if asked else [there.name] if there.name in same else same[:1]
    ours = ", ".join(f"{name} ({task.preset(name).model.__name__})" for name in task.presets)
    require(
        bool(wanted) and wanted[0] in same,
        f"{start} holds the model {there.name} ({kind.__name__}) of {there.task}: it cannot start "
        f"{asked or 'a model'} of {task.name}, which has {ours}",
    )
    return wanted[0]


def _kind_of(there: Settings) -> type[Model]:
    """The class of a run's model."""
    from mirada.runs.registry import entry

    return entry(there.task).task().preset(there.name).model


def inherited(task: Task, name: str, start: str, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The model and the way to read data of the run that another starts from, with the head that its task wants."""
    there = read_settings(expanded(start))
    data, known = there.data.to_dict(), task.Data().to_dict()
    for key in task.Data.fixed:
        require(
            key not in data or given.get(key, data[key]) == data[key],
            f"a run that starts from another reads as that does: {key} is {data.get(key)!r}, not {given.get(key)!r}. "
            "Leave it out.",
        )
    same = there.task == task.name
    kept = task.Data.fixed if not same else [key for key in data if key not in task.Data.of_files]
    model = there.config.to_dict()
    if not same:
        preset = task.preset(name)
        usual = preset.model.Config.from_dict(dict(preset.fields)).to_dict()
        model |= {key: usual[key] for key in preset.model.head_fields}
        model |= preset.model.usual_head(there.config)
        model |= _head_fields(there, model)
    return {
        "model": model,
        "data": {key: data[key] for key in kept if key in data and key in known},
        "origin": dict(there.origin),
    }


def _head_fields(there: Settings, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a new head, mostly for classes: of a model without a head, its pooler and how it pools; of another
    imported one, those that its family has, so that it can be exported again.
    """
    head, kind = getattr(there.config, "head", ""), str(there.origin.get("model_type"))
    if fields.get("head") in ("tags", "span") and kind in SAME_FOR_ALL:
        return {"transform": TRANSFORMS[kind]}
    if fields.get("head") != "classes" or not head:
        return {}
    if head == "none":
        return {key: getattr(there.config, key) for key in ("pool", "transform")}
    if not there.origin:
        return {}
    return {"pool": "first", "transform": TRANSFORMS.get(kind, "tanh")}


def is_tuned(task: Task, start: str, keys: Mapping[str, Any]) -> bool:
    """Whether a run is fine-tuned: it starts from a run of another task, from an imported model, or says what learns."""
    there = read_settings(expanded(start))
    return there.task != task.name or bool(there.origin) or "tune" in keys


def tuned_recipe(word: str, model: Mapping[str, Any]) -> dict[str, Any]:
    """How a model is fine-tuned, unless somebody says otherwise: docs/decisions/0028-fine-tuning.md.

    >>> tuned_recipe("all", {"width": 384})["lr"], tuned_recipe("lora:8", {})["lr"]
    (0.0001, 0.001)
    """
    kind = Tuning.parse(word).kind
    lr = RATE[kind]
    if kind == "all":
        lr = min(BOUNDS[1], max(BOUNDS[0], round(lr / model.get("width", 768), 6)))
    decay = 0.9 if kind == "all" else 1.0
    return {"lr": lr, "layer_decay": decay, "decay": 0.01, "warmup": 100, "schedule": "cosine", "epochs": EPOCHS[kind]}


# Weights.


def start_from(model: Model, origin: Run, task: str, known: Any) -> None:
    """Copy the weights of another run's model; a head for other labels, or for another task, stays as it is, new.

    Args:
        model: the new model.
        origin: the run.
        task: the task of the new one.
        known: what the new one knows.
    """
    same = origin.task.name == task and getattr(origin.known, "labels", ()) == getattr(known, "labels", ())
    fresh = () if same else model.head_parts
    fresh = tuple(part for part in fresh if part not in model.reused_parts(origin.model.config, model.config))
    theirs = weights(origin.model)
    for name, value in weights(model).items():
        if name.partition(".")[0] in fresh:
            theirs[name] = value.clone()
    put_weights(model, theirs, origin.folder)


def copy_origin(origin: Run, folder: Path) -> dict[str, str]:
    """Copy the files that an imported model came with, which an export gives back; their checksums by name come back."""
    theirs = {name: mark for name, mark in origin.settings.files.items() if name.startswith(f"{ORIGIN}/")}
    for name in theirs:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, read_whole(origin.folder / name))
    return theirs


def base_folder(settings: Settings, folder: Path) -> Path:
    """The folder of the run that an adapter stands on: where it was, or beside the adapter's own."""
    there = Path(settings.start)
    if there.is_dir():
        return there
    beside = folder.absolute().parent / there.name
    require(
        beside.is_dir(),
        f"{folder} is an adapter of {there}, which is not there. Put that folder back, or beside {folder.name}.",
    )
    return beside


def base_checksum(folder: Path) -> str:
    """The checksum of the weights in a run's folder."""
    path, digest = folder / read_settings(folder).recipe.weights_file, digest_of()
    require(path.is_file(), f"{folder} has no {path.name}: its training stopped too early. Go on with --resume.")
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return str(digest.hexdigest())
