"""The report: everything given is on the page, as text, inside its picture, and nothing else is."""

import base64
import hashlib
import math
import re
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirada.drawing import Aligned, Chart, Curve, DataTable, Item, Ranked, Report, Section, TextSample, Weighed, html
from mirada.drawing.axes import linear, logarithmic
from mirada.drawing.comparison import compared
from mirada.drawing.curves import MOST, thinned
from mirada.drawing.document import static
from mirada.drawing.numerals import number, weight
from mirada.drawing.weights import LIGHT, ColorScale, cautions
from mirada.drawing.wordpieces import pieces, text_of

NAN, INF = float("nan"), float("inf")
VOID = {"meta", "br"}
STYLE = static("page.css")
HOSTILE = "</script></style><img src=x onerror=\"alert('1')\"> <b>& &amp; -->"


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


def curve(*values: float | None, best: str = "") -> Curve:
    return Curve("loss", tuple(enumerate(values)), best)


def everything(text: str) -> Report:
    """A report that has this text wherever a text can be."""
    items = (
        Chart(text, (Curve(text, ((1, 2.0), (2, 1.0)), "lowest"),), text, text),
        Aligned((text, text, "."), (text, "."), ((0.5, 0.25, 0.25), (0.0, 0.0, 1.0)), text, text, -0.5),
        Weighed((text, "b"), (0.25, 0.75), text, "other", text, 0.5),
        TextSample(text, text, text),
        Ranked(f"{text} ___", ((text, 0.75), ("b", 0.25)), "c", text),
        DataTable(text, (text, text), ((text, 1.5), ("b", text))),
    )
    return Report(text, ((text, text),), (Section(text, text, items),), (text,), text, ((text, text),))


def places(svg: Node) -> list[tuple[float, float]]:
    """All points that a picture names."""
    found = []
    for node in svg.all():
        number_of = {name: float(value or "nan") for name, value in node.attributes.items() if name in COORDINATES}
        found += [(number_of[x], number_of[y]) for x, y in PAIRS if x in number_of]
        path = node.attributes.get("points") or ""
        found += [(float(point.split(",")[0]), float(point.split(",")[1])) for point in path.split()]
    return found


PAIRS = (("x", "y"), ("x1", "y1"), ("x2", "y2"), ("cx", "cy"))
COORDINATES = {name for pair in PAIRS for name in pair}


def assert_inside(root: Node) -> None:
    """Every coordinate lies inside the view box of its picture."""
    for svg in root.all("svg"):
        left, top, width, height = map(float, (svg.attributes["viewbox"] or "").split())
        for x, y in places(svg):
            assert left <= x <= left + width
            assert top <= y <= top + height


def rows_of(table: Node) -> list[list[str]]:
    return [[cell.text for cell in row.all() if cell.name in ("th", "td")] for row in table.all("tr")]


# --- the page as a whole


def test_a_full_page_is_well_formed_and_refers_to_nothing() -> None:
    page = html(everything("text"))
    root = parse(page)
    assert page.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"url\(|@import|@font-face|fetch\(|XMLHttpRequest|innerHTML", page)
    identities = [node.attributes["id"] for node in root.all() if "id" in node.attributes]
    assert len(set(identities)) == len(identities)
    for node in root.all():
        assert "src" not in node.attributes
        assert not any(name.startswith("on") for name in node.attributes)
        assert node.attributes.get("aria-labelledby", identities[0]) in identities
        if "href" in node.attributes:
            assert (node.attributes["href"] or "").removeprefix("#") in identities
    for region in root.all(kind="scroll"):
        assert region.attributes["aria-label"]
        assert region.attributes["tabindex"] == "0"


@pytest.mark.parametrize("text", [HOSTILE, "\x00\x1b\x7f\x85 a", "\ud800 half", "\u202e rtl", "]]> <!-- x", "'\"`=/"])
def test_texts_stay_texts(text: str) -> None:
    page = html(everything(text))
    page.encode("utf-8")
    root, plain = parse(page), parse(html(everything("text")))
    assert [node.name for node in root.all()] == [node.name for node in plain.all()]
    shown = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)
    assert root.all("title")[0].text == shown
    assert root.all("h1")[0].text == shown
    assert [node.text for node in root.all("code")] == [shown]
    assert len(root.all("script")) == 1


