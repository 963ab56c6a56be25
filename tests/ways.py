"""Compiled C and PyTorch do the same work: a fixture's two ways."""

import pytest

from mirada.native import library

WAYS = ("compiled", "torch")


def take(way: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let everything go that way; without a C compiler there is only one."""
    if way == "torch":
        monkeypatch.setattr(library, "search_once", lambda: library.FoundLibrary(None, "a test turned it off"))
    elif library.library() is None:
        pytest.skip(f"nothing is compiled here: {library.reason()}")
    return way
