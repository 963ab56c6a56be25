"""What can be said about weights before they are drawn: their scale, and what a reader must be warned of."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, inf, isfinite

from mirada.drawing.markup import Markup, element
from mirada.drawing.numerals import number, plain

Rows = tuple[tuple[float, ...], ...]
LIGHT = 0.66  # share of the full color above which black figures are harder to read than white ones


@dataclass(frozen=True)
class ColorScale:
    """From weights to shares of the full color: the largest weight of the figure has all of it.

    >>> ColorScale.of(((0.1, 0.5),)).share(0.25)
    0.5
    """

    top: float

    @classmethod
    def of(cls, rows: Rows) -> "ColorScale":
        sizes = [abs(value) for row in rows for value in row if isfinite(value)]
        return cls(max(sizes, default=0.0) or 1.0)

    def share(self, value: float) -> float:
        return min(abs(value) / self.top, 1.0) if isfinite(value) else 0.0

    def style(self, value: float) -> str:
        return f"--w:{plain(self.share(value))}"

    def kind(self, value: float) -> str | None:
        """The class of a weight: strong ones need light figures, negative ones have their own color."""
        kinds = ["bad"] if not isfinite(value) else []
        kinds += ["strong"] if self.share(value) > LIGHT else []
        kinds += ["negative"] if value < 0 else []
        return " ".join(kinds) or None

    def key(self, columns: int, ramp: str = "ramp") -> Markup:
        """The key of the colors, with a notch where every weight would lie if attention were even."""
        even = 1 / columns
        notch = element("i", style=f"left:{plain(100 * self.share(even))}%") if even <= self.top else None
        return element(
            "span",
            element("span", "0"),
            element("span", notch, class_=ramp),
            element("span", number(self.top)),
            element("span", f"even would be {number(even)}", class_="even"),
            class_="key",
        )


def total(values: Iterable[float]) -> float:
    """The exact sum, or infinity where it is larger than any float: odd weights must not keep a page from being made.

    >>> total([0.1] * 10), total([1e308, 1e308])
    (1.0, inf)
    """
    try:
        return fsum(values)
    except OverflowError:
        return inf


def cautions(rows: Rows, columns: tuple[str, ...], kind: str = "token") -> list[str]:
    """What would mislead a reader: rows that are no distribution, a column that takes all, rows that are all alike.

    `kind` is what a column is: a token, a place.

    >>> cautions(((0.25, 0.25), (0.5, 0.0)), ("a", "b"))
    ['Rows sum to 0.5, not to 1.']
    """
    bad = sum(not isfinite(value) for row in rows for value in row)
    if bad:
        return [f"{number(bad)} {'weight is not a number' if bad == 1 else 'weights are not numbers'}."]
    found = []
    sums = sorted(total(row) for row in rows)
    if max(abs(sums[0] - 1), abs(sums[-1] - 1)) > 0.01:
        low, high = number(sums[0]), number(sums[-1])
        who = "Rows sum" if len(rows) > 1 else "The weights sum"
        found.append(f"{who} to {low if low == high else f'{low} up to {high}'}, not to 1.")
    if len(rows) < 3 or len(columns) < 3:
        return found
    means = [total(row[column] for row in rows) / len(rows) for column in range(len(columns))]
    largest = max(range(len(columns)), key=means.__getitem__)
    if means[largest] > 0.5:
        found.append(f"One {kind}, \u201c{columns[largest]}\u201d, takes {means[largest]:.0%} of all weight.")
    if all(max(column) - min(column) < 0.01 for column in zip(*rows, strict=True)):
        found.append("Every row is the same: what is written does not change where the model looks.")
    return found
