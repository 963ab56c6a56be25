"""A folder of Hugging Face, opened without trusting it: configuration, files of the tokenizer, and weights a tensor at a time.

Nothing of it is run and nothing outside of it is read: links may lead to files of the folder, or of the cache of downloads that
the folder is in. Every file has a size that is looked at first; weights are safetensors, never pickle.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from mirada.errors import require
from mirada.files import (
    METADATA,
    MOST_TENSORS,
    expanded,
    parsed,
    read_json,
    read_whole,
    require_file,
    safetensors_header,
)
from mirada.words import shortened

CONFIG, WEIGHTS, INDEX, MODULES = "config.json", "model.safetensors", "model.safetensors.index.json", "modules.json"
BESIDE = (  # further files of JSON
    "generation_config", "preprocessor_config", "processor_config", "tokenizer_config", "sentence_bert_config",
    "config_sentence_transformers",
)  # fmt: skip
HEARING = ("whisper",)  # model types that read sounds
KEPT = (  # what goes back with an export, as it was; a star is any name
    CONFIG, *(f"{name}.json" for name in BESIDE), "tokenizer.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "*.model", "*.spm", "normalizer.json", "chat_template.jinja",
    "chat_template.json", MODULES, "LICENSE*", "NOTICE*",
)  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")  # code, when it is read
FOREIGN = (".h5", ".msgpack", ".gguf", ".onnx", ".npz", ".tflite")  # weights in other forms
LARGEST_KEPT = 256 << 20  # bytes of a file of a tokenizer
MOST_LAYERS, MOST_FILES = 10_000, 10_000
PLAIN = re.compile(r"[\w][\w.+ -]*")  # a name of a file, not a path
TO_CONVERT = (
    "pickle is code, which mirada never runs. If you trust it, convert it where transformers is installed: "
    "AutoModel.from_pretrained(DIR).save_pretrained(NEW), with the AutoModelFor... of its head."
)


@dataclass(frozen=True)
class HubFolder:
    """What a folder of theirs holds; `weights` reads a tensor when it is asked for.

    Args:
        path: the folder.
        config: its config.json, and under `generation_config`, `preprocessor_config`, `processor_config`, `tokenizer_config`
            and `modules` (of sentence-transformers, in their order) what its other files say, where it has them.
        weights: the tensors by name.
        files: what an export gives back, by its name in the folder.
        notes: what a person should know.
    """

    path: Path
    config: dict[str, Any]
    weights: "MappedWeights"
    files: Mapping[str, Path] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def own_config(self) -> dict[str, Any]:
        """What stands in config.json itself."""
        return {key: value for key, value in self.config.items() if key not in (*BESIDE, "modules")}


class MappedWeights(Mapping[str, Tensor]):
    """The tensors of safetensors files by name, mapped: the system reads a tensor when its numbers are used.

    Args:
        places: the file of each tensor.
    """

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = places
        self._open: dict[Path, Any] = {}
        self._spans: dict[Path, tuple[int, int, int]] = {}  # in memory, and where that begins in the file

    def __getitem__(self, name: str) -> Tensor:
        path = self.places[name]
        try:
            if path not in self._open:
                self._open[path] = _opened(path)
                self._spans[path] = _span(path, self._open[path])
            tensor: Tensor = self._open[path].get_tensor(name)
        except (SafetensorError, RuntimeError, OSError) as error:
            raise ValueError(f"{path}: {shortened(name)} cannot be read: {_reason(error)}") from None
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def located(self, tensor: Tensor) -> tuple[Path, int] | None:
        """The file that a tensor is a part of, and its first byte there; None for one that was computed."""
        for path, (start, end, first) in self._spans.items():
            place = tensor.data_ptr() - start
            if place >= 0 and tensor.data_ptr() + tensor.nbytes <= end:
                return path, first + place
        return None

    @property
    def stored(self) -> int:
        """The bytes of its files."""
        return sum(path.stat().st_size for path in set(self.places.values()))


def open_folder(place: str | Path) -> HubFolder:
    """The folder, looked at; a ValueError says in one line what is wrong with it.

    Args:
        place: a folder with config.json and model.safetensors, or what its index names; or with modules.json; or a file of
            llama2.c.

    >>> open_folder("no-such-folder")
    Traceback (most recent call last):
    ValueError: there is no folder no-such-folder. mirada downloads nothing: give the folder of a checkpoint on this disk.
    """
    path = expanded(place)
    if path.is_file() and (single := _single_file(path)) is not None:
        return single
    _require_folder(path)
    modules = _modules(path)
    home = _home(path, modules)
    config_path = _inside(path, home / CONFIG)
    message = f"{home} has no {CONFIG}: it is not the folder of a checkpoint, or not a whole one"
    require(config_path is not None, message)
    assert config_path is not None
    theirs = read_json(config_path)
    require("mirada" not in theirs, f"{path} is the folder of a run of mirada already: nothing has to be imported")
    _check_config(theirs, config_path)
    config = {key: value for key, value in theirs.items() if key not in (*BESIDE, "modules")}
    for name in BESIDE:
        for place in dict.fromkeys((home, path)):  # of sentence-transformers, some are in the one and some in the other
            if name not in config and (beside := _inside(path, place / f"{name}.json")) is not None:
                config[name] = read_json(beside)
    if modules:
        config["modules"] = modules
    weights = MappedWeights(_places(path, home))
    return HubFolder(path, config, weights, dict(_kept(path, home, modules)), _notes(config))


def _single_file(path: Path) -> HubFolder | None:
    """A checkpoint that is one file, where that is one of llama2.c."""
    from mirada.hub import llama2c  # it builds on this module

    return llama2c.open_file(path)


def _require_folder(path: Path) -> None:
    """Require a folder; the error for anything else says what it is."""
    if path.is_dir():
        return
    if path.exists():
        ending = path.suffix.lower()
        if ending in PICKLES:
            raise ValueError(f"{path} is a file of pickle: {TO_CONVERT}")
        what = "holds weights only" if ending == ".safetensors" else f"is a {ending or 'plain'} file"
        raise ValueError(f"{path} {what}: give the folder with {CONFIG} and {WEIGHTS}")
    raise ValueError(
        f"there is no folder {path}. mirada downloads nothing: give the folder of a checkpoint on this disk."
    )


def _inside(folder: Path, path: Path) -> Path | None:
    """A file of a folder, where it is there; one that is a link out of the folder is an error.

    In the cache of Hugging Face, files of `snapshots/REVISION` are links to `blobs` beside it.
    """
    if not path.exists() and not path.is_symlink():
        return None
    try:
        real, home = path.resolve(), folder.resolve()
    except RuntimeError:  # of Python before 3.13
        raise ValueError(f"{path} is a link that leads to itself") from None
    blobs = home.parent.parent / "blobs"
    allowed = [home, *([blobs] if home.parent.name == "snapshots" else [])]
    message = f"{path} is a link out of the folder, which is not followed. Put the file itself there."
    require(any(real.is_relative_to(place) for place in allowed), message)
    require(real.exists(), f"{path} is a link to nothing: the download is not whole")
    require_file(real)
    return real


def _modules(path: Path) -> list[dict[str, Any]]:
    """The modules of a folder of sentence-transformers: the kind, the folder and the settings of each."""
    listed = _inside(path, path / MODULES)
    if listed is None:
        return []
    try:
        found = parsed(read_whole(listed, 1 << 20))
        pairs = [(str(each["type"]).rpartition(".")[2], each["path"]) for each in found]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path / MODULES} must list modules with type and path") from None
    require(0 < len(pairs) <= MOST_FILES, f"{path / MODULES} lists {len(pairs)} modules")
    modules = []
    for kind, name in pairs:
        plain = isinstance(name, str) and (not name or PLAIN.fullmatch(name) is not None)
        require(plain, f"{path / MODULES} names {shortened(str(name))!r}, which is no folder in it")
        settings = _inside(path, path / name / CONFIG) if name else None
        modules.append({"kind": kind, "path": name, "config": {} if settings is None else read_json(settings)})
    return modules


def _home(path: Path, modules: list[dict[str, Any]]) -> Path:
    """Where the transformer of a folder is: in a folder of sentence-transformers its first module says it."""
    return path / modules[0]["path"] if modules and not (path / CONFIG).exists() else path


def _check_config(theirs: Mapping[str, Any], where: Path) -> None:
    """Refuse what no family reads: quantized weights, and numbers of layers that nobody has."""
    quantized = theirs.get("quantization_config")
    if quantized:
        method = quantized.get("quant_method", "") if isinstance(quantized, Mapping) else ""
        raise ValueError(
            f"{where} says that the weights are quantized ({shortened(str(method)) or 'quantization_config'}): import takes "
            "float32, float16 or bfloat16. Save the model without quantization."
        )
    parts = [theirs, *(value for value in theirs.values() if isinstance(value, Mapping))]
    for key, value in ((key, value) for part in parts for key, value in part.items()):
        if "layer" in key and isinstance(value, int) and value > MOST_LAYERS:
            raise ValueError(f"{where} asks for {key}={shortened(str(value))}: no checkpoint has so many layers")


def _notes(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a person should know about a folder."""
    mapped = [name for name in ("config.json", "tokenizer_config") if _names_code(config, name)]
    said = "names code of its own (auto_map), which is never run: the family's own model is imported"
    notes = [f"the folder {said}"] if mapped else []
    if config.get("model_type") in HEARING and not any(config.get(name) for name in BESIDE[1:3]):
        notes.append("the folder has no preprocessor_config.json: sounds are heard with the sizes in config.json")
    return tuple(notes)


