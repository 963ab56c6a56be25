"""classify: a text in, one of the labels it was trained with out, with the words the model looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch

from mirada.data.batch import Buckets, in_order, pad
from mirada.data.builtin.sentiment import sentiment
from mirada.data.check import show
from mirada.data.records import Record
from mirada.data.text import Problem
from mirada.data.tokenize import END, PAD, Tokenizer
from mirada.drawing import Section, Weighed
from mirada.errors import require
from mirada.layers.model import Model
from mirada.models.classifier import Classifier
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.batches import Shares, all_parts
from mirada.tasks.run import Run
from mirada.tasks.sources import NAMED, SETS, from_files, numbered
from mirada.tasks.task import DataConfig, Place, Preset, Splits, Task, spread
from mirada.training.metrics import accuracy, macro_f1
from mirada.training.objectives import ModelLoss, Objective, Part
from mirada.training.recipe import Recipe

READ_AT_ONCE = 8192  # tokens
SHOWN = 6  # examples and errors in the report


@dataclass(frozen=True, kw_only=True)
class ClassifyData(DataConfig):
    """Words in lower case: few texts are enough for most of them."""

    tokenizer: str = "word"
    vocab: int = 10_000
    lowercase: bool = True


class Classify(Task):
    name = "classify"
    columns = ("text", "label")
    Data = ClassifyData
    asks = ("best", "candidates")
    presets: ClassVar[Mapping[str, Preset]] = {
        "transformer": Preset(Classifier, {"encoder": "transformer", "position": "rotary"}),
        "lstm-attention": Preset(Classifier, {"encoder": "lstm", "units": 64}),
        "conv-attention": Preset(Classifier, {"encoder": "convolution", "units": 64}),
    }

    def defaults(self, model: str, place: Place, minutes: float) -> dict[str, dict[str, Any]]:
        recipe = {"batch_tokens": 1024, "warmup": 100, "patience": 8}
        if place.builtin:
            sizes = {"width": 64, "hidden": 128, "depth": 2, "dropout": 0.0}
            return {"model": sizes, "recipe": recipe | {"lr": 3e-3, "smoothing": 0.0, "epochs": 12}}
        sizes = {
            "width": 128,
            "hidden": 128,
            "depth": 1,
            "dropout": 0.5,
        }  # texts with labels are few: they are soon known by heart
        return {"model": sizes, "recipe": recipe | {"lr": 1e-3, "epochs": 10}}

    def read(self, place: Place, options: DataConfig) -> Splits:
        if place.builtin:
            return builtin()
        splits = from_files(place, self.columns, options)
        splits = splits if place.valid else with_every_label(splits)
        known = {record.fields[1] for record in splits.train}
        unseen = [unseen_label(record, known) for record in splits.valid if known and record.fields[1] not in known]
        return Splits(splits.train, splits.valid, problems=[*splits.problems, *unseen])

    def texts(self, train: Sequence[Record]) -> Sequence[str]:
        return [record.fields[0] for record in train]

    def facts(self, splits: Splits) -> dict[str, Any]:
        labels = sorted({record.fields[1] for record in splits.train})
        require(
            len(labels) > 1,
            f"a classifier needs at least two labels: all records have {labels[0]!r}. Is the label the second column?",
        )
        return {"labels": labels}

    def sizes(self, tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vocab": len(tokenizer), "classes": len(facts["labels"])}

    def lengths(self, records: Sequence[Record], run: Run) -> list[tuple[int, ...]]:
        return [(len(tokens), 1) for tokens in tokens_of(records, run)]

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return ModelLoss(model, recipe.smoothing)

    def supply(self, records: Sequence[Record], run: Run, recipe: Recipe) -> Shares:
        items = tokens_of(records, run)
        make = partial(label_part, items, classes_of(records, run))
        return Shares(Buckets([(len(item),) for item in items], recipe.batch_tokens, recipe.seed), make)

    def parts(self, records: Sequence[Record], run: Run, recipe: Recipe) -> list[Part]:
        items = tokens_of(records, run)
        make = partial(label_part, items, classes_of(records, run))
        return all_parts([(len(item),) for item in items], recipe.batch_tokens, make)

    def answer(self, run: Run, inputs: Sequence[str], ask: Ask) -> list[Answer]:
        items = closed(list(inputs), run)
        for text, item in zip(inputs, items, strict=True):
            require(item[0] != END and bool(text.strip()), f"there is nothing to classify in {text!r}")
            run.check_length(item, text)
        labels = run.facts["labels"]
        for name in ask.candidates:
            require(name in labels, f"candidate {name!r} is not a label of this run; known: {', '.join(labels)}")
        answers: dict[int, Answer] = {}
        for rows in in_order([(len(item),) for item in items], READ_AT_ONCE):
            tokens, lengths = pad([items[row] for row in rows], PAD)
            shares = run.model(tokens.to(run.device), lengths.to(run.device)).float().softmax(-1).cpu()
            for row, probabilities in zip(rows, shares.tolist(), strict=True):
                ranked = sorted(zip(labels, probabilities, strict=True), key=lambda pair: -pair[1])
                ranked = [pair for pair in ranked if not ask.candidates or pair[0] in ask.candidates]
                words = [piece.text for piece in run.tokenizer.pieces(inputs[row])]
                read = (*words, *["</s>"] * (len(items[row]) - len(words)))
                again = partial(run.look, torch.tensor([items[row]]))
                listed = tuple(ranked) if ask.candidates else tuple(ranked[: ask.best]) if ask.best > 1 else ()
                answers[row] = Answer(inputs[row], *ranked[0], ranked=listed, read=read, again=again)
        return [answers[row] for row in range(len(inputs))]

    def measure(self, run: Run, records: Sequence[Record]) -> tuple[dict[str, float], list[Answer]]:
        classes_of(records, run)  # an unseen label is an error here, not a wrong answer
        answers = run([record.fields[0] for record in records])
        given, wanted = [answer.text for answer in answers], [record.fields[1] for record in records]
        return {"accuracy": accuracy(given, wanted), "macro_f1": macro_f1(given, wanted)}, answers

    def sections(self, run: Run, records: Sequence[Record], answers: Sequence[Answer]) -> list[Section]:
        pairs = list(zip(answers, records, strict=True))
        wrong = sorted((p for p in pairs if p[0].text != p[1].fields[1]), key=lambda pair: -pair[0].score)
        about = "The darker a word, the more the last attention layer looked at it, over all places and heads."
        return [
            Section("Examples", about, tuple(weighed(*pair) for pair in spread(pairs, SHOWN))),
            Section(
                "Worst errors", "Wrong answers, the surest first.", tuple(weighed(*pair) for pair in wrong[:SHOWN])
            ),
        ]


def builtin() -> Splits:
    """Reviews with negation and contrast."""
    data = sentiment()
    train, valid, test = (numbered(name, ((item.text, item.label) for item in getattr(data, name))) for name in SETS)
    return Splits(train, valid, test)


def with_every_label(splits: Splits) -> Splits:
    """Splits in which a label that only the held-out records have is learned from, not validated on."""
    known = {record.fields[1] for record in splits.train}
    rare = [record for record in splits.valid if record.fields[1] not in known]
    valid = [record for record in splits.valid if record.fields[1] in known]
    return Splits([*splits.train, *rare], valid, problems=splits.problems) if rare else splits


def unseen_label(record: Record, known: set[str]) -> Problem:
    names = sorted(known)
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return Problem(record.where, f"label {record.fields[1]!r} does not occur in training; known: {shown}")


def tokens_of(records: Sequence[Record], run: Run) -> list[list[int]]:
    """The tokens of every text."""
    return closed([record.fields[0] for record in records], run)


def closed(texts: list[str], run: Run) -> list[list[int]]:
    """The tokens of texts, closed by the end; where a convolution needs more of them, by several."""
    config: Any = run.model.config
    least = config.kernel if config.encoder == "convolution" else 1
    return [[*tokens, *[END] * max(1, least - len(tokens))] for tokens in run.tokenizer.encode_all(texts)]


def classes_of(records: Sequence[Record], run: Run) -> list[int]:
    """The number of every label."""
    numbers = {label: number for number, label in enumerate(run.facts["labels"])}
    unseen = [unseen_label(record, set(numbers)) for record in records if record.fields[1] not in numbers]
    require(not unseen, show(unseen, NAMED))
    return [numbers[record.fields[1]] for record in records]


def label_part(items: Sequence[list[int]], classes: Sequence[int], rows: list[int], epoch: int) -> Part:
    tokens, lengths = pad([items[row] for row in rows], PAD)
    wanted = torch.tensor([classes[row] for row in rows])
    return Part({"tokens": tokens, "lengths": lengths, "classes": wanted}, (len(rows),), int(lengths.sum()))


def weighed(answer: Answer, record: Record) -> Weighed:
    """An answer with how much the last attention layer looked at each word."""
    seen = answer.look()
    looked = seen[seen.names[-1]].weights()[0].mean((0, 1))
    margin = (len(answer.read) - len(looked)) // 2  # a convolution without margins sees the middle of its reach
    shares = [0.0] * margin + looked.tolist()
    shares += [0.0] * (len(answer.read) - len(shares))
    return Weighed(answer.read, tuple(shares), answer.text, record.fields[1], score=answer.score)
