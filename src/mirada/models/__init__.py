"""The models of the lectures, one file each: `XConfig`, `XConfig.tiny()`, `X`. No model imports a model."""

from mirada.lazy import submodules

__getattr__ = submodules(__name__)
