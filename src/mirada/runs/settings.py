"""The settings of a run: one typed value, from the KEY=VALUE of a command to config.json and back."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirada.config import Config
from mirada.data.options import DataOptions
from mirada.errors import require, unknown
from mirada.files import json_checksum, read_json
from mirada.layers.parse import saved
from mirada.native import library
from mirada.runs.registry import entry
from mirada.runs.sources import IMPORTED, LOST, Source
from mirada.training.recipe import Recipe

CONFIG = "config.json"
YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
WRITTEN = {
    "task": str, "name": str, "config": dict, "recipe": dict, "data": dict, "facts": dict, "place": dict, "start": str,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that decides a run. `name` is the model by the word of the command line, `config` its configuration.

    What the data decides is added when it is read: the sizes in `config`, the `facts` that the task learned, and the
    `fingerprint` of the records. `native` says which compiled code computes: other code rounds otherwise.
    """

    task: str
    name: str
    config: Config
    recipe: Recipe
    data: DataOptions
    source: Source
    start: str = ""  # the folder of the run whose weights are started from
    base: str = ""  # the checksum of its weights, where an adapter stands on them
    facts: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # the checksums of what the task knows, by the file's name
    origin: Mapping[str, Any] = field(
        default_factory=dict
    )  # of what was imported: format, model_type, architecture, facts
    native: str = field(default_factory=library.identity)
    version: str = field(default_factory=lambda: version("mirada"))

    def to_bytes(self) -> bytes:
        """config.json, with its checksum; of data in memory it says only that it was there."""
        model = entry(self.task).task().preset(self.name).model
        source = self.source
        absent = {"data": "", "valid": "", "imported" if source.imported else "memory": True}
        place = absent if source.in_memory else {"data": source.data, "valid": source.valid}
        described = {
            "mirada": self.version, "task": self.task, "name": self.name, "model": model.__name__.lower(),
            "config": self.config.to_dict(), "recipe": self.recipe.to_dict(), "data": self.data.to_dict(),
            "place": place, "start": self.start, **({"origin": dict(self.origin)} if self.origin else {}), "base": self.base,
            "facts": dict(self.facts), "fingerprint": self.fingerprint, "native": self.native, "files": dict(self.files),
        }  # fmt: skip
        described["checksum"] = json_checksum(described)
        return (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()


def read_settings(folder: Path) -> Settings:
    """The settings in a run's folder."""
    require(
        folder.is_dir(),
        f"{folder} is not a folder. A run's folder is what `mirada train` printed, such as runs/translate.",
    )
    require(
        (folder / CONFIG).exists(),
        f"{folder} is not the folder of a run: it has no {CONFIG}. Train one with `mirada train`.",
    )
    described, where = read_json(folder / CONFIG), folder / CONFIG
    there, here = str(described.get("mirada", ""))[:40], version("mirada")
    require(
        _numbers_of(there) <= _numbers_of(here),
        f"{where} was written by mirada {there}, and this is mirada {here}. Update mirada to resume the run.",
    )
    require(
        described.get("checksum") in (None, json_checksum(described)),
        f"{where} was changed since it was written, or is damaged: the weights next to it were trained with other settings. "
        'Restore it; or, if the change is meant, take the line "checksum" out.',
    )
    foreign = "model_type" in described and "task" not in described
    require(not foreign, f"{folder} is a checkpoint of elsewhere, no run yet: mirada import {shlex.quote(str(folder))}")
    wrong = [key for key, kind in WRITTEN.items() if not isinstance(described.get(key), kind)]
    require(not wrong, f"{where} does not describe a run: {', '.join(wrong)} is missing or broken")
    files, place, origin = described.get("files", {}), described["place"], described.get("origin", {})
    for name, value in (("files", files), ("origin", origin)):
        require(isinstance(value, dict), f"{where} does not describe a run: {name} is broken")
    task = entry(described["task"]).task()
    known = all(isinstance(place.get(key), str) for key in ("data", "valid"))
    require(known, f"{where} does not describe a run: its place must have data and valid")
    model = task.preset(described["name"]).model
    with saved():
        config = model.Config.from_dict(described["config"])
    return Settings(
        task=described["task"], name=described["name"], config=config,
        recipe=Recipe.from_dict(described["recipe"]), data=task.Data.from_dict(described["data"]),
        source=Source(_absent(place) or place["data"], place["valid"]), start=described["start"], origin=origin,
        base=str(described.get("base", "")),
        facts=described["facts"], fingerprint=str(described.get("fingerprint", "")), files=files,
        native=str(described.get("native", "")), version=str(described.get("mirada", "")),
    )  # fmt: skip


def _absent(place: Mapping[str, Any]) -> Any:
    """What stands for data that is not in a file; nothing for data that is."""
    return IMPORTED if place.get("imported") else LOST if place.get("memory") else ""


def _numbers_of(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: the third changes no files.

    >>> _numbers_of("0.12.3"), _numbers_of("1.0.dev3"), _numbers_of("")
    ((0, 12), (1, 0), ())
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isascii() and part.isdecimal())


def sort_keys(pairs: Iterable[tuple[str, Any]], **groups: type[Config]) -> dict[str, dict[str, Any]]:
    """Keys and values by group (recipe, data, model) and field; a text spells a value of its field's kind.

    A key is plain (`width`), which names a field of the first group that has it, or dotted (`model.width`).

    >>> sort_keys([("steps", "1_000"), ("recipe.lr", "1e-3")], recipe=Recipe)
    {'recipe': {'steps': 1000, 'lr': 0.001}}
    >>> sort_keys([("steps", "many")], recipe=Recipe)
    Traceback (most recent call last):
    ValueError: steps must be a whole number: got 'many'
    """
    sorted_keys: dict[str, dict[str, Any]] = {name: {} for name in groups}
    for key, given in pairs:
        named, _, name = key.rpartition(".")
        if named and named not in groups:
            raise unknown("group of keys", named, groups)
        known: dict[str, tuple[str, Any]] = {}
        for group in [named] if named else groups:
            for item in fields(groups[group]):
                known.setdefault(item.name, (group, item.type))
        if name not in known:
            raise unknown("key", name, known)
        group, kind = known[name]
        if name in sorted_keys[group]:
            raise ValueError(f"{name} is given twice")
        value = given
        if isinstance(given, str):
            kind = kind if isinstance(kind, str) else kind.__name__
            if kind == "bool" and given.lower() not in YES + NO:
                raise ValueError(f"{name} must be yes or no: got {given!r}")
            try:
                value = (
                    given.lower() in YES if kind == "bool" else {"int": int, "float": float, "str": str}[kind](given)
                )
            except ValueError:
                word = "a whole number" if kind == "int" else "a number"
                raise ValueError(f"{name} must be {word}: got {given!r}") from None
        sorted_keys[group][name] = value
    return sorted_keys


def key_values(words: Iterable[str]) -> list[tuple[str, str]]:
    """KEY=VALUE words as pairs.

    >>> key_values(["steps=300", "columns=a=b"])
    [('steps', '300'), ('columns', 'a=b')]
    """
    pairs = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"expected KEY=VALUE, got {word!r}. Example: steps=300 width=128")
        pairs.append((key.strip(), text.strip()))
    return pairs


def file_options(kind: type[DataOptions], pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The options for a file that a trained run is to read; what the model depends on cannot be changed.

    >>> file_options(DataOptions, [("bad", "skip")])
    {'bad': 'skip'}
    """
    given = sort_keys(pairs, recipe=kind, data=kind, model=kind)["recipe"]
    for name in given:
        known = ", ".join(kind.of_files)
        require(name in kind.of_files, f"{name} belongs to the run, which is trained: only {known} can be given here")
    return given
