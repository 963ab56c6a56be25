"""Fast decoding: a model's steps with a packed copy of its weights, as one call of compiled C each where that can be had.

    engine.fast(model)   a value with `stepper`, which a search steps, and `reason` (None, or why that is the model itself)

What an engine takes is exactly known, module by module (`fits.py`). The weights are packed once and a step is one call of C
(`compiled.py`), or plain PyTorch without the modules around it (`stepper.py`).
"""

from mirada.engine.engine import Engine, fast

__all__ = ["Engine", "fast"]
