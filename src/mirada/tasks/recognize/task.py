"""recognize: a picture in, what it shows out, with the patches the model looked at."""

import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mirada.corpora.objects import objects
from mirada.data.batching import FixedSize
from mirada.data.files.forms import form_of
from mirada.data.image import WAYS
from mirada.data.options import DataOptions, TableOptions
from mirada.data.preprocessing import Preprocessing
from mirada.data.record import Problem, show
from mirada.errors import require
from mirada.looking.labels import RANKED, AxisLabels, GridLabels, Labels, WrittenStep
from mirada.looking.record import Seen, look
from mirada.models.vit import ViT, ViTConfig
from mirada.runs.answers import Answer
from mirada.runs.ask import RankAsk
from mirada.runs.choice import BudgetChoice
from mirada.runs.classes import LISTED, class_details, class_metrics, unseen_classes
from mirada.runs.inputs import Question, Questions, table_questions
from mirada.runs.run import Run
from mirada.runs.sources import NAMED, SETS, Source, Splits, TrainingRecords, numbered
from mirada.runs.task import SAMPLES, Preset, Task
from mirada.tasks.recognize.budget import budget_choice
from mirada.tasks.recognize.examples import (
    UNCHANGED,
    Augmentation,
    AugmentedExamples,
    LabelledRecord,
    PictureClasses,
    PictureExamples,
    default_patch,
    labelled_splits,
    sorted_labels,
    unreadable,
    with_plain,
)
from mirada.tasks.recognize.metrics import attention_on_objects, given_and_true_labels
from mirada.tasks.recognize.pictures import (
    Fitting,
    LabelledPicture,
    Picture,
    brightness_scale,
    default_size,
    describe_sizes,
    picture_of_archive,
    read_unlabelled,
    require_room,
    stack_pictures,
)
from mirada.tasks.recognize.readers import PLAIN
from mirada.tasks.recognize.tables import pixel_columns
from mirada.training.baselines import majority
from mirada.training.metrics import accuracy
from mirada.training.mixtures import NETWORK, deciding_reader, mixed_scores, reader_details
from mirada.training.objectives import class_weights
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section

SEEN_AT_ONCE, SEEN_BYTES = 256, 1 << 28  # pictures, and what is kept of them to know where the model looked
AS_MODEL = "model"  # pictures are read as the model to start from reads them
TUNED_BATCH = 32  # pictures, of a model that was trained before
SHIFT, LIGHT = 14, 0.1  # pictures are shifted by one in so many pixels, and made lighter by such a share
BUILTIN = re.compile(r"builtin (train|valid|test):(\d+)")


@dataclass(frozen=True, kw_only=True)
class RecognizeOptions(DataOptions):
    """How pictures are brought to one form: squares of `size` pixels, fitted by pad, crop or stretch, in patches of
    `patch`; 0 chooses what suits the data. `fit=model` is that of a model that a training starts from, with its size.
    `augment` shifts pictures by a few pixels and changes their light a little while the model learns; `flip` also
    mirrors them, which no letter or digit survives. `balance` lets rare classes count as much as frequent ones. `beside` says
    what is mixed with the network where that validates better: plain readers of pixels (a linear model and a random forest),
    or none. At most `memory` GB of pictures are kept.
    """

    of_files: ClassVar[tuple[str, ...]] = (*DataOptions.of_files, "memory", "balance")
    fixed: ClassVar[tuple[str, ...]] = ("size", "patch", "fit")

    size: int = 0
    patch: int = 0
    fit: str = "pad"
    augment: bool = True
    flip: bool = False
    balance: bool = False
    beside: str = "none"
    memory: float = 2.0

    def check(self) -> None:
        super().check()
        self.at_least(0, "size", "patch", "memory")
        self.one_of("fit", *WAYS, AS_MODEL)
        self.one_of("beside", "none", "plain")
        if self.size and self.patch and self.size % self.patch:
            raise ValueError(
                f"a picture must divide into patches: got size={self.size}, patch={self.patch}. Change one of them."
            )

    def fitting(self, pictures: Sequence[Picture]) -> tuple[Fitting, int]:
        """What is to be seen of some pictures, and the side of a patch."""
        size = self.size or default_size(pictures, self.patch)
        channels = 1 if all(picture.gray for picture in pictures) else 3
        scale = brightness_scale(pictures)
        way = WAYS[0] if self.fit == AS_MODEL else self.fit
        return Fitting(size, channels, way, scale), self.patch or default_patch(size)

    def augmentation(self, size: int) -> Augmentation:
        """What changes in pictures of this size while a model learns."""
        return Augmentation(round(size / SHIFT), self.flip, LIGHT) if self.augment else Augmentation(flip=self.flip)


