"""Pictures of numbers and words, and the pages they stand on: SVG, HTML and PNG, with nothing to load.

One file per kind of picture. An item (see `item`) is a frozen dataclass of plain values that draws itself; `page` puts
items into a report, `document` is the frame of any page. Every text is data and stays text: `markup` escapes whatever it
did not write itself.
"""

from mirada.drawing.alignment import Aligned
from mirada.drawing.charts import Chart
from mirada.drawing.confusion import Confusion
from mirada.drawing.curves import Curve
from mirada.drawing.document import document
from mirada.drawing.forecast import ForecastChart
from mirada.drawing.heat import Weighed
from mirada.drawing.item import Item
from mirada.drawing.neighbors import NeighborGraph
from mirada.drawing.page import Fact, Report, Section, html
from mirada.drawing.passage import MarkedPassage
from mirada.drawing.picture import HeatPanel, PictureHeat
from mirada.drawing.ranked import Ranked
from mirada.drawing.samples import TextSample
from mirada.drawing.sound import SoundHeat
from mirada.drawing.tables import DataTable

__all__ = [
    "Aligned",
    "Chart",
    "Confusion",
    "Curve",
    "DataTable",
    "Fact",
    "ForecastChart",
    "HeatPanel",
    "Item",
    "MarkedPassage",
    "NeighborGraph",
    "PictureHeat",
    "Ranked",
    "Report",
    "Section",
    "SoundHeat",
    "TextSample",
    "Weighed",
    "document",
    "html",
]