def _names_code(config: Mapping[str, Any], name: str) -> bool:
    """Whether a file of the folder names Python code to be run."""
    part = config if name == "config.json" else config.get(name, {})
    return bool(part.get("auto_map"))


# Weights.


def _places(path: Path, home: Path) -> dict[str, Path]:
    """The file of every tensor: one file has them all, or an index names the file of each."""
    single, index = _inside(path, home / WEIGHTS), _inside(path, home / INDEX)
    if single is not None:
        return dict.fromkeys(_names(single), single)
    if index is None:
        raise _no_weights(home)
    named = read_json(index).get("weight_map")
    whole = isinstance(named, dict) and all(isinstance(file, str) for file in named.values())
    require(whole and bool(named), f"{home / INDEX} must have a weight_map: the file of each tensor")
    assert isinstance(named, dict)
    require(len(named) <= MOST_TENSORS, f"{home / INDEX} names {len(named):,} tensors, and at most {MOST_TENSORS:,}")
    files: dict[str, Path] = {}
    for file in dict.fromkeys(named.values()):
        plain = PLAIN.fullmatch(file) is not None and file.endswith(".safetensors")
        message = f"{home / INDEX} names {shortened(file)!r}, which is no safetensors file beside it"
        require(plain, message)
        real = _inside(path, home / file)
        require(real is not None, f"{home / file} is missing, and {INDEX} names it. Download it again.")
        assert real is not None
        files[file] = real
    require(len(files) <= MOST_FILES, f"{home / INDEX} names {len(files):,} files, and at most {MOST_FILES:,}")
    there = {(name, file) for file, real in files.items() for name in _names(real)}
    missing = sorted(set(named.items()) - there)
    require(not missing, f"{home / INDEX} says that {shortened(str(missing[:1]))} is there, and it is not")
    extra = sorted(there - set(named.items()))
    require(not extra, f"{home / INDEX} does not name {shortened(str(extra[:1]))}, which is there")
    return {name: files[file] for name, file in named.items()}


