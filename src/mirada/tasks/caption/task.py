"""caption: a picture in, a sentence about it out, with where the model looked for every word."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from mirada.corpora.scenes import Scene, scenes
from mirada.data.batching import Microbatch, in_sequence, pad
from mirada.data.image import Box, as_numbers, fit_square, pixels_of, thumbnails
from mirada.data.record import Problem, too_long
from mirada.data.text.tokenize import Tokenizer, Vocabulary
from mirada.decoding.search import Forbid, Hypothesis
from mirada.files import expanded, write_whole
from mirada.hub.vectors import start_from_vectors
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.looking.labels import GridLabels, Labels, written_labels
from mirada.models.captioner import Captioner
from mirada.runs.alignments import Alignments
from mirada.runs.answers import Answer
from mirada.runs.ask import SearchAsk
from mirada.runs.choice import BudgetChoice, SequenceCost, affordable
from mirada.runs.inputs import Question, Questions, table_questions
from mirada.runs.run import Run
from mirada.runs.sources import SETS, Source, Splits, TrainingRecords, numbered, splits_of
from mirada.runs.task import SAMPLES, Preset, Task, sample_evenly
from mirada.tasks.caption.captions import (
    CaptionedPicture,
    CaptionRecord,
    PictureOptions,
    captions_file,
    captions_files,
    pictures_in,
    read_captions,
    repeated_in_training,
    resized_picture,
)
from mirada.tasks.caption.metrics import Pointed, cider, is_right, pointed, pointing, wanted_captions
from mirada.tasks.caption.reinforce import Reinforce
from mirada.training.baselines import majority, nearest
from mirada.training.metrics import bleu_of_several
from mirada.training.objectives import ModelLoss, Objective
from mirada.training.recipe import Recipe
from mirada.words import plural

if TYPE_CHECKING:
    from mirada.drawing.page import Section

AT_ONCE = 64  # pictures that are captioned together
LONGEST = 60  # words of a caption
SIZES = (  # a unit is a picture of SIDE x SIDE pixels (decision 27)
    SequenceCost({"width": 64, "hidden": 128}, 2.6),
    SequenceCost({"width": 128, "hidden": 256}, 5.8, seen=2e4, data=1e3),
    SequenceCost({"width": 256, "hidden": 512}, 18.0, seen=1e5, data=5e3),
)
SIDE = 64


class Caption(Task[Any, CaptionedPicture, Vocabulary]):
    """An input is a path, a Pillow image or an array of pixels."""

    name, input_kind = "caption", "picture"
    Data = PictureOptions
    Ask = SearchAsk
    Known = Vocabulary
    preview_examples = 64
    presets: ClassVar[Mapping[str, Preset]] = {
        # without a price of uneven looks, in some trainings all words look at the larger thing; a high one spreads them
        "soft": Preset(Captioner, {"encoder": "coordinates", "penalty": 0.03}),
        "hard": Preset(Captioner, {"encoder": "coordinates", "gaze": "hard:0.5", "penalty": 0.0}),
        "transformer": Preset(Captioner, {"encoder": "coordinates", "decoder": "transformer", "decoder_depth": 2}),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        if source.builtin:
            sizes = {"width": 64, "hidden": 128, "dropout": 0.0}
            lr = 3e-3 if model == "hard" else 1.5e-3  # faster, soft looks settle on the larger thing and stay there
            recipe = {"batch_size": 32, "lr": lr, "warmup": 100, "smoothing": 0.0, "patience": 0, "epochs": 16}
            return {"model": sizes, "data": {"size": 48}, "recipe": recipe}
        sizes = {"width": 256, "hidden": 512, "dropout": 0.3}
        return {"model": sizes, "recipe": {"batch_size": 64, "lr": 1e-3, "epochs": 30}}

    def choose(
        self, model: str, splits: Splits[CaptionedPicture], options: PictureOptions, minutes: float
    ) -> BudgetChoice:
        if splits.builtin:
            return BudgetChoice()
        area, count = (options.size / SIDE) ** 2, len(splits.train)
        found = affordable(SIZES, area * count, minutes, epochs=30)
        batch = 32 if found.seen < 2e5 * area else 64
        own = {"dropout": found.by_epochs(0.1, (15, 0.2), (30, 0.3))}
        recipe = {"batch_size": batch, "lr": 1e-3, "warmup": found.warmup(batch * area)}
        side = f"{options.size} x {options.size}"
        return found.choice(own, recipe, {}, f"{plural(count, 'picture')} of {side}")

    # from data to batches

    def read(self, source: Source, options: PictureOptions) -> Splits[CaptionedPicture]:
        if source.builtin:
            return builtin(options)
        if isinstance(source.data, str) and captions_files(source.data):
            source = replace(source, data=captions_file(source.data))  # train.png and test.png do not divide the folder
        splits = splits_of(source, partial(read_captions, options=options), options, attrgetter("digest"))
        repeated = repeated_in_training(splits.train, (*splits.valid, *splits.test))
        return replace(splits, problems=[*splits.problems, *repeated])

    def identity(self, value: CaptionedPicture) -> bytes:
        return value.identity

    def learn(self, splits: Splits[CaptionedPicture], options: PictureOptions, start: Vocabulary | None) -> Vocabulary:
        return Vocabulary.learn([text for record in splits.train for text in record.value.captions], options, start)

    def sizes(self, known: Vocabulary) -> dict[str, Any]:
        return {"vocab": len(known)}

    def prepare(self, model: Model, known: Vocabulary, options: PictureOptions) -> None:
        if options.vectors:
            start_from_vectors(model, options.vectors, known.tokens)

    def examples(self, records: Sequence[CaptionRecord], known: Vocabulary, config: Any) -> "CaptionExamples":
        counts = [len(record.value.captions) for record in records]
        tokens = iter(known.tokenizer.encode_all([text for record in records for text in record.value.captions]))
        captions = [[next(tokens) for _ in range(count)] for count in counts]
        return CaptionExamples([record.value.pixels for record in records], captions, known.tokenizer)

    def problems(self, records: Sequence[CaptionRecord], examples: "CaptionExamples", config: Any) -> list[Problem]:
        lengths = [(max(map(len, captions)),) for captions in examples.captions]
        return too_long(records, lengths, config.length - 1, ("caption",))

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        hard = model.config.decoder == "lstm" and model.config.gaze.startswith("hard")
        return (Reinforce if hard else ModelLoss)(model, recipe.smoothing)

    def in_order(self, examples: "CaptionExamples", recipe: Recipe) -> Sequence[Microbatch]:
        return in_sequence(examples.each_caption(), recipe.batch_size)

    # from inputs to answers

    def answer(self, run: Run, inputs: Sequence[Any], ask: SearchAsk) -> list[Answer]:
        options: Any = run.options
        wanted = ask.attention()
        stepper: Any = wanted.watch(run.stepper)
        tokenizer: Tokenizer = run.known.tokenizer
        pictures, answers, never = [], list[Answer](), Forbid(tuple(sorted(tokenizer.special - {tokenizer.end})))
        for given in inputs:
            if not isinstance(given, CaptionedPicture):
                name = str(given) if isinstance(given, str | Path) else "picture"
                given = CaptionedPicture(name, fit_square(pixels_of(given), options.size, options.resize), ())
            pictures.append(given)
        most = min(run.model.config.length - 1, ask.tokens or LONGEST)
        for at in range(0, len(pictures), AT_ONCE):
            part = pictures[at : at + AT_ONCE]
            state = stepper.start(stepper.encode(as_numbers([picture.pixels for picture in part]).to(run.device)))
            first = torch.full((len(part),), tokenizer.start, device=run.device)
            hypotheses = ask.search()(stepper, state, first, tokenizer.end, most, align=True, rules=[never])
            answers += [_as_answer(run, *pair, wanted) for pair in zip(part, hypotheses, strict=True)]
        return answers

    def questions(self, run: Run, place: str) -> Questions:
        folder = expanded(place)
        if not folder.is_dir():
            parent = folder.parent
            return table_questions(place, ("name", "image", "picture"), run.reading, lambda text: str(parent / text))  # type: ignore[arg-type]
        paths = pictures_in(folder)
        return Questions(("name",), [Question(path, path, (str(Path(path).relative_to(folder)),)) for path in paths])

    # from answers to a report

    def measure(self, run: Run, records: Sequence[CaptionRecord]) -> tuple[dict[str, float], list[Answer]]:
        answers = run([record.value for record in records])
        texts, references = [answer.text for answer in answers], wanted_captions(run, records)
        looks = [item for pair in zip(answers, records, strict=True) for item in _pointed_at(run, *pair)]
        right = sum(map(is_right, texts, references))
        metrics = {"bleu": bleu_of_several(texts, references), "cider": cider(texts, references)}
        return metrics | {"exact": 100 * right / len(texts)} | pointing(looks), answers

    def details(self, run: Run, records: Sequence[CaptionRecord], answers: Sequence[Answer]) -> dict[str, Any]:
        looks = [item for pair in zip(answers, records, strict=True) for item in _pointed_at(run, *pair)]
        written, hits = (Counter(item.word for item in looks if item.hit or not only) for only in (False, True))
        words = {word: {"written": n, "pointing": 100 * hits[word] / n} for word, n in written.most_common()}
        return {"words": words} if words else {}

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[CaptionRecord]) -> dict[str, float]:
        references, train = wanted_captions(run, records), learned()
        captions = wanted_captions(run, train)
        often = [majority([text for texts in captions for text in texts])] * len(records)
        known, asked = (thumbnails([record.value.pixels for record in part]) for part in (train, records))
        near = [captions[n][0] for n in nearest(known, asked)]
        return {
            f"{metric.__name__.removesuffix('_of_several')}_{name}": metric(texts, references)
            for name, texts in (("majority", often), ("nearest", near))
            for metric in (bleu_of_several, cider)
        }

    def samples(self, run: Run, splits: Splits[CaptionedPicture]) -> list[str]:
        """Pictures that can be asked about. The builtin ones are written into the run's folder, so that they are files."""
        records = sample_evenly(splits.test or splits.valid, SAMPLES)
        if run.source.builtin:
            return [as_file(run.folder / "samples", record) for record in records]
        return [record.value.name for record in records if Path(record.value.name).is_file()]

    def amount(self, records: Sequence[CaptionRecord]) -> str:
        return plural(len(records), "picture")

    def sections(self, run: Run, records: Sequence[CaptionRecord], answers: Sequence[Answer]) -> list["Section"]:
        from mirada.tasks.caption.report import sections

        return sections(run, records, answers)


