"""The page a training run leaves in its folder: from plain values to one HTML file that needs nothing else.

`contents` says what can be on the page, `page` puts it together. Every text is data and stays text: `markup` escapes
whatever it did not write itself.
"""

from mirada.drawing.contents import (
    Aligned,
    Chart,
    Curve,
    Item,
    Ranked,
    Report,
    Sample,
    Section,
    Table,
    Weighed,
)
from mirada.drawing.page import html

__all__ = [
    "Aligned",
    "Chart",
    "Curve",
    "Item",
    "Ranked",
    "Report",
    "Sample",
    "Section",
    "Table",
    "Weighed",
    "html",
]
