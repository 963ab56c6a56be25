"""Weights of classes, as a run keeps them: rare classes may count as much as frequent ones."""

from collections.abc import Mapping
from typing import Any

from mirada.errors import require


def weight_facts(weights: tuple[float, ...]) -> dict[str, Any]:
    """What config.json holds of them: nothing where classes count as often as they come.

    >>> weight_facts(()), weight_facts((0.5, 2.0))
    ({}, {'weights': [0.5, 2.0]})
    """
    return {"weights": list(weights)} if weights else {}


def restored_weights(facts: Mapping[str, Any]) -> tuple[float, ...]:
    """What `weight_facts` kept."""
    found = facts.get("weights", [])
    good = isinstance(found, list) and all(isinstance(x, float) for x in found)
    require(good, "the weights in config.json must be a list of numbers")
    return tuple(found)
