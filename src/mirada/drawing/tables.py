"""Small tables of numbers and texts."""

from dataclasses import dataclass

from mirada.drawing.item import Item
from mirada.drawing.markup import Markup, element, scroll
from mirada.drawing.numerals import Value, written
from mirada.errors import require


@dataclass(frozen=True)
class DataTable(Item):
    """Numbers by name, such as quality by length. The first cell of a row names it.

    >>> DataTable("By length", ("tokens", "BLEU"), (("1 to 10", 41.2, "extra"),))
    Traceback (most recent call last):
    ValueError: a row must have a cell per column: row 0 has 3 for 2 columns
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            require(
                len(row) == len(self.columns),
                f"a row must have a cell per column: row {index} has {len(row)} for {len(self.columns)} columns",
            )

    @property
    def empty(self) -> bool:
        return not (self.rows and self.columns)

    def draw(self) -> Markup:
        """Numbers right-aligned under each other, texts to the left."""
        texts = [all(isinstance(entry, str) for entry in column) for column in zip(*self.rows, strict=True)]
        kinds = ["text" if text else None for text in texts]

        def row(name: str, cells: list[str], scope: str) -> Markup:
            tag = "th" if scope == "col" else "td"
            rest = zip(cells, kinds[1:], strict=True)
            others = [
                element(tag, cell, class_=kind, scope="col" if tag == "th" else None, dir="auto") for cell, kind in rest
            ]
            return element("tr", element("th", name, scope=scope, dir="auto"), *others)

        head = row(self.columns[0], list(self.columns[1:]), "col")
        rows = [row(written(entries[0]), [written(entry) for entry in entries[1:]], "row") for entries in self.rows]
        whole = element(
            "table",
            element("thead", head),
            element("tbody", *rows),
            class_="numbers wordy" if all(texts) else "numbers",
        )
        return element(
            "figure",
            element("figcaption", element("h3", self.title, dir="auto")) if self.title else None,
            scroll(whole, self.title or "Table"),
            class_="card",
        )
