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
        spelled = []
        for key, value in {**self.data, **self.model, **self.recipe}.items():
            word = ("yes" if value else "no") if isinstance(value, bool) else value
            spelled += [] if key in decided else [f"{key}={word:g}" if isinstance(word, float) else f"{key}={word}"]
        return f"chosen for {self.why}: {' '.join(spelled)}" if self.why and spelled else ""


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


# Sequences: how much a model of some size has to see, and how much of it has to be new, before it is worth its price.


WARMUP = 400  # steps; of a short run a twentieth
SAMPLED = 1000  # records whose sizes stand for those of all
USUAL_MINUTES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)  # of which one is taken where the user gives none


@dataclass(frozen=True)
class SequenceCost:
    """A size that a model of sequences may have, and what it costs on the machine of the table (one core).

    Args:
        settings: Fields of the model's configuration.
        seconds: What training on a thousand units takes, in seconds; the task says what a unit is (a token, a picture).
        seen: How many units, repeated ones too, it must learn from before it is better than the next smaller size.
        data: How many units the data must have for that.
    """

    settings: Mapping[str, Any]
    seconds: float
    seen: float = 0.0
    data: float = 0.0


@dataclass(frozen=True)
class Affordable:
    """The size that fits some data and a budget, and how much it will learn from.

    Args:
        size: The size.
        minutes: The budget, chosen or given.
        units: How many units the data has.
        given: Whether the user gave the minutes.
    """

    size: SequenceCost
    minutes: float
    units: float
    given: bool = True

    @property
    def seen(self) -> float:
        """Units that are learned from within the minutes, by the table, repeated ones too."""
        return 60_000 * self.minutes / self.size.seconds

    def warmup(self, batch: float) -> int:
        """Steps of a warm-up, for batches of so many units: a twentieth of all steps, at most `WARMUP`."""
        return max(1, min(WARMUP, int(self.seen / batch / 20)))

    def by_epochs(self, first: float, *later: tuple[float, float]) -> float:
        """A value that depends on how often the data is seen: `first`, or that of the last pair (epochs, value) reached.

        >>> twelve_epochs = Affordable(SequenceCost({}, 0.1), minutes=2, units=100_000)
        >>> twelve_epochs.by_epochs(0.0, (4, 0.1), (40, 0.3))
        0.1
        """
        return [value for epochs, value in ((0.0, first), *later) if self.seen / self.units >= epochs][-1]

    def choice(
        self, model: Mapping[str, Any], recipe: Mapping[str, Any], data: Mapping[str, Any], what: str
    ) -> BudgetChoice:
        """The settings as a choice. `what` are the data, in words; the minutes are added."""
        if self.given:
            from mirada.training.progress import as_minutes  # a run that answers chooses nothing

            return BudgetChoice({**self.size.settings, **model}, recipe, data, f"{what} and {as_minutes(self.minutes)}")
        return BudgetChoice({**self.size.settings, **model}, {"minutes": self.minutes, **recipe}, data, what)


def affordable(sizes: Sequence[SequenceCost], units: float, minutes: float, epochs: float) -> Affordable:
    """The largest size that sees enough of these data within the minutes: a function of the table, the data and the minutes.

    Sizes stand from the smallest to the largest. Where the user gives no minutes, those are taken in which the largest size
    that the data has enough units for makes the usual number of epochs.

    Args:
        sizes: The table, cheapest first.
        units: How many units the data has.
        minutes: The budget; 0 for the usual one.
        epochs: How often the data is usually seen.

    >>> table = [SequenceCost({"width": 128}, 0.05), SequenceCost({"width": 256}, 0.2, seen=1e6, data=1e5)]
    >>> [affordable(table, 400_000, minutes, epochs=10).size.settings["width"] for minutes in (1, 3, 4, 60)]
    [128, 128, 256, 256]
    >>> affordable(table, 400_000, 0, epochs=10).minutes, affordable(table, 1e12, 2, epochs=10).size.settings["width"]
    (20.0, 128)
    """
    units = max(1.0, units)
    enough = [size for size in sizes if units >= size.data] or [sizes[0]]
    wanted = epochs * units * enough[-1].seconds / 60_000
    usual = next((some for some in USUAL_MINUTES if some >= wanted), USUAL_MINUTES[-1])
    possible = [Affordable(size, minutes or usual, units, given=minutes > 0) for size in (sizes[0], *enough)]
    return [found for n, found in enumerate(possible) if n == 0 or found.seen >= found.size.seen][-1]
