"""fill: a text with a gap in, the word that fits out; and whether one sentence follows another."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.batch import Buckets, pad
from mirada.data.builtin.places import places
from mirada.data.corrupt import mask_tokens, second_of
from mirada.data.records import OBJECTS, Record, ending_of
from mirada.data.tokenize import END, MASK, PAD, START, Tokenizer
from mirada.drawing import Ranked, Section
from mirada.errors import require
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.models.bert import BERT
from mirada.tasks.answer import Answer, Ask
from mirada.tasks.batches import Shares, all_parts
from mirada.tasks.run import Run
from mirada.tasks.sentences import pairs_of_text
from mirada.tasks.sources import SETS, from_files, numbered
from mirada.tasks.task import DataConfig, Place, Preset, Splits, Task
from mirada.training.objectives import Objective, Part
from mirada.training.recipe import Recipe

GAP = re.compile(r"_{2,}|\[MASK\]|<mask>")
SPECIAL = 5  # ids below are no words
ALONE = 4  # one text in so many is a single sentence, so that a gap can be filled without a second one
LISTED = 5
TABLES = (".tsv", ".csv", *OBJECTS)
Item = tuple[list[int], list[int]]


class FillObjective(Objective):
    """Cross-entropy of the hidden words, plus that of the order of sentences."""

    terms = ("words", "order")

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        model: Any = self.model
        wanted, follows = inputs["wanted"], inputs["follows"]
        h = model.encode(inputs["tokens"], inputs["lengths"], inputs["segments"])
        hidden = wanted != IGNORED
        words = model.output.loss(model.guess(h[hidden]), wanted[hidden], self.smoothing)
        paired = (follows != IGNORED).nonzero()[:, 0]
        scores = model.order(model.summary(h))
        order = F.cross_entropy(scores[paired], follows[paired]) if len(paired) else 0.0 * scores.sum()
        return torch.stack([words, order])


@dataclass(frozen=True)
class Texts:
    """Texts as the model is given them: a function of (seed, epoch, number of the text), however a batch is divided."""

    items: Sequence[Item]
    vocab: int
    seed: int
    marks: frozenset[int] = frozenset()  # tokens that end a sentence

    def part(self, rows: list[int], epoch: int) -> Part:
        tokens, segments, follows = zip(*(self.arranged(row, epoch) for row in rows), strict=True)
        padded, lengths = pad(tokens, PAD)
        corrupted, wanted = mask_tokens(padded, padded >= SPECIAL, rows, self.vocab, self.seed, epoch)
        inputs = {
            "tokens": corrupted, "wanted": wanted, "lengths": lengths, "segments": pad(segments, 0)[0],
            "follows": torch.tensor(follows),
        }  # fmt: skip
        counts = int((wanted != IGNORED).sum()), sum(answer != IGNORED for answer in follows)
        return Part(inputs, counts, int(lengths.sum()))

    def arranged(self, row: int, epoch: int) -> tuple[list[int], list[int], int]:
        """One text: mostly a sentence and its own second or a strange one, sometimes a sentence alone, with or without its
        last mark, as people type it.
        """
        first, second = self.items[row]
        turn, alone = divmod(row + epoch, ALONE)
        if alone == 0 or not second:
            sentence = first if turn % 2 or not second else second
            closed = turn % 4 < 2 or sentence[-1] not in self.marks
            tokens = [START, *(sentence if closed else sentence[:-1]), END]
            return tokens, [0] * len(tokens), IGNORED
        other, follows = second_of(row, len(self.items), self.seed, epoch)
        second = self.items[other][1] or second
        tokens = [START, *first, END, *second, END]
        return tokens, [0] * (len(first) + 2) + [1] * (len(second) + 1), int(follows)


class Fill(Task):
    name = "fill"
    columns = ("first", "second")
    asks = ("best", "candidates")
    presets: ClassVar[Mapping[str, Preset]] = {"bert": Preset(BERT)}

    def defaults(self, model: str, place: Place, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 128, "hidden": 512, "depth": 3, "heads": 4, "length": 128, "order": "pre"}
        recipe = {"batch_tokens": 2048, "lr": 2e-3, "warmup": 200, "smoothing": 0.0, "patience": 0, "epochs": 15}
        return {"model": sizes, "recipe": recipe}

    def read(self, place: Place, options: DataConfig) -> Splits:
        if place.builtin:
            return builtin()
        if ending_of(place.data) in TABLES:
            return from_files(place, self.columns, options)
        return pairs_of_text(place)

    def texts(self, train: Sequence[Record]) -> Sequence[str]:
        return [text for record in train for text in record.fields]

    def sizes(self, tokenizer: Tokenizer, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {"vocab": len(tokenizer)}

    def lengths(self, records: Sequence[Record], run: Run) -> list[tuple[int, ...]]:
        return [(len(first) + len(second) + 3, 0) for first, second in items_of(records, run)]

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return FillObjective(model, recipe.smoothing)

    def supply(self, records: Sequence[Record], run: Run, recipe: Recipe) -> Shares:
        items = items_of(records, run)
        texts = Texts(items, len(run.tokenizer), recipe.seed, marks_of(run.tokenizer))
        return Shares(Buckets(self.lengths_of(items), recipe.batch_tokens, recipe.seed), texts.part)

    def parts(self, records: Sequence[Record], run: Run, recipe: Recipe) -> list[Part]:
        items = items_of(records, run)
        return all_parts(
            self.lengths_of(items),
            recipe.batch_tokens,
            Texts(items, len(run.tokenizer), 0, marks_of(run.tokenizer)).part,
        )

    def lengths_of(self, items: Sequence[Item]) -> list[tuple[int, ...]]:
        return [(len(first) + len(second) + 3,) for first, second in items]

    def answer(self, run: Run, inputs: Sequence[str], ask: Ask) -> list[Answer]:
        return [fill(run, text, ask) for text in inputs]

    @torch.no_grad()
    def measure(self, run: Run, records: Sequence[Record]) -> tuple[dict[str, float], list[Answer]]:
        """The percentage of hidden words and of orders that are right."""
        right, asked = [0, 0], [0, 0]
        for part in self.parts(records, run, Recipe(batch_tokens=4096)):
            inputs = {name: x.to(run.device) for name, x in part.inputs.items()}
            found = run.model(inputs["tokens"], inputs["lengths"], inputs["segments"])
            for number, (scores, wanted) in enumerate(
                ((found.words, inputs["wanted"]), (found.follows, inputs["follows"]))
            ):
                counts = wanted != IGNORED
                right[number] += int((scores.argmax(-1) == wanted)[counts].sum())
                asked[number] += int(counts.sum())
        names = ("word_accuracy", "order_accuracy")
        return {name: 100 * r / max(1, a) for name, r, a in zip(names, right, asked, strict=True)}, []

    def samples(self, run: Run, splits: Splits) -> list[str]:
        if run.place.builtin:
            return ["Ana va al cine a ver una nueva ___.", "Luis va al museo a ver una nueva ___."]
        return [with_gap(record.fields[0]) for record in askable(splits.valid, 3)]

    def sections(self, run: Run, records: Sequence[Record], answers: Sequence[Answer]) -> list[Section]:
        shown = []
        for record in askable(records, 8):
            text = with_gap(record.fields[0])
            found = run(text, best=LISTED)
            gap = GAP.search(text)
            word = record.fields[0][gap.start() :].split()[0] if gap else ""
            shown.append(Ranked(text, found.ranked, word.strip(".,;:!?")))
        return [Section("Gaps", "The likeliest words for a gap, with their probabilities.", tuple(shown))]


def builtin() -> Splits:
    """Two sentences about a place."""
    data = places()
    train, valid, test = (numbered(name, ((text.first, text.second) for text in getattr(data, name))) for name in SETS)
    return Splits(train, valid, test)


def marks_of(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end a sentence."""
    return frozenset(number for number in range(len(tokenizer)) if tokenizer.token(number) in ".!?…")


