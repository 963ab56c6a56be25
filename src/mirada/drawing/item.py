"""What a page asks of a picture: whether there is anything to see, and its markup."""

from typing import Protocol, runtime_checkable

from mirada.drawing.markup import Markup


@runtime_checkable
class Item(Protocol):
    """Something that draws itself: a frozen dataclass of plain values, checked when made.

    A page shows any item and knows none of them; neighbors of one type stand side by side. A new kind of picture is a
    new class in a file of its own:

    >>> from dataclasses import dataclass
    >>> from mirada.drawing.markup import element
    >>> @dataclass(frozen=True)
    ... class Quotation(Item):
    ...     text: str
    ...
    ...     @property
    ...     def empty(self) -> bool:
    ...         return not self.text
    ...
    ...     def draw(self) -> Markup:
    ...         return element("figure", self.text, class_="card")
    >>> Quotation("1 < 2").draw()
    '<figure class="card">1 &lt; 2</figure>'
    """

    @property
    def empty(self) -> bool:
        """Whether there is nothing to see; the page leaves such an item out."""
        ...

    @property
    def shows_attention(self) -> bool:
        """Whether its colors are weights: the page then says what they do not prove."""
        return False

    def draw(self) -> Markup:
        """The figure. Every text of the item is escaped by `element`."""
        ...
