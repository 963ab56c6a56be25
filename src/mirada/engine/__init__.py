"""Fast decoding: a model's steps with a packed copy of its weights, each one call of compiled C where C is compiled.

    engine.fast(model)   a value with `stepper`, which a search steps, and `reason` (None, or why that is the model itself)

An engine takes only modules that it knows exactly (`fits.py`). The weights are packed once and a step is one call of C
(`compiled.py`), or plain PyTorch without the modules around it (`stepper.py`).
"""

from mirada.engine.engine import Engine, fast

__all__ = ["Engine", "fast"]