@dataclass(frozen=True)
class CaptionExamples:
    """Pictures, and the tokens of all captions of each. An epoch sees every picture with one caption, the next with another."""

    pictures: Sequence[UInt8[np.ndarray, "size size 3"]]
    captions: Sequence[Sequence[list[int]]]
    tokenizer: Tokenizer

    def __len__(self) -> int:
        return len(self.pictures)

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        """The batch of some rows in an epoch."""
        texts = [self.captions[row][(row + epoch) % len(self.captions[row])] for row in rows]
        target, _ = pad([[self.tokenizer.start, *text] for text in texts], self.tokenizer.filler)
        wanted, counts = pad([[*text, self.tokenizer.end] for text in texts], IGNORED)
        inputs = {"pictures": as_numbers([self.pictures[row] for row in rows]), "target": target, "wanted": wanted}
        return Microbatch(inputs, (int(counts.sum()),), int(counts.sum()))

    def take(self, rows: Sequence[int]) -> "CaptionExamples":
        """Some of the pictures."""
        return replace(self, pictures=[self.pictures[n] for n in rows], captions=[self.captions[n] for n in rows])

    def each_caption(self) -> "CaptionExamples":
        """Every caption as an example of its own."""
        pairs = zip(self.pictures, self.captions, strict=True)
        pictures = [picture for picture, texts in pairs for _ in texts]
        return replace(self, pictures=pictures, captions=[[text] for texts in self.captions for text in texts])