@given(text=st.text(st.characters(), max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_text_is_well_formed(text: str) -> None:
    page = html(everything(text))
    page.encode("utf-8")
    assert {node.name for node in parse(page).all()} <= {node.name for node in parse(html(everything("x"))).all()} | {
        "mark"
    }


def test_only_the_script_of_the_page_may_run() -> None:
    root = parse(html(everything(HOSTILE)))
    (script,) = root.all("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    (policy,) = [node for node in root.all("meta") if node.attributes.get("http-equiv") == "Content-Security-Policy"]
    assert f"script-src 'sha256-{digest}'" in (policy.attributes["content"] or "")
    assert "default-src 'none'" in (policy.attributes["content"] or "")


def test_what_is_empty_leaves_no_trace() -> None:
    nothing = (
        Chart("no chart", (Curve("no curve", ()),)),
        Aligned((), (), ()),
        Aligned(("a",), (), (), "no alignment"),
        Weighed((), (), "no answer"),
        TextSample("no sample", ""),
        Ranked("no ___", ()),
        DataTable("no table", ("a",), ()),
    )
    full = everything("text")
    extra = (Section("no section", "no text"), *full.sections, Section("no items", "no text", nothing))
    assert html(replace(full, sections=extra)) == html(full)
    (section,) = full.sections
    padded = replace(section, items=(*section.items, *nothing))
    assert html(replace(full, sections=(padded,))) == html(full)
    assert "<section" not in html(Report("run"))
    assert "<dl" not in html(Report("run"))
    assert "<nav" not in html(Report("run"))


def test_facts_and_commands() -> None:
    facts = (("BLEU", 34.2711), ("pairs", 12345), ("time", "4 min"), ("chrF", None), ("loss", NAN))
    root = parse(html(Report("run", facts, commands=('mirada run runs/a "x"',), details=(("seed", 7),))))
    assert [node.text for node in root.all("dd")] == ["34.27", "12,345", "4 min", "\u2013", "nan", "7"]
    assert [node.text for node in root.all("dt")] == ["BLEU", "pairs", "time", "chrF", "loss", "seed"]
    assert root.all("code")[0].text == 'mirada run runs/a "x"'


# --- numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234, "1,234"), (0.012345, "0.0123"), (0, "0"), (-0.0, "0"), (100, "100"), (999.96, "1,000"), (12.5, "12.5"),
     (34.2678, "34.27"), (1.23456, "1.235"), (-2.5, "-2.5"), (0.00031, "0.00031"), (3e-5, "3e-5"), (1.25e20, "1.25e20"),
     (3421568, "3,421,568"), (1234.4, "1,234"), (None, "\u2013"), (NAN, "nan"), (INF, "inf"), (-INF, "-inf")],
)  # fmt: skip
def test_numbers_by_hand(value: float | None, text: str) -> None:
    assert number(value) == text


@given(value=st.floats(-1e14, 1e14))
def test_a_written_number_is_near(value: float) -> None:
    assert math.isclose(float(number(value).replace(",", "")), value, rel_tol=6e-3, abs_tol=1e-300)


@given(value=st.floats(-1, 1))
def test_a_weight_is_short_and_near(value: float) -> None:
    assert len(weight(value)) <= 4
    assert abs(float(weight(value)) - value) <= 0.0051


# --- charts


def test_every_value_of_a_curve_is_in_its_table() -> None:
    train = Curve("train", ((1, 2.5), (2, 1.25), (3, 0.012345)))
    valid = Curve("valid", ((2, 1.5), (1234, None)), "lowest")
    root = page_of(Chart("Loss", (train, valid)))
    assert rows_of(root.all("table")[0]) == [
        ["step", "train", "valid"],
        ["1", "2.5", ""],
        ["2", "1.25", "1.5"],
        ["3", "0.0123", ""],
        ["1,234", "", "\u2013"],
    ]
    assert [node.text for node in root.all(kind="now")] == ["0.0123", "1.5"]
    assert "lowest 1.5 at 2" in root.all(kind="legend")[0].text
    label = root.all("svg")[-1].attributes["aria-label"]
    assert label == "Loss. train: 2.5 at step 1, 0.0123 at 3. valid: 1.5 at step 2, 1.5 at 2, lowest 1.5 at 2."


VALUES = st.none() | st.floats() | st.integers(-(10**9), 10**9) | st.just(0.3)


@given(
    values=st.lists(st.tuples(st.floats() | st.integers(0, 10**6), VALUES), max_size=12),
    scale=st.sampled_from(["linear", "from zero", "log"]),
    best=st.sampled_from(["", "lowest", "highest"]),
)
@settings(max_examples=300, deadline=None)
def test_a_chart_of_anything_stays_in_its_picture(
    values: list[tuple[float, float | None]], scale: str, best: str
) -> None:
    given = Curve("a", tuple(values), best)
    for curves in ((given, curve(1.0, 2.0)), (given,)):
        root = page_of(Chart("Loss", curves, scale=scale))
        assert_inside(root)
        assert len(root.all("figure")) == (0 if all(one.empty for one in curves) else 1)


def test_one_point_is_a_dot_with_a_ring() -> None:
    root = page_of(Chart("Loss", (curve(1.25, best="highest"),)))
    assert [node.name for node in root.all("g")[0].all() if node.name != "title"] == ["circle"]
    dot, ring = root.all("circle")
    assert (dot.attributes["cx"], dot.attributes["cy"]) == (ring.attributes["cx"], ring.attributes["cy"])
    assert ring.text == "loss, highest: 1.25 at 0"


def test_missing_values_leave_gaps_and_are_told() -> None:
    root = page_of(Chart("Loss", (curve(1.0, 2.0, NAN, 3.0, None, 2.0, 1.0, INF),)))
    lines = [len((node.attributes["points"] or "").split()) for node in root.all("polyline")]
    assert lines == [2, 2]
    assert len(root.all("circle")) == 5
    assert [node.text for node in root.all(kind="caution")] == ["loss: 3 values are missing or not finite."]


def test_a_chart_without_a_number_says_so() -> None:
    root = page_of(Chart("Loss", (curve(NAN, None),)))
    assert root.all("polyline") == []
    assert root.all(kind="caution")[0].text == "There is no finite value to draw."
    assert rows_of(root.all("table")[0])[1:] == [["0", "nan"], ["1", "\u2013"]]


def test_heights_follow_values() -> None:
    root = page_of(Chart("Loss", (curve(0.0, 1.0, 4.0, 2.0),)))
    points = [tuple(map(float, p.split(","))) for p in (root.all("polyline")[0].attributes["points"] or "").split()]
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    assert (y0 - y1, y0 - y2) == pytest.approx(((y0 - y3) / 2, 2 * (y0 - y3)), abs=0.01)
    assert (x1 - x0, x2 - x1) == pytest.approx((x3 - x2, x3 - x2), abs=0.01)
    assert x0 < x1
    assert y2 < y0


@pytest.mark.parametrize(("steps", "labels"), [((5,), ["5"]), ((0, 1), ["0", "1"]), ((0, 0.5), ["0", "0.1", "0.2"])])
def test_whole_steps_have_whole_ticks(steps: tuple[float, ...], labels: list[str]) -> None:
    root = page_of(Chart("Loss", (Curve("loss", tuple((step, 1.0) for step in steps)),)))
    feet = [node.text for node in root.all("text") if node.attributes["y"] == "229"]
    assert feet[:3] == labels


def test_a_log_scale_makes_ratios_equal_and_needs_positive_values() -> None:
    def heights(*values: float) -> list[float]:
        root = page_of(Chart("Loss", (curve(*values),), scale="log"))
        path = root.all("polyline")[0].attributes["points"] or ""
        return [float(point.split(",")[1]) for point in path.split()]

    a, b, c = heights(1.0, 10.0, 100.0)
    assert a - b == pytest.approx(b - c, abs=0.01)
    a, b, c = heights(0.0, 10.0, 100.0)
    assert 9 * (a - b) == pytest.approx(b - c, abs=0.02)


def test_from_zero_starts_at_zero() -> None:
    def first_label(scale: str) -> str:
        return page_of(Chart("Speed", (curve(21000.0, 22000.0),), scale=scale)).all("text")[0].text

    assert first_label("from zero") == "0"
    assert first_label("linear") == "21k"


@given(
    low=st.floats(-1e6, 1e6) | st.floats(-1, 1), span=st.floats(0, 1e6) | st.floats(0, 1e-4), about=st.integers(2, 7)
)
@settings(max_examples=400)
def test_ticks_are_even_and_cover_the_values(low: float, span: float, about: int) -> None:
    start, end, ticks = linear(low, low + span, about, whole=True)
    assert start <= low + 1e-6 * (end - start)
    assert end >= low + span - 1e-6 * (end - start)
    assert 2 <= len(ticks) <= about + 3
    assert len({label for _, label in ticks}) == len(ticks)
    steps = [b[0] - a[0] for a, b in pairwise(ticks)]
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@given(low=st.floats(1e-9, 1e9) | st.integers(-9, 9).map(lambda power: 10.0**power), ratio=st.floats(1, 1e9))
@settings(max_examples=400)
def test_log_ticks_cover_the_values(low: float, ratio: float) -> None:
    start, end, ticks = logarithmic(low, low * ratio)
    assert 0 < start <= low <= low * ratio <= end
    assert start < end
    assert (ticks[0][0], ticks[-1][0]) == (start, end)


def test_long_curves_are_thinned_without_losing_a_peak() -> None:
    values = [math.sin(i) for i in range(10_000)]
    values[4321], values[5678] = 50.0, -50.0
    kept = dict(thinned(tuple(enumerate(values)), MOST))
    assert len(kept) <= MOST + 4
    assert {0, 4321, 5678, 9999} <= set(kept)
    assert all(values[int(step)] == value for step, value in kept.items())
    root = page_of(Chart("Loss", (curve(*values),)))
    assert re.fullmatch(r"loss: 2\d\d of 10,000 points; every peak is kept\.", root.all(kind="remark")[0].text)
    assert page_of(Chart("Loss", (curve(*values[:MOST]),))).all(kind="remark") == []


def test_of_two_values_at_a_step_the_last_counts_and_steps_are_sorted() -> None:
    root = page_of(Chart("Loss", (Curve("loss", ((2, 5.0), (1, 3.0), (2, 4.0))),)))
    assert rows_of(root.all("table")[0])[1:] == [["1", "3"], ["2", "4"]]
    assert root.all(kind="now")[0].text == "4"


def test_curves_differ_by_more_than_color() -> None:
    root = page_of(Chart("Loss", tuple(Curve(str(i), ((0, i), (1, i))) for i in range(12))))
    looks = {(group.kinds[1], group.all("polyline")[0].attributes.get("stroke-dasharray")) for group in root.all("g")}
    assert len(looks) == 12
    first, second = root.all("polyline")[:2]
    assert first.attributes.get("stroke-dasharray") != second.attributes.get("stroke-dasharray")


# --- attention


def test_a_map_has_every_weight_at_its_place() -> None:
    weights = ((0.7, 0.2, 0.1), (0.05, 0.35, 0.6))
    root = page_of(Aligned(("the", "cat", "."), ("el", "gato"), weights, score=-0.25))
    table = root.all("table")[0]
    assert rows_of(table) == [
        ["", "the", "cat", "."],
        ["el", ".70", ".20", ".10"],
        ["gato", ".05", ".35", ".60"],
        ["mean", ".38", ".28", ".35"],
    ]
    cells = table.all("tbody")[0].all("td")
    assert [cell.attributes["title"] for cell in cells[:2]] == ["el \u2192 the: 0.7", "el \u2192 cat: 0.2"]
    shares = [float((cell.attributes["style"] or "").removeprefix("--w:")) for cell in cells]
    assert shares == pytest.approx([w / 0.7 for row in weights for w in row], abs=1e-3)
    assert [cell.kinds for cell in cells] == [["strong"], [], [], [], [], ["strong"]]
    assert [token.text for token in root.all(kind="source")[0].all("span")] == ["the", "cat", "."]
    assert [token.text for token in root.all(kind="written")[0].all("span")] == ["el", "gato"]
    assert "even would be 0.3333" in root.all(kind="key")[0].text
    assert root.all("figcaption")[0].text == "score -0.25"
    assert root.all(kind="caution") == []


@pytest.mark.parametrize("size", [1, 14, 15, 60])
def test_maps_of_any_size_are_whole_and_scroll(size: int) -> None:
    tokens = tuple(f"t{i}" for i in range(size))
    root = page_of(Aligned(tokens, tokens, tuple(tuple(1 / size for _ in tokens) for _ in tokens)))
    (table,) = root.all("table")
    assert len(table.all("tbody")[0].all("td")) == size * size
    assert ("dense" in table.kinds) == (size > 14)
    assert len(root.all(kind="scroll")) == 1


def test_weights_that_would_mislead_are_named() -> None:
    def told(*rows: tuple[float, ...]) -> list[str]:
        tokens = tuple("abcd"[: len(rows[0])])
        figure = page_of(Aligned(tokens, tuple(str(i) for i in range(len(rows))), rows))
        return [node.text for node in figure.all(kind="caution")]

    assert told((0.5, 0.5), (0.9, 0.1)) == []
    assert told((0.5, NAN), (0.9, 0.1)) == ["1 weight is not a number."]
    assert told((0.5, 0.5), (0.5, 0.1)) == ["Rows sum to 0.6 up to 1, not to 1."]
    sink = ((0.1, 0.8, 0.1), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8), (0.05, 0.9, 0.05))
    assert told(*sink) == ["One token, \u201cb\u201d, takes 60% of all weight."]
    alike = ((0.4, 0.3, 0.3),) * 3
    assert told(*alike) == ["Every row is the same: what is written does not change where the model looks."]
    assert cautions(((0.2, 0.3),), ("a", "b")) == ["The weights sum to 0.5, not to 1."]


