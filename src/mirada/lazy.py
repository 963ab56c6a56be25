"""Lazy packages: their modules and names are imported on first use, so that `import mirada` is fast and reaches all."""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from linecache import getlines
from typing import Any


@cache
def homes(package: str) -> dict[str, str]:
    """The module that defines each name of a package, read from the imports below `if TYPE_CHECKING` in its `__init__`.

    >>> homes("mirada.models")["GPT"]
    'mirada.models.gpt'
    """
    module, held = sys.modules[package], dict[str, str]()
    for node in ast.walk(ast.parse("".join(getlines(module.__file__ or "", vars(module))))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
            held |= {each.name: node.module for each in node.names}
    return held


def submodules(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports its modules and their names on first use.

    Args:
        package: The package's `__name__`. Its names are those that its `__init__` imports for type checkers.

    >>> get = submodules("mirada.models")
    >>> get("GPT") is get("gpt").GPT
    True
    """

    def get(name: str) -> Any:
        if name in homes(package):
            return getattr(import_module(homes(package)[name]), name)
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    return get