def builtin(options: PictureOptions) -> Splits[CaptionedPicture]:
    """The drawn scenes, in the size that was asked for."""

    def picture(scene: Scene) -> CaptionedPicture:
        boxes: dict[str, list[Box]] = {word: [box] for word, box in scene.boxes.items()}
        return resized_picture(scene.pixels, (scene.caption,), boxes, options, "scene")

    data = scenes()
    train, valid, test = (numbered(name, map(picture, getattr(data, name))) for name in SETS)
    return Splits(train, valid, test)


def _as_answer(run: Run, picture: CaptionedPicture, ranked: list[Hypothesis], wanted: Alignments) -> Answer:
    """The best caption as text, with where the model looked for every word of it."""
    best, tokenizer = ranked[0], run.known.tokenizer
    texts = [tokenizer.decode(hypothesis.tokens) for hypothesis in ranked]
    assert best.alignment is not None
    weights = best.alignment[: len(best.tokens)].float().cpu()
    side = isqrt(weights.shape[1])
    return Answer(
        picture.name, texts[0], best.score, picture.pixels,
        ranked=tuple(zip(texts, (h.score for h in ranked), strict=True)) if len(ranked) > 1 else (),
        shown=len(ranked) if len(ranked) > 1 else 0,
        read=tuple(f"row {1 + cell // side}, column {1 + cell % side}" for cell in range(weights.shape[1])),
        written=tuple(map(tokenizer.token, best.tokens)), tokens=tuple(best.tokens), weights=weights,
        **wanted.fields(best, weights.shape[1]),
        replay=partial(
            run.look, as_numbers([picture.pixels]), torch.tensor([[tokenizer.start, *best.tokens]]),
            labels=partial(_labels_of, tokenizer, picture, best),
        ),
    )  # fmt: skip


def _pointed_at(run: Run, answer: Answer, record: CaptionRecord) -> list[Pointed]:
    """Where the model looked for the words whose place is known."""
    if not record.value.boxes or answer.weights is None:
        return []
    words = [word.lower() for word in answer.written]
    return pointed(words, answer.weights, record.value.boxes, len(record.value.pixels))


def as_file(folder: Path, record: CaptionRecord) -> str:
    """The path of a picture file with a builtin picture in it."""
    from mirada.drawing.attention.picture import png

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.where.removeprefix('builtin ').replace(':', '-')}.png"
    write_whole(path, png(record.value.pixels))
    return str(path)


def _labels_of(tokenizer: Tokenizer, picture: CaptionedPicture, best: Hypothesis, logits: Tensor) -> Labels:
    """What the rows and columns of a caption are: words that were written, cells of the picture."""
    from mirada.drawing.attention.picture import png

    assert best.alignment is not None
    side = isqrt(best.alignment.shape[1])
    cells, text = GridLabels.of(side, side, picture=png(picture.pixels)), tokenizer.decode(best.tokens)
    labels = written_labels("cells", cells, tokenizer, best, text, picture.name, logits)
    known = {word.lower(): places for word, places in picture.boxes.items()}
    placed = ((step.row, box) for step in labels.outputs for box in known.get(step.text.lower(), ()))
    return replace(labels, boxes=tuple(placed))
