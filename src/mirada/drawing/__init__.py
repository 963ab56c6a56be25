"""Pictures of numbers and words, and their pages: SVG, HTML and PNG, with nothing to load.

One file per kind of picture. An item (see `Item`) is a frozen dataclass of plain values that draws itself; `html` makes a
page of a report of items, `document` is the frame of any page. Every text is data and stays text: what is not `Markup` is
escaped.

>>> from mirada.drawing import Chart, Curve, Report, Section, html
>>> chart = Chart("loss by step", (Curve("training", ((1, 0.9), (2, 0.5))),))
>>> html(Report("A run", sections=(Section("Training", items=(chart,)),)))[:15]
'<!doctype html>'
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.drawing.attention.picture import HeatPanel, PictureHeat
    from mirada.drawing.attention.weights import Weighed
    from mirada.drawing.charts import Chart, Curve
    from mirada.drawing.page import Fact, Item, Report, Section, TextSample, document, html
    from mirada.drawing.tables import Confusion, DataTable, Ranked

__all__ = [
    "Chart", "Confusion", "Curve", "DataTable", "Fact", "HeatPanel", "Item", "PictureHeat", "Ranked", "Report",
    "Section", "TextSample", "Weighed", "document", "html",
]  # fmt: skip

__getattr__ = submodules(__name__)
