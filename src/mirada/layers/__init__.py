"""Blocks around the attention layer."""

from mirada.lazy import submodules

__getattr__ = submodules(__name__)