def items_of(records: Sequence[Record], run: Run) -> list[Item]:
    """The tokens of both sentences."""
    sides = [run.tokenizer.encode_all([record.fields[side] for record in records]) for side in (0, 1)]
    return list(zip(*sides, strict=True))


def with_gap(text: str) -> str:
    """A text whose last word is hidden.

    >>> with_gap("Ana lee un libro.")
    'Ana lee un ___.'
    """
    return re.sub(r"\w+(\W*)$", r"___\1", text)


def askable(records: Sequence[Record], count: int) -> list[Record]:
    """The first records whose last word can be hidden: they have one, and no gap of their own."""
    return list(islice((r for r in records if len(GAP.findall(with_gap(r.fields[0]))) == 1), count))


def gapped(run: Run, text: str, width: int) -> list[int]:
    """The tokens of a sentence, with that many masks in the place of every gap."""
    tokens = run.tokenizer.encode_blanks(GAP.sub("___", text))
    return [token for each in tokens for token in ([MASK] * width if each == MASK else [each])]


def arranged(run: Run, text: str, width: int) -> tuple[Tensor, Tensor]:
    """Tokens and segments of an input: one sentence, or two with a tab between them."""
    first, tab, second = text.partition("\t")
    tokens = [START, *gapped(run, first, width), END]
    segments = [0] * len(tokens)
    if tab:
        more = [*gapped(run, second, width), END]
        tokens, segments = tokens + more, segments + [1] * len(more)
    run.check_length(tokens, text)
    return torch.tensor([tokens], device=run.device), torch.tensor([segments], device=run.device)


