"""Which model and which recipe suit some pictures and some minutes: by a table of costs, never by the clock.

docs/decisions/0023-pictures-and-minutes.md has the measurements behind it.
"""

from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.words import plural

# Seconds are those of a million pixels that are learned from, with patches of 4 pixels; others cost about the same.
SIZES = (
    ModelCost({"width": 64, "hidden": 128, "depth": 1}, 0.40, 0),
    ModelCost({"width": 96, "hidden": 192, "depth": 2}, 0.80, 25),
    ModelCost({"width": 128, "hidden": 256, "depth": 2}, 1.20, 50),
)
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30)  # that a run gets where nobody says how long
EPOCHS = 30  # that these are to be enough for
WARMUP = 0.04  # of the steps


def choice(pictures: int, size: int, channels: int, minutes: float) -> BudgetChoice:
    """The sizes of a model and its recipe for so many pictures of one size, and so many minutes (0: to be chosen, too)."""
    raise NotImplementedError
