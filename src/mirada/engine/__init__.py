"""Fast decoding: a model's steps with a packed copy of its weights, each one call of compiled C where C is compiled.

    engine.fast(model)   a value with `stepper`, which a search steps, and `reason` (None, or why that is the model itself)

    engine.watched(stepper, {"decoder.layers.1.cross": [0, 3]})   the same steps, with the weights of these heads

An engine takes only modules that it knows exactly (`fits.py`). The weights are packed once and a step is one call of C
(`compiled.py`), or plain PyTorch without the modules around it (`stepper.py`).
"""

from typing import TYPE_CHECKING

from mirada.engine.engine import Engine, fast
from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.engine.rows import watched

__all__ = ["Engine", "fast", "watched"]

__getattr__ = submodules(__name__)