class Recognize(Task[Any, LabelledPicture, PictureClasses]):
    """An input is a path, a Pillow image, an array of pixels, or a builtin picture (`builtin test:7`)."""

    name, input_kind = "recognize", "picture"
    Data = RecognizeOptions
    Ask = RankAsk
    Known = PictureClasses
    preview_examples = 300
    tuned_data: ClassVar[Mapping[str, Any]] = {"fit": AS_MODEL}
    presets: ClassVar[Mapping[str, Preset]] = {
        "vit": Preset(ViT, {"norm": "layer", "stem": "convolution"}),
        "conv-attention": Preset(ViT, {"norm": "layer", "stem": "convolution", "pool": "attention", "depth": 1}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        recipe = {"batch_size": 128, "lr": 1e-3, "warmup": 200, "decay": 0.05, "epochs": 15, "patience": 5.0}
        depth = {"depth": 2 if source.builtin else 4} if model == "vit" else {}
        if source.builtin:
            # patches look at their neighbors, and one query looks at all: it has to find the object
            near = {"where": "grid:8,8,1", "pool": "attention"}
            sizes = {"width": 64, "heads": 4, "hidden": 128, "dropout": 0.0, **near, **depth}
            return {"model": sizes, "recipe": recipe | {"batch_size": 64, "lr": 2e-3, "smoothing": 0.0, "epochs": 22}}
        sizes = {"width": 128, "heads": 4, "hidden": 256, "dropout": 0.1, **depth}
        return {"model": sizes, "recipe": recipe, "data": {"beside": "plain"}}

    def choose(
        self, model: str, splits: Splits[LabelledPicture], options: RecognizeOptions, minutes: float
    ) -> BudgetChoice:
        if options.fit == AS_MODEL:
            return BudgetChoice(recipe={"batch_size": TUNED_BATCH}, why="a model that was trained before")
        if splits.train[0].value.box is not None:  # the drawn objects, for which `defaults` is made
            return BudgetChoice()
        fitting, patch = options.fitting([record.value.picture for record in splits.train])
        choice = budget_choice(len(splits.train), fitting.size, patch, minutes)
        return choice if model == "vit" else replace(choice, model={})

    # from data to batches

    def read(self, source: Source, options: RecognizeOptions) -> Splits[LabelledPicture]:
        if source.builtin:
            return _builtin()
        splits = labelled_splits(source, options)
        if source.measured or not splits.train:
            return splits
        pictures = [record.value.picture for record in splits.train]
        fitting, _ = options.fitting(pictures)
        records = [*splits.train, *splits.valid, *splits.test]
        require_room(len(records), fitting, options.memory)
        counts = Counter(record.value.label for record in records)
        known = sorted_labels(counts)
        seen = describe_sizes(pictures, None if options.fit == AS_MODEL else fitting)
        note = f"{self.amount(records)} of {plural(len(known), 'class')}: {seen}"
        problems = unreadable(records, fitting)
        for record in records:
            if counts[record.value.label] == 1:
                what = f"the only picture of {record.value.label!r}. A class needs two at least"
                problems.append(Problem(record.where, f"{what}: one to learn from, one to validate on."))
        bad, parts = {problem.where for problem in problems}, (splits.train, splits.valid, splits.test)
        train, valid, test = ([record for record in part if record.where not in bad] for part in parts)
        problems = [*splits.problems, *problems]
        return replace(splits, train=train, valid=valid, test=test, problems=problems, notes=[*splits.notes, note])

    def identity(self, value: LabelledPicture) -> bytes:
        return value.picture.identity + value.label.encode(errors="surrogatepass")

    def learn(
        self, splits: Splits[LabelledPicture], options: RecognizeOptions, start: PictureClasses | None
    ) -> PictureClasses:
        known = replace(self._learned(splits, options, start), plain=None)
        return with_plain(known, splits.train) if options.beside == "plain" else known

    def _learned(
        self, splits: Splits[LabelledPicture], options: RecognizeOptions, start: PictureClasses | None
    ) -> PictureClasses:
        """Classes and what is seen of a picture, without the plain readers."""
        message = "fit=model is for a training that starts from a model: give --from DIR, or fit=pad"
        require(start is not None or options.fit != AS_MODEL, message)
        labels = sorted_labels(record.value.label for record in splits.train)
        bad = f"{show(splits.problems, NAMED)}\n" if splits.problems else ""
        require(
            len(labels) > 1,
            f"{bad}there must be two classes or more to tell apart: all pictures are {labels[0]!r}. Is there a folder per class?",
        )
        before = start if isinstance(start, PictureClasses) else None  # of a run of another task, it has no labels
        if before is not None:
            labels = before.labels if set(labels) <= set(before.labels) else labels
        given = [record.value.label for record in splits.train]
        weights = class_weights(given, labels) if options.balance else ()
        if before is not None and not (isinstance(before.fitting, Preprocessing) and before.augmentation == UNCHANGED):
            return replace(before, labels=labels, weights=weights)
        if start is not None:  # an imported model, which was never shown changed pictures here
            return PictureClasses(labels, start.fitting, start.patch, options.augmentation(start.fitting.size), weights)
        fitting, patch = options.fitting([record.value.picture for record in splits.train])
        return PictureClasses(labels, fitting, patch, options.augmentation(fitting.size), weights)

    def sizes(self, known: PictureClasses) -> dict[str, Any]:
        fitting = known.fitting
        if isinstance(fitting, Preprocessing):  # the grid is that of the model, whose positions may be resized
            return {"patch": known.patch, "channels": fitting.channels, "classes": len(known.labels)}
        return {
            "size": fitting.size, "patch": known.patch, "channels": fitting.channels, "classes": len(known.labels),
            "length": known.grid**2 + 1,
        }  # fmt: skip

    def examples(
        self, records: Sequence[LabelledRecord], known: PictureClasses, config: ViTConfig
    ) -> PictureExamples:  # fmt: skip
        bad = unreadable(records, known.fitting)
        places = {problem.where for problem in bad}
        blank = Picture(np.zeros((known.fitting.size,) * 2, np.uint8))  # in the place of one that is skipped
        pictures = [blank if record.where in places else record.value.picture for record in records]
        numbers = {label: number for number, label in enumerate(known.labels)}
        classes = np.array([numbers.get(known.label_of(record.value), -1) for record in records], np.int64)
        bad += unseen_classes(
            [record for record in records if record.where not in places], known.labels, known.label_of
        )
        squares = stack_pictures(pictures, known.fitting)
        seen = known.grid**2 + config.before
        return PictureExamples(squares, classes, seen, known.augmentation, known.fitting, tuple(bad), known.weights)

    def problems(
        self, records: Sequence[LabelledRecord], examples: PictureExamples, config: ViTConfig
    ) -> list[Problem]:  # fmt: skip
        return list(examples.problems)

    def batches(self, examples: PictureExamples, recipe: Recipe) -> FixedSize:
        return FixedSize(AugmentedExamples(examples, recipe.seed), recipe.batch_size, recipe.seed)

    # from inputs to answers

    def parse(self, text: str) -> Picture:
        place = text.strip()
        require(bool(place), "there is no picture: give the path of one")
        builtin = BUILTIN.fullmatch(place)  # one of the drawn pictures, so that who has none at hand can try
        if not builtin:
            return picture_of_archive(place) or Picture(place, text)
        part, number = builtin.group(1), int(builtin.group(2))
        drawn = getattr(objects(), part).pictures
        require(1 <= number <= len(drawn), f"the builtin {part} pictures are 1 to {len(drawn):,}: there is no {number}")
        return Picture(drawn[number - 1], f"builtin {part}:{number}")

    def listed(self, given: Any) -> Any:
        axes = getattr(given, "ndim", 0)
        pictures = axes == 4 or (axes == 3 and given.shape[-1] not in (1, 3, 4))
        return list(given) if pictures or (axes == 1 and hasattr(given, "tolist")) else super().listed(given)

    def answer(self, run: Run, inputs: Sequence[Any], ask: RankAsk) -> list[Answer]:
        labels, known = run.known.labels, run.known
        wanted = {known.named(name) for name in ask.candidates}
        for name in ask.candidates:
            listed = f"{', '.join(labels[:LISTED])}{', ...' if len(labels) > LISTED else ''}"
            require(known.named(name) in labels, f"candidate {name!r} is not a class of this run; known: {listed}")
        at_once = pictures_at_once(run.model.config)
        pictures = [given if isinstance(given, Picture) else Picture(given) for given in inputs]
        answers: list[Answer] = []
        for first in range(0, len(pictures), at_once):
            some = pictures[first : first + at_once]
            squares = np.stack([picture.seen(known.fitting) for picture in some])
            x = torch.from_numpy(known.fitting.numbers(squares)).to(run.device)
            with look(run.model) as seen:
                network = run.model(x).float().cpu()
            plain = known.plain.scores(squares, known.fitting) if known.plain and known.plain.scales else {}
            weights = _looked(seen, run.model.config).cpu()
            for row, picture in enumerate(some):
                mine = {name: scores[row : row + 1] for name, scores in plain.items()}
                ranked, more = _ranked(known, {NETWORK: network[row : row + 1], **mine}, wanted)
                labels_of = partial(_labels_of, known, run.model.config, picture, wanted, mine)
                answers.append(Answer(
                    picture.name, *ranked[0], picture, read=known.places, written=(ranked[0][0],),
                    weights=weights[row : row + 1], replay=partial(run.look, x[row : row + 1], labels=labels_of),
                    more=more, **ask.ranking(ranked),
                ))  # fmt: skip
        return answers

    def calibrate(self, run: Run, records: Sequence[LabelledRecord]) -> PictureClasses:
        known: PictureClasses = run.known
        if known.plain is None or not records:
            return known
        at_once, parts = pictures_at_once(run.model.config), list[dict[str, Tensor]]()
        for first in range(0, len(records), at_once):
            some = records[first : first + at_once]
            squares = np.stack([record.value.picture.seen(known.fitting) for record in some])
            x = torch.from_numpy(known.fitting.numbers(squares)).to(run.device)
            parts.append({NETWORK: run.model(x).float().cpu(), **known.plain.scores(squares, known.fitting)})
        scores = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        wanted = torch.tensor([known.labels.index(known.label_of(record.value)) for record in records])
        counts = torch.tensor(known.weights)[wanted] if known.weights else torch.ones(len(wanted))
        return replace(known, plain=known.plain.calibrated(scores, wanted, counts))

    def questions(self, run: Run, place: str) -> Questions:
        def question(name: str, picture: Picture | Problem) -> Question:
            fault = picture.what if isinstance(picture, Problem) else ""
            return Question(name, name if fault else picture, (name,), fault)

        def in_folder(text: str) -> Picture:  # by its name in a table, from the folder of the table
            return self.parse(os.path.join(os.path.dirname(place), text) if text.strip() else "")

        if form_of(place).has_rows and not pixel_columns(place):
            return table_questions(place, ("name", "image", "picture"), TableOptions(), in_folder)
        return Questions(("name",), [question(*pair) for pair in read_unlabelled(place)])

    # from answers to a report

    def measure(self, run: Run, records: Sequence[LabelledRecord]) -> tuple[dict[str, float], list[Answer]]:
        unseen = unseen_classes(records, run.known.labels, run.known.label_of)  # an error here, not a wrong answer
        require(not unseen, show(unseen, NAMED))
        answers = run([record.value.picture for record in records])
        metrics = class_metrics(*given_and_true_labels(run.known, answers, records))
        return metrics | attention_on_objects(run.known, records, answers), answers

    def details(self, run: Run, records: Sequence[LabelledRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        given, wanted = given_and_true_labels(run.known, answers, records)
        alone = [answer.more["readers"] for answer in answers if "readers" in answer.more]
        found = class_details(given, wanted, run.known.labels)
        if len(alone) < len(answers) or not alone:
            return found
        return found | reader_details(alone, given, wanted, list(run.known.plain.scales), PLAIN)

    def detail_lines(self, details: dict[str, Any]) -> list[str]:
        return [*super().detail_lines(details), *([details["verdict"]] if "verdict" in details else [])]

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[LabelledRecord]) -> dict[str, float]:
        train, known = learned(), run.known
        wanted = [known.label_of(record.value) for record in records]
        plain = known.plain or with_plain(known, train).plain
        assert plain is not None
        squares = [record.value.picture.seen(known.fitting) for record in records]
        numbers = {name: scores.argmax(1) for name, scores in plain.scores(squares, known.fitting).items()}
        answers = {name: [known.labels[number] for number in each.tolist()] for name, each in numbers.items()}
        answers["majority"] = [majority([known.label_of(record.value) for record in train])] * len(wanted)
        return {f"accuracy_{name}": accuracy(given, wanted) for name, given in answers.items()}

    def samples(self, run: Run, splits: Splits[LabelledPicture]) -> list[str]:
        if run.source.in_memory:
            return []
        records = splits.test or splits.valid
        firsts = {record.value.label: record.where for record in reversed(records)}  # one of every class
        return [firsts[label] for label in run.known.labels if label in firsts][:SAMPLES]

    def amount(self, records: Sequence[LabelledRecord]) -> str:
        return plural(len(records), "picture")

    def sections(self, run: Run, records: Sequence[LabelledRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.recognize.report import sections

        return sections(run, records, answers)


# records


def _builtin() -> Splits[LabelledPicture]:
    """Drawn objects in clutter, with their boxes."""
    drawn = [getattr(objects(), name) for name in SETS]
    sets = (
        zip(map(Picture, each.pictures), each.labels, map(tuple, each.boxes.tolist()), strict=True) for each in drawn
    )
    train, valid, test = (
        numbered(*pair) for pair in zip(SETS, (starmap(LabelledPicture, s) for s in sets), strict=True)
    )
    return Splits(train, valid, test)


# where the model looked


def pictures_at_once(config: ViTConfig) -> int:
    """How many pictures are answered together: what is kept of them, queries, keys and values of all layers, is bounded.

    >>> pictures_at_once(ViTConfig(width=768, heads=12, depth=12, size=224, patch=16))
    12
    """
    kept = 3 * 4 * config.places * config.width * config.depth
    return max(1, min(SEEN_AT_ONCE, SEEN_BYTES // kept))


def _looked(seen: Seen, config: ViTConfig) -> Float[Tensor, "batch patches"]:
    """The last look, from which the class is decided: of the class token (and of one that has classes of its own) or of the
    pooling query, the mean over heads, and of the patches alone. Where all places are pooled alike, the mean of all their looks.
    """
    call = seen[seen.names[-1]]
    rows = slice(0, 1 + (config.teacher == "heads")) if config.has_token or config.pool == "attention" else None
    weights = call.weights(rows=rows).float().mean((1, 2))[:, config.before :]
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-12)


def _ranked(
    known: PictureClasses, scores: Mapping[str, Float[Tensor, "1 classes"]], candidates: Collection[str]
) -> tuple[list[tuple[str, float]], dict[str, Any]]:
    """The classes with their probabilities, the likeliest first, by the scores of all readers of a picture; which reader decided,
    and what each says alone, where there are several.
    """
    scales = known.plain.scales if known.plain else {}
    pairs = zip(known.labels, mixed_scores(scores, scales)[0].softmax(-1).tolist(), strict=True)
    ranked = sorted((pair for pair in pairs if pair[0] in (candidates or known.labels)), key=lambda pair: -pair[1])
    if len(scores) == 1:
        return ranked, {}
    alone = {name: known.labels[int(one.argmax())] for name, one in scores.items()}
    return ranked, {"reader": deciding_reader(ranked[0][0], alone, list(scales)), "readers": alone}


def _labels_of(
    known: PictureClasses,
    config: Any,
    picture: Picture,
    candidates: Collection[str],
    plain: Mapping[str, Tensor],
    scores: Float[Tensor, "1 classes"],
) -> Labels:
    """What the rows and columns are: patches of the picture as the model sees it, after the class token where it has one.

    `plain` are the scores of the plain readers that answer with the network, whose `scores` they are not.
    """
    from mirada.drawing.attention.picture import png

    cells = GridLabels.of(known.grid, known.grid, config.token_names, png(picture.seen(known.fitting)))
    ranked, more = _ranked(known, {NETWORK: scores.detach().float().cpu(), **plain}, candidates)
    facts = {"input": picture.name} | ({"reader": more["reader"]} if more else {})
    decides = config.has_token or config.pool == "attention"  # one row, of the class token or of the pooling query
    chosen = known.labels.index(ranked[0][0])
    steps = (WrittenStep(0, *ranked[0], tuple(ranked[:RANKED]), chosen),) if decides else ()
    return Labels(
        {"cells": cells, "query": AxisLabels(("[query]",))},
        {"pool*": ("query", "cells"), "*": ("cells", "cells")},
        facts, ranked[0], steps, chosen=chosen,
    )  # fmt: skip
