"""`mirada.import_model`: an ordinary run from a checkpoint of another library, which is read a tensor at a time.

What cannot be read, or not be represented, is an error before anything is written; the folder appears whole, or not at all.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import save

from mirada.errors import require, unknown
from mirada.files import checksum_of, expanded, read_whole, write_whole
from mirada.hub.checkpoint import Checkpoint, architecture
from mirada.hub.families import family
from mirada.hub.folder import HubFolder, open_folder
from mirada.hub.mapping import Filled, converted, kept_names
from mirada.hub.sentence import pooling
from mirada.hub.tokenizer import contents_of
from mirada.layers.model import Model, require_explained
from mirada.layers.weights import Stored, without_weights, write_tensors
from mirada.runs.folder import require_new, written_whole
from mirada.runs.load import load, require_same_sizes
from mirada.runs.registry import entry
from mirada.runs.run import Run
from mirada.runs.settings import CONFIG, Settings
from mirada.runs.sources import IMPORTED, Source
from mirada.runs.tuning import ORIGIN
from mirada.training.recipe import MODEL, Recipe
from mirada.training.state import check_room
from mirada.words import shortened

TOKENIZER = "tokenizer.json"
KEPT = "kept.safetensors"  # beside what an export gives back: tensors that our model does not use
WRITABLE = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
Print = Callable[[str], None]


def import_model(path: str | Path, out: str | Path = "", task: str = "") -> Run:
    """A run from a checkpoint of Hugging Face on this disk; nothing is downloaded, and none of its code is run.

    Args:
        path: A folder with config.json and model.safetensors (or what its index names), or one of sentence-transformers.
        out: The folder of the run; without it, runs/ and the name of the checkpoint's folder.
        task: What the run does; without it, what the head of the checkpoint is for.

    Returns:
        The run, which answers as one that was trained here.

    >>> import_model("no-such-folder")
    Traceback (most recent call last):
    ValueError: there is no folder no-such-folder. mirada downloads nothing: give the folder of a checkpoint on this disk.
    """
    return load(import_folder(path, out, task))


def import_folder(
    path: str | Path, out: str | Path = "", task: str = "", print_progress: Print = lambda text: None
) -> Path:
    """Write the run of a checkpoint, and return its folder: `import_model` without loading it."""
    opened = open_folder(path)
    folder = _new_folder(out, opened)
    found = _understood(opened, task)
    for note in (*opened.notes, *found.notes):
        print_progress(note)
    if "vectors" in found.facts:
        print_progress(f"a vector is {found.facts['vectors']}")
    model = require_explained(found.model, found.config, opened.weights.stored)
    tokenizer = dict[str, bytes]()
    if TOKENIZER in entry(found.task).task().for_model(found.preset).Known.files:
        with _naming_values(opened):
            tokenizer, note = contents_of(opened, found.config.to_dict().get("vocab", 0))
        if note:
            print_progress(note)
    weights = list(converted(model or _empty(found), found.table, opened.weights))
    dtypes = Counter(filled.dtype for filled in weights)
    others = " and ".join(_name(dtype) for dtype in dtypes if dtype != torch.float32)
    require(set(dtypes) <= set(WRITABLE), f"the weights are {others}: import takes {', '.join(map(_name, WRITABLE))}")
    if others:
        print_progress(f"the weights are {others}: the file keeps them so, and a run computes with them in float32")
    size = sum(filled.shape.numel() * filled.dtype.itemsize for filled in weights)
    check_room(folder.parent, size)
    with written_whole(folder) as part:
        _write(part, opened, found, tokenizer, weights, dtypes.most_common(1)[0][0])
    return folder


def _empty(found: Checkpoint) -> Model:
    """The model without weights, where it cannot be described on the meta device."""
    with without_weights():
        return found.model(found.config)


def _new_folder(out: str | Path, opened: HubFolder) -> Path:
    """The folder to write, which must not hold anything."""
    folder = expanded(out) if out else Path("runs") / (opened.path.resolve().stem or "imported")
    require_new(folder)
    inside = folder.resolve().is_relative_to(opened.path.resolve())
    require(not inside, f"{folder} lies in the folder that is imported. Choose another --out.")
    return folder


def _understood(opened: HubFolder, wanted: str) -> Checkpoint:
    """What the folder holds, for its own task or for the wanted one."""
    with _naming_values(opened):
        found = family(opened.config).checkpoint(opened.config, opened.weights.keys())
    if wanted and wanted != found.task:
        entry(wanted)  # an unknown task is named so
        found = _for_task(found, wanted, opened)
    task = entry(found.task).task()
    if found.preset not in task.presets or task.preset(found.preset).model is not found.model:
        raise unknown(f"model for {found.task}", found.preset, task.presets)
    return found


@contextmanager
def _naming_values(opened: HubFolder) -> Iterator[None]:
    """Errors of values that are of another kind than their names say become one line."""
    try:
        yield
    except (TypeError, KeyError, AttributeError, IndexError, OverflowError, ZeroDivisionError) as error:
        reason = shortened(" ".join(str(error).split()), 200)
        raise ValueError(f"{opened.path} has a value of the wrong kind ({type(error).__name__}: {reason})") from None


def _for_task(found: Checkpoint, wanted: str, opened: HubFolder) -> Checkpoint:
    """The same encoder without its head, for vectors. Other tasks need a head of their own, which is trained."""
    fields, there = found.config.to_dict(), found.task
    message = f"{opened.path} is a checkpoint for {there}, not for {wanted}: "
    message += (
        "only an encoder of texts is imported without its head"
        if wanted == "embed"
        else f"import it as that, and train {wanted} from the run (mirada train {wanted} --from DIR)"
    )
    require(wanted == "embed" and fields.get("head", "none") != "none", message)
    parts = getattr(found.model, "head_parts", ())
    pool, facts = pooling(opened.config)
    without = type(found.config).from_dict({**fields, "head": "none", "transform": "none", "pool": pool})
    with without_weights():
        names = [name for name, _ in found.model(found.config).named_parameters(remove_duplicate=False)]
    rows = [row for pattern in found.table.rows for row in pattern.written_out(names)]
    dropped = {row.theirs for row in rows if all(name.split(".")[0] in parts for name in row.names)}
    table = found.table._replace(ignored=(*found.table.ignored, *sorted(dropped)))
    return found._replace(config=without, table=table, task=wanted, facts=facts)


def _write(
    part: Path,
    opened: HubFolder,
    found: Checkpoint,
    tokenizer: Mapping[str, bytes],
    weights: list[Filled],
    dtype: torch.dtype,
) -> None:
    """Write all files of the run."""
    task, files = entry(found.task).task().for_model(found.preset), dict[str, str]()
    for name, path in opened.files.items():
        content, place = read_whole(path), part / ORIGIN / name
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, content, sync=False)
        files[f"{ORIGIN}/{name}"] = checksum_of(content)
    if kept := {name: opened.weights[name] for name in kept_names(found.table, opened.weights)}:
        content = save(kept)
        write_whole(part / ORIGIN / KEPT, content, sync=False)
        files[f"{ORIGIN}/{KEPT}"] = checksum_of(content)
    for name, content in tokenizer.items():
        write_whole(part / name, content, sync=False)
    with _naming_values(opened):
        known = task.Known.restore(found.facts, {name: part / name for name in task.Known.files})
    require_same_sizes(opened.path, task, known, found.config, imported=True)
    for name, content in known.contents().items():
        write_whole(part / name, content, sync=False)
        files[name] = checksum_of(content)
    write_tensors(part / MODEL, [Stored(*filled) for filled in weights], sync=False, located=opened.weights.located)
    origin = {
        "format": "huggingface", "model_type": opened.config.get("model_type", ""),
        "architecture": architecture(opened.config), "dtype": _name(dtype), "facts": dict(found.facts),
    }  # fmt: skip
    settings = Settings(
        task=found.task, name=found.preset, config=found.config, recipe=Recipe(),
        data=task.options_for_new_data(task.Data(), known), source=Source(IMPORTED), facts=known.facts(),
        files=files, origin=origin,
    )  # fmt: skip
    write_whole(part / CONFIG, settings.to_bytes(), sync=False)


def _name(dtype: torch.dtype) -> str:
    """The name of a dtype: float16, ..."""
    return str(dtype).removeprefix("torch.")
