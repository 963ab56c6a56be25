"""The report of labels: every class, how much neighbors matter, and nodes drawn among their neighbors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, isfinite, pi, sin

from mirada.drawing.attention.weights import ColorScale, cautions, head, total, verdict
from mirada.drawing.page import Item, Markup, Section, element, scroll
from mirada.drawing.tables import DataTable, bars
from mirada.errors import require
from mirada.runs.answers import Answer
from mirada.runs.class_report import class_sections, reader_sections
from mirada.runs.run import Run
from mirada.runs.task import sample_evenly
from mirada.tasks.label.graph import NodeRecord
from mirada.tasks.label.readers import PLAIN
from mirada.tasks.label.task import given_and_wanted
from mirada.training.metrics import accuracy
from mirada.words import number, plain, shortened

WIDTH, HEIGHT = 380, 300
CENTER = (WIDTH / 2, HEIGHT / 2)
RADII = (118, 108)  # of the ellipse on which neighbors stand: names need room at both sides
MOST = 12  # neighbors that can be told apart around a node
LONGEST = 11  # letters of a name in the drawing
THICKEST, THINNEST = 9.0, 0.8
RELATIONS = {"same": "labelled as answered", "missed": "as wanted", "other": "otherwise"}  # of a neighbor to the answer
SHOWN = 6  # examples and errors in the report
DEGREES = (1, 2, 4, 8, 16)  # neighbors; the last group is open


def sections(run: Run, records: Sequence[NodeRecord], answers: Sequence[Answer]) -> list[Section]:
    """The sections of a run that labels: who answers, its classes, how neighbors matter, nodes among theirs, wrong ones."""
    pairs = list(zip(answers, records, strict=True))
    wrong = sorted((pair for pair in pairs if pair[0].text != pair[1].value.label), key=lambda pair: -pair[0].score)
    few = [pair for pair in pairs if 2 < len(pair[0].read) <= 12] or pairs  # as many neighbors as one can see at once
    about = (
        "The thicker an edge, the more the last layer looked along it, over all heads. In brackets: a neighbor's label."
    )
    return [
        *reader_sections(answers, [record.value.label for record in records], run.known.readers, PLAIN),
        *class_sections(*given_and_wanted(records, answers), run.known.labels),
        Section("Neighbors", _agreement(pairs), (_by_degree(pairs),)),
        Section("Examples", about, tuple(_drawn_node(*pair) for pair in sample_evenly(few, SHOWN))),
        Section("Worst errors", "Wrong answers, the surest first.", tuple(_drawn_node(*p) for p in wrong[:SHOWN])),
    ]


def _agreement(pairs: Sequence[tuple[Answer, NodeRecord]]) -> str:
    """How much of the attention falls on neighbors of a node's own label, in words, and what even weights would give."""
    looked = even = whole = 0.0
    for answer, record in pairs:
        assert answer.weights is not None
        others = [
            (weight, node.label == record.value.label)
            for node, weight in zip(answer.value, answer.weights[0].tolist(), strict=True)
            if node.number != record.value.number and node.label
        ]
        if total := sum(weight for weight, _ in others):
            looked += sum(weight for weight, same in others if same) / total
            even += sum(same for _, same in others) / len(others)
            whole += 1
    if not whole:
        return "How often answers are right, by the number of neighbors."
    return (
        f"Of the attention to others, {100 * looked / whole:.0f} % falls on neighbors with a node's own label; even weights "
        f"would give {100 * even / whole:.0f} %. Below: how often answers are right, by the number of neighbors."
    )


