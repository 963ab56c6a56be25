"""label: a node of a graph in, one of the labels it was trained with out, with the neighbors the model looked at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mirada.attention.neighborhoods import Edges
from mirada.data.batching import Microbatch, Whole
from mirada.data.columns.contents import number_first
from mirada.data.files.forms import NPZ, form_of
from mirada.data.record import Problem, Record, show
from mirada.errors import require
from mirada.models.gat import GAT
from mirada.runs.answers import Answer
from mirada.runs.ask import RankAsk
from mirada.runs.choice import BudgetChoice, ModelCost, largest_affordable
from mirada.runs.classes import alike_notes, class_details, class_metrics, unseen_classes
from mirada.runs.inputs import Question, Questions
from mirada.runs.run import Run
from mirada.runs.sources import NAMED, Source, Splits, TrainingRecords, parts_of, require_good
from mirada.runs.task import SAMPLES, Preset, Task, sample_evenly
from mirada.tasks.label.files import GraphOptions, read_graph, read_new_nodes
from mirada.tasks.label.graph import (
    PARTS,
    FeatureScale,
    KnownGraph,
    LabelledGraph,
    Node,
    NodeRecord,
    SparseRows,
    in_order_of,
    made_features,
    places_in,
    with_parts,
)
from mirada.tasks.label.graph_pass import GraphPass, encoded_graph, plain_scores, with_readers
from mirada.tasks.label.readers import PLAIN
from mirada.training.mixtures import NETWORK, reader_details
from mirada.training.objectives import class_weights
from mirada.training.progress import as_minutes
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section


EPOCHS = 1000  # steps, where nothing else ends a training
MINUTES = 10.0  # for a graph so large that these would take longer
FEW = 200  # steps
EDGE = 110  # what an edge costs: so many numbers of features
SIZES = (  # seconds for a thousand numbers of the graph, on one core; how they were measured: docs/decisions/0026
    ModelCost({"dim": 4, "heads": 4}, 2.6e-6, 0),
    ModelCost({"dim": 8, "heads": 8}, 5.0e-6, 100),
)
ISOLATED = 0.2  # share of papers without citations in the builtin graph of that kind


@dataclass(frozen=True, eq=False)
class NodeExamples:
    """Some nodes of one graph with their classes. The model is given the whole graph: nodes see each other."""

    nodes: Float[Tensor, "nodes features"]
    edges: Edges
    numbers: Int[Tensor, " some"]
    classes: Int[Tensor, " some"]
    weights: tuple[float, ...] = ()  # of the labels, where rare ones count as much as frequent ones

    def __len__(self) -> int:
        return len(self.numbers)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The whole graph, with the classes of some nodes."""
        every = len(rows) == len(self)
        numbers, classes = (x if every else x[list(rows)] for x in (self.numbers, self.classes))
        wanted = torch.zeros(len(self.nodes), dtype=torch.int64).index_put_((numbers,), classes)
        known: Bool[Tensor, " nodes"] = torch.zeros(len(self.nodes), dtype=torch.bool).index_fill_(0, numbers, True)
        inputs = {"nodes": self.nodes, "edges": self.edges, "classes": wanted, "known": known}
        if self.weights:
            inputs["weights"] = torch.tensor(self.weights)[wanted[known]]
        return Microbatch(inputs, (len(numbers),), len(self.nodes))

    def take(self, rows: Sequence[int]) -> "NodeExamples":
        """Some of the nodes, as a set of their own."""
        return replace(self, numbers=self.numbers[list(rows)], classes=self.classes[list(rows)])


