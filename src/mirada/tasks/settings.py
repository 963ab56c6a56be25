"""From KEY=VALUE to the three groups of settings of a run: its recipe, its data, its model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from mirada.errors import unknown
from mirada.layers.config import Config

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


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

    def read(self, pairs: Iterable[str]) -> dict[str, dict[str, Any]]:
        """KEY=VALUE words as values by group and field."""
        found: dict[str, dict[str, Any]] = {"recipe": {}, "data": {}, "model": {}}
        for pair in pairs:
            key, equals, text = pair.partition("=")
            if not equals:
                raise ValueError(f"expected KEY=VALUE, got {pair!r}. Example: steps=300 width=128")
            group, field = self.home(key.strip())
            if field in found[group]:
                raise ValueError(f"{field} is given twice")
            kind = next(item.type for item in fields(getattr(self, group)) if item.name == field)
            found[group][field] = value(field, text.strip(), kind if isinstance(kind, str) else kind.__name__)
        return found


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