def _by_degree(pairs: Sequence[tuple[Answer, NodeRecord]]) -> DataTable:
    """Quality by the number of neighbors, the node itself not counted."""
    groups: dict[int, list[bool]] = {}
    for answer, record in pairs:
        degree = sum(node.number != record.value.number for node in answer.value)
        place = next((place for place, most in enumerate(DEGREES) if degree <= most), len(DEGREES))
        groups.setdefault(place, []).append(answer.text == record.value.label)
    rows = []
    for place, right in sorted(groups.items()):
        low, high = (DEGREES[place - 1] + 1 if place else 0), DEGREES[place] if place < len(DEGREES) else math.inf
        name = f"{low}+" if high == math.inf else str(low) if low == high else f"{low} to {high}"
        rows.append((name, len(right), accuracy(right, [True] * len(right))))
    return DataTable("By neighbors", ("neighbors", "nodes", "accuracy"), tuple(rows))


def _drawn_node(answer: Answer, record: NodeRecord) -> "NeighborGraph":
    """A node among its neighbors, with how much the model looked at each."""
    assert answer.weights is not None
    named = ((node.name, weight) for node, weight in zip(answer.value, answer.weights[0].tolist(), strict=True))
    known = tuple(node.label for node in answer.value)
    return NeighborGraph(record.value.name, tuple(named), known, answer.text, record.value.label, score=answer.score)


@dataclass(frozen=True)
class NeighborGraph(Item):
    """A node and its neighbors with their weights; the node itself may be among them.

    `kinds` are the neighbors' labels, one each, such as the class of a paper; `answer` is the label given to the node.

    >>> NeighborGraph("p7", (("p7", 0.5), ("p1", 0.3), ("p4", 0.2)), answer="theory").empty
    False
    """

    node: str
    neighbors: tuple[tuple[str, float], ...]
    kinds: tuple[str, ...] = ()
    answer: str = ""
    wanted: str = ""
    note: str = ""
    score: float | None = None
    shows_attention = True

    def __post_init__(self) -> None:
        require(
            len(self.kinds) in (0, len(self.neighbors)),
            f"kinds must be one per neighbor, or none: got {len(self.kinds)} for {len(self.neighbors)} neighbors",
        )

    @property
    def empty(self) -> bool:
        return not self.neighbors

    @property
    def ordered(self) -> list[tuple[str, float, str]]:
        """Name, weight and kind, the strongest first; what is no number is last."""
        kinds = self.kinds or ("",) * len(self.neighbors)
        entries = [(name, value, kind) for (name, value), kind in zip(self.neighbors, kinds, strict=True)]
        return sorted(entries, key=lambda entry: -abs(entry[1]) if isfinite(entry[1]) else 1.0)

    def draw(self) -> Markup:
        """The drawing of the strongest, and the list of all."""
        weights = tuple(value for _, value in self.neighbors)
        rows = [
            (" ".join(filter(None, (name, f"({kind})" if kind else "", "itself" if name == self.node else ""))), value)
            for name, value, kind in self.ordered
        ]
        return element(
            "figure",
            head(self.note, None),
            self.svg(),
            self.key(),
            element("p", *verdict(self.answer, self.wanted, self.score), class_="verdict") if self.answer else None,
            self.left_out(),
            scroll(bars(rows, {}), f"Weights of the neighbors of {self.node}"),
            element("p", f"even would be {number(1 / len(weights))}", class_="remark"),
            *(element("p", text, class_="caution") for text in cautions((weights,), tuple(n for n, _ in self.neighbors))),
            class_="card neighbor-graph",
        )  # fmt: skip

    def relation(self, kind: str) -> str:
        """What the label of a neighbor has to do with the answer: the same, the wanted one that was missed, or neither."""
        if not kind or not self.answer:
            return ""
        return "same" if kind == self.answer else "missed" if kind == self.wanted else "other"

    def key(self) -> Markup | None:
        """What the dots mean, as far as there are such dots."""
        relations = {self.relation(kind) for name, _, kind in self.ordered if name != self.node}
        shown = ((name, text) for name, text in RELATIONS.items() if name in relations)
        signs = [element("span", element("i", class_=f"dot {name}"), text) for name, text in shown]
        return element("p", *signs, class_="dots remark") if signs else None

    def left_out(self) -> Markup | None:
        """What the drawing does not show."""
        others = [value for name, value, _ in self.ordered if name != self.node]
        if len(others) <= MOST:
            return None
        drawn, whole = (total(abs(x) for x in some if isfinite(x)) for some in (others[:MOST], others))
        share = drawn / whole if whole and isfinite(whole) else 0.0
        text = f"Drawn: {MOST} of {number(len(others))} neighbors, with {share:.0%} of their weight. The list has all."
        return element("p", text, class_="remark")

    def svg(self) -> Markup:
        """The node in the middle, the strongest neighbors around it; the thicker an edge, the larger its weight."""
        scale = ColorScale.of((tuple(value for _, value in self.neighbors),))
        around = [entry for entry in self.ordered if entry[0] != self.node][:MOST]
        edges, dots = [], []
        for index, (name, value, kind) in enumerate(around):
            # the first stands on top, the others follow clockwise
            angle = 2 * pi * index / len(around) - pi / 2
            place = (CENTER[0] + RADII[0] * cos(angle), CENTER[1] + RADII[1] * sin(angle))
            title = f"{name}{f' ({kind})' if kind else ''}: {number(value)}"
            edges.append(_edge(place, value, scale, title))
            dots.append(_dot(place, (name, number(value)), title, angle, self.relation(kind)))
        own = [value for name, value in self.neighbors if name == self.node]
        listed = ", ".join(f"{name} {number(value)}" for name, value, _ in around)
        name = shortened(self.node, LONGEST, "\u2026")
        return element(
            "svg",
            *edges, *(_loop(value, scale, self.node) for value in own), *dots,
            element("circle", element("title", self.node), cx=plain(CENTER[0]), cy=plain(CENTER[1]), r=11, class_="node center"),
            element("text", name, x=plain(CENTER[0]), y=plain(CENTER[1] + (36 if own else 26)), class_="middle center"),
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            aria_label=f"{self.node} and its neighbors: {listed}",
        )  # fmt: skip


