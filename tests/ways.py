"""Compiled C and PyTorch do the same work: a fixture's two ways."""

from types import ModuleType

import pytest

WAYS = ("compiled", "torch")


def take(way: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let a module go that way; without a C compiler there is only one."""
    if way == "torch":
        monkeypatch.setattr(module, "library", lambda: None)
    elif module.library() is None:
        pytest.skip("no C compiler here")
    return way
