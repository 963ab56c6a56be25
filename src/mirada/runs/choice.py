"""The settings that data and budget decide: made once, before the first step, by a written table of costs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BudgetChoice:
    """Settings for some data and some minutes. What the user sets stands above them.

    Args:
        model: Fields of the model's configuration.
        recipe: Fields of the recipe. `minutes` or `epochs` are used where the user does not say how long a run is.
        data: Options that nothing was read with yet, such as the unit of a tokenizer.
        why: What was looked at, as a part of a sentence.

    >>> choice = BudgetChoice({"width": 64}, {"lr": 0.003}, why="1,000 texts and 2 minutes")
    >>> choice.line({"width"})
    'chosen for 1,000 texts and 2 minutes: lr=0.003'
    """

    model: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    def line(self, decided: Collection[str]) -> str:
        """What was chosen and why, in a line, without the names that others decided; empty where nothing was chosen."""
        values = {**self.data, **self.model, **self.recipe}
        spelled = [f"{key}={_spelled(value)}" for key, value in values.items() if key not in decided]
        return f"chosen for {self.why}: {' '.join(spelled)}" if self.why and spelled else ""


def _spelled(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class ModelCost:
    """A size that a model may have, and what it costs on the machine that the table was measured on (two cores).

    Args:
        settings: Fields of the model's configuration.
        seconds: What training on a thousand units takes, in seconds; the task says what a unit is (a picture, a token).
        epochs: How often the data must be seen before this size is better than the next smaller one.
    """

    settings: Mapping[str, Any]
    seconds: float
    epochs: float


def largest_affordable(sizes: Sequence[ModelCost], units: float, minutes: float) -> tuple[ModelCost, float]:
    """The last size that sees the data often enough within the minutes, or the first; and how many epochs it makes.

    Sizes stand from the smallest to the largest. Only the table, the data and the minutes decide, not the clock: the
    same command gives the same model on a busy machine.

    Args:
        sizes: The table, cheapest first.
        units: How many units the data has.
        minutes: The budget.

    >>> table = [ModelCost({"width": 64}, 0.5, 0), ModelCost({"width": 128}, 2.0, 10)]
    >>> largest_affordable(table, units=3_000, minutes=2)
    (ModelCost(settings={'width': 128}, seconds=2.0, epochs=10), 20.0)
    >>> largest_affordable(table, units=60_000, minutes=2)[0].settings
    {'width': 64}
    """
    possible = [60_000 * minutes / (max(1.0, units) * one.seconds) for one in sizes]
    chosen = max([number for number, one in enumerate(sizes) if possible[number] >= one.epochs], default=0)
    return sizes[chosen], possible[chosen]