def test_the_caution_of_attention_stands_where_weights_are() -> None:
    assert len(page_of(Weighed(("a",), (1.0,), "yes")).all(kind="looked")) == 1
    assert page_of(TextSample("a", "b")).all(kind="looked") == []


def test_odd_weights_are_drawn_as_what_they_are() -> None:
    root = page_of(Aligned(("a", "b", "c"), ("x",), ((NAN, -0.5, 0.25),)))
    cells = root.all("tbody")[0].all("td")
    assert [cell.text for cell in cells] == ["nan", "-.50", ".25"]
    assert [cell.kinds for cell in cells] == [["bad"], ["strong", "negative"], []]
    assert [cell.attributes["style"] for cell in cells] == ["--w:0", "--w:1", "--w:0.5"]
    assert ColorScale.of(((0.0, NAN),)).share(0.0) == 0.0


def test_a_weighed_text_names_its_answer_and_weights() -> None:
    root = page_of(Weighed(("not", "bad", "!"), (0.5, 0.375, 0.125), "good", "bad", score=0.9))
    tokens = root.all(kind="token")
    assert [token.attributes["title"] for token in tokens] == ["not: 0.5", "bad: 0.375", "!: 0.125"]
    assert [token.attributes["style"] for token in tokens] == ["--w:1", "--w:0.75", "--w:0.25"]
    assert [node.text for node in root.all(kind="verdict")[0].all("span")] == [
        "answer good", "score 0.9", "\u2717 wrong", "wanted bad",
    ]  # fmt: skip
    assert "strongest: not 0.5, bad 0.375, ! 0.125" in root.all(kind="keys")[0].text
    right = page_of(Weighed(("a",), (1.0,), "good", "good"))
    assert [node.text for node in right.all(kind="verdict")[0].all("span")] == ["answer good", "\u2713 right"]
    unknown = page_of(Weighed(("a",), (1.0,), "good"))
    assert [node.text for node in unknown.all(kind="verdict")[0].all("span")] == ["answer good"]