class Label(Task[str | Node, Node, KnownGraph]):
    """Label the nodes of a graph by their features and their neighbors."""

    name, input_kind, input_columns = "label", "node", ("node", "nodo", "name", "id")
    Data, Ask, Known = GraphOptions, RankAsk, KnownGraph
    preview_examples = 1000
    presets: ClassVar[Mapping[str, Preset]] = {
        "gat": Preset(GAT, {"score": "graph"}),
        "gatv2": Preset(GAT, {"score": "graphv2"}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        # as in the paper, but for the learning rate: twice as high, it validates as well in two thirds of the epochs
        recipe = {"lr": 1e-2, "schedule": "constant", "warmup": 1, "l2": 5e-4, "clip": 0.0, "smoothing": 0.0}
        return {"recipe": recipe | {"epochs": EPOCHS, "patience": 100, "validate": 10, "average": 0}}

    def choose(self, model: str, splits: Splits[Node], options: GraphOptions, minutes: float) -> BudgetChoice:
        """The size, and how long: a step reads the whole graph."""
        graph: LabelledGraph = splits.whole
        nodes, edges = len(graph), graph.edges.shape[1]
        units = nodes * graph.features.width + EDGE * (edges + nodes)
        size, steps = largest_affordable(SIZES, units, minutes or MINUTES)
        recipe: dict[str, Any] = {} if minutes or steps >= EPOCHS else {"minutes": MINUTES}
        if steps < FEW:  # few steps have to be large ones
            recipe |= {"lr": 2e-2}
        budget = f" and {as_minutes(minutes)}" if minutes else ""
        return BudgetChoice(size.settings, recipe, why=f"{plural(nodes, 'node')}, {plural(edges, 'edge')}{budget}")

    # from data to batches

    def read(self, source: Source, options: GraphOptions) -> Splits[Node]:
        if source.builtin:
            graph = _builtin(options.builtin)
            train, valid, test = (_records(graph.nodes(part)) for part in PARTS)
            return Splits(train, valid, test, notes=(graph.made,) if graph.made else (), whole=graph)
        places = parts_of(source.data)
        if source.measured:
            loaded = read_graph(places.get("test", source.data), options)
            wanted = loaded.graph.nodes("test") or loaded.graph.nodes()
            return Splits((), (), _records(wanted), problems=loaded.problems, notes=loaded.notes, whole=loaded.graph)
        if source.has_valid or places:
            return _several_graphs(source, places, options)
        given = read_graph(source.data, options)
        where = source.data if isinstance(source.data, str) else "data"
        graph, notes = with_parts(given.graph, options.shares, where)
        train, valid, test = (_records(graph.nodes(part)) for part in PARTS)
        splits = Splits(train, valid, test, problems=given.problems, notes=(*given.notes, *notes), whole=graph)
        return _checked(splits, options)

    def identity(self, value: Node) -> bytes:
        return "\x1f".join((value.name, value.label, value.graph.digest)).encode()

    def learn(self, splits: Splits[Node], options: GraphOptions, start: KnownGraph | None) -> KnownGraph:
        given = [record.value.label for record in splits.train]
        labels = sorted(set(given), key=number_first)
        bad = f"{show(splits.problems, NAMED)}\n" if splits.problems else ""
        require(len(labels) > 1, f"{bad}a run needs at least two labels: all nodes to learn from have {labels[0]!r}")
        known = tuple(labels) if start is None else start.labels
        weights = class_weights(given, known) if options.balance else ()
        nodes = [[record.value for record in some] for some in (splits.train, splits.valid)]
        nodes[1] = [node for node in nodes[1] if node.graph is splits.whole]
        if start is None:
            scale = FeatureScale.fit(splits.whole.features, options.normalize)
            learned = KnownGraph(splits.whole, known, scale, weights)
            return with_readers(learned, *nodes) if options.beside == "plain" else learned
        new = [label for label in labels if label not in known]
        require(not new, f"label {new[0] if new else ''!r} is not known to the run to start from: {', '.join(known)}")
        features = in_order_of(start.graph, splits.whole.features, splits.whole.columns, "the graph")
        graph = replace(splits.whole, features=features, columns=start.graph.columns or splits.whole.columns)
        learned = KnownGraph(graph, known, start.scale, weights)
        return with_readers(learned, *nodes) if options.beside == "plain" else learned

    def sizes(self, known: KnownGraph) -> dict[str, Any]:
        return {"features": known.graph.features.width, "classes": len(known.labels)}

    def examples(self, records: Sequence[NodeRecord], known: KnownGraph, config: Any) -> NodeExamples:
        nodes = [record.value for record in records]
        (graph,) = {id(node.graph): node.graph for node in nodes}.values() or (known.graph,)
        x, edges = encoded_graph(known, graph, config.self_loops)
        numbers = torch.tensor([node.number for node in nodes], dtype=torch.int64)
        classes = torch.from_numpy(places_in([node.label for node in nodes], known.labels)).long()
        return NodeExamples(x, edges, numbers, classes, known.weights)

    def batches(self, examples: NodeExamples, recipe: Recipe) -> Whole:
        return Whole(examples)

    def in_order(self, examples: NodeExamples, recipe: Recipe) -> list[Microbatch]:
        return [examples.part(range(len(examples)), 0)]

    def calibrate(self, run: Run, records: Sequence[NodeRecord]) -> KnownGraph:
        known: KnownGraph = run.known
        if known.readers is None:
            return known
        nodes = [record.value for record in records]
        passes = {graph: GraphPass(run, graph).scores for graph in dict.fromkeys(node.graph for node in nodes)}
        names = passes[nodes[0].graph]
        scores = {name: torch.stack([passes[node.graph][name][node.number] for node in nodes]) for name in names}
        wanted = torch.from_numpy(places_in([node.label for node in nodes], known.labels)).long()
        counts = torch.tensor(known.weights)[wanted] if known.weights else torch.ones(len(wanted))
        return replace(known, readers=known.readers.calibrated(scores, wanted, counts))

    # from inputs to answers

    def is_known_name(self, run: Run, text: str) -> bool:
        return text in run.known.graph.names

    def answer(self, run: Run, inputs: Sequence[str | Node], ask: RankAsk) -> list[Answer]:
        known: KnownGraph = run.known
        nodes = [
            given if isinstance(given, Node) else Node(known.graph, known.graph.number(str(given))) for given in inputs
        ]
        for name in ask.candidates:
            labels = ", ".join(known.labels)
            require(name in known.labels, f"candidate {name!r} is not a label of this run; known: {labels}")
        passes = {graph: GraphPass(run, graph) for graph in dict.fromkeys(node.graph for node in nodes)}
        return [passes[node.graph].answer(node, ask) for node in nodes]

    def questions(self, run: Run, place: str) -> Questions:
        options, columns = run.reading, ("node",)
        assert isinstance(options, GraphOptions)
        if form_of(place) is NPZ:
            read = read_graph(place, options)
            require_good(read.problems, options, "Fix these, or leave them out with bad=skip.")
            other, where = read.graph, f"{place}: node"
            rows = [Question(f"{where} {name}", Node(other, n), (name,)) for n, name in enumerate(other.names)]
            return Questions(columns, rows, (f"{place}: a graph of its own, all of its nodes are labelled",))
        if form_of(place).has_rows:  # of known nodes
            return super().questions(run, place)
        return Questions(columns, read_new_nodes(place, run.known.graph, options, options.directed))

    # from answers to a report

    def measure(self, run: Run, records: Sequence[NodeRecord]) -> tuple[dict[str, float], list[Answer]]:
        unseen = unseen_classes(records, run.known.labels, _label_of)  # an error here, not a wrong answer
        require(not unseen, show(unseen, NAMED))
        answers = run([record.value for record in records])
        return class_metrics(*given_and_wanted(records, answers)), answers

    def details(self, run: Run, records: Sequence[NodeRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        given, wanted = given_and_wanted(records, answers)
        alone = [answer.more["readers"] for answer in answers if "readers" in answer.more]
        found = class_details(given, wanted, run.known.labels)
        if len(alone) < len(answers) or not alone:
            return found
        mixed = list(run.known.readers.scales) or [NETWORK]
        return found | reader_details(alone, given, wanted, mixed, PLAIN)

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return [*super().detail_lines(details), *([details["verdict"]] if "verdict" in details else [])]

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[NodeRecord]) -> dict[str, float]:
        from mirada.training.baselines import linear_on_features, majority
        from mirada.training.metrics import accuracy

        train, nodes, known = [record.value for record in learned()], [record.value for record in records], run.known
        wanted, labels, found = [node.label for node in nodes], known.labels, dict[str, float]()
        scores = {graph: plain_scores(known, graph) for graph in dict.fromkeys(node.graph for node in nodes)}
        for name in scores[nodes[0].graph]:
            best = {graph: some[name].argmax(1).tolist() for graph, some in scores.items()}
            found[f"accuracy_{name}"] = accuracy([labels[best[node.graph][node.number]] for node in nodes], wanted)
        given = [node.label for node in train]
        if not found:  # attention answers alone
            some, asked = (self.examples(part, known, run.model.config) for part in (learned(), records))
            alone = linear_on_features(some.nodes[some.numbers], given, asked.nodes[asked.numbers])
            found["accuracy_features"] = accuracy(alone, wanted)
        return found | {"accuracy_majority": accuracy([majority(given)] * len(wanted), wanted)}

    def samples(self, run: Run, splits: Splits[Node]) -> list[str]:
        mine = [record.value.name for record in splits.test or splits.valid if record.value.graph is splits.whole]
        return list(sample_evenly(mine or list(run.known.graph.names), SAMPLES))

    def amount(self, records: Sequence[NodeRecord]) -> str:
        return plural(len(records), "node")

    def sections(self, run: Run, records: Sequence[NodeRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.label.report import sections

        return sections(run, records, answers)


def _builtin(kind: str) -> LabelledGraph:
    """Papers that cite each other; some of them do not, or nothing is known of their words."""
    from mirada.corpora.citations import citations

    data = citations(isolated=ISOLATED if kind == "isolated" else 0.0)
    places = tuple(f"builtin {name}" for name in data.names)
    if kind == "wordless":
        features, made = made_features(len(data.names), data.edges)
        return LabelledGraph(data.names, features, data.edges, data.topics, data.parts, places, made=made)
    features = SparseRows.from_dense(data.features)
    return LabelledGraph(data.names, features, data.edges, data.topics, data.parts, places, data.words)


def _records(nodes: Sequence[Node]) -> list[NodeRecord]:
    return [Record(node.where, node) for node in nodes]


def _several_graphs(source: Source, places: Mapping[str, str], options: GraphOptions) -> Splits[Node]:
    """A graph to learn from and others to validate on and to be measured with."""
    require(not options.split, "split= divides one graph, and here the parts are given. Leave it out.")
    parts = {"train": places.get("train", source.data), "valid": source.valid or places.get("valid", "")}
    parts |= {"test": places["test"]} if "test" in places else {}
    require(bool(parts["valid"]), f"{source.data}: there is a train, but no valid beside it")
    graphs = {part: read_graph(place, options) for part, place in parts.items()}
    nodes = {part: _records(one.graph.nodes(part) or one.graph.nodes()) for part, one in graphs.items()}
    if "test" not in graphs:
        nodes["test"] = _records(graphs["train"].graph.nodes("test"))
    problems = [problem for one in graphs.values() for problem in one.problems]
    notes = [note for one in graphs.values() for note in one.notes]
    whole = graphs["train"].graph
    for part, one in graphs.items():
        where = parts[part] if isinstance(parts[part], str) else f"the graph of {part}"
        in_order_of(whole, one.graph.features, one.graph.columns, where)
    splits = Splits(nodes["train"], nodes["valid"], nodes["test"], problems=problems, notes=notes, whole=whole)
    return _checked(splits, options)


def _checked(splits: Splits[Node], options: GraphOptions) -> Splits[Node]:
    """Splits without nodes of labels that cannot be learned or measured: these are problems. A note says how features are
    scaled.
    """
    every = Counter(record.value.label for part in (splits.train, splits.valid, splits.test) for record in part)
    known = sorted({record.value.label for record in splits.train})
    problems, good = list(splits.problems), (list[NodeRecord](), list[NodeRecord](), list[NodeRecord]())
    for part, kept in zip((splits.train, splits.valid, splits.test), good, strict=True):
        for record in part:
            label = record.value.label
            if every[label] == 1:
                what = f"label of one node only: {label!r}. Label more nodes so, or none."
                problems.append(Problem(record.where, what))
            elif label not in known:
                problems += unseen_classes([record], known, _label_of)
            else:
                kept.append(record)
    scale = FeatureScale.fit(splits.whole.features, options.normalize)
    train, valid, test = good
    notes = (*splits.notes, scale.text, *alike_notes(every))
    return replace(splits, train=train, valid=valid, test=test, problems=problems, notes=notes)


_label_of = attrgetter("label")


def given_and_wanted(records: Sequence[NodeRecord], answers: Sequence[Answer]) -> tuple[list[str], list[str]]:
    """The label that was answered for every node, and the one that it has."""
    return [answer.text for answer in answers], [record.value.label for record in records]
