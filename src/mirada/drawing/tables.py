"""Tables: numbers by name, confusion matrices, and ranked candidates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from mirada.drawing.attention.weights import LIGHT, head
from mirada.drawing.page import Item, Markup, card, element, scroll
from mirada.errors import require
from mirada.words import Value, number, plain, written

# Small tables of numbers and texts.


@dataclass(frozen=True)
class DataTable(Item):
    """Numbers by name, such as quality by length.

    Args:
        title: The heading.
        columns: The names of the columns.
        rows: The rows; the first cell of a row names it.

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
        kinds = ["text" if text else None for text in texts[1:]]

        def row(tag: str, name: str, *cells: str) -> Markup:
            scope = "col" if tag == "th" else None
            pairs = zip(cells, kinds, strict=True)
            others = [element(tag, cell, class_=kind, scope=scope, dir="auto") for cell, kind in pairs]
            return element("tr", element("th", name, scope=scope or "row", dir="auto"), *others)

        names = element("thead", row("th", *self.columns))
        body = element("tbody", *(row("td", *map(written, entries)) for entries in self.rows))
        whole = element("table", names, body, class_="numbers wordy" if all(texts) else "numbers")
        return card(self.title, scroll(whole, self.title or "Table"))


MOST = 40  # classes of a matrix that is still readable


@dataclass(frozen=True)
class Confusion(Item):
    """A confusion matrix.

    Args:
        labels: The names of the classes.
        counts: counts[i][j] is how many records of class i were taken for class j.

    >>> Confusion(("a", "b"), ((1, 2),))
    Traceback (most recent call last):
    ValueError: counts must have a row and a column per class: got 1 x 2 for 2 classes
    """

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        rows, classes = len(self.counts), len(self.labels)
        columns = next((len(row) for row in self.counts if len(row) != classes), classes)
        fits = (rows, columns) == (classes, classes)
        require(fits, f"counts must have a row and a column per class: got {rows} x {columns} for {classes} classes")

    @property
    def empty(self) -> bool:
        """With more than some dozens of classes, the table of every class is easier to read."""
        return not 0 < len(self.labels) <= MOST

    def draw(self) -> Markup:
        """The table; the diagonal has its own color."""
        columns = [element("th", element("span", element("bdi", label)), scope="col") for label in self.labels]
        rows = [self._row(place) for place in range(len(self.labels))]
        names = element("thead", element("tr", element("td", "is \\ taken for", class_="corner"), *columns))
        table = element("table", names, element("tbody", *rows), class_="matrix confusion", translate="no")
        caption = element("figcaption", element("h3", "Taken for what"))
        return element("figure", caption, scroll(table, "Confusion matrix"), class_="card")

    def _row(self, place: int) -> Markup:
        """One class; a cell is the darker the larger its share of the class."""
        label, counts = self.labels[place], self.counts[place]
        total = max(1, sum(counts))
        cells = []
        for column, count in enumerate(counts):
            share, text = count / total, f"{count:,}" if count else ""
            kind = " ".join(["right"] * (column == place) + ["strong"] * (share > LIGHT)) or None
            title = f"{label} taken for {self.labels[column]}: {count:,} of {sum(counts):,}"
            cells.append(element("td", text, class_=kind, style=f"--w:{share:.3f}" if count else None, title=title))
        return element("tr", element("th", element("bdi", label), scope="row"), *cells)


# Candidates with their scores: the words that may fill a gap, best first.


GAP = re.compile(r"(_{3,}|\[MASK\]|<mask>)")


@dataclass(frozen=True)
class Ranked(Item):
    """A text with a gap, and the words that may fill it.

    Args:
        text: The text; its gap is three or more underscores, "[MASK]" or "<mask>".
        candidates: Words with their scores, best first.
        wanted: The right word, if it is known.
        note: A line above the text.

    >>> "wanted" in Ranked("a ___ house", (("red", 0.6), ("big", 0.3)), wanted="red").draw()
    True
    """

    text: str
    candidates: tuple[tuple[str, float], ...]
    wanted: str = ""
    note: str = ""

    @property
    def empty(self) -> bool:
        return not self.candidates

    def draw(self) -> Markup:
        """The text with its gap and a bar per candidate."""
        signs = {self.wanted: element("span", " \u2713 wanted", class_="right")} if self.wanted else {}
        gap = {"class_": "gap", "role": "img", "aria_label": "gap"}
        gapped = [element("span", part, **gap) if GAP.fullmatch(part) else part for part in GAP.split(self.text)]
        missed = None
        if self.wanted and self.wanted not in [word for word, _ in self.candidates]:
            name = element("b", self.wanted, dir="auto")
            missed = element("p", "wanted ", name, ", not among these", class_="missed wrong")
        text = element("p", *gapped, class_="gapped", dir="auto", lang="", translate="no")
        return element("figure", head(self.note, None), text, bars(self.candidates, signs), missed, class_="card")


def bars(entries: Sequence[tuple[str, float]], signs: Mapping[str, Markup]) -> Markup:
    """A bar for each name, with its score written out; `signs` are put after a name.

    Probabilities are drawn as shares of one, other scores against the largest.
    """
    scores = [score for _, score in entries if isfinite(score)]
    top = 1.0 if all(0 <= score <= 1 for score in scores) else max(scores) if max(scores) > 0 else 1.0
    rows = []
    for name, score in entries:
        share = min(max(score, 0.0) / top, 1.0) if isfinite(score) else 0.0
        bar = element("i", style=f"width:{plain(100 * share)}%")
        named = element("span", name, signs.get(name), dir="auto")
        rows.append(
            element("li", named, element("span", bar, class_="bar", aria_hidden="true"), element("b", number(score)))
        )
    return element("ol", *rows, class_="ranked", lang="", translate="no")