def test_pieces_of_words() -> None:
    for tokens in [
        ("\u2581gat", "ito", "\u2581no"),
        ("gat", "##ito", "no"),
        ("gat@@", "ito", "no"),
        (" gat", "ito", " no"),
    ]:
        assert [(piece.text, piece.starts) for piece in pieces(tokens)] == [("gat", True), ("ito", False), ("no", True)]
        assert text_of((*tokens, "</s>", "[SEP]")) == "gatito no"
    assert [piece.shown for piece in pieces(("\n", "\u2581", "", "a\tb"))] == ["\u21b5", "\u2423", "\u2423", "a\u21e5b"]
    root = page_of(Aligned(("a", "b"), ("\u2581gat", "ito"), ((0.5, 0.5), (0.9, 0.1))))
    assert root.all(kind="written")[0].text == "gatito"
    assert [row[0] for row in rows_of(root.all("table")[0])] == ["", "gat", "\u00b7ito", "mean"]


@pytest.mark.parametrize(
    ("wanted", "given", "marked"),
    [("la casa roja.", "la casa roja .", []), ("la casa roja.", "la casa rojo .", ["roja"]),
     ("no lo sé", "sé", ["no", "lo"]), ("a", "", ["a"]), ("a b", "a x b", [])],
)  # fmt: skip
def test_words_that_were_not_written_are_marked(wanted: str, given: str, marked: list[str]) -> None:
    root = parse(compared(wanted, given))
    assert root.text == wanted
    assert [node.text for node in root.all("mark")] == marked


