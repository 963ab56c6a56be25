"""tag: a text in, its words with their tags out: names of persons and places, dates, parts of speech.

An answer imports no more than it needs: what reads files, measures, labels and draws is imported where it is used.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mirada.data.batching import EncodedRecords, Microbatch, in_order, pad
from mirada.data.record import Found, Problem, Record, too_long
from mirada.data.text.tokenize import Tokenizer, Vocabulary, expected_vocab
from mirada.errors import require
from mirada.layers.model import Model
from mirada.layers.output import IGNORED
from mirada.models.encoder import TextEncoder
from mirada.runs.answers import Answer
from mirada.runs.ask import CutAsk
from mirada.runs.choice import BudgetChoice, SequenceCost, affordable
from mirada.runs.inputs import Question, Questions
from mirada.runs.run import Run
from mirada.runs.sources import SETS, Source, Splits, TrainingRecords, numbered, splits_of
from mirada.runs.task import Preset, TextTask
from mirada.tasks.tag.schemes import (
    OUTSIDE,
    SCHEMES,
    bio,
    label_counts,
    label_of,
    per_label,
    scheme_of,
    span_metrics,
    spans_of,
)
from mirada.tasks.tag.sentences import TaggedText, TagOptions, joined, normalized, read_tagged, read_untagged, words_of
from mirada.training.objectives import Objective
from mirada.training.recipe import Recipe
from mirada.words import plural, shortened

if TYPE_CHECKING:
    from mirada.drawing.page import Section
    from mirada.looking.labels import Labels
    from mirada.looking.record import Seen

READ_AT_ONCE = 8192  # tokens
LISTED = 10  # labels that an error names
RANKED = 5  # likeliest tags that are shown of a word
SIZES = (
    SequenceCost({"width": 96, "hidden": 192, "depth": 2}, 0.04),
    SequenceCost({"width": 128, "hidden": 256, "depth": 3}, 0.10, seen=1.5e6, data=1e5),
    SequenceCost({"width": 192, "hidden": 384, "depth": 4}, 0.22, seen=4e6, data=4e5),
)
Tagged = tuple[
    list[int], list[int], list[int]
]  # tokens of a text, the place of each word in them, the number of its tag


@dataclass(frozen=True)
class TagVocabulary(Vocabulary):
    """A tokenizer, the tags in their order, and the scheme that they were written in."""

    scheme: str = "bio"
    hide: float = 0.0  # share of the tokens that are hidden in training

    @property
    def plain(self) -> bool:
        """Whether every word is a span of its own, as parts of speech are."""
        return self.scheme == "plain"

    @property
    def learned_scheme(self) -> str:
        """The scheme of the tags that are learned and answered."""
        return "plain" if self.plain else "bio"

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"scheme": self.scheme, "hide": self.hide}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], paths: Mapping[str, Path]) -> Self:
        scheme = facts.get("scheme", "bio")
        require(scheme in SCHEMES, f"the scheme in config.json must be one of {', '.join(SCHEMES)}")
        hide = facts.get("hide", 0.0)
        require(isinstance(hide, float) and 0 <= hide <= 1, "hide in config.json must be a share from 0 to 1")
        return replace(super().restore(facts, paths), scheme=scheme, hide=hide)


class TagLoss(Objective):
    """The cross-entropy of the right tag of every word; the best weights are those with the fewest wrong tags.

    While a model learns, some tokens are taken for unknown ones, those of `hidden` at random: names that nobody has seen are
    told by the words around them.
    """

    selection_metrics = ("error",)

    def forward(self, **inputs: Any) -> Float[Tensor, " terms"]:
        """The mean loss over the words of one part."""
        hidden = inputs.pop("hidden", None)
        if hidden is not None and self.training:
            tokens, shares = inputs["tokens"], torch.rand(hidden.shape, device=hidden.device)
            inputs["tokens"] = torch.where(shares < hidden, inputs.pop("unknown"), tokens)
        inputs.pop("unknown", None)
        return self._both(**inputs)[:1]

    def validate(self, **inputs: Any) -> Float[Tensor, " terms_and_judged"]:
        for name in ("hidden", "unknown"):
            inputs.pop(name, None)
        return self._both(**inputs)

    def _both(self, wanted: Tensor, **inputs: Any) -> Float[Tensor, " two"]:
        real = wanted != IGNORED
        scores, right = self.model(**inputs)[real], wanted[real]
        loss = F.cross_entropy(scores, right, label_smoothing=self.smoothing)
        return torch.stack([loss, (scores.argmax(-1) != right).to(loss.dtype).mean()])

    def quality(self, rank: tuple[float, float]) -> str:
        return f"{100 * (1 - rank[0]):.1f} % of the valid tags right"


class Tag(TextTask[Any, TaggedText, TagVocabulary]):
    """Tag the words of a text with an encoder: spans with a label, or a tag for every word."""

    name = "tag"
    Data = TagOptions
    Ask = CutAsk
    Known = TagVocabulary
    input_columns = ("text",)
    tuned_data: ClassVar[Mapping[str, Any]] = {"hide": 0.0}
    repeats = True  # the same short sentence stands in many parts of such data
    preview_examples = 200
    plain_words: ClassVar[Mapping[str, str]] = {"frequent": "the most frequent tag of each word"}
    presets: ClassVar[Mapping[str, Preset]] = {
        "encoder": Preset(
            TextEncoder,
            {
                "head": "tags",
                "position": "rotary",
                "order": "pre",
                "norm": "layer",
                "segments": 0,
                "input_norm": "none",
            },
        ),
    }

    def defaults(self, model: str, source: Source, minutes: float) -> dict[str, dict[str, Any]]:
        sizes = {"width": 96, "hidden": 192, "depth": 2, "dropout": 0.1}
        recipe = {"batch_tokens": 1024, "warmup": 50, "lr": 2e-3, "patience": 8.0, "smoothing": 0.0}
        if source.builtin:
            return {
                "model": sizes | {"dropout": 0.2},
                "recipe": recipe | {"epochs": 9},
                "data": {"vocab": 300, "hide": 0.3},
            }
        return {"model": sizes, "recipe": recipe}

    def choose(self, model: str, splits: Splits[TaggedText], options: TagOptions, minutes: float) -> BudgetChoice:
        if splits.builtin or (splits.problems and options.bad == "stop"):
            return BudgetChoice()
        words = sum(len(record.value.words) for record in splits.train)
        tokens = 1.4 * words  # a word has a piece or two
        found = affordable(SIZES, tokens, minutes, epochs=15)
        own = {"dropout": found.by_epochs(0.1, (20, 0.2), (60, 0.3))}
        texts = [record.value.text for record in splits.train[:1000]]
        recipe = {"warmup": found.warmup(1024)}
        what = f"{plural(len(splits.train), 'text')} of {words:,} words"
        return found.choice(own, recipe, expected_vocab(texts, tokens, options.tokenizer), what)

    # from texts to examples

    def read(self, source: Source, options: TagOptions) -> Splits[TaggedText]:
        if source.builtin:
            return _builtin()

        def read(place: Any) -> Found[TaggedText]:
            return read_tagged(place, options)

        splits = splits_of(source, read, options, group=lambda value: value.text)
        sets, _, line = normalized({name: getattr(splits, name) for name in SETS}, options.scheme)
        known = {label for record in sets["train"] for label in _labels_in(record.value, options.scheme)}
        held = [*sets["valid"], *sets["test"]]
        unseen = [*splits.problems, *(_unseen(held, known, options.scheme) if known else ())]
        there = {record.value.text for record in sets["train"]}
        again = sum(record.value.text in there for record in held)
        verb = "stands" if again == 1 else "stand"
        notes = [*splits.notes, *([line] if line else [])]
        notes += [f"{plural(again, 'text')} to measure with {verb} in the training data as well"] if again else []
        return Splits(sets["train"], sets["valid"], sets["test"], problems=unseen, notes=notes)

    def identity(self, value: TaggedText) -> bytes:
        return "\x1f".join((value.text, *value.tags, str(value.words))).encode(errors="surrogatepass")

    def as_read(self, value: TaggedText, known: TagVocabulary) -> Hashable:
        return known.tokenizer.plain(value.text)

    def learn(
        self, splits: Splits[TaggedText], options: TagOptions, start: Vocabulary | None
    ) -> TagVocabulary:  # fmt: skip
        every = [record.value.tags for record in splits.train]
        scheme = options.scheme or ("plain" if scheme_of(every) == "plain" else "bio")
        tags = {tag for row in every for tag in row}
        labels = sorted({label_of(tag, scheme == "plain") for tag in tags} - {""})
        require(bool(labels), "a tagger needs tags: all words are O. Is it the right column (column=)?")
        one = f"a tagger needs at least two tags: all words have {labels[0]!r}. Is it the right column (column=)?"
        require(len(tags) > 1, one)
        ordered = labels if scheme == "plain" else [OUTSIDE, *(f"{p}-{label}" for label in labels for p in "BI")]
        texts = (record.value.text for record in splits.train)
        return replace(TagVocabulary.learn(texts, options, start, ordered), scheme=scheme, hide=options.hide)

    def options_for_new_data(self, options: TagOptions, known: TagVocabulary) -> TagOptions:
        """Tags of new data may be written in another scheme, but plain tags stay plain."""
        return replace(options, scheme=options.scheme or ("plain" if known.plain else ""))

    def sizes(self, known: TagVocabulary) -> dict[str, Any]:
        return {"vocab": len(known), "classes": len(known.labels)}

    def examples(
        self, records: Sequence[Record[TaggedText]], known: TagVocabulary, config: Any
    ) -> EncodedRecords[Tagged]:
        numbers = {tag: number for number, tag in enumerate(known.labels)}
        items = [
            (*_encoded(known.tokenizer, record.value), [numbers.get(tag, IGNORED) for tag in record.value.tags])
            for record in records
        ]
        return EncodedRecords(items, [(len(item[0]),) for item in items], partial(collate, known=known))

    def problems(self, records: Sequence[Record[TaggedText]], examples: Any, config: Any) -> list[Problem]:
        longest = max([size for (size,) in examples.lengths], default=0)
        way_out = f"Take a longer length (length={longest}), or split the text into sentences."
        return too_long(records, examples.lengths, config.length, ("text",), way_out)

    def objective(self, model: Model, recipe: Recipe) -> TagLoss:
        return TagLoss(model, recipe.smoothing)

    # from a text to its spans

    def answer(self, run: Run, inputs: Sequence[Any], ask: CutAsk) -> list[Answer]:
        values = [given if isinstance(given, TaggedText) else TaggedText(given, words_of(given)) for given in inputs]
        items = []
        for value in values:
            require(bool(value.words), f"there is nothing to tag in {value.text[:60]!r}")
            tokens, places = _encoded(run.known.tokenizer, value)
            items.append((run.known.fitted(tokens, run.model.config.length, value.text, ask.truncate), places))
        shares = _tag_shares(run, [tokens for tokens, _ in items])
        return [_answered(run, *each) for each in zip(values, items, shares, strict=True)]

    def questions(self, run: Run, place: str) -> Questions:
        from mirada.data.files.forms import CONLL, form_of

        if form_of(place) is not CONLL:
            return super().questions(run, place)
        options = run.reading
        assert isinstance(options, TagOptions)
        records = read_untagged(place, options)
        return Questions(("text",), [Question(each.where, each.value, (each.value.text,)) for each in records])

    def samples(self, run: Run, splits: Splits[TaggedText]) -> list[str]:
        from mirada.runs.task import SAMPLES, sample_evenly

        return [record.value.text for record in sample_evenly(splits.test or splits.valid, SAMPLES)]

    def length(self, value: TaggedText) -> int:
        return len(value.words)

    def amount(self, records: Sequence[Record[TaggedText]]) -> str:
        return f"{plural(len(records), 'text')} ({sum(len(record.value.words) for record in records):,} words)"

    # from spans to a report

    def measure(
        self, run: Run, records: Sequence[Record[TaggedText]]
    ) -> tuple[dict[str, float], list[Answer]]:  # fmt: skip
        answers = run.answers([record.value for record in records])
        wanted = [record.value.tags for record in records]
        return span_metrics([answer.value for answer in answers], wanted, run.known.learned_scheme), answers

    def details(self, run: Run, records: Sequence[Record[TaggedText]], answers: Sequence[Answer]) -> dict[str, Any]:
        wanted = [record.value.tags for record in records]
        found = per_label(label_counts([answer.value for answer in answers], wanted, run.known.learned_scheme))
        return {"labels": list(found), "per_class": found}

    def in_a_sentence(self, metrics: Mapping[str, float], details: Mapping[str, Any]) -> str:
        plain = metrics.get("accuracy_frequent")
        beside = "" if plain is None else f", {plain:.0f} by the most frequent tag of each word"
        spans = ""
        if "f1" in metrics:
            spans = (
                f"{metrics['recall']:.0f} of 100 spans found, {metrics['precision']:.0f} of 100 answered ones right; "
            )
        return f"{spans}{metrics['accuracy']:.0f} of 100 words tagged right{beside}"

    def baselines(
        self, run: Run, learned: TrainingRecords, records: Sequence[Record[TaggedText]]
    ) -> dict[str, float]:  # fmt: skip
        """The tag that each word has most often; of a word that was never seen, the most frequent tag of all."""
        usual, rare = frequent_tags(record.value for record in learned())
        given = [_of_words(record.value, usual, rare) for record in records]
        wanted, scheme = [record.value.tags for record in records], run.known.learned_scheme
        metrics = span_metrics([bio(row, scheme) for row in given], wanted, scheme)
        return {f"{name}_frequent": value for name, value in metrics.items() if name in ("f1", "accuracy")}

    def sections(
        self, run: Run, records: Sequence[Record[TaggedText]], answers: Sequence[Answer]
    ) -> "list[Section]":  # fmt: skip
        from mirada.tasks.tag.report import sections

        return sections(run, records, answers)


def _builtin() -> Splits[TaggedText]:
    """Sentences with persons, places and dates, drawn by code."""
    from mirada.corpora.travels import travels

    sets = {name: numbered(name, (joined(*row) for row in rows)) for name, rows in travels().items()}
    return Splits(sets["train"], sets["valid"], sets["test"])


def _labels_in(value: TaggedText, scheme: str) -> set[str]:
    """The labels of a text."""
    return {label_of(tag, scheme == "plain") for tag in value.tags} - {""}


def _unseen(records: Sequence[Record[TaggedText]], known: set[str], scheme: str) -> list[Problem]:
    """The records with a label that does not occur in training."""
    shown = ", ".join(sorted(known)[:LISTED]) + (", ..." if len(known) > LISTED else "")
    missing = ((record.where, sorted(_labels_in(record.value, scheme) - known)) for record in records)
    return [
        Problem(where, f"tag {new[0]!r} does not occur in training; known: {shown}") for where, new in missing if new
    ]


# From words to tokens and back.


def _encoded(tokenizer: Tokenizer, value: TaggedText) -> tuple[list[int], list[int]]:
    """The tokens of a text, and for each word the place of its first token, or of the token that covers it with others."""
    pieces = tokenizer.pieces(value.text)
    require(bool(pieces), f"a text has no token that the model knows: {shortened(value.text)!r}")
    ids = [piece.id for piece in pieces]
    tokens, _ = tokenizer.framed(ids)
    before = next(place for place in range(len(tokens)) if tokens[place : place + len(ids)] == ids)
    places, now = list[int](), 0
    for start, _ in value.words:
        while now < len(pieces) - 1 and pieces[now].end <= start:
            now += 1
        places.append(before + now)
    return tokens, places


def collate(items: list[Tagged], known: TagVocabulary) -> Microbatch:
    """A padded batch of texts and, at the first token of every word, the tag that is wanted."""
    tokenizer = known.tokenizer
    tokens, lengths = pad([text for text, _, _ in items], tokenizer.filler)
    wanted = torch.full(tokens.shape, IGNORED)
    for row, (_, places, tags) in enumerate(items):
        for place, tag in reversed(list(zip(places, tags, strict=True))):  # of words in one token, the first
            if place < int(lengths[row]):
                wanted[row, place] = tag
    count = int((wanted != IGNORED).sum())
    inputs = {"tokens": tokens, "lengths": lengths, "wanted": wanted}
    if known.hide and tokenizer.unknown >= 0:
        special = torch.tensor(sorted(tokenizer.special))
        inputs |= {"hidden": known.hide * ~torch.isin(tokens, special), "unknown": torch.tensor(tokenizer.unknown)}
    return Microbatch(inputs, (count,), int(lengths.sum()))


def _tag_shares(run: Run, items: Sequence[list[int]]) -> list[Float[Tensor, "length tags"]]:
    """The probabilities of the tags at every token, computed in batches of texts of similar lengths."""
    shares: list[Any] = [None] * len(items)
    for rows in in_order([(len(item),) for item in items], READ_AT_ONCE):
        tokens, lengths = pad([items[row] for row in rows], run.known.tokenizer.filler)
        scores = run.model(tokens.to(run.device), lengths.to(run.device)).float().softmax(-1).cpu()
        for row, own in zip(rows, scores, strict=True):
            shares[row] = own[: len(items[row])]
    return shares


class Word(NamedTuple):
    """A word of an answer: its place in the text, its tag and the tag's probability."""

    start: int
    end: int
    tag: str
    share: float


