"""The manifest of an attention file, read with suspicion: every value is checked before it is used."""

import json
import math
from collections.abc import Iterator
from typing import Any

FORMAT, VERSION = "mirada.attn", 1
PNG = b"\x89PNG\r\n\x1a\n"  # how every PNG begins
LARGEST_SIDE = 2**24  # places of an axis


class Fields:
    """The fields of a JSON object by type. A wrong one is named by its path."""

    def __init__(self, value: Any, path: str = "manifest") -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{path} must be an object: got {shown(value)}")
        self.value, self.path = value, path

    def __contains__(self, name: str) -> bool:
        return self.value.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def wrong(self, name: str, expected: str) -> ValueError:
        if name not in self.value:
            return ValueError(f"{self.path} has no {name!r}")
        return ValueError(f"{self.path}.{name} must be {expected}: got {shown(self.value[name])}")

    def text(self, name: str, default: str | None = None) -> str:
        if default is not None and name not in self:
            return default
        if not isinstance(self.value.get(name), str):
            raise self.wrong(name, "a string")
        return str(self.value[name])

    def whole(self, name: str, low: int = 0, high: int = LARGEST_SIDE) -> int:
        value = self.value.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        if default is not None and name not in self:
            return default
        value = self.value.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not finite(value):
            raise self.wrong(name, "a number")
        return float(value)

    def maybe_number(self, name: str) -> float | None:
        return self.number(name) if name in self else None

    def flag(self, name: str) -> bool:
        if not isinstance(self.value.get(name, False), bool):
            raise self.wrong(name, "true or false")
        return bool(self.value.get(name, False))

    def object(self, name: str) -> "Fields":
        if name not in self.value:
            raise self.wrong(name, "an object")
        return Fields(self.value[name], f"{self.path}.{name}")

    def items(self, name: str, needed: bool = False) -> list[Any]:
        if name not in self and not needed:
            return []
        if not isinstance(self.value.get(name), list):
            raise self.wrong(name, "a list")
        return list(self.value[name])

    def objects(self, name: str, needed: bool = False) -> "list[Fields]":
        return [Fields(item, f"{self.path}.{name}[{place}]") for place, item in enumerate(self.items(name, needed))]

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.items(name)
        if not all(isinstance(item, str) for item in found):
            raise self.wrong(name, "a list of strings")
        return tuple(found)

    def numbers(self, name: str, count: int | None = None) -> tuple[float, ...]:
        found = self.items(name)
        good = all(isinstance(x, int | float) and not isinstance(x, bool) and finite(x) for x in found)
        if not good or (count is not None and len(found) != count):
            raise self.wrong(name, "a list of numbers" if count is None else f"a list of {count} numbers")
        return tuple(float(item) for item in found)


def finite(value: int | float) -> bool:
    return abs(value) <= 1e308 if isinstance(value, int) else math.isfinite(value)


def shown(value: Any) -> str:
    """A value of a file in an error: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def parse(content: bytes) -> Fields:
    """The manifest, if it is one that this version reads."""
    try:
        found = json.loads(content.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its manifest.json is not JSON: {str(error).splitlines()[0][:120]}") from None
    fields = Fields(found)
    if fields.value.get("format") != FORMAT:
        raise ValueError(f"its manifest.json is not that of an attention file: format is {shown(found.get('format'))}")
    version = fields.whole("version", 1, 2**31)
    if version > VERSION:
        raise ValueError(f"it has version {version}, and this mirada reads up to {VERSION}: install a newer one")
    return fields


def refuse(word: str) -> float:
    raise ValueError(f"{word} is no number")