# --- texts and tables


def test_ranked_words() -> None:
    root = page_of(Ranked("una nueva ___ .", (("película", 0.8123), ("obra", 0.05), ("mesa", NAN)), "obra"))
    assert [node.text for node in root.all("li")] == ["película0.8123", "obra \u2713 wanted0.05", "mesanan"]
    widths = [bar.attributes["style"] for bar in root.all("i")]
    assert widths == ["width:81.23%", "width:5%", "width:0%"]
    assert len(root.all(kind="gap")) == 1
    assert "not among these" not in root.text
    missed = page_of(Ranked("[MASK] <mask>", (("a", 12.0), ("b", 3.0), ("c", -2.0)), "d"))
    assert [bar.attributes["style"] for bar in missed.all("i")] == ["width:100%", "width:25%", "width:0%"]
    assert missed.all(kind="missed")[0].text == "wanted d, not among these"
    assert len(missed.all(kind="gap")) == 2
    assert "nan" in page_of(Ranked("___", (("a", NAN), ("b", -1.0)))).text


def test_samples_keep_their_white_space() -> None:
    root = page_of(TextSample("greedy", "\n  b\n\n   c ", "a"), TextSample("", "x"))
    assert [node.text for node in root.all("pre")] == ["a\n  b\n\n   c ", "x"]
    assert root.all(kind="prompt")[0].text == "a"