def _width_of(value: float, scale: ColorScale) -> str:
    return plain(THINNEST + (THICKEST - THINNEST) * scale.share(value))


def _kind_of(value: float) -> str:
    return "edge bad" if not isfinite(value) else "edge negative" if value < 0 else "edge"


def _edge(place: tuple[float, float], value: float, scale: ColorScale, title: str) -> Markup:
    """A line to a neighbor; one with a weight below zero, or that is no number, is dashed."""
    x, y = place
    return element(
        "line",
        element("title", title),
        x1=plain(CENTER[0]), y1=plain(CENTER[1]), x2=plain(x), y2=plain(y),
        stroke_width=_width_of(value, scale),
        stroke_dasharray=None if isfinite(value) and value >= 0 else "5 4",
        class_=_kind_of(value),
    )  # fmt: skip


def _loop(value: float, scale: ColorScale, name: str) -> Markup:
    """The weight of the node itself: a ring around it."""
    title = element("title", f"{name} itself: {number(value)}")
    x, y = (plain(place) for place in CENTER)
    return element(
        "circle", title, cx=x, cy=y, r=17, stroke_width=_width_of(value, scale), class_=f"{_kind_of(value)} ring"
    )


def _dot(place: tuple[float, float], written: tuple[str, str], title: str, angle: float, relation: str) -> Markup:
    """A neighbor with its name and weight next to it, on the side away from the center."""
    x, y = place
    name, value = written
    side = "middle" if abs(cos(angle)) < 0.3 else "end" if cos(angle) < 0 else None
    shift = 0 if side == "middle" else -10 if side == "end" else 10
    lift = (-20 if sin(angle) < 0 else 20) if side == "middle" else -1
    kind = f"node {relation}".strip()
    return element(
        "g",
        element("circle", element("title", title), cx=plain(x), cy=plain(y), r=5.5, class_=kind),
        element("text", shortened(name, LONGEST, "\u2026"), x=plain(x + shift), y=plain(y + lift), class_=side),
        element("text", value, x=plain(x + shift), y=plain(y + lift + 12), class_=f"{side or ''} amount".strip()),
    )
