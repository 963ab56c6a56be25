"""Pictures of numbers and words, and the pages they stand on: SVG, HTML and PNG, with nothing to load.

One file per kind of picture. An item (see `item`) is a frozen dataclass of plain values that draws itself; `page` puts
items into a report, `document` is the frame of any page. Every text is data and stays text: `markup` escapes whatever it
did not write itself.
"""

from mirada.drawing.attention.picture import HeatPanel, PictureHeat
from mirada.drawing.attention.weights import Weighed
from mirada.drawing.charts import Chart, Curve
from mirada.drawing.page import Fact, Item, Report, Section, TextSample, document, html
from mirada.drawing.tables import Confusion, DataTable, Ranked

__all__ = [
    "Chart",
    "Confusion",
    "Curve",
    "DataTable",
    "Fact",
    "HeatPanel",
    "Item",
    "PictureHeat",
    "Ranked",
    "Report",
    "Section",
    "TextSample",
    "Weighed",
    "document",
    "html",
]
