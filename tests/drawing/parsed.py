"""Pages and pictures, read back: what a browser would see of them."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from mirada.drawing import Item, Report, Section, html

NAN, INF = float("nan"), float("inf")
VOID = {"meta", "br", "img"}
PAIRS = (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy"))
COORDINATES = {name for pair in PAIRS for name in pair}


@dataclass
class Node:
    """An element of a parsed page."""

    name: str
    attributes: dict[str, str | None]
    children: list["Node | str"] = field(default_factory=list)

    def all(self, name: str = "", kind: str = "") -> list["Node"]:
        """The elements below, by name and class."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if (not name or child.name == name) and (not kind or kind in child.kinds):
                    found.append(child)
                found += child.all(name, kind)
        return found

    @property
    def kinds(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Parser(HTMLParser):
    """Reads a page and refuses what is not closed in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")


def parse(page: str) -> Node:
    parser = Parser()
    parser.feed(page)
    parser.close()
    assert parser.open == [parser.root]
    return parser.root


def page_of(*items: Item) -> Node:
    return parse(html(Report("run", sections=(Section("Section", "", items),))))


def places(svg: Node) -> list[tuple[float, float]]:
    """All points that a picture names."""
    found = []
    for node in svg.all():
        number_of = {name: float(value or "nan") for name, value in node.attributes.items() if name in COORDINATES}
        found += [(number_of[x], number_of[y]) for x, y in PAIRS if x in number_of]
        path = node.attributes.get("points") or ""
        found += [(float(point.split(",")[0]), float(point.split(",")[1])) for point in path.split()]
    return found


def assert_inside(root: Node) -> None:
    """Every coordinate lies inside the view box of its picture."""
    for svg in root.all("svg"):
        left, top, width, height = map(float, (svg.attributes["viewbox"] or "").split())
        for x, y in places(svg):
            assert left <= x <= left + width
            assert top <= y <= top + height


def rows_of(table: Node) -> list[list[str]]:
    return [[cell.text for cell in row.all() if cell.name in ("th", "td")] for row in table.all("tr")]
