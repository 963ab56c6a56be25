"""Bridges to other libraries: their layers and checkpoints as ours."""

from mirada.lazy import submodules

__getattr__ = submodules(__name__)