def test_a_table_has_every_cell() -> None:
    root = page_of(DataTable("By length", ("tokens", "BLEU"), (("1 to 10", 41.204), (20, None), ("all", "n/a"))))
    assert rows_of(root.all("table")[0]) == [["tokens", "BLEU"], ["1 to 10", "41.2"], ["20", "\u2013"], ["all", "n/a"]]


# --- refusals


def test_refusals() -> None:
    with pytest.raises(ValueError, match="a row per written token: got 2 rows for 1 tokens"):
        Aligned(("a",), ("b",), ((1.0,), (1.0,)))
    with pytest.raises(ValueError, match="a column per source token: row 1 has 1 for 2 tokens"):
        Aligned(("a", "b"), ("x", "y"), ((0.5, 0.5), (1.0,)))
    with pytest.raises(ValueError, match="a weight per token: got 1 weights for 2 tokens"):
        Weighed(("a", "b"), (1.0,), "yes")
    with pytest.raises(ValueError, match="a cell per column: row 0 has 1 for 2 columns"):
        DataTable("t", ("a", "b"), (("x",),))
    with pytest.raises(ValueError, match=r"best of a curve 'lower'; known: highest, lowest\. Did you mean 'lowest'\?"):
        Curve("loss", (), "lower")
    with pytest.raises(ValueError, match=r"unknown scale of a chart 'logg'.*Did you mean 'log'\?"):
        Chart("Loss", (), scale="logg")


# --- colors


def palette(dark: bool) -> dict[str, tuple[float, ...]]:
    """The colors of a mode, read from the style."""
    block = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[1 if dark else 0]
    found: dict[str, tuple[float, ...]] = {}
    for name, value in re.findall(r"--(\w+): ([^;]+);", block):
        if value.startswith("#"):
            digits = value[1:] if len(value) == 7 else "".join(2 * digit for digit in value[1:])
            found[name] = tuple(int(digits[i : i + 2], 16) for i in (0, 2, 4))
        else:
            found[name] = tuple(map(float, value.split()))
    return found


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(color: tuple[float, ...]) -> float:
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_everything_can_be_read(dark: bool) -> None:
    colors = palette(dark)
    for ground in ("card", "page"):
        for name in ("text", "soft", "link", "right", "wrong"):
            assert contrast(colors[name], colors[ground]) >= 4.5
    assert contrast(colors["text"], colors["mark"]) >= 4.5
    assert contrast(colors["text"], colors["prompt"]) >= 4.5
    for curve_color in ("c1", "c2", "c3", "c4", "c5", "c6"):
        assert contrast(colors[curve_color], colors["card"]) >= 3
    for heat in ("heat", "cold"):
        for share in (i / 100 for i in range(101)):
            mixed = tuple(
                share * hot + (1 - share) * cold for hot, cold in zip(colors[heat], colors["card"], strict=True)
            )
            figures = colors["bright"] if share > LIGHT else colors["faint"]
            assert contrast(mixed, figures) >= 4.5, (heat, share)
