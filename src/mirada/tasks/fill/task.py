"""fill: a text with a gap in, the word that fits out; and whether one sentence follows another."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.batching import pad
from mirada.data.check import too_long
from mirada.data.files.forms import KEYED, read_records
from mirada.data.files.opening import ending_of
from mirada.data.options import TextOptions
from mirada.data.record import Fields, Found, Problem, TableRow
from mirada.data.text.tokenize import END, MASK, PAD, START, Tokenizer, Vocabulary
from mirada.drawing.page import Section
from mirada.drawing.tables import Ranked
from mirada.errors import require
from mirada.hub.vectors import start_from_vectors
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.looking.explain.compare import Explained
from mirada.looking.labels import RANKED, Labels, WrittenStep, searched_axis
from mirada.models.bert import BERT
from mirada.runs.answers import Answer
from mirada.runs.ask import TextRankAsk
from mirada.runs.batches import Bucketed, in_buckets
from mirada.runs.run import Run
from mirada.runs.sources import Source, Splits, TrainingRecords, embedded, from_tables
from mirada.runs.task import Preset, Task
from mirada.tasks.fill.texts import NeighborWords, mask_tokens, read_passages, second_of
from mirada.training.objectives import Microbatch, Objective
from mirada.training.recipe import Recipe

GAP = re.compile(r"_{2,}|\[MASK\]|<mask>")
SPECIAL = 5  # ids below are no words
ALONE = 4  # one text in so many is a single sentence, so that a gap can be filled without a second one
LISTED = 5
TABLES = (".tsv", ".csv", *KEYED)
COLUMNS = ("first", "second")
Sentences = tuple[list[int], list[int]]  # the tokens of both


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
class SentencePairs:
    """Texts as the model is given them: a function of (seed, epoch, number of the text), however a batch is divided."""

    items: Sequence[Sentences]
    vocab: int
    marks: frozenset[int]  # tokens that end a sentence
    seed: int = 0

    def __len__(self) -> int:
        return len(self.items)

    @property
    def lengths(self) -> list[tuple[int, ...]]:
        return [(len(first) + len(second) + 3,) for first, second in self.items]

    def take(self, rows: Sequence[int]) -> "SentencePairs":
        return replace(self, items=[self.items[row] for row in rows])

    def part(self, rows: Sequence[int], epoch: int) -> Microbatch:
        tokens, segments, follows = zip(*(self.arranged(row, epoch) for row in rows), strict=True)
        padded, lengths = pad(tokens, PAD)
        corrupted, wanted = mask_tokens(padded, padded >= SPECIAL, list(rows), self.vocab, self.seed, epoch)
        inputs = {
            "tokens": corrupted, "wanted": wanted, "lengths": lengths, "segments": pad(segments, 0)[0],
            "follows": torch.tensor(follows),
        }  # fmt: skip
        counts = int((wanted != IGNORED).sum()), sum(answer != IGNORED for answer in follows)
        return Microbatch(inputs, counts, int(lengths.sum()))

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


class Fill(Task[str, Fields, Vocabulary]):
    name = "fill"
    Data = TextOptions
    Ask = TextRankAsk
    Known = Vocabulary
    input_columns = ("text", "first")
    preview_examples = 200
    presets: ClassVar[Mapping[str, Preset]] = {"bert": Preset(BERT)}

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 128, "hidden": 512, "depth": 3, "heads": 4, "length": 128, "order": "pre"}
        recipe = {"batch_tokens": 2048, "lr": 2e-3, "warmup": 200, "smoothing": 0.0, "patience": 0, "epochs": 15}
        return {"model": sizes, "recipe": recipe}

    def read(self, source: Source, options: TextOptions) -> Splits[Fields]:
        if source.builtin:
            return embedded("places")
        return from_tables(source, COLUMNS, options, partial(_read_place, options=options))

    def learn(self, splits: Splits[Fields], options: TextOptions, start: Vocabulary | None) -> Vocabulary:
        return Vocabulary.learn([text for record in splits.train for text in record.value], options, start)

    def sizes(self, known: Vocabulary) -> dict[str, Any]:
        return {"vocab": len(known)}

    def prepare(self, model: Model, known: Vocabulary, options: TextOptions) -> None:
        if options.vectors:
            start_from_vectors(model, options.vectors, known.tokens)

    def examples(self, records: Sequence[TableRow], known: Vocabulary, config: Any) -> SentencePairs:
        sides = [known.tokenizer.encode_all([record.value[side] for record in records]) for side in (0, 1)]
        return SentencePairs(list(zip(*sides, strict=True)), len(known), _marks_of(known.tokenizer))

    def problems(self, records: Sequence[TableRow], examples: SentencePairs, config: Any) -> list[Problem]:
        return too_long(records, examples.lengths, config.length, ("the pair",))

    def objective(self, model: Model, recipe: Recipe) -> Objective:
        return FillObjective(model, recipe.smoothing)

    def batches(self, examples: SentencePairs, recipe: Recipe) -> Bucketed:
        return Bucketed(replace(examples, seed=recipe.seed), recipe.batch_tokens, recipe.seed)

    def in_order(self, examples: SentencePairs, recipe: Recipe) -> list[Microbatch]:
        return in_buckets(examples, recipe.batch_tokens)

    def answer(self, run: Run, inputs: Sequence[str], ask: TextRankAsk) -> list[Answer]:
        return [_fill(run, text, ask) for text in inputs]

    @torch.no_grad()
    def measure(self, run: Run, records: Sequence[TableRow]) -> tuple[dict[str, float], list[Answer]]:
        """The percentage of hidden words and of orders that are right."""
        right, asked = [0, 0], [0, 0]
        for part in self.in_order(self.examples(records, run.known, run.model.config), Recipe(batch_tokens=4096)):
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

    def baselines(self, run: Run, learned: TrainingRecords, records: Sequence[TableRow]) -> dict[str, float]:
        """The word that stands most often between the same two, and the answer about the order that is right most often."""
        known, asked = (self.examples(part, run.known, run.model.config) for part in (learned(), records))
        words = NeighborWords([START, *sentence, END] for pair in known.items for sentence in pair if sentence)
        right, orders = list[bool](), list[int]()
        for part in self.in_order(asked, Recipe(batch_tokens=4096)):
            tokens, wanted, follows = (part.inputs[name].tolist() for name in ("tokens", "wanted", "follows"))
            for row, hidden in zip(tokens, wanted, strict=True):
                places = [place for place, token in enumerate(hidden) if token != IGNORED]
                right += [words.guess(row[place - 1], row[place + 1]) == hidden[place] for place in places]
            orders += [answer for answer in follows if answer != IGNORED]
        often = max(orders.count(0), orders.count(1))
        return {
            "word_accuracy_neighbors": 100 * sum(right) / max(1, len(right)),
            "order_accuracy_majority": 100 * often / max(1, len(orders)),
        }

    def length(self, value: Fields) -> int:
        return len(value[0].split())

    def samples(self, run: Run, splits: Splits[Fields]) -> list[str]:
        if run.source.builtin:
            return ["Ana va al cine a ver una nueva ___.", "Luis va al museo a ver una nueva ___."]
        return [with_gap(record.value[0]) for record in askable(splits.valid, 3)]

    def sections(self, run: Run, records: Sequence[TableRow], answers: Sequence[Answer]) -> list[Section]:
        shown = []
        for record in askable(records, 8):
            text = with_gap(record.value[0])
            found = run(text, best=LISTED)
            gap = GAP.search(text)
            word = record.value[0][gap.start() :].split()[0] if gap else ""
            shown.append(Ranked(text, found.ranked, word.strip(".,;:!?")))
        return [Section("Gaps", "The likeliest words for a gap, with their probabilities.", tuple(shown))]


def _read_place(place: str, options: TextOptions) -> Found[Fields]:
    """Pairs of sentences from a table, or from what follows each other in text files."""
    table = ending_of(place) in TABLES
    return read_records(place, COLUMNS, options) if table else read_passages(place, options.encoding)


def _marks_of(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end a sentence."""
    return frozenset(number for number in range(len(tokenizer)) if tokenizer.token(number) in ".!?…")


