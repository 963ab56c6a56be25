"""Which model and which recipe suit some pictures and some minutes: by a table of costs, never by the clock.

docs/decisions/0023-pictures-and-minutes.md has the measurements behind it.
"""

from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.training.progress import as_minutes
from mirada.words import plural

# Units are patches; seconds are those of a thousand patches that are learned from.
SIZES = (
    ModelCost({"width": 64, "hidden": 128, "depth": 1}, 0.007, 0),
    ModelCost({"width": 64, "hidden": 128, "depth": 2}, 0.008, 15),
    ModelCost({"width": 96, "hidden": 192, "depth": 2}, 0.016, 30),
)
LARGE = 8  # pixels: patches from this side on cost twice as much
MINUTES = (1, 2, 3, 5, 10, 15, 20, 30)  # that a run gets where nobody says how long
EPOCHS = 30  # that these are enough for
BATCH = 128  # pictures, or half as many where that makes fewer steps than STEPS
STEPS = 600
WARMUP = 0.04  # of the steps
CHANGED = 12  # epochs from which pictures are changed whenever they come: fewer leave no time to see each as it is


def budget_choice(pictures: int, size: int, patch: int, minutes: float) -> BudgetChoice:
    """A model's sizes and a recipe for so many pictures of one size, and so many minutes; 0 minutes are chosen, too.

    >>> budget_choice(60_000, 28, 4, minutes=5).model["width"]
    64
    >>> budget_choice(1_500, 8, 2, minutes=0).recipe["minutes"]
    1.0
    """
    patches = pictures * (size // patch) ** 2 * (2 if patch >= LARGE else 1)
    given = minutes or float(
        next((m for m in MINUTES if largest_affordable(SIZES[:1], patches, m)[1] >= EPOCHS), MINUTES[-1])
    )
    cost, epochs = largest_affordable(SIZES, patches, given)
    batch = BATCH if epochs * pictures >= BATCH * STEPS else BATCH // 2
    steps = epochs * pictures / batch
    recipe = {
        "batch_size": batch, "lr": 3e-3, "warmup": round(min(300, max(10, WARMUP * steps))), "decay": 0.05,
        "smoothing": 0.1 if epochs >= CHANGED else 0.0, "patience": 20.0,
    }  # fmt: skip
    if not minutes:
        recipe["minutes"] = given
    model = {
        **cost.settings,
        "heads": 4,
        "stem": "pooled",
        "dropout": 0.1 if epochs >= CHANGED else 0.0,
        "pool": "attention",
    }
    time = f" and {as_minutes(given)}" if minutes else f", usually enough: {as_minutes(given)}"
    why = f"{plural(pictures, 'picture')} of {size} x {size}{time} ({_about(epochs)})"
    return BudgetChoice(model, recipe, {"augment": epochs >= CHANGED}, why)


def _about(epochs: float) -> str:
    """How often each picture will be seen, in words and two digits."""
    if epochs < 1.5:
        return "about one epoch" if epochs > 0.75 else "less than one epoch"
    digits = 10 ** max(0, len(str(int(epochs))) - 2)
    return f"about {round(epochs / digits) * digits:,} epochs"
