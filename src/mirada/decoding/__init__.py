"""Searching for the best continuation, for every model that can take a step.

>>> from mirada.decoding import Beam
>>> Beam(size=4).length_penalty
1.0
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.decoding.beam import Beam
    from mirada.decoding.greedy import Greedy, Sample
    from mirada.decoding.search import (
        AtLeast,
        Forbid,
        ForbidSequences,
        ForceToken,
        Hypothesis,
        NoRepeat,
        Repeated,
        Rule,
        Search,
        Stepper,
    )

__all__ = [
    "AtLeast", "Beam", "Forbid", "ForbidSequences", "ForceToken", "Greedy", "Hypothesis", "NoRepeat", "Repeated", "Rule",
    "Sample", "Search", "Stepper",
]  # fmt: skip

__getattr__ = submodules(__name__)
