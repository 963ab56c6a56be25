"""Which class was taken for which, as a table of counts colored by their share of the row."""

from dataclasses import dataclass

from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, scroll
from mirada.drawing.weights import LIGHT
from mirada.errors import require

MOST = 40  # classes that a person can overlook


@dataclass(frozen=True)
class Confusion(Item):
    """counts[i][j] is how many records of class i were taken for class j.

    >>> Confusion(("a", "b"), ((1, 2),))
    Traceback (most recent call last):
    ValueError: counts must have a row and a column per class: got 1 x 2 for 2 classes
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        rows, classes = len(self.counts), len(self.labels)
        columns = next((len(row) for row in self.counts if len(row) != classes), classes)
        require(
            (rows, columns) == (classes, classes),
            f"counts must have a row and a column per class: got {rows} x {columns} for {classes} classes",
        )

    @property
    def empty(self) -> bool:
        """Beyond some dozens of classes the table of every class says more."""
        return not 0 < len(self.labels) <= MOST

    def draw(self) -> Markup:
        """The table; the diagonal has its own color."""
        columns = [element("th", element("span", element("bdi", label)), scope="col") for label in self.labels]
        rows = [self.row(place) for place in range(len(self.labels))]
        table = element(
            "table",
            element("thead", element("tr", element("td", "is \\ taken for", class_="corner"), *columns)),
            element("tbody", *rows),
            class_="matrix confusion",
            translate="no",
        )
        return element(
            "figure",
            element("figcaption", element("h3", "Taken for what")),
            scroll(table, "Confusion matrix"),
            class_="card",
        )

    def row(self, place: int) -> Markup:
        """One class; a cell is the darker the larger its share of the class."""
        label, counts = self.labels[place], self.counts[place]
        total = max(1, sum(counts))
        cells = []
        for column, count in enumerate(counts):
            share = count / total
            kinds = ["right"] if column == place else []
            kinds += ["strong"] if share > LIGHT else []
            title = f"{label} taken for {self.labels[column]}: {count:,} of {sum(counts):,}"
            style = f"--w:{share:.3f}" if count else None
            cells.append(
                element("td", f"{count:,}" if count else "", class_=" ".join(kinds) or None, style=style, title=title)
            )
        return element("tr", element("th", element("bdi", label), scope="row"), *cells)