def _no_weights(home: Path) -> ValueError:
    """The error for a folder without safetensors, which says what it has instead."""
    names = sorted(each.name for each in home.iterdir() if each.is_file())
    pickles = [name for name in names if name.endswith(PICKLES) and "training_args" not in name]
    if pickles:
        return ValueError(f"{home} has its weights in {pickles[0]} only: {TO_CONVERT}")
    if "adapter_model.safetensors" in names:
        return ValueError(
            f"{home} holds an adapter (LoRA), not a model: merge it into its base first, with merge_and_unload() of peft"
        )
    other = [name for name in names if name.endswith((*FOREIGN, ".safetensors"))]
    has = f", but {other[0]}" if other else ""
    return ValueError(f"{home} has no {WEIGHTS} and no {INDEX}{has}: save the model as safetensors")


def _names(path: Path) -> list[str]:
    """The names of the tensors of a file, whose header was looked at first."""
    with open(path, "rb") as file:
        start = file.read(64)
    pointer = start.startswith(b"version https://git-lfs")
    require(not pointer, f"{path} is a pointer of Git LFS, not the weights: fetch them with git lfs pull")
    try:
        header = safetensors_header(path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    require(header is not None, f"{path} is no safetensors file, or only the beginning of one. Download it again.")
    return list(_opened(path).keys())


def _opened(path: Path) -> Any:
    """A safetensors file; the library compares all sizes with that of the file."""
    try:
        return safe_open(str(path), framework="pt")
    except (SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{path} is damaged, or not whole: {_reason(error)}. Download it again.") from None


def _span(path: Path, file: Any) -> tuple[int, int, int]:
    """Where the numbers of a file are in memory, and the first of them in the file: as far as its first tensor shows."""
    header = safetensors_header(path) or {}
    spans = {name: each["data_offsets"] for name, each in header.items() if name != METADATA}
    first, last = min(spans, key=lambda name: spans[name][0]), max(spans.values(), key=lambda span: span[1])
    with open(path, "rb") as opened:
        begin = 8 + int.from_bytes(opened.read(8), "little")
    start = file.get_tensor(first).data_ptr() - spans[first][0]
    return start, start + last[1], begin


def _reason(error: Exception) -> str:
    """What a library says, in one line."""
    return shortened(" ".join(str(error).split()), 200)


# Files that go back with an export.


def _kept(path: Path, home: Path, modules: list[dict[str, Any]]) -> Iterator[tuple[str, Path]]:
    """The small files of a folder, by their names in it."""
    places = {path / module["path"]: (CONFIG,) for module in modules} | dict.fromkeys((path, home), KEPT)
    for folder, patterns in places.items():
        named = (folder.glob(one) if "*" in one else [folder / one] for one in patterns)  # also a link to nothing
        for each in sorted({found for several in named for found in several}):
            real = _inside(path, each) if PLAIN.fullmatch(each.name) and not each.is_dir() else None
            if real is not None:
                size = real.stat().st_size
                require(size <= LARGEST_KEPT, f"{each} has {size:,} bytes, and at most {LARGEST_KEPT:,} are read")
                yield each.relative_to(path).as_posix(), real