def with_gap(text: str) -> str:
    """A text whose last word is hidden.

    >>> with_gap("Ana lee un libro.")
    'Ana lee un ___.'
    """
    return re.sub(r"\w+(\W*)$", r"___\1", text)


def askable(records: Sequence[TableRow], count: int) -> list[TableRow]:
    """The first records whose last word can be hidden: they have one, and no gap of their own."""
    return list(islice((r for r in records if len(GAP.findall(with_gap(r.value[0]))) == 1), count))


def _gapped(run: Run, text: str, width: int) -> list[int]:
    """The tokens of a sentence, with that many masks in the place of every gap."""
    tokens = run.known.tokenizer.encode_blanks(GAP.sub("___", text))
    return [token for each in tokens for token in ([MASK] * width if each == MASK else [each])]


def _in_segments(run: Run, text: str, width: int) -> tuple[list[int], list[int]]:
    """Tokens of an input and the number of the sentence that each is of: one sentence, or two with a tab between them."""
    first, tab, second = text.partition("\t")
    tokens = [START, *_gapped(run, first, width), END]
    more = [*_gapped(run, second, width), END] if tab else []
    return tokens + more, [0] * len(tokens) + [1] * len(more)


def _arranged(run: Run, text: str, width: int) -> tuple[Tensor, Tensor]:
    """The same as the model is given it; what is too long for it is refused."""
    tokens, segments = _in_segments(run, text, width)
    run.known.fitted(tokens, run.model.config.length, text)
    return torch.tensor([tokens], device=run.device), torch.tensor([segments], device=run.device)


