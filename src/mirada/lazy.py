"""Packages whose modules and names are imported when they are first used: `import mirada` is enough to reach all of them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def submodules(package: str, names: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports its modules, and what they hold, by name.

    Args:
        package: the package's `__name__`.
        names: what each module holds for the package's users, divided by blanks.

    >>> get = submodules("mirada.models", {"gpt": "GPT GPTConfig"})
    >>> get("GPT") is get("gpt").GPT
    True
    """
    homes = {name: module for module, held in (names or {}).items() for name in held.split()}

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return get
