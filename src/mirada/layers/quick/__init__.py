"""Decoding steps of the usual Transformer without the modules around them: the same numbers, in a fraction of the time.

A step computes one new place per row. With so little to compute, calling modules is the price. Here the parts of a stack are
collected once per decoding and a step is a few products: one call of compiled C where there is a compiler (`compiled.py`,
`step.c`), plain PyTorch elsewhere (`eager.py`). What is not usual is refused with a reason (`refusal.py`) and takes the ordinary
way; so does every step while a gradient is tracked. While somebody looks, a quick step is taken once more through the modules,
for them to be seen: what it answers stays the same.
"""
