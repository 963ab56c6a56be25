"""`mirada export`: a run in the form of another library. A form is an entry of `FORMATS`: a module and its function."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file

from mirada.errors import require, unknown
from mirada.files import expanded, read_json, read_whole, write_whole
from mirada.hub.checkpoint import Checkpoint
from mirada.hub.families import FOR_MODELS, family
from mirada.hub.folder import CONFIG
from mirada.hub.mapping import exported
from mirada.layers.weights import Stored, write_tensors
from mirada.runs.folder import written_whole
from mirada.runs.importing import KEPT, ORIGIN
from mirada.runs.run import Run
from mirada.training.mixtures import NETWORK
from mirada.training.recipe import MODEL
from mirada.words import plural

FORMATS = {  # module:function, which takes the run and where to write, and returns what to tell
    "hf": "mirada.runs.exporting:to_hf",
    "torch": "mirada.runs.programs:to_torch",
    "onnx": "mirada.runs.onnx:to_onnx",
    "ctranslate2": "mirada.runs.ctranslate:to_ctranslate2",
}
TOKENIZER = "tokenizer.json"
OF_HEADS = ("id2label", "label2id", "num_labels", "problem_type")  # of a head that may have been replaced
OF_LABELS = ("labels", "labels_a_text")  # facts that decide a head
OF_OTHERS = ("auto_map", "_name_or_path", "torch_dtype", "dtype")  # what is not taken over
SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>"}


def format_of(name: str) -> str:
    """Where the function of a form is.

    >>> format_of("hff")
    Traceback (most recent call last):
    ValueError: unknown format 'hff'; known: ctranslate2, hf, onnx, torch. Did you mean 'hf'?
    """
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    return FORMATS[name]


def export_run(run: Run, to: str, out: str | Path, attention: Sequence[str] = ()) -> list[str]:
    """Write the model of a run in another form, and return what to tell about it.

    Args:
        run: The run.
        to: The name of the form.
        out: The folder or file to write.
        attention: The layers whose weights become outputs, as `look` names them; of onnx only.
    """
    module, _, name = format_of(to).partition(":")
    require(to == "onnx" or not attention, f"attention= gives a graph of onnx further outputs: {to} has none")
    require(not run.damage, run.damage)
    require(bool(str(out)), "say where to write: -o OUT")
    more = {"attention": attention} if attention else {}
    lines: list[str] = getattr(import_module(module), name)(run, expanded(out), **more)
    if "words" in getattr(run.known, "readers", ()):  # of a classifier of texts
        lines.append(
            "answers of the run itself also come from its plain reader of words, which stays here: theirs may differ"
        )
    plain = getattr(run.known, "plain", None)  # of pictures
    if plain and set(plain.scales) - {NETWORK}:
        lines.append(
            f"answers of the run itself come from {' and '.join(plain.scales)}; only attention is exported: theirs may differ"
        )
    return lines


# A folder that transformers loads.


def to_hf(run: Run, out: Path) -> list[str]:
    """Write a folder that transformers loads: config.json, the weights, and the tokenizer."""
    theirs, found = _described(run)
    dtypes = _stored_dtypes(run)
    tensors = []
    for each in exported(run.model, found.table):
        dtype = dtypes.get(each.ours[0], run.model.get_parameter(each.ours[0]).dtype)
        value = each.value
        tensors.append(Stored(each.name, dtype, each.shape, lambda value=value, dtype=dtype: value().to(dtype)))  # type: ignore[misc]
    tensors += _kept(run)
    lines = []
    with written_whole(out) as part:
        for name, content in files_beside(run):
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(part / name, content)
        named = {"dtype": str(tensors[0].dtype).removeprefix("torch.")}
        write_whole(part / CONFIG, _as_json(theirs | named))
        write_tensors(part / MODEL, tensors)
    named_class = (theirs.get("architectures") or [theirs["model_type"]])[0]
    lines.append(f"{out} holds a {named_class} with {plural(len(tensors), 'tensor')}, which transformers loads")
    if not run.settings.origin and TOKENIZER in run.task.Known.files:
        lines.append(
            "its tokenizer gives the numbers of this run where a text has no line break or tab that was never learned: "
            "there it is an unknown character, and a space here. Special tokens have to be put around by who uses it."
        )
    return lines


def _described(run: Run) -> tuple[dict[str, Any], Checkpoint]:
    """The config.json of the run in the family it came from, or in the first that can express it, and what it says."""
    origin, model = run.settings.origin, run.model
    kind = type(model).__name__
    names = [str(origin["model_type"])] if origin.get("model_type") else list(FOR_MODELS.get(kind, ()))
    require(bool(names), f"no checkpoint of theirs is a {kind}: {run.folder} cannot be exported to hf")
    reasons = []
    for name in names:
        named = {"model_type": name, "architecture": origin.get("architecture", "")}
        facts = {**origin.get("facts", {}), **run.settings.facts, **named}
        try:
            described = family({"model_type": name}).config_json(model, facts)
            return _checked(run, described)
        except ValueError as error:
            reasons.append(f"{name}: {error}")
    raise ValueError(f"{run.folder} cannot be exported to hf. " + "\n".join(reasons))


def _checked(run: Run, described: dict[str, Any]) -> tuple[dict[str, Any], Checkpoint]:
    """The config.json and what it says: theirs as it was, where that is read as the same model; or that of the family, with
    what theirs said besides, where it is still read as the same model with it.
    """
    read, theirs = family(described).checkpoint, _their_config(run)
    plain = read(described, ())
    names = tuple(each.name for each in exported(run.model, plain.table))
    wanted = read(described, names)
    require(wanted.model is type(run.model), f"it would be read as a {wanted.model.__name__}")
    more = {key: value for key, value in theirs.items() if key not in (*OF_OTHERS, *OF_HEADS)} | described
    for whole in ({key: value for key, value in theirs.items() if key not in OF_OTHERS}, more):
        with suppress(ValueError):
            again = read(whole, names)
            heads = ([made.facts.get(key) for key in OF_LABELS] for made in (again, wanted))
            if again.config == wanted.config and next(heads) == next(heads):
                return whole, again
    return described, plain


def _their_config(run: Run) -> dict[str, Any]:
    """The config.json that an imported run came with."""
    path = run.folder / ORIGIN / CONFIG
    return read_json(path) if path.exists() else {}


def _stored_dtypes(run: Run) -> Mapping[str, Any]:
    """The dtypes of an imported file, which its tensors get back; a trained run has those of its model."""
    if not run.source.imported:
        return {}
    with safe_open(str(run.folder / MODEL), framework="pt") as file:
        return {name: file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (it is no mapping)


def _kept(run: Run) -> list[Stored]:
    """The tensors of an imported file that our model does not use."""
    path = run.folder / ORIGIN / KEPT
    held = load_file(path) if f"{ORIGIN}/{KEPT}" in run.settings.files else {}
    return [Stored(name, tensor.dtype, tensor.shape, lambda tensor=tensor: tensor) for name, tensor in held.items()]  # type: ignore[misc]


def files_beside(run: Run) -> Iterator[tuple[str, bytes]]:
    """The files of the tokenizer and of how texts are generated: theirs as they were, or ours."""
    theirs = [name for name in run.settings.files if name.startswith(f"{ORIGIN}/")]
    for name in theirs:
        short = name.removeprefix(f"{ORIGIN}/")
        if short not in (CONFIG, KEPT):
            yield short, read_whole(run.folder / name)
    if not theirs and (run.folder / TOKENIZER).exists():
        yield TOKENIZER, read_whole(run.folder / TOKENIZER)
        about = {"tokenizer_class": "PreTrainedTokenizerFast", **SPECIAL, "clean_up_tokenization_spaces": False}
        yield "tokenizer_config.json", _as_json(about)


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