def _answered(
    run: Run, value: TaggedText, item: tuple[list[int], list[int]], shares: Float[Tensor, "length tags"]
) -> Answer:  # fmt: skip
    """The spans of a text; words beyond what was read have no tag."""
    known: TagVocabulary = run.known
    tokens, places = item
    best = shares.max(-1)
    numbers, values = best.indices.tolist(), best.values.tolist()
    read = [place for place in places if place < len(tokens)]
    tags = [known.labels[numbers[place]] for place in read]
    for row in range(1, len(read)):  # a token of two words: they are of one span
        if read[row] == read[row - 1] and tags[row].startswith("B-") and not known.plain:
            tags[row] = f"I-{tags[row][2:]}"
    tags = list(bio(tags, known.learned_scheme))
    words = [
        Word(*where, tag, values[place]) for where, tag, place in zip(value.words, tags, read, strict=False)
    ]  # fmt: skip
    spans = [
        {
            "start": words[first].start, "end": words[last].end, "label": label,
            "text": value.text[words[first].start : words[last].end],
            "score": math.prod(word.share for word in words[first : last + 1]),
        }
        for first, last, label in spans_of(tags, known.learned_scheme)
    ]  # fmt: skip
    cut = len(value.words) - len(read)
    note = f"{plural(cut, 'word')} at the end of the text not read" if cut else ""
    score = sum(word.share for word in words) / max(1, len(words))
    outside = "" if known.plain else OUTSIDE
    return Answer(
        value.text, marked(value.text, spans), score, (*tags, *[outside] * cut), more={"spans": spans}, note=note,
        read=tuple(value.text[word.start : word.end] for word in words),
        replay=partial(_look, run, value.text, tokens, marked(value.text, spans), score),
    )  # fmt: skip