def _fill(run: Run, text: str, ask: TextRankAsk) -> Answer:
    """The words for a gap, ranked; without a gap, whether the second sentence follows the first."""
    text = _shortened(run, text, ask) if ask.truncate else text
    gaps = len(GAP.findall(text))
    require(gaps <= 1, f"one gap at a time: {text!r} has {gaps}")
    if not gaps:
        require(
            "\t" in text,
            f"{text!r} has no gap: write ___ for the missing word, or two sentences with a tab between them",
        )
        return _order(run, text, ask)
    ranked = _candidates(run, text, ask.candidates) if ask.candidates else _likeliest(run, text, max(ask.best, LISTED))
    best, score = ranked[0]
    pieces = tuple(run.known.tokenizer.encode(best)) if ask.candidates else ()
    tokens, segments = _arranged(run, text, max(1, len(pieces)))
    read = tuple(run.known.tokenizer.token(token) for token in tokens[0].tolist())
    wanted = ranked if ask.candidates else ranked[: ask.best] if ask.best > 1 else []
    labels = partial(_labels_of, run, text, tokens[0].tolist(), (best, score), pieces)
    replay = partial(run.look, tokens, None, segments, labels=labels)
    answer = Answer(text, best, score, read=read, replay=replay, **ask.ranking(wanted))
    return _with_weights(answer, tokens[0].tolist().index(MASK)) if ask.aligned else answer


def _labels_of(
    run: Run, text: str, tokens: list[int], answer: tuple[str, float], chosen: Sequence[int], predicted: Any
) -> Labels:
    """What the rows and columns are: the tokens of one or two sentences. From the masks a word is written; without one, the
    first place tells whether the second sentence follows. `chosen` are the tokens of a candidate, or the number of an answer.
    """
    known = run.known.tokenizer
    if MASK in tokens:
        steps = _gap_steps(known, tokens.index(MASK), answer, chosen, predicted.words[0])
    else:
        shares = predicted.follows.float().softmax(-1)[0].tolist()
        ranked = sorted((("follows", shares[1]), ("does not follow", shares[0])), key=lambda pair: -pair[1])
        steps = (WrittenStep(0, *answer, tuple(ranked), chosen[0]),)
    axes = {"text": searched_axis(known, text, tokens)}
    return Labels(axes, {"*": ("text", "text")}, {"input": text}, answer, steps)


