"""classify: a text in, one of the labels it was trained with out, with the words the model looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch

from mirada.data.batch import in_order, pad
from mirada.data.builtin.sentiment import sentiment
from mirada.data.check import show, too_long
from mirada.data.options import TextOptions
from mirada.data.record import Problem
from mirada.data.records import Fields, TableRow
from mirada.data.tokenize import END, PAD
from mirada.data.vocabulary import Vocabulary
from mirada.drawing.heat import Weighed
from mirada.drawing.page import Section
from mirada.errors import require
from mirada.hub.word_vectors import start_from_vectors
from mirada.layers.model import Model
from mirada.models.classifier import Classifier
from mirada.runs.answers import Answer, RankAsk
from mirada.runs.batches import Bucketed, EncodedRecords, in_buckets
from mirada.runs.run import Run
from mirada.runs.sources import NAMED, SETS, Source, Splits, from_tables, numbered
from mirada.runs.task import SAMPLES, Preset, Task, spread
from mirada.training.baselines import linear_bag_of_words, majority
from mirada.training.metrics import accuracy, macro_f1
from mirada.training.objectives import Microbatch
from mirada.training.recipe import Recipe

READ_AT_ONCE = 8192  # tokens
SHOWN = 6  # examples and errors in the report


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(TextOptions):
    """Words in lower case: few texts are enough for most of them."""

    tokenizer: str = "word"
    vocab: int = 10_000
    lowercase: bool = True


COLUMNS = ("text", "label")
Labelled = tuple[list[int], int]  # the tokens of a text, the number of its label


class Classify(Task[str, Fields, Vocabulary]):
    name = "classify"
    Data = ClassifyOptions
    Ask = RankAsk
    Known = Vocabulary
    glance = 200
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Classifier, {"encoder": "transformer", "position": "rotary"}),
        "lstm-attention": Preset(Classifier, {"encoder": "lstm", "units": 64}),
        "conv-attention": Preset(Classifier, {"encoder": "convolution", "units": 64}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        recipe = {"batch_tokens": 1024, "warmup": 100, "patience": 8}
        if source.builtin:
            sizes = {"width": 64, "hidden": 128, "depth": 2, "dropout": 0.0}
            return {"model": sizes, "recipe": recipe | {"lr": 3e-3, "smoothing": 0.0, "epochs": 12}}
        sizes = {
            "width": 128,
            "hidden": 128,
            "depth": 1,
            "dropout": 0.5,
        }  # texts with labels are few: they are soon known by heart
        return {"model": sizes, "recipe": recipe | {"lr": 1e-3, "epochs": 10}}

    def read(self, source: Source, options: ClassifyOptions) -> Splits[Fields]:
        if source.builtin:
            return builtin()
        splits = from_tables(source, COLUMNS, options)
        splits = splits if source.has_valid else with_every_label(splits)
        known = {record.value[1] for record in splits.train}
        unseen = [unseen_label(record, known) for record in splits.valid if known and record.value[1] not in known]
        return replace(splits, problems=[*splits.problems, *unseen])

    def learn(self, splits: Splits[Fields], options: ClassifyOptions, start: Vocabulary | None) -> Vocabulary:
        labels = sorted({record.value[1] for record in splits.train})
        require(
            len(labels) > 1,
            f"a classifier needs at least two labels: all records have {labels[0]!r}. Is the label the second column?",
        )
        return Vocabulary.learn([record.value[0] for record in splits.train], options, start, labels)

    def sizes(self, known: Vocabulary) -> dict[str, Any]:
        return {"vocab": len(known), "classes": len(known.labels)}

    def prepare(self, model: Model, known: Vocabulary, options: ClassifyOptions) -> None:
        if options.vectors:
            start_from_vectors(model, options.vectors, known.tokens)

    def examples(self, records: Sequence[TableRow], known: Vocabulary, config: Any) -> EncodedRecords[Labelled]:
        texts = closed([record.value[0] for record in records], known, config)
        numbers = {label: number for number, label in enumerate(known.labels)}
        items = [(text, numbers.get(record.value[1], -1)) for text, record in zip(texts, records, strict=True)]
        return EncodedRecords(items, [(len(text),) for text in texts], collate)

    def problems(self, records: Sequence[TableRow], examples: EncodedRecords[Labelled], config: Any) -> list[Problem]:
        return too_long(records, examples.lengths, config.length, COLUMNS[:1])

    def batches(self, examples: EncodedRecords[Labelled], recipe: Recipe) -> Bucketed:
        return Bucketed(examples, recipe.batch_tokens, recipe.seed)

    def in_order(self, examples: EncodedRecords[Labelled], recipe: Recipe) -> list[Microbatch]:
        return in_buckets(examples, recipe.batch_tokens)

    def answer(self, run: Run, inputs: Sequence[str], ask: RankAsk) -> list[Answer]:
        items = closed(list(inputs), run.known, run.model.config)
        for text, item in zip(inputs, items, strict=True):
            require(item[0] != END and bool(text.strip()), f"there is nothing to classify in {text!r}")
            run.known.require_length(item, run.model.config.length, text)
        labels = run.known.labels
        for name in ask.candidates:
            require(name in labels, f"candidate {name!r} is not a label of this run; known: {', '.join(labels)}")
        answers: dict[int, Answer] = {}
        for rows in in_order([(len(item),) for item in items], READ_AT_ONCE):
            tokens, lengths = pad([items[row] for row in rows], PAD)
            shares = run.model(tokens.to(run.device), lengths.to(run.device)).float().softmax(-1).cpu()
            for row, probabilities in zip(rows, shares.tolist(), strict=True):
                ranked = sorted(zip(labels, probabilities, strict=True), key=lambda pair: -pair[1])
                ranked = [pair for pair in ranked if not ask.candidates or pair[0] in ask.candidates]
                words = [piece.text for piece in run.known.tokenizer.pieces(inputs[row])]
                read = (*words, *["</s>"] * (len(items[row]) - len(words)))
                replay = partial(run.look, torch.tensor([items[row]]))
                answers[row] = Answer(inputs[row], *ranked[0], ranked=ask.listed(ranked), read=read, replay=replay)
        return [answers[row] for row in range(len(inputs))]

    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        known = set(run.known.labels)  # an unseen label is an error here, not a wrong answer
        unseen = [unseen_label(record, known) for record in records if record.value[1] not in known]
        require(not unseen, show(unseen, NAMED))
        answers = run([record.value[0] for record in records])
        given, wanted = [answer.text for answer in answers], [record.value[1] for record in records]
        return {"accuracy": accuracy(given, wanted), "macro_f1": macro_f1(given, wanted)}, answers

    def baselines(self, train: Sequence[TableRow], records: Sequence[TableRow]) -> dict[str, float]:
        texts, labels = zip(*(record.value for record in train), strict=True)
        wanted = [record.value[1] for record in records]
        linear = linear_bag_of_words(texts, labels, [record.value[0] for record in records])
        often = [majority(labels)] * len(wanted)
        return {"accuracy_linear": accuracy(linear, wanted), "accuracy_majority": accuracy(often, wanted)}

    def length(self, value: Fields) -> int:
        return len(value[0].split())

    def samples(self, run: Run, splits: Splits[Fields]) -> list[str]:
        return [record.value[0] for record in spread(splits.test or splits.valid, SAMPLES)]

    def sections(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> list[Section]:
        pairs = list(zip(answers, records, strict=True))
        wrong = sorted((p for p in pairs if p[0].text != p[1].value[1]), key=lambda pair: -pair[0].score)
        about = "The darker a word, the more the last attention layer looked at it, over all places and heads."
        return [
            Section("Examples", about, tuple(weighed(*pair) for pair in spread(pairs, SHOWN))),
            Section(
                "Worst errors", "Wrong answers, the surest first.", tuple(weighed(*pair) for pair in wrong[:SHOWN])
            ),
        ]


def builtin() -> Splits[Fields]:
    """Reviews with negation and contrast."""
    data = sentiment()
    train, valid, test = (numbered(name, ((item.text, item.label) for item in getattr(data, name))) for name in SETS)
    return Splits(train, valid, test)


def with_every_label(splits: Splits[Fields]) -> Splits[Fields]:
    """Splits in which a label that only the held-out records have is learned from, not validated on."""
    known = {record.value[1] for record in splits.train}
    rare = [record for record in splits.valid if record.value[1] not in known]
    valid = [record for record in splits.valid if record.value[1] in known]
    return replace(splits, train=[*splits.train, *rare], valid=valid) if rare else splits


def unseen_label(record: TableRow, known: set[str]) -> Problem:
    names = sorted(known)
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return Problem(record.where, f"label {record.value[1]!r} does not occur in training; known: {shown}")


def closed(texts: list[str], known: Vocabulary, config: Any) -> list[list[int]]:
    """The tokens of texts, closed by the end; where a convolution needs more of them, by several."""
    least = config.kernel if config.encoder == "convolution" else 1
    return [[*tokens, *[END] * max(1, least - len(tokens))] for tokens in known.tokenizer.encode_all(texts)]


def collate(items: list[Labelled]) -> Microbatch:
    tokens, lengths = pad([text for text, _ in items], PAD)
    classes = torch.tensor([label for _, label in items])
    return Microbatch({"tokens": tokens, "lengths": lengths, "classes": classes}, (len(items),), int(lengths.sum()))


def weighed(answer: Answer, record: TableRow) -> Weighed:
    """An answer with how much the last attention layer looked at each word."""
    seen = answer.look()
    looked = seen[seen.names[-1]].weights()[0].mean((0, 1))
    margin = (len(answer.read) - len(looked)) // 2  # a convolution without margins sees the middle of its reach
    shares = [0.0] * margin + looked.tolist()
    shares += [0.0] * (len(answer.read) - len(shares))
    return Weighed(answer.read, tuple(shares), answer.text, record.value[1], score=answer.score)
