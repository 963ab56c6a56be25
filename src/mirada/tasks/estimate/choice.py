"""How large the network of an estimate is and how often it sees the rows: from their number, their texts and the minutes."""

from collections.abc import Sequence
from typing import Any

from mirada.data.record import Record
from mirada.runs.choice import BudgetChoice
from mirada.tasks.estimate.columns import TEXT_WORDS
from mirada.tasks.estimate.rows import MeasuredRow
from mirada.training.progress import as_minutes
from mirada.words import plural

SMALL = 2_000  # rows, up to which a network soon knows them by heart
PATIENCE = 40.0  # epochs: those of a table are short, and the rate is still high when it first gets no better
STEPS = 2_000  # of a table, where the user does not say how long
EPOCHS = (5, 100)  # at least and at most, without minutes
WORDS = 400  # of a row with texts, from which the context is longer than usual
LONGEST = 2048  # tokens of a context


def chosen_for(train: Sequence[Record[MeasuredRow]], minutes: float) -> BudgetChoice:
    """The settings for these rows and minutes."""
    rows = len(train)
    words = [sum(len(cell.split()) for cell in record.value.cells) for record in train]
    has_texts = sum(words) / max(1, rows) >= TEXT_WORDS + len(train[0].value.cells)
    few = rows <= SMALL
    model: dict[str, Any] = {"width": 32 if few else 64, "hidden": 64 if few else 128, "dropout": 0.2 if few else 0.1}
    recipe: dict[str, Any] = {"lr": 2e-3}
    if has_texts:
        model |= {"depth": 1, "dropout": 0.4}
        recipe |= {"lr": 1e-3, "epochs": 8}
        if max(words) > WORDS:
            model["length"] = length = min(LONGEST, -(-3 * max(words) // 128) * 64)
            recipe["batch_tokens"] = max(4096, 2 * length)
    else:
        model["position"] = "none"
        recipe["patience"] = PATIENCE
        batch = 32 if few else 128
        recipe["batch_tokens"] = batch * len(train[0].value.names)
        recipe["epochs"] = max(EPOCHS[0], min(EPOCHS[1], STEPS * batch // max(1, rows)))
    if minutes:
        recipe.pop("epochs", None)
    columns = plural(len(train[0].value.names), "column")
    budget = f" and {as_minutes(minutes)}" if minutes else ""
    return BudgetChoice(model, recipe, {}, f"{plural(rows, 'row')} of {columns}{budget}")