def fill(run: Run, text: str, ask: Ask) -> Answer:
    """The words for a gap, ranked; without a gap, whether the second sentence follows the first."""
    gaps = len(GAP.findall(text))
    require(gaps <= 1, f"one gap at a time: {text!r} has {gaps}")
    if not gaps:
        require(
            "\t" in text,
            f"{text!r} has no gap: write ___ for the missing word, or two sentences with a tab between them",
        )
        return order(run, text)
    ranked = candidates(run, text, ask.candidates) if ask.candidates else likeliest(run, text, max(ask.best, LISTED))
    listed = tuple(ranked) if ask.candidates else tuple(ranked[: ask.best]) if ask.best > 1 else ()
    tokens, segments = arranged(run, text, 1)
    read = tuple(run.tokenizer.token(token) for token in tokens[0].tolist())
    best, score = ranked[0]
    return Answer(text, best, score, listed, read, again=partial(run.look, tokens, None, segments))


def order(run: Run, text: str) -> Answer:
    """Whether the second sentence follows the first."""
    tokens, segments = arranged(run, text, 1)
    shares = run.model(tokens, None, segments).follows.float().softmax(-1)[0].tolist()
    follows = shares[1] >= shares[0]
    read = tuple(run.tokenizer.token(token) for token in tokens[0].tolist())
    answer = "follows" if follows else "does not follow"
    return Answer(text, answer, max(shares), read=read, again=partial(run.look, tokens, None, segments))


def likeliest(run: Run, text: str, count: int) -> list[tuple[str, float]]:
    """The likeliest tokens for the gap, with their probabilities."""
    tokens, segments = arranged(run, text, 1)
    shares = run.model(tokens, None, segments).words[0, tokens[0] == MASK][0].float().softmax(-1)
    shares[:SPECIAL] = 0
    top = shares.topk(min(count, len(shares)))
    return [
        (run.tokenizer.decode([token]), share)
        for token, share in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def candidates(run: Run, text: str, words: Sequence[str]) -> list[tuple[str, float]]:
    """The given words with their probabilities, best first; of several tokens, the geometric mean counts."""
    found = []
    for word in words:
        ids = run.tokenizer.encode(word)
        require(len(ids) > 0, f"candidate {word!r} is empty")
        tokens, segments = arranged(run, text, len(ids))
        scores = run.model(tokens, None, segments).words[0, tokens[0] == MASK].float().log_softmax(-1)
        mean = scores[torch.arange(len(ids)), torch.tensor(ids, device=scores.device)].mean()
        found.append((word, float(mean.exp())))
    return sorted(found, key=lambda pair: -pair[1])