def marked(text: str, spans: Sequence[Mapping[str, Any]]) -> str:
    """A text whose spans have their labels behind them; those of several words are in brackets.

    >>> spans = [{"start": 0, "end": 7, "label": "PER"}, {"start": 13, "end": 17, "label": "LOC"}]
    >>> marked("Ana Gil left Oslo.", spans)
    '[Ana Gil]/PER left Oslo/LOC.'
    """
    parts, end = list[str](), 0
    for span in spans:
        inner = " ".join(text[span["start"] : span["end"]].split())
        several = len(inner.split()) > 1
        parts += [text[end : span["start"]], f"[{inner}]" if several else inner, f"/{span['label']}"]
        end = span["end"]
    return "".join([*parts, text[end:]])


def _look(run: Run, text: str, tokens: list[int], answer: str, score: float, methods: bool = False) -> "Seen":
    """All attention while a text is read."""
    return run.look(
        torch.tensor([tokens]), labels=partial(_tag_labels, run, text, tokens, answer, score), methods=methods
    )


def _tag_labels(
    run: Run, text: str, tokens: list[int], answer: str, score: float, scores: Float[Tensor, "batch length tags"]
) -> "Labels":  # fmt: skip
    """The axis labels: the tokens of the text. From every row a tag is answered."""
    from mirada.looking.labels import Labels, WrittenStep, read_axis

    axis = read_axis(run.known.tokenizer, text, tokens)
    shares = scores[0].float().softmax(-1).cpu()
    top = shares.topk(min(RANKED, shares.shape[-1]))
    steps = []
    for row in range(len(tokens)):
        if axis.spans[row] is None:
            continue
        ranked = tuple(
            (run.known.labels[number], share)
            for number, share in zip(top.indices[row].tolist(), top.values[row].tolist(), strict=True)
        )
        steps.append(WrittenStep(row, ranked[0][0], ranked[0][1], ranked, int(top.indices[row, 0])))
    return Labels(
        {"text": axis}, {"*": ("text", "text")}, {"input": shortened(text, 200)}, (answer, score), tuple(steps)
    )


# A plain baseline.


def frequent_tags(values: Any) -> tuple[dict[str, str], str]:
    """The most frequent tag of every word, and of all words.

    >>> frequent_tags([joined(["May", "is", "May"], ["B-PER", "O", "B-PER"]), joined(["May"], ["B-DATE"])])
    ({'May': 'B-PER', 'is': 'O'}, 'B-PER')
    """
    counts: dict[str, Counter[str]] = {}
    every = Counter[str]()
    for value in values:
        for (start, end), tag in zip(value.words, value.tags, strict=True):
            counts.setdefault(value.text[start:end], Counter())[tag] += 1
            every[tag] += 1
    usual = {word: min(own, key=lambda tag: (-own[tag], tag)) for word, own in counts.items()}
    return usual, min(every, key=lambda tag: (-every[tag], tag), default=OUTSIDE)


def _of_words(value: TaggedText, usual: Mapping[str, str], rare: str) -> list[str]:
    """The usual tag of every word of a text."""
    return [usual.get(value.text[start:end], rare) for start, end in value.words]
