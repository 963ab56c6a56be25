"""The settings of a run: one typed value, from the KEY=VALUE of a command to config.json and back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mirada.config import Config
from mirada.data.options import DataOptions
from mirada.errors import require, unknown
from mirada.files import json_checksum, read_json
from mirada.native import library
from mirada.runs.registry import entry
from mirada.runs.sources import Source
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
    facts: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # the checksums of what the task knows, by the file's name
    native: str = field(default_factory=library.identity)
    version: str = field(default_factory=lambda: version("mirada"))

    @property
    def begun(self) -> bool:
        """Whether they come from a run that was begun before."""
        return bool(self.fingerprint)

    def to_dict(self) -> dict[str, Any]:
        """What config.json holds."""
        model = entry(self.task).task().preset(self.name).model
        return {
            "mirada": self.version, "task": self.task, "name": self.name, "model": model.__name__.lower(),
            "config": self.config.to_dict(), "recipe": self.recipe.to_dict(), "data": self.data.to_dict(),
            "place": self.source.to_dict(), "start": self.start, "facts": dict(self.facts),
            "fingerprint": self.fingerprint, "native": self.native, "files": dict(self.files),
        }  # fmt: skip

    def to_bytes(self) -> bytes:
        """config.json itself, with its checksum."""
        described = self.to_dict()
        described["checksum"] = json_checksum(described)
        return (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_dict(cls, described: Mapping[str, Any], where: Path) -> "Settings":
        """What `to_dict` wrote; `where` is the file, for errors."""
        wrong = [key for key, kind in WRITTEN.items() if not isinstance(described.get(key), kind)]
        require(not wrong, f"{where} does not describe a run: {', '.join(wrong)} is missing or broken")
        files = described.get("files", {})
        require(isinstance(files, dict), f"{where} does not describe a run: files is broken")
        task = entry(described["task"]).task()
        return cls(
            task=described["task"], name=described["name"],
            config=task.preset(described["name"]).model.Config.from_dict(described["config"]),
            recipe=Recipe.from_dict(described["recipe"]), data=task.Data.from_dict(described["data"]),
            source=Source.from_dict(described["place"], where), start=described["start"], facts=described["facts"],
            fingerprint=str(described.get("fingerprint", "")), files=files, native=str(described.get("native", "")),
            version=str(described.get("mirada", "")),
        )  # fmt: skip

    def changed(self, **values: Any) -> "Settings":
        """The same with some values changed."""
        return replace(self, **values)


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
    described = read_json(folder / CONFIG)
    _require_known_version(described, folder / CONFIG)
    _require_as_written(described, folder / CONFIG)
    return Settings.from_dict(described, folder / CONFIG)


def _require_known_version(described: Mapping[str, Any], where: Path) -> None:
    """Refuse what a newer version wrote: what it means by its settings is not known here."""
    there, here = str(described.get("mirada", ""))[:40], version("mirada")
    require(
        _numbers_of(there) <= _numbers_of(here),
        f"{where} was written by mirada {there}, and this is mirada {here}. Update mirada to go on with the run.",
    )


def _numbers_of(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: the third changes no files.

    >>> _numbers_of("0.12.3"), _numbers_of("1.0.dev3"), _numbers_of("")
    ((0, 12), (1, 0), ())
    """
    return tuple(int(part) for part in version.split(".")[:2] if part.isascii() and part.isdecimal())


def _require_as_written(described: Mapping[str, Any], where: Path) -> None:
    """Refuse settings that were changed or damaged since they were written: the weights beside them are of others.

    Whoever changed them on purpose takes the checksum out.
    """
    require(
        described.get("checksum") in (None, json_checksum(described)),
        f"{where} was changed since it was written, or is damaged: the weights beside it were trained with other settings. "
        'Restore it; or, if the change is meant, take the line "checksum" out.',
    )


@dataclass(frozen=True)
class Groups:
    """The configuration classes that share the keys of a command line. A key belongs to the first that has it."""

    recipe: type[Config]
    data: type[Config]
    model: type[Config]

    def home(self, key: str) -> tuple[str, str]:
        """The group and the field that a key names, plain (`width`) or dotted (`model.width`)."""
        groups = {item.name: getattr(self, item.name) for item in fields(self)}
        group, _, field = key.rpartition(".")
        if group and group not in groups:
            raise unknown("group of keys", group, groups)
        known: dict[str, str] = {}
        for name, kind in groups.items():
            for item in fields(kind):
                if group in ("", name):
                    known.setdefault(item.name, name)
        if field not in known:
            raise unknown("key", field, known)
        return known[field], field

    def sort(self, pairs: Iterable[tuple[str, Any]]) -> dict[str, dict[str, Any]]:
        """Keys and values by group and field; a text spells a value of its field's kind."""
        sorted_keys: dict[str, dict[str, Any]] = {"recipe": {}, "data": {}, "model": {}}
        for key, given in pairs:
            group, field = self.home(key)
            if field in sorted_keys[group]:
                raise ValueError(f"{field} is given twice")
            kind = next(item.type for item in fields(getattr(self, group)) if item.name == field)
            name = kind if isinstance(kind, str) else kind.__name__
            sorted_keys[group][field] = value(field, given, name) if isinstance(given, str) else given
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
    """What is said of a file that a trained run is to read; what the model depends on cannot be changed.

    >>> file_options(DataOptions, [("bad", "skip")])
    {'bad': 'skip'}
    """
    given = Groups(kind, kind, kind).sort(pairs)["recipe"]
    for name in given:
        known = ", ".join(kind.of_files)
        require(name in kind.of_files, f"{name} belongs to the run, which is trained: only {known} can be told here")
    return given


def value(key: str, text: str, kind: str) -> Any:
    """The value that a text spells, of the kind that a field has.

    >>> value("steps", "1_000", "int"), value("lr", "1e-3", "float"), value("reverse", "yes", "bool")
    (1000, 0.001, True)
    >>> value("steps", "many", "int")
    Traceback (most recent call last):
    ValueError: steps must be a whole number: got 'many'
    """
    if kind == "bool":
        if text.lower() not in YES + NO:
            raise ValueError(f"{key} must be yes or no: got {text!r}")
        return text.lower() in YES
    try:
        return {"int": int, "float": float, "str": str}[kind](text)
    except ValueError:
        word = "a whole number" if kind == "int" else "a number"
        raise ValueError(f"{key} must be {word}: got {text!r}") from None


def layered(*layers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings one over the other, group by group: later layers win.

    >>> layered({"model": {"width": 64, "depth": 2}}, {"model": {"width": 128}})
    {'model': {'width': 128, 'depth': 2}}
    """
    whole: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for group, values in layer.items():
            whole[group] = {**whole.get(group, {}), **values}
    return whole