def _gap_steps(
    known: Tokenizer, first: int, answer: tuple[str, float], pieces: Sequence[int], words: Float[Tensor, "length vocab"]
) -> tuple[WrittenStep, ...]:
    """What was written into the gap: a step for every mask, which stand at `first`, first + 1, ..."""
    steps = []
    for row in range(first, first + max(1, len(pieces))):
        shares = words[row].float().softmax(-1).cpu()
        shares[:SPECIAL] = 0
        top = shares.topk(min(RANKED, len(shares)))
        ranked = tuple(zip(map(known.token, top.indices.tolist()), top.values.tolist(), strict=True))
        token = pieces[row - first] if pieces else int(top.indices[0])
        said = answer if len(pieces) < 2 else (known.token(token), float(shares[token]))
        steps.append(WrittenStep(row, *said, ranked, token))
    return tuple(steps)


def _shortened(run: Run, text: str, ask: TextRankAsk) -> str:
    """A text cut at the end that lies farther from its gap, word by word, until the model can read it.

    Two sentences without a gap are cut away from where they meet, and something stays of both.
    """
    most, words = run.model.config.length, text.replace("\t", " \t ").split(" ")
    width = max([1, *(len(run.known.tokenizer.encode(word)) for word in ask.candidates)])
    while (long := len(_in_segments(run, text, width)[0])) > most:
        gap = next((place for place, word in enumerate(words) if GAP.search(word)), None)
        least = int(gap is None and "\t" in words)  # words that stay on either side
        middle = gap if gap is not None else words.index("\t") if least else 0
        before, after = middle, len(words) - 1 - middle
        if max(before, after) <= least:
            break
        drop = max(1, len(words) * (long - most) // (2 * long))
        words = words[min(drop, before - least) :] if before > after else words[: len(words) - min(drop, after - least)]
        words = words[words[0] == "\t" : len(words) - (words[-1] == "\t")]
        text = " ".join(words).replace(" \t ", "\t")
    return text


def _with_weights(answer: Answer, row: int) -> Answer:
    """An answer with how much the place that it was told from looked at all tokens: in the last layer, mean of heads."""
    seen = answer.look()
    weights = seen[seen.names[-1]].weights(rows=slice(row, row + 1))[0].float().mean(0).cpu()
    return replace(answer, written=(answer.text,), weights=weights)


def _order(run: Run, text: str, ask: TextRankAsk) -> Answer:
    """Whether the second sentence follows the first."""
    tokens, segments = _arranged(run, text, 1)
    shares = run.model(tokens, None, segments).follows.float().softmax(-1)[0].tolist()
    follows = shares[1] >= shares[0]
    read = tuple(run.known.tokenizer.token(token) for token in tokens[0].tolist())
    told = "follows" if follows else "does not follow"
    labels = partial(_labels_of, run, text, tokens[0].tolist(), (told, max(shares)), (int(follows),))
    replay = partial(run.look, tokens, None, segments, labels=labels, explained=Explained(attrgetter("follows")))
    answer = Answer(text, told, max(shares), read=read, replay=replay)
    return _with_weights(answer, 0) if ask.aligned else answer


def _likeliest(run: Run, text: str, count: int) -> list[tuple[str, float]]:
    """The likeliest tokens for the gap, with their probabilities."""
    tokens, segments = _arranged(run, text, 1)
    shares = run.model(tokens, None, segments).words[0, tokens[0] == MASK][0].float().softmax(-1)
    shares[:SPECIAL] = 0
    top = shares.topk(min(count, len(shares)))
    return [
        (run.known.tokenizer.decode([token]), share)
        for token, share in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def _candidates(run: Run, text: str, words: Sequence[str]) -> list[tuple[str, float]]:
    """The given words with their probabilities, best first; of several tokens, the geometric mean counts."""
    found = []
    for word in words:
        ids = run.known.tokenizer.encode(word)
        require(len(ids) > 0, f"candidate {word!r} is empty")
        tokens, segments = _arranged(run, text, len(ids))
        scores = run.model(tokens, None, segments).words[0, tokens[0] == MASK].float().log_softmax(-1)
        mean = scores[torch.arange(len(ids)), torch.tensor(ids, device=scores.device)].mean()
        found.append((word, float(mean.exp())))
    return sorted(found, key=lambda pair: -pair[1])
